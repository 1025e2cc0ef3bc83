/* Where values lie follows from the layout; this says it in bytes. */
#include "common/core/model/cut.h"

#include "common/core/optimizer/optimizer.h"
#include "common/core/wire/wire.h"

void
cut_declared(const Psd__Declare *declare, struct layout *out)
{
    struct ps_optimizer optimizer = wire_optimizer(declare->optimizer);
    uint64_t elements;
    enum ps_err err = wire_elements(declare->dims, declare->n_dims, &elements);

    ps_assert(err == PS_OK);
    layout_init(out, elements, optimizer_slots(&optimizer));
}

struct cut_array
cut_array(const struct layout_block *block, uint32_t array)
{
    return (struct cut_array){.in_value = layout_array(block->stride, array),
                              .in_tensor = cut_bytes(block->first),
                              .bytes = cut_bytes(block->len)};
}
