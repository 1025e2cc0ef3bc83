/* The directory of an environment: created, locked against a second process, and inspected: its filesystem, and how
 * much it may take there. Uses no LMDB. */
#ifndef SERVER_LMDB_STORE_DIR_H
#define SERVER_LMDB_STORE_DIR_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define STORE_DIR_BYTES_MIN (64 * MIB) /* of what a new one may take: a few turns and their free pages */

/* The mark in a live directory (live_dir.h): this file, and the one that is renamed to it. */
#define STORE_DIR_MARK     "boot"
#define STORE_DIR_MARK_NEW "boot.new"

/* All files of a live directory but the lock, in the order in which they are removed: data first, so that a process
 * that is killed in between leaves nothing unmarked. */
#define STORE_DIR_FILES "data.mdb", "lock.mdb", STORE_DIR_MARK_NEW, STORE_DIR_MARK

struct store_dir_report {
    bool on_disk;         /* the directory is not on tmpfs or ramfs: warn */
    char fs_name[32];     /* "tmpfs", "ext4", "0x..." */
    uint64_t free_bytes;  /* of the filesystem, at open */
    bool existed;         /* a data file was there */
    uint64_t limit_bytes; /* the most that the data file may take */
    char limit_why[128];  /* what decided that, for the log */
    uint32_t set_aside;   /* what was there is now data.mdb.bad-N, this is N; 0: nothing was */
};

struct store_dir_options {
    const char *dir;     /* created (0700) when missing; its parent must exist */
    uint64_t max_bytes;  /* of the data file; 0: this shard's part of 80 % of what the filesystem has free now plus what
                          * the file takes, and no more than most_bytes */
    uint64_t most_bytes; /* 0: there is no memory limit */
    uint64_t sharers;    /* shards on this host that share the filesystem, this one as well; 0: not known. Running ones
                          * beside it (store_neighbours.h) count in any case */
    bool durable;        /* as messages call it, and what is there is opened however full the disk is */
    bool set_aside;      /* store_dir_set_aside() a data file that is there */
    bool anyones;        /* it may be another user's: private_dir_check() is left out */
};

struct store_dir {
    const char *use; /* "live", "durable": in messages */
    int lock_fd;     /* holds the flock; -1: none */
    char *data_path; /* "DIR/data.mdb" */
    bool made;       /* the directory was not there */
    bool fresh;      /* it is locked, and held no data */
};

/* Locked by an flock on a file of our own, since LMDB does not refuse a second opener. Errors, each with one sentence:
 * PS_ERR_BUSY (another psd has the directory), PS_ERR_IO (cannot create or write), PS_ERR_FULL (too small: names what
 * is free and what is needed), PS_ERR_CONFIG (private_dir_check()). Ended by store_dir_close(), also after a
 * failure. */
enum ps_err store_dir_open(struct store_dir *d, const struct store_dir_options *o, struct store_dir_report *report,
                           struct ps_error *e) PS_MUST_USE;
void store_dir_close(struct store_dir *d);

/* Only locks a directory that exists, and writes the holder into the lock's file. d: `use` is set, lock_fd is -1.
 * Errors as above. */
enum ps_err store_dir_lock(struct store_dir *d, const char *dir, struct ps_error *e) PS_MUST_USE;

/* Before it is closed: removes what was put into a directory that held no data, the mark too, and the directory, if it
 * was created. For a psd that cannot start; nothing happens to a directory with data, or one that another psd holds. */
void store_dir_undo(const struct store_dir *d);

/* Makes the names in a directory survive power loss, too. False: errno says why. */
bool store_dir_sync(const char *dir);

/* After the data file is created: makes its name, and the directory's in its parent, survive power loss as well.
 * Syncing a file does not promise that. False: errno says why. */
bool store_dir_sync_names(const struct store_dir *d);

/* Rename the data file of a locked directory to data.mdb.bad-N, N one more than the newest such file's; of those the
 * newest STORE_DIR_BAD_KEPT stay. *n: N, 0 when there was no data file. PS_ERR_IO. */
#define STORE_DIR_BAD_KEPT 2
enum ps_err store_dir_set_aside(const struct store_dir *d, uint32_t *n, struct ps_error *e) PS_MUST_USE;

/* The newest file in dir that was set aside: the N of its name; 0: none was. */
uint32_t store_dir_bad(const char *dir);

/* The directory is on tmpfs or ramfs: its content is of this boot. */
bool store_dir_in_memory(const char *dir);

/* Whether fd is still the data file in the directory: it was not unlinked or replaced. */
bool store_dir_holds(const struct store_dir *d, int fd);

#endif
