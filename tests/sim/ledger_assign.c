/* Assigns: values that workers give for some variables, in all blocks or in none.
 *
 * The ledger knows the values of each assign by its id. A number is the cores' name for an attempt at it; whose it is,
 * the values tell that wait in a shard's store. A block's head has the number of the newest assign that is in it, and
 * from these values on gradients are counted anew (async, ssp), or steps are taken on (sync).
 *
 * It checks
 *   - each commit: a number is of one assign, on all shards; a block takes what waited for it, each once;
 *   - each pull: of any two blocks for which an assign has values, both have it or neither has; and one that was done
 *     before the pull began is in it;
 *   - at the end: an assign that is in one block is in all, or waits there for its clock; one that was done is in all;
 *     one that was given up is in none; and none was done twice. */
#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/optimizer/optimizer.h"
#include "tests/sim/ledger_state.h"

/* ---- What workers do ---- */

uint32_t
ledger_assign(struct ledger *l, uint32_t task, uint32_t first, uint32_t n, bool reset_slots)
{
    l->assigns = sim_grow(l->assigns, &l->assigns_room, l->assigns_len, sizeof *l->assigns);
    l->assigns[l->assigns_len++] = (struct ledger_assign_state){
        .task = task, .first = first, .vars = n, .reset_slots = reset_slots, .outcome = PUSH_OPEN};
    return (uint32_t)l->assigns_len; /* from 1 */
}

void
ledger_assign_values(const struct ledger *l, uint32_t id, uint32_t var, float *out)
{
    const struct layout *layout = &l->model->vars[var].layout;

    for (uint64_t b = 0; b < layout->blocks; b++)
        model_assigned_block(l->model, var, id, (uint32_t)b, out + layout_block(layout, b).first);
}

void
ledger_assign_done(struct ledger *l, uint32_t id, enum ps_err result, uint64_t clock)
{
    struct ledger_assign_state *a = &l->assigns[id - 1];

    ps_assert(a->outcome == PUSH_OPEN);
    if (result == PS_OK)
        a->outcome = PUSH_COUNTED;
    else if (result == PS_ERR_CANCELLED || result == PS_ERR_LIMIT || result == PS_ERR_FULL)
        a->outcome = PUSH_NOT_COUNTED;
    else
        a->outcome = PUSH_UNKNOWN;
    a->clock = clock;
    a->done_us = l->sim->now_us;
    a->losses = l->losses;
    l->counts.assigns += result == PS_OK;
}

/* ---- Numbers ---- */

static struct ledger_number *
number_find(struct ledger *l, uint64_t number)
{
    for (size_t i = 0; i < l->numbers_len; i++)
        if (l->numbers[i].number == number)
            return &l->numbers[i];
    return NULL;
}

/* The assign with these values for the block; 0: there is none. */
static uint32_t
assign_of_values(const struct ledger *l, const struct block_state *b, const float *values)
{
    float *own = sim_alloc(b->len * sizeof *own);
    uint32_t id = (uint32_t)l->assigns_len;

    for (; id > 0; id--) {
        const struct ledger_assign_state *a = &l->assigns[id - 1];

        if (b->var < a->first || b->var >= a->first + a->vars)
            continue;
        model_assigned_block(l->model, b->var, id, b->number, own);
        if (memcmp(own, values, b->len * sizeof *own) == 0)
            break;
    }
    free(own);
    return id;
}

static struct ledger_number *
number_seen(struct ledger *l, uint64_t number, uint32_t id)
{
    struct ledger_number *x = number_find(l, number);

    if (x != NULL && x->id != id)
        sim_fail(l->sim, "number %" PRIu64 " is of two assigns: %u and %u", number, x->id, id);
    if (x != NULL)
        return x;
    l->numbers = sim_grow(l->numbers, &l->numbers_room, l->numbers_len, sizeof *l->numbers);
    x = &l->numbers[l->numbers_len++];
    *x = (struct ledger_number){.number = number, .id = id};
    return x;
}

/* ---- A shard's store ---- */

struct assign_visit {
    struct ledger *l;
    uint32_t shard;
};

static struct ledger_staged *
block_staged(const struct block_state *b, uint64_t number)
{
    for (size_t i = 0; i < b->staged_len; i++)
        if (b->staged[i].number == number)
            return &b->staged[i];
    return NULL;
}

/* A value that came again has come under the rate of then. */
static void
note_rate(struct ledger *l, const struct block_state *b, struct ledger_staged *x, float came)
{
    const struct in_force *rate = &l->rates[b->shard][b->var];

    if (x->number <= b->assign || (double)came == x->rate)
        return;
    x->rate = (double)came;
    if (l->epoch[b->shard] == 0 && came != (float)rate->now && came != (float)rate->was)
        sim_fail(l->sim, "%s has values waiting that came under a learning rate of %g, and it was %g or %g",
                 ledger_block_name(l, b), (double)came, rate->now, rate->was);
}

static bool
visit_staged(void *arg, const struct store_key *key, struct span value)
{
    struct assign_visit *v = arg;
    struct ledger *l = v->l;
    const struct id_table *ids = &l->ids[v->shard];
    const struct block_head *head = value.data;
    struct ledger_staged *staged;
    struct block_state *b;
    uint32_t id;

    if (key->var >= ids->len || ids->var[key->var] == 0)
        return true;
    b = &l->vars[ids->var[key->var] - 1].blocks[key->block];
    if ((staged = block_staged(b, head->version)) != NULL) {
        note_rate(l, b, staged, head->rate);
        return !l->sim->failed;
    }
    if ((id = assign_of_values(l, b, (const float *)(head + 1))) == 0) {
        sim_fail(l->sim, "%s has values waiting that nobody gave", ledger_block_name(l, b));
        return false;
    }
    (void)number_seen(l, head->version, id);
    b->staged = sim_grow(b->staged, &b->staged_room, b->staged_len, sizeof *b->staged);
    b->staged[b->staged_len] = (struct ledger_staged){head->version, NAN};
    note_rate(l, b, &b->staged[b->staged_len++], head->rate);
    return !l->sim->failed;
}

/* What is done stays known: nothing was lost that was on a disk, or no disk syncs. */
static bool
done_is_kept(const struct ledger *l)
{
    return l->losses == 0 || (!l->disk_failed && l->restored_len == 0);
}

/* The number is done on the shard. */
static void
number_done(struct ledger *l, uint32_t shard, uint64_t number)
{
    struct ledger_number *x = number_find(l, number);
    struct ledger_number *other;

    if (x == NULL || x->done[shard])
        return;
    x->done[shard] = x->ever = true;
    sim_trace(l->sim, "s%u > assign %u number %" PRIu64, shard, x->id, number);
    for (size_t i = 0; i < l->numbers_len; i++) {
        other = &l->numbers[i];
        if (other->id == x->id && other->number != number && other->done[shard] && done_is_kept(l))
            sim_fail(l->sim, "s%u does assign %u twice", shard, x->id);
    }
}

static bool
visit_row(void *arg, struct span key, struct span value)
{
    struct assign_visit *v = arg;
    struct ledger *l = v->l;
    Psd__JobRow *row;

    if (!ledger_of_job(l, v->shard, key))
        return true;
    row = psd__job_row__unpack(NULL, value.len, value.data);
    ps_assert(row != NULL);
    for (size_t i = 0; row->assigns != NULL && i < row->assigns->n_slot; i++) {
        const Psd__AssignRow *slot = row->assigns->slot[i];

        if (slot->state == ASSIGN_STAGING)
            continue;
        l->waiting[v->shard][l->waiting_len[v->shard]++] = slot->number;
        if (slot->state == ASSIGN_COMMITTED)
            number_done(l, v->shard, slot->number);
    }
    psd__job_row__free_unpacked(row, NULL);
    return true;
}

void
ledger_assigns_look(struct ledger *l, uint32_t shard, struct store *store)
{
    struct store_key from = {.generation = STORE_GENERATION_STAGED};
    struct assign_visit v = {l, shard};
    enum ps_err err = store->ops->each_block_from(store, &from, visit_staged, &v);

    ps_assert(err == PS_OK);
    l->waiting_len[shard] = 0;
    err = store->ops->each_row(store, STORE_JOBS, visit_row, &v);
    ps_assert(err == PS_OK);
}

/* ---- Blocks ---- */

static int
number_compare(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

    return a < b ? -1 : a > b;
}

size_t
ledger_assigns_taken(struct ledger *l, struct block_state *b, uint64_t newest,
                     struct ledger_taken taken[LEDGER_TAKEN_MAX])
{
    uint64_t numbers[LEDGER_TAKEN_MAX];
    struct ledger_number *x;
    size_t n = 0;

    if (newest == b->assign)
        return 0;
    if (block_staged(b, newest) == NULL) {
        sim_fail(l->sim, "%s has taken number %" PRIu64 ", which had no values for it", ledger_block_name(l, b),
                 newest);
        return 0;
    }
    number_done(l, b->shard, newest);
    for (size_t i = 0; i < b->staged_len; i++) {
        x = number_find(l, b->staged[i].number);
        if (x->number <= b->assign || x->number > newest || !x->done[b->shard])
            continue;
        ps_assert(n < LEDGER_TAKEN_MAX);
        numbers[n++] = x->number;
    }
    qsort(numbers, n, sizeof *numbers, number_compare);
    for (size_t i = 0; i < n; i++)
        taken[i] = (struct ledger_taken){
            .number = numbers[i], .id = number_find(l, numbers[i])->id, .rate = block_staged(b, numbers[i])->rate};
    return n;
}

void
ledger_assign_apply(const struct ledger *l, const struct block_state *b, const struct ledger_taken *taken, uint32_t n,
                    float *arrays)
{
    struct ps_optimizer o = l->model->vars[b->var].spec.optimizer;
    struct optimizer_arrays to = {.weights = arrays};
    float *values = sim_alloc(b->len * sizeof *values);

    for (uint32_t i = 0; i < b->slots; i++)
        to.slot[i] = arrays + (size_t)(1 + i) * b->stride;
    model_assigned_block(l->model, b->var, taken->id, b->number, values);
    memcpy(arrays, values, n * sizeof *arrays);
    free(values);
    if (l->assigns[taken->id - 1].reset_slots)
        optimizer_start(&o, n, &to);
    o.learning_rate = taken->rate;
    optimizer_follow(&o, n, &to);
}

float
ledger_assign_base(const struct ledger *l, const struct block_state *b, uint64_t assign)
{
    const struct ledger_number *x = assign != 0 ? number_find((struct ledger *)l, assign) : NULL;

    return x != NULL ? model_assigned_level(x->id) : (float)l->model->vars[b->var].spec.init.a;
}

/* ---- Losses ---- */

void
ledger_assigns_lost(struct ledger *l, uint32_t shard)
{
    for (size_t i = 0; i < l->numbers_len; i++)
        l->numbers[i].done[shard] = false;
}

/* ---- Pulls ---- */

/* The variables of one pull were asked for before a shard came back older, or a loss came in between. */
static bool
pulls_comparable(const struct ledger *l, size_t n, const uint32_t *pulls)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(l->pulls[pulls[i]].epochs, l->epoch, sizeof l->epoch) != 0)
            return false;
    return true;
}

struct together {
    bool before, after;
    uint32_t var_before, var_after, block_before, block_after;
};

static void
together_take(struct ledger *l, const struct ledger_pull_state *p, uint64_t number, struct together *t)
{
    for (uint32_t n = 0; n < l->vars[p->var].blocks_len; n++) {
        const struct block_state *b = &l->vars[p->var].blocks[n];

        if (block_staged(b, number) == NULL)
            continue;
        if (p->assigns[n] >= number) {
            t->after = true;
            t->var_after = p->var;
            t->block_after = n;
        } else {
            t->before = true;
            t->var_before = p->var;
            t->block_before = n;
        }
    }
}

/* Whether a pull that began so late must have it. */
static bool
pull_must_have(const struct ledger *l, const struct ledger_pull_state *p, const struct ledger_assign_state *a)
{
    if (a->outcome != PUSH_COUNTED || a->done_us >= p->started_us || l->losses > 0)
        return false;
    return a->clock <= p->clock || l->model->mode != PS_SYNC;
}

void
ledger_pulled_together(struct ledger *l, size_t n, const uint32_t *pulls)
{
    bool comparable = pulls_comparable(l, n, pulls) && !l->disk_failed;

    for (size_t i = 0; i < l->numbers_len && comparable && !l->sim->failed; i++) {
        const struct ledger_number *x = &l->numbers[i];
        const struct ledger_pull_state *p = &l->pulls[pulls[0]];
        struct together t = {0};

        for (size_t k = 0; k < n && number_was_done(x); k++)
            together_take(l, &l->pulls[pulls[k]], x->number, &t);
        if (t.before && t.after)
            sim_fail(l->sim, "w%u pulled v%u block %u with assign %u, and v%u block %u without it", p->task,
                     t.var_after, t.block_after, x->id, t.var_before, t.block_before);
        else if (t.before && pull_must_have(l, p, &l->assigns[x->id - 1]))
            sim_fail(l->sim, "w%u pulled v%u block %u without assign %u, which was done before", p->task, t.var_before,
                     t.block_before, x->id);
    }
}

/* ---- At the end ---- */

static bool
number_waits(const struct ledger *l, uint32_t shard, uint64_t number)
{
    for (size_t i = 0; i < l->waiting_len[shard]; i++)
        if (l->waiting[shard][i] == number)
            return true;
    return false;
}

/* Blocks for which it has values, and those of them that have taken it, or will. */
static void
number_count(const struct ledger *l, const struct ledger_number *x, uint64_t *blocks, uint64_t *have)
{
    const struct ledger_assign_state *a = &l->assigns[x->id - 1];

    *blocks = *have = 0;
    for (uint32_t v = a->first; v < a->first + a->vars; v++)
        for (uint32_t n = 0; n < l->vars[v].blocks_len; n++) {
            const struct block_state *b = &l->vars[v].blocks[n];

            ++*blocks;
            *have += block_staged(b, x->number) != NULL &&
                     ((b->assign >= x->number && x->done[b->shard]) || number_waits(l, b->shard, x->number));
        }
}

static void
check_number(struct ledger *l, const struct ledger_number *x)
{
    const struct ledger_assign_state *a = &l->assigns[x->id - 1];
    uint64_t blocks, have;

    number_count(l, x, &blocks, &have);
    if (!number_was_done(x))
        return;
    if (have != blocks)
        sim_fail(l->sim, "assign %u (w%u, number %" PRIu64 ") is in %" PRIu64 " of its %" PRIu64 " blocks", x->id,
                 a->task, x->number, have, blocks);
    if (a->outcome == PUSH_NOT_COUNTED)
        sim_fail(l->sim, "assign %u (w%u, number %" PRIu64 ") was given up, and is in %" PRIu64 " blocks", x->id,
                 a->task, x->number, have);
}

void
ledger_assigns_final(struct ledger *l)
{
    for (size_t i = 0; i < l->numbers_len && l->losses == 0 && !l->sim->failed; i++)
        check_number(l, &l->numbers[i]);
    for (uint32_t id = 1; id <= l->assigns_len && !l->sim->failed; id++) {
        bool done = false;

        for (size_t i = 0; i < l->numbers_len; i++)
            done |= l->numbers[i].id == id && l->numbers[i].ever;
        if (l->assigns[id - 1].outcome == PUSH_COUNTED && !done)
            sim_fail(l->sim, "assign %u was done, and is in no block", id);
    }
}
