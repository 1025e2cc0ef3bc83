#include "client/core/plan/plan.h"

#include <stdlib.h>

#include "client/core/plan/plan_build.h"
#include "common/core/base/mutation.h"

/* A group of one: out is in. */
static void
plan_alone(struct plan_build *b)
{
    build_grid(b, 1);
    if (b->ask->op != PLAN_BROADCAST && b->ask->op != PLAN_BARRIER)
        build_copy(b, build_pieces(b, 0, 1), PLAN_OUT);
}

/* Whether each rank's part of the data needs something of every other rank: then none has all of its own before all
 * have begun. */
static bool
plan_waits_for_all(const struct plan_request *a)
{
    switch (a->op) {
    case PLAN_ALL_REDUCE:
        return a->count > 0;
    case PLAN_REDUCE_SCATTER:
    case PLAN_ALL_GATHER:
        return a->count >= a->ranks;
    case PLAN_BROADCAST:
    case PLAN_REDUCE:
        return a->ranks == 2 && a->count > 0; /* there the one peer's announcement does it (group_core.h) */
    case PLAN_BARRIER:
        break;
    }
    return true;
}

/* What is read or written there. */
static size_t
scratch_used(const struct plan_plan *p)
{
    size_t end = 0;

    for (uint32_t i = 0; i < p->steps; i++) {
        const struct plan_step *s = &p->step[i];

        if (s->buffer == PLAN_SCRATCH)
            end = MAX(end, s->offset + s->len);
        if (s->source == PLAN_SCRATCH)
            end = MAX(end, s->source_offset + s->len);
    }
    return end;
}

enum ps_err
plan_make(const struct plan_request *ask, struct plan_plan *out, struct ps_error *e)
{
    static void (*const algorithms[])(struct plan_build * b) = {
        [PS_ALGORITHM_DIRECT] = plan_direct,
        [PS_ALGORITHM_RING] = plan_ring,
        [PS_ALGORITHM_HALVING] = plan_halving,
        [PS_ALGORITHM_HIERARCHICAL] = plan_hierarchical,
    };
    struct plan_build b = {.ask = ask, .plan = out};
    enum ps_err err;
    size_t segment;

    ps_assert(ask->ranks >= 1 && ask->ranks <= PS_GROUP_RANKS_MAX && ask->rank < ask->ranks && ask->size >= 1);
    ps_assert(ask->root < ask->ranks && (size_t)ask->algorithm < ARRAY_LEN(algorithms));
    *out = (struct plan_plan){.algorithm = ask->algorithm, .segment_bytes = ask->segment_bytes};
    if (out->algorithm == PS_ALGORITHM_AUTO)
        out->algorithm = plan_choose(ask);
    if (out->segment_bytes == 0)
        out->segment_bytes = plan_choose_segment(ask, out->algorithm);
    (ask->ranks == 1 ? plan_alone : algorithms[out->algorithm])(&b);
    if (ask->ranks > 1 && !plan_waits_for_all(ask) && !MUTATION(GROUP_ENDS_EARLY)) /* behind the data */
        (void)dissemination(&b, &(struct plan_team){.n = ask->ranks, .me = ask->rank}, PLAN_NONE);
    out->scratch = scratch_used(out);
    err = b.err;
    segment = out->segment_bytes;
    build_finish(&b);
    if (err == PS_OK)
        return PS_OK;
    plan_finish(out);
    if (err == PS_ERR_LIMIT)
        return ps_fail(e, err, "%zu elements in messages of %zu bytes are more than %u steps", ask->count, segment,
                       PLAN_STEPS_MAX);
    return ps_fail(e, err, "no memory for the schedule of %zu elements between %u ranks", ask->count, ask->ranks);
}

void
plan_finish(struct plan_plan *p)
{
    free(p->step);
    *p = (struct plan_plan){0};
}
