/* Each job: how its workers keep step and how they are, in all and on each shard. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/views/cells.h"
#include "client/tools/views/members.h"
#include "client/tools/views/views.h"

/* A job on one shard, or over several. Shards see the same workers, perhaps a moment apart: the worst counts. */
struct job_sum {
    const json_t *first;
    bool differs; /* its options are not the same everywhere */
    uint64_t live, lapsed, finished, slowest, fastest, variables, parked;
};

static void
job_add(struct job_sum *sum, const json_t *j)
{
    bool first = sum->first == NULL;

    if (first)
        sum->first = j;
    sum->differs = sum->differs || strcmp(member_text(j, "options"), member_text(sum->first, "options")) != 0;
    sum->live = first ? member_number(j, "live") : MIN(sum->live, member_number(j, "live"));
    sum->lapsed = MAX(sum->lapsed, member_number(j, "lapsed"));
    sum->finished = MAX(sum->finished, member_number(j, "finished"));
    sum->slowest = first ? member_number(j, "slowest_clock") : MIN(sum->slowest, member_number(j, "slowest_clock"));
    sum->fastest = MAX(sum->fastest, member_number(j, "fastest_clock"));
    sum->variables = MAX(sum->variables, member_number(j, "variables"));
    sum->parked += member_number(j, "pulls_parked");
}

/* Names only where they change: on the first row of a job. */
static void
job_row(struct table *t, const struct job_sum *sum, const char *who, bool named)
{
    const char *options = member_text(sum->first, "options");

    table_row(t);
    table_cell(t, "%s", named ? member_text(sum->first, "name") : "");
    table_cell(t, "%s", who);
    cell_count(t, member_number(sum->first, "workers"));
    cell_count(t, sum->live);
    cell_count(t, sum->lapsed);
    table_paint(t, sum->lapsed > 0 ? PAINT_WARNING : PAINT_PLAIN);
    cell_count(t, sum->finished);
    cell_count(t, sum->slowest);
    cell_count(t, sum->fastest);
    cell_count(t, sum->variables);
    cell_count(t, sum->parked);
    table_cell(t, "%s", named && sum->differs ? "not the same on all shards" : options);
    table_paint(t, named && sum->differs ? PAINT_WARNING : PAINT_PLAIN);
}

/* One job: all of it, and below its shards. Returns how many places it took. */
static size_t
job_print(struct table *t, const struct place *places, size_t len, bool parts)
{
    struct job_sum sum = {0};
    size_t n = 0;
    char who[16];

    while (n < len && place_same(&places[0], &places[n]))
        job_add(&sum, places[n++].report);
    job_row(t, &sum, "all", true);
    for (size_t i = 0; parts && i < n; i++) {
        struct job_sum part = {0};

        job_add(&part, places[i].report);
        snprintf(who, sizeof who, "%u", places[i].shard);
        job_row(t, &part, who, false);
    }
    return n;
}

void
view_jobs(const struct answer *answers, uint32_t n, const struct page *page)
{
    size_t len, at = 0;
    struct place *places = places_gather(answers, n, "job", &len);
    struct table *t;

    if (len == 0) {
        fprintf(page->out, "no jobs\n");
        free(places);
        return;
    }
    t = table_new("JOB", "SHARD>", "WORKERS>", "LIVE>", "LAPSED>", "FINISHED>", "SLOWEST CLOCK>", "FASTEST CLOCK>",
                  "VARIABLES>", "PULLS PARKED>", "OPTIONS", NULL);
    while (at < len)
        at += job_print(t, places + at, len - at, n > 1);
    table_print_free(t, page);
    free(places);
}
