/* The store in LMDB, in two modes.
 *
 * Live: LMDB's map is the memory of the shard, not a copy of it on disk. Opened MDB_WRITEMAP | MDB_NOSYNC | MDB_NOTLS
 * in a directory that should be RAM-backed (store_dir.h); fallocate runs ahead of LMDB's last page, so that a full
 * tmpfs is an error and not SIGBUS.
 *
 * Durable: LMDB's default mode on a disk: what is committed is synced and survives power loss. Differences for its
 * callers:
 *   - commit() waits for the disk. PS_ERR_FULL: no space; the transaction is aborted, all else is as before, and it may
 *     be tried again. PS_ERR_IO: the disk failed. After a failed sync the disk may differ from the page cache, so the
 *     environment is untrusted from then on: every begin() returns PS_ERR_IO, reads may, and whether the failed
 *     transaction is there when it is opened again is not known. Close it, set it aside, write all into a new one.
 *   - A place from reserve(), and get() of a block that this transaction reserved, are heap memory aligned to 16 bytes
 *     only. All else that is read lies in the map, as in the live mode: weights on 64 bytes.
 *
 * Either may be handed to another thread as a whole, between transactions; only readers (store.h) are for a second one
 * at the same time. */
#ifndef SERVER_LMDB_STORE_LMDB_H
#define SERVER_LMDB_STORE_LMDB_H

#include "server/core/store/store.h"
#include "server/lmdb/store_dir.h"

/* Of a durable file, unless more is said: this, or four times the machine's memory, which holds two saves and a redo
 * log of whatever a live store can be. Address space only: usually the disk is full first. (A terabyte would be
 * simpler; thread sanitizers have no address space for it.) */
#define STORE_LMDB_DURABLE_MIN (64 * GIB)

struct store_lmdb_options {
    const char *dir;    /* created (0700) when missing; its parent must exist */
    uint64_t max_bytes; /* of the data file. 0: as for store_dir_open(); durable: see STORE_LMDB_DURABLE_MIN */
    uint64_t most_bytes, sharers; /* as for store_dir_open() */
    uint32_t readers_max;         /* 0: 4096 */
    bool durable;
    bool set_aside; /* first rename the data file that is there, as store_dir_set_aside(): it is not trusted */
    bool anyones;   /* as for store_dir_open() */

    /* Called with the directory locked, before a data file is made in it; NULL: nothing is. An error ends the opening.
     */
    enum ps_err (*before_new)(void *arg, const char *dir, struct ps_error *e);
    void *before_new_arg;
};

/* Errors, each with one sentence: PS_ERR_BUSY (another psd has the directory), PS_ERR_IO (cannot create or write; a
 * data file that was cut short), PS_ERR_FULL (too small: names what is free and what is needed), PS_ERR_VERSION (an
 * unknown format), PS_ERR_UNSUPPORTED (pages of another size), PS_ERR_CONFIG (private_dir_check()). */
enum ps_err store_lmdb_open(const struct store_lmdb_options *o, struct store **out, struct store_dir_report *report,
                            struct ps_error *e) PS_MUST_USE;

/* Before it is closed, as store_dir_undo(): for a psd that opened it and cannot start. A failed open has done it. */
void store_lmdb_undo(struct store *s);

/* Whether the environment's file is still the one in the directory (it was not unlinked or replaced). */
bool store_lmdb_still_there(struct store *s);

/* Write all to the filesystem's disk, for a clean stop of the live mode on a directory that is on disk. */
enum ps_err store_lmdb_sync(struct store *s) PS_MUST_USE;

/* Durable: a sync failed, see above. */
bool store_lmdb_untrusted(struct store *s);

/* The last error of begin, reserve, commit or fetch, as a sentence for a log; "" when there was none. */
const char *store_lmdb_why(struct store *s);

#endif
