/* psclient.h: the library that training workers link. Variables live in a cluster of psd shards; a worker declares
 * them, pulls values, computes gradients, pushes them, and ticks its clock.
 *
 *     ps_cluster *cluster;                 // who is where: TF_CONFIG, a list, or PSD_SHARDS
 *     ps_client *client;
 *     ps_var *w;
 *     ps_cluster_from_env(&cluster, &error);
 *     ps_client_open(cluster, NULL, &client, &error);
 *     ps_client_declare(client, &(struct ps_var_spec){.name = "w", .rank = 2, .dims = {64, 10}, ...}, &w, &error);
 *     while (ps_client_clock(client) < 500) {
 *         ps_client_pull(client, 1, &w, &weights, NULL, &error);
 *         ... gradient of the loss at weights ...
 *         ps_client_push(client, 1, &w, &gradient, NULL, &error);
 *         ps_client_tick(client, &error);
 *     }
 *     ps_client_close(client);
 *
 * The loop ends by the job's clock, not by a count of its own: a worker that starts late or comes again goes on where
 * the others are (ps_client_open()), and would otherwise do its last steps without them.
 *
 * Rules that hold everywhere:
 *
 * - Every function that can fail returns enum ps_err and fills *error (may be NULL): the code, a sentence, and the
 *   peer; ps_error_format() makes one line of them.
 * - Time-outs are in milliseconds. As an argument, -1 means the client's default (options.timeout_ms) and 0 "do not
 *   wait"; in option structs 0 means the default, too, so that a zeroed struct has all defaults. Every call returns by
 *   its deadline.
 * - TIMEOUT from waiting for a started operation ends the wait alone: the operation goes on, its buffers stay borrowed,
 *   and one waits again. A blocking call cancels what it started: the buffers are free, as after ps_op_cancel(), and
 *     pull, declare, query, ping   have changed nothing: call again;
 *     push        may have been applied, block by block, or not, and a second call would apply it twice. Go on with the
 *                 next step, or start pushes and wait for them as long as it takes;
 *     tick        has raised the clock and goes on: do not call again;
 *     barrier     was left: a second call comes to it anew, and waits for everybody if it has opened in between;
 *     set, drain  may have been done: call again, the same twice is the same as once.
 * - Tensors are float32, row-major, contiguous, in host memory, at least 4-byte aligned (64 is best).
 * - A buffer given to a started operation stays borrowed until the operation is done or cancelled: a gradient until it
 *   is acknowledged, a pull's destination until it is filled. While a pull is not done, what its destination holds is
 *   not defined.
 * - Handles are opaque. ps_var belongs to its client and lives as long. ps_op is freed by ps_op_free().
 * - Threads: the calling thread drives the network while it waits; without options.progress_thread, only one thread may
 *   use a client and everything that came from it at a time. With it, a hidden thread drives the network all the time
 *   and any thread may call any function (still: one thread at a time per ps_op). Different clients are independent.
 */
#ifndef PSCLIENT_H
#define PSCLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "ps_compress.h"
#include "ps_err.h"
#include "ps_optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PS_RANK_MAX 8
#define PS_NAME_MAX 255 /* bytes of UTF-8 */

/* The library's version, "0.1.0". Any thread. */
PS_API const char *ps_version(void);

/* ---- Cluster: who is where ------------------------------------------------------------------------------------- */

typedef struct ps_cluster ps_cluster;

/* What this process is, as TF_CONFIG's task.type says. */
enum ps_role { PS_ROLE_CHIEF, PS_ROLE_WORKER, PS_ROLE_PS, PS_ROLE_EVALUATOR };

/* Parse TF_CONFIG text:
 *   {"cluster": {"chief": ["host:port"], "worker": [...], "ps": [...], "evaluator": [...]},
 *    "task": {"type": "worker", "index": 0}}
 * ps addresses are "host:port", "[v6]:port" or "unix:/path". Workers are numbered as one list: the chief first, then
 * workers; when there is no chief, worker 0 is chief. Without ps there are workers alone, who may train together
 * (ps_group.h), but have no shards to open a client of. PS_ERR_CONFIG with the place: "TF_CONFIG: cluster.worker[1]:
 * ...". *out is freed with ps_cluster_free(). */
PS_API enum ps_err ps_cluster_from_json(const char *json, ps_cluster **out, struct ps_error *error) PS_MUST_USE;

/* From the environment: TF_CONFIG when set, else PSD_SHARDS ("host:port,host:port") with PSD_WORKERS (count, default 1)
 * and PSD_TASK (this worker's index, default 0). PS_ERR_CONFIG when none is set. PSD_CLUSTER, when set, is the
 * cluster's name in both cases. */
PS_API enum ps_err ps_cluster_from_env(ps_cluster **out, struct ps_error *error) PS_MUST_USE;

/* From a list of shard addresses: "host:port,unix:/path,..."; workers >= 1, task < workers. */
PS_API enum ps_err ps_cluster_from_list(const char *shards, uint32_t workers, uint32_t task, ps_cluster **out,
                                        struct ps_error *error) PS_MUST_USE;

PS_API void ps_cluster_free(ps_cluster *cluster); /* accepts NULL */

PS_API enum ps_role ps_cluster_role(const ps_cluster *cluster);
PS_API uint32_t ps_cluster_task(const ps_cluster *cluster);    /* index among chief and workers; 0 for other roles */
PS_API uint32_t ps_cluster_index(const ps_cluster *cluster);   /* index within its own job, as TF_CONFIG's task.index */
PS_API uint32_t ps_cluster_workers(const ps_cluster *cluster); /* chief and workers */
PS_API uint32_t ps_cluster_shards(const ps_cluster *cluster);
PS_API int ps_cluster_is_chief(const ps_cluster *cluster);
/* Address of shard i < ps_cluster_shards(), NULL past it; owned by the cluster. */
PS_API const char *ps_cluster_shard_address(const ps_cluster *cluster, uint32_t shard);
/* The cluster's name, "psd" unless set; shards of another name refuse this client. PS_ERR_INVALID: not UTF-8, too long.
 */
PS_API const char *ps_cluster_name(const ps_cluster *cluster);
PS_API enum ps_err ps_cluster_set_name(ps_cluster *cluster, const char *name, struct ps_error *error) PS_MUST_USE;

/* ---- Client ---------------------------------------------------------------------------------------------------- */

typedef struct ps_client ps_client;
typedef struct ps_var ps_var;
typedef struct ps_op ps_op;

/* When a pull may be answered and when an update happens; the same for all workers of a job. */
enum ps_mode {
    PS_ASYNC = 0, /* at once; on arrival */
    PS_SSP = 1,   /* when the slowest live clock is at least mine - bound (Ho et al., NIPS 2013); on arrival */
    PS_SYNC =
        2 /* when the clock's update is done; once per block and clock, the mean of its first `quorum` gradients */
};

enum ps_lapse {
    PS_LAPSE_SHRINK = 0, /* a lost worker is no longer waited for */
    PS_LAPSE_FAIL = 1    /* what waits for a lost worker ends with PS_ERR_STEP_FAILED */
};

#define PS_PATIENCE_NONE UINT32_MAX

/* How frames travel to a shard, or to another rank of a group (ps_group.h). */
enum ps_transport {
    PS_TRANSPORT_AUTO = 0, /* through shared memory where both are on one host and it can be had, else by sockets */
    PS_TRANSPORT_TCP = 1   /* by sockets: TCP, or what the shard's address says */
};

/* How a push counts by its age, the updates that its block took since the gradient's weights were pulled. */
enum ps_age { PS_AGE_NONE = 0, PS_AGE_INVERSE = 1, PS_AGE_EXPONENTIAL = 2, PS_AGE_CUTOFF = 3 };

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
    uint32_t patience_us;        /* poll up to this long before sleeping, where what is waited for has lately come in
                                    that time; 0: 50, or, on a single processor, not at all; PS_PATIENCE_NONE: not */
    int observer;    /* nonzero: look only (psctl, an evaluator); no worker index is taken, and opening does not
                        wait for shards that are not there. A cluster's evaluator observes in any case, but waits
                        for them */
    int any_cluster; /* nonzero, observers only: accept shards of any cluster name and count */
    enum ps_transport transport; /* default PS_TRANSPORT_AUTO, or what PSD_TRANSPORT in the environment says, auto or
                               tcp: shared memory with shards on this host that can open it (they run as root or the
                               same user, in the same container), 2 MiB for each */
    const char *congestion; /* TCP congestion control ("reno"); NULL: "reno" to loopback addresses, else the system's */
    uint64_t copy_max;      /* bytes that PS_PUSH_COPY may hold in all; 0: 256 MiB. A push past it is LIMIT and is not
                               started; those under way free their room when they are acknowledged */
    /* Called, from whatever thread drives the network, when something happens that no call reports: a connection that
     * was lost (CLOSED) or is there again (OK), another worker that lapsed (LEASE_LAPSED) or is back (OK), a shard that
     * drains (DRAINING), came back older (ROLLED_BACK: ps_client_rolled_back() has the counts) or was restored from a
     * checkpoint (RESTORED). Each shard tells for itself, so a worker's fate comes once from each. What ends this
     * client (FENCED, its own lease, ...) comes from its calls instead. The error is valid during the call, which must
     * not call into the client. NULL: ignored. */
    void (*on_event)(void *arg, const struct ps_error *event);
    void *on_event_arg;
    /* Encryption of TCP connections, and who is at their other end (deploy/README.md, "Encryption"). Each NULL: what
     * PSD_TLS_CA, PSD_TLS_CERT, PSD_TLS_KEY and PSD_TLS_NAME in the environment say; "": none. Read once, when this is
     * opened. tls_ca: TLS 1.3 with shards whose certificates this CA file (PEM) leads to and that name the host or
     * number that they were found by, or tls_name if there is one. tls_cert, tls_key: what this worker shows to shards
     * that demand it (psd --tls-client-ca). Errors: CONFIG (a file is none), TLS (a peer is not believed, does not
     * believe us, or has no TLS). */
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

/* Connect to every shard of the cluster and take this worker's index. Waits up to options.timeout_ms, retrying
 * addresses that do not answer yet and an index whose former holder is still live. options NULL: all defaults. cluster
 * is copied and may be freed.
 *
 * The worker begins at the clock of the job's slowest worker: ps_client_clock() is 0 in a new job; later it is where
 * the slowest of those that are live stands, and when none is, where the last one stood. In ssp and in sync with a
 * quorum of all, workers that have not joined yet hold the others back, so that all begin together. When a worker whose
 * index has finished (ps_client_close()) opens again, a new round begins, and all are waited for again, at barriers
 * too; a process that comes in the place of a lost one belongs to the round that is under way.
 *
 * Errors: UNREACHABLE and TIMEOUT (which shard), TASK_TAKEN (held by whom), CLUSTER,
 * MISMATCH (another worker of the job opened it with other options: says which), VERSION, PROTOCOL (the port speaks
 * something else). */
PS_API enum ps_err ps_client_open(const ps_cluster *cluster, const struct ps_client_options *options, ps_client **out,
                                  struct ps_error *error) PS_MUST_USE;

/* Wait for what is unacknowledged up to the default time-out, and up to two seconds for shards that are being connected
 * to again; say goodbye (this worker's clock no longer holds others back) and wait for that to be heard up to two
 * seconds; close, and free with all variables and operations. Those that
 * are not done are cancelled first. Accepts NULL. */
PS_API void ps_client_close(ps_client *client);

/* The same without waiting and without goodbye, as a crash would: for tests, and for error paths, in which
 * ps_client_close() might wait the default time-out again for what has just failed to come. Accepts NULL. */
PS_API void ps_client_abandon(ps_client *client);

/* After PS_ERR_LEASE_LAPSED or PS_ERR_FENCED: join again as a new incarnation, at the slowest live clock. Started
 * operations have ended with that error. Declared variables stay valid. */
PS_API enum ps_err ps_client_rejoin(ps_client *client, int timeout_ms, struct ps_error *error) PS_MUST_USE;

PS_API uint64_t ps_client_clock(const ps_client *client);         /* steps this worker has ticked */
PS_API uint64_t ps_client_slowest_clock(const ps_client *client); /* as last heard from the shards */
PS_API uint32_t ps_client_shards(const ps_client *client);

/* A place in this worker's training data: all examples of `epoch` before `position`, and all earlier epochs. What the
 * numbers count is the program's own. */
struct ps_cursor {
    uint64_t epoch, position;
};

/* Counts since open. */
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
PS_API void ps_client_stats(const ps_client *client, struct ps_client_stats *out);

/* How many pushes that this client had seen acknowledged a shard has lost, since open: it came back from its last save,
 * or empty. Counted as a shard counts, a push's frames one by one, whatever their outcome. One that was given up once
 * it was sent counts as well; of pushes from before ps_client_rejoin() nothing is known. 0 for a shard that is not
 * there.
 *
 * What a restore (ps_client_restore()) took back is not counted: which of a worker's pushes the checkpoint has is not
 * known, and RESTORED is told instead.
 *
 * Exact: a push that is not counted is there as it was acknowledged. In sync the steps of a frame's blocks may be done
 * one by one, and it counts when that of any of them is lost, though others came back. */
PS_API uint64_t ps_client_rolled_back(const ps_client *client, uint32_t shard);

/* Where this worker's data goes on, so that every example counts once in every block although processes die. A worker
 * gives each step's pushes the cursor at which the step's data ends (all pushes of a step the same one), and ticks. The
 * next step begins there. The place is kept with the worker index, in the transactions of the pushes.
 *
 * A process that takes the index over asks here once it has opened the client, and so does one after
 * ps_client_rejoin(): the smallest place over all shards, {0, 0} when one of them has none, as in a new round (a shard
 * that has not heard of the round has none in it). It goes on from there and must cut its data into the same steps:
 * blocks that counted a step already skip it and answer as if it had been applied, and a step that begins before such a
 * place and ends after it is PS_ERR_INVALID. Later the place is where the last step that was ticked ended. It does not
 * go back when a shard does (ROLLED_BACK): what that shard lost is counted by ps_client_rolled_back() and not read
 * again. A step that was ticked is over whatever became of its pushes: blocks that refused one do without it, and who
 * pushes the step again hears OK from them. A durable push that a block skips is as durable as the one that it counted.
 */
PS_API void ps_client_cursor(const ps_client *client, struct ps_cursor *out);

/* ---- Variables ------------------------------------------------------------------------------------------------- */

enum ps_init_kind {
    PS_INIT_ZEROS = 0,
    PS_INIT_ONES = 1,
    PS_INIT_CONSTANT = 2,         /* a */
    PS_INIT_UNIFORM = 3,          /* low a, high b */
    PS_INIT_NORMAL = 4,           /* mean a, standard deviation b */
    PS_INIT_TRUNCATED_NORMAL = 5, /* the same, within two deviations */
    PS_INIT_GLOROT_UNIFORM = 6,
    PS_INIT_GLOROT_NORMAL = 7,
    PS_INIT_HE_UNIFORM = 8,
    PS_INIT_HE_NORMAL = 9,
    PS_INIT_LECUN_UNIFORM = 10,
    PS_INIT_LECUN_NORMAL = 11
};

struct ps_init {
    enum ps_init_kind kind;
    double a, b;
    uint64_t seed; /* the variable's values depend on seed and element index alone */
};

struct ps_var_spec {
    const char *name; /* 1 to PS_NAME_MAX bytes of UTF-8; not "__metadata__", which no checkpoint could hold */
    uint32_t rank;    /* 0 (a scalar) to PS_RANK_MAX */
    uint64_t dims[PS_RANK_MAX];
    struct ps_init init;
    struct ps_optimizer optimizer; /* from ps_optimizer_by_name() or _parse(); zeroed is none */
    int allow_nonfinite;           /* nonzero: gradients with NaN or Inf are applied instead of refused */
};

/* Declare a variable on every shard that holds a block of it, and wait until its blocks have their first values.
 * Declaring the same again, by any worker, is fine; a different declaration is PS_ERR_MISMATCH and says in what.
 * PS_ERR_FULL when the shards have no room, PS_ERR_IO when one cannot write: what was made stays, and the same call
 * goes on from there. (A shard that lost its data is asked again by itself.) PS_ERR_INVALID for an optimizer whose
 * learning rate is 0, which a forgotten one is: to freeze a variable, set the rate to 0 later (ps_client_set()). */
PS_API enum ps_err ps_client_declare(ps_client *client, const struct ps_var_spec *spec, ps_var **out,
                                     struct ps_error *error) PS_MUST_USE;

/* Find a variable of the client's job that some worker has declared, with the shape that it was declared with. For
 * workers and for observers, which cannot declare: an evaluator attaches, pulls and computes what it wants. (Names:
 * ps_client_query() of PS_QUERY_VARIABLES, of every shard.) Waits, up to the client's time-out, while its blocks are
 * being made. What it returns is as good as a declared one.
 *
 * An observer's pulls are as with options.now: they never wait for a mode's condition and hold nobody back; every block
 * is of one version, different ones may be of different moments. The job's mode and workers need not be told. The
 * values are there while workers train and after they have finished. After a restart of a shard pulls go on; when it
 * came back empty, they wait until a worker has declared there again, and end with PS_ERR_MISMATCH for good if that is
 * another variable. An observer that pushes, declares, ticks or meets at a barrier gets PS_ERR_INVALID.
 *
 * Errors: NOT_FOUND (no such job, or no such variable in it; the sentence says which: nobody has declared it yet),
 * MISMATCH (this client, or another shard, knows it by another definition; names what differs), INVALID (no name; a
 * client of any_cluster, which does not know where blocks lie), TIMEOUT. */
PS_API enum ps_err ps_client_attach(ps_client *client, const char *name, ps_var **out,
                                    struct ps_error *error) PS_MUST_USE;

PS_API const char *ps_var_name(const ps_var *var);
PS_API uint64_t ps_var_elements(const ps_var *var);
PS_API uint32_t ps_var_rank(const ps_var *var);
PS_API uint64_t ps_var_dim(const ps_var *var, uint32_t i); /* i < ps_var_rank(); 0 past it */
PS_API uint64_t ps_var_blocks(const ps_var *var);
/* Lowest and highest version among the variable's blocks, as last pulled or answered. Either may be NULL. */
PS_API void ps_var_versions(const ps_var *var, uint64_t *lowest, uint64_t *highest);

/* ---- Blocking calls: start, wait with the default time-out, free --------------------------------------------------
 */

struct ps_pull_options {
    uint64_t newer_than; /* transfer only blocks whose version is greater; destination keeps the others as they are */
    int only_changed;    /* nonzero: the same with the version of each block's last pull through this client */
    int now;             /* nonzero: do not wait for the mode's condition */
    int timeout_ms;      /* of the blocking form; 0: default */
};

/* Pull n variables at this worker's clock: out[i] is [ps_var_elements(vars[i])] f32. In sync all blocks are those of
 * the clock (with a quorum of fewer than all workers they may be of later ones: the others go on without this worker);
 * elsewhere each block carries its version (ps_var_versions()). options may be NULL. */
PS_API enum ps_err ps_client_pull(ps_client *client, size_t n, ps_var *const vars[], float *const out[],
                                  const struct ps_pull_options *options, struct ps_error *error) PS_MUST_USE;

enum ps_push_flag {
    PS_PUSH_COPY = 1,   /* copy the gradients at start: the buffers are free when the start returns */
    PS_PUSH_DURABLE = 2 /* done when the update is on the shards' disks: it survives power loss, not only kill -9. Costs
                           the pushed bytes on disk and a sync that many pushes share; the buffers stay borrowed until
                           then. Each shard answers for its blocks: PS_ERR_UNSUPPORTED, and nothing is applied there,
                           where it has no durable directory; PS_ERR_LIMIT, and nothing is applied, when more waits for
                           its disk than it may; PS_ERR_NOT_DURABLE when it was applied and the disk then failed */
};

struct ps_push_options {
    unsigned flags; /* of enum ps_push_flag */
    int timeout_ms; /* of the blocking form; 0: default */
    double norm;    /* L2 norm of this worker's whole gradient, for variables that clip by PS_CLIP_GIVEN_NORM. 0: when
                       one of the call's variables was declared so, the norm over the gradients of this call, computed
                       in double when it starts. Give it when a step's gradients go in several calls */
    const struct ps_cursor *cursor; /* where this step's data ends: see ps_client_cursor(). Copied. NULL: none. INVALID,
                                       and nothing is pushed: it is not past ps_client_cursor(), or not that of the
                                       step's earlier pushes */
    const struct ps_compress *compress; /* how these gradients travel; NULL: as ps_client_options.compress says */
};

/* Compressed pushes (struct ps_compress). What the encoding of a gradient leaves out is kept here, with the variable,
 * and added to the next compressed gradient for it: float32 for each of its elements, allocated by the first such push,
 * as long as the client lives; it dies with the process. A push that did not count (refused, STALE, LATE, or cancelled
 * before it was sent) leaves that as if it had never been: its own gradient is gone as an uncompressed one would be,
 * and nothing else. One whose outcome is unknown is taken to have counted. Sent again after a reconnect it is the same
 * bytes, so exactly once holds as ever. What shards apply, wait with in sync and write to disk is float32.
 *
 * Encoded are blocks, one by one: a variable that is smaller than a run or a fraction of a few elements saves less. A
 * gradient with NaN or Inf is NONFINITE, also where the variable allows it, and nothing of its call is pushed. A norm
 * to clip by is that of the gradients as they are given. A shard that does not know the encoding: UNSUPPORTED. Workers
 * of a job may differ in this, and a worker from push to push; a push that is not compressed leaves alone what is kept.
 */

/* Push gradients, grads[i] is [ps_var_elements(vars[i])] f32, and wait until they are applied and committed. Each block
 * is applied or not; the call's error is of the first answer that was not well, and names a block:
 * - NONFINITE: refused with the blocks that shared its frame (small ones of one shard, up to 256 KiB). A norm that is
 *   computed and not finite is NONFINITE, too: then nothing was pushed anywhere.
 * - STALE, LATE: dropped by the age policy or the quorum that the job, or psctl set, asks for. Nothing is wrong, and
 * any error comes before them: a loop takes them as success, ticks and goes on. Which blocks were dropped is not told;
 *   ps_client_stats() counts them.
 * In sync the step of a refused block waits for this worker, until it pushes the block again or ticks. */
PS_API enum ps_err ps_client_push(ps_client *client, size_t n, ps_var *const vars[], const float *const grads[],
                                  const struct ps_push_options *options, struct ps_error *error) PS_MUST_USE;

/* Push, and get the values after the update in the same round trip: out[i] may be the gradient's own buffer only with
 * PS_PUSH_COPY. After a reconnect the value may be newer than this push's own. */
PS_API enum ps_err ps_client_push_pull(ps_client *client, size_t n, ps_var *const vars[], const float *const grads[],
                                       float *const out[], const struct ps_push_options *options,
                                       struct ps_error *error) PS_MUST_USE;

/* This worker finished a step: its clock rises by one, here at once, and on every shard. */
PS_API enum ps_err ps_client_tick(ps_client *client, struct ps_error *error) PS_MUST_USE;

#define PS_METRICS_MAX     32
#define PS_METRIC_NAME_MAX 63 /* bytes */

/* What the step under way adds to this worker's metrics: losses, rows, whatever the program sums up. values: [n], n at
 * most PS_METRICS_MAX; any doubles, NaN and infinity too. They count with the step's tick, which settles them on shard
 * 0 in the transaction of the clock; set again before it they replace what was set, 0 takes that back. A step without
 * adds nothing.
 *
 * Each step counts once, whatever dies: a shard that is killed comes back with what it had settled, one that lost its
 * power is told of all of it again, and a process that takes the worker index over goes on from what that has. Given
 * cursors (ps_client_cursor()), a step that it does again, because not all shards had heard of its tick, is in it
 * already and adds nothing; and a shard that lost its power together with the worker has of the metrics as much as of
 * the worker's place: all steps before the last durable push, or before its last save, and the others are done, and
 * count, again. A new round of the job begins with none.
 *
 * No round trip, never waits: metrics travel in the tick. Errors: INVALID (more than PS_METRICS_MAX, an observer), what
 * ended the session. */
PS_API enum ps_err ps_client_set_metrics(ps_client *client, size_t n, const double *values,
                                         struct ps_error *error) PS_MUST_USE;

/* The metrics of all workers of the job, as they are settled now: sums [n] are filled, in the order of the workers, n
 * at most PS_METRICS_MAX; 0 where nobody has set so many. Workers that are lost or finished count. One round trip to
 * shard 0; a tick counts once it is done. So that all workers get the same, none of them ticks between: a barrier
 * before and one after. Observers may ask, with the job's name in their options. Errors: NOT_FOUND (the shard does not
 * know the job), INVALID, TIMEOUT, CLOSED. */
PS_API enum ps_err ps_client_metrics(ps_client *client, size_t n, double *sums, int timeout_ms,
                                     struct ps_error *error) PS_MUST_USE;

/* Wait until every worker of the job that is not lost or finished has come to the barrier of this name. On TIMEOUT and
 * STEP_FAILED the error names who did not come. */
PS_API enum ps_err ps_client_barrier(ps_client *client, const char *name, int timeout_ms,
                                     struct ps_error *error) PS_MUST_USE;

/* ---- Started operations -------------------------------------------------------------------------------------------
 */

/* Each start returns at once; *op is freed with ps_op_free(). Many may be in flight; pushes and ticks take effect on
 * each shard in the order of their starts.
 *
 * Small pushes and pulls. A push is written by its start, unless earlier ones are not answered yet and less than 16 KiB
 * have gathered behind them: then it is held, so that many share a system call (64 bytes: 1.4 million a second instead
 * of 0.1). So is a pull behind pulls, of which the values count as well: large ones are never held. Whatever waits or
 * tests sends what is held, or starts something that is not held itself; so does ps_client_flush(), for a program that
 * starts pushes or pulls and then computes for long. A progress thread holds nothing. */
PS_API enum ps_err ps_client_pull_start(ps_client *client, size_t n, ps_var *const vars[], float *const out[],
                                        const struct ps_pull_options *options, ps_op **op,
                                        struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_client_push_start(ps_client *client, size_t n, ps_var *const vars[], const float *const grads[],
                                        const struct ps_push_options *options, ps_op **op,
                                        struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_client_push_pull_start(ps_client *client, size_t n, ps_var *const vars[],
                                             const float *const grads[], float *const out[],
                                             const struct ps_push_options *options, ps_op **op,
                                             struct ps_error *error) PS_MUST_USE;
/* Send what is held. Accepts NULL. */
PS_API void ps_client_flush(ps_client *client);

PS_API enum ps_err ps_client_tick_start(ps_client *client, ps_op **op, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_client_barrier_start(ps_client *client, const char *name, ps_op **op,
                                           struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_client_declare_start(ps_client *client, const struct ps_var_spec *spec, ps_var **out, ps_op **op,
                                           struct ps_error *error) PS_MUST_USE;

/* Done or not, after letting the network move without waiting. Returns 1 when done. */
PS_API int ps_op_test(ps_op *op);

/* Wait until it is done: its result. PS_ERR_TIMEOUT when the deadline passes first, with who was waited for; the
 * operation goes on and its buffers stay borrowed. */
PS_API enum ps_err ps_op_wait(ps_op *op, int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* Wait until one of n is done: *index is the lowest of those that are. PS_ERR_TIMEOUT as above. NULL entries are passed
 * over; PS_ERR_INVALID when all are. */
PS_API enum ps_err ps_op_wait_any(size_t n, ps_op *const ops[], int timeout_ms, size_t *index,
                                  struct ps_error *error) PS_MUST_USE;

/* Wait until all of n are done: the first error among them in order, or PS_ERR_TIMEOUT. NULL entries as above. */
PS_API enum ps_err ps_op_wait_all(size_t n, ps_op *const ops[], int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* Give up: the operation is done with PS_ERR_CANCELLED, or with PS_ERR_UNKNOWN_OUTCOME when it is a push that was sent
 * and not answered (what was not sent never will be) or a tick (whose clock has risen: it goes on without its caller).
 * Its buffers are free when this returns. Nothing happens to one that is done. */
PS_API void ps_op_cancel(ps_op *op);

/* The result of one that is done; PS_ERR_INVALID for one that is not. */
PS_API enum ps_err ps_op_result(const ps_op *op, struct ps_error *error);

/* Blocks that a pull transferred (those not newer are left out); 0 for others. */
PS_API uint64_t ps_op_blocks_transferred(const ps_op *op);

/* Free; cancels one that is not done. Accepts NULL. */
PS_API void ps_op_free(ps_op *op);

/* ---- Questions to the shards (psctl) --------------------------------------------------------------------------------
 */

enum ps_query {
    PS_QUERY_STATUS = 0,
    PS_QUERY_VARIABLES = 1,
    PS_QUERY_STATS = 2,
    PS_QUERY_WORKERS = 3,
    PS_QUERY_BLOCKED = 4,
    PS_QUERY_JOBS = 5,
    PS_QUERY_TIMELINE = 7 /* what the shard did lately: "psctl trace" makes pictures of it */
};

/* Ask one shard. *json: a JSON object, freed with ps_free(); psd.proto's Report names its members. job NULL: all. */
PS_API enum ps_err ps_client_query(ps_client *client, uint32_t shard, enum ps_query query, const char *job,
                                   int timeout_ms, char **json, struct ps_error *error) PS_MUST_USE;

/* One round trip to one shard, in microseconds. */
PS_API enum ps_err ps_client_ping(ps_client *client, uint32_t shard, int timeout_ms, double *microseconds,
                                  struct ps_error *error) PS_MUST_USE;

/* ---- Changing a running cluster (psctl, or a worker that knows better by now) -------------------------------------
 */

struct ps_parameter {
    const char *name; /* a member of struct ps_optimizer: "learning_rate" */
    double value;
};

struct ps_age_policy {
    enum ps_age kind;
    double parameter; /* exponential: base in (0, 1); cutoff: largest age that counts */
};

/* What is to change. Values are absolute, so that the same setting twice is the same as once. */
struct ps_setting {
    const char *job;                      /* NULL: the client's own */
    const char *variables;                /* names, * for any characters and ? for one; NULL: no variable */
    size_t parameters;                    /* of the optimizers of these variables */
    const struct ps_parameter *parameter; /* [parameters] */
    const struct ps_schedule *schedule;   /* of their optimizers; NULL: as it is */
    const struct ps_clip *clip;           /* the same */
    const struct ps_age_policy *age;      /* of the job; NULL: as it is */
    const uint32_t *bound;                /* of the job, which is ssp; NULL: as it is */
};

/* Change a running job on every shard; workers and observers may. Each shard checks the whole setting, then does all of
 * it, in one transaction that survives kill -9: from its next update on. A larger bound lets waiting pulls go at once.
 * What workers open and declare later is compared with what was opened and declared first, so they go on as they are.
 *
 * Not atomic over the shards: one that refuses has changed nothing, the others that hold blocks of the variables, or
 * the job, have changed all the same, and the error says which ("changed on shard 0"); calling again is safe. A lost
 * connection is no error before the time-out (-1: the default). variables: how many the pattern named; NULL: nobody
 * asks.
 *
 * Errors: INVALID (a parameter that an optimizer of the variables does not have, a value out of its range, a change
 * that would need other slots or slots that began otherwise, a bound for a job that is not ssp; PS_CLIP_GIVEN_NORM for
 * a variable that was not declared with it, because its workers give no norm); NOT_FOUND (no such job, or no variable
 * of the job, on any shard, has a name that fits); LIMIT (the pattern names too many variables at once), FULL (a shard
 * has no room for so many changes), TIMEOUT, CLOSED. */
PS_API enum ps_err ps_client_set(ps_client *client, const struct ps_setting *setting, int timeout_ms,
                                 uint64_t *variables, struct ps_error *error) PS_MUST_USE;

/* Stop a shard as SIGTERM does: it answers what is under way, takes no new work, and exits with 0. Returns when it has
 * closed the connection. Its clients go on trying to reach the shard; started again on its live directory it goes on
 * where it was. Workers and observers may. Errors: TIMEOUT, INVALID (no such shard). */
PS_API enum ps_err ps_client_drain(ps_client *client, uint32_t shard, int timeout_ms,
                                   struct ps_error *error) PS_MUST_USE;

struct ps_evict_report {
    int found;                   /* the shard knows such a worker, */
    int live;                    /* whose session was live, and is ended now */
    uint64_t clock;              /* where it stood */
    char agent[PS_NAME_MAX + 1]; /* who it was: host and process */
};

/* End a worker's session on one shard now, as if its lease had lapsed: nobody waits for it any more, and its pushes up
 * to here count. Its connection ends with FENCED and the reason, and so does whatever its process sends under this
 * incarnation later, also after a restart of the shard. Another process takes the index as ever, or the same one after
 * ps_client_rejoin(); strategies do not rejoin after FENCED, as they do after LEASE_LAPSED. To be rid of a worker ask
 * every shard. Twice is the same as once. For observers only. job: NULL: the client's own. report may be NULL.
 * Errors: INVALID, DENIED, TIMEOUT, CANCELLED (ps_client_interrupt()). */
PS_API enum ps_err ps_client_evict(ps_client *client, uint32_t shard, const char *job, uint32_t task, int timeout_ms,
                                   struct ps_evict_report *report, struct ps_error *error) PS_MUST_USE;

/* ---- Saves and checkpoints -------------------------------------------------------------------------------------- */

struct ps_save_report {
    uint64_t save;          /* number */
    uint64_t blocks, bytes; /* in it; written */
    uint64_t ms;            /* that it took */
};

/* Save a shard's state to its durable directory now, and wait until it is on disk. Workers and observers may; training
 * goes on meanwhile. Errors: UNSUPPORTED (the shard has no durable directory), FULL, IO, TIMEOUT (it goes on). */
PS_API enum ps_err ps_client_save(ps_client *client, uint32_t shard, int timeout_ms, struct ps_save_report *report,
                                  struct ps_error *error) PS_MUST_USE;

struct ps_checkpoint_options {
    const char *job;  /* NULL: the client's own */
    const char *name; /* of the checkpoint, a directory in dir; NULL: "clock-N", or in async "unix-MILLISECONDS" */
    int at_clock;     /* nonzero: ssp and sync wait until all updates up to `clock` are done; else at once */
    uint64_t clock;
    uint32_t keep; /* keep this many of the newest in dir and remove the others; 0: all */
};

/* Write a job's weights and optimizer slots to dir/NAME, a directory that this process and every shard see under the
 * same path: weights.safetensors and slots.safetensors, whole tensors whatever the number of shards, and manifest.json
 * with checksums. It appears whole or not at all; then the link dir/latest names it. In sync all blocks are of one
 * clock; elsewhere each shard's part is one instant of it, and the manifest says which. Workers and observers may;
 * training goes on meanwhile. name: where it went, freed with ps_free(); may be NULL.
 *
 * In sync without a clock it is of the next one that all live workers reach, or of where they stopped. Errors:
 * NOT_FOUND (no such job), INVALID (a name with '/' or one that means something; a clock of an async job; a shard may
 * not write there), IO and FULL (of this side or of a shard), BUSY (one of that name is there or is being written;
 * variables were declared meanwhile: call again), MISMATCH (the shards do not know the job alike), TIMEOUT, CANCELLED
 * (ps_client_interrupt()). What was begun is removed. An error after it has its name, which is set then, is of removing
 * older ones. */
PS_API enum ps_err ps_client_checkpoint(ps_client *client, const char *dir, const struct ps_checkpoint_options *options,
                                        int timeout_ms, char **name, struct ps_error *error) PS_MUST_USE;

/* Put a checkpoint's values into the cluster, which may have another number of shards: path is the checkpoint's
 * directory, or dir/latest. Job and variables that are not there are made; those that are must be declared the same.
 * Everybody's connection ends, and who comes back is told RESTORED: workers join anew, at the checkpoint's clock or, if
 * they live on, at their own. Cursors are not part of it, nor what each worker had pushed: a push whose answer a worker
 * still waits for is sent again and counts on top of the checkpoint, which may have it; who cannot have that ends the
 * workers first. job: the name that it gets, NULL: the one that it had. For observers only. Shards are all asked
 * whether they could before one of them changes anything. Errors: DATA (damaged, or not a checkpoint: names the file
 * and what is wrong), MISMATCH, FULL, LIMIT, INVALID, BUSY (another is being restored), IO: nothing has changed;
 * TIMEOUT, CANCELLED: the sentence says whether nothing has changed, or the shards go on with it. A shard whose disk
 * fails in the middle (IO, DATA) lets no worker in until it is restored again. */
PS_API enum ps_err ps_client_restore(ps_client *client, const char *path, const char *job, int timeout_ms,
                                     struct ps_error *error) PS_MUST_USE;

struct ps_import_options {
    const char *job;                    /* NULL: the client's own */
    const char *variables;              /* names, * for any characters and ? for one; NULL: all of the file */
    const char *dir;                    /* there already; NULL: the file's */
    const struct ps_optimizer *declare; /* of variables that are not there; NULL: all must be */
    int make_job;                       /* nonzero, with declare: also a job that is not there, */
    enum ps_mode mode;                  /* of this mode */
    uint32_t bound;                     /* ssp: clocks */
    uint32_t workers;                   /* 0: one; in sync all of them make a step */
};

struct ps_import_report {
    uint64_t variables, declared, elements; /* declared: variables that were not there */
};

/* Put a safetensors file's values, F32, F16 or BF16, into the job's variables of the same names and shapes. What their
 * optimizers keep, and versions, begin anew; the job's other variables and its clock stay as they are. It is done as a
 * restore, see there what becomes of connections and pushes: the file is made into a checkpoint in options.dir, which
 * this process and every shard see under the same path and which needs room for values and slots, and that is restored
 * and removed. Declared variables have zeros as initializer; workers that declare them too must say the same. For
 * observers only. report may be NULL.
 *
 * All of the file is checked before anything changes. Errors: DATA (no whole safetensors file: a header that lies,
 * offsets with holes or overlaps, two of one name), SHAPE (a variable has another), UNSUPPORTED (another type of
 * values), NONFINITE (NaN or Inf for a variable that refuses them), NOT_FOUND (no such job or variable, no tensor that
 * the pattern names), INVALID (nothing that could be declared), IO, FULL, and those of ps_client_restore(). When the
 * sentence says that a directory is kept, shards may still need it: restore it. */
PS_API enum ps_err ps_client_import(ps_client *client, const char *file, const struct ps_import_options *options,
                                    int timeout_ms, struct ps_import_report *report,
                                    struct ps_error *error) PS_MUST_USE;

/* For a handler of signals, or another thread: the save, checkpoint, restore or import that the client is at ends with
 * CANCELLED, and so does every later one. A checkpoint that was begun is removed, a save or a restore that a shard was
 * told of goes on. The client may be closed as ever, after the call has returned. Async-signal-safe. */
PS_API void ps_client_interrupt(ps_client *client);

PS_API void ps_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
