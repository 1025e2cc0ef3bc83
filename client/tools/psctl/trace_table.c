#include "client/tools/psctl/trace_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/psclient/ps_timeline.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/shared/output.h"
#include "client/tools/shared/table.h"
#include "common/core/base/units.h"

/* Of one thread of a worker, or of a shard. */
struct track {
    json_int_t pid, tid;
    const char *name;
    bool shard;
    uint64_t count;             /* steps, or turns */
    double sum_us;              /* of them */
    double start_us, end_us;    /* first and last of them */
    double within_us, until_us; /* the step that its waits are looked for in */
    double part_us[PS_TIMES];
};

enum { PART_APPLY, PART_COMMIT, PART_ANSWER, SHARD_PARTS };
static const char *const shard_parts[SHARD_PARTS] = {"apply", "commit", "answer"};

struct tracks {
    struct track *track;
    size_t len;
};

static const char *
text_of(const json_t *event, const char *member)
{
    const char *text = json_string_value(json_object_get(event, member));

    return text != NULL ? text : "";
}

/* ---- Adding up ---- */

static struct track *
track_of(struct tracks *t, const json_t *event, bool shard)
{
    json_int_t pid = json_integer_value(json_object_get(event, "pid"));
    json_int_t tid = json_integer_value(json_object_get(event, "tid"));
    void *more;

    for (size_t i = 0; i < t->len; i++)
        if (t->track[i].pid == pid && t->track[i].tid == tid)
            return &t->track[i];
    if ((more = realloc(t->track, (t->len + 1) * sizeof *t->track)) == NULL)
        return NULL;
    t->track = more;
    t->track[t->len] = (struct track){.pid = pid, .tid = tid, .name = "?", .shard = shard};
    return &t->track[t->len++];
}

static void
add_whole(struct track *t, double start_us, double dur_us)
{
    t->start_us = t->count == 0 ? start_us : MIN(t->start_us, start_us);
    t->end_us = MAX(t->end_us, start_us + dur_us);
    t->within_us = start_us;
    t->until_us = start_us + dur_us;
    t->sum_us += dur_us;
    t->count++;
}

/* A step comes before what lies in it; a nanosecond is lost in the rounding of numbers. */
static void
add_part(struct track *t, int part, double start_us, double dur_us)
{
    if (part >= 0 && t->count > 0 && start_us >= t->within_us - 1e-3 && start_us + dur_us <= t->until_us + 1e-3)
        t->part_us[part] += dur_us;
}

static int
part_of(const char *name, bool shard)
{
    for (int i = 0; i < (shard ? (int)SHARD_PARTS : (int)PS_TIMES); i++)
        if (strcmp(name, shard ? shard_parts[i] : ps_time_name((enum ps_time)i)) == 0)
            return i;
    return -1;
}

static void
add_event(struct tracks *t, const json_t *event)
{
    bool shard = strcmp(text_of(event, "cat"), "shard") == 0;
    const char *name = text_of(event, "name");
    double start_us = json_number_value(json_object_get(event, "ts"));
    double dur_us = json_number_value(json_object_get(event, "dur"));
    struct track *track;

    if (strcmp(text_of(event, "ph"), "X") != 0 || (track = track_of(t, event, shard)) == NULL)
        return;
    if (strcmp(name, shard ? "turn" : "step") == 0)
        add_whole(track, start_us, dur_us);
    else
        add_part(track, part_of(name, shard), start_us, dur_us);
}

static void
name_tracks(struct tracks *t, const json_t *event)
{
    json_int_t pid = json_integer_value(json_object_get(event, "pid"));

    if (strcmp(text_of(event, "name"), "process_name") != 0)
        return;
    for (size_t i = 0; i < t->len; i++)
        if (t->track[i].pid == pid)
            t->track[i].name = text_of(json_object_get(event, "args"), "name");
}

static int
by_pid(const void *a, const void *b)
{
    const struct track *x = a, *y = b;

    return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) : (x->tid > y->tid) - (x->tid < y->tid);
}

static struct tracks
add_up(const json_t *events)
{
    struct tracks t = {0};
    const json_t *event;
    size_t i;

    json_array_foreach(events, i, event) add_event(&t, event);
    json_array_foreach(events, i, event) name_tracks(&t, event);
    if (t.len > 0)
        qsort(t.track, t.len, sizeof *t.track, by_pid);
    return t;
}

/* ---- Tables ---- */

/* "1.24 ms 38 %". */
static void
cell_share(struct text_table *t, double us, uint64_t of, double whole_us)
{
    struct units u;

    if (us <= 0)
        table_cell(t, "-");
    else
        table_cell(t, "%s %3.0f %%", units_microseconds(us / (double)MAX(of, 1), &u), 100 * us / whole_us);
}

static void
worker_row(struct text_table *t, const struct track *w, const char *name)
{
    struct units u;

    table_row(t);
    table_cell(t, "%s", name);
    cell_count(t, w->count);
    table_cell(t, "%s", units_microseconds(w->sum_us / (double)MAX(w->count, 1), &u));
    for (int i = 0; i < PS_TIMES; i++)
        cell_share(t, w->part_us[i], w->count, w->sum_us);
}

static void
print_workers(const struct tracks *all, const struct printer *page)
{
    struct text_table *t = table_of(output_trace_workers, "lrrrrrrrrr");
    struct track sum = {0};
    size_t rows = 0;

    for (size_t i = 0; i < all->len; i++) {
        const struct track *w = &all->track[i];

        if (w->shard || w->count == 0)
            continue;
        rows++;
        worker_row(t, w, w->name);
        sum.count += w->count;
        sum.sum_us += w->sum_us;
        for (int k = 0; k < PS_TIMES; k++)
            sum.part_us[k] += w->part_us[k];
    }
    if (rows > 1)
        worker_row(t, &sum, "all");
    if (rows > 0)
        table_print(t, page);
    table_free(t);
}

static void
print_shards(const struct tracks *all, const struct printer *page)
{
    struct text_table *t = table_of(output_trace_shards, "lrrrrrr");
    struct units u;
    size_t rows = 0;

    for (size_t i = 0; i < all->len; i++) {
        const struct track *s = &all->track[i];
        double whole_us = s->end_us - s->start_us;

        if (!s->shard || s->count == 0)
            continue;
        rows++;
        table_row(t);
        table_cell(t, "%s", s->name);
        cell_count(t, s->count);
        table_cell(t, "%s", units_microseconds(whole_us, &u));
        for (int k = 0; k < SHARD_PARTS; k++)
            cell_share(t, s->part_us[k], 1, whole_us);
        cell_share(t, whole_us - s->sum_us, 1, whole_us);
    }
    if (rows > 0)
        table_print(t, page);
    table_free(t);
}

void
trace_table_print(const json_t *events, const struct printer *page)
{
    struct tracks t = add_up(events);

    print_workers(&t, page);
    print_shards(&t, page);
    free(t.track);
}

/* ---- JSON ---- */

static void
set_us(json_t *object, const char *name, double us)
{
    char member[32];

    snprintf(member, sizeof member, "%s_us", name);
    json_object_set_new(object, member, json_real(us));
}

static json_t *
track_json(const struct track *t)
{
    json_t *o = json_pack("{s:s, s:I}", t->shard ? "shard" : "worker", t->name, t->shard ? "turns" : "steps",
                          (json_int_t)t->count);

    for (int i = 0; i < (t->shard ? (int)SHARD_PARTS : (int)PS_TIMES); i++)
        set_us(o, t->shard ? shard_parts[i] : ps_time_name((enum ps_time)i), t->part_us[i]);
    set_us(o, t->shard ? "idle" : "step", t->shard ? t->end_us - t->start_us - t->sum_us : t->sum_us);
    return o;
}

json_t *
trace_table_json(const json_t *events)
{
    json_t *workers = json_array(), *shards = json_array();
    struct tracks t = add_up(events);

    for (size_t i = 0; i < t.len; i++)
        if (t.track[i].count > 0)
            json_array_append_new(t.track[i].shard ? shards : workers, track_json(&t.track[i]));
    free(t.track);
    return json_pack("{s:o, s:o}", "workers", workers, "shards", shards);
}
