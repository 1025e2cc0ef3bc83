/* A shard's inputs and outputs: configuration, events, actions and what these carry. It is the part of shard.h that
 * modules below shard/ use as well. */
#ifndef SERVER_CORE_TURN_SHARD_TYPES_H
#define SERVER_CORE_TURN_SHARD_TYPES_H

#include "common/core/auth/keyring.h"
#include "common/core/base/base.h"
#include "common/core/wire/frame.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"
#include "server/core/turn/stats.h"

/* Limits that psd's options set (limit.h has the list of all): defaults, and the most that they may be. */
#define SHARD_JOBS                 1024 /* jobs on one cluster */
#define SHARD_JOBS_MAX             (1u << 14)
#define SHARD_VARIABLES            (1u << 20) /* variables of all jobs */
#define SHARD_VARIABLES_MAX        (1u << 24)
#define SHARD_SESSIONS             (1u << 17) /* sessions kept, live or not */
#define SHARD_SESSIONS_MAX         (1u << 22)
#define SHARD_BARRIERS             4096 /* open barriers */
#define SHARD_BARRIERS_MAX         (1u << 20)
#define SHARD_PARKED               4096 /* parked pulls of one connection, and as many declares that wait */
#define SHARD_PARKED_MAX           (1u << 20)
#define SHARD_PARKED_BYTES         (64 * MIB) /* that those pulls hold */
#define SHARD_PARKED_PART          4          /* of so many parts of in_flight_bytes_max one is parked_all_max */
#define SHARD_TIMELINE_MAX         (1u << 22) /* spans that its timeline keeps */
#define SHARD_HELLO_MS             10000      /* a connection that has not said hello by then is closed */
#define SHARD_CONNECTIONS_RESERVED 32 /* of all connections, at most a sixteenth: for who administers the shard */

#define SHARD_UNRESOLVED_MAX 65536       /* sequenced messages of one session received and not yet answered */
#define SHARD_OUTCOMES_MAX   32          /* outcomes other than OK that a session remembers until they are acked */
#define SHARD_SET_MAX        4096        /* variables that one set may change */
#define SHARD_DROP_MAX       128         /* variables that one drop by their names takes; it is asked again */
#define SHARD_TURN_LONG      (256 * KIB) /* see shard_long_turn() */
#define SHARD_TURN_ANSWERS   (1 * MIB)   /* the same */
#define SHARD_WORK_BYTES     (4 * MIB)   /* blocks initialized per SHARD_WORK event, at most so many bytes, */
#define SHARD_WORK_BLOCKS    128         /* and at most so many of them: other events wait meanwhile */
#define SHARD_SAVE_LOOKS     128         /* variables that a save's begin looks at per SHARD_WORK event */

struct shard;

/* Of so many connections, places that only those may take who administer the shard, as the glue says. */
static inline uint32_t
connection_reserved(uint32_t connections_max)
{
    return connections_max / 16 < SHARD_CONNECTIONS_RESERVED ? connections_max / 16 : SHARD_CONNECTIONS_RESERVED;
}

struct shard_config {
    const char *cluster;
    uint32_t shard, shards;
    uint64_t boot;             /* random id used when the store is empty */
    uint32_t grace_ms;         /* between a worker's lost connection and its lapse; default 5,000 */
    uint64_t gather_bytes_max; /* heap set aside for gradients that wait in sync, all variables; default 1 GiB */
    uint32_t connections_max;  /* default 4096 */
    uint32_t jobs_max, variables_max, sessions_max, barriers_max, parked_max; /* 0: the defaults above */
    uint64_t parked_bytes_max;                                                /* the same */
    uint32_t variable_ids_max;    /* ids of variables; 0: STORE_VAR_MAX. Tests have fewer */
    uint64_t parked_all_max;      /* bytes of what waits, of all connections; 0: no limit. A share: half of it */
    uint32_t hello_ms;            /* the same */
    uint32_t observer_ms;         /* how long an observer may say nothing; 0: for ever */
    uint64_t in_flight_bytes_max; /* sent to clients; enforced by the glue */
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
    uint32_t save_looks;     /* variables that one event of a save's begin looks at; 0: SHARD_SAVE_LOOKS */
    uint32_t timeline;       /* spans that it keeps, a power of two; 0: none */
    const char *machine;     /* whose clock their times are by: its boot; NULL: not known */
};

/* ---- Events ---- */

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
                     SHARD_RESTORE_WANTED had them; conn 0: no client asked */
};

/* The glue's own figures for reports. */
struct shard_figures {
    uint64_t in_flight_max, in_flight_connection, in_flight_connection_max; /* of the connection that has most */
    uint64_t in_flight_waits, in_flight_connection_waits;                   /* how often reading stopped for them */
    uint64_t descriptors, descriptors_max;
    uint64_t descriptors_refused;
    uint64_t denied[DENIALS]; /* but for roles, which the shard counts */
};

/* What the connections of one identity hold together. The glue makes one for each identity, which outlives its
 * connections in the shard. */
struct shard_share {
    uint64_t parked_bytes;
};

/* What a save that verifies has found among the blocks that lay there unchanged. Keys: of the first one. */
struct shard_verified {
    uint64_t blocks; /* that were read */
    uint64_t bytes;  /* of those that were not written again */
    uint64_t mended; /* did not have their checksums, and were written again from the live store */
    uint64_t differ; /* are well there, and are otherwise in the live store, under the same version */
    struct store_key first_mended, first_differs;
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
    const char *peer;          /* SHARD_OPENED: address, for reports and messages */
    bool reserved;             /* SHARD_OPENED: it may take a place that is kept for who administers the shard */
    enum role role;            /* SHARD_FRAME: what its peer may do; ROLE_NONE: nothing */
    const char *token;         /* SHARD_FRAME: name of the token that its peer proved; NULL or "": none */
    struct shard_share *share; /* SHARD_FRAME: its identity's; may be NULL */
    uint64_t count, bytes, number;
    const struct shard_verified *verified; /* SHARD_SAVE_ENDED of a save that verifies */
    /* Glue's own figures for reports, read on SHARD_FRAME of a query. */
    uint64_t in_flight_bytes;
    const struct shard_figures *figures; /* may be NULL */
};

enum shard_result {
    SHARD_TAKEN,    /* the event was dealt with */
    SHARD_TURN_FULL /* nothing happened: end the turn, then give the same event again */
};

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
    SHARD_SAVE_INSTANT,   /* what the turn has committed is what the next SHARD_SAVE_BEGUN is of */
    SHARD_SAVE_BEGUN,     /* save: the receiver's. Fetch blocks with shard_save_next() */
    SHARD_SAVE_CLOSE,     /* all blocks of the save were passed: its end may be written, not before */
    SHARD_SAVE_ABANDONED, /* the save that runs is not wanted any more: what was read for it may be wrong. No event of
                             it may come after this */
    SHARD_RESTORE_WANTED, /* conn, number: of the request; text: the checkpoint's directory. Open it and give it
                             back with SHARD_RESTORE */
    SHARD_REDO            /* number: pieces of the redo log before this one are committed in the live store */
};

/* syslog's. What there may be a million of, such as variables, is DEBUG, whatever befalls them. */
enum shard_log_level { SHARD_LOG_ERROR = 3, SHARD_LOG_WARNING = 4, SHARD_LOG_INFO = 6, SHARD_LOG_DEBUG = 7 };

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

/* Frame bytes and payload spans of an answer with blocks. head: header, metadata and pad (heap, freed by
 * shard_data_free()); parts: into the snapshot. */
struct shard_reply {
    const uint8_t *head;
    size_t head_len;
    const struct span *parts;
    size_t parts_len;
    size_t payload_len;
};

size_t shard_data_bytes(const struct shard_data *data); /* heap that it holds, for accounting */
size_t shard_data_most(const struct shard_data *data);  /* payload that it may make, at most */
void shard_data_free(struct shard_data *data);

/* ---- Saves: what SHARD_SAVE_BEGUN hands out ---- */

struct shard_save_row {
    enum store_table table;
    struct span key, value; /* into the save's memory */
};

/* A save at its instant. */
struct shard_save {
    uint64_t number;        /* counts from 1, over all processes */
    uint64_t boot;          /* of the data */
    uint32_t format;        /* the same: SHARD_FORMAT, ... (identity.h) */
    uint64_t redo;          /* pieces of the redo log before this one are in it */
    uint64_t blocks, bytes; /* to be saved */
    bool verify;            /* what lies there unchanged is read, and held against its checksum */
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

/* ---- Restores (restore.h): where a checkpoint's values are read ---- */

struct checkpoint;

/* Its functions may block; they are called from shard_step(), for a few MiB at a time. Variables are numbered as in the
 * manifest. */
struct shard_restore {
    const struct checkpoint *manifest;
    const char *dir, *job; /* as it was asked for; job "": the name that it had */
    bool check;            /* only look whether it could be done */
    uint64_t boot;         /* random id for the life of the data that begins then */
    uint64_t by;           /* shard_restore_by() of psd's --restore; 0: a client asked */

    /* len elements from `first` on; array 0: weights, 1...: slots. PS_ERR_IO, PS_ERR_DATA. */
    enum ps_err (*elements)(struct shard_restore *r, size_t variable, uint32_t array, uint64_t first, uint32_t len,
                            float *to, struct ps_error *e);
    enum ps_err (*counts)(struct shard_restore *r, size_t variable, uint64_t block, uint64_t *version, uint64_t *clock,
                          struct ps_error *e);
    void (*close)(struct shard_restore *r);
};

#endif
