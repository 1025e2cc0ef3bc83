/* How a variable is cut into blocks, and how a block's value lies in the store. Pure.
 *
 * LMDB wants few sizes: a value with its 16-byte page header fills exactly 1, 17 or 65 pages of 4 KiB. A value is
 *
 *     struct block_head (48 bytes) | weights | slot 0 | slot 1 ...
 *
 * and a value in overflow pages starts 16 bytes into a page, so weights lie on a 64-byte boundary; every array in a
 * block is `stride` floats long, a multiple of 16, so slots do as well. An optimizer with more slots has fewer weights
 * in a block, not a larger value. A variable is cut into as many of the largest blocks as fit, then the next size, then
 * the smallest.
 *
 * The largest is of the size at which a gradient, the block that it meets and the one that is written stay in a core's
 * second cache together, and a block still costs little beside its bytes: with blocks of 1 MiB a push took 1.4 times as
 * long, each of the three being read from further away. */
#ifndef COMMON_CORE_MODEL_LAYOUT_H
#define COMMON_CORE_MODEL_LAYOUT_H

#include "common/core/base/base.h"

#define LAYOUT_PAGE      4096
#define LAYOUT_PAGE_HEAD 16 /* LMDB's header at the start of an overflow run */
#define LAYOUT_CLASSES   3
#define LAYOUT_PAGES_MAX 65 /* of a block of the largest class */
#define LAYOUT_SLOTS_MAX 3
#define LAYOUT_ALIGN     64
#define LAYOUT_FORMAT    1

/* Starts every block value. Little-endian, 48 bytes. */
struct block_head {
    uint64_t version; /* updates taken */
    uint64_t clock;   /* sync: the clock that the next update belongs to; other modes: 0 */
    uint32_t var;
    uint32_t block;
    uint32_t len;         /* weights in this block */
    uint16_t slots;       /* arrays after the weights */
    uint16_t format;      /* LAYOUT_FORMAT */
    uint64_t assign : 62; /* number of the newest assign of the job that is in it; 0: none is */
    uint64_t given : 1;   /* a variable whose first values workers give: these have been given */
    uint64_t summed : 1;  /* in a durable store: sum is a checksum (value_sum.h); else it is 0 */
    float rate; /* of a value that waits (server/core/model/staged.h): the learning rate when it came; else 0 */
    uint32_t sum;
};

static_assert(sizeof(struct block_head) == 48, "weights must start on a 64-byte boundary");

/* Bytes of a value of class 0 (1 page), 1 (17 pages), 2 (65 pages). */
size_t layout_value_size(int size_class);
bool layout_is_value_size(size_t size);

/* Most weights that a block of this class holds: a multiple of 16; 262,144 / 65,536 / 4,032 bytes of arrays for the
 * three classes. */
uint32_t layout_capacity(int size_class, uint32_t slots);

/* The cut of one variable. */
struct layout {
    uint64_t elements;              /* 1 to WIRE_ELEMENTS_MAX */
    uint32_t slots;                 /* arrays besides the weights, at most LAYOUT_SLOTS_MAX */
    uint64_t count[LAYOUT_CLASSES]; /* blocks of each class */
    uint64_t blocks;                /* their sum */
};

void layout_init(struct layout *l, uint64_t elements, uint32_t slots);

/* Blocks are numbered from 0: class 2 first, then 1, then 0. first: index of the block's first element. */
struct layout_block {
    uint64_t first;
    uint32_t len;    /* weights in it: the capacity, less in the last block */
    uint32_t stride; /* floats from one array to the next, len rounded up to 16 */
    int size_class;
};
struct layout_block layout_block(const struct layout *l, uint64_t block);

/* Byte offset of array i (0: weights, 1...: slots) in a value whose stride is given. */
static inline size_t
layout_array(uint32_t stride, uint32_t i)
{
    return sizeof(struct block_head) + (size_t)i * stride * sizeof(float);
}

#endif
