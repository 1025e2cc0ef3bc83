#include "common/core/wire/wire_layout.h"

#include "common/core/optimizer/optimizer.h"
#include "common/core/wire/wire.h"

void
wire_layout(const Psd__Declare *declare, struct layout *out)
{
    struct ps_optimizer optimizer = wire_optimizer(declare->optimizer);
    uint64_t elements;
    enum ps_err err = wire_elements(declare->dims, declare->n_dims, &elements);

    ps_assert(err == PS_OK);
    layout_init(out, elements, optimizer_slots(&optimizer));
}
