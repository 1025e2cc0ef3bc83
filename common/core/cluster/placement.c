/* Blocks to shards, and back. The number of slots in use is a multiple of the number of shards, so "mod slots, then mod
 * shards" is "mod shards", and the blocks of one shard are an arithmetic progression: all questions have closed
 * answers. */
#include "common/core/cluster/placement.h"

#include <string.h>

#define FNV_OFFSET 0xcbf29ce484222325u
#define FNV_PRIME  0x00000100000001b3u

uint64_t
placement_hash(const void *data, size_t len, uint64_t seed)
{
    const uint8_t *bytes = data;
    uint64_t h = FNV_OFFSET ^ seed;

    for (size_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * FNV_PRIME;
    /* FNV's high bits depend little on the last bytes; splitmix64's finisher spreads them. */
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return h ^ (h >> 31);
}

static uint32_t
slots_used(uint32_t shards)
{
    ps_assert(shards >= 1 && shards <= PLACEMENT_SLOTS);
    return PLACEMENT_SLOTS - PLACEMENT_SLOTS % shards;
}

uint32_t
placement_start(const char *job, const char *name, uint32_t shards)
{
    /* The job's hash seeds the name's, so that ("ab", "c") and ("a", "bc") differ. */
    uint64_t h = placement_hash(name, strlen(name), placement_hash(job, strlen(job), 0));

    return (uint32_t)(h % slots_used(shards));
}

uint32_t
placement_shard(uint32_t start, uint64_t block, uint32_t shards)
{
    uint32_t slots = slots_used(shards);
    uint32_t slot = (uint32_t)((start + block % slots) % slots);

    ps_assert(start < slots);
    return slot % shards;
}

/* The first block that falls to a shard. */
static uint32_t
first_block(uint32_t start, uint32_t shard, uint32_t shards)
{
    ps_assert(shards >= 1 && shard < shards);
    return (shard + shards - start % shards) % shards;
}

uint64_t
placement_count(uint32_t start, uint64_t blocks, uint32_t shard, uint32_t shards)
{
    uint64_t first = first_block(start, shard, shards);

    return blocks > first ? (blocks - first - 1) / shards + 1 : 0;
}

uint64_t
placement_nth(uint32_t start, uint32_t shard, uint32_t shards, uint64_t i)
{
    return first_block(start, shard, shards) + i * shards;
}

uint64_t
placement_index(uint32_t start, uint64_t block, uint32_t shards)
{
    (void)start; /* where a shard's progression begins is less than one step, so it does not matter */
    ps_assert(shards >= 1);
    return block / shards;
}
