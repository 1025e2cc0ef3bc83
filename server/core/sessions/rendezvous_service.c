#include "server/core/sessions/rendezvous_service.h"

#include <stdio.h>
#include <string.h>

#include "common/core/wire/rendezvous_message.h"
#include "server/core/shard_state.h"

/* ---- Answers ---- */

/* The same bytes for all but for the request; made again for each, since a rendezvous is held once in a long while. */
static void
send_table(struct shard *s, struct connection *c, uint64_t request, const struct rendezvous_table *t)
{
    struct rendezvous_message m;

    rendezvous_message(&m, t);
    actions_send(s, c, MSG_MET, request, &m.met.base);
}

void
rendezvous_service_time(struct shard *s)
{
    struct rendezvous_answer answer;

    while (rendezvous_core_next(&s->rendezvous, s->now_ms, &answer)) {
        struct connection *c = connection_find(s, answer.conn_id);
        uint64_t request;

        ps_assert(c != NULL && c->rendezvous_request != 0);
        request = c->rendezvous_request;
        c->rendezvous_request = 0;
        c->turn = s->turn.number; /* without this turn's commit it gets no answer, and has to ask again */
        if (answer.table != NULL)
            send_table(s, c, request, answer.table);
        else
            actions_error(s, c, request, answer.error.code, answer.error.text);
    }
}

/* ---- Requests ---- */

static enum ps_err
rendezvous_service_come(struct shard *s, const struct connection *c, const Psd__Meet *m, struct ps_error *e)
{
    struct rendezvous_request joins = rendezvous_message_request(m, c->id);

    if (s->config.shard != 0)
        return ps_fail(e, PS_ERR_INVALID, "groups form at shard 0, this is shard %u", s->config.shard);
    if (strcmp(m->cluster, s->cluster) != 0)
        return ps_fail(e, PS_ERR_CLUSTER, "this is shard 0 of cluster '%.128s', worker %u belongs to '%.128s'",
                       s->cluster, m->task, m->cluster);
    if (limit_reached(s, LIMIT_MEETINGS))
        return limit_refuse(s, LIMIT_MEETINGS, e, "no room for worker %u of group '%.64s'", m->task, m->group);
    return rendezvous_core_join(&s->rendezvous, &joins, s->now_ms, e);
}

void
rendezvous_service_join(struct shard *s, struct connection *c, uint64_t request, const Psd__Meet *m)
{
    struct ps_error e;
    enum ps_err err;

    if ((err = rendezvous_service_come(s, c, m, &e)) != PS_OK) {
        actions_error(s, c, request, err, e.text);
        return;
    }
    c->rendezvous_request = request;
    rendezvous_service_time(s);
}

void
rendezvous_service_forget(struct shard *s, struct connection *c)
{
    if (c->rendezvous_request == 0)
        return;
    rendezvous_core_leave(&s->rendezvous, c->id);
    c->rendezvous_request = 0;
}

bool
rendezvous_service_cancel(struct shard *s, struct connection *c, uint64_t request)
{
    if (c->rendezvous_request == 0 || c->rendezvous_request != request)
        return false;
    rendezvous_service_forget(s, c);
    actions_error(s, c, request, PS_ERR_CANCELLED, ps_strerror(PS_ERR_CANCELLED));
    return true;
}

void
rendezvous_service_end(struct shard *s)
{
    rendezvous_core_cancel_all(&s->rendezvous, 0, PS_ERR_DRAINING, ps_strerror(PS_ERR_DRAINING));
    rendezvous_service_time(s);
}
