/* Recursive halving and doubling: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; R.
 * Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH", 2005.
 *
 * m ranks, a power of two: in the first round those m/2 apart exchange halves and add them, in the next those m/4 apart
 * halves of what they have then, until each has one piece; doubling goes the same way back. As few bytes as the ring,
 * in 2 log2 m rounds.
 *
 * With n - m ranks more than a power of two, ranks 2i and 2i+1 for i < n - m are a pair that acts as one: each sends
 * the other a half and adds the other half, then 2i has both, and brings the result to 2i+1 in the end.
 *
 * A broadcast or reduce is a binomial tree, a barrier dissemination. */
#include "client/core/plan/plan_build.h"

struct halving {
    const struct plan_team *team;
    uint32_t m, pairs; /* m + pairs == n */
    uint32_t v;        /* this rank among the m; its pair's first of two */
    bool second;       /* of a pair */
    bool paired;
    bool by_rank; /* the grid has a piece for each rank, not for each of the m */
};

uint32_t
halving_pieces(uint32_t n)
{
    uint32_t m = 1;

    while (m <= n / 2)
        m *= 2;
    return m;
}

static struct halving
halving_of(const struct plan_team *t, bool by_rank)
{
    struct halving h = {.team = t, .m = halving_pieces(t->n), .by_rank = by_rank};

    h.pairs = t->n - h.m;
    h.paired = t->me < 2 * h.pairs;
    h.second = h.paired && t->me % 2 == 1;
    h.v = h.paired ? t->me / 2 : t->me - h.pairs;
    return h;
}

/* The member that acts for v of the m; for v == m, n. */
static uint32_t
halving_acting_rank(const struct halving *h, uint32_t v)
{
    return v < h->pairs ? 2 * v : v + h->pairs;
}

/* What belongs to `size` of the m from v on. */
static struct grid_run
span_of(const struct plan_build *b, const struct halving *h, uint32_t v, uint32_t size)
{
    return h->by_rank ? build_pieces(b, halving_acting_rank(h, v), halving_acting_rank(h, v + size))
                      : build_pieces(b, v, v + size);
}

static uint32_t
other_member(const struct halving *h)
{
    return h->second ? h->team->me - 1 : h->team->me + 1;
}

static uint32_t
other_of_pair(const struct halving *h)
{
    return team_rank(h->team, other_member(h));
}

/* How many ranks' elements are those of v of the m, before any round; of a pair, as far as it goes, together. */
static uint32_t
halving_sum(const struct halving *h, uint32_t v)
{
    return team_sum(h->team, halving_acting_rank(h, v), halving_acting_rank(h, v + 1));
}

static uint32_t
halving_own_sum(const struct halving *h, uint32_t member)
{
    return team_sum(h->team, member, member + 1);
}

/* Those that v has added up when it exchanges with the one that is `half` away: all that came to it from farther. */
static uint32_t
halving_sum_before(const struct halving *h, uint32_t v, uint32_t half)
{
    uint32_t sum = 0;

    for (uint32_t i = v % (2 * half); i < h->m; i += 2 * half)
        sum += halving_sum(h, i);
    return sum;
}

/* The pair becomes one: the first has the sums of both. */
static void
halving_fold(struct plan_build *b, const struct halving *h, enum plan_buffer aside)
{
    uint32_t other = other_of_pair(h), middle = b->grid.pieces / 2, sum = halving_own_sum(h, other_member(h));
    struct grid_run low = build_pieces(b, 0, middle), high = build_pieces(b, middle, b->grid.pieces);

    if (h->second) {
        build_send(b, other, low);
        build_receive_reduce(b, other, high, aside, sum);
        build_send(b, other, high);
    } else {
        build_send(b, other, high);
        build_receive_reduce(b, other, low, aside, sum);
        build_receive_sum(b, other, high, aside, halving_sum(h, h->v));
    }
}

/* Of `size` of the m, this one's half is kept and added to, the other half given away. A half that no other rank adds
 * to after that may lie where it is wanted. */
static void
halving_halve(struct plan_build *b, const struct halving *h, enum plan_buffer aside, enum plan_buffer final)
{
    for (uint32_t half = h->m / 2; half >= 1 && b->err == PS_OK; half /= 2) {
        uint32_t kept = h->v & ~(half - 1), other = team_rank(h->team, halving_acting_rank(h, h->v ^ half));

        build_send(b, other, span_of(b, h, kept ^ half, half));
        build_receive_reduce(b, other, span_of(b, h, kept, half), half == 1 && !h->paired ? final : aside,
                             halving_sum_before(h, h->v ^ half, half));
    }
}

static void
double_up(struct plan_build *b, const struct halving *h)
{
    for (uint32_t have = 1; have < h->m && b->err == PS_OK; have *= 2) {
        uint32_t from = h->v & ~(have - 1), other = team_rank(h->team, halving_acting_rank(h, h->v ^ have));

        build_send(b, other, span_of(b, h, from, have));
        build_receive(b, other, span_of(b, h, from ^ have, have), PLAN_OUT);
    }
}

/* What fits a small message: in each round all of it instead of halves, and nothing is to be brought back (recursive
 * doubling). The sums are the same as those of halving_halve(), since what each rank adds is what the other adds. A
 * round may not overwrite what it sends, so they go to and fro between two buffers, and end in PLAN_OUT. */
static void
exchange_all(struct plan_build *b, const struct halving *h)
{
    struct grid_run all = build_pieces(b, 0, b->grid.pieces);
    uint32_t other = h->paired ? other_of_pair(h) : 0;
    bool aside = false; /* of PLAN_OUT: where the first sums go */

    if (h->second) {
        build_send(b, other, all);
        build_receive(b, other, all, PLAN_OUT);
        return;
    }
    for (uint32_t m = h->m; m > 2; m /= 2)
        aside = !aside;
    if (h->paired)
        build_receive_reduce(b, other, all, aside ? PLAN_OUT : PLAN_SCRATCH, halving_own_sum(h, other_member(h)));
    else if (!aside && build_lies_in(b, all, PLAN_OUT))
        build_copy(b, all, PLAN_SCRATCH);
    for (uint32_t half = h->m / 2; half >= 1 && b->err == PS_OK; half /= 2, aside = !aside) {
        uint32_t to = team_rank(h->team, halving_acting_rank(h, h->v ^ half));

        build_send(b, to, all);
        build_receive_reduce(b, to, all, aside ? PLAN_SCRATCH : PLAN_OUT, halving_sum_before(h, h->v ^ half, half));
    }
    build_scale(b, all);
    if (h->paired)
        build_send(b, other, all);
}

void
halving_all_reduce(struct plan_build *b, const struct plan_team *t)
{
    struct halving h = halving_of(t, false);
    struct grid_run all = build_pieces(b, 0, b->grid.pieces), own = span_of(b, &h, h.v, 1);

    if (b->ask->count <= MIN(b->grid.segment, HALVING_EXCHANGE_BYTES / b->ask->size)) {
        exchange_all(b, &h);
        return;
    }
    if (h.paired)
        halving_fold(b, &h, PLAN_OUT);
    if (h.second) {
        build_receive(b, other_of_pair(&h), all, PLAN_OUT);
        return;
    }
    halving_halve(b, &h, PLAN_OUT, PLAN_OUT);
    build_scale(b, own);
    double_up(b, &h);
    if (h.paired)
        build_send(b, other_of_pair(&h), all);
}

static void
reduce_scatter(struct plan_build *b, const struct plan_team *t)
{
    struct halving h = halving_of(t, true);
    struct grid_run own = build_pieces(b, t->me, t->me + 1);

    if (h.paired)
        halving_fold(b, &h, build_aside(b));
    if (h.second) {
        build_receive(b, other_of_pair(&h), own, PLAN_OUT);
    } else {
        halving_halve(b, &h, build_aside(b), PLAN_OUT);
        if (h.paired)
            build_send(b, other_of_pair(&h), build_pieces(b, t->me + 1, t->me + 2));
        build_copy(b, own, PLAN_OUT);
    }
    build_scale(b, own);
}

static void
all_gather(struct plan_build *b, const struct plan_team *t)
{
    struct halving h = halving_of(t, true);
    struct grid_run own = build_pieces(b, t->me, t->me + 1);

    if (h.second) {
        uint32_t other = other_of_pair(&h);

        build_send(b, other, own);
        build_copy(b, own, PLAN_OUT);
        build_receive(b, other, build_pieces(b, 0, t->me), PLAN_OUT);
        build_receive(b, other, build_pieces(b, t->me + 1, t->n), PLAN_OUT);
        return;
    }
    build_copy(b, own, PLAN_OUT);
    if (h.paired)
        build_receive(b, other_of_pair(&h), build_pieces(b, t->me + 1, t->me + 2), PLAN_OUT);
    double_up(b, &h);
    if (h.paired) {
        build_send(b, other_of_pair(&h), build_pieces(b, 0, t->me + 1));
        build_send(b, other_of_pair(&h), build_pieces(b, t->me + 2, t->n));
    }
}

void
plan_halving(struct plan_build *b)
{
    const struct plan_request *a = b->ask;
    struct plan_team all = {.n = a->ranks, .me = a->rank};

    switch (a->op) {
    case PLAN_ALL_REDUCE:
        build_grid(b, halving_pieces(a->ranks));
        halving_all_reduce(b, &all);
        break;
    case PLAN_REDUCE_SCATTER:
        build_grid(b, a->ranks);
        reduce_scatter(b, &all);
        break;
    case PLAN_ALL_GATHER:
        build_grid(b, a->ranks);
        all_gather(b, &all);
        break;
    case PLAN_BROADCAST:
    case PLAN_REDUCE:
        tree_rooted(b, TREE_BINOMIAL);
        break;
    case PLAN_BARRIER:
        dissemination(b, &all, PLAN_NONE);
        break;
    }
}
