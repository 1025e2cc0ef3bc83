/* The dense kind, on a worker's side: a block is a run of the buffer, as common/core/model/layout.h cuts it. */
#include "client/core/shards/var_kind.h"
#include "client/core/shards/variable.h"
#include "common/core/optimizer/optimizer.h"

static void
var_dense_cut(const struct ps_var_spec *spec, uint64_t elements, struct layout *out)
{
    layout_init(out, elements, optimizer_slots(&spec->optimizer));
}

static void
var_dense_place(const struct core_var *v, uint64_t block, uint64_t *first, uint32_t *len)
{
    struct layout_block b = layout_block(&v->layout, block);

    *first = b.first;
    *len = b.len;
}

const struct var_kind var_dense = {.cut = var_dense_cut, .place = var_dense_place};
