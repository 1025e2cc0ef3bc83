/* A checkpoint's files, while a shard fills in its blocks: where the saver writes a save with shard_save.checkpoint.
 *
 *     checkpoint_sink_open() ──► for each block: checkpoint_sink_write() ──► checkpoint_sink_end()
 *                  └─────────────────────────────┴── checkpoint_sink_drop(): it is given up
 *
 * The files exist in full size, with their headers, made by the client that asked; other shards fill in theirs at the
 * same time. Blocks lie in whole tensors there, wherever their elements belong. For one thread, which it blocks. */
#ifndef SERVER_SAVER_CHECKPOINT_SINK_H
#define SERVER_SAVER_CHECKPOINT_SINK_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/shard/shard.h"

struct checkpoint_sink;

/* save: with the rows of the job's variables; borrowed until the end. root: NULL, or the directory that the checkpoint
 * must lie below. PS_ERR_INVALID (it does not; or a finished checkpoint is there), PS_ERR_DATA (the files are not a
 * checkpoint's), PS_ERR_IO, PS_ERR_NOMEM. */
enum ps_err checkpoint_sink_open(const struct shard_save *save, const char *root, struct checkpoint_sink **out,
                                 struct ps_error *e) PS_MUST_USE;

/* There is no manifest, so it is still being made: asked again before more is written. PS_ERR_INVALID, PS_ERR_IO. */
enum ps_err checkpoint_sink_wanted(const struct checkpoint_sink *sink, struct ps_error *e) PS_MUST_USE;

/* Write a block's value, which is a copy: the live store's must not be held while the disk writes. *written: bytes; 0
 * for a variable that the files have no place for. PS_ERR_IO, PS_ERR_FULL. */
enum ps_err checkpoint_sink_write(struct checkpoint_sink *sink, const struct store_key *key, struct span value,
                                  size_t *written, struct ps_error *e) PS_MUST_USE;

/* All is on disk. *left_out: variables that the files have no place for. Frees it, also when it fails. PS_ERR_IO,
 * PS_ERR_FULL. */
enum ps_err checkpoint_sink_end(struct checkpoint_sink *sink, uint64_t *left_out, struct ps_error *e) PS_MUST_USE;

void checkpoint_sink_drop(struct checkpoint_sink *sink); /* accepts NULL */

#endif
