/* The report as JSON: the settings, the machine, and every table with every sample.
 *
 *     {"bench": 1, "machine": {...}, "settings": {...}, "left_out": ["..."], "tables": [{
 *       "area": "wire", "title": "push", "unit": "GB/s", "better": "more", "axis": "bytes of a block" or null,
 *       "of_ways": false (x of the ways counts, not of the rows), "once": false (one sample, however many rounds),
 *       "rows": [{"label": "1 MiB", "x": 1048576, "figures": [{
 *         "way": "psd", "x": 0, "median": 5.1, "spread": 0.02, "samples": [...], "ratios": {"pump": 0.95}}]}]}]}
 *
 * Ways that were not sampled are not there. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/bench/report.h"
#include "tests/bench/server.h"

static json_t *
figure_json(const struct bench_table *t, const struct bench_row *row, size_t way)
{
    const struct series *s = &row->figures[way];
    json_t *samples = json_array(), *ratios = json_object();
    double ratio;
    size_t other;

    for (int i = 0; i < s->n; i++)
        json_array_append_new(samples, json_real(s->value[i]));
    for (size_t k = 0; k < AGAINST_MAX; k++)
        if (table_ratio(t, row, way, k, &ratio, &other))
            json_object_set_new(ratios, t->ways[other].name, json_real(ratio));
    return json_pack("{s:s,s:f,s:f,s:f,s:o,s:o}", "way", t->ways[way].name, "x", t->ways[way].x, "median",
                     series_median(s), "spread", series_spread(s), "samples", samples, "ratios", ratios);
}

static json_t *
table_json(const struct bench_table *t)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < t->rows_len; i++) {
        json_t *figures = json_array();

        for (size_t w = 0; w < t->ways_len; w++)
            if (t->rows[i].figures[w].n > 0)
                json_array_append_new(figures, figure_json(t, &t->rows[i], w));
        json_array_append_new(
            rows, json_pack("{s:s,s:f,s:o}", "label", t->rows[i].label, "x", t->rows[i].x, "figures", figures));
    }
    return json_pack("{s:s,s:s,s:s,s:s,s:s?,s:b,s:b,s:o}", "area", t->area, "title", t->title, "unit", t->unit,
                     "better", t->less ? "less" : "more", "axis", t->axis, "of_ways", t->of_ways, "once", t->once,
                     "rows", rows);
}

/* The processor's name as the kernel has it. */
static void
report_json_processor(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(out, size, "unknown");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, size, "%s", strchr(line, ':') + 2);
            break;
        }
    if (f != NULL)
        fclose(f);
}

static json_t *
machine_json(void)
{
    struct utsname u = {0};
    char name[256];

    uname(&u);
    report_json_processor(name, sizeof name);
    return json_pack("{s:s,s:i,s:s,s:s}", "processor", name, "cores", (int)sysconf(_SC_NPROCESSORS_ONLN), "system",
                     u.sysname, "release", u.release);
}

void
report_json(const struct bench_report *r, const char *path)
{
    static const char *const extents[] = {"tiny", "short", "full"};
    const struct bench_options *s = r->settings;
    json_t *tables = json_array(), *left_out = json_array(), *all;
    int status;

    for (size_t i = 0; i < r->tables_len; i++)
        json_array_append_new(tables, table_json(r->tables[i]));
    for (size_t i = 0; i < r->left_out_len; i++)
        json_array_append_new(left_out, json_string(r->left_out[i]));
    all = json_pack("{s:i,s:o,s:{s:s,s:I,s:f,s:s},s:o,s:o}", "bench", 1, "machine", machine_json(), "settings",
                    "extent", extents[s->extent], "rounds", (json_int_t)s->rounds, "seconds", s->seconds, "congestion",
                    s->congestion, "left_out", left_out, "tables", tables);
    status = json_dump_file(all, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(all);
    if (status < 0)
        bench_die(path, NULL);
}
