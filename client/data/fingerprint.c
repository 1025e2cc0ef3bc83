#include "client/data/fingerprint.h"

#include <string.h>

#define LANES 4

/* splitmix64's end (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t
fingerprint_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t
fingerprint_number(uint64_t before, uint64_t number)
{
    return fingerprint_mix((before + 0x9e3779b97f4a7c15u) ^ fingerprint_mix(number));
}

uint64_t
fingerprint_add(uint64_t before, const void *data, size_t bytes)
{
    uint64_t lane[LANES] = {1, 2, 3, 4}, word;
    const unsigned char *at = data;
    size_t i = 0;

    for (; i + sizeof lane <= bytes; i += sizeof lane)
        for (size_t k = 0; k < LANES; k++) {
            memcpy(&word, at + i + k * sizeof word, sizeof word);
            lane[k] = (lane[k] ^ word) * 0x9fb21c651e98df25u;
            lane[k] ^= lane[k] >> 32;
        }
    for (; i < bytes; i++)
        lane[0] = (lane[0] ^ at[i]) * 0x100000001b3u;
    for (size_t k = 0; k < LANES; k++)
        before = fingerprint_number(before, lane[k]);
    return fingerprint_number(before, bytes);
}
