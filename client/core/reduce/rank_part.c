/* How a tensor is dealt to the ranks of a group. */
#include "client/include/psclient/ps_group.h"

#include "common/core/base/base.h"

size_t
ps_group_part(size_t count, uint32_t ranks, uint32_t rank)
{
    return ranks == 0 || rank >= ranks ? 0 : count / ranks + (rank < count % ranks);
}

/* rank == ranks: the end. */
size_t
ps_group_part_offset(size_t count, uint32_t ranks, uint32_t rank)
{
    return ranks == 0 || rank > ranks ? 0 : count / ranks * rank + MIN((size_t)rank, count % ranks);
}
