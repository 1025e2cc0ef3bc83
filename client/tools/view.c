/* Reports keep the names of proto/psd.proto: status, variable[], stats, worker[], blocked[]. A member that is missing
 * counts as 0 or "", as in protobuf. */
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"
#include "units.h"

#define HISTOGRAM_BAR 40 /* columns of the longest */

static const char *const view_names[VIEWS] = {
    [VIEW_STATUS] = "status",   [VIEW_VARIABLES] = "variables", [VIEW_STATS] = "stats",
    [VIEW_WORKERS] = "workers", [VIEW_BLOCKED] = "blocked",     [VIEW_PING] = "ping"};

enum view_kind
view_find(const char *word)
{
    enum view_kind kind = 0;

    while (kind < VIEWS && strcmp(view_names[kind], word) != 0)
        kind++;
    return kind;
}

/* ---- members of a report ---- */

static uint64_t
number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    if (json_is_string(value))
        return strtoull(json_string_value(value), NULL, 10);
    return (uint64_t)json_integer_value(value);
}

static const char *
text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value != NULL ? value : "";
}

static bool
flag(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

static json_t *
list(const struct answer *a, const char *name)
{
    return a->reached ? json_object_get(a->report, name) : NULL;
}

/* An entry of one of the reports' lists, and whose it is. */
struct place {
    const json_t *report;
    uint32_t shard;
};

static int
compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* By job, name, task, shard; a variable has no task and a worker no name. */
static int
place_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = strcmp(text(x->report, "job"), text(y->report, "job"));

    if (order == 0)
        order = strcmp(text(x->report, "name"), text(y->report, "name"));
    if (order == 0)
        order = compare_numbers(number(x->report, "task"), number(y->report, "task"));
    return order != 0 ? order : compare_numbers(x->shard, y->shard);
}

/* The same variable or worker, on another shard perhaps. */
static bool
place_same(const struct place *a, const struct place *b)
{
    return place_compare(a, &(struct place){.report = b->report, .shard = a->shard}) == 0;
}

/* The list called `member` of all reports, sorted. NULL when out of memory, which reads as an empty one. */
static struct place *
places_gather(const struct answer *answers, uint32_t n, const char *member, size_t *len)
{
    struct place *places;
    const json_t *entry;
    size_t total = 0, j;

    for (uint32_t i = 0; i < n; i++)
        total += json_array_size(list(&answers[i], member));
    *len = 0;
    if ((places = calloc(total + 1, sizeof *places)) == NULL)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        json_array_foreach(list(&answers[i], member), j, entry)
        {
            places[(*len)++] = (struct place){.report = entry, .shard = answers[i].shard};
        }
    }
    qsort(places, *len, sizeof *places, place_compare);
    return places;
}

static void
cell_bytes(struct table *t, uint64_t bytes)
{
    struct units u;

    table_cell(t, "%s", units_bytes(bytes, &u));
}

static void
cell_count(struct table *t, uint64_t count)
{
    struct units u;

    table_cell(t, "%s", units_count(count, &u));
}

static void
cell_of(struct table *t, uint64_t part, uint64_t whole)
{
    struct units a, b;

    table_cell(t, "%s of %s", units_bytes(part, &a), units_bytes(whole, &b));
}

static void
print_and_free(struct table *t, FILE *out)
{
    table_print(t, out);
    table_free(t);
}

/* ---- status ---- */

static void
status_row(struct table *t, const struct answer *a)
{
    const json_t *s = json_object_get(a->report, "status");
    struct units u;

    table_row(t);
    table_cell(t, "%u", a->shard);
    table_cell(t, "%s", a->address);
    if (!a->reached) {
        table_cell(t, "not reached");
        return;
    }
    table_cell(t, "%s", flag(s, "draining") ? "draining" : "serving");
    table_cell(t, "%s", units_duration(number(s, "uptime_ms"), &u));
    table_cell(t, "%" PRIu64, number(s, "pid"));
    cell_count(t, number(s, "workers"));
    cell_count(t, number(s, "variables"));
    cell_count(t, number(s, "blocks"));
    cell_bytes(t, number(s, "data_bytes"));
    cell_of(t, number(s, "store_bytes"), number(s, "store_bytes_max"));
    cell_of(t, number(s, "in_flight_bytes"), number(s, "in_flight_bytes_max"));
    cell_count(t, number(s, "connections"));
}

/* What can be added up over shards; workers and variables are seen by each of them. */
static void
status_total(struct table *t, const struct answer *answers, uint32_t n)
{
    uint64_t blocks = 0, data = 0, store = 0, store_max = 0, in_flight = 0, in_flight_max = 0, connections = 0;

    for (uint32_t i = 0; i < n; i++) {
        const json_t *s = json_object_get(answers[i].report, "status");

        blocks += number(s, "blocks");
        data += number(s, "data_bytes");
        store += number(s, "store_bytes");
        store_max += number(s, "store_bytes_max");
        in_flight += number(s, "in_flight_bytes");
        in_flight_max += number(s, "in_flight_bytes_max");
        connections += number(s, "connections");
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

/* A list in the wrong order, or with a shard of another cluster, is a mistake that workers stumble over. */
static void
status_warn(const struct answer *a, uint32_t n, const char *cluster, FILE *out)
{
    const json_t *s = json_object_get(a->report, "status");

    if (number(s, "shard") != a->shard || number(s, "shards") != n)
        fprintf(out, "warning: %s says that it is shard %" PRIu64 " of %" PRIu64 ", but is listed as shard %u of %u\n",
                a->address, number(s, "shard"), number(s, "shards"), a->shard, n);
    if (strcmp(text(s, "cluster"), cluster) != 0)
        fprintf(out, "warning: %s belongs to cluster \"%s\", the first shard to \"%s\"\n", a->address,
                text(s, "cluster"), cluster);
}

/* The first that answered; NULL: none. */
static const json_t *
status_first(const struct answer *answers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].reached)
            return json_object_get(answers[i].report, "status");
    return NULL;
}

static void
print_status(const struct answer *answers, uint32_t n, FILE *out)
{
    struct table *t = table_new("SHARD>", "ADDRESS", "STATE", "UP FOR>", "PID>", "WORKERS>", "VARIABLES>", "BLOCKS>",
                                "DATA>", "MEMORY>", "IN FLIGHT>", "CONNECTIONS>", NULL);
    const json_t *first = status_first(answers, n);

    if (first != NULL)
        fprintf(out, "cluster \"%s\" of %" PRIu64 " shard%s, psd %s\n\n", text(first, "cluster"),
                number(first, "shards"), number(first, "shards") == 1 ? "" : "s", text(first, "version"));
    for (uint32_t i = 0; i < n; i++)
        status_row(t, &answers[i]);
    if (n > 1)
        status_total(t, answers, n);
    print_and_free(t, out);
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].reached)
            status_warn(&answers[i], n, text(first, "cluster"), out);
}

/* ---- variables ---- */

/* A variable's figures on one shard, or summed over several. */
struct var_sum {
    const json_t *first;                    /* a report, for what is the same everywhere */
    uint64_t blocks, bytes, pushes, pushed; /* a push of a variable counts on each shard that has blocks of it */
    uint64_t pulls, pulled, refused, dropped;
    uint64_t version_min, version_max;
};

static void
var_add(struct var_sum *sum, const json_t *v)
{
    uint64_t lowest = number(v, "version_min"), highest = number(v, "version_max");
    bool first = sum->blocks == 0;

    if (sum->first == NULL)
        sum->first = v;
    if (number(v, "blocks") > 0) {
        sum->version_min = first ? lowest : MIN(sum->version_min, lowest);
        sum->version_max = first ? highest : MAX(sum->version_max, highest);
    }
    sum->blocks += number(v, "blocks");
    sum->bytes += number(v, "bytes");
    sum->pushes += number(v, "pushes");
    sum->pushed += number(v, "pushed_bytes");
    sum->pulls += number(v, "pulls");
    sum->pulled += number(v, "pulled_bytes");
    sum->refused += number(v, "refused");
    sum->dropped += number(v, "dropped");
}

static void
var_shape(const json_t *v, char *out, size_t size)
{
    const json_t *dims = json_object_get(v, "dims"), *dim;
    size_t i, at = 0;

    if (json_array_size(dims) == 0) {
        snprintf(out, size, "scalar");
        return;
    }
    json_array_foreach(dims, i, dim)
    {
        if (at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%lld", i > 0 ? "x" : "", (long long)json_integer_value(dim));
    }
}

static void
var_traffic(struct table *t, const struct var_sum *sum)
{
    cell_count(t, sum->pushes);
    cell_bytes(t, sum->pushed);
    cell_count(t, sum->pulls);
    cell_bytes(t, sum->pulled);
    cell_count(t, sum->refused);
    cell_count(t, sum->dropped);
}

/* who: "0", "all". Names only where they change: on the first row of a variable. */
static void
var_row(struct table *t, const struct var_sum *sum, const char *who, bool named)
{
    const json_t *v = named ? sum->first : NULL;
    char shape[256] = "";

    if (v != NULL)
        var_shape(v, shape, sizeof shape);
    table_row(t);
    table_cell(t, "%s", text(v, "job"));
    table_cell(t, "%s", text(v, "name"));
    table_cell(t, "%s", shape);
    table_cell(t, "%s", text(v, "optimizer"));
    table_cell(t, "%s", who);
    cell_count(t, sum->blocks);
    cell_bytes(t, sum->bytes);
    if (sum->version_min == sum->version_max)
        table_cell(t, "%" PRIu64, sum->version_min);
    else
        table_cell(t, "%" PRIu64 "-%" PRIu64, sum->version_min, sum->version_max);
    var_traffic(t, sum);
}

/* One variable: its sum, and below it each shard's part. Returns how many places it took. */
static size_t
var_print(struct table *t, const struct place *places, size_t len, bool parts)
{
    struct var_sum sum = {0};
    size_t n = 0;
    char who[16];

    while (n < len && place_same(&places[0], &places[n]))
        var_add(&sum, places[n++].report);
    var_row(t, &sum, "all", true);
    for (size_t i = 0; parts && i < n; i++) {
        struct var_sum part = {0};

        var_add(&part, places[i].report);
        snprintf(who, sizeof who, "%u", places[i].shard);
        var_row(t, &part, who, false);
    }
    return n;
}

/* All variables together, on shards from to less one. Versions of different variables say nothing together. */
static void
vars_total_row(struct table *t, const struct answer *answers, uint32_t from, uint32_t to, const char *heading,
               const char *who)
{
    struct var_sum sum = {0};
    const json_t *v;
    size_t j;

    for (uint32_t i = from; i < to; i++) {
        json_array_foreach(list(&answers[i], "variable"), j, v)
        {
            var_add(&sum, v);
        }
    }
    table_row(t);
    table_cell(t, "%s", heading);
    for (int empty = 0; empty < 3; empty++)
        table_cell(t, "%s", "");
    table_cell(t, "%s", who);
    cell_count(t, sum.blocks);
    cell_bytes(t, sum.bytes);
    table_cell(t, "%s", "");
    var_traffic(t, &sum);
}

static void
print_variables(const struct answer *answers, uint32_t n, FILE *out)
{
    size_t len, at = 0;
    struct place *places = places_gather(answers, n, "variable", &len);
    struct table *t;
    char who[16];

    if (len == 0) {
        fprintf(out, "no variables\n");
        free(places);
        return;
    }
    t = table_new("JOB", "VARIABLE", "SHAPE", "OPTIMIZER", "SHARD>", "BLOCKS>", "BYTES>", "VERSION>", "PUSHES>",
                  "PUSHED>", "PULLS>", "PULLED>", "REFUSED>", "DROPPED>", NULL);
    while (at < len)
        at += var_print(t, places + at, len - at, n > 1);
    vars_total_row(t, answers, 0, n, "total", "all");
    for (uint32_t i = 0; n > 1 && i < n; i++) {
        snprintf(who, sizeof who, "%u", answers[i].shard);
        vars_total_row(t, answers, i, i + 1, "", who);
    }
    print_and_free(t, out);
    free(places);
}

/* ---- stats ---- */

struct stat_line {
    const char *name, *what;
    bool bytes;
};

static const struct stat_line stat_lines[] = {
    {"turns", "loop turns", false},
    {"commits", "transactions committed", false},
    {"pushes_applied", "pushes applied", false},
    {"pushes_repeated", "pushes answered as repeats", false},
    {"refused_nonfinite", "pushes refused: NaN or Inf", false},
    {"refused_shape", "pushes refused: shape", false},
    {"refused_other", "pushes refused: other", false},
    {"dropped_stale", "blocks dropped: too old", false},
    {"dropped_late", "blocks dropped: too late", false},
    {"pulls", "pulls answered", false},
    {"pulls_parked", "pulls that had to wait", false},
    {"pushed_bytes", "bytes pushed", true},
    {"pulled_bytes", "bytes pulled", true},
    {"lease_lapses", "leases lapsed", false},
    {"bad_peers", "connections closed for bad input", false},
};

static void
stat_cell(struct table *t, const struct stat_line *line, uint64_t value)
{
    if (line->bytes)
        cell_bytes(t, value);
    else
        cell_count(t, value);
}

static void
print_counters(const struct answer *answers, uint32_t n, FILE *out)
{
    struct table *t = table_new("COUNTER", "ALL>", NULL);
    uint32_t shown = n > 1 ? MIN(n, (uint32_t)TABLE_COLUMNS_MAX - 2) : 0;
    char heading[24];

    for (uint32_t i = 0; i < shown; i++) {
        snprintf(heading, sizeof heading, "SHARD %u>", answers[i].shard);
        table_column(t, heading);
    }
    for (size_t l = 0; l < ARRAY_LEN(stat_lines); l++) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < n; i++)
            sum += number(json_object_get(answers[i].report, "stats"), stat_lines[l].name);
        table_row(t);
        table_cell(t, "%s", stat_lines[l].what);
        stat_cell(t, &stat_lines[l], sum);
        for (uint32_t i = 0; i < shown; i++) {
            if (answers[i].reached)
                stat_cell(t, &stat_lines[l], number(json_object_get(answers[i].report, "stats"), stat_lines[l].name));
            else
                table_cell(t, "?");
        }
    }
    print_and_free(t, out);
    if (n > 1 && shown < n)
        fprintf(out, "shards %u to %u are in the sum; --json shows them all\n", shown, n - 1);
}

/* Pushes of one age bucket on all shards. */
static uint64_t
age_count(const struct answer *answers, uint32_t n, size_t bucket)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        const json_t *stats = json_object_get(answers[i].report, "stats");
        const json_t *count = json_object_get(json_object_get(stats, "age"), "count");

        sum += (uint64_t)json_integer_value(json_array_get(count, bucket));
    }
    return sum;
}

static void
age_range(size_t bucket, char *out, size_t size)
{
    if (bucket <= 1)
        snprintf(out, size, "%zu", bucket);
    else
        snprintf(out, size, "%" PRIu64 "-%" PRIu64, UINT64_C(1) << (bucket - 1), (UINT64_C(1) << bucket) - 1);
}

static void
age_row(struct table *t, size_t bucket, uint64_t count, uint64_t most, uint64_t sum)
{
    char range[48], bar[HISTOGRAM_BAR + 1];
    size_t len = most > 0 ? (size_t)((double)count / (double)most * HISTOGRAM_BAR + 0.5) : 0;

    if (len == 0 && count > 0)
        len = 1;
    memset(bar, '#', len);
    bar[len] = '\0';
    age_range(bucket, range, sizeof range);
    table_row(t);
    table_cell(t, "%s", range);
    cell_count(t, count);
    table_cell(t, "%.1f %%", sum > 0 ? 100 * (double)count / (double)sum : 0);
    table_cell(t, "%s", bar);
}

static void
print_ages(const struct answer *answers, uint32_t n, FILE *out)
{
    enum { BUCKETS = 64 };
    uint64_t count[BUCKETS], most = 0, sum = 0;
    struct table *t;
    size_t used = 0;

    for (size_t b = 0; b < BUCKETS; b++) {
        count[b] = age_count(answers, n, b);
        most = MAX(most, count[b]);
        sum += count[b];
        if (count[b] > 0)
            used = b + 1;
    }
    if (used == 0) {
        fprintf(out, "\nno block has been pushed yet\n");
        return;
    }
    fprintf(out, "\nages of pushed blocks, in updates that each missed:\n");
    t = table_new("AGE>", "BLOCKS>", "SHARE>", "", NULL);
    for (size_t b = 0; b < used; b++)
        age_row(t, b, count[b], most, sum);
    print_and_free(t, out);
}

static void
print_stats(const struct answer *answers, uint32_t n, FILE *out)
{
    print_counters(answers, n, out);
    print_ages(answers, n, out);
}

/* ---- workers ---- */

static const char *
worker_state(const json_t *w)
{
    if (flag(w, "finished"))
        return "finished";
    if (flag(w, "lapsed"))
        return "lapsed";
    return flag(w, "connected") ? "live" : "away";
}

static void
worker_row(struct table *t, const struct place *p, bool named)
{
    const json_t *w = p->report;
    struct units u;

    table_row(t);
    table_cell(t, "%s", named ? text(w, "job") : "");
    if (named)
        table_cell(t, "%" PRIu64, number(w, "task"));
    else
        table_cell(t, "%s", "");
    table_cell(t, "%u", p->shard);
    table_cell(t, "%s", worker_state(w));
    cell_count(t, number(w, "clock"));
    cell_count(t, number(w, "last_seq"));
    cell_count(t, number(w, "unresolved"));
    table_cell(t, "%s", units_duration(number(w, "silent_ms"), &u));
    table_cell(t, "%s", units_duration(number(w, "lease_ms"), &u));
    table_cell(t, "%s", text(w, "agent"));
}

static void
print_workers(const struct answer *answers, uint32_t n, FILE *out)
{
    size_t len;
    struct place *places = places_gather(answers, n, "worker", &len);
    struct table *t;

    if (len == 0) {
        fprintf(out, "no workers\n");
        free(places);
        return;
    }
    t = table_new("JOB", "WORKER>", "SHARD>", "STATE", "CLOCK>", "LAST SEQ>", "UNANSWERED>", "SILENT>", "LEASE>",
                  "PROCESS", NULL);
    for (size_t i = 0; i < len; i++)
        worker_row(t, &places[i], i == 0 || !place_same(&places[i - 1], &places[i]));
    print_and_free(t, out);
    free(places);
}

/* ---- blocked ---- */

/* "worker 2", "workers 0, 3", "workers 0, 1, 2 ..." when there is no room for all. */
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

static void
blocked_row(struct table *t, const struct place *p)
{
    const json_t *b = p->report;
    const char *variable = text(b, "variable");
    char on[256];
    struct units u;

    blocked_on(json_object_get(b, "on_task"), on, sizeof on);
    table_row(t);
    table_cell(t, "%s", text(b, "job"));
    table_cell(t, "%" PRIu64, number(b, "task"));
    table_cell(t, "%s", text(b, "what"));
    cell_count(t, number(b, "clock"));
    table_cell(t, "%s", on);
    if (strncmp(text(b, "what"), "barrier", 7) == 0)
        table_cell(t, "-");
    else
        cell_count(t, number(b, "on_clock"));
    table_cell(t, "%s", units_duration(number(b, "waited_ms"), &u));
    table_cell(t, "%u", p->shard);
    table_cell(t, "%s", *variable != '\0' ? variable : "-");
}

static void
print_blocked(const struct answer *answers, uint32_t n, FILE *out)
{
    size_t len;
    struct place *places = places_gather(answers, n, "blocked", &len);
    struct table *t;

    if (len == 0) {
        fprintf(out, "nobody waits\n");
        free(places);
        return;
    }
    t = table_new("JOB", "WORKER>", "WAITS IN", "AT CLOCK>", "FOR", "UNTIL CLOCK>", "SINCE>", "SHARD>", "VARIABLE",
                  NULL);
    for (size_t i = 0; i < len; i++)
        blocked_row(t, &places[i]);
    print_and_free(t, out);
    free(places);
    for (uint32_t i = 0; i < n; i++)
        if (json_is_true(json_object_get(answers[i].report, "more")))
            fprintf(out, "shard %" PRIu32 ": more wait than a report holds; these are the first\n", answers[i].shard);
}

/* ---- ping ---- */

static int
ping_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct ping_summary {
    double least, median, most;
};

/* pings_len >= 1. Sorts a copy: the answer keeps the order in which they were made. */
static struct ping_summary
ping_sum_up(const struct answer *a)
{
    struct ping_summary s = {0};
    size_t n = a->pings_len;
    double *sorted = malloc(n * sizeof *sorted);

    if (sorted == NULL)
        return s;
    memcpy(sorted, a->pings, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ping_compare);
    s.least = sorted[0];
    s.median = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    s.most = sorted[n - 1];
    free(sorted);
    return s;
}

static void
print_ping(const struct answer *answers, uint32_t n, FILE *out)
{
    struct table *t = table_new("SHARD>", "ADDRESS", "ROUND TRIPS>", "MIN>", "MEDIAN>", "MAX>", NULL);

    for (uint32_t i = 0; i < n; i++) {
        const struct answer *a = &answers[i];
        struct ping_summary s;
        struct units u;

        table_row(t);
        table_cell(t, "%u", a->shard);
        table_cell(t, "%s", a->address);
        cell_count(t, a->pings_len);
        if (a->pings_len == 0)
            continue;
        s = ping_sum_up(a);
        table_cell(t, "%s", units_microseconds(s.least, &u));
        table_cell(t, "%s", units_microseconds(s.median, &u));
        table_cell(t, "%s", units_microseconds(s.most, &u));
    }
    print_and_free(t, out);
}

/* ---- all of them ---- */

void
view_print(enum view_kind kind, const struct answer *answers, uint32_t n, FILE *out)
{
    static void (*const prints[VIEWS])(const struct answer *answers, uint32_t n, FILE *out) = {
        [VIEW_STATUS] = print_status,   [VIEW_VARIABLES] = print_variables, [VIEW_STATS] = print_stats,
        [VIEW_WORKERS] = print_workers, [VIEW_BLOCKED] = print_blocked,     [VIEW_PING] = print_ping,
    };
    bool any = false;

    ps_assert(kind < VIEWS);
    for (uint32_t i = 0; i < n; i++)
        any = any || answers[i].reached;
    if (any || kind == VIEW_STATUS)
        prints[kind](answers, n, out);
    for (uint32_t i = 0; i < n; i++)
        if (!answers[i].reached)
            fprintf(out, "not reached: shard %u at %s: %s\n", answers[i].shard, answers[i].address,
                    answers[i].error.text);
}

static json_t *
answer_json(const struct answer *a)
{
    json_t *object = json_pack("{s:i,s:s,s:b}", "shard", (int)a->shard, "address", a->address, "reached", a->reached);
    struct ping_summary s;

    if (!a->reached)
        json_object_set_new(object, "error",
                            json_pack("{s:s,s:s,s:s}", "code", ps_err_name(a->error.code), "text", a->error.text,
                                      "peer", a->error.peer));
    if (a->report != NULL)
        json_object_set(object, "report", a->report);
    if (a->pings_len > 0) {
        s = ping_sum_up(a);
        json_object_set_new(object, "ping",
                            json_pack("{s:i,s:f,s:f,s:f}", "count", (int)a->pings_len, "min_us", s.least, "median_us",
                                      s.median, "max_us", s.most));
    }
    return object;
}

void
view_print_json(enum view_kind kind, const struct answer *answers, uint32_t n, FILE *out)
{
    json_t *shards = json_array(), *root;
    int not_reached = 0;

    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(shards, answer_json(&answers[i]));
        not_reached += !answers[i].reached;
    }
    root = json_pack("{s:s,s:o,s:i}", "command", view_names[kind], "shards", shards, "not_reached", not_reached);
    json_dumpf(root, out, JSON_INDENT(2));
    fputc('\n', out);
    json_decref(root);
}
