/* Each job: how its workers are synchronized and their states, in all and on each shard. A shard counts the workers
 * that it sees and the variables that lie on it: over all shards, workers are counted one by one, and of variables the
 * first blocks, each of which lies on one shard. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/query/report_fields.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/views.h"
#include "client/tools/psctl/views/worker_sum.h"
#include "client/tools/shared/output.h"

/* A job on one shard, or over several. */
struct job_sum {
    const json_t *first;
    bool differs; /* its options are not the same everywhere */
    struct worker_counts counts;
    uint64_t slowest, fastest, variables, parked;
    uint64_t firsts; /* variables whose first block is on one of the shards */
};

/* Everything that the shards report about jobs. */
struct jobs {
    struct report_entry *places;
    size_t len;
    struct worker_sum *workers;
    size_t workers_len;
    bool parts; /* show each shard's */
};

static void
job_add(struct job_sum *sum, const json_t *j)
{
    bool first = sum->first == NULL;

    if (first)
        sum->first = j;
    sum->differs = sum->differs || strcmp(field_text(j, "options"), field_text(sum->first, "options")) != 0;
    sum->slowest = first ? field_number(j, "slowest_clock") : MIN(sum->slowest, field_number(j, "slowest_clock"));
    sum->fastest = MAX(sum->fastest, field_number(j, "fastest_clock"));
    sum->parked += field_number(j, "pulls_parked");
    sum->firsts += field_number(j, "first");
    sum->variables = MAX(sum->variables, field_number(j, "variables"));
}

/* One shard's report. */
static struct job_sum
job_part(const json_t *j)
{
    struct job_sum part = {.counts = {.live = field_number(j, "live"),
                                      .lapsed = field_number(j, "lapsed"),
                                      .finished = field_number(j, "finished")}};

    job_add(&part, j);
    return part;
}

/* Of the job at places[at], which takes *n of them. Where a shard was not reached, or is of a version that does not
 * count first blocks, there are at least as many variables as on the shard that has most. */
static struct job_sum
job_whole(const struct jobs *jobs, size_t at, size_t *n)
{
    const char *name = field_text(jobs->places[at].report, "name");
    struct job_sum sum = {.counts = worker_sums_count(jobs->workers, jobs->workers_len, name)};

    for (*n = 0; at + *n < jobs->len && report_entry_same(&jobs->places[at], &jobs->places[at + *n]); ++*n)
        job_add(&sum, jobs->places[at + *n].report);
    sum.variables = MAX(sum.variables, sum.firsts);
    return sum;
}

/* Names only where they change: on the first row of a job. */
static void
job_row(struct text_table *t, const struct job_sum *sum, const char *who, bool named, bool over)
{
    const char *options = field_text(sum->first, "options");

    table_row(t);
    table_cell(t, "%s", named ? field_text(sum->first, "name") : "");
    table_cell(t, "%s", who);
    cell_count(t, field_number(sum->first, "workers"));
    cell_count(t, sum->counts.live);
    cell_count(t, sum->counts.lapsed);
    table_paint(t, sum->counts.lapsed > 0 ? PAINT_WARNING : PAINT_PLAIN);
    cell_count(t, sum->counts.finished);
    cell_count(t, sum->slowest);
    cell_count(t, sum->fastest);
    cell_count(t, sum->variables);
    cell_count(t, sum->parked);
    if (named && sum->differs)
        table_cell(t, "not the same on all shards");
    else
        cell_setting(t, options, field_text(sum->first, "declared"));
    table_paint(t, named && sum->differs ? PAINT_WARNING : PAINT_PLAIN);
    if (over)
        table_dim(t);
}

/* The jobs that are over, or those that are not: each in all, and below it its shards. */
static void
jobs_rows(struct text_table *t, const struct jobs *jobs, bool over)
{
    char who[16];
    size_t n;

    for (size_t at = 0; at < jobs->len; at += n) {
        struct job_sum sum = job_whole(jobs, at, &n);

        if (worker_counts_over(&sum.counts) != over)
            continue;
        job_row(t, &sum, "all", true, over);
        for (size_t i = at; jobs->parts && i < at + n; i++) {
            struct job_sum part = job_part(jobs->places[i].report);

            snprintf(who, sizeof who, "%u", jobs->places[i].shard);
            job_row(t, &part, who, false, over);
        }
    }
}

void
view_jobs(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    struct jobs jobs = {.parts = n > 1};
    struct text_table *t;

    jobs.places = report_entries_gather(answers, n, "job", &jobs.len);
    jobs.workers = worker_sums(answers, n, &jobs.workers_len);
    if (jobs.len == 0) {
        fprintf(page->out, "no jobs\n");
        goto out;
    }
    t = table_of(output_jobs, "lrrrrrrrrrl");
    jobs_rows(t, &jobs, false);
    jobs_rows(t, &jobs, true);
    table_print_free(t, page);
out:
    free(jobs.workers);
    free(jobs.places);
}
