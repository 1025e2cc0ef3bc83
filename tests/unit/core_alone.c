/* Links every core library whole, and neither libuv nor LMDB: that this program links proves that the core needs none
 * of them. core_is_pure.sh also checks the symbols. */
#include <stdio.h>

#include "client/core/shards/core.h"
#include "common/core/wire/wire.h"
#include "server/core/shard/shard.h"

/* One limit under two names, in folders that do not include each other. */
static_assert(PS_NAME_MAX == WIRE_NAME_MAX && PS_RANK_MAX == WIRE_RANK_MAX, "the API's limits are the protocol's");
static_assert(SHARD_LINK_UNACKED_MAX <= SHARD_UNRESOLVED_MAX, "a client sends no more than a shard takes");

int
main(void)
{
    struct shard *shard = NULL;
    struct core *core = NULL;

    shard_free(shard);
    core_free(core);
    printf("1..1\nok 1 - core_links_without_libuv_and_lmdb\n");
    return 0;
}
