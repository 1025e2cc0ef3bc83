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
 *   same operations in the same order. Operations may be waited for in any order, and up to PS_GROUP_WORKS_MAX may be
 *   in flight.
 * - PS_OK of an operation means that every rank has started the same one: operation, count, type, reduction, root,
 *   algorithm, messages; of a reducer (ps_reducer.h) and a compressor (ps_compressor.h) also the parameters' sizes and
 *   the compression. Where ranks differ, that operation ends with PS_ERR_MISMATCH on every rank, whatever its size. The
 *   sentence says what each rank started; peer names a rank that differs from what more than half of all started, and
 *   is "" without such a majority, where nobody can say which is wrong. So no rank is done before all have started the
 *   operation, the root of a broadcast neither, nor a send before the receive.
 * - After an all-reduce every rank holds the same bits, and the same inputs in a group of the same ranks and hosts give
 *   the same bits in every run. Half types are computed in float32 and rounded once for each rank that adds to a part.
 * - Buffers of a started operation are borrowed until it is done. in == out works in place; else they do not overlap.
 *   Host memory, aligned to the element's size (64 is best). While it is not done, and after it failed, what out holds
 *   is not defined.
 * - Failure is of the group, not of one operation: a rank that died, closed, was silent past a deadline or sent what
 *   makes no sense ends all that is in flight, on every rank, with an error that names the rank (peer "rank 2 at
 *   127.0.0.1:7000"): CLOSED, TIMEOUT, PROTOCOL; so does a MISMATCH. Everything later is refused with the same error,
 *   until ps_group_reform().
 * - Every call returns by its deadline. An operation has its own deadline, options.timeout_ms after it was started: one
 *   that is not done by then fails the group with TIMEOUT, which names a rank that was waited for. A wait that ends
 *   sooner (PS_ERR_TIMEOUT) ends alone, and the operation may be waited for again.
 * - Signals, fork and const are as psclient.h has them.
 * - Threads: as for a client: the calling thread drives the network while it waits, and one thread at a time may use a
 *   group and its works; with options.progress_thread a hidden thread drives it all the time and any thread may call.
 *
 * Parameters:
 *   group       from ps_group_open()
 *   rank        from 0 on
 *   count       elements; may be 0; the same on every rank
 *   dtype       the elements' type; the same on every rank
 *   reduce      how elements become one; the same on every rank
 *   work        NULL: the call waits until the operation is done, up to options.timeout_ms; else the operation, which
 *               the caller waits for and frees with ps_work_free()
 *   timeout_ms  milliseconds that the call waits at most; -1: options.timeout_ms; 0: do not wait
 *   error       filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Errors group:
 *   PS_ERR_CLOSED    a rank has died or left, or the group is not formed: names the rank
 *   PS_ERR_TIMEOUT   a rank was silent past a deadline: names it
 *   PS_ERR_MISMATCH  ranks started different operations: says which started what
 *   PS_ERR_PROTOCOL  a rank sent what makes no sense: names it
 *   PS_ERR_NOMEM     a rank has no memory for what another one started or sent
 * Errors operation:
 *   PS_ERR_INVALID  the group is NULL; a type, a reduction or a rank that is not known; a buffer that is NULL where
 *                   count is not 0, is not aligned to its elements, or overlaps without being in place
 *   PS_ERR_LIMIT    more than PS_GROUP_WORKS_MAX operations are in flight
 *   PS_ERR_NOMEM    no memory
 * Threads: one at a time for a group and its works; with options.progress_thread any. */
#ifndef PS_GROUP_H
#define PS_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "ps_err.h"
#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most ranks of a group, and most operations in flight at once.
 * Since: 0.1 */
#define PS_GROUP_RANKS_MAX 256
#define PS_GROUP_WORKS_MAX 256

/* Element types: constant, name, bytes, number on the wire (add at the end, never renumber).
 * Since: 0.1 */
/* clang-format off */
#define PS_DTYPE_LIST(X)          \
    X(F32,  "float32",  4, 0)     \
    X(F64,  "float64",  8, 1)     \
    X(F16,  "float16",  2, 2)     \
    X(BF16, "bfloat16", 2, 3)     \
    X(I32,  "int32",    4, 4)     \
    X(I64,  "int64",    8, 5)
/* clang-format on */

/* What an element is.
 * Since: 0.1 */
enum ps_dtype {
#define PS_DTYPE_ENUM(NAME, name, bytes, number) PS_##NAME = number,
    PS_DTYPE_LIST(PS_DTYPE_ENUM)
#undef PS_DTYPE_ENUM
        PS_DTYPES /* one past the last */
};

/* What a type is.
 *
 * Returns:
 *   ps_dtype_name()  "float32"; NULL for a number that is not known. Static
 *   ps_dtype_size()  bytes of an element; 0 for a number that is not known
 * Threads: any.
 * Since: 0.1 */
PS_API const char *ps_dtype_name(enum ps_dtype dtype);
PS_API size_t ps_dtype_size(enum ps_dtype dtype);

/* How elements of the ranks become one.
 *
 * PS_SUM and PS_PRODUCT are computed in the elements' type (half types in float32, and rounded): what is too large for
 * a float becomes infinite, integers wrap. PS_MEAN is not made of such a sum: the mean of finite elements is finite,
 * however large they are, and that of integers is exact, rounded toward zero, whatever their sum is. Of float32 and
 * float64 it has the bits of the sum of all, divided once, unless that is too large or something on the way is
 * subnormal. Integers travel as two of their type each for it.
 *
 * Since: 0.1 */
enum ps_reduce { PS_SUM = 0, PS_MEAN = 1, PS_MIN = 2, PS_MAX = 3, PS_PRODUCT = 4 };

/* How an operation is cut into messages; AUTO chooses by bytes, ranks and hosts.
 * Since: 0.1 */
enum ps_algorithm {
    PS_ALGORITHM_AUTO = 0,
    PS_ALGORITHM_DIRECT = 1,      /* everybody sends all to everybody: one step, for small messages */
    PS_ALGORITHM_RING = 2,        /* Patarasuk and Yuan, 2009, pipelined in segments */
    PS_ALGORITHM_HALVING = 3,     /* recursive halving and doubling (Rabenseifner, 2004; Thakur et al., 2005) */
    PS_ALGORITHM_HIERARCHICAL = 4 /* within hosts, then one rank of each host, then within hosts */
};

/* How a group is opened. Zeroed: all defaults. algorithm and segment_bytes are the same on every rank: the schedule
 * follows from them (MISMATCH). timeout_ms may differ: the shortest ends an operation for all.
 *
 * Since: 0.1 */
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
    size_t segment_bytes;        /* largest message, 64 to 4,194,304; 0: chosen */
    enum ps_transport transport; /* default PS_TRANSPORT_AUTO, or what PSD_TRANSPORT in the environment says, auto or
                                    tcp. Two ranks of a host share memory when both have AUTO */
    int progress_thread; /* nonzero: a hidden thread drives the network, so that communication overlaps computing */
    uint32_t spin_us;    /* poll this long before sleeping while waiting, microseconds, whatever comes */
    uint32_t adaptive_spin_us; /* poll up to this long before sleeping, where that has lately paid; as a client's */
    const char *congestion;    /* TCP congestion control; NULL: "reno" to loopback addresses, else the system's; "": the
                                  system's everywhere */
    uint64_t incarnation;      /* which life of the worker this is; 0: random. For tests and replays */
    /* As ps_client_options'. Workers connect to each other: with tls_ca each has tls_cert and tls_key, which all others
     * must believe, with the numbers of its addresses among its names, or tls_name. */
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    const char *token; /* as of ps_client_options: proven to shards and to the other ranks, which must have the same;
                          else DENIED */
    int quiet;         /* nonzero: no line on stderr when forming has waited for 2 seconds, 4, 8 and so on */
};

/* A group of ranks, as one of them has it.
 * Since: 0.1 */
typedef struct ps_group ps_group;

/* An operation of a group that was started.
 * Since: 0.1 */
typedef struct ps_work ps_work;

/* ---- Forming ----------------------------------------------------------------------------------------------------- */

/* Meet the other workers of the cluster and connect to all of them.
 *
 * Where they meet: at shard 0 when the cluster has shards, else at the lowest of TF_CONFIG's workers that is there.
 * Ports need not be known beforehand when there are shards. Ranks are numbered in the order of the workers' indices;
 * with all workers there, the rank is the index. A cluster of one worker without shards meets nobody.
 *
 * Parameters:
 *   cluster  copied
 *   options  NULL: all defaults
 *   out      the group, which the caller ends with ps_group_close(); NULL after an error
 * Errors:
 *   PS_ERR_TIMEOUT      a worker has not come: names it
 *   PS_ERR_CLUSTER      somebody of another cluster, or of another number of workers
 *   PS_ERR_TASK_TAKEN   two live workers of one index
 *   PS_ERR_UNREACHABLE  where they meet
 *   PS_ERR_VERSION      another version of the protocol, or of the library where operations have other messages
 *   PS_ERR_PROTOCOL     something else answers, or sent what makes no sense
 *   PS_ERR_CONFIG       no shards and no addresses; this process is no worker; a file of TLS or of a token cannot be
 *                       used; PSD_TRANSPORT is neither auto nor tcp
 *   PS_ERR_INVALID      an option is not valid, or cluster or out is NULL
 *   PS_ERR_CANCELLED    ps_interrupt()
 *   PS_ERR_LIMIT        more than PS_GROUP_RANKS_MAX workers
 *   PS_ERR_MISMATCH     another group is formed where they meet, or with other options
 *   PS_ERR_TLS          a peer is not believed, does not believe this one, or has no TLS
 *   PS_ERR_DENIED       a peer does not have the same token
 *   PS_ERR_UNSUPPORTED  a peer cannot do what is asked for
 *   PS_ERR_CLOSED       a rank left while the group was formed
 *   PS_ERR_IO           too many open files, or this rank cannot listen
 *   PS_ERR_NOMEM        no memory
 * Threads: any, each for its own group; not while another thread changes the environment.
 * Since: 0.1 */
PS_API enum ps_err ps_group_open(const ps_cluster *cluster, const struct ps_group_options *options, ps_group **out,
                                 struct ps_error *error) PS_MUST_USE;

/* Meet again, as the same worker, with whoever comes: the survivors, and a process that replaces the one that was lost.
 *
 * After a failure; all works have ended and are freed by their owners. A group that has not failed may be formed again
 * as well, by all of its ranks (somebody wants to join). Ranks, their number and the epoch may change. The group can be
 * formed again after an error.
 *
 * Parameters:
 *   ranks_min  as in ps_group_options; at most PS_GROUP_RANKS_MAX
 * Errors:
 *   ps_group_open()  the group is not formed
 *   PS_ERR_INVALID   group is NULL, or ranks_min is too large
 * Since: 0.1 */
PS_API enum ps_err ps_group_reform(ps_group *group, uint32_t ranks_min, int timeout_ms,
                                   struct ps_error *error) PS_MUST_USE;

/* Let in a worker that waits where workers meet, and keep the group if that comes to nothing.
 *
 * Called by all ranks of a group that has not failed, behind the same operation, with nothing in flight. They meet
 * while the group stays as it is. When all of them have, and somebody else is there, it is formed again with that one,
 * as by ps_group_reform(), and *formed is 1. Else the group is what it was and *formed is 0. That is PS_OK on every
 * rank where nobody else has come, and otherwise an error on every rank: what kept this one, or another, from meeting.
 * A place to meet that cannot be reached is tried once, and not for long.
 *
 * So after an error ps_group_state() is PS_OK where the group goes on; else it has failed, before it was formed again
 * (*formed is 0) or while it was (1).
 *
 * Parameters:
 *   timeout_ms  milliseconds of meeting, and then of connecting; -1: options.timeout_ms
 *   formed      1: the group was formed again, or was being; 0: it is as it was
 * Errors:
 *   PS_ERR_CANCELLED  the ranks come from different rendezvous
 *   PS_ERR_INVALID    group or formed is NULL
 *   ps_group_open()   what kept this rank, or another, from meeting
 *   (group)           why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_admit(ps_group *group, int timeout_ms, int *formed, struct ps_error *error) PS_MUST_USE;

/* Say goodbye, and free the group.
 *
 * Works are freed before it (ps_work_free() waits for those in flight); handles that are left are gone with the group.
 * Other ranks that still wait for something of this one get CLOSED.
 *
 * It returns when the others' systems have all that they were promised, which they read when they like: at once, also
 * beside ranks that are away or have stopped. Only one that has left so much unread that no more fits into its buffers
 * is waited for, up to 2 s, and one that the group failed by up to 0.1 s. So it is where ps_group_reform() begins.
 *
 * Parameters:
 *   group  or NULL
 * Since: 0.1 */
PS_API void ps_group_close(ps_group *group);

/* ---- What it is -------------------------------------------------------------------------------------------------- */

/* Which rank this is, and which the others are. Of the forming that holds now.
 *
 * Returns:
 *   ps_group_rank()         this process's rank
 *   ps_group_ranks()        number of ranks
 *   ps_group_epoch()        the same on all ranks, greater after each forming
 *   ps_group_task()         worker index of a rank; UINT32_MAX past the last
 *   ps_group_incarnation()  which life of the worker a rank is: changes when a process is replaced; 0 past the last
 *   ps_group_same_host()    nonzero: the rank runs on this machine; 0 past the last
 *   ps_group_transport()    how frames travel to a rank: "tcp", "shm", "self"; "" past the last. Static
 * Since: 0.1 */
PS_API uint32_t ps_group_rank(const ps_group *group);
PS_API uint32_t ps_group_ranks(const ps_group *group);
PS_API uint64_t ps_group_epoch(const ps_group *group);
PS_API uint32_t ps_group_task(const ps_group *group, uint32_t rank);
PS_API uint64_t ps_group_incarnation(const ps_group *group, uint32_t rank);
PS_API int ps_group_same_host(const ps_group *group, uint32_t rank);
PS_API const char *ps_group_transport(const ps_group *group, uint32_t rank);

/* Whether the group works.
 *
 * Errors:
 *   (group)  why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_state(const ps_group *group, struct ps_error *error);

/* ---- Operations -------------------------------------------------------------------------------------------------- */

/* Reduce every rank's elements, to all ranks.
 *
 * Parameters:
 *   in   [count], this rank's
 *   out  [count], the reduction; may be in
 * Errors:
 *   (operation)  the operation has not started
 *   (group)      why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_all_reduce(ps_group *group, const void *in, void *out, size_t count, enum ps_dtype dtype,
                                       enum ps_reduce reduce, ps_work **work, struct ps_error *error) PS_MUST_USE;

/* Reduce every rank's elements, part r of the result to rank r.
 *
 * Parts are count / ranks elements, the first count % ranks of them one more (ps_group_part()). In place (out inside
 * in): out must be in + this rank's offset, and the rest of in is not defined afterwards.
 *
 * Parameters:
 *   in   [count], this rank's
 *   out  [ps_group_part(count, ranks, rank)], this rank's part of the reduction
 * Errors:
 *   (operation)  the operation has not started
 *   (group)      why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_reduce_scatter(ps_group *group, const void *in, void *out, size_t count,
                                           enum ps_dtype dtype, enum ps_reduce reduce, ps_work **work,
                                           struct ps_error *error) PS_MUST_USE;

/* Bring every rank's part to all ranks.
 *
 * Parameters:
 *   in   [ps_group_part(count, ranks, rank)], this rank's part
 *   out  [count], the parts in the order of ranks. In place: in is out + this rank's offset
 * Errors:
 *   (operation)  the operation has not started
 *   (group)      why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_all_gather(ps_group *group, const void *in, void *out, size_t count, enum ps_dtype dtype,
                                       ps_work **work, struct ps_error *error) PS_MUST_USE;

/* Bring one rank's elements to all ranks.
 *
 * Parameters:
 *   buffer  [count], read at root, written elsewhere
 *   root    the rank; the same on every rank
 * Errors:
 *   (operation)  the operation has not started
 *   (group)      why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_broadcast(ps_group *group, void *buffer, size_t count, enum ps_dtype dtype, uint32_t root,
                                      ps_work **work, struct ps_error *error) PS_MUST_USE;

/* Reduce every rank's elements, to one rank.
 *
 * Parameters:
 *   in    [count], this rank's
 *   out   [count] at root; elsewhere it may be NULL, and is left alone
 *   root  the rank; the same on every rank
 * Errors:
 *   (operation)  the operation has not started
 *   (group)      why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_reduce(ps_group *group, const void *in, void *out, size_t count, enum ps_dtype dtype,
                                   enum ps_reduce reduce, uint32_t root, ps_work **work,
                                   struct ps_error *error) PS_MUST_USE;

/* Wait until every rank has come.
 *
 * Errors:
 *   (operation)  the operation has not started
 *   (group)      why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_barrier(ps_group *group, ps_work **work, struct ps_error *error) PS_MUST_USE;

/* Send elements to one rank, or receive them from one.
 *
 * Only those two ranks start it, so these are not in the order of the group's operations: the k-th send from a to b
 * goes to the k-th receive at b from a, and their counts and types must agree (MISMATCH). A send is done when its
 * receive has been started, however little it sends: two ranks that each send to the other first, and wait, wait for
 * ever; of such a pair one starts its send with a work.
 *
 * Parameters:
 *   buffer  [count], read by the send, written by the receive
 *   to      the rank that receives; not this rank
 *   from    the rank that sends; not this rank
 * Errors:
 *   (operation)  the operation has not started
 *   (group)      why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_group_send(ps_group *group, const void *buffer, size_t count, enum ps_dtype dtype, uint32_t to,
                                 ps_work **work, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_group_receive(ps_group *group, void *buffer, size_t count, enum ps_dtype dtype, uint32_t from,
                                    ps_work **work, struct ps_error *error) PS_MUST_USE;

/* Elements of part `rank` of count among ranks, and where it begins.
 *
 * Parameters:
 *   ranks  number of parts
 * Returns:
 *   ps_group_part()         its elements
 *   ps_group_part_offset()  elements before it
 * Threads: any.
 * Since: 0.1 */
PS_API size_t ps_group_part(size_t count, uint32_t ranks, uint32_t rank);
PS_API size_t ps_group_part_offset(size_t count, uint32_t ranks, uint32_t rank);

/* ---- Started operations ------------------------------------------------------------------------------------------ */

/* Whether an operation is done, after letting the network move without waiting.
 *
 * Parameters:
 *   work  the operation
 * Returns: 1 when it is done, well or not, else 0.
 * Since: 0.1 */
PS_API int ps_work_test(ps_work *work);

/* Wait until an operation is done.
 *
 * Parameters:
 *   work  the operation
 * Returns: its result: PS_OK, or the code that *error has, too.
 * Errors:
 *   PS_ERR_TIMEOUT  the wait's deadline passed: the operation goes on, and may be waited for again
 *   PS_ERR_INVALID  work is NULL
 *   (group)         why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_work_wait(ps_work *work, int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* Free an operation; wait for the end of one that is not done, whatever it is.
 *
 * Parameters:
 *   work  or NULL
 * Since: 0.1 */
PS_API void ps_work_free(ps_work *work);

/* How an all-reduce in place would be carried out, for people and tests.
 *
 *     ring, rank 1 of 4, all-reduce of 1000 elements of 4 bytes, messages of up to 262144 bytes
 *
 * then a line for each step of this rank.
 *
 * Returns: heap memory, freed with ps_free(); NULL: no memory, no such type, or the group is not formed.
 * Since: 0.1 */
PS_API char *ps_group_explain(const ps_group *group, size_t count, enum ps_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
