/* psctl set: change a running job's variables, age policy or bound, on all shards. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assignment.h"
#include "psctl.h"
#include "views/members.h"

/* ---- which job ---- */

/* "the cluster has jobs a, b; say which with --job" */
static enum ps_err
refuse_many(const struct place *jobs, size_t len, struct ps_error *e)
{
    char list[256] = "";

    for (size_t i = 0; i < len; i++)
        if (i == 0 || !place_same(&jobs[i - 1], &jobs[i]))
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "",
                     member_text(jobs[i].report, "name"));
    return ps_fail(e, PS_ERR_INVALID, "the cluster has several jobs; choose one with --job: %s", list);
}

/* The only job among the answers. */
static enum ps_err
only_job(const struct answer *answers, uint32_t n, char *out, size_t size, struct ps_error *e)
{
    size_t len;
    struct place *jobs = places_gather(answers, n, "job", &len);
    enum ps_err err = PS_OK;

    if (len == 0)
        err = ps_fail(e, PS_ERR_NOT_FOUND, "the cluster has no job");
    else if (!place_same(&jobs[0], &jobs[len - 1]))
        err = refuse_many(jobs, len, e);
    else
        snprintf(out, size, "%s", member_text(jobs[0].report, "name"));
    free(jobs);
    return err;
}

static int
say_unreached(const struct answer *a)
{
    struct ps_error e;

    (void)ps_fail(&e, a->error.code, "shard %u at %s: %s; nothing was changed", a->shard, a->address, a->error.text);
    return psctl_failed(&e);
}

/* Into job. Returns an exit status. */
static int
find_job(const struct psctl *p, char *job, size_t size)
{
    struct question question = {.queries = ASK_BIT(PS_QUERY_JOBS), .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t n = ps_cluster_shards(p->cluster);
    struct answer *answers;
    struct ps_error e;
    enum ps_err err;
    int status = EXIT_SUCCESS;

    if (ask_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    for (uint32_t i = 0; status == EXIT_SUCCESS && i < n; i++)
        if (!answers[i].reached)
            status = say_unreached(&answers[i]);
    if (status == EXIT_SUCCESS && (err = only_job(answers, n, job, size, &e)) != PS_OK)
        status = err == PS_ERR_INVALID ? psctl_usage(&e) : psctl_failed(&e);
    answers_free(answers, n);
    return status;
}

/* ---- changing it ---- */

/* 'job "train": learning_rate=0.01 for 4 variables, bound=8, on 2 shards' */
static void
say_changed(const struct psctl *p, const struct ps_setting *setting, uint64_t variables)
{
    uint32_t shards = ps_cluster_shards(p->cluster);

    printf("job \"%s\": ", setting->job);
    for (int i = 0; i < p->words_len; i++)
        printf("%s%s", i > 0 ? ", " : "", p->words[i]);
    if (setting->variables != NULL)
        printf("; %" PRIu64 " variable%s named by \"%s\"", variables, variables == 1 ? "" : "s", setting->variables);
    printf("; %u shard%s\n", shards, shards == 1 ? "" : "s");
}

static enum ps_err
change(const struct psctl *p, const struct ps_setting *setting, uint64_t *variables, struct ps_error *e)
{
    struct ps_client_options options = {.observer = 1, .any_cluster = 1, .timeout_ms = (int)p->settings.timeout_ms};
    ps_client *client;
    enum ps_err err;

    if ((err = ps_client_open(p->cluster, &options, &client, e)) != PS_OK)
        return err;
    err = ps_client_set(client, setting, -1, variables, e);
    ps_client_close(client);
    return err;
}

int
psctl_set(struct psctl *p)
{
    char job[PS_NAME_MAX + 1];
    struct assignments a;
    struct ps_error e;
    uint64_t variables;
    int status;

    if (assignments_parse(p->words, p->words_len, p->settings.variables, &a, &e) != PS_OK)
        return psctl_usage(&e);
    a.setting.job = p->settings.job;
    if (a.setting.job == NULL) {
        if ((status = find_job(p, job, sizeof job)) != EXIT_SUCCESS)
            return status;
        a.setting.job = job;
    }
    if (change(p, &a.setting, &variables, &e) != PS_OK)
        return psctl_failed(&e);
    say_changed(p, &a.setting, variables);
    return EXIT_SUCCESS;
}
