/* Which algorithm and which messages for how much, between how many: thresholds, by what each costs.
 *
 * Let t be the time of an empty message and c that of a byte, and n ranks have N bytes each. An all-reduce takes about
 *
 *     DIRECT     t + (n-1) N c       one message time, most bytes
 *     HALVING    2 log2(n) t + 2 (n-1)/n N c
 *     RING       2 (n-1) t + 2 (n-1)/n N c, and of N c one segment's share less waiting for sums
 *
 * A message takes some 5 us more over loopback TCP than the bytes in it, a byte 0.1 to 0.3 ns: DIRECT ends where (n-1)
 * N is some 64 KiB, and the ring begins where its pieces are worth a message each. Through shared memory both cost a
 * tenth or so. */
#include "plan.h"
#include "plan_build.h"

/* DIRECT up to as many bytes from each rank to all the others together. */
#define DIRECT_BYTES_MAX        (64 * KIB)
#define DIRECT_BYTES_MAX_SHARED (32 * KIB)
/* and as many ranks: each message costs its sender some time, however short. */
#define DIRECT_RANKS_MAX 16
/* The ring from pieces of as many bytes on. */
#define RING_PIECE_BYTES_MIN (32 * KIB)
/* Levels pay when hosts have several ranks and what crosses between them takes time. */
#define HIERARCHICAL_BYTES_MIN (16 * KIB)

/* Messages: large enough that their number costs nothing, small enough for a second-level cache to hold what is
 * received and added. */
#define SEGMENT_BYTES        (256 * KIB)
#define SEGMENT_BYTES_SHARED (128 * KIB)
/* A chain or tree is full sooner with smaller ones. */
#define SEGMENT_BYTES_TREE (64 * KIB)

static size_t
bytes_of(const struct plan_ask *a)
{
    return a->count * a->size;
}

static bool
small_enough_for_all(const struct plan_ask *a)
{
    size_t most = a->shared_memory ? DIRECT_BYTES_MAX_SHARED : DIRECT_BYTES_MAX, sent = bytes_of(a);

    if (a->op == PLAN_REDUCE_SCATTER || a->op == PLAN_ALL_GATHER)
        sent /= a->ranks;
    return a->ranks <= 2 ? sent <= most : a->ranks <= DIRECT_RANKS_MAX && sent * (a->ranks - 1) <= most;
}

enum ps_algorithm
plan_choose(const struct plan_ask *a)
{
    struct hosts hosts;

    if (a->ranks <= 1)
        return PS_ALGORITHM_DIRECT;
    hosts_find(a, &hosts);
    if (a->op == PLAN_BARRIER && a->ranks > DIRECT_RANKS_MAX / 2)
        return hosts.n > 1 && hosts.n < a->ranks ? PS_ALGORITHM_HIERARCHICAL : PS_ALGORITHM_HALVING;
    if (a->op == PLAN_BARRIER || small_enough_for_all(a))
        return PS_ALGORITHM_DIRECT;
    if (hosts.n > 1 && hosts.n < a->ranks && bytes_of(a) >= HIERARCHICAL_BYTES_MIN)
        return PS_ALGORITHM_HIERARCHICAL;
    return bytes_of(a) / a->ranks >= RING_PIECE_BYTES_MIN ? PS_ALGORITHM_RING : PS_ALGORITHM_HALVING;
}

size_t
plan_choose_segment(const struct plan_ask *a, enum ps_algorithm algorithm)
{
    bool tree = a->op == PLAN_BROADCAST || a->op == PLAN_REDUCE || algorithm == PS_ALGORITHM_HIERARCHICAL;
    size_t segment = tree ? SEGMENT_BYTES_TREE : a->shared_memory ? SEGMENT_BYTES_SHARED : SEGMENT_BYTES;

    /* However much there is, it is done in fewer than PLAN_STEPS_MAX steps: each rank sends and receives every cell
     * once or twice; DIRECT sends them to all. */
    while (bytes_of(a) / segment > PLAN_STEPS_MAX / 8 / (algorithm == PS_ALGORITHM_DIRECT ? a->ranks : 1))
        segment *= 2;
    return segment;
}
