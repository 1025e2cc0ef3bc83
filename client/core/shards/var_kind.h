/* A kind of variable as a worker sees it: what server/core/model/kind.h is to a shard, as far as it takes two to agree.
 *
 * Which shard a block lies on, its version and its id there are the same for all kinds (variable.h): blocks are
 * numbered below core_var->layout.blocks and placed by number. How a definition is cut, and which part of a worker's
 * buffer a block is, are the kind's. A kind is constant and owns nothing. */
#ifndef CLIENT_CORE_SHARDS_VAR_KIND_H
#define CLIENT_CORE_SHARDS_VAR_KIND_H

#include "common/core/base/base.h"
#include "common/core/model/layout.h"

struct core_var;
struct ps_var_spec;

struct var_kind {
    /* The cut of a definition that was checked, the same as a shard's. */
    void (*cut)(const struct ps_var_spec *spec, uint64_t elements, struct layout *out);

    /* Where a block lies in a worker's buffer: its first value, and how many. */
    void (*place)(const struct core_var *v, uint64_t block, uint64_t *first, uint32_t *len);
};

/* A run of the variable's elements. */
extern const struct var_kind var_dense;

#endif
