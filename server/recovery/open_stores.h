/* From two directories to a shard that can serve.
 *
 *     the durable directory is opened, when there is one
 *     the live directory: is it of this boot, or synced? do the two belong together (env_pair.h)?
 *
 *         live data         durable data
 *         valid             of the same life      serve the live data: it is the newer
 *         valid             of another life       the live data is an older copy: discard, rebuild
 *         valid             of another pair       refuse: one of the two is not meant
 *         valid             none                  serve it; a full save makes the durable directory its own
 *         gone, or stale    a save, a redo log    rebuild: the save, then the log over it
 *         gone              none                  an empty shard, which is logged; refused when a file that was set
 *                                                 aside (durable_dir.h) may hold a save
 *
 *     the shard loads what is there
 *     the pair is written to both, the live directory is marked as this boot's
 *
 * A rebuild reports its progress every second, and ends when TERM or INT comes; what it has made is discarded by the
 * next start. */
#ifndef SERVER_RECOVERY_OPEN_STORES_H
#define SERVER_RECOVERY_OPEN_STORES_H

#include <limits.h>

#include "server/core/shard/shard.h"
#include "server/core/store/store.h"
#include "server/lmdb/store_dir.h"
#include "server/process/options.h"
#include "server/recovery/durable_dir.h"

enum open_stores_data { DATA_NEW, DATA_KEPT, DATA_REBUILT };

struct open_stores {
    const struct options *options; /* borrowed */
    char live_dir[PATH_MAX];
    struct store_dir_report report;
    struct store *store;
    struct shard *shard;
    struct durable_dir durable; /* store NULL: there is none */
    bool needs_full_save;       /* what it holds misses something that the live data has: see saver.h */
    uint64_t redo_to;           /* pieces of the redo log before this one are in the live store */
    enum open_stores_data data;
    bool undone; /* it could not start, and what it had made is gone */
};

static inline bool
open_stores_is_durable(const struct open_stores *s)
{
    return s->durable.store != NULL;
}

/* s: zeroed but for options. On failure one sentence; open_stores_undo() and open_stores_close() are owed in any case.
 */
enum ps_err open_stores_begin(struct open_stores *s, struct ps_error *e) PS_MUST_USE;

/* TERM and INT are caught from then on, until the loop has handlers of its own. PS_ERR_CANCELLED: one came. */
enum ps_err open_stores_stopped(struct ps_error *e) PS_MUST_USE;

/* A psd that could not start leaves no new directories behind. Before open_stores_close(). */
void open_stores_undo(struct open_stores *s);

/* Free the shard, sync what lies on a disk, close. */
void open_stores_close(struct open_stores *s);

/* ---- open_stores_dirs.c: for open_stores.c ---- */

/* Find and open both; an outdated one is discarded for the other. Then s->data is DATA_NEW or DATA_KEPT. */
enum ps_err open_stores_dirs(struct open_stores *s, struct ps_error *e) PS_MUST_USE;

/* The data is there: record in both that they belong together. */
enum ps_err open_stores_join(struct open_stores *s, struct ps_error *e) PS_MUST_USE;

#endif
