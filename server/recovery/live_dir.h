/* The live directory around its environment: its default place, and whether the data in it is valid.
 *
 * The environment is written without syncs, so what it holds is whole only in the boot of the machine that wrote it (or
 * after a clean stop that synced it). A file "boot" in the directory records which boot that was, and whether the
 * environment is being made: it is there before the environment is, so that whatever a killed start leaves has a mark.
 * Where the kernel's id of the boot cannot be read, only data in memory is taken as valid, since that is of this
 * boot. */
#ifndef SERVER_RECOVERY_LIVE_DIR_H
#define SERVER_RECOVERY_LIVE_DIR_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* $RUNTIME_DIRECTORY/live, else /dev/shm/psd-UID/CLUSTER-SHARD; parents are made (0700, and must be this user's:
 * /dev/shm is open to all). PS_ERR_IO. */
enum ps_err live_dir_default(const char *cluster, uint64_t shard, char *out, size_t size,
                             struct ps_error *e) PS_MUST_USE;

/* Before the environment is opened: refuse a directory with files that is not marked as a psd's (an empty filesystem's
 * lost+found is no file); also refuse data that another boot left unsynced, or that a rebuild left half done, or remove
 * it when `discard` (*discarded: it was). What a start left that had nothing to keep is removed in any case. PS_ERR_IO,
 * PS_ERR_BUSY, PS_ERR_CONFIG (private_dir_check()). A directory that does not exist is fine. */
enum ps_err live_dir_check(const char *dir, bool discard, bool *discarded, struct ps_error *e) PS_MUST_USE;

enum live_dir_state {
    LIVE_DIR_MAKING, /* from a durable one; not valid until it is LIVE_DIR_OPEN */
    LIVE_DIR_EMPTY,  /* with no data; the same */
    LIVE_DIR_OPEN,   /* this boot writes here */
    LIVE_DIR_SYNCED  /* after the last sync: good in any boot */
};

/* The kernel's file; tests name another. */
extern const char *live_dir_boot_id;

/* LIVE_DIR_MAKING and LIVE_DIR_EMPTY: before there is a data file. The others: after it is opened. */
enum ps_err live_dir_mark(const char *dir, enum live_dir_state state, struct ps_error *e) PS_MUST_USE;

/* Remove the environment and the mark: it is not open. PS_ERR_BUSY: another psd has it. PS_ERR_IO, PS_ERR_FULL. */
enum ps_err live_dir_discard(const char *dir, struct ps_error *e) PS_MUST_USE;

#endif
