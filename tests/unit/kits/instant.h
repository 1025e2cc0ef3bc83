/* A copy of what a store holds as its newest commit, to compare with. */
#ifndef TESTS_UNIT_KITS_INSTANT_H
#define TESTS_UNIT_KITS_INSTANT_H

#include "server/core/shard/shard.h"
#include "server/core/store/store.h"

struct instant_block {
    uint32_t var, block;
    size_t size;
    uint8_t *bytes;
};

struct instant {
    struct instant_block *blocks;
    size_t len;
    uint64_t rows; /* hash of jobs, variables, sessions and cursors */
};

/* Blocks of this generation; INSTANT_NEWEST: of both, and where a block has two values, the newer one counts. */
#define INSTANT_NEWEST 255
struct instant instant_of(struct store *store, uint8_t generation);
void instant_free(struct instant *x);

/* NULL when it is not there. */
struct instant_block *instant_find(const struct instant *x, uint32_t var, uint32_t block);

/* Asserts. */
void instant_check_equal(const struct instant *a, const struct instant *b);
void instant_check_rows(const struct instant *x, const struct shard_save *save);

/* Values of blocks in a store, under any key. */
size_t instant_values(struct store *store);

#endif
