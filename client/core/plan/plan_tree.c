/* From one rank to all, and from all to one. The chain moves most bytes a second once it is full of segments; the
 * binomial tree ends after log2 n messages. */
#include "client/core/plan/plan_build.h"

#define CHILDREN_MAX 32

struct tree_links {
    uint32_t parent; /* PLAN_NONE: none */
    uint32_t children, child[CHILDREN_MAX];
};

/* In the binomial tree member i's parent is i without its lowest bit; so behind child i + 2^k there are the 2^k members
 * from it on, as far as there are any. Children in growing order. */
static struct tree_links
tree_links_of(uint32_t i, uint32_t n, enum tree_shape shape)
{
    struct tree_links k = {.parent = i == 0 ? PLAN_NONE : shape == TREE_CHAIN ? i - 1 : i & (i - 1)};

    if (shape == TREE_CHAIN) {
        if (i + 1 < n)
            k.child[k.children++] = i + 1;
        return k;
    }
    for (uint32_t bit = 1; (i & bit) == 0 && i + bit < n; bit <<= 1)
        k.child[k.children++] = i + bit;
    return k;
}

/* How many ranks' elements come from child c: those of the members behind it, and its own. */
static uint32_t
tree_sum(const struct plan_team *t, enum tree_shape shape, const struct tree_links *k, uint32_t c)
{
    uint32_t from = k->child[c], behind = shape == TREE_CHAIN ? t->n : from - t->me;

    return team_sum(t, from, MIN(from + behind, t->n));
}

/* The largest subtree first: it has the longest way to go. */
void
tree_broadcast(struct plan_build *b, const struct plan_team *t, enum tree_shape shape, struct grid_run r)
{
    struct tree_links k = tree_links_of(t->me, t->n, shape);
    struct grid_run message;

    while (build_next(b, &r, &message)) {
        if (k.parent != PLAN_NONE)
            build_receive(b, team_rank(t, k.parent), message, PLAN_OUT);
        for (uint32_t c = k.children; c-- > 0;)
            build_send(b, team_rank(t, k.child[c]), message);
    }
}

void
tree_reduce(struct plan_build *b, const struct plan_team *t, enum tree_shape shape, struct grid_run r,
            enum plan_buffer partial, enum plan_buffer final)
{
    struct tree_links k = tree_links_of(t->me, t->n, shape);
    struct grid_run message;

    while (build_next(b, &r, &message)) {
        for (uint32_t c = 0; c < k.children; c++)
            build_receive_reduce(b, team_rank(t, k.child[c]), message, k.parent == PLAN_NONE ? final : partial,
                                 tree_sum(t, shape, &k, c));
        if (k.parent != PLAN_NONE)
            build_send(b, team_rank(t, k.parent), message);
    }
}

void
tree_rooted(struct plan_build *b, enum tree_shape shape)
{
    const struct plan_request *a = b->ask;
    uint32_t rank[PS_GROUP_RANKS_MAX];
    struct plan_team t = {.n = a->ranks, .me = (a->rank + a->ranks - a->root) % a->ranks, .rank = rank};

    for (uint32_t i = 0; i < a->ranks; i++)
        rank[i] = (a->root + i) % a->ranks;
    build_grid(b, 1);
    if (a->op == PLAN_BROADCAST) {
        tree_broadcast(b, &t, shape, build_pieces(b, 0, 1));
        return;
    }
    build_window(b, TREE_WINDOW);
    tree_reduce(b, &t, shape, build_pieces(b, 0, 1), PLAN_SCRATCH, PLAN_OUT);
    if (a->rank == a->root)
        build_scale(b, build_pieces(b, 0, 1));
}

uint32_t
dissemination(struct plan_build *b, const struct plan_team *t, uint32_t need)
{
    for (uint32_t step = 1; step < t->n; step <<= 1) {
        uint32_t received;

        build_signal(b, PLAN_SEND, team_rank(t, t->me + step), need);
        received = build_signal(b, PLAN_RECEIVE, team_rank(t, t->me + t->n - step % t->n), need);
        need = received;
    }
    return need;
}
