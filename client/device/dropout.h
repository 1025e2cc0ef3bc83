/* Which elements dropout drops: by seed, counter and the element's index alone, on every device alike. Pure. */
#ifndef CLIENT_DEVICE_DROPOUT_H
#define CLIENT_DEVICE_DROPOUT_H

#include "common/core/model/philox.h"

/* "dropouts" in ASCII: keeps the words apart from those that the same seed gives initializers and samplers. */
#define DROPOUT_KEY 0x64726f706f757473u

/* The words of elements 4 block to 4 block + 3. */
static inline void
dropout_words(uint64_t seed, uint64_t counter, uint64_t block, uint32_t words[4])
{
    uint64_t mixed = seed ^ DROPOUT_KEY;
    const uint32_t key[2] = {(uint32_t)mixed, (uint32_t)(mixed >> 32)};
    const uint32_t at[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)counter, (uint32_t)(counter >> 32)};

    philox_4x32(at, key, words);
}

/* An element is dropped when its word is below this. */
static inline uint32_t
dropout_below(float rate)
{
    return (uint32_t)((double)rate * 0x1p32);
}

#endif
