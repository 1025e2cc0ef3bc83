/* Counters, how old pushes were, and how near limits are. */
#include <inttypes.h>
#include <string.h>

#include "client/tools/psctl/query/report_fields.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/views.h"
#include "client/tools/shared/output.h"
#include "common/core/wire/stats_list.h"

#define HISTOGRAM_BAR 40 /* columns of the longest */

/* In the order of output_stats, which names them. */
static const struct stat_line {
    const char *member;
    enum output_stat_kind kind;
} stat_lines[] = {
#define STAT_LINE(member, page, kind, ...) {#member, STAT_##kind},
    STATS_REPORTED(STAT_LINE)
#undef STAT_LINE
};

static void
stat_cell(struct text_table *t, const struct stat_line *line, uint64_t value)
{
    if (line->kind == STAT_BYTES)
        cell_bytes(t, value);
    else
        cell_count(t, value);
    table_paint(t, line->kind == STAT_TROUBLE && value > 0 ? PAINT_WARNING : PAINT_PLAIN);
}

static void
print_counters(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    struct text_table *t = table_new("COUNTER", "ALL>", NULL);
    uint32_t shown = n > 1 ? MIN(n, (uint32_t)TABLE_COLUMNS_MAX - 2) : 0;
    char heading[24];

    for (uint32_t i = 0; i < shown; i++) {
        snprintf(heading, sizeof heading, "SHARD %u>", answers[i].shard);
        table_column(t, heading);
    }
    for (size_t l = 0; l < ARRAY_LEN(stat_lines); l++) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < n; i++)
            sum += field_number(json_object_get(answers[i].report, "stats"), stat_lines[l].member);
        table_row(t);
        table_cell(t, "%s", output_stats[l].term);
        stat_cell(t, &stat_lines[l], sum);
        for (uint32_t i = 0; i < shown; i++) {
            if (answers[i].reached)
                stat_cell(t, &stat_lines[l],
                          field_number(json_object_get(answers[i].report, "stats"), stat_lines[l].member));
            else
                table_cell(t, "?");
        }
    }
    table_print_free(t, page);
    if (n > 1 && shown < n)
        fprintf(page->out, "shards %u to %u are in the sum; --json shows them all\n", shown, n - 1);
}

/* Pushes of one age bucket on all shards. */
static uint64_t
age_count(const struct shard_answer *answers, uint32_t n, size_t bucket)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        const json_t *stats = json_object_get(answers[i].report, "stats");
        const json_t *count = json_object_get(json_object_get(stats, "age"), "count");

        sum += (uint64_t)json_integer_value(json_array_get(count, bucket));
    }
    return sum;
}

void
age_range(size_t bucket, char *out, size_t size)
{
    if (bucket <= 1)
        snprintf(out, size, "%zu", bucket);
    else
        snprintf(out, size, "%" PRIu64 "-%" PRIu64, UINT64_C(1) << (bucket - 1), (UINT64_C(1) << bucket) - 1);
}

static void
age_row(struct text_table *t, size_t bucket, uint64_t count, uint64_t most, uint64_t sum)
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
print_ages(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    enum { BUCKETS = 64 };
    uint64_t count[BUCKETS], most = 0, sum = 0;
    struct text_table *t;
    size_t used = 0;

    for (size_t b = 0; b < BUCKETS; b++) {
        count[b] = age_count(answers, n, b);
        most = MAX(most, count[b]);
        sum += count[b];
        if (count[b] > 0)
            used = b + 1;
    }
    if (used == 0) {
        fprintf(page->out, "\nno block has been pushed yet\n");
        return;
    }
    fprintf(page->out, "\nages of pushed blocks, in updates that each missed:\n");
    t = table_of(output_ages, "rrr");
    table_column(t, ""); /* bars */
    for (size_t b = 0; b < used; b++)
        age_row(t, b, count[b], most, sum);
    table_print_free(t, page);
}

/* ---- Limits ---- */

static const json_t *
limit_of(const struct shard_answer *a, size_t i)
{
    return json_array_get(json_object_get(json_object_get(a->report, "stats"), "limit"), i);
}

static double
limit_fullness(const json_t *limit)
{
    uint64_t max = field_number(limit, "max");

    return max > 0 ? (double)field_number(limit, "now") / (double)max : 0;
}

static void
limit_cell(struct text_table *t, const json_t *limit, const char *member)
{
    uint64_t value = field_number(limit, member);

    if (value == 0 && strcmp(member, "max") == 0)
        table_cell(t, "-");
    else if (field_flag(limit, "bytes"))
        cell_bytes(t, value);
    else
        cell_count(t, value);
}

/* The row of the shard that is nearest to the limit. */
static void
limit_row(struct text_table *t, const struct shard_answer *answers, uint32_t n, size_t i, uint32_t fullest)
{
    const json_t *limit = limit_of(&answers[fullest], i);
    const char *option = field_text(limit, "option");
    uint64_t refused = 0;

    for (uint32_t k = 0; k < n; k++)
        refused += field_number(limit_of(&answers[k], i), "refused");
    table_row(t);
    table_cell(t, "%s", field_text(limit, "name"));
    limit_cell(t, limit, "now");
    table_paint(t, limit_fullness(limit) >= 0.9 ? PAINT_WARNING : PAINT_PLAIN);
    limit_cell(t, limit, "max");
    table_cell(t, "%u", answers[fullest].shard);
    cell_count(t, refused);
    table_paint(t, refused > 0 ? PAINT_WARNING : PAINT_PLAIN);
    table_cell(t, "%s%s", *option != '\0' ? "--" : "-", option);
}

static void
print_limits(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    struct text_table *t = table_of(output_limits, "lrrrrl");
    size_t rows = 0;

    for (;; rows++) {
        const json_t *found = NULL;
        uint32_t fullest = 0;

        for (uint32_t k = 0; k < n; k++) {
            const json_t *limit = limit_of(&answers[k], rows);

            if (limit == NULL || (found != NULL && limit_fullness(limit) <= limit_fullness(found)))
                continue;
            found = limit;
            fullest = k;
        }
        if (found == NULL)
            break;
        limit_row(t, answers, n, rows, fullest);
    }
    if (rows == 0) {
        table_free(t);
        return;
    }
    fprintf(page->out, "\nlimits, by the shard that is nearest to each:\n");
    table_print_free(t, page);
}

void
view_stats(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    print_counters(answers, n, page);
    print_ages(answers, n, page);
    print_limits(answers, n, page);
}
