#include "client/tools/psctl/trace_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIDS_APART 100000 /* what is added to process ids that are taken */

struct trace_layer {
    json_t *events;
    struct trace_origin origin;
    char *source;
    int64_t shift_ns; /* to the first one's clock */
};

/* The distance of two clocks. */
struct merge_clock {
    char machine[TRACE_MACHINE_MAX], other[TRACE_MACHINE_MAX];
    int64_t ahead_ns;
};

/* A machine's clock relative to the first one's. */
struct trace_process {
    char machine[TRACE_MACHINE_MAX];
    int64_t shift_ns;
};

struct trace_merge {
    struct trace_layer *layers;
    struct merge_clock *known;
    struct trace_process *processes;
    size_t layers_len, known_len, processes_len;
};

static void
out_of_memory(void)
{
    fputs("out of memory\n", stderr);
    exit(EXIT_FAILURE);
}

static void *
trace_merge_grown(void *list, size_t len, size_t size)
{
    void *more = realloc(list, (len + 1) * size);

    if (more == NULL)
        out_of_memory();
    return more;
}

struct trace_merge *
trace_merge_new(void)
{
    struct trace_merge *o = trace_merge_grown(NULL, 0, sizeof *o);

    *o = (struct trace_merge){0};
    return o;
}

void
trace_merge_free(struct trace_merge *o)
{
    if (o == NULL)
        return;
    for (size_t i = 0; i < o->layers_len; i++) {
        json_decref(o->layers[i].events);
        free(o->layers[i].source);
    }
    free(o->layers);
    free(o->known);
    free(o->processes);
    free(o);
}

void
trace_merge_knows(struct trace_merge *o, const char *machine, const char *other, int64_t ahead_ns)
{
    struct merge_clock *k;

    o->known = trace_merge_grown(o->known, o->known_len, sizeof *o->known);
    k = &o->known[o->known_len++];
    snprintf(k->machine, sizeof k->machine, "%s", machine);
    snprintf(k->other, sizeof k->other, "%s", other);
    k->ahead_ns = ahead_ns;
}

/* ---- Process ids ---- */

static json_int_t
pid_of(const json_t *event)
{
    return json_integer_value(json_object_get(event, "pid"));
}

static bool
has_pid(const json_t *events, json_int_t pid)
{
    const json_t *event;
    size_t i;

    json_array_foreach(events, i,
                       event) if (pid_of(event) == pid &&
                                  strcmp(json_string_value(json_object_get(event, "ph")), "M") == 0) return true;
    return false;
}

static bool
pid_is_taken(const struct trace_merge *o, const json_t *events)
{
    for (size_t i = 0; i < o->layers_len; i++) {
        const json_t *event;
        size_t at;

        json_array_foreach(events, at, event) if (strcmp(json_string_value(json_object_get(event, "ph")), "M") == 0 &&
                                                  has_pid(o->layers[i].events, pid_of(event))) return true;
    }
    return false;
}

static void
move_pids(json_t *events)
{
    json_t *event;
    size_t i;

    json_array_foreach(events, i, event) json_object_set_new(event, "pid", json_integer(pid_of(event) + PIDS_APART));
}

/* ---- Adding ---- */

void
trace_merge_add(struct trace_merge *o, json_t *events, const struct trace_origin *origin, const char *source)
{
    char *copy = strdup(source);

    while (pid_is_taken(o, events))
        move_pids(events);
    if (copy == NULL)
        out_of_memory();
    o->layers = trace_merge_grown(o->layers, o->layers_len, sizeof *o->layers);
    o->layers[o->layers_len++] = (struct trace_layer){.events = events, .origin = *origin, .source = copy};
    if (origin->clock.machine[0] != '\0')
        trace_merge_knows(o, origin->machine, origin->clock.machine, origin->clock.ahead_ns);
}

/* A trace that another program wrote may hold anything. */
static bool
events_are_well(const json_t *events)
{
    const json_t *event;
    size_t i;

    json_array_foreach(events, i, event)
    {
        const char *ph = json_string_value(json_object_get(event, "ph"));

        if (ph == NULL || !json_is_integer(json_object_get(event, "pid")) ||
            json_string_value(json_object_get(event, "name")) == NULL)
            return false;
        if (pid_of(event) < 0 || pid_of(event) > UINT32_MAX) /* larger ids leave no space to move them apart */
            return false;
        if (strcmp(ph, "M") != 0 && !json_is_number(json_object_get(event, "ts")))
            return false;
    }
    return true;
}

enum ps_err
trace_merge_add_file(struct trace_merge *o, const json_t *trace, const char *source, struct ps_error *e)
{
    struct trace_origin origin;
    json_t *events;

    if (!trace_read_origin(trace, &origin) || !events_are_well(json_object_get(trace, "traceEvents")))
        return ps_fail(
            e, PS_ERR_DATA,
            "%s: it is no trace of a worker or a shard of psd, as PSD_TRACE_FILE and psrun --trace write them", source);
    if ((events = json_deep_copy(json_object_get(trace, "traceEvents"))) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    trace_merge_add(o, events, &origin, source);
    return PS_OK;
}

/* ---- Placing ---- */

static const struct trace_process *
process_of(const struct trace_merge *o, const char *machine)
{
    for (size_t i = 0; i < o->processes_len; i++)
        if (machine[0] != '\0' && strcmp(o->processes[i].machine, machine) == 0)
            return &o->processes[i];
    return NULL;
}

static void
add_process(struct trace_merge *o, const char *machine, int64_t shift_ns)
{
    o->processes = trace_merge_grown(o->processes, o->processes_len, sizeof *o->processes);
    o->processes[o->processes_len].shift_ns = shift_ns;
    snprintf(o->processes[o->processes_len++].machine, TRACE_MACHINE_MAX, "%s", machine);
}

/* From machines whose offset is known to those that were compared with them, until there are no more. */
static void
find_processes(struct trace_merge *o)
{
    size_t before;

    add_process(o, o->layers[0].origin.machine, 0);
    do {
        before = o->processes_len;
        for (size_t i = 0; i < o->known_len; i++) {
            const struct merge_clock *k = &o->known[i];
            const struct trace_process *a = process_of(o, k->machine), *b = process_of(o, k->other);

            if (a != NULL && b == NULL)
                add_process(o, k->other, a->shift_ns - k->ahead_ns);
            else if (b != NULL && a == NULL)
                add_process(o, k->machine, b->shift_ns + k->ahead_ns);
        }
    } while (o->processes_len > before);
}

/* The wall clocks of two machines are only as good as they were set. */
static int64_t
by_the_wall(const struct trace_origin *first, const struct trace_origin *o)
{
    return (o->wall_ns - (int64_t)o->origin_ns) - (first->wall_ns - (int64_t)first->origin_ns);
}

static const char *
shift_layers(struct trace_merge *o)
{
    const char *unsure = NULL;

    find_processes(o);
    for (size_t i = 0; i < o->layers_len; i++) {
        struct trace_layer *l = &o->layers[i];
        const struct trace_process *p = i == 0 ? &o->processes[0] : process_of(o, l->origin.machine);

        l->shift_ns = p != NULL ? p->shift_ns : by_the_wall(&o->layers[0].origin, &l->origin);
        if (p == NULL)
            unsure = l->source;
    }
    return unsure;
}

/* ---- All together ---- */

static int64_t
origin_of(const struct trace_layer *l)
{
    return (int64_t)l->origin.origin_ns + l->shift_ns;
}

/* Its times become those after `origin_ns`. Returns when the last of it ended, us. */
static double
move_times(struct trace_layer *l, int64_t origin_ns)
{
    double by_us = (double)(origin_of(l) - origin_ns) / 1e3, end_us = 0;
    json_t *event;
    size_t i;

    json_array_foreach(l->events, i, event)
    {
        json_t *ts = json_object_get(event, "ts");
        double at_us;

        if (ts == NULL)
            continue;
        at_us = json_number_value(ts) + by_us;
        json_object_set_new(event, "ts", json_real(at_us));
        end_us = MAX(end_us, at_us + json_number_value(json_object_get(event, "dur")));
    }
    return end_us;
}

/* The second half of an asynchronous slice says when that ended. */
static bool
ended_since(const json_t *events, size_t i, double since_us)
{
    const json_t *event = json_array_get(events, i), *ts = json_object_get(event, "ts");

    if (strcmp(json_string_value(json_object_get(event, "ph")), "b") == 0)
        ts = json_object_get(json_array_get(events, i + 1), "ts");
    return ts == NULL || json_number_value(ts) + json_number_value(json_object_get(event, "dur")) >= since_us;
}

struct trace
trace_merge_finish(struct trace_merge *o, uint64_t last_ns, const char **unsure)
{
    struct trace all = {.events = json_array()};
    double end_us = 0, since_us;
    int64_t origin_ns;

    *unsure = NULL;
    if (o->layers_len == 0)
        return all;
    *unsure = shift_layers(o);
    origin_ns = origin_of(&o->layers[0]);
    for (size_t i = 0; i < o->layers_len; i++)
        origin_ns = MIN(origin_ns, origin_of(&o->layers[i]));
    all.origin = o->layers[0].origin;
    trace_origin_move(&all.origin, (uint64_t)origin_ns);
    for (size_t i = 0; i < o->layers_len; i++) {
        double ended_us = move_times(&o->layers[i], origin_ns);

        end_us = MAX(end_us, ended_us);
    }
    since_us = last_ns > 0 ? end_us - (double)last_ns / 1e3 : -1;
    for (size_t i = 0; i < o->layers_len; i++)
        for (size_t at = 0; at < json_array_size(o->layers[i].events); at++)
            if (ended_since(o->layers[i].events, at, since_us))
                json_array_append(all.events, json_array_get(o->layers[i].events, at));
    return all;
}
