/* The memory of a shard_save (shard.h), which an action carries: names, and a copy of rows (durability/save_rows.h).
 * shard_save_free() frees it. */
#ifndef SERVER_CORE_TURN_SAVE_COPY_H
#define SERVER_CORE_TURN_SAVE_COPY_H

#include "common/core/base/base.h"
#include "server/core/store/store.h"
#include "server/core/turn/shard_types.h"

struct save_copy_chunk;

struct save_copy {
    struct shard_save base; /* what is handed out */
    struct shard_save_row *rows;
    size_t rows_size;
    struct save_copy_chunk *chunks; /* what the rows point into, the newest first */
    char *dir, *job;
};

/* job, dir: of a checkpoint, copied; or job NULL. NULL: out of memory. */
struct save_copy *save_copy_new(const char *job, const char *dir);

/* One row more, copied. False: out of memory. */
bool save_copy_add(struct save_copy *x, enum store_table table, struct span key, struct span value) PS_MUST_USE;

#endif
