/* What a save takes along of its instant besides blocks: a copy of rows as they are committed, and for a checkpoint
 * where its variables stand. */
#ifndef SERVER_CORE_DURABILITY_SAVE_ROWS_H
#define SERVER_CORE_DURABILITY_SAVE_ROWS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/turn/shard_types.h"

struct job;
struct variable;

/* A shard_save with the rows of the newest commit but those of variables, which follow; the rest is left to the caller.
 * job: of a checkpoint, which has those of its variables alone, and dir is where it goes; NULL: of a save.
 * PS_ERR_NOMEM, PS_ERR_IO. */
struct save_copy;
enum ps_err save_rows_copy(struct shard *s, const struct job *job, const char *dir, struct save_copy **out) PS_MUST_USE;

/* The row that a variable had at the instant of the save that runs, into s->save.copy. PS_ERR_NOMEM. */
enum ps_err save_rows_add(struct shard *s, const struct variable *v) PS_MUST_USE;

/* The answer to a checkpoint of this instant, as far as it is known; as many variables as fit a frame. NULL: out of
 * memory. Freed by protobuf-c. */
Psd__CheckpointDone *save_rows_done(struct shard *s, const struct job *job);

#endif
