/* The shard's timeline. Turns go on while pages are asked for: the first page says where the last one ends. */
#include <inttypes.h>
#include <stdio.h>

#include "server/core/shard/report_builder.h"
#include "server/core/shard_state.h"

/* At most 58 bytes each, as they travel: a full page fits REPORT_BYTES_MAX. */
#define PAGE 2048

static_assert(PAGE * 58 < REPORT_BYTES_MAX, "a full page fits");

/* Parallel arrays of one allocation. */
static bool
make_room(struct shard *s, Psd__TimelineReport *m)
{
    uint64_t *longs = report_zeroed(s, PAGE * (4 * sizeof(uint64_t) + 4 * sizeof(uint32_t)));
    uint32_t *shorts = (uint32_t *)(longs + (size_t)4 * PAGE);

    if (longs == NULL)
        return false;
    m->start_ns = longs;
    m->took_ns = longs + PAGE;
    m->step = longs + (size_t)2 * PAGE;
    m->bytes = longs + (size_t)3 * PAGE;
    m->what = shorts;
    m->task = shorts + PAGE;
    m->commit_ns = shorts + (size_t)2 * PAGE;
    m->answer_ns = shorts + (size_t)3 * PAGE;
    return true;
}

static void
report_timeline_put_span(Psd__TimelineReport *m, size_t i, const struct timeline_span *span)
{
    m->start_ns[i] = span->start_ns;
    m->took_ns[i] = span->end_ns - span->start_ns;
    m->step[i] = span->step;
    m->bytes[i] = span->bytes;
    m->what[i] = span->kind;
    m->task[i] = span->task + 1; /* no worker becomes 0 */
    m->commit_ns[i] = span->commit_ns;
    m->answer_ns[i] = span->answer_ns;
}

void
report_timeline(struct report_builder *b, Psd__TimelineReport *m)
{
    struct timeline_span *spans = report_zeroed(b->s, PAGE * sizeof *spans);
    const struct timeline *t = &b->s->timeline;
    size_t n = 0;

    b->report->timeline = m;
    m->now_ns = b->s->now_ns;
    m->machine = b->s->machine;
    if (sscanf(b->after, "%" SCNu64 "/%" SCNu64, &m->next, &m->end) != 2) {
        m->next = 0;
        m->end = timeline_added(t);
    }
    if (spans == NULL || !make_room(b->s, m))
        return;
    if (m->next < m->end)
        n = timeline_read(t, &m->next, spans, PAGE);
    for (size_t i = 0; i < n; i++)
        report_timeline_put_span(m, i, &spans[i]);
    m->n_start_ns = m->n_took_ns = m->n_step = m->n_bytes = n;
    m->n_what = m->n_task = m->n_commit_ns = m->n_answer_ns = n;
    b->report->more = n > 0 && m->next < m->end;
}
