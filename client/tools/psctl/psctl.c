/* psctl: reports of a cluster's shards, and an operator's commands to them. This file runs the command and sets the
 * exit status; psctl_commands.c has the command line, and each command is a psctl_*.c. */
#include "client/tools/psctl/psctl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/psctl/assignment.h"
#include "client/tools/psctl/psctl_commands.h"
#include "client/tools/shared/interrupt.h"
#include "client/tools/shared/terminal.h"
#include "common/cli/streams.h"
#include "common/system/token.h"

#define SLOW_TIMEOUT_MS (10 * 60 * 1000) /* of commands that wait for disks or starts, unless --timeout is given */

/* ---- exit status ---- */

/* Did the shard refuse, rather than not answer? */
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

/* With --json: the command, for the document when it failed as a whole. */
static const char *json_of;

static void
psctl_print(const struct ps_error *e)
{
    bool peer = e->peer[0] != '\0' && strstr(e->text, e->peer) == NULL;

    printer_line(&(struct printer){.out = stderr}, PAINT_PLAIN, "psctl: %s%s%s", peer ? e->peer : "", peer ? ": " : "",
                 e->text);
    if (json_of != NULL)
        render_print_document(render_error_document(json_of, e), &(struct printer){.out = stdout});
}

int
psctl_failed(const struct ps_error *e)
{
    psctl_print(e);
    return is_refusal(e->code) ? STATUS_REFUSED : STATUS_NOT_REACHED;
}

int
psctl_usage(const struct ps_error *e)
{
    psctl_print(e);
    return STATUS_USAGE;
}

bool
psctl_agrees(const char *question)
{
    char line[16];

    if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1)
        return false;
    fprintf(stderr, "%s [y/N] ", question);
    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

int
psctl_status_of(const struct shard_answer *answers, uint32_t n)
{
    int status = EXIT_SUCCESS;

    for (uint32_t i = 0; i < n; i++) {
        if (!answers[i].reached && !is_refusal(answers[i].error.code))
            return STATUS_NOT_REACHED;
        if (!answers[i].reached)
            status = STATUS_REFUSED;
        if (status == EXIT_SUCCESS && answers[i].verified.mended + answers[i].verified.differ > 0)
            status = EXIT_FAILURE; /* psctl verify */
    }
    return status;
}

/* ---- commands to shards ---- */

void
psctl_print_answers(const struct psctl *p, const struct shard_answer *answers, uint32_t n, psctl_print_done say)
{
    char text[PS_ERROR_TEXT_MAX];

    for (uint32_t i = 0; i < n; i++) {
        const struct shard_answer *a = &answers[i];

        if (a->reached)
            say(p, a, text, sizeof text);
        printer_line(&p->printer, a->reached ? PAINT_PLAIN : PAINT_FAULT, "shard %u at %s: %s", a->shard, a->address,
                     a->reached ? text : a->error.text);
    }
}

int
psctl_print_error(struct psctl *p, enum query_kind kind, psctl_print_done say)
{
    struct shard_question question = {
        .kind = kind, .timeout_ms = (int)p->settings.timeout_ms, .work_ms = (int)p->work_ms};
    uint32_t shards = ps_cluster_shards(p->cluster);
    uint32_t first = p->one_shard ? (uint32_t)p->settings.shard : 0, n = p->one_shard ? 1 : shards;
    struct shard_answer *answers;
    struct ps_error e;
    int status;

    if (first >= shards) {
        (void)ps_fail(&e, PS_ERR_INVALID, "--shard %u: the cluster's shards are 0 to %u", first, shards - 1);
        return psctl_usage(&e);
    }
    if (query_all_shards(p->cluster, first, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    if (p->settings.json)
        render_json(p->command, answers, n, &p->printer);
    else
        psctl_print_answers(p, answers, n, say);
    status = psctl_status_of(answers, n);
    answers_free(answers, n);
    return status;
}

/* ---- one command ---- */

/* Files that options name are looked at before any shard is asked: clients would call them by variables. */
static enum ps_err
psctl_check_files(const struct psctl_settings *s, struct ps_error *e)
{
    const char *const files[][2] = {{"--tls-ca", s->tls_ca}, {"--tls-cert", s->tls_cert}, {"--tls-key", s->tls_key}};
    struct ps_error why;
    struct key key;
    enum ps_err err;

    if (s->token_file != NULL) {
        if ((err = token_read(&key, s->token_file, &why)) != PS_OK)
            return ps_fail(e, err, "--token-file: %s", why.text);
        key_finish(&key);
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (files[i][1] != NULL && access(files[i][1], R_OK) != 0)
            return ps_fail(e, PS_ERR_CONFIG, "%s: cannot read %.256s: %s", files[i][0], files[i][1], strerror(errno));
    return PS_OK;
}

/* Where all clients that psctl opens look, and no others. */
static bool
psctl_tls(const struct psctl_settings *s)
{
    const char *const said[][2] = {{"PSD_TLS_CA", s->tls_ca},
                                   {"PSD_TLS_CERT", s->tls_cert},
                                   {"PSD_TLS_KEY", s->tls_key},
                                   {"PSD_TLS_NAME", s->tls_name}};

    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (said[i][1] != NULL && setenv(said[i][0], said[i][1], 1) != 0)
            return false;
    return true;
}

/* The arguments that each command takes. */
static enum ps_err
psctl_check_words(enum psctl_word word, const struct command_line *line, const char *variables, struct ps_error *e)
{
    struct assignments assignments;
    uint32_t worker;

    switch (word) {
    case WORD_SET:
        return assignments_parse(line->words, line->len, variables, &assignments, e);
    case WORD_CHECKPOINT:
    case WORD_RESTORE:
    case WORD_REPLAY:
        if (line->len == 1 && line->words[0][0] != '\0')
            return PS_OK;
        return ps_fail(e, PS_ERR_INVALID, "%s: expected one directory", line->command->name);
    case WORD_EXPORT:
    case WORD_IMPORT:
        if (line->len == 1 && line->words[0][0] != '\0')
            return PS_OK;
        return ps_fail(e, PS_ERR_INVALID, "%s: expected one file", line->command->name);
    case WORD_EVICT:
        if (line->len == 1 && psctl_worker_number(line->words[0], &worker))
            return PS_OK;
        return ps_fail(e, PS_ERR_INVALID, "evict: expected one worker's number, as psctl workers shows it");
    case WORD_SNAPSHOT:
        if (line->len == 3 && strcmp(line->words[0], "diff") == 0)
            return PS_OK;
        return ps_fail(e, PS_ERR_INVALID, "snapshot: expected diff A B");
    default:
        return PS_OK;
    }
}

static enum ps_err
psctl_check(const struct psctl_settings *s, const struct command_line *line, struct ps_error *e)
{
    enum psctl_word word = (enum psctl_word)(line->command - psctl_commands);

    if (word == WORD_DRAIN && s->all == command_given(&psctl_command, line, "shard"))
        return ps_fail(e, PS_ERR_INVALID, "drain: expected either --shard N or --all");
    if (word == WORD_EXPORT && s->from_checkpoint != NULL && s->job != NULL)
        return ps_fail(e, PS_ERR_INVALID, "export: --from-checkpoint goes without --job: a checkpoint is of one job");
    if (word == WORD_DROP && s->job == NULL && s->variables == NULL)
        return ps_fail(e, PS_ERR_INVALID,
                       "drop: expected --job NAME, and --variables PATTERN for some of its "
                       "variables alone");
    if (s->check && (s->json || s->watch_ms > 0))
        return ps_fail(e, PS_ERR_INVALID, "--check goes with neither --json nor --watch");
    return psctl_check_words(word, line, s->variables, e);
}

/* trace asks only the shards that are named when it is given files. */
static bool
psctl_queries_shards(enum psctl_word word, const struct psctl_settings *s, const struct command_line *line)
{
    if (word == WORD_TRACE)
        return line->len == 0 || s->shards != NULL;
    if (word == WORD_EXPORT)
        return s->from_checkpoint == NULL;
    return word != WORD_REPLAY && word != WORD_SNAPSHOT;
}

/* Whether the command waits for disks, or for shards that start, or for much to be erased. */
static bool
psctl_is_slow(enum psctl_word word)
{
    return word == WORD_SAVE || word == WORD_VERIFY || word == WORD_DROP || word == WORD_CHECKPOINT ||
           word == WORD_RESTORE || word == WORD_EXPORT || word == WORD_IMPORT || word == WORD_WAIT;
}

static int
psctl_run(struct psctl *p, enum psctl_word word)
{
    const char *term = getenv("TERM");

    p->printer = (struct printer){.out = stdout,
                                  .colour = printer_coloured((enum colour_when)p->settings.colour,
                                                             isatty(STDOUT_FILENO) == 1, getenv("NO_COLOR"), term)};
    p->in_place = terminal_can(term);
    switch (word) {
    case WORD_TOP:
        return psctl_top(p);
    case WORD_SET:
        return psctl_set(p);
    case WORD_DRAIN:
        return psctl_drain(p);
    case WORD_EVICT:
        return psctl_evict(p);
    case WORD_DROP:
        return psctl_drop(p);
    case WORD_SAVE:
        return psctl_save(p);
    case WORD_VERIFY:
        return psctl_verify(p);
    case WORD_CHECKPOINT:
        return psctl_checkpoint(p);
    case WORD_RESTORE:
        return psctl_restore(p);
    case WORD_EXPORT:
        return psctl_export(p);
    case WORD_IMPORT:
        return psctl_import(p);
    case WORD_SNAPSHOT:
        return psctl_snapshot(p);
    case WORD_BENCH:
        return psctl_bench(p);
    case WORD_TRACE:
        return psctl_trace(p);
    case WORD_REPLAY:
        return psctl_replay(p);
    case WORD_WAIT:
        return psctl_wait(p);
    default:
        return psctl_query(p, (enum view_kind)word);
    }
}

/* A reader of half an answer must not take it for all of it. */
static bool
psctl_printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    interrupt_reader_gone();
    fprintf(stderr, "psctl: cannot write to standard output: %s\n", strerror(errno));
    return false;
}

int
main(int argc, char **argv)
{
    struct psctl p = {0};
    struct command_line line;
    ps_cluster *cluster = NULL;
    enum psctl_word word;
    struct ps_error e;
    enum ps_err err;
    int status;

    streams_open();
    err = command_parse(&psctl_command, argc, argv, &p.settings, &line, &e);
    if (err == PS_OK && line.asked != COMMAND_RUN)
        return command_answer(&psctl_command, &line, stdout);
    if (err == PS_OK)
        err = psctl_check(&p.settings, &line, &e);
    if (err != PS_OK)
        return psctl_usage(&e);
    if (psctl_check_files(&p.settings, &e) != PS_OK)
        return psctl_failed(&e);
    if (p.settings.token_file != NULL) { /* for all that asks shards */
        unsetenv("PSD_TOKEN");
        setenv("PSD_TOKEN_FILE", p.settings.token_file, 1);
    }
    word = (enum psctl_word)(line.command - psctl_commands);
    if (!psctl_tls(&p.settings)) {
        (void)ps_fail(&e, PS_ERR_NOMEM, "out of memory");
        return psctl_failed(&e);
    }
    if (psctl_queries_shards(word, &p.settings, &line))
        err = psctl_cluster(&p.settings, word != WORD_WAIT, &cluster, &e);
    if (err != PS_OK)
        return psctl_usage(&e);
    p.cluster = cluster;
    p.command = line.command->name;
    json_of = p.settings.json ? p.command : NULL;
    p.ranked = command_given(&psctl_command, &line, "top") || command_given(&psctl_command, &line, "by") ||
               command_given(&psctl_command, &line, "variables");
    p.words = line.words;
    p.words_len = line.len;
    p.one_shard = command_given(&psctl_command, &line, "shard");
    p.at_one_clock = command_given(&psctl_command, &line, "at-clock");
    p.work_ms = p.settings.timeout_ms;
    if (psctl_is_slow(word) && !command_given(&psctl_command, &line, "timeout"))
        p.work_ms = SLOW_TIMEOUT_MS;
    signal(SIGPIPE, SIG_IGN); /* interrupt_reader_gone() */
    status = psctl_run(&p, word);
    ps_cluster_free(cluster);
    return psctl_printed() ? status : STATUS_NOT_REACHED;
}
