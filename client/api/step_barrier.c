#include "client/api/step_barrier.h"

#include <string.h>

#include "client/api/broadcast_query.h"
#include "client/core/shards/step_cursor.h"
#include "proto/psd.pb-c.h"

enum ps_err
step_barrier_start(ps_client *c, const char *name, const struct ps_cursor *at, uint32_t again, ps_op **op,
                   struct ps_error *e)
{
    struct ps_op *handle;
    enum ps_err err;

    client_enter(c);
    if ((handle = call_new(c)) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory to start a barrier");
    else
        err = call_started(handle, core_barrier_at(c->core, name, at, again, &handle->core, e), op);
    client_leave(c);
    return err;
}

struct step_barrier_query {
    const struct ps_cursor *at;
    uint32_t again;
    double *sums; /* [n] */
    size_t n;
    bool *known;
};

static bool
barrier_is_at(const Psd__Place *place, const struct step_barrier_query *wanted)
{
    struct ps_cursor at = step_cursor_welcomed(place != NULL ? place->at : NULL);
    int order = step_cursor_compare(&at, wanted->at);

    return order > 0 || (order == 0 && (place != NULL ? place->again : 0) >= wanted->again);
}

static void
take_sums(void *arg, const Psd__JobReport *m)
{
    const struct step_barrier_query *wanted = arg;

    memset(wanted->sums, 0, wanted->n * sizeof *wanted->sums);
    *wanted->known = m->opened != NULL && barrier_is_at(m->opened->place, wanted);
    if (m->opened != NULL && m->opened->n_sum > 0)
        memcpy(wanted->sums, m->opened->sum, MIN(wanted->n, m->opened->n_sum) * sizeof *wanted->sums);
}

enum ps_err
step_barrier_sums(ps_client *c, const struct ps_cursor *at, uint32_t again, size_t n, double *sums, bool *known,
                  struct ps_error *e)
{
    struct step_barrier_query wanted = {at, again, sums, n, known};

    return broadcast_query_job(c, take_sums, &wanted, -1, e);
}

static void
take_clocks(void *arg, const Psd__JobReport *m)
{
    struct step_barrier_clocks *out = arg;

    out->slowest = m->slowest_clock;
    out->fastest = m->leader;
}

enum ps_err
step_barrier_clocks(ps_client *c, struct step_barrier_clocks *out, struct ps_error *e)
{
    return broadcast_query_job(c, take_clocks, out, -1, e);
}
