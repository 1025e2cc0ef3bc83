/* What a save takes along of its instant besides blocks: a copy of rows as they are committed, and for a checkpoint
 * where its variables stand. */
#ifndef SERVER_CORE_DURABILITY_SAVE_ROWS_H
#define SERVER_CORE_DURABILITY_SAVE_ROWS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/turn/shard_types.h"

struct job;

/* A shard_save with the rows of the newest commit, the rest left to the caller. job NULL: all that are saved; else
 * those of the job's variables, and dir is where its checkpoint goes. PS_ERR_NOMEM, PS_ERR_IO. */
enum ps_err save_rows_copy(struct shard *s, const struct job *job, const char *dir,
                           struct shard_save **out) PS_MUST_USE;

/* The answer to a checkpoint of this instant, as far as it is known; as many variables as fit a frame. NULL: out of
 * memory. Freed by protobuf-c. */
Psd__CheckpointDone *save_rows_done(struct shard *s, const struct job *job);

#endif
