/* Which workers wait, and for which. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/query/report_fields.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/views.h"
#include "client/tools/shared/output.h"
#include "common/core/base/units.h"

/* "worker 2", "workers 0, 3", "workers 0, 1, 2 ..." when there is no space for all. */
static void
blocked_on(const json_t *tasks, char *out, size_t size)
{
    static const char more[] = " ...";
    const json_t *task;
    size_t i, at;

    if (json_array_size(tasks) == 0) {
        snprintf(out, size, "-");
        return;
    }
    at = (size_t)snprintf(out, size, "worker%s ", json_array_size(tasks) == 1 ? "" : "s");
    json_array_foreach(tasks, i, task)
    {
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i > 0 ? ", " : "", (long long)json_integer_value(task));
        if (at + 24 + sizeof more > size) {
            snprintf(out + at, size - at, "%s", i + 1 < json_array_size(tasks) ? more : "");
            return;
        }
    }
}

/* No clock ends it. */
static bool
blocked_in_barrier(const json_t *report)
{
    return strncmp(field_text(report, "what"), "barrier", strlen("barrier")) == 0;
}

void
blocked_for(const json_t *report, char *out, size_t size)
{
    if (*field_text(report, "on") != '\0')
        snprintf(out, size, "%s", field_text(report, "on"));
    else
        blocked_on(json_object_get(report, "on_task"), out, size);
}

bool
blocked_has_clock(const json_t *report)
{
    return !blocked_in_barrier(report) && strncmp(field_text(report, "what"), "meeting", strlen("meeting")) != 0 &&
           (*field_text(report, "on") == '\0' || field_number(report, "on_clock") != 0);
}

static void
blocked_row(struct text_table *t, const struct report_entry *p)
{
    const json_t *b = p->report;
    const char *variable = field_text(b, "variable"), *who = field_text(b, "who");
    char on[256];
    struct units u;

    blocked_for(b, on, sizeof on);
    table_row(t);
    table_cell(t, "%s", *field_text(b, "job") != '\0' ? field_text(b, "job") : "-");
    if (*who != '\0')
        table_cell(t, "%s", who);
    else
        table_cell(t, "%" PRIu64, field_number(b, "task"));
    table_cell(t, "%s", field_text(b, "what"));
    cell_count(t, field_number(b, "clock"));
    table_cell(t, "%s", on);
    if (blocked_has_clock(b))
        cell_count(t, field_number(b, "on_clock"));
    else
        table_cell(t, "-");
    table_cell(t, "%s", units_duration(field_number(b, "waited_ms"), &u));
    table_cell(t, "%u", p->shard);
    table_cell(t, "%s", *variable != '\0' ? variable : "-");
}

static bool
all_reached(const struct shard_answer *answers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!answers[i].reached)
            return false;
    return true;
}

/* Workers with variables on it wait for it, and it reports none of them. */
static void
blocked_by_unreached(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    for (uint32_t i = 0; i < n; i++)
        if (!answers[i].reached)
            printer_line(page, PAINT_FAULT, "all workers with variables on shard %" PRIu32 " wait for that shard",
                         answers[i].shard);
}

void
view_blocked(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    size_t len;
    struct report_entry *places = report_entries_gather(answers, n, "blocked", &len);
    struct text_table *t;

    if (len == 0) {
        if (all_reached(answers, n))
            fprintf(page->out, "nobody waits\n");
        blocked_by_unreached(answers, n, page);
        free(places);
        return;
    }
    t = table_of(output_blocked, "lrlrlrrrl");
    for (size_t i = 0; i < len; i++)
        blocked_row(t, &places[i]);
    table_print_free(t, page);
    free(places);
    for (uint32_t i = 0; i < n; i++)
        if (json_is_true(json_object_get(answers[i].report, "more")))
            fprintf(page->out, "shard %" PRIu32 ": more wait than a report holds; these are the first\n",
                    answers[i].shard);
    blocked_by_unreached(answers, n, page);
}
