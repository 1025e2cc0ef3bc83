/* psctl drain: stop shards as TERM does, and wait until they have closed. */
#include <stdio.h>

#include "client/tools/psctl/psctl.h"

static void
say_drained(const struct psctl *p, const struct answer *a, char *out, size_t size)
{
    (void)p;
    (void)a;
    snprintf(out, size, "drained");
}

int
psctl_drain(struct psctl *p)
{
    return psctl_tell(p, ASK_DRAIN, say_drained);
}
