/* Which job is meant: one that was named on the command line must exist, since a query about a job that no shard knows
 * is an error, not an empty answer; when none was named, the only one that exists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/query/report_fields.h"
#include "client/tools/shared/strlist.h"
#include "common/core/base/nearest.h"

#define RESTORE_PATIENCE_MS UINT64_C(60000)

/* ---- one that was named ---- */

/* "the cluster has no job "digit"; psctl jobs lists those that it has; did you mean digits?" */
static int
refuse_unknown(const struct psctl *p)
{
    struct shard_question question = {.queries = QUERY_BIT(PS_QUERY_JOBS), .timeout_ms = (int)p->settings.timeout_ms};
    struct nearest nearest = nearest_to(p->settings.job);
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers = NULL;
    struct report_entry *jobs = NULL;
    char meant[NEAREST_TEXT_MAX];
    struct ps_error e;
    size_t len = 0;

    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) == PS_OK)
        jobs = report_entries_gather(answers, n, "job", &len);
    for (size_t i = 0; jobs != NULL && i < len; i++)
        nearest_offer(&nearest, field_text(jobs[i].report, "name"));
    (void)ps_fail(&e, PS_ERR_NOT_FOUND, "the cluster has no job \"%s\"; psctl jobs lists those that it has%s",
                  p->settings.job, nearest_text(&nearest, "", meant));
    free(jobs);
    answers_free(answers, n);
    return psctl_failed(&e);
}

int
psctl_know_job(const struct psctl *p)
{
    struct shard_question question = {
        .queries = QUERY_BIT(PS_QUERY_JOBS), .job = p->settings.job, .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t n = ps_cluster_shards(p->cluster), reached;
    struct shard_answer *answers;
    struct ps_error e;
    size_t known = 0;

    if (p->settings.job == NULL)
        return EXIT_SUCCESS;
    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    for (uint32_t i = 0; i < n; i++)
        known += json_array_size(answer_list(&answers[i], "job"));
    reached = answers_reached(answers, n);
    answers_free(answers, n);
    if (known > 0 || reached < n) /* the one that does not answer may know it */
        return EXIT_SUCCESS;
    return refuse_unknown(p);
}

/* ---- the only one ---- */

/* "the cluster has jobs a, b; say which with --job" */
static enum ps_err
refuse_many(const struct report_entry *jobs, size_t len, struct ps_error *e)
{
    char list[256] = "";

    for (size_t i = 0; i < len; i++)
        if (i == 0 || !report_entry_same(&jobs[i - 1], &jobs[i]))
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "",
                     field_text(jobs[i].report, "name"));
    return ps_fail(e, PS_ERR_INVALID, "the cluster has several jobs; choose one with --job: %s", list);
}

/* The job that psctl bench leaves is ignored. */
static size_t
leave_out_bench(struct report_entry *jobs, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        if (strcmp(field_text(jobs[i].report, "name"), PSCTL_BENCH_JOB) != 0)
            jobs[n++] = jobs[i];
    return n;
}

/* The only job among the answers. */
static enum ps_err
only_job(const struct shard_answer *answers, uint32_t n, char *out, size_t size, struct ps_error *e)
{
    size_t len;
    struct report_entry *jobs = report_entries_gather(answers, n, "job", &len);
    enum ps_err err = PS_OK;

    len = leave_out_bench(jobs, len);
    if (len == 0)
        err = ps_fail(e, PS_ERR_NOT_FOUND, "the cluster has no job");
    else if (!report_entry_same(&jobs[0], &jobs[len - 1]))
        err = refuse_many(jobs, len, e);
    else
        snprintf(out, size, "%s", field_text(jobs[0].report, "name"));
    free(jobs);
    return err;
}

static int
print_unreached(const struct shard_answer *a)
{
    struct ps_error e;

    (void)ps_fail(&e, a->error.code, "shard %u at %s: %s; nothing was changed", a->shard, a->address, a->error.text);
    return psctl_failed(&e);
}

int
psctl_need_all(const struct shard_answer *answers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!answers[i].reached)
            return print_unreached(&answers[i]);
    return EXIT_SUCCESS;
}

int
psctl_only_job(const struct psctl *p, char job[PS_NAME_MAX + 1])
{
    struct shard_question question = {.queries = QUERY_BIT(PS_QUERY_JOBS), .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers;
    struct ps_error e;
    enum ps_err err;
    int status = EXIT_SUCCESS;

    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    status = psctl_need_all(answers, n);
    if (status == EXIT_SUCCESS && (err = only_job(answers, n, job, PS_NAME_MAX + 1, &e)) != PS_OK)
        status = err == PS_ERR_INVALID ? psctl_usage(&e) : psctl_failed(&e);
    answers_free(answers, n);
    return status;
}

int
psctl_choose_job(const struct psctl *p, char job[PS_NAME_MAX + 1])
{
    if (p->settings.job == NULL)
        return psctl_only_job(p, job);
    snprintf(job, PS_NAME_MAX + 1, "%s", p->settings.job);
    return psctl_know_job(p);
}

/* ---- a client of one job ---- */

/* The same shards, under the name that the first one of them gives the cluster. */
static enum ps_err
named_cluster(const struct psctl *p, const struct shard_answer *first, ps_cluster **out, struct ps_error *e)
{
    char *text = NULL;
    size_t len;
    FILE *f = strlist_need(open_memstream(&text, &len));
    enum ps_err err;

    for (uint32_t i = 0; i < ps_cluster_shards(p->cluster); i++)
        fprintf(f, "%s%s", i > 0 ? "," : "", ps_cluster_shard_address(p->cluster, i));
    fclose(f);
    err = ps_cluster_from_list(strlist_need(text), 1, 0, out, e);
    free(text);
    if (err != PS_OK)
        return err;
    return ps_cluster_set_name(*out, field_text(json_object_get(first->report, "status"), "cluster"), e);
}

int
psctl_cluster_named(const struct psctl *p, ps_cluster **out)
{
    struct shard_question question = {.queries = QUERY_BIT(PS_QUERY_STATUS), .timeout_ms = (int)p->settings.timeout_ms};
    struct shard_answer *answer;
    struct ps_error e;
    int status;

    *out = NULL;
    if (query_all_shards(p->cluster, 0, 1, &question, &answer, &e) != PS_OK)
        return psctl_failed(&e);
    if ((status = psctl_need_all(answer, 1)) == EXIT_SUCCESS && named_cluster(p, answer, out, &e) != PS_OK)
        status = psctl_failed(&e);
    answers_free(answer, 1);
    return status;
}

/* How long a shard may be away in the middle of a long command: as long as one that is asked may take, and where a
 * restore ends all connections long enough for that. */
static enum ps_err
open_watched(const struct psctl *p, const ps_cluster *cluster, struct ps_client_options *options,
             struct lost_shard *lost, ps_client **client, struct ps_error *e)
{
    uint64_t patience_ms = (uint64_t)p->settings.timeout_ms;

    if (p->restores)
        patience_ms = MAX(patience_ms, RESTORE_PATIENCE_MS);
    return lost_shard_open(lost, cluster, options, patience_ms, client, e);
}

int
psctl_open_job(const struct psctl *p, const char *job, struct lost_shard *lost, ps_client **client)
{
    struct ps_client_options options = {
        .observer = 1, .job = job, .transport = PS_TRANSPORT_TCP, .timeout_ms = (int)p->settings.timeout_ms};
    ps_cluster *cluster;
    struct ps_error e;
    int status = psctl_cluster_named(p, &cluster);

    if (status == EXIT_SUCCESS && open_watched(p, cluster, &options, lost, client, &e) != PS_OK)
        status = psctl_failed(&e);
    ps_cluster_free(cluster);
    return status;
}

enum ps_err
psctl_open_all(const struct psctl *p, struct lost_shard *lost, ps_client **client, struct ps_error *e)
{
    struct ps_client_options options = {
        .observer = 1, .any_cluster = 1, .transport = PS_TRANSPORT_TCP, .timeout_ms = (int)p->settings.timeout_ms};

    return open_watched(p, p->cluster, &options, lost, client, e);
}
