/* psctl drain: stop shards as TERM does, and wait until they have closed. */
#include <stdio.h>

#include "client/tools/psctl/psctl.h"

static void
print_drained(const struct psctl *p, const struct shard_answer *a, char *out, size_t size)
{
    (void)p;
    (void)a;
    snprintf(out, size, "drained");
}

int
psctl_drain(struct psctl *p)
{
    return psctl_print_error(p, QUERY_DRAIN, print_drained);
}
