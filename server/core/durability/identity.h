/* The identity of a store: a fact that names the cluster and shard of its data, the format, and a random id. The live
 * store and the durable one each have one, under their own names, so that one is never taken for the other. */
#ifndef SERVER_CORE_DURABILITY_IDENTITY_H
#define SERVER_CORE_DURABILITY_IDENTITY_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/store.pb-c.h"
#include "server/core/store/store.h"

#define SHARD_FORMAT         2 /* of a live store; an earlier psd reads it */
#define SHARD_FORMAT_DROPS   3 /* something was dropped: ids and ordinals have gaps */
#define SHARD_FORMAT_ASSIGNS 4 /* a worker gave values, or began to; something may have been dropped as well */

struct shard;

extern const char *const identity_live, *const identity_durable; /* names */

struct identity {
    uint32_t format, newest; /* identity_check(): formats from the one to the other are known; 0: that one */
    const char *cluster;
    uint32_t shard, shards;
    uint64_t id; /* live: the boot of its data; durable: of the environment */
};

/* Within the write transaction. */
enum ps_err identity_put(struct store *store, const char *name, const struct identity *who) PS_MUST_USE;

/* The shard's live store has this format, if not a later one already. Within the turn's write transaction, with room
 * for a row. */
enum ps_err identity_raise(struct shard *s, uint32_t format) PS_MUST_USE;

/* The turn failed: the format is what the store has. */
void identity_reload(struct shard *s);

/* *out NULL: there is none, or an error: as with metadata_rows_get(). Freed by protobuf-c. */
enum ps_err identity_get(struct store *store, const char *name, Psd__ShardRow **out) PS_MUST_USE;

/* PS_ERR_VERSION, PS_ERR_CLUSTER, with a sentence that begins with `what`: "the store". */
enum ps_err identity_check(const Psd__ShardRow *row, const struct identity *wanted, const char *what,
                           struct ps_error *e) PS_MUST_USE;

#endif
