/* Random numbers by their index, not in sequence: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011) turns a counter and a key into four words. It has no state, so any element's
 * number can be computed without the others', in any order. In a header, so that loops over counters compute several at
 * once. */
#ifndef COMMON_CORE_MODEL_PHILOX_H
#define COMMON_CORE_MODEL_PHILOX_H

#include <stdint.h>

static inline void
philox_4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xd2511f53u;
        uint64_t p1 = (uint64_t)c2 * 0xcd9e8d57u;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u; /* the golden ratio, and sqrt(3) - 1: Weyl sequences of keys */
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
