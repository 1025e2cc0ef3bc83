/* In levels: within each host, then between one rank of each, its leader, then within hosts again. What crosses between
 * hosts is what as many ranks as hosts would send, and goes once. Stages of one cell follow each other while other
 * cells are in other stages: between two ranks each stage has a direction of its own.
 *
 * Leaders are the lowest ranks of their hosts; where there is a root, it leads its host. */
#include "client/core/plan/plan_build.h"

/* A piece below this is not worth a ring's rounds between leaders. */
#define RING_PIECE_BYTES_MIN (32 * KIB)
/* With as many messages as ranks of a host, a chain moves more a second than a tree. */
#define CHAIN_MESSAGES_MIN(n) (2 * (n))

struct levels {
    struct plan_hosts hosts;
    uint32_t inside[PS_GROUP_RANKS_MAX], leader[PS_GROUP_RANKS_MAX];
    uint32_t on_host[PS_GROUP_RANKS_MAX]; /* ranks, by place among the leaders */
    struct plan_team host;                /* this rank's, its leader first */
    struct plan_team leaders;             /* hosts in their order; me only where leads */
    bool leads;
};

/* rooted: the root leads its host, and its host comes first. */
static void
levels_find(const struct plan_request *a, bool rooted, struct levels *l)
{
    uint32_t mine, first;

    *l = (struct levels){.host = {.rank = l->inside}, .leaders = {.rank = l->leader, .sums = l->on_host}};
    hosts_find(a, &l->hosts);
    mine = l->hosts.of[a->rank];
    first = rooted ? l->hosts.of[a->root] : 0;
    for (uint32_t r = a->ranks; r-- > 0;) {
        uint32_t place = (l->hosts.of[r] + l->hosts.n - first) % l->hosts.n;

        l->leader[place] = r;
        l->on_host[place]++;
    }
    if (rooted)
        l->leader[0] = a->root;
    l->leaders.n = l->hosts.n;
    l->leaders.me = (mine + l->hosts.n - first) % l->hosts.n;
    l->inside[l->host.n++] = l->leader[l->leaders.me];
    l->leads = l->inside[0] == a->rank;
    for (uint32_t r = 0; r < a->ranks; r++)
        if (l->hosts.of[r] == mine && r != l->inside[0]) {
            if (r == a->rank)
                l->host.me = l->host.n;
            l->inside[l->host.n++] = r;
        }
}

static enum tree_shape
shape_for(const struct plan_build *b, uint32_t members)
{
    return b->grid.cells >= CHAIN_MESSAGES_MIN(members) ? TREE_CHAIN : TREE_BINOMIAL;
}

/* ---- All-reduce ---- */

/* The piece that this host's ring sends in this round. */
static struct grid_run
ring_piece(const struct plan_build *b, const struct levels *l, uint32_t round)
{
    uint32_t i = (l->leaders.me + 2 * b->grid.pieces - 1 - round) % b->grid.pieces;

    return build_pieces(b, i, i + 1);
}

static void
all_reduce_between(struct plan_build *b, const struct levels *l, bool ring)
{
    uint32_t me = l->leaders.me;

    if (l->hosts.n > 1 && !ring) {
        halving_all_reduce(b, &l->leaders);
        return;
    }
    if (l->hosts.n > 1)
        ring_reduce_scatter(b, &l->leaders, PLAN_OUT, PLAN_OUT);
    build_scale(b, build_pieces(b, me % b->grid.pieces, me % b->grid.pieces + 1));
    if (l->hosts.n > 1)
        ring_all_gather(b, &l->leaders);
}

/* Pieces are added up within the host in the order in which the leader will send them, and spread in the order in which
 * it will have them. */
static void
all_reduce(struct plan_build *b, const struct levels *l)
{
    const struct plan_request *a = b->ask;
    bool ring = a->count * a->size / l->hosts.n >= RING_PIECE_BYTES_MIN || l->hosts.n == 1;
    enum tree_shape shape;

    build_grid(b, ring ? l->hosts.n : halving_pieces(l->hosts.n));
    shape = shape_for(b, l->host.n);
    for (uint32_t i = 0; i < b->grid.pieces; i++)
        tree_reduce(b, &l->host, shape, ring_piece(b, l, i), PLAN_OUT, PLAN_OUT);
    if (l->leads)
        all_reduce_between(b, l, ring);
    for (uint32_t i = 0; i < b->grid.pieces; i++)
        tree_broadcast(b, &l->host, shape, ring_piece(b, l, i + b->grid.pieces - 1));
}

/* ---- Reduce-scatter ---- */

/* Between leaders: each sends the others what is theirs, and adds what it gets, in the order of hosts after its own. */
static void
hierarchical_exchange(struct plan_build *b, const struct levels *l, enum plan_buffer aside)
{
    const struct plan_request *a = b->ask;
    uint32_t n = l->hosts.n, me = l->leaders.me;

    for (uint32_t i = 1; i < n; i++)
        for (uint32_t p = 0; p < a->ranks; p++)
            if (l->hosts.of[p] == (me + i) % n)
                build_send(b, team_rank(&l->leaders, me + i), build_pieces(b, p, p + 1));
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t p = 0; p < a->ranks; p++)
            if (l->hosts.of[p] == me)
                build_receive_reduce(b, team_rank(&l->leaders, me + i), build_pieces(b, p, p + 1), aside,
                                     l->on_host[(me + i) % n]);
}

static void
reduce_scatter(struct plan_build *b, const struct levels *l)
{
    const struct plan_request *a = b->ask;
    struct grid_run own;

    build_grid(b, a->ranks);
    own = build_pieces(b, a->rank, a->rank + 1);
    tree_reduce(b, &l->host, shape_for(b, l->host.n), build_pieces(b, 0, a->ranks), build_aside(b), build_aside(b));
    if (l->leads) {
        hierarchical_exchange(b, l, build_aside(b));
        for (uint32_t i = 1; i < l->host.n; i++)
            build_send(b, l->inside[i], build_pieces(b, l->inside[i], l->inside[i] + 1));
        build_copy(b, own, PLAN_OUT);
    } else {
        build_receive(b, l->inside[0], own, PLAN_OUT);
    }
    build_scale(b, own);
}

/* ---- All-gather ---- */

/* Parts of a host's ranks: sent, or received into PLAN_OUT; but for the part of `except` (PLAN_NONE: all). */
static void
parts_of_host(struct plan_build *b, const struct levels *l, uint32_t host, enum plan_kind kind, uint32_t peer,
              uint32_t except)
{
    host %= l->hosts.n;
    for (uint32_t p = 0; p < b->ask->ranks; p++)
        if (l->hosts.of[p] != host || p == except)
            continue;
        else if (kind == PLAN_SEND)
            build_send(b, peer, build_pieces(b, p, p + 1));
        else
            build_receive(b, peer, build_pieces(b, p, p + 1), PLAN_OUT);
}

/* Down the chain of a host in the order in which its leader gets them: its own host's first, then round the ring. */
static void
hierarchical_spread(struct plan_build *b, const struct levels *l)
{
    uint32_t n = l->hosts.n, me = l->host.me;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t host = l->leaders.me + n - i;

        if (me > 0)
            parts_of_host(b, l, host, PLAN_RECEIVE, l->inside[me - 1], l->inside[me]);
        if (me + 1 < l->host.n)
            parts_of_host(b, l, host, PLAN_SEND, l->inside[me + 1], l->inside[me + 1]);
    }
}

static void
all_gather(struct plan_build *b, const struct levels *l)
{
    const struct plan_request *a = b->ask;
    uint32_t n = l->hosts.n, me = l->leaders.me;
    struct grid_run own;

    build_grid(b, a->ranks);
    own = build_pieces(b, a->rank, a->rank + 1);
    if (!l->leads)
        build_send(b, l->inside[0], own);
    build_copy(b, own, PLAN_OUT);
    for (uint32_t i = 1; l->leads && i < l->host.n; i++)
        build_receive(b, l->inside[i], build_pieces(b, l->inside[i], l->inside[i] + 1), PLAN_OUT);
    for (uint32_t round = 0; l->leads && round + 1 < n; round++) {
        parts_of_host(b, l, me + n - round, PLAN_SEND, team_rank(&l->leaders, me + 1), PLAN_NONE);
        parts_of_host(b, l, me + 2 * n - 1 - round, PLAN_RECEIVE, team_rank(&l->leaders, me + n - 1), PLAN_NONE);
    }
    hierarchical_spread(b, l);
}

/* ---- Broadcast, reduce, barrier ---- */

static void
hierarchical_broadcast(struct plan_build *b, const struct levels *l)
{
    struct grid_run rest, message;

    build_grid(b, 1);
    rest = build_pieces(b, 0, 1);
    while (build_next(b, &rest, &message)) {
        if (l->leads)
            tree_broadcast(b, &l->leaders, shape_for(b, l->leaders.n), message);
        tree_broadcast(b, &l->host, shape_for(b, l->host.n), message);
    }
}

static void
reduce_to_root(struct plan_build *b, const struct levels *l)
{
    enum plan_buffer final = b->ask->rank == b->ask->root ? PLAN_OUT : PLAN_SCRATCH;
    struct grid_run rest, message;

    build_grid(b, 1);
    build_window(b, TREE_WINDOW);
    rest = build_pieces(b, 0, 1);
    while (build_next(b, &rest, &message)) {
        tree_reduce(b, &l->host, shape_for(b, l->host.n), message, PLAN_SCRATCH, final);
        if (l->leads)
            tree_reduce(b, &l->leaders, shape_for(b, l->leaders.n), message, PLAN_SCRATCH, final);
    }
    if (final == PLAN_OUT)
        build_scale(b, build_pieces(b, 0, 1));
}

static void
hierarchical_barrier(struct plan_build *b, const struct levels *l)
{
    uint32_t last = PLAN_NONE;

    if (!l->leads) {
        last = build_signal(b, PLAN_SEND, l->inside[0], PLAN_NONE);
        build_signal(b, PLAN_RECEIVE, l->inside[0], last);
        return;
    }
    for (uint32_t i = 1; i < l->host.n; i++)
        last = build_signal(b, PLAN_RECEIVE, l->inside[i], last);
    last = dissemination(b, &l->leaders, last);
    for (uint32_t i = 1; i < l->host.n; i++)
        build_signal(b, PLAN_SEND, l->inside[i], last);
}

void
plan_hierarchical(struct plan_build *b)
{
    static void (*const ops[])(struct plan_build * b, const struct levels *l) = {
        [PLAN_ALL_REDUCE] = all_reduce, [PLAN_REDUCE_SCATTER] = reduce_scatter,
        [PLAN_ALL_GATHER] = all_gather, [PLAN_BROADCAST] = hierarchical_broadcast,
        [PLAN_REDUCE] = reduce_to_root, [PLAN_BARRIER] = hierarchical_barrier,
    };
    const struct plan_request *a = b->ask;
    struct levels l;

    levels_find(a, a->op == PLAN_BROADCAST || a->op == PLAN_REDUCE, &l);
    ops[a->op](b, &l);
}
