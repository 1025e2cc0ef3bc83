/* Which algorithm and which messages for how much, between how many: thresholds, by what each costs.
 *
 * Let t be the time of an empty message and c that of a byte, and n ranks have N bytes each. An all-reduce takes about
 *
 *     DIRECT     t + (n-1) N c       one message time, most bytes
 *     HALVING    2 log2(n) t + 2 (n-1)/n N c; of few bytes log2(n) t + log2(n) N c
 *     RING       2 (n-1) t + 2 (n-1)/n N c, and of N c one segment's share less waiting for sums
 *
 * Between hosts t is the way there. On one host it is what a message costs the processor that sends it, some 5 us
 * over loopback TCP and a tenth of that through shared memory, and the processors are the ranks' own: there DIRECT's
 * n (n-1) messages cost more than the n log2(n) of HALVING. Measured in us (bench collective --pin --algorithm,
 * spinning, medians, 2 cores; the machine moves its cores about, so figures of one row alone compare):
 *
 *                  shared memory                TCP
 *               direct halving    ring    direct halving    ring
 *     2 ranks
 *        4 kB      3.8     3.9     4.7      16.1    15.8    36.4
 *       64 kB      9.0     8.5     7.7      36.7    49.9    50.4
 *      128 kB     16.0    14.5    13.9      67.2    67.6    69.1
 *        1 MB    108      70.6    73.1     317     287     302
 *     4 ranks
 *        4 kB     10.6     9.4    20.2      74.1    55.4   151
 *       16 kB     39.2    28.4    40.2     138     103     248
 *       64 kB    138      59.0   131       359     233     339
 *      250 kB    215      72.9    74.0     562     315     366
 *        1 MB   1093     341     313      2355     891     858 */
#include "client/core/plan/plan.h"
#include "client/core/plan/plan_team.h"

/* DIRECT up to as many bytes from each rank to all the others together. */
#define DIRECT_BYTES_MAX        (64 * KIB)
#define DIRECT_BYTES_MAX_SHARED (32 * KIB)
/* and as many ranks: each message costs its sender some time, however short. */
#define DIRECT_RANKS_MAX          16
#define DIRECT_RANKS_MAX_ONE_HOST 3 /* of an all-reduce */
/* The ring from pieces of as many bytes on. */
#define RING_PIECE_BYTES_MIN            (32 * KIB)
#define RING_PIECE_BYTES_MIN_ALL_REDUCE (128 * KIB)
/* Levels pay when hosts have several ranks and what crosses between them takes time. */
#define HIERARCHICAL_BYTES_MIN (16 * KIB)

/* Messages: large enough that their number costs nothing, small enough for a second-level cache to hold what is
 * received and added. */
#define SEGMENT_BYTES        (256 * KIB)
#define SEGMENT_BYTES_SHARED (128 * KIB)
/* On one host over TCP nothing is on its way while something is added: the same processors do both, and each message
 * costs them. So two messages of a piece, where that is not so much that caches lose it: bare sockets move 4 MB both
 * ways in 550 us by calls of 1 MiB, in 820 us by calls of 256 KiB. */
#define SEGMENT_BYTES_ONE_HOST (512 * KIB)
#define SEGMENT_PAIR_BYTES_MAX (2 * MIB)
/* A chain or tree is full sooner with smaller ones. */
#define SEGMENT_BYTES_TREE (64 * KIB)

static size_t
bytes_of(const struct plan_request *a)
{
    return a->count * a->size;
}

static bool
small_enough_for_all(const struct plan_request *a, const struct plan_hosts *hosts)
{
    size_t most = a->shared_memory ? DIRECT_BYTES_MAX_SHARED : DIRECT_BYTES_MAX, sent = bytes_of(a);
    uint32_t ranks = a->op == PLAN_ALL_REDUCE && hosts->n == 1 ? DIRECT_RANKS_MAX_ONE_HOST : DIRECT_RANKS_MAX;

    if (a->op == PLAN_REDUCE_SCATTER || a->op == PLAN_ALL_GATHER)
        sent /= a->ranks;
    return a->ranks <= 2 ? sent <= most : a->ranks <= ranks && sent * (a->ranks - 1) <= most;
}

enum ps_algorithm
plan_choose(const struct plan_request *a)
{
    struct plan_hosts hosts;
    size_t piece;

    if (a->ranks <= 1)
        return PS_ALGORITHM_DIRECT;
    hosts_find(a, &hosts);
    if (a->op == PLAN_BARRIER && a->ranks > DIRECT_RANKS_MAX / 2)
        return hosts.n > 1 && hosts.n < a->ranks ? PS_ALGORITHM_HIERARCHICAL : PS_ALGORITHM_HALVING;
    if (a->op == PLAN_BARRIER || small_enough_for_all(a, &hosts))
        return PS_ALGORITHM_DIRECT;
    if (hosts.n > 1 && hosts.n < a->ranks && bytes_of(a) >= HIERARCHICAL_BYTES_MIN)
        return PS_ALGORITHM_HIERARCHICAL;
    piece = a->op == PLAN_ALL_REDUCE ? RING_PIECE_BYTES_MIN_ALL_REDUCE : RING_PIECE_BYTES_MIN;
    return bytes_of(a) / a->ranks >= piece ? PS_ALGORITHM_RING : PS_ALGORITHM_HALVING;
}

/* Between hosts a message is on its way while another is added: there smaller ones leave less to wait for. */
static size_t
segment_of_pieces(const struct plan_request *a)
{
    size_t piece = bytes_of(a) / a->ranks;
    struct plan_hosts hosts;

    hosts_find(a, &hosts);
    if (hosts.n > 1)
        return SEGMENT_BYTES;
    return piece <= SEGMENT_PAIR_BYTES_MAX ? MAX(SEGMENT_BYTES_ONE_HOST, round_up(piece / 2, KIB))
                                           : SEGMENT_BYTES_ONE_HOST;
}

size_t
plan_choose_segment(const struct plan_request *a, enum ps_algorithm algorithm)
{
    bool tree = a->op == PLAN_BROADCAST || a->op == PLAN_REDUCE || algorithm == PS_ALGORITHM_HIERARCHICAL;
    size_t segment = tree ? SEGMENT_BYTES_TREE : a->shared_memory ? SEGMENT_BYTES_SHARED : segment_of_pieces(a);

    /* However much there is, it is done in fewer than PLAN_STEPS_MAX steps: each rank sends and receives every cell
     * once or twice; DIRECT sends them to all. */
    while (bytes_of(a) / segment > PLAN_STEPS_MAX / 8 / (algorithm == PS_ALGORITHM_DIRECT ? a->ranks : 1))
        segment *= 2;
    return segment;
}
