/* Page after page, shard after shard. */
#include "client/checkpoint/job_definition.h"

#include <stdio.h>
#include <string.h>

/* The questions under way. */
struct job_definition_query {
    const char *job;
    struct checkpoint *manifest;
    struct checkpoint_gather variables; /* of all shards */
    struct job_definition *is;
    bool more; /* the shard that is asked has more: */
    uint64_t from;
    char after[2 * PS_NAME_MAX + 2]; /* of shards that give no number */
};

static enum ps_err
other_options(const struct job_definition_query *d, uint32_t shard, const Psd__Job *job, struct ps_error *e)
{
    char text[PS_ERROR_TEXT_MAX];

    wire_job_differences(d->manifest->declared, job, text, sizeof text);
    return ps_fail(e, PS_ERR_MISMATCH, "the shards do not know job '%.64s' alike: %.300s on shard %u", d->job, text,
                   shard);
}

static enum ps_err
take_job(struct job_definition_query *d, uint32_t shard, const Psd__JobDefinition *job, struct ps_error *e)
{
    struct job_definition *is = d->is;
    enum ps_err err;

    if (job->declared == NULL || job->now == NULL)
        return broadcast_query_unreadable(shard, e);
    if (strcmp(job->declared->name, d->job) != 0)
        return ps_fail(e, PS_ERR_PROTOCOL, "shard %u was asked for job '%.64s' and answered with job '%.64s'", shard,
                       d->job, job->declared->name);
    if (is->found && !wire_job_equal(d->manifest->declared, job->declared))
        return other_options(d, shard, job->declared, e);
    if (!is->found && (err = checkpoint_set_job(d->manifest, job->declared, job->now, e)) != PS_OK)
        return err;
    is->slowest = is->found ? MIN(is->slowest, job->slowest_clock) : job->slowest_clock;
    is->fastest = MAX(is->fastest, job->fastest_clock);
    is->live = MAX(is->live, job->live);
    is->found = true;
    return PS_OK;
}

static enum ps_err
take_variables(struct job_definition_query *d, uint32_t shard, const Psd__Report *r, struct ps_error *e)
{
    enum ps_err err;

    for (size_t i = 0; i < r->n_definition; i++) {
        const Psd__VariableDefinition *v = r->definition[i];

        if (v->declared == NULL || v->now == NULL)
            return broadcast_query_unreadable(shard, e);
        if ((err = checkpoint_gather_take(&d->variables, v->declared, v->now, e)) != PS_OK)
            return err;
    }
    return PS_OK;
}

static enum ps_err
job_definition_take(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    struct job_definition_query *d = arg;
    Psd__Report *r = psd__report__unpack(NULL, answer.len, answer.data);
    enum ps_err err = PS_OK;

    if (r == NULL)
        return broadcast_query_unreadable(shard, e);
    d->more = r->more && (r->next > d->from || (r->next == 0 && r->n_definition > 0));
    d->from = r->next;
    if (r->job_definition != NULL)
        err = take_job(d, shard, r->job_definition, e);
    else if (r->n_definition > 0)
        err = broadcast_query_unreadable(shard, e); /* variables of which job? */
    if (err == PS_OK)
        err = take_variables(d, shard, r, e);
    if (err == PS_OK && d->from == 0 && r->n_definition > 0)
        snprintf(d->after, sizeof d->after, "%s/%s", d->job, r->definition[r->n_definition - 1]->declared->name);
    psd__report__free_unpacked(r, NULL);
    return err;
}

enum ps_err
job_definition_query(const struct call_deadline *limit, const char *job, struct checkpoint *manifest,
                     struct job_definition *out, struct ps_error *e)
{
    struct job_definition_query d = {.job = job, .manifest = manifest, .is = out};
    Psd__Query query = PSD__QUERY__INIT;
    struct broadcast_query a = {
        .limit = limit, .type = MSG_QUERY, .message = &query.base, .take = job_definition_take, .arg = &d};
    enum ps_err err = PS_OK;

    *out = (struct job_definition){0};
    query.kind = PSD__QUERY_KIND__DEFINITIONS;
    query.job = (char *)job;
    query.after = d.after;
    for (uint32_t shard = 0; err == PS_OK && shard < limit->client->shards; shard++) {
        d.after[0] = '\0';
        d.from = 0;
        do {
            query.from = d.from;
            err = broadcast_query_run(&a, shard, 1, e);
        } while (err == PS_OK && d.more);
    }
    if (err == PS_OK)
        err = checkpoint_gather_add(&d.variables, manifest, e);
    checkpoint_gather_finish(&d.variables);
    if (err == PS_OK && !out->found)
        return ps_fail(e, PS_ERR_NOT_FOUND, "the cluster has no job '%.64s'", job);
    return err;
}
