#include "client/tools/psctl/query/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By the shard's uptime, which is what its counters count along; pid and uptime tell a new process. */
static double
rates_seconds(const struct shard_answer *before, const struct shard_answer *now)
{
    const json_t *b = json_object_get(before->report, "status"), *n = json_object_get(now->report, "status");
    uint64_t from = field_number(b, "uptime_ms"), to = field_number(n, "uptime_ms");

    if (!before->reached || !now->reached || to <= from || field_number(b, "pid") != field_number(n, "pid"))
        return 0;
    return (double)(to - from) / 1000;
}

enum ps_err
rates_init(struct rates *r, const struct answer_sample *before, const struct answer_sample *now)
{
    ps_assert(before == NULL || before->n == now->n);
    *r = (struct rates){.before = before, .now = now};
    if ((r->seconds = calloc(now->n, sizeof *r->seconds)) == NULL)
        return PS_ERR_NOMEM;
    if (before == NULL)
        return PS_OK;
    for (uint32_t i = 0; i < now->n; i++)
        r->seconds[i] = rates_seconds(&before->answers[i], &now->answers[i]);
    r->variables = variable_entries(before->answers, before->n, &r->variables_len);
    return r->variables != NULL ? PS_OK : PS_ERR_NOMEM;
}

void
rates_finish(struct rates *r)
{
    free(r->seconds);
    free(r->variables);
    *r = (struct rates){0};
}

static double
rates_between(uint64_t before, uint64_t now, double seconds)
{
    return seconds > 0 && now >= before ? (double)(now - before) / seconds : NAN;
}

double
rates_stat(const struct rates *r, uint32_t i, const char *name)
{
    const json_t *now = json_object_get(r->now->answers[i].report, "stats"), *before;

    if (r->seconds[i] == 0)
        return NAN;
    before = json_object_get(r->before->answers[i].report, "stats");
    return rates_between(field_number(before, name), field_number(now, name), r->seconds[i]);
}

double
rates_variable(const struct rates *r, const struct variable_entry *variable, size_t figure)
{
    const struct variable_entry *before;
    uint32_t i = 0;

    while (i < r->now->n && r->now->answers[i].shard != variable->shard)
        i++;
    if (i == r->now->n || r->seconds[i] == 0)
        return NAN;
    before = variable_entries_find(r->variables, r->variables_len, variable);
    return rates_between(before != NULL ? variable_figure(before->v, figure) : 0, variable_figure(variable->v, figure),
                         r->seconds[i]);
}

double
rates_add(double sum, double rate)
{
    if (isnan(rate))
        return sum;
    return isnan(sum) ? rate : sum + rate;
}

static uint64_t
rates_bucket(const struct shard_answer *a, size_t bucket)
{
    const json_t *age = json_object_get(json_object_get(a->report, "stats"), "age");

    return (uint64_t)json_integer_value(json_array_get(json_object_get(age, "count"), bucket));
}

void
rates_ages(const struct rates *r, uint64_t ages[RATES_BUCKETS])
{
    memset(ages, 0, RATES_BUCKETS * sizeof *ages);
    for (uint32_t i = 0; i < r->now->n; i++) {
        for (size_t b = 0; r->seconds[i] > 0 && b < RATES_BUCKETS; b++) {
            uint64_t before = rates_bucket(&r->before->answers[i], b), now = rates_bucket(&r->now->answers[i], b);

            ages[b] += now - MIN(before, now);
        }
    }
}

size_t
rates_age_at(const uint64_t ages[RATES_BUCKETS], double share)
{
    uint64_t all = 0, below = 0;
    size_t b;

    for (b = 0; b < RATES_BUCKETS; b++)
        all += ages[b];
    if (all == 0)
        return RATES_BUCKETS;
    for (b = 0; b + 1 < RATES_BUCKETS; b++) {
        below += ages[b];
        if ((double)below >= share * (double)all)
            break;
    }
    return b;
}

const char *
rates_text(double per_second, struct units *out)
{
    if (isnan(per_second))
        snprintf(out->text, sizeof out->text, "-");
    else if (per_second > 0 && per_second < 9.95)
        snprintf(out->text, sizeof out->text, "%.1f", per_second);
    else
        units_count((uint64_t)(per_second + 0.5), out);
    return out->text;
}

const char *
rates_bytes_text(double bytes_per_second, struct units *out)
{
    size_t len;

    if (isnan(bytes_per_second))
        return strcpy(out->text, "-");
    units_bytes((uint64_t)(bytes_per_second + 0.5), out);
    len = strlen(out->text);
    snprintf(out->text + len, sizeof out->text - len, "/s");
    return out->text;
}
