/* The happy path: the door hands a MEET on, host_guest() checks it and gives it a place, says MEETING, and tell() sends
 * the table when there is one. This worker itself is guest number 0. */
#include "client/group/rendezvous/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/group/rendezvous/door.h"
#include "client/group/rendezvous/post.h"
#include "common/core/wire/rendezvous_message.h"

#define OWN 0

struct host_guest {
    struct conn *conn;
    struct host *host;
    uint64_t number, request;
    UT_hash_handle hh;
};

static void tell(struct host *h);

/* ---- Guests ---- */

static void
guest_closed(struct conn *c)
{
    struct host *h = c->arg;

    h->handles--;
    door_conn_closed(c);
}

/* Its connection goes on alone; c->arg is the host from then on. */
static struct conn *
guest_free(struct host_guest *g)
{
    struct host *h = g->host;
    struct conn *c = g->conn;

    HASH_DEL(h->guests, g);
    c->arg = h;
    free(g);
    return c;
}

static void
guest_ended(struct conn *c, const struct ps_error *why)
{
    struct host_guest *g = c->arg;
    struct host *h = g->host;

    (void)why;
    rendezvous_core_leave(&h->meet, g->number);
    guest_free(g);
    conn_close(c, guest_closed);
    tell(h); /* without it there may be enough */
}

/* It has nothing more to say before it was answered. */
static void
guest_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct host_guest *g = c->arg;
    struct host *h = g->host;

    (void)head;
    (void)meta;
    (void)payload;
    rendezvous_core_leave(&h->meet, g->number);
    guest_free(g);
    post_error(c, 0, PS_ERR_PROTOCOL, "a guest of a meeting waits until it is answered");
    conn_leave(c, CONN_LINGER_MS, guest_closed);
    tell(h);
}

static void
guest_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    guest_frame(c, head, meta, NULL);
}

static const struct conn_events guest_events = {.meta = guest_meta, .frame = guest_frame, .ended = guest_ended};

/* ---- Answers ---- */

static bool
send_table(struct conn *c, uint64_t request, const struct rendezvous_table *t)
{
    struct rendezvous_message m;

    rendezvous_message(&m, t);
    return post_message(c, MSG_MET, request, &m.met.base);
}

static void
tell_guest(struct host *h, const struct rendezvous_answer *a)
{
    struct host_guest *g;
    uint64_t request;
    struct conn *c;

    HASH_FIND(hh, h->guests, &a->conn_id, sizeof a->conn_id, g);
    if (g == NULL)
        return;
    request = g->request;
    c = guest_free(g);
    if (a->table == NULL)
        post_error(c, request, a->error.code, a->error.text);
    else if (!send_table(c, request, a->table)) {
        conn_close(c, guest_closed);
        return;
    }
    conn_leave(c, CONN_LINGER_MS, guest_closed);
}

static void
tell_own(struct host *h, const struct rendezvous_answer *a)
{
    h->in = false;
    if (a->table != NULL)
        h->config.met(h->config.arg, a->table);
    else
        h->config.failed(h->config.arg, &a->error);
}

static void
on_time(uv_timer_t *timer)
{
    tell(timer->data);
}

/* Whatever a callback does here, answers are handed out by the outermost call alone. */
static void
tell(struct host *h)
{
    uint64_t now = uv_now(h->config.pool->loop), due;
    struct rendezvous_answer a;

    if (h->telling)
        return;
    h->telling = true;
    while (rendezvous_core_next(&h->meet, now, &a))
        if (a.conn_id == OWN)
            tell_own(h, &a);
        else
            tell_guest(h, &a);
    h->telling = false;
    if (uv_is_closing((uv_handle_t *)&h->timer))
        return;
    due = rendezvous_core_next_time(&h->meet);
    if (due == UINT64_MAX)
        uv_timer_stop(&h->timer);
    else
        uv_timer_start(&h->timer, on_time, due > now ? due - now : 0, 0);
}

/* ---- Coming ---- */

static enum ps_err
guest_come(struct host *h, const struct host_guest *g, const Psd__Meet *m, struct ps_error *e)
{
    const struct host_config *k = &h->config;
    struct rendezvous_request guest = rendezvous_message_request(m, g->number);

    if (strcmp(m->cluster, k->cluster) != 0)
        return ps_fail(e, PS_ERR_CLUSTER, "this is %s of cluster '%.128s', worker %u belongs to '%.128s'", h->where,
                       k->cluster, m->task, m->cluster);
    if (m->workers != k->workers)
        return ps_fail(e, PS_ERR_CLUSTER, "this is %s of %u workers, and worker %u comes from a cluster of %u",
                       h->where, k->workers, m->task, m->workers);
    if (strcmp(m->group, k->name) != 0)
        return ps_fail(e, PS_ERR_MISMATCH, "%s forms group '%.64s' here, and worker %u '%.64s'", h->where, k->name,
                       m->task, m->group);
    if (m->task == k->task && (h->in || !h->away))
        return ps_fail(e, PS_ERR_TASK_TAKEN, "this is %s itself: another process has its index", h->where);
    if (h->away)
        return ps_fail(e, PS_ERR_CANCELLED, "%s is at the meeting of another worker", h->where);
    return rendezvous_core_join(&h->meet, &guest, uv_now(k->pool->loop), e);
}

static enum ps_err
decode(struct host *h, const struct frame_head *head, const void *meta, struct wire_msg *m, struct ps_error *e)
{
    enum ps_err err;

    arena_reset(&h->arena);
    if ((err = wire_decode(head, meta, &h->arena, m, e)) != PS_OK)
        return err;
    ps_assert(m->type == MSG_MEET);
    return PS_OK;
}

static bool
say_meeting(struct host *h, struct host_guest *g)
{
    Psd__Meeting m = PSD__MEETING__INIT;

    m.workers = rendezvous_core_present(&h->meet, h->config.name);
    return post_message(g->conn, MSG_MEETING, g->request, &m.base);
}

static void
guest_refuse(struct host_guest *g, enum ps_err code, const char *text)
{
    uint64_t request = g->request;
    struct conn *c = guest_free(g);

    post_error(c, request, code, text);
    conn_leave(c, CONN_LINGER_MS, guest_closed);
}

void
host_guest(void *arg, struct conn *c, const struct frame_head *head, const void *meta)
{
    struct host *h = arg;
    struct host_guest *g = calloc(1, sizeof *g);
    struct wire_msg m;
    struct ps_error e;
    enum ps_err err;

    h->handles++;
    c->arg = h;
    c->events = &guest_events;
    if (g != NULL) {
        g->conn = c;
        g->host = h;
        g->number = ++h->next_guest;
        g->request = head->request;
        HASH_ADD(hh, h->guests, number, sizeof g->number, g);
    }
    if (g == NULL || !HASH_TOOK(g)) {
        free(g);
        conn_close(c, guest_closed);
        return;
    }
    c->arg = g;
    if ((err = decode(h, head, meta, &m, &e)) != PS_OK || (err = guest_come(h, g, m.u.meet, &e)) != PS_OK) {
        guest_refuse(g, err, e.text);
        return;
    }
    if (!say_meeting(h, g)) {
        rendezvous_core_leave(&h->meet, g->number);
        guest_free(g);
        conn_close(c, guest_closed);
    }
    tell(h);
}

enum ps_err
host_come(struct host *h, const struct rendezvous_request *own, struct ps_error *e)
{
    struct rendezvous_request guest = *own;
    enum ps_err err;

    ps_assert(!h->in);
    guest.conn_id = OWN;
    if ((err = rendezvous_core_join(&h->meet, &guest, uv_now(h->config.pool->loop), e)) != PS_OK)
        return err;
    h->in = true;
    tell(h);
    return PS_OK;
}

void
host_leave(struct host *h)
{
    if (!h->in)
        return;
    h->in = false;
    rendezvous_core_leave(&h->meet, OWN);
}

void
host_send_away(struct host *h)
{
    host_leave(h);
    h->away = true;
    rendezvous_core_cancel_all(&h->meet, UINT64_MAX, PS_ERR_CANCELLED,
                               "this worker has gone to the meeting of a lower one");
    tell(h);
}

void
host_stay(struct host *h)
{
    h->away = false;
}

void
host_begin_settled(struct host *h)
{
    rendezvous_core_set_unsure(&h->meet, false);
    tell(h);
    rendezvous_core_set_unsure(&h->meet, true);
}

/* ---- Life ---- */

static void
timer_closed(uv_handle_t *handle)
{
    struct host *h = handle->data;

    h->handles--;
}

void
host_init(struct host *h, const struct host_config *config)
{
    *h = (struct host){.config = *config};
    snprintf(h->where, sizeof h->where, "worker %u", config->task);
    rendezvous_core_init(&h->meet, h->where, config->task, config->seed);
    rendezvous_core_set_unsure(&h->meet, true);
    uv_timer_init(config->pool->loop, &h->timer);
    h->timer.data = h;
    h->handles = 1;
}

void
host_close(struct host *h)
{
    struct host_guest *g, *next;

    HASH_ITER (hh, h->guests, g, next) {
        struct conn *c = guest_free(g);

        conn_close(c, guest_closed);
    }
    rendezvous_core_finish(&h->meet);
    arena_finish(&h->arena);
    uv_close((uv_handle_t *)&h->timer, timer_closed);
}

bool
host_closed(const struct host *h)
{
    return h->handles == 0;
}
