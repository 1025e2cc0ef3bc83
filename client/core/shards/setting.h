/* Sets and drains: what changes a running cluster. Pure.
 *
 * A set goes to every shard in a request of its own, which is sent again after a reconnect: its values are absolute, so
 * twice is as good as once. It is done when all have answered; its error says which shards have changed.
 *
 * A drain has no answer: the shard announces that it stops, and closes. shard_link.c ends the request then. */
#ifndef CLIENT_CORE_SHARDS_SETTING_H
#define CLIENT_CORE_SHARDS_SETTING_H

#include "client/core/shards/op.h"

/* All shards have answered: op->result becomes that of the whole. */
void setting_result(struct core_op *op);

/* "set of job 'train', done on shards 0, 2" */
void setting_describe(const struct core_op *op, char *out, size_t size);

#endif
