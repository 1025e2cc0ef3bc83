/* The public calls about metrics: what this worker sums up, and the sum over all workers. */
#include <string.h>

#include "client/asking.h"
#include "proto/psd.pb-c.h"

enum ps_err
ps_client_set_metrics(ps_client *c, size_t n, const double *values, struct ps_error *error)
{
    enum ps_err err;

    if ((err = call_need(c, n > 0 ? (const void *)values : c, error)) != PS_OK)
        return err;
    client_enter(c);
    err = core_set_metrics(c->core, n, values, error);
    client_leave(c);
    return err;
}

struct wanted {
    const char *job;
    size_t n;
    double *sums;
};

static enum ps_err
take_job(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    const struct wanted *wanted = arg;
    Psd__Report *m = psd__report__unpack(NULL, answer.len, answer.data);
    enum ps_err err = PS_OK;

    if (m == NULL)
        return asking_unreadable(shard, e);
    memset(wanted->sums, 0, wanted->n * sizeof *wanted->sums);
    if (m->n_job == 0)
        err = ps_fail(e, PS_ERR_NOT_FOUND, "shard %u does not know the job '%s'", shard, wanted->job);
    else if (m->job[0]->n_metrics > 0)
        memcpy(wanted->sums, m->job[0]->metrics, MIN(wanted->n, m->job[0]->n_metrics) * sizeof *wanted->sums);
    psd__report__free_unpacked(m, NULL);
    return err;
}

enum ps_err
ps_client_metrics(ps_client *c, size_t n, double *sums, int timeout_ms, struct ps_error *error)
{
    Psd__Query message = PSD__QUERY__INIT;
    struct limit limit;
    struct wanted wanted = {.n = n, .sums = sums};
    struct asking a = {.limit = &limit, .type = MSG_QUERY, .message = &message.base, .take = take_job, .arg = &wanted};
    enum ps_err err;

    if ((err = call_need(c, sums, error)) != PS_OK)
        return err;
    if (n == 0 || n > PS_METRICS_MAX)
        return ps_fail(error, PS_ERR_INVALID, "%zu metrics; 1 to %d can be asked for", n, PS_METRICS_MAX);
    wanted.job = c->options.job;
    message.kind = PSD__QUERY_KIND__JOBS;
    message.job = (char *)c->options.job;
    limit = limit_of(c, timeout_ms);
    return asking_run(&a, 0, 1, error);
}
