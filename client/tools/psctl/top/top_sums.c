/* The sums of each job's workers, such as losses and hits: a line for each job. A strategy's first sum is of rows, so
 * that each of the others has a mean over these: of all steps, and of those between the two reports. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/tools/psctl/top/sections.h"
#include "common/core/base/text.h"
#include "common/core/base/units.h"

#define LINE_MAX_BYTES 4096

static double
sum_at(const json_t *job, size_t i)
{
    const json_t *value = json_array_get(json_object_get(job, "metrics"), i);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The same job in the earlier report. NULL: none, or not from the same shard. */
static const json_t *
job_before(const struct top_source *src, uint32_t answer, const char *name)
{
    const struct answer_sample *before = src->rates.before;
    const json_t *job;
    size_t i;

    if (before == NULL)
        return NULL;
    json_array_foreach(answer_list(&before->answers[answer], "job"), i, job)
    {
        if (strcmp(field_text(job, "name"), name) == 0)
            return job;
    }
    return NULL;
}

/* "loss", "metric 1" where it has no name. */
static void
put_name(struct text *t, const json_t *job, size_t i)
{
    const char *name = json_string_value(json_array_get(json_object_get(job, "metric_names"), i));

    if (name != NULL)
        text_put(t, "%s", name);
    else
        text_put(t, "metric %zu", i);
}

/* ", loss 0.0753 (now 0.0024)" */
static void
put_mean(struct text *t, const json_t *job, const json_t *before, size_t i)
{
    double rows = sum_at(job, 0), more = before != NULL ? rows - sum_at(before, 0) : 0;
    double mean = sum_at(job, i) / rows, now = before != NULL ? (sum_at(job, i) - sum_at(before, i)) / more : NAN;

    if (sum_at(job, i) == 0 || !(rows > 0))
        return; /* nothing was added to it yet */
    text_put(t, ", ");
    put_name(t, job, i);
    if (isfinite(mean))
        text_put(t, " %.4g", mean);
    else
        text_put(t, " -");
    if (more > 0 && isfinite(now))
        text_put(t, " (now %.4g)", now);
}

static void
print_job(const struct top_source *src, uint32_t answer, const json_t *job, const struct printer *page)
{
    const char *name = field_text(job, "name");
    const json_t *before = job_before(src, answer, name);
    char line[LINE_MAX_BYTES];
    struct text t = text_start(line, sizeof line);
    double rows = sum_at(job, 0);
    struct units u;

    text_put(&t, "%s: ", name);
    put_name(&t, job, 0);
    if (rows >= 0 && rows < 1e18)
        text_put(&t, " %s", units_count((uint64_t)rows, &u));
    else
        text_put(&t, " %g", rows);
    for (size_t i = 1; i < json_array_size(json_object_get(job, "metrics")); i++)
        put_mean(&t, job, before, i);
    printer_line(page, PAINT_PLAIN, "%s", line);
}

size_t
top_print_sums(const struct top_source *src, size_t most, const struct printer *page)
{
    const json_t *job;
    size_t n = 0, i;

    for (uint32_t answer = 0; answer < src->now->n; answer++) {
        json_array_foreach(answer_list(&src->now->answers[answer], "job"), i, job)
        {
            bool told = json_array_size(json_object_get(job, "metrics")) > 0;

            if (!told || n == most || (top_is_over(src, field_text(job, "name")) && !src->all))
                continue;
            print_job(src, answer, job, page);
            n++;
        }
    }
    return n;
}
