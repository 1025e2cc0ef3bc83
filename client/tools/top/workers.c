/* Each worker, over all shards: its clock, how far it is behind, and whom it waits for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/top/sections.h"
#include "client/tools/views/cells.h"
#include "client/tools/views/views.h"
#include "common/units.h"

static bool
same_job(const json_t *a, const json_t *b)
{
    return strcmp(member_text(a, "job"), member_text(b, "job")) == 0;
}

static void
worker_add(struct top_worker *w, const json_t *report)
{
    bool first = w->first == NULL;

    if (first)
        w->first = report;
    w->connected = (first || w->connected) && member_flag(report, "connected");
    w->lapsed = w->lapsed || member_flag(report, "lapsed");
    w->finished = w->finished || member_flag(report, "finished");
    w->clock = first ? member_number(report, "clock") : MIN(w->clock, member_number(report, "clock"));
    w->unresolved += member_number(report, "unresolved");
}

const char *
top_worker_state(const struct top_worker *w)
{
    if (w->finished)
        return "finished";
    if (w->lapsed)
        return "lapsed";
    return w->connected ? "live" : "away";
}

/* Those that have finished hold nobody back and are not behind. */
static void
workers_lag(struct top_worker *workers, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint64_t fastest = 0;

        for (size_t j = 0; j < len; j++)
            if (same_job(workers[i].first, workers[j].first))
                fastest = MAX(fastest, workers[j].clock);
        workers[i].lag = workers[i].finished ? 0 : fastest - workers[i].clock;
    }
}

static void
worker_waits(struct top_worker *w, const struct sample *now)
{
    const json_t *b;
    size_t j;

    for (uint32_t i = 0; i < now->n; i++) {
        json_array_foreach(answer_list(&now->answers[i], "blocked"), j, b)
        {
            if (same_job(b, w->first) && member_number(b, "task") == member_number(w->first, "task") &&
                (w->waits == NULL || member_number(b, "waited_ms") > member_number(w->waits, "waited_ms")))
                w->waits = b;
        }
    }
}

struct top_worker *
top_workers(const struct sample *now, size_t *len)
{
    size_t places_len;
    struct place *places = places_gather(now->answers, now->n, "worker", &places_len);
    struct top_worker *workers = calloc(places_len + 1, sizeof *workers);

    *len = 0;
    for (size_t i = 0; workers != NULL && i < places_len; i++) {
        if (i == 0 || !place_same(&places[i - 1], &places[i]))
            ++*len;
        worker_add(&workers[*len - 1], places[i].report);
    }
    workers_lag(workers, *len);
    for (size_t i = 0; i < *len; i++)
        worker_waits(&workers[i], now);
    free(places);
    return workers;
}

/* ---- the table ---- */

static int
compare_name(const void *a, const void *b)
{
    const struct top_worker *x = a, *y = b;
    int order = strcmp(member_text(x->first, "job"), member_text(y->first, "job"));
    uint64_t i = member_number(x->first, "task"), j = member_number(y->first, "task");

    return order != 0 ? order : (i > j) - (i < j);
}

/* Those that others wait for first: the furthest behind; those that have finished last. */
static int
compare_behind(const void *a, const void *b)
{
    const struct top_worker *x = a, *y = b;

    if (x->finished != y->finished)
        return x->finished - y->finished;
    return x->lag != y->lag ? (x->lag < y->lag) - (x->lag > y->lag) : compare_name(a, b);
}

/* "pull: worker 2, until clock 15, 2.1 s" */
static void
cell_waits(struct table *t, const json_t *waits)
{
    char on[128], until[64] = "";
    struct units u;

    if (waits == NULL) {
        table_cell(t, "-");
        return;
    }
    blocked_on(json_object_get(waits, "on_task"), on, sizeof on);
    if (!blocked_in_barrier(waits))
        snprintf(until, sizeof until, " until clock %" PRIu64, member_number(waits, "on_clock"));
    table_cell(t, "%s: %s%s, %s", member_text(waits, "what"), on, until,
               units_duration(member_number(waits, "waited_ms"), &u));
}

struct table *
top_workers_table(struct top_worker *workers, size_t len, enum top_sort sort, size_t shown)
{
    struct table *t = table_new("JOB", "WORKER>", "STATE", "CLOCK>", "BEHIND>", "UNANSWERED>", "WAITS IN, FOR", NULL);

    if (len > 0)
        qsort(workers, len, sizeof *workers, sort == TOP_BY_NAME ? compare_name : compare_behind);
    for (size_t i = 0; i < MIN(len, shown); i++) {
        const struct top_worker *w = &workers[i];

        table_row(t);
        table_cell(t, "%s", member_text(w->first, "job"));
        table_cell(t, "%" PRIu64, member_number(w->first, "task"));
        table_cell(t, "%s", top_worker_state(w));
        table_paint(t, w->lapsed && !w->finished ? PAINT_WARNING : PAINT_PLAIN);
        cell_count(t, w->clock);
        cell_count(t, w->lag);
        cell_count(t, w->unresolved);
        cell_waits(t, w->waits);
    }
    return t;
}
