/* psctl evict: end a worker's session on all shards, so that no worker waits for it. A shard that is not reached does
 * not delay the others. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/psctl.h"
#include "common/core/wire/wire.h"

bool
psctl_worker_number(const char *word, uint32_t *out)
{
    size_t digits = strspn(word, "0123456789");
    unsigned long n = digits >= 1 && digits <= 6 && word[digits] == '\0' ? strtoul(word, NULL, 10) : WIRE_WORKERS_MAX;

    *out = (uint32_t)n;
    return n < WIRE_WORKERS_MAX;
}

static void
print_evicted(const struct psctl *p, const struct shard_answer *a, char *out, size_t size)
{
    const struct ps_evict_report *r = &a->evicted;

    if (!r->found)
        snprintf(out, size, "knows no worker %s of that job", p->words[0]);
    else if (r->live)
        snprintf(out, size, "worker %s (%s) is evicted, at clock %" PRIu64, p->words[0], r->agent, r->clock);
    else
        snprintf(out, size, "worker %s (%s) was not live, at clock %" PRIu64, p->words[0], r->agent, r->clock);
}

static json_t *
evict_document(const struct psctl *p, const struct shard_question *q, const struct shard_answer *answers, uint32_t n)
{
    json_t *object = render_document(p->command, answers, n, true);

    json_object_set_new(object, "job", json_string(q->job));
    json_object_set_new(object, "worker", json_integer(q->task));
    return object;
}

/* A worker that no shard knows does not exist; where a shard was not reached, that one may know it. */
static int
check_found(const struct shard_question *q, const struct shard_answer *answers, uint32_t n)
{
    bool found = false;
    struct ps_error e;

    for (uint32_t i = 0; i < n; i++)
        found = found || answers[i].evicted.found;
    if (found || answers_reached(answers, n) < n)
        return EXIT_SUCCESS;
    (void)ps_fail(&e, PS_ERR_NOT_FOUND, "job \"%s\" has no worker %u that a shard knows; psctl workers lists them",
                  q->job, q->task);
    return psctl_failed(&e);
}

int
psctl_evict(struct psctl *p)
{
    char job[PS_NAME_MAX + 1];
    struct shard_question question = {.kind = QUERY_EVICT, .job = job, .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers;
    struct ps_error e;
    int status;

    if ((status = psctl_choose_job(p, job)) != EXIT_SUCCESS)
        return status;
    (void)psctl_worker_number(p->words[0], &question.task); /* psctl.c has checked it */
    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    if ((status = check_found(&question, answers, n)) == EXIT_SUCCESS) {
        if (p->settings.json)
            render_print_document(evict_document(p, &question, answers, n), &p->printer);
        else
            psctl_print_answers(p, answers, n, print_evicted);
        status = psctl_status_of(answers, n);
    }
    answers_free(answers, n);
    return status;
}
