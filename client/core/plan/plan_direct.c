/* Every rank sends to every rank that wants it, at once. One message time of latency, and the most bytes. Each rank
 * reduces in the order of ranks, so all sums that are made in several places are the same. */
#include "client/core/plan/plan_build.h"

/* All ranks but this one, beginning after it, so that not all send to one first. */
static void
send_to_others(struct plan_build *b, struct grid_run r)
{
    const struct plan_request *a = b->ask;
    struct grid_run message;

    while (build_next(b, &r, &message))
        for (uint32_t i = 1; i < a->ranks; i++)
            build_send(b, (a->rank + i) % a->ranks, message);
}

/* x_0 + x_1 + ... into PLAN_OUT, of a run that fits into a message. This rank's own, in `own`, is added when its turn
 * comes; to begin with x_0 and x_1 can be taken at one stroke, as sums commute. */
static void
reduce_in_order(struct plan_build *b, struct grid_run r, enum plan_buffer own)
{
    const struct plan_request *a = b->ask;

    if (a->rank >= 2)
        build_receive_sum(b, 0, r, PLAN_OUT, 1);
    for (uint32_t q = a->rank >= 2 ? 1 : 0; q < a->ranks; q++)
        if (q != a->rank)
            build_receive_reduce(b, q, r, PLAN_OUT, 1);
        else if (q >= 2)
            build_reduce_local(b, r, own);
    build_scale(b, r);
}

/* In place, what this rank gives would be overwritten while it is still being sent, or before its turn. */
static enum plan_buffer
keep_own(struct plan_build *b, struct grid_run r)
{
    if (!b->ask->in_place)
        return PLAN_IN;
    build_copy(b, r, PLAN_SCRATCH);
    return PLAN_SCRATCH;
}

static void
all_reduce(struct plan_build *b)
{
    struct grid_run r, message;
    enum plan_buffer own;

    build_grid(b, 1);
    r = build_pieces(b, 0, 1);
    own = keep_own(b, r);
    send_to_others(b, r);
    while (build_next(b, &r, &message))
        reduce_in_order(b, message, own);
}

static void
reduce_scatter(struct plan_build *b)
{
    const struct plan_request *a = b->ask;
    struct grid_run own, message;
    enum plan_buffer kept;

    build_grid(b, a->ranks);
    own = build_pieces(b, a->rank, a->rank + 1);
    kept = keep_own(b, own);
    for (uint32_t i = 1; i < a->ranks; i++) {
        uint32_t q = (a->rank + i) % a->ranks;

        build_send(b, q, build_pieces(b, q, q + 1));
    }
    while (build_next(b, &own, &message))
        reduce_in_order(b, message, kept);
}

static void
all_gather(struct plan_build *b)
{
    const struct plan_request *a = b->ask;
    struct grid_run own;

    build_grid(b, a->ranks);
    own = build_pieces(b, a->rank, a->rank + 1);
    send_to_others(b, own);
    build_copy(b, own, PLAN_OUT);
    for (uint32_t i = 1; i < a->ranks; i++) {
        uint32_t q = (a->rank + a->ranks - i) % a->ranks;

        build_receive(b, q, build_pieces(b, q, q + 1), PLAN_OUT);
    }
}

static void
direct_broadcast(struct plan_build *b)
{
    const struct plan_request *a = b->ask;

    build_grid(b, 1);
    if (a->rank == a->root)
        send_to_others(b, build_pieces(b, 0, 1));
    else
        build_receive(b, a->root, build_pieces(b, 0, 1), PLAN_OUT);
}

static void
reduce_to_root(struct plan_build *b)
{
    const struct plan_request *a = b->ask;
    struct grid_run r, message;
    enum plan_buffer own;

    build_grid(b, 1);
    r = build_pieces(b, 0, 1);
    if (a->rank != a->root) {
        build_send(b, a->root, r);
        return;
    }
    own = keep_own(b, r);
    while (build_next(b, &r, &message))
        reduce_in_order(b, message, own);
}

static void
direct_barrier(struct plan_build *b)
{
    const struct plan_request *a = b->ask;

    for (uint32_t i = 1; i < a->ranks; i++)
        build_signal(b, PLAN_SEND, (a->rank + i) % a->ranks, PLAN_NONE);
    for (uint32_t i = 1; i < a->ranks; i++)
        build_signal(b, PLAN_RECEIVE, (a->rank + a->ranks - i) % a->ranks, PLAN_NONE);
}

void
plan_direct(struct plan_build *b)
{
    static void (*const ops[])(struct plan_build * b) = {
        [PLAN_ALL_REDUCE] = all_reduce,      [PLAN_REDUCE_SCATTER] = reduce_scatter, [PLAN_ALL_GATHER] = all_gather,
        [PLAN_BROADCAST] = direct_broadcast, [PLAN_REDUCE] = reduce_to_root,         [PLAN_BARRIER] = direct_barrier,
    };

    ops[b->ask->op](b);
}
