/* psctl: what a cluster's shards say about themselves. It asks them all (ask.c) and shows the answers (view.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "common/cli/command.h"
#include "view.h"

#define STATUS_NOT_REACHED 1

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
     .usual = "TF_CONFIG's ps, else PSD_SHARDS",
     .offset = FIELD(shards),
     .help = "the shards, in order: host:port, [v6]:port or unix:/path"},
    {.name = "job",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .usual = "all jobs",
     .offset = FIELD(job),
     .commands = "variables workers blocked",
     .help = "variables, workers and waits of this job alone"},
    {.name = "timeout",
     .kind = OPTION_MS,
     .argument = "MS",
     .fallback = "5s",
     .min = 1,
     .max = 3600 * 1000,
     .offset = FIELD(timeout_ms),
     .help = "how long to wait for a shard, in milliseconds or with ms, s, m"},
    {.name = "count",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "20",
     .min = 1,
     .max = ASK_PINGS_MAX,
     .offset = FIELD(count),
     .commands = "ping",
     .help = "round trips with each shard"},
    {.name = "json", .kind = OPTION_FLAG, .offset = FIELD(json), .help = "print one JSON document instead of tables"},
};

/* In the order of enum view_kind. */
static const struct subcommand psctl_commands[] = {
    [VIEW_STATUS] = {.name = "status", .about = "each shard: since when, how much it holds, what is in flight"},
    [VIEW_VARIABLES] = {.name = "variables",
                        .about = "each variable: bytes, versions and traffic, in all and on each shard"},
    [VIEW_STATS] = {.name = "stats", .about = "counters, and how old pushes were"},
    [VIEW_WORKERS] = {.name = "workers", .about = "each worker: its clock, its lease, what is unanswered"},
    [VIEW_BLOCKED] = {.name = "blocked", .about = "who waits for whom, until which clock, since when"},
    [VIEW_PING] = {.name = "ping", .about = "round trips: least, median, most"},
};

static const struct command_section psctl_sections[] = {
    {"Exit status", (const struct command_entry[]){{"0", "every shard answered"},
                                                   {"1", "one did not; the others are shown"},
                                                   {"2", "the options or the configuration are wrong"},
                                                   {NULL, NULL}}},
    {NULL, NULL},
};

static const struct command psctl_command = {
    .name = "psctl",
    .manual = 1,
    .title = "ask the shards of a cluster how they are",
    .about = "Ask the shards of a cluster how they are.",
    .commands = psctl_commands,
    .commands_len = ARRAY_LEN(psctl_commands),
    .options = psctl_options,
    .options_len = ARRAY_LEN(psctl_options),
    .sections = psctl_sections,
};

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
    struct command_line line;
    ps_cluster *cluster = NULL;
    struct ps_error e;
    enum ps_err err = command_parse(&psctl_command, argc, argv, &settings, &line, &e);
    int status;

    if (err == PS_OK && line.asked != COMMAND_RUN)
        return command_answer(&psctl_command, &line, stdout);
    if (err == PS_OK)
        err = psctl_cluster(&settings, &cluster, &e);
    if (err != PS_OK) {
        fprintf(stderr, "psctl: %s\n", e.text);
        return EXIT_USAGE;
    }
    status = psctl_ask(&settings, (enum view_kind)(line.command - psctl_commands), cluster);
    ps_cluster_free(cluster);
    if (fflush(stdout) != 0)
        status = STATUS_NOT_REACHED;
    return status;
}
