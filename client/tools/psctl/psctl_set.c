/* psctl set: change a job's variables, age policy, bound or number of workers, on all shards. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/tools/psctl/assignment.h"
#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/query/named_variables.h"

/* {"command": "set", "job": "train", "changes": ["learning_rate=0.01"], "pattern": "*", "variables": 4, "shards": 2} */
static void
print_json(const struct psctl *p, const struct ps_setting *setting, uint64_t variables)
{
    json_t *changes = json_array();

    for (int i = 0; i < p->words_len; i++)
        json_array_append_new(changes, json_string(p->words[i]));
    render_print_document(json_pack("{s:s,s:s,s:o,s:s?,s:I,s:I}", "command", p->command, "job", setting->job, "changes",
                                    changes, "pattern", setting->variables, "variables",
                                    (json_int_t)(setting->variables != NULL ? variables : 0), "shards",
                                    (json_int_t)ps_cluster_shards(p->cluster)),
                          &p->printer);
}

/* 'job "train": learning_rate=0.01 for 4 variables, bound=8, on 2 shards' */
static void
print_changed(const struct psctl *p, const struct ps_setting *setting, uint64_t variables)
{
    uint32_t shards = ps_cluster_shards(p->cluster);

    if (p->settings.json) {
        print_json(p, setting, variables);
        return;
    }
    printf("job \"%s\": ", setting->job);
    for (int i = 0; i < p->words_len; i++)
        printf("%s%s", i > 0 ? ", " : "", p->words[i]);
    if (setting->variables != NULL)
        printf("; %" PRIu64 " variable%s named by \"%s\"", variables, variables == 1 ? "" : "s", setting->variables);
    printf("; %u shard%s\n", shards, shards == 1 ? "" : "s");
}

static enum ps_err
set_change(const struct psctl *p, const struct ps_setting *setting, uint64_t *variables, struct ps_error *e)
{
    struct ps_client_options options = {
        .observer = 1, .any_cluster = 1, .transport = PS_TRANSPORT_TCP, .timeout_ms = (int)p->settings.timeout_ms};
    ps_client *client;
    enum ps_err err;

    if ((err = ps_client_open(p->cluster, &options, &client, e)) != PS_OK)
        return err;
    err = ps_client_set(client, setting, -1, variables, e);
    ps_client_close(client);
    return err;
}

/* The cluster has said that the pattern names no variable; the shards' reports have the name that was meant. */
static int
set_not_found(const struct psctl *p, const char *job, const struct ps_error *said)
{
    struct shard_question question = {
        .queries = QUERY_BIT(PS_QUERY_VARIABLES), .job = job, .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers;
    struct ps_error e;
    enum ps_err err;

    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(said);
    err = named_variables(answers, n, job, p->settings.variables, NULL, NULL, &e);
    answers_free(answers, n);
    return psctl_failed(err == PS_ERR_NOT_FOUND ? &e : said);
}

int
psctl_set(struct psctl *p)
{
    char job[PS_NAME_MAX + 1];
    struct assignments a;
    struct ps_error e;
    uint64_t variables;
    enum ps_err err;
    int status;

    if (assignments_parse(p->words, p->words_len, p->settings.variables, &a, &e) != PS_OK)
        return psctl_usage(&e);
    if ((status = psctl_choose_job(p, job)) != EXIT_SUCCESS)
        return status;
    a.setting.job = job;
    a.setting.force = p->settings.force;
    if ((err = set_change(p, &a.setting, &variables, &e)) == PS_ERR_NOT_FOUND && p->settings.variables != NULL)
        return set_not_found(p, job, &e);
    if (err != PS_OK)
        return psctl_failed(&e);
    if (assignments_warning(&a) != NULL)
        fprintf(stderr, "psctl: %s\n", assignments_warning(&a));
    print_changed(p, &a.setting, variables);
    return EXIT_SUCCESS;
}
