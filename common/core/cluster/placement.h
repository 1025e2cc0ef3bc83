/* Which shard holds a block: a pure function of cluster size, job, variable name and block number. Pure.
 *
 * A block falls into one of PLACEMENT_SLOTS slots and a slot belongs to a shard; moving a slot later moves its blocks.
 * For S shards the first L = PLACEMENT_SLOTS - PLACEMENT_SLOTS % S slots are used, slot(block) = (hash(job, name) +
 * block) mod L, and the first table is shard(slot) = slot mod S. Consecutive blocks so go round the shards: any
 * variable is within one block of even, and the start of each is drawn evenly, so totals are even in expectation. */
#ifndef COMMON_CORE_CLUSTER_PLACEMENT_H
#define COMMON_CORE_CLUSTER_PLACEMENT_H

#include "common/core/base/base.h"

#define PLACEMENT_SLOTS 65536

/* job and name are terminated strings. */
uint32_t placement_start(const char *job, const char *name, uint32_t shards);

uint32_t placement_shard(uint32_t start, uint64_t block, uint32_t shards);

/* How many of a variable's `blocks` blocks shard holds, and the i-th of them (0 <= i < count), in rising order. */
uint64_t placement_count(uint32_t start, uint64_t blocks, uint32_t shard, uint32_t shards);
uint64_t placement_nth(uint32_t start, uint32_t shard, uint32_t shards, uint64_t i);

/* The index i of a block among those of its shard. */
uint64_t placement_index(uint32_t start, uint64_t block, uint32_t shards);

/* 64-bit hash of bytes (FNV-1a, finished as in splitmix64); the same on every machine. */
uint64_t placement_hash(const void *data, size_t len, uint64_t seed);

#endif
