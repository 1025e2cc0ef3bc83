/* ps_client.h: a worker's session with every shard of a cluster: opening, closing, joining again, its clock, its place
 * in the data, its counts. Part of psclient.h, which has the rules.
 *
 * Parameters:
 *   client      from ps_client_open()
 *   timeout_ms  milliseconds that the call waits at most; -1: the client's default; 0: do not wait
 *   error       filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Errors session:
 *   PS_ERR_FENCED        the worker was evicted, or another process has taken its index; ps_client_rejoin()
 *   PS_ERR_LEASE_LAPSED  nothing was heard of the worker for its lease; ps_client_rejoin()
 *   PS_ERR_CLUSTER       a shard belongs to another cluster, or is another shard of it
 *   PS_ERR_MISMATCH      a shard knows the job with other options, or a variable by another definition
 *   PS_ERR_VERSION       a shard speaks a protocol version that is not known here
 *   PS_ERR_PROTOCOL      a shard broke the protocol, or something else listens at its address
 *   PS_ERR_SEQUENCE      a shard lacks a push that it should have had
 *   PS_ERR_TLS           a peer is not believed, does not believe this one, or has no TLS
 *   PS_ERR_DENIED        a shard does not accept the token, or does not prove to have it
 *   PS_ERR_UNSUPPORTED   a shard cannot do what the session asks for
 *   PS_ERR_CLOSED        the client is being closed, or has not joined all shards again after ps_client_rejoin() failed
 * Threads: one at a time for a client and everything that came from it; with options.progress_thread any. */
#ifndef PS_CLIENT_H
#define PS_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "ps_cluster.h"
#include "ps_compress.h"
#include "ps_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A worker's, or an observer's, connections to all shards.
 * Since: 0.1 */
typedef struct ps_client ps_client;

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* When a pull may be answered and when an update happens; the same for all workers of a job. In sync an update happens
 * once per block and clock.
 *
 * Since: 0.1 */
enum ps_mode {
    PS_ASYNC = 0, /* at once; on arrival */
    PS_SSP = 1,   /* when the slowest live clock is at least mine - bound (Ho et al., NIPS 2013); on arrival */
    PS_SYNC = 2   /* when the clock's update is done; once for each block, the mean of its first `quorum` gradients */
};

/* What happens to others when a worker's lease lapses.
 * Since: 0.1 */
enum ps_lapse {
    PS_LAPSE_SHRINK = 0, /* a lost worker is no longer waited for */
    PS_LAPSE_FAIL = 1    /* what waits for a lost worker ends with PS_ERR_STEP_FAILED */
};

/* ps_client_options.adaptive_spin_us and ps_group_options.adaptive_spin_us: do not poll.
 * Since: 0.1 */
#define PS_SPIN_NEVER UINT32_MAX

/* How frames travel to a shard, or to another rank of a group (ps_group.h).
 * Since: 0.1 */
enum ps_transport {
    PS_TRANSPORT_AUTO = 0, /* through shared memory where both are on one host and it can be had, else by sockets */
    PS_TRANSPORT_TCP = 1   /* by sockets: TCP, or what the shard's address says */
};

/* How a push counts by its age, the updates that its block took since the gradient's weights were pulled.
 * Since: 0.1 */
enum ps_age { PS_AGE_NONE = 0, PS_AGE_INVERSE = 1, PS_AGE_EXPONENTIAL = 2, PS_AGE_CUTOFF = 3 };

/* Most metrics of a worker, and the longest name of one in bytes.
 * Since: 0.1 */
#define PS_METRICS_MAX     32
#define PS_METRIC_NAME_MAX 63

/* How a client is opened. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_client_options {
    const char *job;             /* name of the job, default "train"; jobs on one cluster do not see each other */
    enum ps_mode mode;           /* default PS_ASYNC */
    uint32_t bound;              /* ssp: clocks; other modes pass it over */
    uint32_t quorum;             /* sync: k of the job's workers, 0: all; other modes pass it over */
    enum ps_lapse lapse;         /* default PS_LAPSE_SHRINK */
    enum ps_age age;             /* default PS_AGE_NONE */
    double age_parameter;        /* exponential: base in (0, 1); cutoff: largest age that counts */
    int timeout_ms;              /* default for time-outs of -1; 0 here: 60,000 */
    uint32_t lease_ms;           /* how long this worker may be silent on an open connection; 0: 300,000 */
    int durable;                 /* nonzero: every push as with PS_PUSH_DURABLE */
    struct ps_compress compress; /* how gradients travel where ps_push_options.compress is NULL; zeroed: as they are */
    int progress_thread;         /* nonzero: drive the network from a hidden thread */
    uint32_t spin_us;            /* poll this long before sleeping while waiting, microseconds, whatever comes; the
                                    progress thread always sleeps */
    uint32_t adaptive_spin_us;   /* poll up to this long before sleeping, where what is waited for has lately come in
                               that time; 0: 50, or, on a single processor, not at all; PS_SPIN_NEVER: not */
    int observer;    /* nonzero: look only (psctl, an evaluator); no worker index is taken, and opening does not
                        wait for shards that are not there. A cluster's evaluator observes in any case, but waits
                        for them */
    int any_cluster; /* nonzero, observers only: accept shards of any cluster name and count */
    enum ps_transport transport; /* default PS_TRANSPORT_AUTO, or what PSD_TRANSPORT in the environment says, auto or
                               tcp: shared memory with shards on this host that can open it (they run as root or the
                               same user, in the same container), 2 MiB for each */
    const char *congestion; /* TCP congestion control ("reno"); NULL: "reno" to loopback addresses, else the system's */
    uint64_t copy_max;      /* bytes that PS_PUSH_COPY may hold in all; 0: 256 MiB. A push past it is LIMIT and is not
                               started; those under way give back their share when they are acknowledged. The client
                               keeps that memory for the copies of later pushes, also within copy_max and an eighth
                               of it, and frees what 256 pushes have not asked for */
    /* Called, from whatever thread drives the network, when something happens that no call reports: a connection that
     * was lost (CLOSED) or is there again (OK), another worker that lapsed (LEASE_LAPSED) or is back (OK), a shard that
     * drains (DRAINING), came back older (ROLLED_BACK: ps_client_rolled_back() has the counts) or was restored from a
     * checkpoint (RESTORED). Each shard reports for itself, so an event of a worker comes once from each. What ends
     * this client (FENCED, its own lease, ...) comes from its calls instead. The error is valid during the call, which
     * must not call into the client. NULL: each is a line on stderr ("psclient: JOB worker N: ..."). With on_event or
     * without, so is a wait for shards in ps_client_open() and ps_client_rejoin() that has taken 2 seconds, 4, 8 and so
     * on. An observer prints nothing. */
    void (*on_event)(void *arg, const struct ps_error *event);
    void *on_event_arg;
    int quiet; /* nonzero: no such lines */
    /* Encryption of TCP connections, and who is at their other end (deploy/README.md, "Encryption"). Each NULL: what
     * PSD_TLS_CA, PSD_TLS_CERT, PSD_TLS_KEY and PSD_TLS_NAME in the environment say; "": none. Read once, when this is
     * opened. tls_ca: TLS 1.3 with shards whose certificates this CA file (PEM) leads to and that name the host or
     * number that they were found by, or tls_name if there is one. tls_cert, tls_key: what this worker shows to shards
     * that demand it (psd --tls-client-ca). Errors: CONFIG (a file is none), TLS (a peer is not believed, does not
     * believe this one, or has no TLS). */
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    const char *token; /* "name:secret", which is proven to every shard, and which every shard must prove to have; the
                          secret itself does not travel. NULL: that of PSD_TOKEN in the environment, or the first in the
                          file that PSD_TOKEN_FILE names, or none; "": none. A shard that does not accept it ends the
                          client with DENIED */
    /* What this worker's metrics are called (ps_client_set_metrics()), the first so many of them, for people: psctl
     * top, the page, Prometheus. [metrics_named] names, at most PS_METRICS_MAX, each of 1 to PS_METRIC_NAME_MAX bytes
     * of UTF-8, no two alike (INVALID). Read once, when this is opened. Shard 0 keeps them with the job. Another worker
     * may give none, or fewer or more of the same; names that differ from those that a live worker has brought are
     * refused (MISMATCH: says which), because metrics are summed over all workers by their index. */
    const char *const *metric_names;
    uint32_t metrics_named;
};

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

/* Connect to every shard of the cluster and take this worker's index.
 *
 * Waits up to options.timeout_ms, retrying addresses that do not answer yet and an index whose former holder is still
 * live.
 *
 * The worker begins at the clock of the job's slowest worker: ps_client_clock() is 0 in a new job; later it is where
 * the slowest of those that are live stands, and when none is, where the last one stood. In ssp and in sync with a
 * quorum of all, workers that have not joined yet hold the others back, so that all begin together. When a worker whose
 * index has finished (ps_client_close()) opens again, a new round begins, and all are waited for again, at barriers
 * too; a process that comes in the place of a lost one belongs to the round that is under way. All workers of a round
 * are as many; while none is live the first that opens may bring another number (ps_cluster_workers()), with which a
 * new round begins.
 *
 * Parameters:
 *   cluster  copied; may be freed when this returns
 *   options  NULL: all defaults
 *   out      the client, which the caller ends with ps_client_close() or ps_client_abandon(); NULL after an error
 * Errors:
 *   PS_ERR_UNREACHABLE  a shard cannot be reached: says which
 *   PS_ERR_TIMEOUT      a shard did not answer in time: says which
 *   PS_ERR_TASK_TAKEN   another live process holds the worker index: says which
 *   PS_ERR_CLUSTER      a shard belongs to another cluster, or is another shard of it
 *   PS_ERR_MISMATCH     another worker of the job opened it with other options, and no setting has made them these:
 *                       says which; another number of workers while one of the job's is live, or is waited for: says
 *                       who; or metric names differ from those that a live worker has brought
 *   PS_ERR_VERSION      a shard speaks a protocol version that is not known here
 *   PS_ERR_PROTOCOL     the port speaks something else
 *   PS_ERR_TLS          a peer is not believed, does not believe this one, or has no TLS
 *   PS_ERR_DENIED       a shard does not accept the token, or does not prove to have it
 *   PS_ERR_CONFIG       the cluster has no shards; a file of TLS or of a token cannot be used; PSD_TRANSPORT is not
 *                       valid
 *   PS_ERR_CANCELLED    ps_interrupt()
 *   PS_ERR_INVALID      an option is not valid, or cluster or out is NULL
 *   PS_ERR_IO           too many open files, or the system gives no random numbers
 *   PS_ERR_NOMEM        no memory
 * Threads: any, each for its own client; not while another thread changes the environment.
 * Since: 0.1 */
PS_API enum ps_err ps_client_open(const ps_cluster *cluster, const struct ps_client_options *options, ps_client **out,
                                  struct ps_error *error) PS_MUST_USE;

/* Say goodbye, close, and free the client with all variables and operations.
 *
 * Waits for what is unacknowledged up to the default time-out, and up to two seconds for shards that are being
 * connected to again; says goodbye (this worker's clock no longer holds others back) and waits for the answers up to
 * two seconds. Operations that are not done are cancelled first.
 *
 * Parameters:
 *   client  or NULL
 * Since: 0.1 */
PS_API void ps_client_close(ps_client *client);

/* Close and free without waiting and without goodbye, as a crash would: for tests, and for error paths.
 *
 * There ps_client_close() might wait the default time-out again for what has just failed to come.
 *
 * Parameters:
 *   client  or NULL
 * Since: 0.1 */
PS_API void ps_client_abandon(ps_client *client);

/* Join again as a new incarnation, at the slowest live clock, after PS_ERR_LEASE_LAPSED or PS_ERR_FENCED.
 *
 * Started operations have ended with that error. Declared variables stay valid.
 *
 * Errors:
 *   PS_ERR_UNREACHABLE  a shard cannot be reached: says which
 *   PS_ERR_TIMEOUT      a shard did not answer in time: says which
 *   PS_ERR_TASK_TAKEN   another live process holds the worker index
 *   PS_ERR_CANCELLED    ps_interrupt(), or ps_client_interrupt()
 *   PS_ERR_INVALID      client is NULL, or an observer
 *   PS_ERR_IO           the system gives no random numbers
 *   (session)           the new session ended at once
 * Since: 0.1 */
PS_API enum ps_err ps_client_rejoin(ps_client *client, int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* ---- Interrupts -------------------------------------------------------------------------------------------------- */

/* End what waits in this process, and let nothing wait from now on: for a handler of SIGINT, or another thread.
 *
 * Every call of every client, group and strategy that waits, and every later one that would have to wait, ends with
 * PS_ERR_CANCELLED at once: ps_client_open() and ps_client_rejoin(), waits for operations, barriers, forming a group,
 * training steps. What is there already is still returned. An operation that was started goes on, as after
 * PS_ERR_TIMEOUT. A group's operation without a handle, and a group that is being formed, fail on all ranks with
 * PS_ERR_CANCELLED, which names this rank. Closing works as ever, but waits for nothing that is unacknowledged.
 *
 * It stays so until ps_interrupt_clear(), so that an interrupt between two calls is not lost. ps_client_interrupt()
 * does the same to one client, for good.
 *
 * Threads: any; ps_interrupt() also in handlers of signals: it is async-signal-safe.
 * Since: 0.1 */
PS_API void ps_interrupt(void);
PS_API void ps_interrupt_clear(void);

/* Whether ps_interrupt() was called, and ps_interrupt_clear() not since.
 *
 * Returns: nonzero if so.
 * Threads: any, and handlers of signals: it is async-signal-safe.
 * Since: 0.1 */
PS_API int ps_interrupted(void);

/* ---- What it knows ----------------------------------------------------------------------------------------------- */

/* The worker's clock, that of the slowest, and the number of shards.
 *
 * Returns:
 *   ps_client_clock()          steps that this worker has ticked
 *   ps_client_slowest_clock()  the slowest live worker's clock, as last heard from the shards
 *   ps_client_shards()         number of shards
 * Since: 0.1 */
PS_API uint64_t ps_client_clock(const ps_client *client);
PS_API uint64_t ps_client_slowest_clock(const ps_client *client);
PS_API uint32_t ps_client_shards(const ps_client *client);

/* What a client has counted since it was opened.
 * Since: 0.1 */
struct ps_client_stats {
    uint64_t bytes_pushed, bytes_pulled; /* payload: what travelled */
    uint64_t pushes, pulls;              /* operations done */
    uint64_t resent;                     /* sequenced messages sent again after a reconnect */
    uint64_t reconnects;
    uint64_t dropped_stale, dropped_late, refused; /* blocks of pushes that ended so */
    uint64_t waited_us;                            /* in blocking calls */
    uint64_t rolled_back;                          /* pushes that were acknowledged and that shards lost since */
    uint64_t gradient_bytes;                       /* what bytes_pushed would be if no push were compressed */
};

/* What the client has counted since it was opened.
 *
 * Parameters:
 *   out  filled
 * Since: 0.1 */
PS_API void ps_client_stats(const ps_client *client, struct ps_client_stats *out);

/* How many pushes that this client had seen acknowledged a shard has lost, since open: it came back from its last save,
 * or empty.
 *
 * Counted as a shard counts, a push's frames one by one, whatever their outcome. One that was given up once it was sent
 * counts as well; of pushes from before ps_client_rejoin() nothing is known.
 *
 * What a restore (ps_client_restore()) took back is not counted: which of a worker's pushes the checkpoint has is not
 * known, and RESTORED is reported instead.
 *
 * Exact: a push that is not counted is there as it was acknowledged. In sync the steps of a frame's blocks may be done
 * one by one, and it counts when that of any of them is lost, though others came back.
 *
 * Parameters:
 *   shard  from 0 on
 * Returns: the number; 0 for a shard that is not there.
 * Since: 0.1 */
PS_API uint64_t ps_client_rolled_back(const ps_client *client, uint32_t shard);

/* ---- What it trains ---------------------------------------------------------------------------------------------- */

/* One thing that all workers of a job must have alike, such as {"batch", "96"}.
 * Since: 0.1 */
struct ps_definition {
    const char *name;  /* 1 to PS_DEFINITION_NAME_MAX bytes of UTF-8 without control characters */
    const char *value; /* the same, of any length, or "" */
};

/* Most fields that the workers of a job define, and most bytes of the name of one.
 * Since: 0.1 */
#define PS_DEFINITION_MAX      32
#define PS_DEFINITION_NAME_MAX 63

/* Say what this worker trains, so that one that was started otherwise is found before it trains another model.
 *
 * Typically the rows of its data and a fingerprint of them (ps_dataset_fingerprint()), its batch, epochs, seed, layers:
 * whatever its program must have alike on all workers.
 *
 * Shard 0 keeps the fields with the job and compares. Fields that no other worker has given are taken over; one that
 * another worker gave another value is refused, as long as that one is live, or has finished in the round of this one.
 * When nobody is left who trained by the old definition, a new one replaces it; where such workers ended before their
 * goodbye, a new round begins with that, since their places in the data were cut otherwise: so define before asking for
 * the place in the data (ps_client_start_cursor()), and before the first push.
 *
 * What workers may have differently (an asynchronous job whose workers read data of their own) they do not define.
 * Fields may be added by further calls. Values are compared as they are; of a longer one than fits a message its
 * beginning and a hash travel. Shards of older versions compare nothing.
 *
 * A client that joins again, or whose shard lost its data, says it again by itself; should it be refused then, its
 * session ends with PS_ERR_MISMATCH.
 *
 * Parameters:
 *   n       how many fields, at least 1
 *   fields  [n]; copied. A name that was given before gets the new value
 * Errors:
 *   PS_ERR_MISMATCH  another worker was started with another value: says which, and both
 *   PS_ERR_INVALID   a name or value is not valid, more than PS_DEFINITION_MAX, an observer
 *   PS_ERR_LIMIT     the workers' fields together are more than PS_DEFINITION_MAX
 *   PS_ERR_TIMEOUT   shard 0 did not answer in time
 *   PS_ERR_NOMEM     no memory, here or on shard 0
 *   (session)        the session has ended
 * Since: 0.1 */
PS_API enum ps_err ps_client_define(ps_client *client, size_t n, const struct ps_definition *fields, int timeout_ms,
                                    struct ps_error *error) PS_MUST_USE;

/* ---- The place in the data --------------------------------------------------------------------------------------- */

/* A place in this worker's training data: all examples of `epoch` before `position`, and all earlier epochs. What the
 * numbers count is the program's own.
 *
 * Since: 0.1 */
struct ps_cursor {
    uint64_t epoch, position;
};

/* Where this worker's data goes on, so that every example counts once in every block although processes die.
 *
 * A worker gives each step's pushes the cursor at which the step's data ends (all pushes of a step the same one), and
 * ticks. The next step begins there. The place is kept with the worker index, in the transactions of the pushes.
 *
 * A process that takes the index over asks here once it has opened the client, and so does one after
 * ps_client_rejoin(): it gets the smallest place over all shards, {0, 0} when one of them has none, as in a new round
 * (a shard that does not know of the round has none in it). It goes on from there and must cut its data into the same
 * steps: blocks that counted a step already skip it and answer as if it had been applied, and a step that begins before
 * such a place and ends after it is PS_ERR_INVALID. Later the place is where the last step that was ticked ended. It
 * does not go back when a shard does (ROLLED_BACK): what that shard lost is counted by ps_client_rolled_back() and not
 * read again. A step that was ticked is over whatever became of its pushes: blocks that refused one do without it, and
 * a worker that pushes the step again hears OK from them. A durable push that a block skips is as durable as the one
 * that it counted.
 *
 * Parameters:
 *   out  filled
 * Since: 0.1 */
PS_API void ps_client_cursor(const ps_client *client, struct ps_cursor *out);

/* Where the data of a worker begins that divides a job's steps with others.
 *
 * Such a worker begins its data where the job is, not at {0, 0}, when it joins late, or a round that begins at a clock
 * above 0. A process that takes its place must know that, too: before all shards have counted a step of the worker,
 * ps_client_cursor() is {0, 0}, and the clock is that of now. So it asks here, after opening and after
 * ps_client_rejoin(), before its first push:
 *
 *     uint64_t joined = ps_client_start_clock(client);
 *     struct ps_cursor first = {joined / steps_each, joined % steps_each}, at;
 *     ps_client_start_cursor(client, &first, &at);
 *     ... its next step is at.epoch * steps_each + at.position ...
 *
 * The place is the smallest over all shards, as of ps_client_cursor(); on one that has none, it is where the slowest of
 * the others was when this worker index joined the round, and where the shards do not say that, it is `first`. From
 * then on the step under way begins there.
 *
 * Parameters:
 *   first  where a worker begins that joins at ps_client_start_clock()
 *   out    filled
 * Returns: ps_client_start_clock(): the clock at which the first process of this worker index joined the round.
 * Since: 0.1 */
PS_API uint64_t ps_client_start_clock(const ps_client *client);
PS_API void ps_client_start_cursor(ps_client *client, const struct ps_cursor *first, struct ps_cursor *out);

/* ---- Metrics ----------------------------------------------------------------------------------------------------- */

/* What the step under way adds to this worker's metrics: losses, rows, whatever the program sums up.
 *
 * They count with the step's tick, which settles them on shard 0 in the transaction of the clock; set again before it
 * they replace what was set, 0 takes that back. A step without adds nothing.
 *
 * Each step counts once, whatever dies: a shard that is killed comes back with what it had settled, one that lost its
 * power hears all of it again, and a process that takes the worker index over goes on from what that has. Given cursors
 * (ps_client_cursor()), a step that it does again, because not all shards had received its tick, is in it already and
 * adds nothing; and a shard that lost its power together with the worker has of the metrics as much as of the worker's
 * place: all steps before the last durable push, or before its last save, and the others are done, and count, again. A
 * new round of the job begins with none.
 *
 * No round trip, never waits: metrics travel in the tick.
 *
 * Parameters:
 *   n       how many, at most PS_METRICS_MAX
 *   values  [n]; any doubles, NaN and infinity too; copied
 * Errors:
 *   PS_ERR_INVALID  more than PS_METRICS_MAX, an observer, or NULL
 *   (session)       what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_set_metrics(ps_client *client, size_t n, const double *values,
                                         struct ps_error *error) PS_MUST_USE;

/* The metrics of all workers of the job, as they are settled now.
 *
 * Workers that are lost or finished count. One round trip to shard 0; a tick counts once it is done. So that all
 * workers get the same, none of them ticks between: a barrier before and one after. Observers may ask, with the job's
 * name in their options.
 *
 * Parameters:
 *   n     how many, 1 to PS_METRICS_MAX
 *   sums  [n], filled: for each metric the sum in the order of the workers; 0 where nobody has set so many
 * Errors:
 *   PS_ERR_NOT_FOUND  the shard does not know the job
 *   PS_ERR_INVALID    n is out of its range, or a pointer is NULL
 *   PS_ERR_TIMEOUT    the shard did not answer in time
 *   PS_ERR_CLOSED     the connection was lost while an answer was waited for
 *   PS_ERR_CANCELLED  ps_client_interrupt()
 *   PS_ERR_NOMEM      no memory
 *   (session)         what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_metrics(ps_client *client, size_t n, double *sums, int timeout_ms,
                                     struct ps_error *error) PS_MUST_USE;

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Free what a function of the library has returned with the words "freed with ps_free()".
 *
 * Parameters:
 *   memory  or NULL
 * Threads: any.
 * Since: 0.1 */
PS_API void ps_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
