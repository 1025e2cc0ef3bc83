/* The saver's state, for its two sides: saver.c, which runs on the loop, and saver_thread.c. */
#ifndef SERVER_SAVER_SAVER_STATE_H
#define SERVER_SAVER_SAVER_STATE_H

#include <pthread.h>

#include "common/core/model/layout.h"
#include "server/saver/saver.h"

#define SAVER_AHEAD 8192 /* blocks that the thread has been given and has not read */

enum durable_state {
    DURABLE_NONE, /* no durable store: checkpoints alone */
    DURABLE_OK,
    DURABLE_FULL,
    DURABLE_NEEDS_SAVE,
    DURABLE_LOST
};

/* A save that runs. The thread has it from the time it is taken until it has ended or the thread has seen that it is
 * abandoned; the loop from its begin until it has received its end or abandons it. The last of the two frees it. */
struct saver_job {
    struct shard_save *save;
    uint64_t unix_ms;

    /* Under the lock. */
    struct shard_save_block ring[SAVER_AHEAD];
    size_t first, len;
    bool all;       /* the shard has no more */
    bool closing;   /* SHARD_SAVE_CLOSE has come */
    bool abandoned; /* by the loop */
    bool ended;     /* by the thread, with: */
    struct ps_error error;
    uint64_t read;                  /* blocks */
    uint64_t written;               /* bytes */
    struct shard_verified verified; /* of a save that verifies; by the thread before it ends */
    uint64_t left_out;              /* of a checkpoint */

    /* The loop's. */
    uint64_t passed; /* blocks that the shard knows of */
};

struct saver {
    struct saver_config config;
    struct store_reader *reader;
    pthread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake; /* the thread waits here */
    uv_async_t async;

    /* Under the lock: orders of the loop. */
    bool stopping;
    bool look; /* whether the durable directory is still there */
    uint64_t redo_to, rate;
    struct saver_job *incoming;

    /* Under the lock: reports of the thread, which alone writes them. */
    enum durable_state durable_state;
    struct ps_error durable_error; /* outside DURABLE_OK */
    uint64_t durable_to;           /* pieces before this one are on disk */
    uint32_t lost;                 /* how often the directory was not found any more */
    uint32_t aside;                /* N of the file data.mdb.bad-N that was set aside last; 0: none */

    /* The loop's. */
    struct saver_job *job;
    struct shard_save_block batch[SAVER_AHEAD / 2];
    struct shard_save *unbegun;        /* there was no memory for it */
    enum durable_state reported_state; /* as last reported to the shard, */
    enum ps_err reported_code;         /* and outside DURABLE_OK why */
    uint64_t reported_to;
    uint32_t reported_aside, reported_lost;

    /* The thread's. */
    struct saver_job *own;
    bool begun;                                    /* what another boot has staged is erased */
    uint64_t redo_next;                            /* piece that is written next */
    bool vanished;                                 /* LOST because the file is no longer in its directory */
    uint64_t retry_at;                             /* in FULL and LOST */
    uint64_t pieces_at;                            /* when pieces were last written */
    double tokens;                                 /* bytes of blocks that may be written */
    uint64_t unreported;                           /* bytes of blocks that the shard may not know to be read */
    struct checkpoint_sink *sink;                  /* of a checkpoint that has begun to be written */
    uint64_t tokens_at;                            /* when they were last counted */
    bool cut;                                      /* leftovers of the redo log may be there */
    uint64_t cut_at;                               /* not before this */
    uint8_t value[LAYOUT_PAGE * LAYOUT_PAGES_MAX]; /* the block that was read; room for the largest */
};

void saver_job_free(struct saver_job *job);

/* ---- The thread's ---- */

void *saver_thread(void *saver);

#define SAVER_CHUNK       (DURABLE_TXN_MAX - 2 * MIB) /* what a transaction stages; the last block may pass it */
#define SAVER_CHUNK_SMALL (4 * MIB)                   /* while durable pushes are about */

struct saver_due {
    bool anew, pieces;
    bool begin, blocks, finish; /* of a save */
    bool checkpoint, closing;   /* a part of one, or its end */
    uint64_t redo_to;           /* pieces before this one */
    uint64_t most;              /* bytes of blocks */
};

/* saver_wait.c, under the lock: wait until something is due. False: the thread ends; pieces that wait are written
 * before that, if they can be. */
bool saver_wait(struct saver *s, struct saver_due *due);
bool saver_pieces_wait(const struct saver *s);

/* Without it: a save has come and has not begun; leftovers of the redo log are to go now. */
bool saver_save_waits(const struct saver *s);
bool saver_cut_is_due(const struct saver *s);

/* The next block of the job, when there is one; after some that were read in one go, only when no pieces wait but those
 * before redo_to. */
bool saver_next_block(struct saver *s, uint64_t read_bytes, uint64_t redo_to, struct shard_save_block *out);
void saver_block_was_read(struct saver *s, size_t len);

/* saver_read.c: copy a live value, or its head. value: the copy, valid until the next; its length is that of the
 * whole. */
enum ps_err saver_read(struct saver *s, const struct store_key *key, struct span *value);
enum ps_err saver_read_head(struct saver *s, const struct store_key *key, struct span *value);

void saver_end_job(struct saver *s, enum ps_err err, const char *why);

/* saver_errors.c. The state and its error (NULL in DURABLE_OK) are reported with how far pieces are on disk. */
void saver_set_durable_state(struct saver *s, enum durable_state state, const struct ps_error *why);

/* A transaction failed: of a save, of pieces and nothing else. */
void saver_failed(struct saver *s, enum ps_err err, bool of_save, bool of_pieces);

/* True: the file is no longer in its directory, so that what is written would be lost. Checked after each commit, and
 * about once a second. */
bool saver_vanished(struct saver *s);

/* In DURABLE_LOST: another durable file, or a try in SAVER_RETRY_NS. */
void saver_make_anew(struct saver *s);
#define SAVER_RETRY_NS UINT64_C(1000000000)

/* saver_checkpoint.c: the next `most` bytes of a checkpoint, or its end when it is closing; nothing of it is left. */
void saver_checkpoint_go_on(struct saver *s, bool closing, uint64_t most, uint64_t redo_to);
void saver_checkpoint_drop(struct saver *s);

#endif
