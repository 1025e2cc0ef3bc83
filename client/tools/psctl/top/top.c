#include "client/tools/psctl/top/top.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/top/sections.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/views.h"
#include "common/core/base/units.h"

const unsigned top_queries = QUERY_BIT(PS_QUERY_STATUS) | QUERY_BIT(PS_QUERY_STATS) | QUERY_BIT(PS_QUERY_JOBS) |
                             QUERY_BIT(PS_QUERY_WORKERS) | QUERY_BIT(PS_QUERY_BLOCKED) | QUERY_BIT(PS_QUERY_VARIABLES);

#define HEAD_LINES 3
#define SUMS_MAX   4  /* jobs whose workers' metrics are shown */
#define SUMS_ROWS  16 /* and none on a terminal that is lower */

/* ---- the head ---- */

bool
top_is_over(const struct top_source *src, const char *job)
{
    struct worker_counts counts = worker_sums_count(src->workers, src->workers_len, job);

    return worker_counts_over(&counts);
}

/* Jobs that have workers, and how many of them are over. */
static size_t
count_jobs(const struct top_source *src, size_t *over)
{
    size_t n = 0;

    *over = 0;
    for (size_t i = 0; i < src->workers_len; i++) {
        const char *job = field_text(src->workers[i].first, "job");

        if (i > 0 && strcmp(field_text(src->workers[i - 1].first, "job"), job) == 0)
            continue;
        n++;
        *over += top_is_over(src, job);
    }
    return n;
}

static size_t
count_state(const struct top_source *src, const char *state)
{
    size_t n = 0;

    for (size_t i = 0; i < src->workers_len; i++)
        n += strcmp(worker_sum_state(&src->workers[i]), state) == 0;
    return n;
}

/* ": 2 live, 1 lapsed" */
static void
states_text(const struct top_source *src, char *out, size_t size)
{
    static const char *const states[] = {"live", "away", "lapsed", "evicted", "finished"};
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        size_t n = count_state(src, states[i]);

        if (n > 0 && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s %zu %s", at == 0 ? ":" : ",", n, states[i]);
    }
}

/* " (2 over: --all shows them)" */
static void
over_text(const struct top_source *src, size_t over, char *out, size_t size)
{
    out[0] = '\0';
    if (over > 0)
        snprintf(out, size, " (%zu over%s)", over, src->all ? "" : ": --all shows them");
}

static const char *
cluster_name(const struct answer_sample *now)
{
    for (uint32_t i = 0; i < now->n; i++)
        if (now->answers[i].reached)
            return field_text(json_object_get(now->answers[i].report, "status"), "cluster");
    return "?";
}

static void
print_cluster(const struct top_source *src, const struct printer *page)
{
    const struct answer_sample *now = src->now;
    uint32_t up = answers_reached(now->answers, now->n);
    size_t over, jobs = count_jobs(src, &over);
    char states[128], hidden[64];

    states_text(src, states, sizeof states);
    over_text(src, over, hidden, sizeof hidden);
    printer_line(page,
                 up < now->n                      ? PAINT_FAULT
                 : count_state(src, "lapsed") > 0 ? PAINT_WARNING
                                                  : PAINT_PLAIN,
                 "cluster \"%s\": %u of %u shard%s up, %zu job%s%s, %zu worker%s%s", cluster_name(now), up, now->n,
                 now->n == 1 ? "" : "s", jobs, jobs == 1 ? "" : "s", hidden, src->workers_len,
                 src->workers_len == 1 ? "" : "s", states);
}

static double
sum_of(const struct rates *r, const char *const names[], size_t n)
{
    double sum = NAN;

    for (uint32_t i = 0; i < r->now->n; i++)
        for (size_t k = 0; k < n; k++)
            sum = rates_add(sum, rates_stat(r, i, names[k]));
    return sum;
}

static const char *
age_text(const uint64_t ages[RATES_BUCKETS], double share, struct units *out)
{
    size_t bucket = rates_age_at(ages, share);

    if (bucket == RATES_BUCKETS)
        return strcpy(out->text, "-");
    age_range(bucket, out->text, sizeof out->text);
    return out->text;
}

static void
print_rates(const struct rates *r, const struct printer *page)
{
    static const char *const pushes[] = {"pushes_applied"}, *const pushed[] = {"pushed_bytes"},
                             *const pulled[] = {"pulled_bytes"},
                             *const refused[] = {"refused_nonfinite", "refused_shape", "refused_other"},
                             *const dropped[] = {"dropped_stale", "dropped_late"};
    double refusals = sum_of(r, refused, ARRAY_LEN(refused));
    uint64_t ages[RATES_BUCKETS];
    struct units u[7];

    rates_ages(r, ages);
    printer_line(page, PAINT_PLAIN, "%s pushes/s, %s pushed, %s pulled", rates_text(sum_of(r, pushes, 1), &u[0]),
                 rates_bytes_text(sum_of(r, pushed, 1), &u[1]), rates_bytes_text(sum_of(r, pulled, 1), &u[2]));
    printer_line(page, refusals > 0 ? PAINT_WARNING : PAINT_PLAIN, "%s refused/s, %s dropped/s, age median %s, 99th %s",
                 rates_text(refusals, &u[3]), rates_text(sum_of(r, dropped, ARRAY_LEN(dropped)), &u[4]),
                 age_text(ages, 0.5, &u[5]), age_text(ages, 0.99, &u[6]));
}

/* ---- layout ---- */

enum { SHARDS, WORKERS, VARIABLES, SECTIONS };

static const char *const section_names[SECTIONS] = {"shards", "workers", "variables"};

/* Lines for the rows of each section, of `lines` in all: none gets more than it needs while another has too few, and
 * the rest of equal shares goes to the first that need more. Each section also takes an empty line and its headings. */
static void
share_lines(size_t lines, const size_t want[SECTIONS], size_t got[SECTIONS])
{
    size_t left = lines, share;

    for (size_t s = 0; s < SECTIONS; s++)
        left -= MIN(left, want[s] > 0 ? 2 : 0);
    share = left / SECTIONS;
    for (size_t s = 0; s < SECTIONS; s++) {
        got[s] = MIN(want[s], share);
        left -= got[s];
    }
    for (size_t s = 0; s < SECTIONS; s++) {
        size_t more = MIN(want[s] - got[s], left);

        got[s] += more;
        left -= more;
    }
}

/* A section that must leave rows out says so in its last line. */
static size_t
rows_shown(size_t want, size_t got)
{
    return want <= got ? want : got - MIN(got, 1);
}

static void
print_section(struct text_table *t, size_t s, size_t want, size_t got, const struct printer *page)
{
    size_t shown = rows_shown(want, got);

    if (got > 0) {
        fputc('\n', page->out);
        table_print(t, page);
    }
    if (got > 0 && shown < want)
        printer_line(page, PAINT_PLAIN, "... %zu more %s", want - shown, section_names[s]);
    table_free(t);
}

static void
print_sections(const struct top_source *src, size_t rows, const struct printer *page)
{
    size_t want[SECTIONS] = {src->now->n, 0, top_variables_count(src)}, got[SECTIONS];
    struct top_worker *workers = top_workers(src, &want[WORKERS]);

    share_lines(rows == 0 ? SIZE_MAX : rows - MIN(rows, HEAD_LINES), want, got);
    print_section(top_shards_table(src, rows_shown(want[SHARDS], got[SHARDS])), SHARDS, want[SHARDS], got[SHARDS],
                  page);
    print_section(top_workers_table(workers, want[WORKERS], src->sort, rows_shown(want[WORKERS], got[WORKERS])),
                  WORKERS, want[WORKERS], got[WORKERS], page);
    print_section(top_variables_table(src, rows_shown(want[VARIABLES], got[VARIABLES])), VARIABLES, want[VARIABLES],
                  got[VARIABLES], page);
    free(workers);
}

void
top_print(const struct answer_sample *before, const struct answer_sample *now, const struct top_choice *choice,
          size_t rows, const struct printer *page)
{
    struct top_source src = {.now = now, .sort = choice->sort, .all = choice->all};
    size_t sums;

    src.workers = worker_sums(now->answers, now->n, &src.workers_len);
    if (rates_init(&src.rates, before, now) != PS_OK) {
        printer_line(page, PAINT_FAULT, "out of memory");
    } else {
        print_cluster(&src, page);
        print_rates(&src.rates, page);
        sums = rows == 0 ? SIZE_MAX : rows < SUMS_ROWS ? 0 : SUMS_MAX;
        sums = top_print_sums(&src, sums, page);
        print_sections(&src, rows == 0 ? 0 : rows - sums, page);
    }
    rates_finish(&src.rates);
    free(src.workers);
}
