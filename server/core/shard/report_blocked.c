/* The waits of wait_report.h, as a report. */
#include <string.h>

#include "server/core/shard/report_builder.h"
#include "server/core/shard/wait_report.h"
#include "server/core/shard_state.h"

static bool
report_blocked_row(void *arg, const struct waiting *w)
{
    struct report_builder *b = arg;
    Psd__Report *r = b->report;
    Psd__BlockedReport *m = report_zeroed(b->s, sizeof *m);
    uint32_t *on_task = report_zeroed(b->s, MAX(w->on_len, UINT32_C(1)) * sizeof *on_task);
    uint64_t *on_at = report_zeroed(b->s, MAX(w->on_len, UINT32_C(1)) * sizeof *on_at);

    if (m == NULL || on_task == NULL || on_at == NULL)
        return false;
    psd__blocked_report__init(m);
    m->on_task = memcpy(on_task, w->on_task, w->on_len * sizeof *on_task);
    m->n_on_task = w->on_len;
    m->on_at = memcpy(on_at, w->on_at, w->on_len * sizeof *on_at);
    m->n_on_at = w->on_len;
    m->job = (char *)(uintptr_t)w->job;
    m->task = w->task;
    m->what = report_text(b->s, w->what);
    m->variable = (char *)(uintptr_t)w->variable;
    m->clock = w->clock;
    m->on_clock = w->on_clock;
    m->waited_ms = w->waited_ms;
    m->who = report_text(b->s, w->who);
    m->on = report_text(b->s, w->on);
    if (r->n_blocked == REPORT_WAITS_MAX || !report_fits(b, &m->base)) {
        r->more = true;
        return false;
    }
    r->blocked[r->n_blocked++] = m;
    return true;
}

void
report_blocked(struct report_builder *b)
{
    struct shard *s = b->s;

    if ((b->report->blocked = report_zeroed(s, REPORT_WAITS_MAX * sizeof(Psd__BlockedReport *))) != NULL)
        wait_report_each(s, s->now_ms, b->job, report_blocked_row, b);
}
