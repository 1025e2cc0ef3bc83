/* Each connection has at most one deadline (a pinned frame, a linger, a handshake, authentication, a failure to
 * report); all share one timer. */
#include "common/net/conn_internal.h"

static void timer_fired(uv_timer_t *timer);

static void
timer_set(struct conn_pool *p, uint64_t due_ms)
{
    uint64_t now = uv_now(p->loop);

    p->timer_ms = due_ms;
    uv_timer_start(p->timer, timer_fired, due_ms > now ? due_ms - now : 0, 0);
}

static void
due_remove(struct conn *c)
{
    struct conn_pool *p = c->pool;

    if (c->due_ms == 0)
        return;
    *c->due_before = c->due_next;
    if (c->due_next != NULL)
        c->due_next->due_before = c->due_before;
    c->due_ms = 0;
    if (p->waiting == NULL) { /* an idle timer keeps no loop alive */
        uv_timer_stop(p->timer);
        p->timer_ms = 0;
    }
}

/* The earliest deadline: the linger's, a check's, authentication's or the oldest pinned frame's. */
static uint64_t
due_first(const struct conn *c)
{
    const struct conn_out *o = conn_queue_pinned(c->queue.first);
    uint64_t due = c->look_ms != 0 && c->look_ms < c->end_ms ? c->look_ms : c->end_ms;

    if (c->auth_ms != 0)
        due = due == 0 ? c->auth_ms : MIN(due, c->auth_ms);
    if (c->auth_hold_ms != 0)
        due = due == 0 ? c->auth_hold_ms : MIN(due, c->auth_hold_ms);
    if (c->transport_ms != 0 && (due == 0 || c->transport_ms < due))
        due = c->transport_ms;
    if (o == NULL)
        return due;
    return due == 0 ? o->ready_ms + CONN_PIN_MS : MIN(due, o->ready_ms + CONN_PIN_MS);
}

void
conn_timeouts_update(struct conn *c)
{
    struct conn_pool *p = c->pool;
    uint64_t due = c->closing ? 0 : due_first(c);

    if (due == c->due_ms)
        return;
    due_remove(c);
    if (due == 0)
        return;
    c->due_ms = due;
    c->due_before = &p->waiting;
    c->due_next = p->waiting;
    if (c->due_next != NULL)
        c->due_next->due_before = &c->due_next;
    p->waiting = c;
    if (p->timer_ms == 0 || due < p->timer_ms)
        timer_set(p, due);
}

/* ---- Deadlines that have passed ---- */

/* Free the read transactions that were held long enough. */
static void
pins_release(struct conn *c, uint64_t now)
{
    struct conn_out *o = conn_queue_pinned(c->queue.first);

    for (; o != NULL && o->ready_ms + CONN_PIN_MS <= now && !c->closing; o = conn_queue_pinned(o->next)) {
        if (!conn_queue_own(&c->queue, o))
            conn_broke(c, UV_ENOMEM); /* nothing of it will be written */
        conn_queue_release(o);
    }
}

static void
due_come(struct conn *c, uint64_t now)
{
    bool at_end = c->end_ms != 0 && c->end_ms <= now, at_look = c->look_ms != 0 && c->look_ms <= now;
    bool late = c->transport_ms != 0 && c->transport_ms <= now;

    if (at_end)
        c->end_ms = 0;
    if (at_end || at_look)
        c->look_ms = 0;
    if (late)
        c->transport_ms = 0;
    c->flushing = true; /* a send from a callback must not free the frame in use here */
    pins_release(c, now);
    c->flushing = false;
    conn_flush(c);
    if (c->auth_hold_ms != 0 && c->auth_hold_ms <= now && !c->closing)
        conn_auth_held_over(c);
    if (c->auth_ms != 0 && c->auth_ms <= now && !c->closing)
        conn_auth_late(c);
    if (at_end && !c->closing && c->finishing)
        conn_close(c, NULL);
    else if (at_end && !c->closing && c->broken)
        conn_end_uv(c, c->broken_status);
    else if (at_look && !c->closing)
        conn_leave_look(c);
    if (late && !c->closing && c->transport->late != NULL)
        c->transport->late(c);
    conn_timeouts_update(c);
}

static void
timer_fired(uv_timer_t *timer)
{
    struct conn_pool *p = timer->data;
    uint64_t now = uv_now(p->loop), next = 0;
    struct conn *c;

    p->timer_ms = 0;
    /* Callbacks may change the list anywhere: begin again after each. due_come() leaves no deadline that has passed. */
    do {
        for (c = p->waiting; c != NULL && c->due_ms > now; c = c->due_next)
            continue;
        if (c != NULL)
            due_come(c, now);
    } while (c != NULL);
    for (c = p->waiting; c != NULL; c = c->due_next)
        next = next == 0 ? c->due_ms : MIN(next, c->due_ms);
    if (next != 0)
        timer_set(p, next);
}
