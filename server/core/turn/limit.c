#include "server/core/turn/limit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "server/core/shard_state.h"

const struct limit_text limit_texts[LIMITS] = {
#define WITH_OPTION(id, name, option, bytes, about) [LIMIT_##id] = {name, option, about, bytes},
#define NO_OPTION(id, name, bytes, about)           [LIMIT_##id] = {name, NULL, about, bytes},
    LIMIT_LIST(WITH_OPTION, NO_OPTION)
#undef WITH_OPTION
#undef NO_OPTION
};

/* The most that any connection has. */
static uint64_t
parked_most(const struct shard *s, bool bytes)
{
    const struct connection *c, *next;
    uint64_t most = 0;

    HASH_ITER (hh, s->connections, c, next)
        most = MAX(most, bytes ? c->parked_bytes : MAX(c->parked_len, c->declares_len));
    return most;
}

static uint64_t
unresolved_most(const struct shard *s)
{
    uint64_t most = 0;

    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        const struct session *x;

        if (s->jobs_by_id[id] == NULL)
            continue;
        SESSION_EACH (s->jobs_by_id[id], x)
            most = MAX(most, (uint64_t)x->pending_len);
    }
    return most;
}

static uint64_t
saves_waiting(const struct shard *s)
{
    const struct save_request *r;
    uint64_t n = 0;

    DL_FOREACH (s->save.waiting, r)
        n++;
    return n;
}

uint64_t
limit_now(const struct shard *s, enum limit limit, const struct shard_event *event)
{
    static const struct shard_figures none;
    const struct shard_figures *glue = event != NULL && event->figures != NULL ? event->figures : &none;
    const uint64_t now[LIMITS] = {
        [LIMIT_CONNECTIONS] = s->connections_len,
        [LIMIT_DESCRIPTORS] = glue->descriptors,
        [LIMIT_JOBS] = HASH_COUNT(s->jobs),
        [LIMIT_VARIABLES] = s->variables_len,
        [LIMIT_SESSIONS] = s->sessions_len,
        [LIMIT_BARRIERS] = s->barriers_len,
        [LIMIT_PARKED] = limit == LIMIT_PARKED ? parked_most(s, false) : 0,
        [LIMIT_PARKED_BYTES] = limit == LIMIT_PARKED_BYTES ? parked_most(s, true) : 0,
        [LIMIT_PARKED_ALL] = s->parked_bytes,
        [LIMIT_UNRESOLVED] = limit == LIMIT_UNRESOLVED ? unresolved_most(s) : 0,
        [LIMIT_REDO_BACKLOG] = s->redo.bytes + s->redo.turn_bytes,
        [LIMIT_MEETINGS] = s->rendezvous.requests_len,
        [LIMIT_SAVES] = limit == LIMIT_SAVES ? saves_waiting(s) : 0,
        [LIMIT_GATHER_BYTES] = s->gather_bytes,
        [LIMIT_IN_FLIGHT] = event != NULL ? event->in_flight_bytes : 0,
        [LIMIT_IN_FLIGHT_CONNECTION] = glue->in_flight_connection,
    };

    return now[limit];
}

uint64_t
limit_max(const struct shard *s, enum limit limit, const struct shard_event *event)
{
    static const struct shard_figures none;
    const struct shard_figures *glue = event != NULL && event->figures != NULL ? event->figures : &none;
    const struct shard_config *c = &s->config;
    const uint64_t max[LIMITS] = {
        [LIMIT_CONNECTIONS] = c->connections_max,
        [LIMIT_DESCRIPTORS] = glue->descriptors_max,
        [LIMIT_JOBS] = c->jobs_max,
        [LIMIT_VARIABLES] = c->variables_max,
        [LIMIT_SESSIONS] = c->sessions_max,
        [LIMIT_BARRIERS] = c->barriers_max,
        [LIMIT_PARKED] = c->parked_max,
        [LIMIT_PARKED_BYTES] = c->parked_bytes_max,
        [LIMIT_PARKED_ALL] = c->parked_all_max,
        [LIMIT_UNRESOLVED] = SHARD_UNRESOLVED_MAX,
        [LIMIT_REDO_BACKLOG] = c->redo_bytes_max,
        [LIMIT_MEETINGS] = RENDEZVOUS_REQUESTS_MAX,
        [LIMIT_SAVES] = SAVE_REQUESTS_MAX,
        [LIMIT_GATHER_BYTES] = c->gather_bytes_max,
        [LIMIT_IN_FLIGHT] = glue->in_flight_max != 0 ? glue->in_flight_max : c->in_flight_bytes_max,
        [LIMIT_IN_FLIGHT_CONNECTION] = glue->in_flight_connection_max,
    };

    return max[limit];
}

uint64_t
limit_refused(const struct shard *s, enum limit limit, const struct shard_event *event)
{
    const struct shard_figures *glue = event != NULL ? event->figures : NULL;
    uint64_t n = s->stats.limited[limit];

    if (glue == NULL)
        return n;
    switch (limit) {
    case LIMIT_DESCRIPTORS:
        return n + glue->descriptors_refused;
    case LIMIT_IN_FLIGHT:
        return n + glue->in_flight_waits;
    case LIMIT_IN_FLIGHT_CONNECTION:
        return n + glue->in_flight_connection_waits;
    default:
        return n;
    }
}

bool
limit_reached(const struct shard *s, enum limit limit)
{
    return limit_now(s, limit, NULL) >= limit_max(s, limit, NULL);
}

enum ps_err
limit_refuse(struct shard *s, enum limit limit, struct ps_error *e, const char *format, ...)
{
    const struct limit_text *text = &limit_texts[limit];
    char what[PS_ERROR_TEXT_MAX / 2];
    va_list args;

    s->stats.limited[limit]++;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ps_fail(e, PS_ERR_LIMIT, "%s: shard %u has %" PRIu64 " %s, and %s%s allows %" PRIu64, what, s->config.shard,
                   limit_now(s, limit, NULL), text->name, text->option != NULL ? "--" : "",
                   text->option != NULL ? text->option : "psd", limit_max(s, limit, NULL));
}
