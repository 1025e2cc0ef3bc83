/* A job that was named on the command line: a question about one that no shard knows has no answer, not an empty one.
 */
#include <stdlib.h>

#include "psctl.h"
#include "views/members.h"

int
psctl_know_job(const struct psctl *p)
{
    struct question question = {
        .queries = ASK_BIT(PS_QUERY_JOBS), .job = p->settings.job, .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t n = ps_cluster_shards(p->cluster), reached;
    struct answer *answers;
    struct ps_error e;
    size_t known = 0;

    if (p->settings.job == NULL)
        return EXIT_SUCCESS;
    if (ask_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    for (uint32_t i = 0; i < n; i++)
        known += json_array_size(answer_list(&answers[i], "job"));
    reached = answers_reached(answers, n);
    answers_free(answers, n);
    if (known > 0 || reached < n) /* the one that does not answer may know it */
        return EXIT_SUCCESS;
    (void)ps_fail(&e, PS_ERR_NOT_FOUND, "the cluster has no job \"%s\"; psctl jobs lists those that it has",
                  p->settings.job);
    return psctl_failed(&e);
}
