/* Bytes of a variable's values, wherever these lie: in a payload, in a block's value in the store, in a checkpoint's
 * tensors, in a worker's buffers. Server, client and checkpoints all use this one definition. Pure.
 *
 * A value is a weight, a slot's element or a gradient's element, as float32. */
#ifndef COMMON_CORE_MODEL_CUT_H
#define COMMON_CORE_MODEL_CUT_H

#include "common/core/base/base.h"
#include "common/core/model/layout.h"

#define CUT_VALUE_BYTES sizeof(float)

static inline uint64_t
cut_bytes(uint64_t values)
{
    return values * CUT_VALUE_BYTES;
}

/* One of a block's arrays: 0 is the weights', 1 ... the slots'. */
struct cut_array {
    size_t in_value;    /* where it begins in the block's value */
    uint64_t in_tensor; /* where in its tensor of a checkpoint */
    size_t bytes;
};
struct cut_array cut_array(const struct layout_block *block, uint32_t array);

#endif
