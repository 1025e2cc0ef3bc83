/* In three parts: the key, the head but for its last four bytes, the rest. */
#include "server/core/store/value_sum.h"

#include <endian.h>
#include <string.h>

#include "common/core/base/crc32c.h"
#include "common/core/base/mutation.h"

uint32_t
value_sum_parts(const struct store_key *key, const void *head, struct span value)
{
    const uint32_t name[2] = {htole32(key->var), htole32(key->block)};
    uint32_t sum = crc32c(0, name, sizeof name);

    ps_assert(value.len >= STORE_HEAD);
    sum = crc32c(sum, head, VALUE_SUM_AT);
    return crc32c(sum, (const uint8_t *)value.data + STORE_HEAD, value.len - STORE_HEAD);
}

uint32_t
value_sum(const struct store_key *key, struct span value)
{
    return value_sum_parts(key, value.data, value);
}

uint32_t
value_sum_there(struct span value)
{
    uint32_t sum;

    memcpy(&sum, (const uint8_t *)value.data + VALUE_SUM_AT, sizeof sum);
    return le32toh(sum);
}

void
value_sum_put(const struct store_key *key, void *value, size_t len)
{
    uint32_t sum = htole32(value_sum(key, (struct span){value, len}));

    memcpy((uint8_t *)value + VALUE_SUM_AT, &sum, sizeof sum);
}

bool
value_sum_holds(const struct store_key *key, struct span value)
{
    return MUTATION(SUM_NOT_VERIFIED) || (value.len >= STORE_HEAD && value_sum_there(value) == value_sum(key, value));
}
