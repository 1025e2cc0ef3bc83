#include "client/core/group/course.h"

#include "common/core/wire/wire.h"

#define LEFT_PART   8   /* of the time that is left, and at most */
#define LEFT_MS_MAX 250 /* this much, is for the host's answer */

/* ---- States ---- */

void
course_begin(struct course *c, uint64_t deadline_ms, uint64_t now_ms)
{
    c->deadline_ms = deadline_ms;
    c->failures = c->at = 0;
    c->taken_until_ms = 0;
    course_pause(c, 0, now_ms);
}

void
course_end(struct course *c)
{
    c->state = COURSE_IDLE;
}

void
course_pause(struct course *c, uint64_t ms, uint64_t now_ms)
{
    c->state = COURSE_PAUSING;
    c->step_ms = now_ms + ms;
}

void
course_looks(struct course *c, bool must_wait, uint64_t now_ms)
{
    c->state = COURSE_LOOKING;
    c->step_ms = must_wait ? UINT64_MAX : now_ms + c->answer_ms;
}

uint32_t
course_patience_ms(const struct course *c)
{
    return c->by_shard ? c->connect_ms : c->answer_ms;
}

void
course_asks(struct course *c, uint64_t now_ms)
{
    c->state = COURSE_ASKING;
    c->step_ms = now_ms + course_patience_ms(c);
}

void
course_waits(struct course *c)
{
    c->state = COURSE_WAITING;
    c->failures = 0;
}

/* ---- Time ---- */

enum course_due
course_look(const struct course *c, uint64_t now_ms)
{
    if (now_ms >= c->deadline_ms)
        return COURSE_DEADLINE;
    return c->state != COURSE_WAITING && now_ms >= c->step_ms ? COURSE_STEP : COURSE_NOTHING;
}

uint64_t
course_due(const struct course *c)
{
    return c->state != COURSE_WAITING ? MIN(c->deadline_ms, c->step_ms) : c->deadline_ms;
}

uint32_t
course_left_ms(const struct course *c, uint64_t now_ms)
{
    uint64_t left = c->deadline_ms > now_ms ? c->deadline_ms - now_ms : 0;

    left -= MIN(left / LEFT_PART, LEFT_MS_MAX);
    return (uint32_t)MIN(left, (uint64_t)WIRE_LEASE_MS_MAX);
}

/* ---- What has failed ---- */

bool
course_taken(struct course *c, uint64_t now_ms)
{
    if (c->taken_until_ms == 0)
        c->taken_until_ms = now_ms + c->taken_ms;
    return now_ms >= c->taken_until_ms;
}

bool
course_final(struct course *c, enum ps_err code, uint64_t now_ms)
{
    switch (code) {
    case PS_ERR_TASK_TAKEN:
        return course_taken(c, now_ms);
    case PS_ERR_CLUSTER:
    case PS_ERR_VERSION:
    case PS_ERR_TLS:
    case PS_ERR_PROTOCOL:
    case PS_ERR_MISMATCH:
    case PS_ERR_INVALID:
    case PS_ERR_UNSUPPORTED:
    case PS_ERR_DENIED:
        return true;
    case PS_ERR_TIMEOUT: /* the host's; that of a connection is no answer */
        return c->state == COURSE_WAITING;
    default:
        return false;
    }
}

/* Who waited there, or was sent away, begins anew from the lowest: that one's guests go there, too. */
bool
course_again(struct course *c, enum ps_err code, uint64_t now_ms)
{
    uint64_t ms = (uint64_t)c->retry_ms << MIN(c->failures, 8u);
    bool moved = c->state == COURSE_WAITING || code == PS_ERR_CANCELLED || code == PS_ERR_TASK_TAKEN;

    c->failures++;
    if (c->by_shard) {
        course_pause(c, MIN(ms, (uint64_t)c->retry_ms_max), now_ms);
    } else if (moved) {
        c->at = 0;
        course_pause(c, c->retry_ms, now_ms);
    } else {
        c->at++;
        return true;
    }
    return false;
}

/* ---- Workers among themselves ---- */

bool
course_seeks(struct course *c, bool settled)
{
    if (c->at == 0)
        c->settled = settled;
    return c->at < c->task;
}

void
course_next_round(struct course *c, uint64_t now_ms)
{
    c->at = 0;
    course_pause(c, c->settled ? c->retry_ms : c->again_ms, now_ms);
}
