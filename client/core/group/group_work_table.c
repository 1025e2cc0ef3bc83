/* The works of a group: their memory, which one has a number, and which still run. A work is in the hash and in one of
 * two lists, running or ended, from group_work_link() until group_work_settle() finds that nobody needs it. */
#include <stdlib.h>
#include <string.h>

#include "client/core/group/group_internal.h"

#define SPARE_SCRATCH_MAX (256 * MIB) /* of all schedules: kept for their next works */

/* ---- Memory ---- */

static void *
take_scratch(struct group_core *c, struct plan_schedule *a, uint64_t bytes)
{
    void *scratch = a->spare_scratch;

    if (scratch == NULL)
        return aligned_alloc(64, round_up(bytes, 64));
    a->spare_scratch = NULL;
    c->schedules.spare_bytes -= bytes;
    return scratch;
}

static void
give_scratch(struct group_core *c, struct plan_schedule *a, void *scratch, uint64_t bytes)
{
    if (scratch == NULL || a->spare_scratch != NULL || c->schedules.spare_bytes + bytes > SPARE_SCRATCH_MAX) {
        free(scratch);
        return;
    }
    a->spare_scratch = scratch;
    c->schedules.spare_bytes += bytes;
}

static uint64_t
scratch_bytes(const struct plan_schedule *a)
{
    return (uint64_t)a->plan.scratch * a->key.size;
}

struct group_work *
group_work_new(struct group_core *c, struct plan_schedule *a)
{
    size_t sides = a->peers_len * sizeof(struct group_side);
    size_t stack = a->plan.steps * sizeof(uint32_t), marks = a->peers_len * sizeof(uint16_t);
    struct group_work *w = a->spare != NULL ? a->spare : malloc(sizeof *w + sides + stack + marks + a->plan.steps);
    uint8_t *scratch = NULL;

    a->spare = NULL;
    if (w == NULL)
        return NULL;
    if (a->plan.scratch > 0 && (scratch = take_scratch(c, a, scratch_bytes(a))) == NULL) {
        free(w);
        return NULL;
    }
    memset(w, 0, sizeof *w + sides);
    w->core = c;
    w->schedule = a;
    w->buffer[PLAN_SCRATCH] = scratch;
    w->left = a->plan.steps;
    w->sides = (void *)(w + 1);
    w->stack = (void *)((uint8_t *)w->sides + sides);
    w->marks = (void *)((uint8_t *)w->stack + stack);
    w->needs = (uint8_t *)w->marks + marks;
    memcpy(w->needs, a->needs, a->plan.steps);
    return w;
}

void
group_work_drop(struct group_core *c, struct group_work *w)
{
    struct plan_schedule *a = w->schedule;

    for (uint32_t k = 0; k < a->peers_len; k++)
        group_kept_clear(&w->sides[k].kept);
    give_scratch(c, a, w->buffer[PLAN_SCRATCH], scratch_bytes(a));
    free(w->mean.parts);
    if (a->spare == NULL)
        a->spare = w;
    else
        free(w);
    plan_schedule_put(&c->schedules, a);
}

/* ---- By number ---- */

static uint32_t
work_table_bucket(uint64_t id)
{
    return (uint32_t)((id ^ id >> 57) % GROUP_HASH);
}

struct group_work *
group_find(const struct group_core *c, uint64_t id, uint32_t rank)
{
    struct group_work *w = c->hash[work_table_bucket(id)];
    bool pair = group_id_lane(id) != GROUP_LANE_ALL;

    while (w != NULL && (w->id != id || (pair && w->schedule->key.root != rank)))
        w = w->hash_next;
    return w;
}

static void
hash_remove(struct group_core *c, struct group_work *w)
{
    struct group_work **at = &c->hash[work_table_bucket(w->id)];

    while (*at != w)
        at = &(*at)->hash_next;
    *at = w->hash_next;
}

/* ---- From its start until nobody needs it ---- */

void
group_work_link(struct group_core *c, struct group_work *w)
{
    struct group_work **at = &c->hash[work_table_bucket(w->id)];

    w->hash_next = *at;
    *at = w;
    w->prev = c->running_last;
    *(w->prev != NULL ? &w->prev->next : &c->running) = w;
    c->running_last = w;
    c->works++;
}

void
group_work_end(struct group_core *c, struct group_work *w, enum ps_err result)
{
    if (w->done)
        return;
    w->done = true;
    w->result = result;
    c->changes++;
    *(w->prev != NULL ? &w->prev->next : &c->running) = w->next;
    *(w->next != NULL ? &w->next->prev : &c->running_last) = w->prev;
    w->prev = NULL;
    w->next = c->ended;
    if (c->ended != NULL)
        c->ended->prev = w;
    c->ended = w;
}

void
group_work_settle(struct group_core *c, struct group_work *w)
{
    if (!w->done || !w->freed || w->outs > 0 || (w->lacking > 0 && !c->failed && !c->leaving))
        return;
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        c->ended = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    hash_remove(c, w);
    group_work_drop(c, w);
}

bool
group_work_done(const struct group_work *w)
{
    return w->done;
}

enum ps_err
group_work_result(const struct group_core *c, const struct group_work *w, struct ps_error *e)
{
    ps_assert(w->done);
    if (w->result == PS_OK)
        return PS_OK;
    if (w->result == PS_ERR_CANCELLED && !c->failed)
        return ps_fail(e, PS_ERR_CANCELLED, "the group was closed");
    return group_core_state(c, e);
}

void
group_work_free(struct group_core *c, struct group_work *w)
{
    ps_assert(w->done && !w->freed);
    w->freed = true;
    c->works--;
    group_work_settle(c, w);
}

static void
free_list(struct group_core *c, struct group_work *w)
{
    for (struct group_work *next; w != NULL; w = next) {
        next = w->next;
        group_work_drop(c, w);
    }
}

void
group_works_free(struct group_core *c)
{
    free_list(c, c->running);
    free_list(c, c->ended);
}
