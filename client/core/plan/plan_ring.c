/* The ring: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J.
 * Parallel Distrib. Comput. 69, 2009. Each rank sends to the next and receives from the one before: 2 (n-1)/n of the
 * whole for an all-reduce, which is the least possible, in 2 (n-1) rounds. Cells of a piece follow each other, so that
 * one is on its way while another is added. A broadcast or reduce is a chain, one link less than the ring. */
#include "client/core/plan/plan_build.h"

static struct grid_run
ring_piece(const struct plan_build *b, uint32_t i)
{
    i %= b->grid.pieces;
    return build_pieces(b, i, i + 1);
}

void
ring_reduce_scatter(struct plan_build *b, const struct plan_team *t, enum plan_buffer partial, enum plan_buffer final)
{
    uint32_t next = team_rank(t, t->me + 1), before = team_rank(t, t->me + t->n - 1);

    uint32_t sum = 0;

    for (uint32_t round = 0; round + 1 < t->n && b->err == PS_OK; round++) {
        uint32_t adds = (t->me + t->n - 1 - round) % t->n; /* the first to add to what comes now, and so to all later */

        sum += team_sum(t, adds, adds + 1);
        build_send(b, next, ring_piece(b, t->me + 2 * t->n - 1 - round));
        build_receive_reduce(b, before, ring_piece(b, t->me + 2 * t->n - 2 - round), round + 2 < t->n ? partial : final,
                             sum);
    }
}

void
ring_all_gather(struct plan_build *b, const struct plan_team *t)
{
    uint32_t next = team_rank(t, t->me + 1), before = team_rank(t, t->me + t->n - 1);

    for (uint32_t round = 0; round + 1 < t->n && b->err == PS_OK; round++) {
        build_send(b, next, ring_piece(b, t->me + t->n - round));
        build_receive(b, before, ring_piece(b, t->me + 2 * t->n - 1 - round), PLAN_OUT);
    }
}

/* ---- All pieces, cell by cell ----
 *
 * Round by round a rank would go over all of the memory twice in each. So each piece's k-th cells, a slice, go through
 * all rounds, and slices follow each other: what is added in one round is sent in the next while a cache still has it.
 *
 *     time      0    1    2    3    4    5        with RING_LAG 2: slice k is in round r at time k + 2 r
 *     slice 0   r0        r1        r2
 *     slice 1        r0        r1        r2
 *     slice 2             r0        r1
 *
 * A message of one round needs what was received in the round before: by then RING_LAG slices have moved, so nobody
 * waits for the way from one rank to the next. */
#define RING_LAG 2

/* The n - 1 rounds in which pieces are added, and those in which they are spread. */
struct rounds {
    uint32_t from, to;
};

/* One cell of a piece; none if the piece has fewer. */
static struct grid_run
ring_cell(const struct plan_build *b, uint32_t i, uint32_t slice)
{
    struct grid_run r = ring_piece(b, i);

    r.from = r.from + slice < r.to ? r.from + slice : r.to;
    r.to = r.from < r.to ? r.from + 1 : r.to;
    return r;
}

static uint32_t
slices_of(const struct plan_build *b)
{
    uint32_t most = 0;

    for (uint32_t p = 0; p < b->grid.pieces && b->err == PS_OK; p++)
        most = MAX(most, b->grid.first[p + 1] - b->grid.first[p]);
    return most;
}

static void
ring_round(struct plan_build *b, uint32_t round, uint32_t slice, enum plan_buffer partial)
{
    uint32_t n = b->ask->ranks, me = b->ask->rank, next = (me + 1) % n, before = (me + n - 1) % n;
    bool adds = round + 1 < n, last = round + 2 == n;
    uint32_t sent = me + 2 * n - 1 - round;
    struct grid_run got = ring_cell(b, sent - 1, slice);

    build_send(b, next, ring_cell(b, sent, slice));
    if (!adds) {
        build_receive(b, before, got, PLAN_OUT);
        return;
    }
    build_receive_reduce(b, before, got, last ? PLAN_OUT : partial, round + 1);
    if (last)
        build_scale(b, got);
}

/* Later rounds first: they give what others wait for. */
static void
ring_rounds(struct plan_build *b, struct rounds r, enum plan_buffer partial)
{
    uint32_t slices = slices_of(b), end = slices + (r.to - r.from - 1) * RING_LAG;

    for (uint32_t time = 0; slices > 0 && time < end && b->err == PS_OK; time++)
        for (uint32_t round = r.to; round-- > r.from;) {
            uint32_t begun = (round - r.from) * RING_LAG;

            if (time >= begun && time - begun < slices)
                ring_round(b, round, time - begun, partial);
        }
}

/* A sum waits RING_LAG slices for the round in which it is sent; as many again may be on their way. */
static void
window_of_sums(struct plan_build *b)
{
    uint32_t n = b->ask->ranks;

    if (n > 2)
        build_window(b, 2 * (RING_LAG + 1) * (n - 2));
}

/* A token goes round, and once more. */
static void
ring_barrier(struct plan_build *b)
{
    const struct plan_request *a = b->ask;
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

void
plan_ring(struct plan_build *b)
{
    const struct plan_request *a = b->ask;
    struct rounds rounds;

    if (a->op == PLAN_BARRIER) {
        ring_barrier(b);
        return;
    }
    if (a->op == PLAN_BROADCAST || a->op == PLAN_REDUCE) {
        tree_rooted(b, TREE_CHAIN);
        return;
    }
    build_grid(b, a->ranks);
    if (build_aside(b) == PLAN_SCRATCH && a->op == PLAN_REDUCE_SCATTER)
        window_of_sums(b);
    rounds.from = a->op == PLAN_ALL_GATHER ? a->ranks - 1 : 0;
    rounds.to = a->op == PLAN_REDUCE_SCATTER ? a->ranks - 1 : 2 * (a->ranks - 1);
    ring_rounds(b, rounds, build_aside(b));
    if (a->op != PLAN_REDUCE_SCATTER)
        build_copy(b, build_pieces(b, a->rank, a->rank + 1), PLAN_OUT);
}
