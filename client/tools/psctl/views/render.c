#include "client/tools/psctl/views/render.h"

#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/views/views.h"
#include "common/core/base/utf8.h"

static const char *const render_names[VIEWS] = {
    [VIEW_STATUS] = "status",   [VIEW_VARIABLES] = "variables", [VIEW_STATS] = "stats", [VIEW_WORKERS] = "workers",
    [VIEW_BLOCKED] = "blocked", [VIEW_JOBS] = "jobs",           [VIEW_PING] = "ping"};

const char *
render_name(enum view_kind kind)
{
    ps_assert(kind < VIEWS);
    return render_names[kind];
}

void
render_unreached(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    for (uint32_t i = 0; i < n; i++)
        if (!answers[i].reached)
            printer_line(page, PAINT_FAULT, "not reached: shard %u at %s: %s", answers[i].shard, answers[i].address,
                         answers[i].error.text);
}

void
render_tables(enum view_kind kind, const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    static void (*const prints[VIEWS])(const struct shard_answer *answers, uint32_t n, const struct printer *page) = {
        [VIEW_STATUS] = view_status,   [VIEW_VARIABLES] = view_variables, [VIEW_STATS] = view_stats,
        [VIEW_WORKERS] = view_workers, [VIEW_BLOCKED] = view_blocked,     [VIEW_JOBS] = view_jobs,
        [VIEW_PING] = view_ping,
    };
    bool any = false;

    ps_assert(kind < VIEWS);
    for (uint32_t i = 0; i < n; i++)
        any = any || answers[i].reached;
    if (any || kind == VIEW_STATUS)
        prints[kind](answers, n, page);
    render_unreached(answers, n, page);
}

json_t *
render_text(const char *text)
{
    char *clean = strdup(text);
    json_t *string;

    if (clean == NULL)
        return NULL;
    utf8_clean(clean);
    string = json_string(clean);
    free(clean);
    return string;
}

static json_t *
error_json(const struct ps_error *e)
{
    return json_pack("{s:s,s:o,s:o}", "code", ps_err_name(e->code), "text", render_text(e->text), "peer",
                     render_text(e->peer));
}

static json_t *
ping_json(const struct shard_answer *a)
{
    struct ping_summary s = ping_sum_up(a);

    return json_pack("{s:i,s:f,s:f,s:f}", "count", (int)a->pings_len, "min_us", s.least, "median_us", s.median,
                     "max_us", s.most);
}

static json_t *
saved_json(const struct ps_save_report *s)
{
    return json_pack("{s:I,s:I,s:I,s:I}", "save", (json_int_t)s->save, "blocks", (json_int_t)s->blocks, "bytes",
                     (json_int_t)s->bytes, "ms", (json_int_t)s->ms);
}

static json_t *
verified_json(const struct ps_verify_report *r)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:I}", "save", (json_int_t)r->save, "blocks", (json_int_t)r->blocks,
                     "verified", (json_int_t)r->verified, "mended", (json_int_t)r->mended, "differ",
                     (json_int_t)r->differ, "first_mended", render_text(r->first_mended), "first_differs",
                     render_text(r->first_differs), "ms", (json_int_t)r->ms);
}

static json_t *
dropped_json(const struct ps_drop_report *r)
{
    return json_pack("{s:b,s:I,s:I,s:I,s:I,s:I,s:b}", "found", r->found, "variables", (json_int_t)r->variables,
                     "blocks", (json_int_t)r->blocks, "bytes", (json_int_t)r->bytes, "workers", (json_int_t)r->workers,
                     "connected", (json_int_t)r->connected, "kept", r->kept);
}

static json_t *
evicted_json(const struct ps_evict_report *r)
{
    return json_pack("{s:b,s:b,s:I,s:o}", "found", r->found, "live", r->live, "clock", (json_int_t)r->clock, "agent",
                     render_text(r->agent));
}

static json_t *
answer_json(const struct shard_answer *a, bool reports)
{
    json_t *object =
        json_pack("{s:i,s:o,s:b}", "shard", (int)a->shard, "address", render_text(a->address), "reached", a->reached);

    if (!a->reached)
        json_object_set_new(object, "error", error_json(&a->error));
    if (a->report != NULL && reports)
        json_object_set(object, "report", a->report);
    if (a->pings_len > 0)
        json_object_set_new(object, "ping", ping_json(a));
    if (a->saved.save > 0)
        json_object_set_new(object, "saved", saved_json(&a->saved));
    if (a->kind == QUERY_VERIFY && a->reached)
        json_object_set_new(object, "verified", verified_json(&a->verified));
    if (a->kind == QUERY_EVICT && a->reached)
        json_object_set_new(object, "evicted", evicted_json(&a->evicted));
    if (a->kind == QUERY_DROP && a->reached)
        json_object_set_new(object, "dropped", dropped_json(&a->dropped));
    return object;
}

json_t *
render_document(const char *command, const struct shard_answer *answers, uint32_t n, bool reports)
{
    json_t *shards = json_array();
    int not_reached = 0;

    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(shards, answer_json(&answers[i], reports));
        not_reached += !answers[i].reached;
    }
    return json_pack("{s:s,s:o,s:i}", "command", command, "shards", shards, "not_reached", not_reached);
}

json_t *
render_error_document(const char *command, const struct ps_error *e)
{
    return json_pack("{s:s,s:o}", "command", command, "error", error_json(e));
}

void
render_print_document(json_t *document, const struct printer *page)
{
    json_dumpf(document, page->out, JSON_INDENT(2));
    fputc('\n', page->out);
    json_decref(document);
}

/* ---- Documents with variables, which are made into JSON one at a time ---- */

struct render_stream {
    const struct shard_answer *answers;
    uint32_t n;
    FILE *out;
};

static void stream_value(const struct render_stream *x, const json_t *value, int depth);

static void
stream_line(const struct render_stream *x, bool first, int depth)
{
    fprintf(x->out, "%s\n%*s", first ? "" : ",", 2 * depth, "");
}

static void
stream_object(const struct render_stream *x, const json_t *object, int depth)
{
    const char *name;
    json_t *value;
    bool first = true;

    fputc('{', x->out);
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        stream_line(x, first, depth + 1);
        fprintf(x->out, "\"%s\": ", name); /* names are psd.proto's and psctl's */
        stream_value(x, value, depth + 1);
        first = false;
    }
    if (!first)
        fprintf(x->out, "\n%*s", 2 * depth, "");
    fputc('}', x->out);
}

/* The variables of the shard in whose report this list is; NULL: it is another list. */
static const struct variable_list *
stream_rows(const struct render_stream *x, const json_t *list)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->answers[i].variables != NULL && json_object_get(x->answers[i].report, "variable") == list)
            return x->answers[i].variables;
    return NULL;
}

static void
stream_list(const struct render_stream *x, const json_t *list, int depth)
{
    const struct variable_list *rows = stream_rows(x, list);
    size_t len = rows != NULL ? rows->len : json_array_size(list);

    fputc('[', x->out);
    for (size_t i = 0; i < len; i++) {
        json_t *value = rows != NULL ? json_loads(rows->rows[i].json, 0, NULL) : json_incref(json_array_get(list, i));

        stream_line(x, i == 0, depth + 1);
        stream_value(x, value, depth + 1);
        json_decref(value);
    }
    if (len > 0)
        fprintf(x->out, "\n%*s", 2 * depth, "");
    fputc(']', x->out);
}

/* As jansson prints it with JSON_INDENT(2). */
static void
stream_value(const struct render_stream *x, const json_t *value, int depth)
{
    if (json_is_object(value))
        stream_object(x, value, depth);
    else if (json_is_array(value))
        stream_list(x, value, depth);
    else
        json_dumpf(value, x->out, JSON_ENCODE_ANY);
}

void
render_print_answers(json_t *document, const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    const struct render_stream x = {.answers = answers, .n = n, .out = page->out};

    stream_value(&x, document, 0);
    fputc('\n', page->out);
    json_decref(document);
}

void
render_json(const char *command, const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    render_print_answers(render_document(command, answers, n, true), answers, n, page);
}
