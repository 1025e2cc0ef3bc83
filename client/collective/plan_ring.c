/* The ring: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J.
 * Parallel Distrib. Comput. 69, 2009. Each rank sends to the next and receives from the one before: 2 (n-1)/n of the
 * whole for an all-reduce, which is the least possible, in 2 (n-1) rounds. Cells of a piece follow each other, so that
 * one is on its way while another is added. A broadcast or reduce is a chain, one link less than the ring. */
#include "plan_build.h"

static struct run
piece(const struct plan_build *b, uint32_t i)
{
    i %= b->pieces;
    return build_pieces(b, i, i + 1);
}

void
ring_reduce_scatter(struct plan_build *b, const struct team *t, enum plan_buffer partial, enum plan_buffer final)
{
    uint32_t next = team_rank(t, t->me + 1), before = team_rank(t, t->me + t->n - 1);

    for (uint32_t round = 0; round + 1 < t->n && b->err == PS_OK; round++) {
        build_send(b, next, piece(b, t->me + 2 * t->n - 1 - round));
        build_receive_reduce(b, before, piece(b, t->me + 2 * t->n - 2 - round), round + 2 < t->n ? partial : final);
    }
}

void
ring_all_gather(struct plan_build *b, const struct team *t)
{
    uint32_t next = team_rank(t, t->me + 1), before = team_rank(t, t->me + t->n - 1);

    for (uint32_t round = 0; round + 1 < t->n && b->err == PS_OK; round++) {
        build_send(b, next, piece(b, t->me + t->n - round));
        build_receive(b, before, piece(b, t->me + 2 * t->n - 1 - round), PLAN_OUT);
    }
}

/* The sums of a round are sent in the next: so two rounds' are kept. */
static void
window_of_two_rounds(struct plan_build *b)
{
    uint32_t most = 0;

    for (uint32_t p = 0; p < b->pieces && b->err == PS_OK; p++)
        most = MAX(most, b->first[p + 1] - b->first[p]);
    if (most > 0)
        build_window(b, 2 * most);
}

/* A token goes round, and once more. */
static void
barrier(struct plan_build *b)
{
    const struct plan_ask *a = b->ask;
    uint32_t next = (a->rank + 1) % a->ranks, before = (a->rank + a->ranks - 1) % a->ranks, last = PLAN_NONE;

    for (int turn = 0; turn < 2; turn++) {
        if (a->rank != 0)
            last = build_signal(b, PLAN_RECEIVE, before, last);
        if (turn == 0 || a->rank != a->ranks - 1)
            last = build_signal(b, PLAN_SEND, next, last);
        if (a->rank == 0 && turn == 0)
            last = build_signal(b, PLAN_RECEIVE, before, last);
    }
}

static void
chain(struct plan_build *b)
{
    const struct plan_ask *a = b->ask;
    uint32_t rank[PS_GROUP_RANKS_MAX];
    struct team t = {.n = a->ranks, .me = (a->rank + a->ranks - a->root) % a->ranks, .rank = rank};

    for (uint32_t i = 0; i < a->ranks; i++)
        rank[i] = (a->root + i) % a->ranks;
    build_grid(b, 1);
    if (a->op == PLAN_BROADCAST) {
        tree_broadcast(b, &t, TREE_CHAIN, build_pieces(b, 0, 1));
        return;
    }
    build_window(b, TREE_WINDOW);
    tree_reduce(b, &t, TREE_CHAIN, build_pieces(b, 0, 1), PLAN_SCRATCH, PLAN_OUT);
    if (a->rank == a->root)
        build_scale(b, build_pieces(b, 0, 1));
}

void
plan_ring(struct plan_build *b)
{
    const struct plan_ask *a = b->ask;
    struct team all = {.n = a->ranks, .me = a->rank};

    if (a->op == PLAN_BARRIER) {
        barrier(b);
        return;
    }
    if (a->op == PLAN_BROADCAST || a->op == PLAN_REDUCE) {
        chain(b);
        return;
    }
    build_grid(b, a->ranks);
    if (a->op != PLAN_ALL_GATHER) {
        if (build_aside(b) == PLAN_SCRATCH)
            window_of_two_rounds(b);
        ring_reduce_scatter(b, &all, build_aside(b), PLAN_OUT);
        build_scale(b, build_pieces(b, a->rank, a->rank + 1));
    }
    if (a->op == PLAN_REDUCE_SCATTER)
        return;
    ring_all_gather(b, &all);
    build_copy(b, build_pieces(b, a->rank, a->rank + 1), PLAN_OUT);
}
