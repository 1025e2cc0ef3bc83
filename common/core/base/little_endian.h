/* Numbers on the wire: little-endian, of 1 to 8 bytes, at any address. */
#ifndef COMMON_CORE_BASE_LITTLE_ENDIAN_H
#define COMMON_CORE_BASE_LITTLE_ENDIAN_H

#include <stdint.h>

static inline void
put_le(uint8_t *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t
get_le(const uint8_t *in, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

#endif
