/* Ordinals: places of blocks in an order that all variables of a shard share. The bits by which a worker's steps say
 * which blocks have counted them (sessions/data_steps.h) lie by ordinal, in rows; so a variable keeps its ordinals for
 * as long as it lives, whatever is declared or dropped around it, and its row says which they are. Those of dropped
 * variables are given again.
 *
 *     0 ... taken ... | free | ... taken ... | free | ... taken ... end | free without end
 *
 * Pure. */
#ifndef SERVER_CORE_MODEL_ORDINALS_H
#define SERVER_CORE_MODEL_ORDINALS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define ORDINALS_MAX (UINT64_C(1) << 48)

struct ordinals_range {
    uint64_t first, len;
};

struct ordinals {
    struct ordinals_range *holes; /* [holes_len], in rising order: free, before end; no two touch */
    size_t holes_len, holes_size;
    uint64_t end; /* past the last that is taken */
};

/* Take n that follow each other; the first of them. */
uint64_t ordinals_take(struct ordinals *o, uint64_t n);

/* Take these. PS_ERR_IO: they are not free; PS_ERR_NOMEM. */
enum ps_err ordinals_take_at(struct ordinals *o, uint64_t first, uint64_t n) PS_MUST_USE;

/* They are free again. (Without memory they are not given again before the shard loads its data again.) */
void ordinals_give(struct ordinals *o, uint64_t first, uint64_t n);

void ordinals_finish(struct ordinals *o); /* accepts a zeroed one */

#endif
