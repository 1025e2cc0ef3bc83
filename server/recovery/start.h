/* From two directories to a shard that can serve.
 *
 *     the durable directory is opened, when there is one
 *     the live directory: is it of this boot, or synced? do the two belong together (pair.h)?
 *
 *         live data         durable data
 *         believed          of the same life      serve the live data: it is the newer
 *         believed          of another life       the live data is an older copy: discard, rebuild
 *         believed          of another pair       refuse: one of the two is not meant
 *         believed          none                  serve it; a whole save makes the durable directory its own
 *         gone, or stale    a save, a redo log    rebuild: the save, then the log over it
 *         gone              none                  an empty shard, which says so; refused when a file that was set
 *                                                 aside (durable_dir.h) may hold a save
 *
 *     the shard loads what is there
 *     the pair is written to both, the live directory is marked as this boot's
 *
 * A rebuild says every second how far it is, and ends when TERM or INT comes; what it has made is discarded by the next
 * start. */
#ifndef SERVER_START_H
#define SERVER_START_H

#include <limits.h>

#include "server/core/shard/shard.h"
#include "server/core/store/store.h"
#include "server/lmdb/store_dir.h"
#include "server/process/options.h"
#include "server/recovery/durable_dir.h"

enum start_data { DATA_NEW, DATA_KEPT, DATA_REBUILT };

struct start {
    const struct options *options; /* borrowed */
    char live_dir[PATH_MAX];
    struct store_dir_report report;
    struct store *store;
    struct shard *shard;
    struct durable_dir durable; /* store NULL: there is none */
    bool whole;                 /* what it holds misses something that the live data has: see saver.h */
    uint64_t redo_to;           /* pieces of the redo log before this one are in the live store */
    enum start_data data;
    bool undone; /* it could not start, and what it had made is gone */
};

static inline bool
start_is_durable(const struct start *s)
{
    return s->durable.store != NULL;
}

/* s: zeroed but for options. On failure one sentence; start_undo() and start_close() are owed in any case. */
enum ps_err start_open(struct start *s, struct ps_error *e) PS_MUST_USE;

/* TERM and INT are heard from then on, until the loop has handlers of its own. PS_ERR_CANCELLED: one came. */
enum ps_err start_stopped(struct ps_error *e) PS_MUST_USE;

/* A psd that could not start leaves no new directories behind. Before start_close(). */
void start_undo(struct start *s);

/* Free the shard, sync what lies on a disk, close. */
void start_close(struct start *s);

/* ---- start_dirs.c: for start.c ---- */

/* Find and open both; what is discarded for the other's sake is. Then s->data is DATA_NEW or DATA_KEPT. */
enum ps_err start_dirs_open(struct start *s, struct ps_error *e) PS_MUST_USE;

/* The data is there: say in both that they belong together. */
enum ps_err start_dirs_join(struct start *s, struct ps_error *e) PS_MUST_USE;

#endif
