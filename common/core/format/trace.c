#include "common/core/format/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
trace_origin_move(struct trace_origin *o, uint64_t to_ns)
{
    o->wall_ns += (int64_t)(to_ns - o->origin_ns);
    o->origin_ns = to_ns;
}

uint64_t
trace_first_ns(const struct timeline_span *spans, size_t n, uint64_t none_ns)
{
    uint64_t first = none_ns;

    for (size_t i = 0; i < n; i++)
        first = MIN(first, spans[i].start_ns);
    return first;
}

enum ps_err
trace_init(struct trace *t, const struct trace_origin *origin)
{
    t->origin = *origin;
    t->events = json_array();
    return t->events != NULL ? PS_OK : PS_ERR_NOMEM;
}

void
trace_finish(struct trace *t)
{
    json_decref(t->events);
    t->events = NULL;
}

/* ---- Events ---- */

static void
trace_append(struct trace *t, json_t *event)
{
    if (event != NULL && json_array_append_new(t->events, event) == 0)
        return;
    trace_finish(t);
}

static double
trace_microseconds(const struct trace *t, uint64_t ns)
{
    return (double)(int64_t)(ns - t->origin.origin_ns) / 1e3;
}

static void
trace_name(struct trace *t, const char *what, uint32_t pid, uint32_t tid, const char *text)
{
    trace_append(t, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", what, "ph", "M", "pid", (int)pid, "tid",
                              (int)tid, "args", "name", text));
}

void
trace_name_process(struct trace *t, uint32_t pid, const char *text)
{
    trace_name(t, "process_name", pid, 0, text);
    trace_append(t, json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "name", "process_sort_index", "ph", "M", "pid", (int)pid,
                              "tid", 0, "args", "sort_index", (int)pid));
}

void
trace_name_thread(struct trace *t, uint32_t pid, uint32_t tid, const char *text)
{
    trace_name(t, "thread_name", pid, tid, text);
}

/* One slice. NULL: out of memory. */
static json_t *
trace_slice(const struct trace *t, uint32_t pid, uint32_t tid, const char *text, const char *category,
            uint64_t start_ns, uint64_t end_ns)
{
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i}", "name", text, "cat", category, "ph", "X", "ts",
                     trace_microseconds(t, start_ns), "dur", (double)(end_ns - start_ns) / 1e3, "pid", (int)pid, "tid",
                     (int)tid);
}

static json_t *
with_args(json_t *event, uint64_t step, uint64_t bytes)
{
    json_t *args = bytes > 0 ? json_pack("{s:I, s:I}", "step", (json_int_t)step, "bytes", (json_int_t)bytes)
                             : json_pack("{s:I}", "step", (json_int_t)step);

    if (event != NULL && json_object_set_new(event, "args", args) == 0)
        return event;
    json_decref(event);
    return NULL;
}

/* ---- A worker ---- */

static void
trace_computed(struct trace *t, uint32_t pid, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint64_t step)
{
    if (end_ns > start_ns)
        trace_append(t, with_args(trace_slice(t, pid, tid, "compute", "worker", start_ns, end_ns), step, 0));
}

/* A step, its waits before it: [first, at). Waits that began before the step do not belong to it. */
static void
add_step(struct trace *t, uint32_t pid, uint32_t tid, const struct timeline_span *first, const struct timeline_span *at)
{
    uint64_t done_ns = at->start_ns;

    trace_append(t, with_args(trace_slice(t, pid, tid, "step", "worker", at->start_ns, at->end_ns), at->step, 0));
    for (; first < at; first++) {
        if (first->start_ns >= done_ns && first->end_ns <= at->end_ns) {
            trace_computed(t, pid, tid, done_ns, first->start_ns, at->step);
            done_ns = first->end_ns;
        }
        trace_append(t, with_args(trace_slice(t, pid, tid, timeline_names[first->kind], "worker", first->start_ns,
                                              first->end_ns),
                                  at->step, first->bytes));
    }
    trace_computed(t, pid, tid, done_ns, at->end_ns, at->step);
}

void
trace_worker(struct trace *t, uint32_t pid, uint32_t tid, const struct timeline_span *spans, size_t n, bool cut)
{
    size_t first = 0;

    for (size_t i = 0; i < n && t->events != NULL; i++) {
        if (spans[i].kind != TIMELINE_STEP)
            continue;
        if (!cut)
            add_step(t, pid, tid, &spans[first], &spans[i]);
        cut = false;
        first = i + 1;
    }
    for (size_t i = first; i < n && t->events != NULL; i++) /* after the last step */
        trace_append(t, with_args(trace_slice(t, pid, tid, timeline_names[spans[i].kind], "worker", spans[i].start_ns,
                                              spans[i].end_ns),
                                  spans[i].step, spans[i].bytes));
}

/* ---- A shard ---- */

static void
add_turn(struct trace *t, uint32_t pid, const struct timeline_span *s)
{
    uint64_t commit_ns = MIN(s->start_ns + s->commit_ns, s->end_ns);
    uint64_t answer_ns = MIN(s->start_ns + s->answer_ns, s->end_ns);

    trace_append(t, trace_slice(t, pid, 1, "turn", "shard", s->start_ns, s->end_ns));
    if (s->commit_ns == 0 || answer_ns < commit_ns)
        return;
    trace_append(t, trace_slice(t, pid, 1, "apply", "shard", s->start_ns, commit_ns));
    trace_append(t, trace_slice(t, pid, 1, "commit", "shard", commit_ns, answer_ns));
    trace_append(t, trace_slice(t, pid, 1, "answer", "shard", answer_ns, s->end_ns));
}

/* They overlap each other. */
static void
add_async(struct trace *t, uint32_t pid, const struct timeline_span *s, size_t number)
{
    char id[32], text[64];

    snprintf(id, sizeof id, "%" PRIu32 ".%zu", pid, number);
    snprintf(text, sizeof text, "%s", timeline_names[s->kind]);
    if (s->task != TIMELINE_NOBODY)
        snprintf(text, sizeof text, "worker %" PRIu32 " %s", s->task, timeline_names[s->kind]);
    trace_append(t, with_args(json_pack("{s:s, s:s, s:s, s:s, s:f, s:i, s:i}", "name", text, "cat", "shard", "ph", "b",
                                        "id", id, "ts", trace_microseconds(t, s->start_ns), "pid", (int)pid, "tid", 1),
                              s->step, s->bytes));
    if (t->events != NULL)
        trace_append(t, json_pack("{s:s, s:s, s:s, s:s, s:f, s:i, s:i}", "name", text, "cat", "shard", "ph", "e", "id",
                                  id, "ts", trace_microseconds(t, s->end_ns), "pid", (int)pid, "tid", 1));
}

void
trace_shard(struct trace *t, uint32_t pid, const struct timeline_span *spans, size_t n)
{
    for (size_t i = 0; i < n && t->events != NULL; i++) {
        if (spans[i].kind == TIMELINE_TURN)
            add_turn(t, pid, &spans[i]);
        else if (spans[i].kind < TIMELINE_KINDS)
            add_async(t, pid, &spans[i], i);
    }
}

/* ---- The whole trace ---- */

static json_t *
other_data(const struct trace_origin *o)
{
    json_t *other = json_pack("{s:s, s:I, s:I, s:s}", "psd", PSD_VERSION, "origin_ns", (json_int_t)o->origin_ns,
                              "wall_ns", (json_int_t)o->wall_ns, "machine", o->machine);

    if (other != NULL && o->clock.machine[0] != '\0')
        json_object_set_new(other, "clock",
                            json_pack("{s:s, s:I, s:I}", "machine", o->clock.machine, "ahead_ns",
                                      (json_int_t)o->clock.ahead_ns, "round_trip_ns",
                                      (json_int_t)o->clock.round_trip_ns));
    return other;
}

char *
trace_text(const struct trace *t)
{
    json_t *root = NULL, *other;
    char *text = NULL;

    if (t->events != NULL && (other = other_data(&t->origin)) != NULL)
        root = json_pack("{s:O, s:s, s:o}", "traceEvents", t->events, "displayTimeUnit", "ms", "otherData", other);
    if (root != NULL)
        text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(root);
    return text;
}

bool
trace_read_origin(const json_t *trace, struct trace_origin *out)
{
    const json_t *other = json_object_get(trace, "otherData"), *clock = json_object_get(other, "clock");
    const char *machine = json_string_value(json_object_get(other, "machine"));
    const char *ahead = json_string_value(json_object_get(clock, "machine"));

    if (json_string_value(json_object_get(other, "psd")) == NULL || machine == NULL ||
        !json_is_array(json_object_get(trace, "traceEvents")))
        return false;
    *out = (struct trace_origin){
        .origin_ns = (uint64_t)json_integer_value(json_object_get(other, "origin_ns")),
        .wall_ns = json_integer_value(json_object_get(other, "wall_ns")),
        .clock = {.ahead_ns = json_integer_value(json_object_get(clock, "ahead_ns")),
                  .round_trip_ns = (uint64_t)json_integer_value(json_object_get(clock, "round_trip_ns"))}};
    snprintf(out->machine, sizeof out->machine, "%s", machine);
    snprintf(out->clock.machine, sizeof out->clock.machine, "%s", ahead != NULL ? ahead : "");
    return true;
}
