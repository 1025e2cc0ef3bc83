/* The timeline is read while the loop writes it; the lock is held for a few spans at a time, so that it exists. */
#include <stdlib.h>

#include "common/core/format/timeline.h"
#include "server/http/http_internal.h"
#include "server/process/shard_trace_file.h"

#define PIECE 256 /* spans that are copied under the lock: some microseconds */

/* Copies spans from *from on, and sets *from to where they end. Returns how many; 0: there are no more, or no loop. */
static size_t
read_piece(struct http *h, uint64_t *from, struct timeline_span *out, size_t room)
{
    size_t n = 0;

    uv_mutex_lock(&h->lock);
    if (h->attached)
        n = timeline_read(h->timeline, from, out, MIN(room, (size_t)PIECE));
    uv_mutex_unlock(&h->lock);
    return n;
}

static uint64_t
http_trace_first_span(struct http *h)
{
    uint64_t added = 0;

    uv_mutex_lock(&h->lock);
    if (h->attached)
        added = timeline_added(h->timeline);
    uv_mutex_unlock(&h->lock);
    return added - MIN(added, UINT64_C(1) * HTTP_TRACE_MAX);
}

char *
http_trace_text(struct http *h)
{
    struct timeline_span *spans = malloc(HTTP_TRACE_MAX * sizeof *spans);
    uint64_t from = http_trace_first_span(h);
    struct trace trace;
    size_t len = 0, n;
    char *text;

    if (spans == NULL)
        return NULL;
    while ((n = read_piece(h, &from, spans + len, HTTP_TRACE_MAX - len)) > 0)
        len += n;
    shard_trace_of_spans(&trace, h->shard, spans, len);
    text = trace_text(&trace);
    trace_finish(&trace);
    free(spans);
    return text;
}
