#include "client/core/shards/step_cursor.h"

#include <inttypes.h>

#include "client/core/shards/shard_link.h"

int
step_cursor_compare(const struct ps_cursor *a, const struct ps_cursor *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->position > b->position) - (a->position < b->position);
}

struct ps_cursor
step_cursor_welcomed(const Psd__Cursor *m)
{
    return m != NULL ? (struct ps_cursor){m->epoch, m->position} : (struct ps_cursor){0};
}

/* A shard of an older version says nothing: as if this process were the first of its index. */
struct step_begins
step_begins_of(const Psd__Begins *m, uint64_t clock)
{
    if (m == NULL)
        return (struct step_begins){.clock = clock};
    return (struct step_begins){.clock = m->clock, .others = step_cursor_welcomed(m->others)};
}

/* In this round: where a shard does not know yet that it has begun, nothing counts. */
static struct ps_cursor
step_cursor_of(const struct core *c, const struct shard_link *l)
{
    return l->round == c->round ? l->cursor : (struct ps_cursor){0};
}

void
step_cursor_join(struct core *c)
{
    struct step_cursor *p = &c->step_cursor;

    *p = (struct step_cursor){.begins = step_cursor_of(c, &c->links[0])};
    for (uint32_t i = 1; i < c->config.shards; i++) {
        struct ps_cursor at = step_cursor_of(c, &c->links[i]);

        if (step_cursor_compare(&at, &p->begins) < 0 || MUTATION(PLACE_OF_LAST))
            p->begins = at;
    }
}

enum ps_err
step_cursor_check(const struct core *c, const struct ps_cursor *cursor, struct ps_error *e)
{
    const struct step_cursor *p = &c->step_cursor;

    if (cursor == NULL)
        return PS_OK;
    if (step_cursor_compare(cursor, &p->begins) <= 0)
        return ps_fail(e, PS_ERR_INVALID,
                       "push: the cursor %" PRIu64 ":%" PRIu64 " does not rise: this step begins at %" PRIu64
                       ":%" PRIu64,
                       cursor->epoch, cursor->position, p->begins.epoch, p->begins.position);
    if (p->given && step_cursor_compare(cursor, &p->ends) != 0)
        return ps_fail(e, PS_ERR_INVALID,
                       "push: the cursor %" PRIu64 ":%" PRIu64 " is not that of this step's earlier pushes, %" PRIu64
                       ":%" PRIu64 "; tick between steps",
                       cursor->epoch, cursor->position, p->ends.epoch, p->ends.position);
    return PS_OK;
}

void
step_cursor_give(struct core *c, const struct ps_cursor *cursor)
{
    if (cursor == NULL)
        return;
    c->step_cursor.ends = *cursor;
    c->step_cursor.given = c->step_cursor.moved = true;
}

void
step_cursor_push(const struct core *c, struct core_op *op)
{
    op->with_cursor = true;
    op->begins = c->step_cursor.begins;
    op->ends = c->step_cursor.ends;
}

void
step_cursor_tick(struct core *c, struct core_op *op)
{
    op->with_cursor = c->step_cursor.given;
    op->ends = c->step_cursor.ends;
    if (c->step_cursor.given)
        c->step_cursor.begins = c->step_cursor.ends;
    c->step_cursor.given = false;
}

/* Those that were welcomed in another round than the newest know nothing of this one. */
uint64_t
core_start_clock(const struct core *c)
{
    uint64_t clock = 0;

    for (uint32_t i = 0; i < c->config.shards; i++)
        if (c->links[i].round == c->round)
            clock = MAX(clock, c->links[i].begins.clock);
    return clock;
}

/* Where the first process of this index began: behind the others, else where the caller says. */
static struct ps_cursor
step_begins_at(const struct core *c, const struct ps_cursor *first)
{
    struct ps_cursor at = {0};

    for (uint32_t i = 0; i < c->config.shards; i++)
        if (c->links[i].round == c->round && step_cursor_compare(&c->links[i].begins.others, &at) > 0)
            at = c->links[i].begins.others;
    return at.epoch == 0 && at.position == 0 ? *first : at;
}

/* A shard that has no cursor of this index has counted nothing behind its beginning. */
struct ps_cursor
core_start_place(const struct core *c, const struct ps_cursor *first)
{
    struct ps_cursor begins = step_begins_at(c, first), at = {UINT64_MAX, UINT64_MAX};

    for (uint32_t i = 0; i < c->config.shards; i++) {
        struct ps_cursor there = step_cursor_of(c, &c->links[i]);

        if (there.epoch == 0 && there.position == 0)
            there = begins;
        if (step_cursor_compare(&there, &at) < 0)
            at = there;
    }
    return at;
}

struct ps_cursor
core_start_cursor(struct core *c, const struct ps_cursor *first)
{
    if (!c->step_cursor.moved)
        c->step_cursor.begins = core_start_place(c, first);
    return c->step_cursor.begins;
}

uint64_t
core_round(const struct core *c)
{
    return c->round;
}

struct ps_cursor
core_cursor(const struct core *c)
{
    return c->step_cursor.begins;
}
