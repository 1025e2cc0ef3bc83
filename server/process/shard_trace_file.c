#include "server/process/shard_trace_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/system/environment.h"
#include "common/system/trace_file.h"
#include "server/process/log.h"

void
shard_trace_of_spans(struct trace *out, uint32_t shard, const struct timeline_span *spans, size_t n)
{
    struct trace_origin origin;
    char name[32];

    *out = (struct trace){0};
    trace_origin_here(&origin);
    trace_origin_move(&origin, trace_first_ns(spans, n, origin.origin_ns));
    if (trace_init(out, &origin) != PS_OK)
        return;
    snprintf(name, sizeof name, "shard %u", shard);
    trace_name_process(out, TRACE_SHARD_PID + shard, name);
    trace_shard(out, TRACE_SHARD_PID + shard, spans, n);
}

static enum ps_err
write_spans(const struct shard *s, uint32_t shard, const char *path, struct ps_error *e)
{
    const struct timeline *t = shard_timeline(s);
    struct timeline_span *spans = malloc(MAX(t->len, 1) * sizeof *spans);
    struct trace trace;
    uint64_t from = 0;
    enum ps_err err;

    if (spans == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a trace");
    shard_trace_of_spans(&trace, shard, spans, timeline_read(t, &from, spans, t->len));
    err = trace_write(&trace, path, e);
    trace_finish(&trace);
    free(spans);
    return err;
}

void
shard_trace_file_write(const struct shard *s, uint32_t shard)
{
    struct ps_error e;
    char *path;

    if (environment_read("PSD_TRACE_FILE", &path, &e) != PS_OK ||
        (path != NULL && write_spans(s, shard, path, &e) != PS_OK))
        log_line(LOG_LEVEL_WARNING, "PSD_TRACE_FILE: no trace: %s", e.text);
    free(path);
}
