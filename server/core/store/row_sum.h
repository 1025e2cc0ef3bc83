/* Checksums of rows: of facts (metadata_rows.h) in any store, and of all rows of a durable one.
 *
 * A row is a message; the checksum is its last field, a fixed32 of a number that no message uses, so that a psd which
 * does not know it reads the same row. It is CRC-32C of the table's number, the key, and the value before it. Rows that
 * were written before there were checksums have none. */
#ifndef SERVER_CORE_STORE_ROW_SUM_H
#define SERVER_CORE_STORE_ROW_SUM_H

#include "common/core/base/base.h"
#include "server/core/store/store.h"

#define ROW_SUM_BYTES 6 /* the field's number and kind: 2; its value: 4 */

/* Write the field behind a value of `len` bytes that lies at `value`, where there is room for it. Its checksum. */
uint32_t row_sum_append(enum store_table table, struct span key, uint8_t *value, size_t len);

enum row_sum_state { ROW_SUM_NONE, ROW_SUM_HOLDS, ROW_SUM_BROKEN };

/* Whether the row has one, and whether it holds. *value: without it from now on. sum: NULL, or where it goes. */
enum row_sum_state row_sum_take(enum store_table table, struct span key, struct span *value, uint32_t *sum);

#endif
