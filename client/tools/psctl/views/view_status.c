/* Each shard: since when, how much it holds, what is in flight. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/tools/psctl/query/report_fields.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/health.h"
#include "client/tools/psctl/views/views.h"
#include "client/tools/shared/output.h"
#include "common/core/base/units.h"

/* Mark a store that is nearly full. */
static void
status_memory(struct text_table *t, const json_t *s)
{
    uint64_t used = field_number(s, "store_bytes"), max = field_number(s, "store_bytes_max");
    unsigned percent = health_store_percent(s);
    struct units a, b;

    if (percent < HEALTH_STORE_WARN) {
        cell_of(t, used, max);
        return;
    }
    table_cell(t, "%s of %s, %u %%", units_bytes(used, &a), units_bytes(max, &b), percent);
    table_paint(t, percent < HEALTH_STORE_FULL ? PAINT_WARNING : PAINT_FAULT);
}

/* "3, 12s ago", what runs now, and what is wrong. */
static void
status_saved(struct text_table *t, const json_t *s)
{
    const json_t *save = json_object_get(s, "save");
    uint64_t blocks = field_number(save, "blocks"), done = field_number(save, "blocks_done");
    char now[64] = "", when[96] = "never";
    struct units u;

    if (!json_is_object(save)) {
        table_cell(t, "-");
        return;
    }
    if (field_number(save, "save") > 0)
        snprintf(when, sizeof when, "%" PRIu64, field_number(save, "save"));
    if (field_number(save, "saves") > 0)
        snprintf(when, sizeof when, "%" PRIu64 ", %s ago", field_number(save, "save"),
                 units_duration(field_number(save, "since_ms"), &u));
    if (field_flag(save, "running"))
        snprintf(now, sizeof now, "; saving, %" PRIu64 " %%", blocks > 0 ? done * 100 / blocks : 100);
    if (field_text(save, "failure")[0] != '\0') {
        table_cell(t, "%s%s; failed: %s", when, now, field_text(save, "failure"));
        table_paint(t, PAINT_FAULT);
    } else {
        table_cell(t, "%s%s", when, now);
    }
}

static void
status_row(struct text_table *t, const struct shard_answer *a)
{
    const json_t *s = json_object_get(a->report, "status");
    struct units u;

    table_row(t);
    table_cell(t, "%u", a->shard);
    table_cell(t, "%s", a->address);
    if (!a->reached) {
        table_cell(t, "not reached");
        table_paint(t, PAINT_FAULT);
        return;
    }
    table_cell(t, "%s", field_flag(s, "draining") ? "draining" : "serving");
    table_paint(t, field_flag(s, "draining") ? PAINT_WARNING : PAINT_PLAIN);
    table_cell(t, "%s", units_duration(field_number(s, "uptime_ms"), &u));
    table_cell(t, "%" PRIu64, field_number(s, "pid"));
    cell_count(t, field_number(s, "workers"));
    cell_count(t, field_number(s, "variables"));
    cell_count(t, field_number(s, "blocks"));
    cell_bytes(t, field_number(s, "data_bytes"));
    status_memory(t, s);
    cell_of(t, field_number(s, "in_flight_bytes"), field_number(s, "in_flight_bytes_max"));
    cell_count(t, field_number(s, "connections"));
    status_saved(t, s);
}

/* The figures that can be added up over shards; workers and variables are counted by each of them. */
static void
status_total(struct text_table *t, const struct shard_answer *answers, uint32_t n)
{
    uint64_t blocks = 0, data = 0, store = 0, store_max = 0, in_flight = 0, in_flight_max = 0, connections = 0;

    for (uint32_t i = 0; i < n; i++) {
        const json_t *s = json_object_get(answers[i].report, "status");

        blocks += field_number(s, "blocks");
        data += field_number(s, "data_bytes");
        store += field_number(s, "store_bytes");
        store_max += field_number(s, "store_bytes_max");
        in_flight += field_number(s, "in_flight_bytes");
        in_flight_max += field_number(s, "in_flight_bytes_max");
        connections += field_number(s, "connections");
    }
    table_row(t);
    table_cell(t, "all");
    for (int empty = 0; empty < 6; empty++)
        table_cell(t, "%s", "");
    cell_count(t, blocks);
    cell_bytes(t, data);
    cell_of(t, store, store_max);
    cell_of(t, in_flight, in_flight_max);
    cell_count(t, connections);
}

/* A list in the wrong order, or with a shard of another cluster, is a mistake that makes workers fail. */
static void
status_warn(const struct shard_answer *a, uint32_t n, const char *cluster, const struct printer *page)
{
    const json_t *s = json_object_get(a->report, "status");

    if (field_number(s, "shard") != a->shard || field_number(s, "shards") != n)
        printer_line(page, PAINT_WARNING,
                     "warning: %s says that it is shard %" PRIu64 " of %" PRIu64 ", but is listed as shard %u of %u",
                     a->address, field_number(s, "shard"), field_number(s, "shards"), a->shard, n);
    if (strcmp(field_text(s, "cluster"), cluster) != 0)
        printer_line(page, PAINT_WARNING, "warning: %s belongs to cluster \"%s\", the first shard to \"%s\"",
                     a->address, field_text(s, "cluster"), cluster);
}

/* The first that answered; NULL: none. */
static const json_t *
status_first(const struct shard_answer *answers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].reached)
            return json_object_get(answers[i].report, "status");
    return NULL;
}

void
view_status(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    struct text_table *t = table_of(output_status, "rllrrrrrrrrrl");
    const json_t *first = status_first(answers, n);

    if (first != NULL)
        printer_line(page, PAINT_PLAIN, "cluster \"%s\" of %" PRIu64 " shard%s, psd %s", field_text(first, "cluster"),
                     field_number(first, "shards"), field_number(first, "shards") == 1 ? "" : "s",
                     field_text(first, "version"));
    if (first != NULL)
        fputc('\n', page->out);
    for (uint32_t i = 0; i < n; i++)
        status_row(t, &answers[i]);
    if (n > 1)
        status_total(t, answers, n);
    table_print_free(t, page);
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].reached)
            status_warn(&answers[i], n, field_text(first, "cluster"), page);
}
