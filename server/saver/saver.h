/* The saver: the thread that owns the durable store. It writes there what the shard hands out, in transactions for both
 * kinds: first the pieces of the redo log that wait, then blocks of the save that runs, so that one sync is enough.
 *
 *     the loop (shard)                                          the thread
 *     SHARD_REDO{n}      ── saver_redo() ────────────────────► pieces wait ──┐
 *     SHARD_SAVE_BEGUN   ── saver_begin() ───────────────────► a save        ├─► begin, pieces, blocks, commit = sync
 *     shard_save_next()  ── saver_turn_ended() ──────────────► blocks wait ──┘        │
 *     SHARD_SAVE_PASSED, SHARD_SAVE_ENDED, SHARD_DURABLE, SHARD_NOT_DURABLE ◄─────────┘ by uv_async
 *
 * A save, or a checkpoint, which goes to files instead:
 *
 *                  begun              all blocks read           SHARD_SAVE_CLOSE          its end is on disk
 *     (none) ──────────────► staging ─────────────────► read ─────────────────────► closing ────────────────────► ended
 *        ▲                      │ SHARD_SAVE_ABANDONED    │ SHARD_SAVE_ABANDONED
 *        └──────────────────────┴─────────────────────────┘
 *
 * Until SHARD_SAVE_CLOSE the shard may have abandoned it, and what was read last may be of later updates.
 *
 * The durable side:
 *
 *                         no space: pieces are tried again every second
 *               OK  ◄───────────────────────────────────────────────────► FULL        (enum durable_state: DURABLE_...)
 *     sync      │ ▲                                                         │ sync failed
 *     failed    ▼ │ a full save is there                                   ▼
 *     LOST ──► NEEDS_SAVE: another file, or one that missed something: no piece is written, a full save is needed
 *       └──┘ file set aside, a new one cannot be made: tried again every second
 *
 * LOST follows all other states, too, when the file is not found in the directory any more: a commit to a file without
 * a name would succeed and be lost.
 *
 * Outside DURABLE_OK the shard has received SHARD_NOT_DURABLE; back in it SHARD_DURABLE. Nothing here blocks the loop,
 * but for saver_stop(). */
#ifndef SERVER_SAVER_SAVER_H
#define SERVER_SAVER_SAVER_H

#include <uv.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/shard/shard.h"
#include "server/core/store/store.h"
#include "server/recovery/durable_dir.h"

struct saver;

struct saver_config {
    uv_loop_t *loop;
    struct shard *shard;         /* borrowed */
    struct store *live;          /* borrowed */
    struct durable_dir *dir;     /* borrowed; the thread's until saver_stop() has returned. NULL: checkpoints alone */
    uint64_t redo_to;            /* pieces of the redo log before this one are committed in the live store */
    bool needs_full_save;        /* what is in the durable store misses something: begin in DURABLE_NEEDS_SAVE */
    const char *checkpoint_root; /* NULL, or the directory that checkpoints must lie below */
    uint64_t rate;               /* blocks, in bytes per second; 0: no limit */
    /* On the loop: an event for the shard; now_ms is not set. */
    void (*event)(void *arg, struct shard_event *event);
    void *arg;
};

/* Start the thread. PS_ERR_NOMEM, PS_ERR_LIMIT, PS_ERR_IO. */
enum ps_err saver_start(const struct saver_config *c, struct saver **out, struct ps_error *e) PS_MUST_USE;

/* Give up a save that runs, write the pieces that wait, end the thread. Blocks until that is done; the loop must run
 * once more, for a handle to close. Accepts NULL. */
void saver_stop(struct saver *s);

/* ---- Actions of the shard ---- */

void saver_begin(struct saver *s, struct shard_save *save); /* takes it */
void saver_close(struct saver *s);
void saver_abandon(struct saver *s);
void saver_redo(struct saver *s, uint64_t number);

/* After every turn, when its actions have been performed: gives the thread more blocks. */
void saver_turn_ended(struct saver *s);

/* ---- Looking and setting ---- */

void saver_set_rate(struct saver *s, uint64_t rate);

/* About once a second: have the thread check whether the durable directory is still there. It does so after every
 * commit, too. */
void saver_look(struct saver *s);

/* A save or a checkpoint has begun and not ended. */
bool saver_is_busy(const struct saver *s);

/* Only a full save makes pushes durable again, and none runs. */
bool saver_wants_save(struct saver *s);

/* The data on disk is not complete, whether or not the shard has changed since its last save. */
bool saver_lacks_save(struct saver *s);

#endif
