/* Rows that are messages: how jobs and variables are written to the store and what they are loaded through. */
#ifndef SERVER_CORE_TURN_ROW_H
#define SERVER_CORE_TURN_ROW_H

#include <protobuf-c/protobuf-c.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"

struct shard;

/* Where a row goes: to the store (row_to_store()), or to the redo log. */
typedef enum ps_err (*row_sink)(struct shard *s, enum store_table table, struct span key, struct span value);
enum ps_err row_to_store(struct shard *s, enum store_table table, struct span key, struct span value) PS_MUST_USE;

/* Write a message under an id. */
enum ps_err row_put(struct shard *s, enum store_table table, uint32_t id, const ProtobufCMessage *m,
                    row_sink sink) PS_MUST_USE;

/* The id that a row was written under; 0 when the key is not one. */
uint32_t row_id(struct span key);

/* State of an iteration over the store that loads rows: the first error ends it. */
struct row_load {
    struct shard *s;
    struct ps_error *e;
    enum ps_err err;
};

/* False, for the iteration to stop: "no memory to load job 3", "the store's row of job 3 is damaged". */
bool row_load_stop(struct row_load *l, enum ps_err err, const char *what, uint32_t id);

#endif
