/* psctl: what a cluster's shards say about themselves. It asks them all (ask.c) and shows the answers (view.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "options.h"
#include "view.h"

#define STATUS_NOT_REACHED 1
#define STATUS_USAGE       2

struct psctl_settings {
    const char *shards, *job;
    int64_t timeout_ms, count;
    bool json;
};

#define FIELD(name) offsetof(struct psctl_settings, name)

static const struct option psctl_options[] = {
    {.name = "shards",
     .kind = OPTION_TEXT,
     .argument = "ADDR,...",
     .offset = FIELD(shards),
     .help = "the shards, in order: host:port, [v6]:port or unix:/path (default: TF_CONFIG's ps, else PSD_SHARDS)"},
    {.name = "job",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .offset = FIELD(job),
     .help = "variables, workers and waits of this job alone (default: all jobs)"},
    {.name = "timeout",
     .kind = OPTION_INT,
     .argument = "MS",
     .fallback = "5000",
     .min = 1,
     .max = 3600 * 1000,
     .offset = FIELD(timeout_ms),
     .help = "how long to wait for a shard, in milliseconds"},
    {.name = "count",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "20",
     .min = 1,
     .max = ASK_PINGS_MAX,
     .offset = FIELD(count),
     .help = "ping: round trips with each shard"},
    {.name = "json", .kind = OPTION_FLAG, .offset = FIELD(json), .help = "print one JSON document instead of tables"},
};

static const struct option_command psctl_command = {
    .name = "psctl",
    .usage = "[options] status|variables|stats|workers|blocked|ping",
    .about = "Ask the shards of a cluster how they are.\n"
             "\n"
             "  status     each shard: since when, how much it holds, what is in flight\n"
             "  variables  each variable: bytes, versions and traffic, in all and on each shard\n"
             "  stats      counters, and how old pushes were\n"
             "  workers    each worker: its clock, its lease, what is unanswered\n"
             "  blocked    who waits for whom, until which clock, since when\n"
             "  ping       round trips: least, median, most",
    .after = "Exit status: 0 when every shard answered; 1 when one did not (the others are shown); 2 when the options "
             "or the configuration are wrong.",
    .options = psctl_options,
    .options_len = ARRAY_LEN(psctl_options),
};

static enum ps_err
psctl_check(const struct option_rest *rest, enum view_kind *kind, struct ps_error *e)
{
    if (rest->len == 0)
        return ps_fail(e, PS_ERR_INVALID, "expected what to ask: status, variables, stats, workers, blocked or ping");
    if (rest->len > 1)
        return ps_fail(e, PS_ERR_INVALID, "unexpected '%.64s' after '%.64s'", rest->words[1], rest->words[0]);
    *kind = view_find(rest->words[0]);
    if (*kind == VIEWS)
        return ps_fail(e, PS_ERR_INVALID,
                       "unknown question '%.64s': it is one of status, variables, stats, workers, blocked, ping",
                       rest->words[0]);
    return PS_OK;
}

static enum ps_err
psctl_cluster(const struct psctl_settings *settings, ps_cluster **out, struct ps_error *e)
{
    if (settings->shards != NULL)
        return ps_cluster_from_list(settings->shards, 1, 0, out, e);
    return ps_cluster_from_env(out, e);
}

static int
psctl_ask(const struct psctl_settings *settings, enum view_kind kind, const ps_cluster *cluster)
{
    static const enum ps_query queries[VIEWS] = {[VIEW_STATUS] = PS_QUERY_STATUS,
                                                 [VIEW_VARIABLES] = PS_QUERY_VARIABLES,
                                                 [VIEW_STATS] = PS_QUERY_STATS,
                                                 [VIEW_WORKERS] = PS_QUERY_WORKERS,
                                                 [VIEW_BLOCKED] = PS_QUERY_BLOCKED};
    struct question question = {.ping = kind == VIEW_PING,
                                .query = queries[kind],
                                .job = settings->job,
                                .pings = (size_t)settings->count,
                                .timeout_ms = (int)settings->timeout_ms};
    uint32_t n = ps_cluster_shards(cluster), reached = 0;
    struct answer *answers;
    struct ps_error e;

    if (ask_all(cluster, &question, &answers, &e) != PS_OK) {
        fprintf(stderr, "psctl: %s\n", e.text);
        return STATUS_NOT_REACHED;
    }
    if (settings->json)
        view_print_json(kind, answers, n, stdout);
    else
        view_print(kind, answers, n, stdout);
    for (uint32_t i = 0; i < n; i++)
        reached += answers[i].reached;
    answers_free(answers, n);
    return reached == n ? EXIT_SUCCESS : STATUS_NOT_REACHED;
}

int
main(int argc, char **argv)
{
    struct psctl_settings settings;
    struct option_rest rest;
    ps_cluster *cluster = NULL;
    enum view_kind kind = VIEWS;
    struct ps_error e;
    enum ps_err err;
    bool help;
    int status;

    err = options_parse(&psctl_command, argc, argv, &settings, &rest, &help, &e);
    if (err == PS_OK && help) {
        options_help(&psctl_command, stdout);
        return EXIT_SUCCESS;
    }
    if (err == PS_OK)
        err = psctl_check(&rest, &kind, &e);
    if (err == PS_OK)
        err = psctl_cluster(&settings, &cluster, &e);
    if (err != PS_OK) {
        fprintf(stderr, "psctl: %s\n", e.text);
        return STATUS_USAGE;
    }
    status = psctl_ask(&settings, kind, cluster);
    ps_cluster_free(cluster);
    if (fflush(stdout) != 0)
        status = STATUS_NOT_REACHED;
    return status;
}
