/* Checksums of values in a durable store: blocks, and pieces of the redo log.
 *
 * Both begin with a head of 48 bytes whose last four hold the checksum, CRC-32C of the value's key and of all its other
 * bytes; the head says elsewhere whether there is one (block_head's `flags`, redo_head's `format`). The key's
 * generation is not in it: the same block may lie under either.
 *
 * Values of the live store have none: they change at each push. */
#ifndef SERVER_CORE_STORE_VALUE_SUM_H
#define SERVER_CORE_STORE_VALUE_SUM_H

#include "common/core/base/base.h"
#include "server/core/store/store.h"

#define VALUE_SUM_AT (STORE_HEAD - sizeof(uint32_t)) /* where it lies in the value */

/* Of the value; what lies at VALUE_SUM_AT does not count. */
uint32_t value_sum(const struct store_key *key, struct span value);

/* The same of a value whose head is to be another. */
uint32_t value_sum_parts(const struct store_key *key, const void *head, struct span value);

/* The one that it carries. */
uint32_t value_sum_there(struct span value);

/* Write it into the value. */
void value_sum_put(const struct store_key *key, void *value, size_t len);

/* It is the one that the value carries. */
bool value_sum_holds(const struct store_key *key, struct span value);

#endif
