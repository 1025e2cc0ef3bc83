/* Each worker, over all shards: its clock, how far it is behind, and which workers it waits for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/top/sections.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/views.h"
#include "client/tools/shared/output.h"
#include "common/core/base/units.h"

static bool
same_job(const json_t *a, const json_t *b)
{
    return strcmp(field_text(a, "job"), field_text(b, "job")) == 0;
}

/* Those that have finished delay no worker and are not behind. */
static void
workers_lag(struct top_worker *workers, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint64_t fastest = 0;

        for (size_t j = 0; j < len; j++)
            if (same_job(workers[i].sum.first, workers[j].sum.first))
                fastest = MAX(fastest, workers[j].sum.clock);
        workers[i].lag = workers[i].sum.finished ? 0 : fastest - workers[i].sum.clock;
    }
}

static void
worker_waits(struct top_worker *w, const struct answer_sample *now)
{
    const json_t *b;
    size_t j;

    for (uint32_t i = 0; i < now->n; i++) {
        json_array_foreach(answer_list(&now->answers[i], "blocked"), j, b)
        {
            if (*field_text(b, "who") == '\0' && same_job(b, w->sum.first) &&
                field_number(b, "task") == field_number(w->sum.first, "task") &&
                (w->waits == NULL || field_number(b, "waited_ms") > field_number(w->waits, "waited_ms")))
                w->waits = b;
        }
    }
}

struct top_worker *
top_workers(const struct top_source *src, size_t *len)
{
    struct top_worker *workers = calloc(src->workers_len + 1, sizeof *workers);

    *len = 0;
    for (size_t i = 0; workers != NULL && i < src->workers_len; i++) {
        bool over = top_is_over(src, field_text(src->workers[i].first, "job"));

        if (over && !src->all)
            continue;
        workers[*len] = (struct top_worker){.sum = src->workers[i], .over = over};
        worker_waits(&workers[(*len)++], src->now);
    }
    workers_lag(workers, *len);
    return workers;
}

/* ---- the table ---- */

static int
compare_job(const void *a, const void *b)
{
    const struct top_worker *x = a, *y = b;
    int order = strcmp(field_text(x->sum.first, "job"), field_text(y->sum.first, "job"));
    uint64_t i = field_number(x->sum.first, "task"), j = field_number(y->sum.first, "task");

    return order != 0 ? order : (i > j) - (i < j);
}

static int
compare_name(const void *a, const void *b)
{
    const struct top_worker *x = a, *y = b;

    return x->over != y->over ? x->over - y->over : compare_job(a, b);
}

/* Those that others wait for first: the furthest behind; those that have finished last, those of jobs that are over
 * behind them. */
static int
compare_behind(const void *a, const void *b)
{
    const struct top_worker *x = a, *y = b;

    if (x->over != y->over)
        return x->over - y->over;
    if (x->sum.finished != y->sum.finished)
        return x->sum.finished - y->sum.finished;
    return x->lag != y->lag ? (x->lag < y->lag) - (x->lag > y->lag) : compare_job(a, b);
}

/* "pull: worker 2, until clock 15, 2.1 s" */
static void
cell_waits(struct text_table *t, const json_t *waits)
{
    char on[128], until[64] = "";
    struct units u;

    if (waits == NULL) {
        table_cell(t, "-");
        return;
    }
    blocked_for(waits, on, sizeof on);
    if (blocked_has_clock(waits))
        snprintf(until, sizeof until, " until clock %" PRIu64, field_number(waits, "on_clock"));
    table_cell(t, "%s: %s%s, %s", field_text(waits, "what"), on, until,
               units_duration(field_number(waits, "waited_ms"), &u));
}

struct text_table *
top_workers_table(struct top_worker *workers, size_t len, enum top_sort sort, size_t shown)
{
    struct text_table *t = table_of(output_top_workers, "lrlrrrl");

    if (len > 0)
        qsort(workers, len, sizeof *workers, sort == TOP_BY_NAME ? compare_name : compare_behind);
    for (size_t i = 0; i < MIN(len, shown); i++) {
        const struct top_worker *w = &workers[i];

        table_row(t);
        table_cell(t, "%s", field_text(w->sum.first, "job"));
        table_cell(t, "%" PRIu64, field_number(w->sum.first, "task"));
        table_cell(t, "%s", worker_sum_state(&w->sum));
        table_paint(t, w->sum.lapsed && !w->sum.finished ? PAINT_WARNING : PAINT_PLAIN);
        cell_count(t, w->sum.clock);
        cell_count(t, w->lag);
        cell_count(t, w->sum.unresolved);
        cell_waits(t, w->waits);
        if (w->over)
            table_dim(t);
    }
    return t;
}
