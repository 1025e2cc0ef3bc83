#include "client/core/group/rendezvous_state.h"

#include "common/core/wire/wire.h"

#define LEFT_PART   8   /* of the time that is left, and at most */
#define LEFT_MS_MAX 250 /* this much, is for the coordinator's answer */

/* ---- States ---- */

void
rendezvous_state_begin(struct rendezvous_state *c, uint64_t deadline_ms, uint64_t now_ms)
{
    c->deadline_ms = deadline_ms;
    c->failures = c->at = 0;
    c->taken_until_ms = 0;
    rendezvous_state_pause(c, 0, now_ms);
}

void
rendezvous_state_end(struct rendezvous_state *c)
{
    c->state = RENDEZVOUS_IDLE;
}

void
rendezvous_state_pause(struct rendezvous_state *c, uint64_t ms, uint64_t now_ms)
{
    c->state = RENDEZVOUS_PAUSING;
    c->step_ms = now_ms + ms;
}

void
rendezvous_state_resolving(struct rendezvous_state *c, bool must_wait, uint64_t now_ms)
{
    c->state = RENDEZVOUS_RESOLVING;
    c->step_ms = must_wait ? UINT64_MAX : now_ms + c->answer_ms;
}

uint32_t
rendezvous_state_answer_ms(const struct rendezvous_state *c)
{
    return c->by_shard ? c->connect_ms : c->answer_ms;
}

void
rendezvous_state_asking(struct rendezvous_state *c, uint64_t now_ms)
{
    c->state = RENDEZVOUS_ASKING;
    c->step_ms = now_ms + rendezvous_state_answer_ms(c);
}

void
rendezvous_state_waiting(struct rendezvous_state *c)
{
    c->state = RENDEZVOUS_WAITING;
    c->failures = 0;
}

/* ---- Time ---- */

enum rendezvous_due
rendezvous_state_due(const struct rendezvous_state *c, uint64_t now_ms)
{
    if (now_ms >= c->deadline_ms)
        return RENDEZVOUS_DUE_DEADLINE;
    return c->state != RENDEZVOUS_WAITING && now_ms >= c->step_ms ? RENDEZVOUS_DUE_STEP : RENDEZVOUS_DUE_NOTHING;
}

uint64_t
rendezvous_state_due_ms(const struct rendezvous_state *c)
{
    return c->state != RENDEZVOUS_WAITING ? MIN(c->deadline_ms, c->step_ms) : c->deadline_ms;
}

uint32_t
rendezvous_state_left_ms(const struct rendezvous_state *c, uint64_t now_ms)
{
    uint64_t left = c->deadline_ms > now_ms ? c->deadline_ms - now_ms : 0;

    left -= MIN(left / LEFT_PART, LEFT_MS_MAX);
    return (uint32_t)MIN(left, (uint64_t)WIRE_LEASE_MS_MAX);
}

/* ---- What has failed ---- */

bool
rendezvous_state_taken(struct rendezvous_state *c, uint64_t now_ms)
{
    if (c->taken_until_ms == 0)
        c->taken_until_ms = now_ms + c->taken_ms;
    return now_ms >= c->taken_until_ms;
}

bool
rendezvous_state_is_final(struct rendezvous_state *c, enum ps_err code, uint64_t now_ms)
{
    switch (code) {
    case PS_ERR_TASK_TAKEN:
        return rendezvous_state_taken(c, now_ms);
    case PS_ERR_CLUSTER:
    case PS_ERR_VERSION:
    case PS_ERR_TLS:
    case PS_ERR_PROTOCOL:
    case PS_ERR_MISMATCH:
    case PS_ERR_INVALID:
    case PS_ERR_UNSUPPORTED:
    case PS_ERR_DENIED:
        return true;
    case PS_ERR_TIMEOUT: /* the coordinator's; that of a connection is no answer */
        return c->state == RENDEZVOUS_WAITING;
    default:
        return false;
    }
}

/* A worker that waited there, or was redirected, starts over from the lowest: those that wait at that one go there,
 * too. */
bool
rendezvous_state_retry(struct rendezvous_state *c, enum ps_err code, uint64_t now_ms)
{
    uint64_t ms = (uint64_t)c->retry_ms << MIN(c->failures, 8u);
    bool moved = c->state == RENDEZVOUS_WAITING || code == PS_ERR_CANCELLED || code == PS_ERR_TASK_TAKEN;

    c->failures++;
    if (c->by_shard) {
        rendezvous_state_pause(c, MIN(ms, (uint64_t)c->retry_ms_max), now_ms);
    } else if (moved) {
        c->at = 0;
        rendezvous_state_pause(c, c->retry_ms, now_ms);
    } else {
        c->at++;
        return true;
    }
    return false;
}

/* ---- Workers among themselves ---- */

bool
rendezvous_state_has_next(struct rendezvous_state *c, bool settled)
{
    if (c->at == 0)
        c->settled = settled;
    return c->at < c->task;
}

void
rendezvous_state_next_round(struct rendezvous_state *c, uint64_t now_ms)
{
    c->at = 0;
    rendezvous_state_pause(c, c->settled ? c->retry_ms : c->again_ms, now_ms);
}
