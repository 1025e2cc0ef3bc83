/* ps_group.h: collective operations between workers: all-reduce and its relatives, without a parameter server in the
 * data's path.
 *
 *     ps_group *group;
 *     ps_group_open(cluster, NULL, &group, &error);      // every worker of the cluster; waits for all of them
 *     for (;;) {
 *         ... gradient at the weights that every rank has ...
 *         if (ps_group_all_reduce(group, gradient, gradient, n, PS_F32, PS_MEAN, NULL, &error))
 *             ...                                         // names the rank that was lost; ps_group_reform()
 *     }
 *     ps_group_close(group);
 *
 * Rules that hold everywhere:
 *
 * - A group is a set of ranks 0 to n - 1 that was agreed upon by all of them: one epoch of it. Every rank starts the
 *   same operations in the same order; one that starts another (operation, count, type, root) makes the group fail on
 *   every rank with PS_ERR_MISMATCH, which names it. Operations may be waited for in any order, and up to
 *   PS_GROUP_WORKS_MAX may be in flight.
 * - After an all-reduce every rank holds the same bits, and the same inputs in a group of the same ranks and hosts give
 *   the same bits in every run. Half types are summed in float32 and rounded once for each rank that adds to a part.
 *   MEAN of integers rounds toward zero.
 * - Buffers of a started operation are borrowed until it is done. in == out works in place; else they do not overlap.
 *   Host memory, aligned to the element's size (64 is best). While it is not done, and after it failed, what out holds
 *   is not defined.
 * - Failure is of the group, not of one operation: a rank that died, closed, was silent past a deadline or sent what
 *   makes no sense ends all that is in flight, on every rank, with an error that names the rank (peer "rank 2 at
 *   127.0.0.1:7000"): CLOSED, TIMEOUT, MISMATCH, PROTOCOL. Everything later is refused with the same error until
 *   ps_group_reform().
 * - Every call returns by its deadline. Time-outs are in milliseconds; as an argument -1 means options.timeout_ms and 0
 *   "do not wait". An operation has its own deadline, options.timeout_ms after it was started: one that is not done by
 *   then fails the group with TIMEOUT, which names a rank that was waited for. A wait that ends sooner (PS_ERR_TIMEOUT)
 *   ends alone, and one waits again.
 * - Threads: as for a client: the calling thread drives the network while it waits, and one thread at a time may use a
 *   group and its works; with options.progress_thread a hidden thread drives it all the time and any thread may call.
 */
#ifndef PS_GROUP_H
#define PS_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "ps_err.h"
#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PS_GROUP_RANKS_MAX 256
#define PS_GROUP_WORKS_MAX 256 /* in flight at once; one more is PS_ERR_LIMIT */

/* Element types: constant, name, bytes, number on the wire (add at the end, never renumber). */
/* clang-format off */
#define PS_DTYPE_LIST(X)          \
    X(F32,  "float32",  4, 0)     \
    X(F64,  "float64",  8, 1)     \
    X(F16,  "float16",  2, 2)     \
    X(BF16, "bfloat16", 2, 3)     \
    X(I32,  "int32",    4, 4)     \
    X(I64,  "int64",    8, 5)
/* clang-format on */
enum ps_dtype {
#define PS_DTYPE_ENUM(NAME, name, bytes, number) PS_##NAME = number,
    PS_DTYPE_LIST(PS_DTYPE_ENUM)
#undef PS_DTYPE_ENUM
        PS_DTYPES /* one past the last */
};
PS_API const char *ps_dtype_name(enum ps_dtype dtype); /* "float32"; NULL for a number that is not known. Static. */
PS_API size_t ps_dtype_size(enum ps_dtype dtype);      /* bytes; 0 for a number that is not known */

enum ps_reduce { PS_SUM = 0, PS_MEAN = 1, PS_MIN = 2, PS_MAX = 3, PS_PRODUCT = 4 };

/* How an operation is cut into messages; AUTO chooses by bytes, ranks and hosts. */
enum ps_algorithm {
    PS_ALGORITHM_AUTO = 0,
    PS_ALGORITHM_DIRECT = 1,      /* everybody sends all to everybody: one step, for small messages */
    PS_ALGORITHM_RING = 2,        /* Patarasuk and Yuan, 2009, pipelined in segments */
    PS_ALGORITHM_HALVING = 3,     /* recursive halving and doubling (Rabenseifner, 2004; Thakur et al., 2005) */
    PS_ALGORITHM_HIERARCHICAL = 4 /* within hosts, then one rank of each host, then within hosts */
};

/* algorithm, segment_bytes and transport are the same on every rank: the schedule follows from them (MISMATCH). */
struct ps_group_options {
    const char *name;   /* of the group, default "group", at most 255 bytes; groups of different names do not see each
                               other. Without shards a worker is in one group at a time: it meets at its listed
                               address */
    int timeout_ms;     /* of forming and of each operation; 0: 60,000 */
    uint32_t ranks_min; /* forming goes on without those that do not come once this many are there and settle_ms has
                           passed; 0: all of the cluster's workers are waited for */
    uint32_t settle_ms; /* 0: 1,000 */
    const char *listen; /* "host:port" where this rank listens; NULL: TF_CONFIG's own address of this worker when
                           the cluster has one, else a free port of the address by which the meeting is reached */
    enum ps_algorithm algorithm;
    size_t segment_bytes; /* largest message, 64 to 4,194,304; 0: chosen */
    enum ps_transport transport;
    int progress_thread;  /* nonzero: a hidden thread drives the network, so that communication overlaps computing */
    uint32_t spin_us;     /* poll this long before sleeping while waiting, microseconds, whatever comes */
    uint32_t patience_us; /* poll up to this long before sleeping, where that has lately paid; as ps_client_options' */
    const char *congestion; /* TCP congestion control; NULL: "reno" to loopback addresses, else the system's; "": the
                               system's everywhere */
    uint64_t incarnation;   /* which life of the worker this is; 0: random. For tests and replays */
    /* As ps_client_options'. Workers connect to each other: with tls_ca each has tls_cert and tls_key, which all others
     * must believe, with the numbers of its addresses among its names, or tls_name. */
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    const char *token; /* as of ps_client_options: proven to shards and to the other ranks, which must have the same;
                          else DENIED */
};

typedef struct ps_group ps_group;
typedef struct ps_work ps_work;

/* ---- Forming --------------------------------------------------------------------------------------------------- */

/* Meet the other workers of the cluster and connect to all of them. Where they meet: at shard 0 when the cluster has
 * shards, else at the lowest of TF_CONFIG's workers that is there. Ports need not be known beforehand when there are
 * shards. Ranks are numbered in the order of the workers' indices; with all workers there, the rank is the index.
 * options may be NULL; cluster is copied. A cluster of one worker without shards meets nobody.
 *
 * Errors: TIMEOUT (who has not come), CLUSTER (somebody of another cluster, or of another number of workers),
 * TASK_TAKEN (two live workers of one index), UNREACHABLE (where they meet), VERSION, PROTOCOL, CONFIG (no shards and
 * no addresses; this process is no worker), INVALID (an option), LIMIT (more than PS_GROUP_RANKS_MAX workers), MISMATCH
 * (another group is formed where they meet), IO, NOMEM. */
PS_API enum ps_err ps_group_open(const ps_cluster *cluster, const struct ps_group_options *options, ps_group **out,
                                 struct ps_error *error) PS_MUST_USE;

/* After a failure: meet again, as the same worker, with whoever comes: the survivors, and a process that replaces the
 * one that was lost. All works have ended and are freed by their owners. A group that has not failed may be formed anew
 * as well, by all of its ranks (somebody wants to join). Ranks, their number and the epoch may change. Errors as
 * ps_group_open(); the group can be formed again after them. timeout_ms: -1 for the option's. */
PS_API enum ps_err ps_group_reform(ps_group *group, uint32_t ranks_min, int timeout_ms,
                                   struct ps_error *error) PS_MUST_USE;

/* Let in who waits where workers meet, and keep the group if that comes to nothing: called by all ranks of one that has
 * not failed, behind the same operation, with nothing in flight. They meet while the group stays as it is. When all of
 * them have, and somebody else is there, it is formed anew with that one, as by ps_group_reform(), and *formed is 1.
 * Else the group is what it was and *formed is 0. That is PS_OK on every rank where nobody else has come, and otherwise
 * an error on every rank: what kept this one, or another, from meeting. A place to meet that cannot be reached is tried
 * once, and not for long.
 *
 * So after an error ps_group_state() is PS_OK where the group goes on; else it has failed, before it was formed anew
 * (*formed is 0) or while it was (1). timeout_ms: of meeting, and then of connecting; -1 for the option's. */
PS_API enum ps_err ps_group_admit(ps_group *group, int timeout_ms, int *formed, struct ps_error *error) PS_MUST_USE;

/* Say goodbye, and free. Works are freed before it (ps_work_free() waits for those in flight); handles that are left
 * are gone with the group. Other ranks that still wait for something of this one get CLOSED. Accepts NULL.
 *
 * It returns when the others' systems have all that they were promised, which they read when they like: at once, also
 * beside ranks that are away or have stopped. Only one that has left so much unread that no more fits into its buffers
 * is waited for, up to 2 s, and one that the group failed by up to 0.1 s. So it is where ps_group_reform() begins. */
PS_API void ps_group_close(ps_group *group);

PS_API uint32_t ps_group_rank(const ps_group *group);
PS_API uint32_t ps_group_ranks(const ps_group *group);
PS_API uint64_t ps_group_epoch(const ps_group *group); /* the same on all ranks, greater after each forming */
PS_API uint32_t ps_group_task(const ps_group *group, uint32_t rank); /* worker index of a rank; UINT32_MAX past it */
PS_API uint64_t ps_group_incarnation(const ps_group *group, uint32_t rank);  /* changes when a process is replaced */
PS_API int ps_group_same_host(const ps_group *group, uint32_t rank);         /* nonzero: it runs on this machine */
PS_API const char *ps_group_transport(const ps_group *group, uint32_t rank); /* "tcp", "shm", "self" */
/* PS_OK, or why the group failed. */
PS_API enum ps_err ps_group_state(const ps_group *group, struct ps_error *error);

/* ---- Operations -------------------------------------------------------------------------------------------------
 *
 * With work NULL a call waits until the operation is done, up to options.timeout_ms; else it starts it, and *work is
 * waited for and freed. Counts are in elements, may be 0, and are the same on every rank. Errors of starting: INVALID,
 * LIMIT, NOMEM, or why the group failed. */

/* out: [count] = the reduction of every rank's in: [count]. */
PS_API enum ps_err ps_group_all_reduce(ps_group *group, const void *in, void *out, size_t count, enum ps_dtype dtype,
                                       enum ps_reduce reduce, ps_work **work, struct ps_error *error) PS_MUST_USE;

/* Part r of the reduction to rank r. in: [count]; out: ps_group_part(count, ranks, rank) elements. Parts are count /
 * ranks elements, the first count % ranks of them one more. In place (out inside in): out must be in + this rank's
 * offset, and the rest of in is not defined afterwards. */
PS_API enum ps_err ps_group_reduce_scatter(ps_group *group, const void *in, void *out, size_t count,
                                           enum ps_dtype dtype, enum ps_reduce reduce, ps_work **work,
                                           struct ps_error *error) PS_MUST_USE;

/* Every rank's part to all. in: this rank's part, out: [count], the parts in the order of ranks. In place: in is out +
 * this rank's offset. */
PS_API enum ps_err ps_group_all_gather(ps_group *group, const void *in, void *out, size_t count, enum ps_dtype dtype,
                                       ps_work **work, struct ps_error *error) PS_MUST_USE;

/* buffer: [count], read at root, written elsewhere. */
PS_API enum ps_err ps_group_broadcast(ps_group *group, void *buffer, size_t count, enum ps_dtype dtype, uint32_t root,
                                      ps_work **work, struct ps_error *error) PS_MUST_USE;

/* out: [count] at root; elsewhere it may be NULL, and is left alone. */
PS_API enum ps_err ps_group_reduce(ps_group *group, const void *in, void *out, size_t count, enum ps_dtype dtype,
                                   enum ps_reduce reduce, uint32_t root, ps_work **work,
                                   struct ps_error *error) PS_MUST_USE;

/* Until every rank has come. */
PS_API enum ps_err ps_group_barrier(ps_group *group, ps_work **work, struct ps_error *error) PS_MUST_USE;

/* Between two ranks; only those two start it, so these are not in the order of the group's operations: the k-th send
 * from a to b goes to the k-th receive at b from a, and their counts and types must agree (MISMATCH). rank is not this
 * rank (INVALID). */
PS_API enum ps_err ps_group_send(ps_group *group, const void *buffer, size_t count, enum ps_dtype dtype, uint32_t to,
                                 ps_work **work, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_group_receive(ps_group *group, void *buffer, size_t count, enum ps_dtype dtype, uint32_t from,
                                    ps_work **work, struct ps_error *error) PS_MUST_USE;

/* Elements of part `rank` of count among ranks, and where it begins. */
PS_API size_t ps_group_part(size_t count, uint32_t ranks, uint32_t rank);
PS_API size_t ps_group_part_offset(size_t count, uint32_t ranks, uint32_t rank);

/* ---- Started operations ---------------------------------------------------------------------------------------- */

/* Let the network move without waiting; 1 when the work is done, well or not. */
PS_API int ps_work_test(ps_work *work);

/* Until it is done: its result. */
PS_API enum ps_err ps_work_wait(ps_work *work, int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* Wait for the end of one that is not done, whatever it is, and free. Accepts NULL. */
PS_API void ps_work_free(ps_work *work);

/* How an all-reduce in place would be carried out, for people and tests: "ring, rank 1 of 4, all-reduce of 1000
 * elements of 4 bytes, messages of up to 262144 bytes", then a line for each step of this rank. Heap, freed with
 * ps_free(); NULL: no memory, no such type, or the group is not formed. */
PS_API char *ps_group_explain(const ps_group *group, size_t count, enum ps_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
