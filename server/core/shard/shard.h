/* The shard: the whole server as a function over values. Pure: no sockets, disk, clock, randomness or threads; time and
 * seeds come in with events, blocks through store.h, answers go out as actions. psd, unit tests and the simulator run
 * this same code.
 *
 * One turn of the loop:
 *
 *     for each event:  while (shard_step(shard, &event) == SHARD_TURN_FULL) end_turn();
 *     end_turn():      err = shard_commit(shard);      // one write transaction; PS_OK when there was nothing to write
 *                      while (shard_next_action(shard, &action)) perform(&action);
 *
 * Actions of a turn are handed out only after its commit. When the commit fails, nothing of the turn happened: its
 * actions are gone, the core has reloaded what it keeps from the store, and a CLOSE comes out for every connection that
 * took part (the workers resend when they are back).
 *
 * A connection:
 *                    HELLO worker            goodbye, bad message, closed, replaced
 *     CONN_NEW ─────────────────────► CONN_WORKER ──────────────────────────────► gone
 *        │           HELLO observer
 *        └──────────────────────────► CONN_OBSERVER ────────────────────────────► gone
 *
 * A session (one worker index of one job; kept in the store; hello.h says who gets in):
 *
 *     (none) ─new hello─► SESSION_LIVE ─┬─connection lost: grace passes; silent: lease passes─► SESSION_LAPSED ──┐
 *                          ▲  ▲  │      └─goodbye(finished)───────────────────────────────────► SESSION_FINISHED ┤
 *                          │  └──┘ resume, same incarnation                                                      │
 *                          └──────new hello, another incarnation: clock = slowest live───────────────────────────┘
 *
 * Folders of the core call down only; this is the order, from the top, and what they do:
 *
 *     metrics      figures for Prometheus and the page
 *     shard        shard (events), message (frames), hello and worker_exit (workers come and go), commit (the turn's
 *                  end), replay, drain, setting, report, listeners
 *     durability   save, redo (pieces of the log, the disk), restore, catalog (all that is loaded), durable
 *     training     push, gather (gradients of a sync step), pull, barrier, pending (messages that wait), held
 *     model        variable, declare, block (found and made), kind, update (of one block)
 *     sessions     job, session (lease), sequence (exactly once), clock (which worker is slowest), data_steps
 *     journal      what modules say must be in the redo log
 *     turn         turn (the transaction), actions (what goes out), connection, limit, traffic, pool (memory)
 *     workers      values: cursor, roster, metrics ...
 *     store        where blocks and rows are kept
 */
#ifndef SERVER_SHARD_H
#define SERVER_SHARD_H

#include "common/core/auth/keyring.h"
#include "common/core/base/base.h"
#include "common/core/wire/frame.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"
#include "server/core/turn/stats.h"

/* Limits that psd's options set (limit.h has the list of all): defaults, and the most that they may be. */
#define SHARD_JOBS          1024 /* jobs on one cluster */
#define SHARD_JOBS_MAX      (1u << 14)
#define SHARD_VARIABLES     (1u << 20) /* variables of all jobs */
#define SHARD_VARIABLES_MAX (1u << 24)
#define SHARD_SESSIONS      (1u << 17) /* sessions kept, live or not */
#define SHARD_SESSIONS_MAX  (1u << 22)
#define SHARD_BARRIERS      4096 /* open barriers */
#define SHARD_BARRIERS_MAX  (1u << 20)
#define SHARD_PARKED        4096 /* parked pulls of one connection, and as many declares that wait */
#define SHARD_PARKED_MAX    (1u << 20)
#define SHARD_PARKED_BYTES  (64 * MIB) /* that those pulls hold */
#define SHARD_TIMELINE_MAX  (1u << 22) /* spans that its timeline keeps */
#define SHARD_HELLO_MS      10000      /* a connection that has not said hello by then is closed */

#define SHARD_UNRESOLVED_MAX 65536       /* sequenced messages of one session received and not yet answered */
#define SHARD_ODD_MAX        32          /* outcomes other than OK that a session remembers until they are acked */
#define SHARD_SET_MAX        4096        /* variables that one set may change */
#define SHARD_TURN_LONG      (256 * KIB) /* see shard_long_turn() */
#define SHARD_WORK_BYTES     (4 * MIB)   /* blocks initialized per SHARD_WORK event */

struct shard;

struct shard_config {
    const char *cluster;
    uint32_t shard, shards;
    uint64_t boot;             /* random id used when the store is empty */
    uint32_t grace_ms;         /* between a worker's lost connection and its lapse; default 5,000 */
    uint64_t gather_bytes_max; /* heap set aside for gradients that wait in sync, all variables; default 1 GiB */
    uint32_t connections_max;  /* default 4096 */
    uint32_t jobs_max, variables_max, sessions_max, barriers_max, parked_max; /* 0: the defaults above */
    uint64_t parked_bytes_max;                                                /* the same */
    uint32_t hello_ms;                                                        /* the same */
    uint64_t in_flight_bytes_max; /* told to clients; enforced by the glue */
    const char *version;          /* of psd, for reports */
    const char *live_dir;         /* for reports */
    uint64_t pid;                 /* for reports */
    uint64_t stream_min_bytes;    /* non-temporal stores when the shard holds more data than this; 0: 8 MiB */
    bool durable;                 /* there is a durable environment: saves and durable pushes are possible */
    const char *durable_dir;      /* for reports */
    uint64_t saved;               /* number of its newest save, 0: none */
    uint64_t redo_next;           /* the next piece of its redo log, 0 or 1: it is empty */
    uint64_t redo_bytes;          /* of those that are in no save */
    uint64_t redo_bytes_max; /* of pieces that wait for the disk; past it durable pushes are LIMIT; default 1 GiB */
    uint32_t timeline;       /* spans that it keeps, a power of two; 0: none */
    const char *machine;     /* whose clock their times are by: its boot; NULL: not known */
};

/* Create over a store and load what it holds. Borrows the store until shard_free(). Copies strings. PS_ERR_CLUSTER when
 * the store belongs to another cluster or shard, PS_ERR_VERSION when its format is not known, PS_ERR_NOMEM, PS_ERR_IO.
 */
enum ps_err shard_new(const struct shard_config *config, struct store *store, uint64_t now_ms, struct shard **out,
                      struct ps_error *e) PS_MUST_USE;
void shard_free(struct shard *s); /* accepts NULL; aborts an open turn */

enum shard_event_kind {
    SHARD_OPENED, /* conn: a new connection; ids are the glue's and never used again */
    SHARD_FRAME,  /* conn, head, meta, payload: one whole frame */
    SHARD_BROKEN, /* conn, error: its bytes were no frame. Answered with ERROR and CLOSE */
    SHARD_CLOSED, /* conn: the connection is gone */
    SHARD_TIME,   /* time passed; due when shard_next_time() says so */
    SHARD_WORK,   /* go on with background work (initializing, erasing); wanted while shard_busy() */
    SHARD_DRAIN,  /* stop: refuse new work, finish what is in flight; SHARD_STOPPED comes out when nothing is left */
    /* ---- The durable side, when config.durable ---- */
    SHARD_SAVE,        /* save as soon as may be; nothing when a save waits already */
    SHARD_SAVE_PASSED, /* count: so many more of the blocks that shard_save_next() gave were read */
    SHARD_SAVE_ENDED,  /* it is on disk, bytes were written; or error says why it is not. Of a checkpoint, count: its
                          variables that the files have no place for */
    SHARD_DURABLE,     /* number: all pieces of the redo log before this one are on disk */
    SHARD_NOT_DURABLE, /* error: pieces cannot be written now. SHARD_DURABLE comes when they can */
    /* ---- Checkpoints ---- */
    SHARD_RESTORE /* restore: taken over, put it into the store; or error says why it cannot be read. conn, number: as
                     SHARD_RESTORE_WANTED had them; conn 0: nobody asked */
};

/* The glue's own figures for reports. */
struct shard_figures {
    uint64_t in_flight_max, in_flight_connection, in_flight_connection_max; /* of the connection that has most */
    uint64_t in_flight_waits, in_flight_connection_waits;                   /* how often reading stopped for them */
    uint64_t descriptors, descriptors_max;
    uint64_t connections_refused, descriptors_refused;
    uint64_t denied[DENIALS]; /* but for roles, which the shard counts */
};

struct shard_event {
    enum shard_event_kind kind;
    uint64_t now_ms; /* monotonic */
    uint64_t now_ns; /* the same, finer, for the timeline; 0: as now_ms says */
    uint64_t conn;
    const struct frame_head *head;
    const void *meta; /* borrowed during the step */
    bool unstable; /* the payload may change while it is looked at: what must stay as it was checked is copied first */
    const void *payload; /* borrowed during the step; 4-byte aligned; NULL when there is none */
    const struct ps_error *error;
    struct shard_restore *restore;
    const char *peer; /* SHARD_OPENED: address, for reports and messages */
    enum role role;   /* SHARD_FRAME: what its peer may do; ROLE_NONE: nothing */
    uint64_t count, bytes, number;
    /* Glue's own figures for reports, read on SHARD_FRAME of a query. */
    uint64_t in_flight_bytes;
    const struct shard_figures *figures; /* may be NULL */
};

enum shard_result {
    SHARD_TAKEN,    /* the event was dealt with */
    SHARD_TURN_FULL /* nothing happened: end the turn, then give the same event again */
};
enum shard_result shard_step(struct shard *s, const struct shard_event *event);

/* End the turn. See above for what a failure means. */
enum ps_err shard_commit(struct shard *s);

/* Another grace from now on (--grace is reloadable); 0: the default. SHARD_TIME is due at once. */
void shard_set_grace(struct shard *s, uint32_t grace_ms);

/* True when the turn wrote something that shard_commit() must commit. */
bool shard_dirty(const struct shard *s);

/* True when the turn had better end now: it has updated SHARD_TURN_LONG bytes of weights and slots. So what it answers
 * with is still in the cache, and so are the pages that it leaves behind, which LMDB hands out again in the turn after
 * the next: each further turn's worth that lies between a page's old use and its new one is cache that it falls out of.
 */
bool shard_long_turn(const struct shard *s);

/* How many it has updated by now; 0 again once it is committed. */
uint64_t shard_turn_updated(const struct shard *s);

/* A turn of the glue's, for the timeline: when it began, its commit began, its answers began to go out, and it ended.
 */
void shard_turn_took(struct shard *s, uint64_t start_ns, uint64_t commit_ns, uint64_t answer_ns, uint64_t end_ns);

/* What the shard has kept, for who reads it (timeline.h). */
struct timeline;
const struct timeline *shard_timeline(const struct shard *s);

/* When SHARD_TIME is wanted next (ms, monotonic); UINT64_MAX: never. */
uint64_t shard_next_time(const struct shard *s);

/* True while SHARD_WORK is wanted. */
bool shard_busy(const struct shard *s);

/* ---- Actions ---- */

/* An answer with blocks: meta and spans are made when it is first in line to be sent, from the newest commit. */
struct shard_data;

enum shard_action_kind {
    SHARD_SEND,           /* conn, bytes, len: a whole frame without payload; bytes are now the receiver's (free()) */
    SHARD_DATA,           /* conn, data: now the receiver's: shard_data_open() ... shard_data_free() */
    SHARD_CLOSE,          /* conn: close after what was queued is sent */
    SHARD_LOG,            /* level, text */
    SHARD_DRAIN_BEGUN,    /* on SHARD_DRAIN, or because a peer asked: take no new connections. May come again */
    SHARD_STOPPED,        /* drained */
    SHARD_SAVE_BEGUN,     /* save: the receiver's. Fetch blocks with shard_save_next() */
    SHARD_SAVE_CLOSE,     /* all blocks of the save were passed: its last words may be written, not before */
    SHARD_SAVE_ABANDONED, /* the save that runs is not wanted any more: what was read for it may be wrong. No event of
                             it may come after this */
    SHARD_RESTORE_WANTED, /* conn, number: whose question it is; text: the checkpoint's directory. Open it and give it
                             back with SHARD_RESTORE */
    SHARD_REDO            /* number: pieces of the redo log before this one are committed in the live store */
};

enum shard_log_level { SHARD_LOG_ERROR = 3, SHARD_LOG_WARNING = 4, SHARD_LOG_INFO = 6 }; /* syslog's */

struct shard_action {
    enum shard_action_kind kind;
    uint64_t conn;
    uint8_t *bytes;
    size_t len;
    struct shard_data *data;
    enum shard_log_level level;
    char *text; /* heap, the receiver's: "worker lapsed job=train task=2" */
    struct shard_save *save;
    uint64_t number;
    char *job;            /* SHARD_RESTORE_WANTED, heap, the receiver's */
    bool check;           /* the same */
    uint64_t verified[2]; /* the same: stamps (checkpoint_dir.h) of files that need no checksum; or 0 */
};

/* False when there is none. */
bool shard_next_action(struct shard *s, struct shard_action *out);

/* Frame bytes and payload spans of an answer with blocks. head: header, metadata and pad (heap, freed by
 * shard_data_free()); parts: into the snapshot. */
struct shard_reply {
    const uint8_t *head;
    size_t head_len;
    const struct span *parts;
    size_t parts_len;
    size_t payload_len;
};

/* Build the reply from a snapshot of the newest commit, which must be held until the parts were sent or copied. Counts
 * the pull in the statistics. PS_ERR_NOMEM, PS_ERR_IO, PS_ERR_ROLLED_BACK (a restore has begun to write since): close
 * the connection. */
enum ps_err shard_data_open(struct shard *s, struct shard_data *data, struct store_snapshot *snap,
                            struct shard_reply *out) PS_MUST_USE;
size_t shard_data_bytes(const struct shard_data *data); /* heap that it holds, for accounting */
void shard_data_free(struct shard_data *data);

/* ---- Saves (save.h): what the glue carries from the live store to the durable one ----
 *
 *     SHARD_SAVE_BEGUN ──► shard_save_next() ──► read and written ──► SHARD_SAVE_PASSED ─┐   SHARD_SAVE_CLOSE
 *                              ▲                                                         ├──────────────────► last
 * words └──────────────────── not all yet ────────────────────────┘                       │ SHARD_SAVE_ENDED ┘
 *
 * At any moment: SHARD_SAVE_ENDED with an error from the glue, or (until SHARD_SAVE_CLOSE) SHARD_SAVE_ABANDONED. */

struct shard_save_row {
    enum store_table table;
    struct span key, value; /* into the save's memory */
};

/* A save at its instant. */
struct shard_save {
    uint64_t number;        /* counts from 1, over all processes */
    uint64_t boot;          /* of the data */
    uint64_t redo;          /* pieces of the redo log before this one are in it */
    uint64_t blocks, bytes; /* to be saved */
    const char *checkpoint; /* the directory of a checkpoint (checkpoint.h); NULL: a save to the durable environment */
    const char *job;        /* of a checkpoint */
    const struct shard_save_row *rows; /* [rows_len]; of a checkpoint: STORE_VARS of its job */
    size_t rows_len;
};
void shard_save_free(struct shard_save *save); /* accepts NULL */

struct shard_save_block {
    struct store_key key; /* where its value of the instant lies until SHARD_SAVE_PASSED has counted it */
    size_t size;          /* of the value */
};

/* The next blocks of the save that runs: as many as there is room for in out and as fit into bytes (one at least).
 * Returns how many; 0: all were handed out, or there is no save. Handed out in order, to be passed in order. */
size_t shard_save_next(struct shard *s, size_t bytes, struct shard_save_block *out, size_t room);

/* Whether something has changed since the instant of the newest complete save, or there is none: for who saves by the
 * clock. SHARD_SAVE saves in any case. */
bool shard_save_due(const struct shard *s);

/* Nobody may train before a save is complete: what was restored must be on disk. Not kept over a process: ask. */
bool shard_save_awaited(const struct shard *s);

/* ---- Restores (restore.h): where a checkpoint's values are read ---- */

struct checkpoint;

/* Its functions may block; they are called from shard_step(), for a few MiB at a time. Variables are numbered as in the
 * manifest. */
struct shard_restore {
    const struct checkpoint *manifest;
    const char *dir, *job; /* as it was asked for; job "": the name that it had */
    bool check;            /* only look whether it could be done */
    uint64_t boot;         /* random id for the life of the data that begins then */

    /* len elements from `first` on; array 0: weights, 1...: slots. PS_ERR_IO, PS_ERR_DATA. */
    enum ps_err (*elements)(struct shard_restore *r, size_t variable, uint32_t array, uint64_t first, uint32_t len,
                            float *to, struct ps_error *e);
    enum ps_err (*counts)(struct shard_restore *r, size_t variable, uint64_t block, uint64_t *version, uint64_t *clock,
                          struct ps_error *e);
    void (*close)(struct shard_restore *r);
};

/* A restore that an earlier process began and did not finish: its directory and job, until the next event; open it and
 * give it to the shard. False: there is none. */
bool shard_restore_unfinished(const struct shard *s, const char **dir, const char **job);

/* One is under way, or stopped in the middle. False: *why the last one was refused; may be NULL. */
bool shard_is_restoring(const struct shard *s, struct ps_error *why);

/* What lies here is part of a checkpoint, and is not saved. */
bool shard_is_half_restored(const struct shard *s);

/* Nothing was ever declared here, and no job is known. */
bool shard_is_empty(const struct shard *s);

/* ---- Replaying (redo.h): after shard_new() over a rebuilt store, before the first event ---- */

/* Give the shard all pieces of a redo log, in order; it commits by itself now and then. After the last, or to stop
 * there, shard_replay_end(): `records` is how many were replayed. PS_ERR_IO, with a sentence: the log is damaged. */
enum ps_err shard_replay_piece(struct shard *s, struct span piece, struct ps_error *e) PS_MUST_USE;
enum ps_err shard_replay_end(struct shard *s, uint64_t *records, struct ps_error *e) PS_MUST_USE;

#endif
