/* A checkpoint's files as the source of a restore (shard.h). Glue: reads the disk when the shard asks. */
#ifndef SERVER_RECOVERY_RESTORE_OPEN_H
#define SERVER_RECOVERY_RESTORE_OPEN_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "common/system/checkpoint_dir.h"
#include "server/core/shard/shard.h"

/* Open it, and compare its files' headers with the manifest. job: NULL or "" for the checkpoint's own. root: as for
 * checkpoint_dir_open(). PS_ERR_DATA, PS_ERR_IO, PS_ERR_INVALID, PS_ERR_VERSION, PS_ERR_NOMEM. *out is the shard's with
 * SHARD_RESTORE, or ended by its close(). */
enum ps_err restore_open(const char *dir, const char *job, const char *root, uint64_t boot, struct shard_restore **out,
                         struct ps_error *e) PS_MUST_USE;

/* Compare its bytes with their checksums: that takes a while, and may be done on another thread. PS_ERR_DATA,
 * PS_ERR_IO, PS_ERR_NOMEM, or the error of patience's callback. */
enum ps_err restore_verify(struct shard_restore *r, const struct checkpoint_patience *patience,
                           struct ps_error *e) PS_MUST_USE;
enum ps_err restore_stamps(struct shard_restore *r, struct checkpoint_stamps *out, struct ps_error *e) PS_MUST_USE;

#endif
