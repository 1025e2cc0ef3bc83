/* Parts to their ranks, and what those make of them to all. */
#include <stdlib.h>

#include "client/core/plan/plan.h"

struct merge_build {
    uint32_t ranks, rank;
    size_t slot, piece;
    struct plan_plan *plan;
    uint32_t first_receive, first_merge; /* steps */
};

static size_t
pieces_of(const struct merge_build *b)
{
    return (b->slot + b->piece - 1) / b->piece;
}

static uint32_t
merge_add_step(struct merge_build *b, enum plan_kind kind, uint32_t peer, enum plan_buffer buffer, size_t offset,
               size_t len)
{
    b->plan->step[b->plan->steps] = (struct plan_step){.kind = kind,
                                                       .peer = peer,
                                                       .buffer = buffer,
                                                       .source = buffer,
                                                       .offset = offset,
                                                       .len = len,
                                                       .needs = {PLAN_NONE, PLAN_NONE, PLAN_NONE}};
    return b->plan->steps++;
}

/* Piece i of slot `slot` to or from a rank. */
static uint32_t
add_message(struct merge_build *b, enum plan_kind kind, uint32_t peer, uint32_t slot, size_t i)
{
    size_t at = i * b->piece;

    return merge_add_step(b, kind, peer, kind == PLAN_SEND ? PLAN_IN : PLAN_OUT, slot * b->slot + at,
                          MIN(b->piece, b->slot - at));
}

/* The rank that is k further, so that not all send to one first; and the one that is as far behind. */
static uint32_t
merge_rank_ahead(const struct merge_build *b, uint32_t k)
{
    return (b->rank + k) % b->ranks;
}

static uint32_t
merge_rank_behind(const struct merge_build *b, uint32_t k)
{
    return (b->rank + b->ranks - k) % b->ranks;
}

/* Piece i, once it has come from all. A step has room for few needs: others join them. */
static uint32_t
add_merge(struct merge_build *b, size_t i)
{
    uint32_t needs[PLAN_NEEDS_MAX] = {PLAN_NONE, PLAN_NONE, PLAN_NONE}, n = 0, step;

    for (uint32_t k = 1; k < b->ranks; k++) {
        if (n == PLAN_NEEDS_MAX) {
            step = merge_add_step(b, PLAN_COPY, PLAN_NONE, PLAN_OUT, 0, 0);
            for (n = 0; n < PLAN_NEEDS_MAX; n++)
                b->plan->step[step].needs[n] = needs[n];
            needs[0] = step;
            n = 1;
        }
        needs[n++] = b->first_receive + (uint32_t)i * (b->ranks - 1) + k - 1;
    }
    step = merge_add_step(b, PLAN_MERGE, PLAN_NONE, PLAN_IN, b->rank * b->slot + i * b->piece, 0);
    for (uint32_t k = 0; k < n; k++)
        b->plan->step[step].needs[k] = needs[k];
    return step;
}

static void
add_all(struct merge_build *b, uint32_t *merges)
{
    size_t pieces = pieces_of(b);
    uint32_t step;

    for (size_t i = 0; i < pieces; i++)
        for (uint32_t k = 1; k < b->ranks; k++)
            add_message(b, PLAN_SEND, merge_rank_ahead(b, k), merge_rank_ahead(b, k), i);
    b->first_receive = b->plan->steps;
    for (size_t i = 0; i < pieces; i++)
        for (uint32_t k = 1; k < b->ranks; k++)
            add_message(b, PLAN_RECEIVE, merge_rank_behind(b, k), merge_rank_behind(b, k), i);
    for (size_t i = 0; i < pieces; i++)
        merges[i] = add_merge(b, i);
    for (size_t i = 0; i < pieces; i++)
        for (uint32_t k = 1; k < b->ranks; k++) {
            step = add_message(b, PLAN_SEND, merge_rank_ahead(b, k), b->rank, i);
            b->plan->step[step].needs[0] = merges[i];
            step = add_message(b, PLAN_RECEIVE, merge_rank_behind(b, k), merge_rank_behind(b, k), i);
            b->plan->step[step].needs[0] = merges[i]; /* which has read what lies there */
        }
}

/* Nothing to merge: all the same no rank ends before all have begun. */
static enum ps_err
merge_nothing(uint32_t ranks, uint32_t rank, size_t piece, size_t size, struct plan_plan *out, struct ps_error *e)
{
    struct plan_request ask = {.op = PLAN_BARRIER,
                               .ranks = ranks,
                               .rank = rank,
                               .size = size,
                               .algorithm = PS_ALGORITHM_HALVING,
                               .segment_bytes = piece * size};
    enum ps_err err = plan_make(&ask, out, e);

    out->algorithm = PS_ALGORITHM_DIRECT;
    return err;
}

enum ps_err
plan_merge(uint32_t ranks, uint32_t rank, size_t slot, size_t piece, size_t size, struct plan_plan *out,
           struct ps_error *e)
{
    struct merge_build b = {.ranks = ranks, .rank = rank, .slot = slot, .piece = piece, .plan = out};
    size_t pieces, each = 4 * (size_t)(ranks - 1) + 1 + ranks / (PLAN_NEEDS_MAX - 1);
    uint32_t *merges;

    ps_assert(ranks >= 1 && rank < ranks && piece >= 1);
    if (slot == 0)
        return merge_nothing(ranks, rank, piece, size, out, e);
    pieces = pieces_of(&b);
    *out = (struct plan_plan){.algorithm = PS_ALGORITHM_DIRECT, .segment_bytes = piece * size};
    if (pieces > PLAN_STEPS_MAX / each)
        return ps_fail(e, PS_ERR_LIMIT, "parts of %zu elements in messages of %zu are more than %u steps", slot, piece,
                       PLAN_STEPS_MAX);
    out->step = malloc(pieces * each * sizeof *out->step);
    merges = malloc(pieces * sizeof *merges);
    if (out->step == NULL || merges == NULL) {
        free(merges);
        plan_finish(out);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the schedule of %zu pieces between %u ranks", pieces, ranks);
    }
    add_all(&b, merges);
    ps_assert(out->steps <= pieces * each);
    free(merges);
    return PS_OK;
}
