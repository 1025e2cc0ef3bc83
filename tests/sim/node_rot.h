/* Bits that flip on a simulated disk while the power is off. A start over the durable store with one of its bits
 * flipped must make the same live store as a start over the whole one, bit by bit, or be refused with a sentence.
 *
 * Each start is made aside, over stores of its own, and the bit flips back: the run goes on as if nothing had been. */
#ifndef TESTS_SIM_NODE_ROT_H
#define TESTS_SIM_NODE_ROT_H

#include "common/core/base/base.h"

struct node_shard;

struct node_rot {
    bool on;         /* bits flip in this run */
    uint64_t random; /* its own stream, so that runs without it stay the same */
    uint64_t flips, refused, mended;
};

/* Of each shard, before the run. */
void node_rot_init(struct node_rot *r, uint64_t seed, uint32_t shard);

/* The power came back, and the shard is about to start from its durable store. */
void node_rot_try(struct node_shard *n);

#endif
