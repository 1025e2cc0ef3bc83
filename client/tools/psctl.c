/* psctl: what a cluster's shards say about themselves, and what an operator tells them. This file has the command line
 * and the exit status; each command is a psctl_*.c. */
#include "psctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli/command.h"
#include "common/cli/streams.h"
#include "common/optimizer.h"
#include "output.h"
#include "terminal.h"
#include "top/top.h"

#define DISK_TIMEOUT_MS (10 * 60 * 1000) /* of what waits for disks, unless --timeout says otherwise */
#define FIELD(name)     offsetof(struct psctl_settings, name)

static const struct option_choice colours[] = {
    {"auto", PAGE_AUTO}, {"always", PAGE_ALWAYS}, {"never", PAGE_NEVER}, {NULL, 0}};
static const struct option_choice sorts[] = {
    {"load", TOP_BY_LOAD}, {"memory", TOP_BY_MEMORY}, {"name", TOP_BY_NAME}, {NULL, 0}};

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
     .usual = "all jobs; set, checkpoint: the only one; restore: the checkpoint's",
     .offset = FIELD(job),
     .commands = "jobs variables workers blocked top set checkpoint restore",
     .help =
         "this job alone; set and checkpoint need it when the cluster has more than one; restore: the name that the "
         "job gets"},
    {.name = "variables",
     .kind = OPTION_NAME,
     .argument = "PATTERN",
     .usual = "*, all of the job",
     .offset = FIELD(variables),
     .commands = "set",
     .help = "the variables whose optimizers are changed: names, * for any characters and ? for one"},
    {.name = "shard",
     .kind = OPTION_INT,
     .argument = "N",
     .max = UINT32_MAX,
     .offset = FIELD(shard),
     .commands = "drain save",
     .help = "the shard to drain or save, by its place in the list, from 0; save: all shards unless it is given"},
    {.name = "all",
     .kind = OPTION_FLAG,
     .offset = FIELD(all),
     .commands = "drain top",
     .help =
         "drain: all shards; top: also jobs that are over, whose workers have all finished: they come last, dimmed"},
    {.name = "timeout",
     .kind = OPTION_MS,
     .argument = "MS",
     .fallback = "5s",
     .usual = "5s; save, checkpoint and restore: 10m",
     .min = 1,
     .max = 24 * 3600 * 1000,
     .offset = FIELD(timeout_ms),
     .help = "how long to wait for a shard, in milliseconds or with ms, s, m; one that refuses the connection is not "
             "waited for"},
    {.name = "name",
     .kind = OPTION_NAME,
     .argument = "NAME",
     .usual = "clock-N, in async unix-MILLISECONDS",
     .offset = FIELD(name),
     .commands = "checkpoint",
     .help = "the checkpoint's name, a directory in DIR"},
    {.name = "at-clock",
     .kind = OPTION_INT,
     .argument = "N",
     .offset = FIELD(at_clock),
     .commands = "checkpoint",
     .usual = "in sync the next clock that all workers reach, else at once",
     .help = "in ssp and sync, wait until all updates up to clock N are done"},
    {.name = "keep",
     .kind = OPTION_INT,
     .argument = "N",
     .max = UINT32_MAX,
     .offset = FIELD(keep),
     .commands = "checkpoint",
     .usual = "all",
     .help = "keep the newest N checkpoints in DIR and remove the others"},
    {.name = "until",
     .kind = OPTION_INT,
     .argument = "RECORD",
     .min = 1,
     .offset = FIELD(until),
     .commands = "replay",
     .help = "instead of the list, serve the shard as this record of it left it"},
    {.name = "live-dir",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .offset = FIELD(live_dir),
     .commands = "replay",
     .help = "with --until: a new directory for that shard's data"},
    {.name = "listen",
     .kind = OPTION_ADDRESS,
     .argument = "ADDR",
     .usual = "psd's",
     .offset = FIELD(listen),
     .commands = "replay",
     .help = "with --until: where that shard listens"},
    {.name = "watch",
     .kind = OPTION_SECONDS,
     .argument = "SECONDS",
     .bare = "2s",
     .min = 100,
     .max = 24 * 3600 * 1000,
     .offset = FIELD(watch_ms),
     .commands = "status jobs variables stats workers blocked ping",
     .help = "ask again and again, this often: in place on a terminal, where q and Ctrl-C end it; elsewhere one block "
             "after the other, each below the time, or with --json one document after the other"},
    {.name = "color",
     .kind = OPTION_CHOICE,
     .argument = "WHEN",
     .choices = colours,
     .fallback = "auto",
     .offset = FIELD(colour),
     .help = "colour headings and what somebody should look at: auto (on a terminal, unless NO_COLOR is set), always "
             "or never"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = FIELD(json),
     .commands = "status jobs variables stats workers blocked ping",
     .help = "print one JSON document instead of tables"},
    {.name = "check",
     .kind = OPTION_FLAG,
     .offset = FIELD(check),
     .commands = "status",
     .help = "for health checks: say only which shards were not reached, drain or have a store that is 95 % full or "
             "more, and exit with 1 when there is one"},
    {.name = "count",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "20",
     .min = 1,
     .max = ASK_PINGS_MAX,
     .offset = FIELD(count),
     .commands = "ping",
     .help = "round trips with each shard"},
    {.name = "interval",
     .kind = OPTION_SECONDS,
     .argument = "SECONDS",
     .fallback = "2s",
     .min = 100,
     .max = 24 * 3600 * 1000,
     .offset = FIELD(interval_ms),
     .commands = "top",
     .help = "from one look at the shards to the next; rates are of the time between"},
    {.name = "sort",
     .kind = OPTION_CHOICE,
     .argument = "KEY",
     .choices = sorts,
     .fallback = "load",
     .offset = FIELD(sort),
     .commands = "top",
     .help = "what comes first: load (bytes moved; workers that are furthest behind), memory or name; the keys l, m "
             "and n change it"},
};

/* What psctl set can change, for completion. */
#define SET_NAME(name) #name "= "
#define SET_NAMES      OPTIMIZER_PARAMETER_LIST(SET_NAME) "schedule= clip= age= bound="

enum psctl_word {
    WORD_TOP = VIEWS,
    WORD_SET,
    WORD_DRAIN,
    WORD_SAVE,
    WORD_CHECKPOINT,
    WORD_RESTORE,
    WORD_REPLAY,
    WORDS
};

/* The questions in the order of enum view_kind, then the others. */
static const struct subcommand psctl_commands[WORDS] = {
    [VIEW_STATUS] = {.name = "status",
                     .output = output_of_status,
                     .about = "each shard: since when, how much it holds, what is in flight"},
    [VIEW_JOBS] = {.name = "jobs",
                   .output = output_of_jobs,
                   .about = "each job: its options, its workers, the slowest and the fastest clock, pulls that wait"},
    [VIEW_VARIABLES] = {.name = "variables",
                        .output = output_of_variables,
                        .about = "each variable: bytes, versions and traffic, in all and on each shard"},
    [VIEW_STATS] = {.name = "stats", .output = output_of_stats, .about = "counters, and how old pushes were"},
    [VIEW_WORKERS] = {.name = "workers",
                      .output = output_of_workers,
                      .about = "each worker: its clock, its lease, what is unanswered"},
    [VIEW_BLOCKED] = {.name = "blocked",
                      .output = output_of_blocked,
                      .about = "who waits for whom, until which clock, since when"},
    [VIEW_PING] = {.name = "ping", .output = output_of_ping, .about = "round trips: least, median, most"},
    [WORD_TOP] = {.name = "top",
                  .output = output_of_top,
                  .about = "a live page: rates, shards, workers and who waits for whom, variables by traffic; "
                           "without a terminal two looks, and one page of what lay between"},
    [WORD_SET] = {.name = "set",
                  .operands = "NAME=VALUE...",
                  .suggest = SET_NAMES,
                  .about = "change a running job on all shards. Of its variables' optimizers: any parameter "
                           "(learning_rate=0.01), schedule (cosine:steps=1000,warmup=50; constant, step, exponential, "
                           "cosine, linear), clip (block_norm:1; none, value, block_norm, given_norm). Of the job: "
                           "age (none, inverse, exponential:0.9, cutoff:8), and bound (8) when it is ssp. Says what "
                           "changed on how many variables"},
    [WORD_DRAIN] = {.name = "drain",
                    .about = "stop shards as TERM does: a shard answers what is under way and exits; started again on "
                             "its live directory it goes on where it was. Needs --shard or --all; returns when they "
                             "have closed"},
    [WORD_SAVE] = {.name = "save",
                   .about =
                       "write the state of all shards, or of one, to their durable directories now, and return when "
                       "it is on disk; training goes on meanwhile"},
    [WORD_CHECKPOINT] = {.name = "checkpoint",
                         .operands = "DIR",
                         .about = "write a job's weights and optimizer slots to a new directory in DIR, which the "
                                  "shards must see under the same path and be allowed to write to: safetensors files "
                                  "and a manifest with checksums. It appears whole or not at all; then DIR/latest "
                                  "leads to it. Training goes on meanwhile. Ctrl-C, TERM and HUP take back what was "
                                  "begun"},
    [WORD_RESTORE] = {.name = "restore",
                      .operands = "PATH",
                      .about = "put a checkpoint (DIR/NAME or DIR/latest) into the cluster, which may have another "
                               "number of shards: the job and its variables are made, or get the checkpoint's values. "
                               "All connections end; workers that come back are told that they were rolled back"},
    [WORD_REPLAY] = {.name = "replay",
                     .operands = "DIR",
                     .about =
                         "list the pushes that a shard's durable directory holds since its last save, with the norms "
                         "of their gradients, to find the one that broke a model; with --until, serve the shard as "
                         "it was after one of them. Runs psd on this machine, on a directory that no psd has open; "
                         "asks no shard. A stop saves, and then nothing is left to list: end the shard with KILL"},
};

static const struct command_section psctl_sections[] = {
    {"Environment", (const struct command_entry[]){{"TF_CONFIG, PSD_SHARDS", "the shards, when --shards is not given"},
                                                   {"NO_COLOR", "when set and not empty: no colours of itself"},
                                                   {NULL, NULL}}},
    {"Exit status", (const struct command_entry[]){{"0", "all is well; --watch and top were ended by who watched"},
                                                   {"1", "a shard did not answer (the others are shown), a file could "
                                                         "not be read or written, or --check found a shard that is "
                                                         "not well"},
                                                   {"2", "the options or the configuration are wrong"},
                                                   {"3", "a shard refused what was asked for"},
                                                   {NULL, NULL}}},
    {"Examples",
     (const struct command_entry[]){
         {"psctl --shards 10.0.0.1:7420,10.0.0.2:7420 status", "how two shards are"},
         {"psctl blocked --job digits", "who waits for whom in that job"},
         {"psctl set learning_rate=0.01 clip=block_norm:1", "of all variables of the only job, from now on"},
         {"psctl drain --shard 1", "stop the second shard in good order"},
         {"psctl checkpoint --keep 3 /srv/models/digits", "write a checkpoint there, keep the newest three"},
         {"psctl restore /srv/models/digits/latest", "go on from the newest"},
         {NULL, NULL}}},
    {NULL, NULL},
};

static const struct command psctl_command = {
    .name = "psctl",
    .manual = 1,
    .title = "look into a cluster of psd shards, and change it",
    .about = "Ask the shards of a cluster how they are, and tell them what to change.",
    .commands = psctl_commands,
    .commands_len = ARRAY_LEN(psctl_commands),
    .options = psctl_options,
    .options_len = ARRAY_LEN(psctl_options),
    .output = output_about,
    .sections = psctl_sections,
    .see_also = "psd(8), psrun(1)",
};

/* ---- exit status ---- */

/* Did the shard answer that it will not, rather than not answer? */
static bool
is_refusal(enum ps_err code)
{
    switch (code) {
    case PS_ERR_UNREACHABLE:
    case PS_ERR_TIMEOUT:
    case PS_ERR_CLOSED:
    case PS_ERR_IO:
    case PS_ERR_NOMEM:
    case PS_ERR_INTERNAL:
        return false;
    default:
        return true;
    }
}

static void
psctl_say(const struct ps_error *e)
{
    bool peer = e->peer[0] != '\0' && strstr(e->text, e->peer) == NULL;

    page_line(&(struct page){.out = stderr}, PAINT_PLAIN, "psctl: %s%s%s", peer ? e->peer : "", peer ? ": " : "",
              e->text);
}

int
psctl_failed(const struct ps_error *e)
{
    psctl_say(e);
    return is_refusal(e->code) ? STATUS_REFUSED : STATUS_NOT_REACHED;
}

int
psctl_usage(const struct ps_error *e)
{
    psctl_say(e);
    return STATUS_USAGE;
}

int
psctl_status_of(const struct answer *answers, uint32_t n)
{
    int status = EXIT_SUCCESS;

    for (uint32_t i = 0; i < n; i++) {
        if (!answers[i].reached && !is_refusal(answers[i].error.code))
            return STATUS_NOT_REACHED;
        if (!answers[i].reached)
            status = STATUS_REFUSED;
    }
    return status;
}

/* ---- telling shards ---- */

static void
psctl_say_answer(const struct psctl *p, const struct answer *a, psctl_say_done say)
{
    char text[PS_ERROR_TEXT_MAX];

    if (a->reached)
        say(a, text, sizeof text);
    page_line(&p->page, a->reached ? PAINT_PLAIN : PAINT_FAULT, "shard %u at %s: %s", a->shard, a->address,
              a->reached ? text : a->error.text);
}

int
psctl_tell(struct psctl *p, enum ask_kind kind, psctl_say_done say)
{
    struct question question = {.kind = kind, .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t shards = ps_cluster_shards(p->cluster);
    uint32_t first = p->one_shard ? (uint32_t)p->settings.shard : 0, n = p->one_shard ? 1 : shards;
    struct answer *answers;
    struct ps_error e;
    int status;

    if (first >= shards) {
        (void)ps_fail(&e, PS_ERR_INVALID, "--shard %u: the cluster's shards are 0 to %u", first, shards - 1);
        return psctl_usage(&e);
    }
    if (ask_shards(p->cluster, first, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    for (uint32_t i = 0; i < n; i++)
        psctl_say_answer(p, &answers[i], say);
    status = psctl_status_of(answers, n);
    answers_free(answers, n);
    return status;
}

/* ---- one command ---- */

static enum ps_err
psctl_cluster(const struct psctl_settings *settings, ps_cluster **out, struct ps_error *e)
{
    enum ps_err err;

    if (settings->shards != NULL)
        return ps_cluster_from_list(settings->shards, 1, 0, out, e);
    if (getenv("TF_CONFIG") == NULL && getenv("PSD_SHARDS") == NULL)
        return ps_fail(e, PS_ERR_INVALID, "neither --shards nor TF_CONFIG nor PSD_SHARDS says where the shards are");
    if ((err = ps_cluster_from_env(out, e)) != PS_OK || ps_cluster_shards(*out) > 0)
        return err;
    ps_cluster_free(*out);
    *out = NULL;
    return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster.ps: missing; it lists the addresses of the psd shards");
}

static enum ps_err
psctl_check(const struct psctl_settings *s, const struct command_line *line, struct ps_error *e)
{
    bool drain = line->command == &psctl_commands[WORD_DRAIN];
    bool path = line->command > &psctl_commands[WORD_SAVE];

    if (drain && s->all == command_given(&psctl_command, line, "shard"))
        return ps_fail(e, PS_ERR_INVALID, "drain: expected either --shard N or --all");
    if (path && (line->len != 1 || line->words[0][0] == '\0'))
        return ps_fail(e, PS_ERR_INVALID, "%s: expected one directory", line->command->name);
    if (s->check && (s->json || s->watch_ms > 0))
        return ps_fail(e, PS_ERR_INVALID, "--check goes with neither --json nor --watch");
    return PS_OK;
}

static int
psctl_run(struct psctl *p, enum psctl_word word)
{
    const char *term = getenv("TERM");

    p->page = (struct page){.out = stdout,
                            .colour = page_coloured((enum page_when)p->settings.colour, isatty(STDOUT_FILENO) == 1,
                                                    getenv("NO_COLOR"), term)};
    p->in_place = terminal_can(term);
    switch (word) {
    case WORD_TOP:
        return psctl_top(p);
    case WORD_SET:
        return psctl_set(p);
    case WORD_DRAIN:
        return psctl_drain(p);
    case WORD_SAVE:
        return psctl_save(p);
    case WORD_CHECKPOINT:
        return psctl_checkpoint(p);
    case WORD_RESTORE:
        return psctl_restore(p);
    case WORD_REPLAY:
        return psctl_replay(p);
    default:
        return psctl_look(p, (enum view_kind)word);
    }
}

/* Whoever reads half of an answer must not take it for all. */
static bool
psctl_printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    fprintf(stderr, "psctl: cannot write to standard output: %s\n", strerror(errno));
    return false;
}

int
main(int argc, char **argv)
{
    struct psctl p = {0};
    struct command_line line;
    ps_cluster *cluster = NULL;
    struct ps_error e;
    enum ps_err err;
    int status;

    streams_open();
    err = command_parse(&psctl_command, argc, argv, &p.settings, &line, &e);
    if (err == PS_OK && line.asked != COMMAND_RUN)
        return command_answer(&psctl_command, &line, stdout);
    if (err == PS_OK)
        err = psctl_check(&p.settings, &line, &e);
    if (err == PS_OK && line.command != &psctl_commands[WORD_REPLAY])
        err = psctl_cluster(&p.settings, &cluster, &e);
    if (err != PS_OK)
        return psctl_usage(&e);
    p.cluster = cluster;
    p.words = line.words;
    p.words_len = line.len;
    p.one_shard = command_given(&psctl_command, &line, "shard");
    p.at_one_clock = command_given(&psctl_command, &line, "at-clock");
    if (line.command >= &psctl_commands[WORD_SAVE] && !command_given(&psctl_command, &line, "timeout"))
        p.settings.timeout_ms = DISK_TIMEOUT_MS;
    status = psctl_run(&p, (enum psctl_word)(line.command - psctl_commands));
    ps_cluster_free(cluster);
    return psctl_printed() ? status : STATUS_NOT_REACHED;
}
