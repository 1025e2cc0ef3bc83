/* psctl trace: the timelines of the shards, queried now, and those that workers and shards have written, as one file
 * for Chrome and Perfetto; and where the time went. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/trace_merge.h"
#include "client/tools/psctl/trace_table.h"
#include "common/core/base/file_kind.h"
#include "common/system/input_file.h"
#include "common/system/trace_file.h"

/* ---- Shards ---- */

static uint64_t
number_at(const json_t *timeline, const char *member, size_t i)
{
    return (uint64_t)json_integer_value(json_array_get(json_object_get(timeline, member), i));
}

static struct timeline_span
span_at(const json_t *timeline, size_t i)
{
    uint64_t start_ns = number_at(timeline, "start_ns", i);

    return (struct timeline_span){.start_ns = start_ns,
                                  .end_ns = start_ns + number_at(timeline, "took_ns", i),
                                  .step = number_at(timeline, "step", i),
                                  .bytes = number_at(timeline, "bytes", i),
                                  .kind = (uint32_t)number_at(timeline, "what", i),
                                  .task = (uint32_t)number_at(timeline, "task", i) - 1, /* 0 becomes no worker */
                                  .commit_ns = (uint32_t)number_at(timeline, "commit_ns", i),
                                  .answer_ns = (uint32_t)number_at(timeline, "answer_ns", i)};
}

static void
add_shard(struct trace_merge *o, const struct shard_answer *a, const struct trace_origin *here)
{
    const json_t *timeline = json_object_get(a->report, "timeline");
    const char *machine = json_string_value(json_object_get(timeline, "machine"));
    size_t n = json_array_size(json_object_get(timeline, "start_ns"));
    struct timeline_span *spans = malloc(MAX(n, 1) * sizeof *spans);
    struct trace_origin origin = {.origin_ns = (uint64_t)json_integer_value(json_object_get(timeline, "now_ns"))};
    struct trace t = {0};
    char name[32];

    snprintf(origin.machine, sizeof origin.machine, "%s", machine != NULL ? machine : "");
    origin.wall_ns = here->wall_ns + ((int64_t)origin.origin_ns - a->ahead_ns - (int64_t)here->origin_ns);
    for (size_t i = 0; spans != NULL && i < n; i++)
        spans[i] = span_at(timeline, i);
    trace_origin_move(&origin, trace_first_ns(spans, spans != NULL ? n : 0, origin.origin_ns));
    snprintf(name, sizeof name, "shard %u", a->shard);
    if (spans != NULL && trace_init(&t, &origin) == PS_OK) {
        trace_name_process(&t, TRACE_SHARD_PID + a->shard, name);
        trace_shard(&t, TRACE_SHARD_PID + a->shard, spans, n);
    }
    free(spans);
    if (t.events == NULL)
        return;
    if (origin.machine[0] != '\0' && strcmp(origin.machine, here->machine) != 0)
        trace_merge_knows(o, here->machine, origin.machine, a->ahead_ns);
    trace_merge_add(o, t.events, &origin, name);
}

/* ---- Files ---- */

/* What is in a file that is no JSON; a line and a column are said where there are some. */
static enum ps_err
trace_refuse(const char *path, int fd, const json_error_t *where, struct ps_error *e)
{
    char first[16];
    ssize_t n = pread(fd, first, sizeof first, 0);
    enum ps_err err = file_kind_check_text(path, first, (size_t)MAX(n, (ssize_t)0), PS_ERR_DATA, e);

    if (err != PS_OK)
        return err;
    if (n == 0)
        return ps_fail(e, PS_ERR_DATA, "%s: it is empty", path);
    if (where->line < 1)
        return ps_fail(e, PS_ERR_DATA, "%s: it is no valid JSON: %s", path, where->text);
    return ps_fail(e, PS_ERR_DATA, "%s:%d:%d: it is no valid JSON: %s", path, where->line, where->column, where->text);
}

static enum ps_err
trace_load(const char *path, json_t **out, struct ps_error *e)
{
    enum ps_err err;
    json_error_t where;
    int fd;

    *out = NULL;
    if ((err = input_file_open(path, INPUT_FILE_WAIT_MS, &fd, e)) != PS_OK)
        return err;
    if ((*out = json_loadfd(fd, 0, &where)) == NULL)
        err = trace_refuse(path, fd, &where, e);
    close(fd);
    return err;
}

static enum ps_err
add_file(struct trace_merge *o, const char *path, struct ps_error *e)
{
    json_t *trace;
    enum ps_err err;

    if ((err = trace_load(path, &trace, e)) != PS_OK)
        return err;
    err = trace_merge_add_file(o, trace, path, e);
    json_decref(trace);
    return err;
}

/* ---- The command ---- */

static void
trace_show(const struct psctl *p, const struct trace *all, const char *unsure, const struct shard_answer *answers,
           uint32_t n)
{
    if (p->settings.json) {
        json_t *document = json_pack("{s:s, s:o*, s:o*}", "command", p->command, "output",
                                     p->settings.output != NULL ? render_text(p->settings.output) : NULL, "unsure",
                                     unsure != NULL ? json_string(unsure) : NULL);
        json_t *spent = trace_table_json(all->events);

        json_object_update(document, spent);
        json_decref(spent);
        render_print_document(document, &p->printer);
        return;
    }
    if (json_array_size(all->events) == 0)
        printf("nothing was kept\n");
    trace_table_print(all->events, &p->printer);
    render_unreached(answers, n, &p->printer);
    if (unsure != NULL)
        printer_line(&p->printer, PAINT_WARNING,
                     "the clock of %s was not compared with the others': it lies where its wall clock says", unsure);
}

static enum ps_err
trace_gather(const struct psctl *p, struct trace_merge *o, struct shard_answer **answers, uint32_t n,
             struct ps_error *e)
{
    struct shard_question question = {.queries = QUERY_BIT(PS_QUERY_TIMELINE),
                                      .timeout_ms = (int)p->settings.timeout_ms};
    struct trace_origin here;
    enum ps_err err = PS_OK;

    trace_origin_here(&here);
    if (n > 0)
        err = query_all_shards(p->cluster, 0, n, &question, answers, e);
    for (uint32_t i = 0; err == PS_OK && i < n; i++)
        if ((*answers)[i].reached)
            add_shard(o, &(*answers)[i], &here);
    for (int i = 0; err == PS_OK && i < p->words_len; i++)
        err = add_file(o, p->words[i], e);
    return err;
}

int
psctl_trace(struct psctl *p)
{
    uint32_t n = p->cluster != NULL ? ps_cluster_shards(p->cluster) : 0;
    struct trace_merge *o = trace_merge_new();
    struct shard_answer *answers = NULL;
    const char *unsure;
    struct ps_error e;
    enum ps_err err = trace_gather(p, o, &answers, n, &e);
    int status = EXIT_SUCCESS;

    if (err == PS_OK) {
        struct trace all = trace_merge_finish(o, (uint64_t)p->settings.seconds_ms * 1000000, &unsure);

        if (p->settings.output != NULL)
            err = trace_write(&all, p->settings.output, &e);
        if (err == PS_OK)
            trace_show(p, &all, unsure, answers, n);
        trace_finish(&all);
    }
    if (err == PS_OK)
        status = psctl_status_of(answers, n);
    else
        status = err == PS_ERR_DATA ? psctl_usage(&e) : psctl_failed(&e);
    answers_free(answers, n);
    trace_merge_free(o);
    return status;
}
