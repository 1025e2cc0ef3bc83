/* Each worker, on each shard that knows it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/query/report_fields.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/views.h"
#include "client/tools/psctl/views/worker_sum.h"
#include "client/tools/shared/output.h"
#include "common/core/base/units.h"

static void
worker_row(struct text_table *t, const struct report_entry *p, bool named)
{
    const json_t *w = p->report;
    struct worker_sum one = {0};
    struct units u;

    worker_sum_add(&one, w);
    table_row(t);
    table_cell(t, "%s", named ? field_text(w, "job") : "");
    if (named)
        table_cell(t, "%" PRIu64, field_number(w, "task"));
    else
        table_cell(t, "%s", "");
    table_cell(t, "%u", p->shard);
    table_cell(t, "%s", worker_sum_state(&one));
    table_paint(t, one.lapsed && !one.finished ? PAINT_WARNING : PAINT_PLAIN);
    cell_count(t, field_number(w, "clock"));
    cell_count(t, field_number(w, "last_seq"));
    cell_count(t, field_number(w, "unresolved"));
    table_cell(t, "%s", units_duration(field_number(w, "silent_ms"), &u));
    table_cell(t, "%s", units_duration(field_number(w, "lease_ms"), &u));
    table_cell(t, "%s", field_text(w, "agent"));
}

void
view_workers(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    size_t len;
    struct report_entry *places = report_entries_gather(answers, n, "worker", &len);
    struct text_table *t;

    if (len == 0) {
        fprintf(page->out, "no workers\n");
        free(places);
        return;
    }
    t = table_of(output_workers, "lrrlrrrrrl");
    for (size_t i = 0; i < len; i++)
        worker_row(t, &places[i], i == 0 || !report_entry_same(&places[i - 1], &places[i]));
    table_print_free(t, page);
    free(places);
}
