/* The live environment: LMDB's map as the memory of the shard, not a copy of it on disk. store_lmdb.c is the one file
 * that sees lmdb.h.
 *
 * Opened MDB_WRITEMAP | MDB_NOSYNC | MDB_NOTLS in a directory that should be RAM-backed (store_dir.h). fallocate runs
 * ahead of LMDB's last page, so that a full tmpfs is an error and not SIGBUS. */
#ifndef SERVER_STORE_LMDB_H
#define SERVER_STORE_LMDB_H

#include "store.h"
#include "store_dir.h"

struct store_lmdb_options {
    const char *dir;      /* created (0700) when missing; its parent must exist */
    uint64_t max_bytes;   /* as for store_dir_open() */
    uint32_t readers_max; /* 0: 4096 */
};

/* Errors, each with one sentence: PS_ERR_BUSY (another psd has the directory), PS_ERR_IO (cannot create or write),
 * PS_ERR_FULL (too small: names what is free and what is needed), PS_ERR_VERSION (a format that is not ours). */
enum ps_err store_lmdb_open(const struct store_lmdb_options *o, struct store **out, struct store_dir_report *report,
                            struct ps_error *e) PS_MUST_USE;

/* Before it is closed, as store_dir_undo(): for a psd that opened it and cannot start. A failed open has done it. */
void store_lmdb_undo(struct store *s);

/* Whether the environment's file is still the one in the directory (nobody unlinked or replaced it). */
bool store_lmdb_still_there(struct store *s);

/* Write all to the filesystem's disk, for a clean stop on a directory that is on disk. */
enum ps_err store_lmdb_sync(struct store *s) PS_MUST_USE;

#endif
