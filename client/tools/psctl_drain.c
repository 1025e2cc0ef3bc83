/* psctl drain: stop shards as TERM does, and wait until they have closed. */
#include <stdio.h>
#include <stdlib.h>

#include "psctl.h"

int
psctl_drain(struct psctl *p)
{
    struct question question = {.kind = ASK_DRAIN, .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t shards = ps_cluster_shards(p->cluster);
    uint32_t first = p->settings.all ? 0 : (uint32_t)p->settings.shard, n = p->settings.all ? shards : 1;
    struct answer *answers;
    struct ps_error e;
    int status;

    if (first >= shards) {
        (void)ps_fail(&e, PS_ERR_INVALID, "--shard %u: the cluster's shards are 0 to %u", first, shards - 1);
        return psctl_usage(&e);
    }
    if (ask_shards(p->cluster, first, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    for (uint32_t i = 0; i < n; i++) {
        const struct answer *a = &answers[i];

        page_line(&p->page, a->reached ? PAINT_PLAIN : PAINT_FAULT, "shard %u at %s: %s", a->shard, a->address,
                  a->reached ? "drained" : a->error.text);
    }
    status = psctl_status_of(answers, n);
    answers_free(answers, n);
    return status;
}
