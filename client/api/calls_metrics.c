/* The public calls about metrics: what this worker sums up, and the sum over all workers. */
#include <string.h>

#include "client/api/broadcast_query.h"
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

struct metrics_query {
    double *sums; /* [n] */
    size_t n;
};

static void
take_metrics(void *arg, const Psd__JobReport *m)
{
    const struct metrics_query *wanted = arg;

    memset(wanted->sums, 0, wanted->n * sizeof *wanted->sums);
    if (m->n_metrics > 0)
        memcpy(wanted->sums, m->metrics, MIN(wanted->n, m->n_metrics) * sizeof *wanted->sums);
}

enum ps_err
ps_client_metrics(ps_client *c, size_t n, double *sums, int timeout_ms, struct ps_error *error)
{
    struct metrics_query wanted = {sums, n};
    enum ps_err err;

    if ((err = call_need(c, sums, error)) != PS_OK)
        return err;
    if (n == 0 || n > PS_METRICS_MAX)
        return ps_fail(error, PS_ERR_INVALID, "%zu metrics; 1 to %d can be asked for", n, PS_METRICS_MAX);
    return broadcast_query_job(c, take_metrics, &wanted, timeout_ms, error);
}
