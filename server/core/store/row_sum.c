/* The field's number is 500: see store.proto. */
#include "server/core/store/row_sum.h"

#include <endian.h>
#include <string.h>

#include "common/core/base/crc32c.h"
#include "common/core/base/mutation.h"

static const uint8_t row_sum_tag[] = {0xa5, 0x1f}; /* 500, fixed32 */
static_assert(sizeof row_sum_tag + sizeof(uint32_t) == ROW_SUM_BYTES, "a field is its tag and its value");

static uint32_t
row_sum(enum store_table table, struct span key, struct span value)
{
    uint8_t name = (uint8_t)table;
    uint32_t sum = crc32c(0, &name, sizeof name);

    sum = crc32c(sum, key.data, key.len);
    return crc32c(sum, value.data, value.len);
}

uint32_t
row_sum_append(enum store_table table, struct span key, uint8_t *value, size_t len)
{
    uint32_t sum = row_sum(table, key, (struct span){value, len}), bytes = htole32(sum);

    memcpy(value + len, row_sum_tag, sizeof row_sum_tag);
    memcpy(value + len + sizeof row_sum_tag, &bytes, sizeof bytes);
    return sum;
}

enum row_sum_state
row_sum_take(enum store_table table, struct span key, struct span *value, uint32_t *sum)
{
    const uint8_t *at;
    uint32_t there;

    if (value->len < ROW_SUM_BYTES)
        return ROW_SUM_NONE;
    at = (const uint8_t *)value->data + value->len - ROW_SUM_BYTES;
    if (memcmp(at, row_sum_tag, sizeof row_sum_tag) != 0)
        return ROW_SUM_NONE;
    memcpy(&there, at + sizeof row_sum_tag, sizeof there);
    value->len -= ROW_SUM_BYTES;
    if (sum != NULL)
        *sum = le32toh(there);
    return le32toh(there) == row_sum(table, key, *value) || MUTATION(SUM_NOT_VERIFIED) ? ROW_SUM_HOLDS : ROW_SUM_BROKEN;
}
