/* BEGINs and OPENs that wait, in the list of their job, in order of arrival. */
#include <stdlib.h>

#include "server/core/shard_state.h"
#include "server/core/training/assign.h"

void
assign_wait(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *asked)
{
    struct job *job = c->session->job;
    struct assign_waiter *w;
    struct ps_error e;

    if (c->assigns_len >= s->config.parked_max) {
        limit_refuse(s, LIMIT_PARKED, &e, "too many assigns wait on this connection");
        actions_error(s, c, request, e.code, e.text);
        return;
    }
    if ((w = malloc(sizeof *w)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    *w = (struct assign_waiter){.connection = c, .request = request, .since_ms = s->now_ms, .asked = *asked};
    DL_APPEND(job->assign_waiters, w);
    c->assigns_len++;
}

static void
assign_unwait(struct job *job, struct assign_waiter *w)
{
    DL_DELETE(job->assign_waiters, w);
    w->connection->assigns_len--;
    free(w);
}

/* One that is still not to begin waits behind the others again, which is why only those that are there now are tried.
 */
void
assign_wake(struct shard *s, struct job *job)
{
    struct assign_waiter *w;
    uint32_t n = 0;

    DL_FOREACH (job->assign_waiters, w)
        n++;
    while (n-- > 0 && assigns_undecided(&job->assigns) == NULL && (w = job->assign_waiters) != NULL) {
        struct assign_waiter taken = *w;

        assign_unwait(job, w);
        assign_begin(s, taken.connection, taken.request, &taken.asked);
    }
}

bool
assign_end(struct shard *s, struct connection *c, uint64_t request, enum ps_err answer)
{
    struct assign_waiter *w, *next;
    bool found = false;

    if (c->assigns_len == 0)
        return false;
    DL_FOREACH_SAFE (c->session->job->assign_waiters, w, next) {
        if (w->connection != c || (request != 0 && w->request != request))
            continue;
        found = true;
        if (answer != PS_OK)
            actions_error(s, c, w->request, answer, ps_strerror(answer));
        assign_unwait(c->session->job, w);
    }
    return found;
}

void
assign_free_waiters(struct job *job)
{
    while (job->assign_waiters != NULL)
        assign_unwait(job, job->assign_waiters);
}
