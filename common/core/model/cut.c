/* The places of values follow from the layout; here they are in bytes. */
#include "common/core/model/cut.h"

struct cut_array
cut_array(const struct layout_block *block, uint32_t array)
{
    return (struct cut_array){.in_value = layout_array(block->stride, array),
                              .in_tensor = cut_bytes(block->first),
                              .bytes = cut_bytes(block->len)};
}
