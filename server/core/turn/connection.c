/* The table of connections, and how one ends. */
#include "server/core/turn/connection.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"
#include "server/core/turn/connection_idle.h"

struct connection *
connection_find(const struct shard *s, uint64_t id)
{
    struct connection *c;

    HASH_FIND(hh, s->connections, &id, sizeof id, c);
    return c;
}

static struct connection *
connection_new(struct shard *s, uint64_t id, const char *peer)
{
    size_t peer_len = strlen(peer) + 1;
    struct connection *c = calloc(1, sizeof *c + peer_len);

    if (c == NULL)
        return NULL;
    c->id = id;
    c->turn = s->turn.number;
    memcpy(c->peer, peer, peer_len);
    if (actions_room(s, s->connections_len + 1))
        HASH_ADD(hh, s->connections, id, sizeof c->id, c);
    if (!HASH_TOOK(c)) {
        free(c);
        return NULL;
    }
    s->connections_len++;
    return c;
}

static bool
connection_make_way(struct shard *s, uint32_t silent_ms)
{
    struct connection *c = connection_idle_spare(s, silent_ms);

    if (c == NULL)
        return false;
    s->stats.made_way++;
    connection_refuse(s, c, PS_ERR_TIMEOUT,
                      "it said nothing, and made way for another connection: this shard has as many as "
                      "--connections-max allows");
    return true;
}

/* There is a place for the newest connection, which is counted already; those that are being closed hold none. */
static bool
connection_has_place(struct shard *s, bool reserved)
{
    uint32_t kept = connection_reserved(s->config.connections_max);

    if (s->connections_len - s->closing_len <= s->config.connections_max - (reserved ? 0 : kept))
        return true;
    return connection_make_way(s, reserved && kept > 0 ? CONNECTION_SPARE_KEPT_MS : CONNECTION_SPARE_MS);
}

void
connection_open(struct shard *s, uint64_t id, const char *peer, bool reserved)
{
    struct connection *c;

    ps_assert(connection_find(s, id) == NULL);
    if ((c = connection_new(s, id, peer)) == NULL) {
        s->unopened = id;
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    c->opened_ms = s->now_ms;
    DL_APPEND2(s->greeting, c, greeting_prev, greeting_next);
    if (!connection_has_place(s, reserved)) {
        struct ps_error e;

        limit_refuse(s, LIMIT_CONNECTIONS, &e, "one connection too many");
        connection_refuse(s, c, e.code, "%s", e.text);
    } else if (s->draining) /* at once: one that stays silent would hold the end up */
        connection_refuse(s, c, PS_ERR_DRAINING, "shard %u is shutting down", s->config.shard);
}

void
connection_greeted(struct shard *s, struct connection *c, enum connection_state state)
{
    DL_DELETE2(s->greeting, c, greeting_prev, greeting_next);
    c->state = state;
    if (state == CONN_OBSERVER)
        connection_idle_spoke(s, c, false);
}

void
connection_end(struct shard *s, struct connection *c)
{
    if (c->state == CONN_NEW)
        DL_DELETE2(s->greeting, c, greeting_prev, greeting_next);
    connection_idle_leave(s, c);
    s->closing_len += c->state != CONN_CLOSING;
    c->state = CONN_CLOSING;
}

uint64_t
connection_next_time(const struct shard *s)
{
    return MIN(connection_idle_next_time(s),
               s->greeting != NULL ? s->greeting->opened_ms + s->config.hello_ms : UINT64_MAX);
}

void
connection_time(struct shard *s)
{
    while (s->greeting != NULL && s->greeting->opened_ms + s->config.hello_ms <= s->now_ms && !s->draining) {
        s->stats.hello_timeouts++;
        connection_refuse(s, s->greeting, PS_ERR_TIMEOUT, "no hello came within %u ms (--hello-timeout)",
                          s->config.hello_ms);
    }
    while (connection_idle_next_time(s) <= s->now_ms && !s->draining) {
        s->stats.observer_timeouts++;
        connection_refuse(s, s->idle, PS_ERR_TIMEOUT, "an observer said nothing for %u ms (--observer-timeout)",
                          s->config.observer_ms);
    }
}

const char *
connection_agent(const struct connection *c)
{
    const char *agent = c->session != NULL ? c->session->agent : c->agent;

    return agent != NULL ? agent : "";
}

void
connection_forget(struct shard *s, struct connection *c)
{
    s->upcalls->connection_forgotten(s, c);
    c->session = NULL;
}

void
connection_gone(struct shard *s, struct connection *c)
{
    connection_forget(s, c);
    connection_end(s, c);
    s->closing_len--;
    if (c->acks_first != 0)
        LL_DELETE2(s->actions.acking, c, acking_next);
    HASH_DEL(s->connections, c);
    s->connections_len--;
    free(c->agent);
    free(c);
}

void
connection_close(struct shard *s, struct connection *c)
{
    if (c->state == CONN_CLOSING)
        return;
    connection_forget(s, c);
    actions_flush_acks(s, c);
    actions_close(s, c->id);
    c->turn = s->turn.number;
    connection_end(s, c);
}

/* A client of before a code was added takes an end with it for one that passes, and would come again. */
static enum ps_err
connection_known_code(const struct connection *c, enum ps_err code)
{
    return code == PS_ERR_DROPPED && c->codes < PS_ERR_DROPPED ? PS_ERR_FENCED : code;
}

static void
end_with(struct shard *s, struct connection *c, enum ps_err code, const char *format, va_list args)
{
    char text[PS_ERROR_TEXT_MAX];

    vsnprintf(text, sizeof text, format, args);
    code = connection_known_code(c, code);
    actions_log(s, SHARD_LOG_WARNING, "peer refused peer=%s code=%s reason=\"%s\"", c->peer, ps_err_name(code), text);
    actions_flush_acks(s, c);
    actions_error(s, c, 0, code, text);
    connection_close(s, c);
}

void
connection_break(struct shard *s, struct connection *c, enum ps_err code, const char *format, ...)
{
    va_list args;

    s->stats.bad_peers++;
    va_start(args, format);
    end_with(s, c, code, format, args);
    va_end(args);
}

void
connection_refuse(struct shard *s, struct connection *c, enum ps_err code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    end_with(s, c, code, format, args);
    va_end(args);
}

void
connection_free_all(struct shard *s)
{
    struct connection *c, *next;

    HASH_ITER (hh, s->connections, c, next) {
        HASH_DEL(s->connections, c);
        free(c->agent);
        free(c);
    }
    s->connections_len = 0;
}
