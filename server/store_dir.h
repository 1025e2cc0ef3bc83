/* The directory of an environment: made, locked against a second process, looked at: which filesystem it is on and how
 * much it may take there. Sees no LMDB. */
#ifndef SERVER_STORE_DIR_H
#define SERVER_STORE_DIR_H

#include "common/base.h"
#include "ps_err.h"

#define STORE_DIR_BYTES_MIN (64 * MIB) /* of what it may take: a few turns and their free pages */

struct store_dir_report {
    bool on_disk;         /* the directory is not on tmpfs or ramfs: warn */
    char fs_name[32];     /* "tmpfs", "ext4", "0x..." */
    uint64_t free_bytes;  /* of the filesystem, at open */
    bool existed;         /* a data file was there */
    uint64_t limit_bytes; /* the most that the data file may take */
};

struct store_dir {
    int lock_fd;     /* holds the flock; -1: none */
    char *data_path; /* "DIR/data.mdb" */
    bool made;       /* the directory was not there */
    bool fresh;      /* it is locked, and held no data */
};

/* dir is created (0700) when missing; its parent must exist. Locked by an flock on a file of our own, since LMDB does
 * not refuse a second opener. max_bytes: of the data file; 0: 80 % of what the filesystem has free now plus what the
 * file already takes. Errors, each with one sentence: PS_ERR_BUSY (another psd has the directory), PS_ERR_IO (cannot
 * create or write), PS_ERR_FULL (too small: names what is free and what is needed). Ended by store_dir_close(), also
 * after a failure. */
enum ps_err store_dir_open(struct store_dir *d, const char *dir, uint64_t max_bytes, struct store_dir_report *report,
                           struct ps_error *e) PS_MUST_USE;
void store_dir_close(struct store_dir *d);

/* Before it is closed: what was put into a directory that held no data goes again, and the directory, if it was not
 * there. For a psd that cannot start; nothing happens to a directory with data, or one that is another's. */
void store_dir_undo(const struct store_dir *d);

/* Whether fd is still the data file in the directory: nobody unlinked or replaced it. */
bool store_dir_holds(const struct store_dir *d, int fd);

#endif
