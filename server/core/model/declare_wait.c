/* Declares that wait, in the lists of their variables. */
#include "server/core/model/declare_wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/core/shard_state.h"

void
declare_send(struct shard *s, const struct variable *v, const struct declare_waiter *to)
{
    Psd__Declared m = PSD__DECLARED__INIT;
    Psd__Declare declare = variable_declare(v);

    m.var = v->id;
    m.created = to->created;
    m.awaits = to->gives && v->awaits;
    if (to->attach)
        m.declare = &declare;
    actions_send(s, to->connection, MSG_DECLARED, to->request, &m.base);
}

void
declare_wait(struct shard *s, struct variable *v, const struct declare_waiter *who)
{
    struct connection *c = who->connection;
    struct declare_waiter *w;
    struct ps_error e;

    if (c->declares_len >= s->config.parked_max) {
        limit_refuse(s, LIMIT_PARKED, &e, "too many declares wait on this connection");
        actions_error(s, c, who->request, e.code, e.text);
        return;
    }
    if ((w = malloc(sizeof *w)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    *w = *who;
    w->variable = v;
    w->since_ms = s->now_ms;
    DL_APPEND(v->waiters, w);
    DL_APPEND2(c->declares, w, conn_prev, conn_next);
    c->declares_len++;
}

static void
declare_wait_free(struct declare_waiter *w)
{
    struct connection *c = w->connection;

    DL_DELETE(w->variable->waiters, w);
    DL_DELETE2(c->declares, w, conn_prev, conn_next);
    c->declares_len--;
    free(w);
}

static void
declare_wait_end(struct shard *s, struct declare_waiter *w)
{
    struct traffic_wait over = traffic_waited(s, w->connection->session, WAIT_BLOCKS, w->since_ms);

    traffic_waited_for(s, &over, w->variable->id);
    declare_wait_free(w);
}

bool
declare_forget(struct shard *s, struct connection *c, uint64_t request, enum ps_err answer)
{
    struct declare_waiter *w, *next;
    bool found = false;

    DL_FOREACH_SAFE2 (c->declares, w, next, conn_next) {
        if (request != 0 && w->request != request)
            continue;
        found = true;
        if (answer != PS_OK)
            actions_error(s, c, w->request, answer, ps_strerror(answer));
        declare_wait_end(s, w);
    }
    return found;
}

void
declare_answer(struct shard *s, struct variable *v)
{
    struct declare_waiter *w, *next;

    DL_FOREACH_SAFE (v->waiters, w, next) {
        if (v->awaits && !w->gives)
            continue;
        declare_send(s, v, w);
        declare_wait_end(s, w);
    }
}

void
declare_end(struct shard *s, struct variable *v, enum ps_err err, const char *text)
{
    struct declare_waiter *w, *next;

    DL_FOREACH_SAFE (v->waiters, w, next) {
        actions_error(s, w->connection, w->request, err, text);
        declare_wait_end(s, w);
    }
}

void
declare_refuse(struct shard *s, struct variable *v, enum ps_err err)
{
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "shard %u could make %" PRIu64 " of %" PRIu64 " blocks of variable '%.64s': %s",
             s->config.shard, v->ready, v->count, v->name, ps_strerror(err));
    actions_log(s, SHARD_LOG_ERROR, "%s", text);
    declare_end(s, v, err, text);
}

void
declare_free_waiters(struct variable *v)
{
    struct declare_waiter *w, *next;

    DL_FOREACH_SAFE (v->waiters, w, next)
        declare_wait_free(w);
}
