#include "client/core/plan/plan_build.h"

#include <stdlib.h>
#include <string.h>

/* Where the value of a cell lies, and how many ranks' elements it is the sum of. */
struct build_place {
    enum plan_buffer buffer;
    uint32_t index; /* cell, or slot of scratch */
    uint32_t sum;
};

/* The step that wrote a place last, and a list of those that have read it since. */
struct build_touch {
    uint32_t writer, readers;
    uint32_t cell; /* whose value a slot of scratch holds */
};

struct build_reader {
    uint32_t step, next;
};

/* The needs of a step while they are gathered. */
#define NEEDS_GATHERED_MAX 64
struct needs {
    uint32_t n;
    uint32_t step[NEEDS_GATHERED_MAX];
};

/* ---- Steps ---- */

static void *
build_grown(struct plan_build *b, void *array, uint32_t n, uint32_t *max, size_t size)
{
    uint32_t wanted = *max == 0 ? 16 : 2 * *max;
    void *more;

    if (n < *max)
        return array;
    more = realloc(array, wanted * size);
    if (more == NULL) {
        b->err = PS_ERR_NOMEM;
        return array;
    }
    *max = wanted;
    return more;
}

static uint32_t
step_append(struct plan_build *b, const struct plan_step *s)
{
    struct plan_plan *p = b->plan;

    if (b->err != PS_OK)
        return PLAN_NONE;
    if (p->steps == PLAN_STEPS_MAX) {
        b->err = PS_ERR_LIMIT;
        return PLAN_NONE;
    }
    p->step = build_grown(b, p->step, p->steps, &b->steps_max, sizeof *p->step);
    if (b->err != PS_OK)
        return PLAN_NONE;
    p->step[p->steps] = *s;
    return p->steps++;
}

/* Whether step a is among the needs of step b. */
static bool
needs_directly(const struct plan_step *steps, uint32_t b, uint32_t a)
{
    for (int i = 0; i < PLAN_NEEDS_MAX; i++)
        if (steps[b].needs[i] == a)
            return true;
    return false;
}

/* Needs that other needs imply are left out. */
static void
needs_prune(const struct plan_build *b, struct needs *needs)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < needs->n; i++) {
        bool implied = false;

        for (uint32_t k = 0; k < needs->n && !implied; k++)
            implied = needs_directly(b->plan->step, needs->step[k], needs->step[i]);
        if (!implied)
            needs->step[kept++] = needs->step[i];
    }
    /* In the order of steps nothing is needed by what comes before it, so the order in which they are left out does not
     * matter: what is implied is so by something that is kept. */
    needs->n = kept;
}

static struct plan_step
build_step(enum plan_kind kind, uint32_t peer)
{
    struct plan_step s = {.kind = kind, .peer = peer};

    for (int i = 0; i < PLAN_NEEDS_MAX; i++)
        s.needs[i] = PLAN_NONE;
    return s;
}

/* Until they fit into one step: the first of them become one, by way of a step that does nothing. */
static void
needs_join(struct plan_build *b, struct needs *needs, uint32_t most)
{
    while (needs->n > most && b->err == PS_OK) {
        struct plan_step join = build_step(PLAN_COPY, PLAN_NONE);

        memcpy(join.needs, needs->step, sizeof join.needs);
        memmove(needs->step, needs->step + PLAN_NEEDS_MAX, (needs->n - PLAN_NEEDS_MAX) * sizeof *needs->step);
        needs->n -= PLAN_NEEDS_MAX;
        needs->step[needs->n++] = step_append(b, &join);
    }
}

static void
needs_add(struct plan_build *b, struct needs *needs, uint32_t step)
{
    if (step == PLAN_NONE)
        return;
    for (uint32_t i = 0; i < needs->n; i++)
        if (needs->step[i] == step)
            return;
    if (needs->n == NEEDS_GATHERED_MAX)
        needs_join(b, needs, NEEDS_GATHERED_MAX / 2);
    if (b->err == PS_OK)
        needs->step[needs->n++] = step;
}

static uint32_t
step_add(struct plan_build *b, struct plan_step *s, struct needs *needs)
{
    if (needs->n > 1)
        needs_prune(b, needs);
    needs_join(b, needs, PLAN_NEEDS_MAX);
    if (b->err != PS_OK)
        return PLAN_NONE;
    memcpy(s->needs, needs->step, needs->n * sizeof *needs->step);
    return step_append(b, s);
}

/* ---- Places ---- */

/* In place, in and out are one. */
static struct build_touch *
touch_of(const struct plan_build *b, struct build_place p)
{
    enum plan_buffer buffer = p.buffer == PLAN_IN && b->ask->in_place ? PLAN_OUT : p.buffer;

    return &b->touch[buffer][p.index];
}

/* A buffer that is but this rank's part begins there. */
static size_t
build_place_offset(const struct plan_build *b, struct build_place p)
{
    const struct plan_request *a = b->ask;

    if (p.buffer == PLAN_SCRATCH)
        return b->slots == 0 ? b->grid.edge[p.index] : p.index * b->slot_len;
    if ((p.buffer == PLAN_OUT && a->op == PLAN_REDUCE_SCATTER) || (p.buffer == PLAN_IN && a->op == PLAN_ALL_GATHER))
        return b->grid.edge[p.index] - ps_group_part_offset(a->count, a->ranks, a->rank);
    return b->grid.edge[p.index];
}

/* Where the value of a cell goes that is to be in `to`: where it is, if that is there already. */
static struct build_place
build_place_new(struct plan_build *b, enum plan_buffer to, uint32_t cell)
{
    struct build_place p = {.buffer = to, .index = cell};

    if (to == PLAN_SCRATCH && b->slots != 0) {
        if (b->at[cell].buffer == to)
            return b->at[cell];
        p.index = b->slot_next;
        b->slot_next = (b->slot_next + 1) % b->slots;
    }
    return p;
}

/* ---- Needs ---- */

static void
needs_of_reading(struct plan_build *b, struct build_place first, struct grid_run r, struct needs *needs)
{
    for (uint32_t i = 0; i < r.to - r.from; i++) {
        const struct build_touch *t =
            touch_of(b, (struct build_place){.buffer = first.buffer, .index = first.index + i});

        ps_assert(first.buffer != PLAN_SCRATCH || t->cell == r.from + i);
        needs_add(b, needs, t->writer);
    }
}

/* Readers have the writer among their own needs. */
static void
needs_of_writing(struct plan_build *b, struct build_place first, struct grid_run r, struct needs *needs)
{
    for (uint32_t i = 0; i < r.to - r.from; i++) {
        const struct build_touch *t =
            touch_of(b, (struct build_place){.buffer = first.buffer, .index = first.index + i});

        if (t->readers == PLAN_NONE)
            needs_add(b, needs, t->writer);
        for (uint32_t k = t->readers; k != PLAN_NONE; k = b->reader[k].next)
            needs_add(b, needs, b->reader[k].step);
    }
}

static void
touch_read(struct plan_build *b, struct build_place first, struct grid_run r, uint32_t step)
{
    for (uint32_t i = 0; i < r.to - r.from && b->err == PS_OK; i++) {
        struct build_touch *t = touch_of(b, (struct build_place){.buffer = first.buffer, .index = first.index + i});

        b->reader = build_grown(b, b->reader, b->readers, &b->readers_max, sizeof *b->reader);
        if (b->err != PS_OK)
            return;
        b->reader[b->readers] = (struct build_reader){.step = step, .next = t->readers};
        t->readers = b->readers++;
    }
}

static void
touch_write(struct plan_build *b, struct build_place first, struct grid_run r, uint32_t step)
{
    for (uint32_t i = 0; i < r.to - r.from && b->err == PS_OK; i++) {
        struct build_place p = {first.buffer, first.index + i, first.sum};

        *touch_of(b, p) = (struct build_touch){.writer = step, .readers = PLAN_NONE, .cell = r.from + i};
        b->at[r.from + i] = p;
    }
}

/* A message's cells lie in a row, and are sums of as many. */
static struct build_place
build_place_of(const struct plan_build *b, struct grid_run r)
{
    for (uint32_t c = r.from; c < r.to; c++)
        ps_assert(b->at[c].buffer == b->at[r.from].buffer && b->at[c].index - b->at[r.from].index == c - r.from &&
                  b->at[c].sum == b->at[r.from].sum);
    return b->at[r.from];
}

/* Two sums become one. */
static struct reduce_counts
counts_for(const struct plan_build *b, uint32_t own, uint32_t other)
{
    ps_assert(own >= 1 && other >= 1 && own + other <= b->ask->ranks);
    return (struct reduce_counts){(uint16_t)own, (uint16_t)other};
}

/* One step on one message: reads what it reads at *source, writes *to; either may be NULL. s: kind, peer, counts. */
static void
step_on(struct plan_build *b, struct plan_step s, struct grid_run r, const struct build_place *source,
        const struct build_place *to)
{
    struct needs needs = {0};
    uint32_t step;

    ps_assert(b->slots == 0 || r.to - r.from == 1);
    s.len = plan_grid_len(&b->grid, r);
    if (source != NULL) {
        s.buffer = s.source = source->buffer;
        s.offset = s.source_offset = build_place_offset(b, *source);
        needs_of_reading(b, *source, r, &needs);
    }
    if (to != NULL) {
        s.buffer = to->buffer;
        s.offset = build_place_offset(b, *to);
        needs_of_writing(b, *to, r, &needs);
    }
    step = step_add(b, &s, &needs);
    if (source != NULL)
        touch_read(b, *source, r, step);
    if (to != NULL)
        touch_write(b, *to, r, step);
}

/* ---- What algorithms call ---- */

struct grid_run
build_pieces(const struct plan_build *b, uint32_t from, uint32_t to)
{
    return b->err == PS_OK ? plan_grid_run(&b->grid, from, to) : (struct grid_run){0, 0};
}

bool
build_next(const struct plan_build *b, struct grid_run *rest, struct grid_run *message)
{
    if (b->err == PS_OK)
        return plan_grid_next(&b->grid, rest, message);
    *message = (struct grid_run){rest->from, rest->from};
    return false;
}

void
build_send(struct plan_build *b, uint32_t peer, struct grid_run r)
{
    struct grid_run m;

    while (build_next(b, &r, &m)) {
        struct build_place from = build_place_of(b, m);

        step_on(b, build_step(PLAN_SEND, peer), m, &from, NULL);
    }
}

void
build_receive_sum(struct plan_build *b, uint32_t peer, struct grid_run r, enum plan_buffer to, uint32_t sum)
{
    struct grid_run m;

    while (build_next(b, &r, &m)) {
        struct build_place place = build_place_new(b, to, m.from);

        place.sum = sum;
        step_on(b, build_step(PLAN_RECEIVE, peer), m, NULL, &place);
    }
}

void
build_receive(struct plan_build *b, uint32_t peer, struct grid_run r, enum plan_buffer to)
{
    build_receive_sum(b, peer, r, to, b->ask->ranks);
}

void
build_receive_reduce(struct plan_build *b, uint32_t peer, struct grid_run r, enum plan_buffer to, uint32_t sum)
{
    struct grid_run m;

    while (build_next(b, &r, &m)) {
        struct build_place from = build_place_of(b, m), place = build_place_new(b, to, m.from);
        struct plan_step s = build_step(PLAN_RECEIVE_REDUCE, peer);

        s.counts = counts_for(b, from.sum, sum);
        place.sum = from.sum + sum;
        step_on(b, s, m, &from, &place);
    }
}

void
build_copy(struct plan_build *b, struct grid_run r, enum plan_buffer to)
{
    struct grid_run m;

    while (build_next(b, &r, &m)) {
        struct build_place from = build_place_of(b, m), place = build_place_new(b, to, m.from);

        place.sum = from.sum;
        if (touch_of(b, from) != touch_of(b, place))
            step_on(b, build_step(PLAN_COPY, PLAN_NONE), m, &from, &place);
        else
            for (uint32_t c = m.from; c < m.to; c++)
                b->at[c] = (struct build_place){to, place.index + (c - m.from), from.sum};
    }
}

bool
build_lies_in(const struct plan_build *b, struct grid_run r, enum plan_buffer where)
{
    return b->err == PS_OK && r.from < r.to &&
           touch_of(b, b->at[r.from]) == touch_of(b, (struct build_place){.buffer = where, .index = r.from});
}

void
build_reduce_local(struct plan_build *b, struct grid_run r, enum plan_buffer source)
{
    struct grid_run m;

    while (build_next(b, &r, &m)) {
        struct build_place from = {source, m.from, 1}, to = build_place_of(b, m);
        struct plan_step s = build_step(PLAN_REDUCE_LOCAL, PLAN_NONE);

        s.counts = counts_for(b, to.sum, 1);
        to.sum++;
        step_on(b, s, m, &from, &to);
    }
}

void
build_scale(struct plan_build *b, struct grid_run r)
{
    struct grid_run m;

    while (b->ask->mean && build_next(b, &r, &m)) {
        struct build_place at = build_place_of(b, m);

        ps_assert(at.sum == b->ask->ranks);
        step_on(b, build_step(PLAN_SCALE, PLAN_NONE), m, NULL, &at);
    }
}

uint32_t
build_signal(struct plan_build *b, enum plan_kind kind, uint32_t peer, uint32_t need)
{
    struct plan_step s = build_step(kind, peer);
    struct needs needs = {0};

    s.buffer = s.source = PLAN_OUT;
    needs_add(b, &needs, need);
    return step_add(b, &s, &needs);
}

enum plan_buffer
build_aside(const struct plan_build *b)
{
    if (b->ask->op == PLAN_ALL_REDUCE)
        return PLAN_OUT;
    return b->ask->op == PLAN_REDUCE_SCATTER && b->ask->in_place ? PLAN_IN : PLAN_SCRATCH;
}

/* ---- The grid ---- */

void
build_grid(struct plan_build *b, uint32_t pieces)
{
    enum plan_buffer begin = b->ask->op == PLAN_BROADCAST ? PLAN_OUT : PLAN_IN;
    bool reduces = b->ask->op != PLAN_BROADCAST && b->ask->op != PLAN_ALL_GATHER;
    size_t segment = MAX(b->plan->segment_bytes / b->ask->size, (size_t)1), cells;

    if ((b->err = plan_grid_make(&b->grid, b->ask->count, pieces, segment)) != PS_OK)
        return;
    cells = b->grid.cells;
    b->at = malloc((cells + 1) * sizeof *b->at);
    for (int k = 0; k < 3; k++)
        b->touch[k] = malloc((cells + 1) * sizeof **b->touch);
    if (!b->at || !b->touch[0] || !b->touch[1] || !b->touch[2]) {
        b->err = PS_ERR_NOMEM;
        return;
    }
    for (uint32_t c = 0; c < cells; c++) {
        b->at[c] = (struct build_place){begin, c, reduces ? 1 : b->ask->ranks};
        for (int k = 0; k < 3; k++)
            b->touch[k][c] = (struct build_touch){.writer = PLAN_NONE, .readers = PLAN_NONE, .cell = PLAN_NONE};
    }
}

/* As many slots as cells would be the whole: then that is what it is. */
void
build_window(struct plan_build *b, uint32_t slots)
{
    if (b->err != PS_OK || slots >= b->grid.cells)
        return;
    b->slots = slots;
    b->slot_len = plan_grid_widest(&b->grid);
}

void
build_finish(struct plan_build *b)
{
    plan_grid_finish(&b->grid);
    free(b->at);
    for (int k = 0; k < 3; k++)
        free(b->touch[k]);
    free(b->reader);
    *b = (struct plan_build){0};
}
