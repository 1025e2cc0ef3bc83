/* Means of integers: the caller's elements are split into parts (mean_parts.h), which lie in memory of the work's own
 * and are added up there in place; the caller's memory is read when the work begins and written when it ends well. */
#include <stdlib.h>

#include "client/core/group/group_internal.h"
#include "client/core/reduce/mean_parts.h"

bool
group_mean_has_parts(const struct group_core *c, const struct group_request *ask)
{
    bool reduces = ask->op == PLAN_ALL_REDUCE || ask->op == PLAN_REDUCE_SCATTER || ask->op == PLAN_REDUCE;

    return reduces && ask->reduce == PS_MEAN && c->config.ranks > 1 && mean_parts_needed(ask->dtype);
}

bool
group_mean_begin(struct group_work *w, const struct group_request *ask)
{
    uint32_t ranks = w->core->config.ranks, rank = w->core->config.rank;
    bool scatters = ask->op == PLAN_REDUCE_SCATTER;

    w->mean.parts = aligned_alloc(64, round_up(MAX(ask->count * w->size, (size_t)1), 64));
    if (w->mean.parts == NULL)
        return false;
    w->mean.out = ask->out;
    w->mean.at = scatters ? ps_group_part_offset(ask->count, ranks, rank) : 0;
    w->mean.len = scatters                                      ? ps_group_part(ask->count, ranks, rank)
                  : ask->op == PLAN_REDUCE && rank != ask->root ? 0
                                                                : ask->count;
    mean_parts_split(w->dtype, ask->count, ranks, ask->in, w->mean.parts);
    w->buffer[PLAN_IN] = w->mean.parts;
    w->buffer[PLAN_OUT] = (uint8_t *)w->mean.parts + w->mean.at * w->size;
    return true;
}

void
group_mean_end(struct group_work *w)
{
    if (w->mean.parts != NULL)
        mean_parts_join(w->dtype, w->mean.len, w->core->config.ranks, (uint8_t *)w->mean.parts + w->mean.at * w->size,
                        w->mean.out);
}
