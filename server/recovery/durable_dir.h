/* The durable directory: opens and checks the environment in it, and replaces it when its disk fails.
 *
 * After a failed sync it is unknown which of its pages are on the disk, whatever a later sync reports (the kernel drops
 * the error together with the pages). So that file is never written again: it is renamed and kept for inspection, and a
 * new one takes its place, which a full save fills.
 *
 * See Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020. */
#ifndef SERVER_RECOVERY_DURABLE_DIR_H
#define SERVER_RECOVERY_DURABLE_DIR_H

#include <limits.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/durability/durable.h"
#include "server/recovery/env_pair.h"

struct durable_dir {
    char path[PATH_MAX];
    const char *cluster; /* borrowed, or that in `durable` */
    uint32_t shard, shards;
    struct store *store; /* NULL: not open */
    struct durable durable;
    struct env_pair pair; /* as stored in its row; zeros in a new one */
    bool in_memory;       /* it is on tmpfs, and will not outlive a reboot */
    uint32_t aside;       /* N of data.mdb.bad-N, when a file was set aside; 0: none was */
};

/* $STATE_DIRECTORY, which systemd sets; false when it is not set. */
bool durable_dir_default(char *out, size_t size);

/* Open the environment in path, which is made (0700) when it is missing, and its parent is there. set_aside: rename the
 * file that is there first, and begin a new one; d->aside is then its name. Errors, each with one sentence that says
 * what may be done about it: PS_ERR_BUSY, PS_ERR_CLUSTER, PS_ERR_VERSION, PS_ERR_FULL, PS_ERR_IO. */
enum ps_err durable_dir_open(struct durable_dir *d, bool set_aside, struct ps_error *e) PS_MUST_USE;
void durable_dir_close(struct durable_dir *d);

/* Open an existing one, of any cluster: all fields are filled in. It must not be open elsewhere. PS_ERR_NOT_FOUND when
 * there is none, and as above. */
enum ps_err durable_dir_open_there(struct durable_dir *d, const char *path, struct ps_error *e) PS_MUST_USE;

/* The open environment's file is still the one in the directory: it was not removed or replaced. */
bool durable_dir_still_there(const struct durable_dir *d);

/* There is a save or a redo log in it. */
bool durable_dir_holds(const struct durable_dir *d);

#endif
