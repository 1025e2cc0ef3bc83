/* The happy path: the acceptor hands a MEET on, coordinator_accept() checks it and gives it a place, sends MEETING, and
 * coordinator_answer() sends the table when there is one. This worker itself is peer number 0. */
#include "client/group/rendezvous/coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/group/rendezvous/acceptor.h"
#include "client/group/rendezvous/send_message.h"
#include "common/core/wire/rendezvous_message.h"

#define OWN 0

struct coordinator_peer {
    struct conn *conn;
    struct coordinator *coordinator;
    uint64_t number, request;
    UT_hash_handle hh;
};

static void coordinator_answer(struct coordinator *h);

/* ---- Peers ---- */

static void
coordinator_peer_closed(struct conn *c)
{
    struct coordinator *h = c->arg;

    h->handles--;
    acceptor_conn_closed(c);
}

/* Its connection goes on alone; c->arg is the coordinator from then on. */
static struct conn *
coordinator_peer_free(struct coordinator_peer *g)
{
    struct coordinator *h = g->coordinator;
    struct conn *c = g->conn;

    HASH_DEL(h->peers, g);
    c->arg = h;
    free(g);
    return c;
}

static void
coordinator_peer_ended(struct conn *c, const struct ps_error *why)
{
    struct coordinator_peer *g = c->arg;
    struct coordinator *h = g->coordinator;

    (void)why;
    rendezvous_core_leave(&h->meet, g->number);
    coordinator_peer_free(g);
    conn_close(c, coordinator_peer_closed);
    coordinator_answer(h); /* without it there may be enough */
}

/* A peer may send nothing more before it is answered. */
static void
coordinator_peer_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct coordinator_peer *g = c->arg;
    struct coordinator *h = g->coordinator;

    (void)head;
    (void)meta;
    (void)payload;
    rendezvous_core_leave(&h->meet, g->number);
    coordinator_peer_free(g);
    send_error(c, 0, PS_ERR_PROTOCOL, "a worker that joins a rendezvous waits until it is answered");
    conn_leave(c, CONN_LINGER_MS, coordinator_peer_closed);
    coordinator_answer(h);
}

static void
coordinator_peer_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    coordinator_peer_frame(c, head, meta, NULL);
}

static const struct conn_events coordinator_peer_events = {
    .meta = coordinator_peer_meta, .frame = coordinator_peer_frame, .ended = coordinator_peer_ended};

/* ---- Answers ---- */

static bool
send_table(struct conn *c, uint64_t request, const struct rendezvous_table *t)
{
    struct rendezvous_message m;

    rendezvous_message(&m, t);
    return send_message(c, MSG_MET, request, &m.met.base);
}

static void
coordinator_answer_peer(struct coordinator *h, const struct rendezvous_answer *a)
{
    struct coordinator_peer *g;
    uint64_t request;
    struct conn *c;

    HASH_FIND(hh, h->peers, &a->conn_id, sizeof a->conn_id, g);
    if (g == NULL)
        return;
    request = g->request;
    c = coordinator_peer_free(g);
    if (a->table == NULL)
        send_error(c, request, a->error.code, a->error.text);
    else if (!send_table(c, request, a->table)) {
        conn_close(c, coordinator_peer_closed);
        return;
    }
    conn_leave(c, CONN_LINGER_MS, coordinator_peer_closed);
}

static void
coordinator_answer_own(struct coordinator *h, const struct rendezvous_answer *a)
{
    h->in = false;
    if (a->table != NULL)
        h->config.met(h->config.arg, a->table);
    else
        h->config.failed(h->config.arg, &a->error);
}

static void
coordinator_on_timer(uv_timer_t *timer)
{
    coordinator_answer(timer->data);
}

/* Answers are handed out by the outermost call alone, whatever a callback does here. */
static void
coordinator_answer(struct coordinator *h)
{
    uint64_t now = uv_now(h->config.pool->loop), due;
    struct rendezvous_answer a;

    if (h->answering)
        return;
    h->answering = true;
    while (rendezvous_core_next(&h->meet, now, &a))
        if (a.conn_id == OWN)
            coordinator_answer_own(h, &a);
        else
            coordinator_answer_peer(h, &a);
    h->answering = false;
    if (uv_is_closing((uv_handle_t *)&h->timer))
        return;
    due = rendezvous_core_next_time(&h->meet);
    if (due == UINT64_MAX)
        uv_timer_stop(&h->timer);
    else
        uv_timer_start(&h->timer, coordinator_on_timer, due > now ? due - now : 0, 0);
}

/* ---- Joining ---- */

static enum ps_err
coordinator_peer_join(struct coordinator *h, const struct coordinator_peer *g, const Psd__Meet *m, struct ps_error *e)
{
    const struct coordinator_config *k = &h->config;
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
    if (m->task == k->task && (h->in || !h->redirecting))
        return ps_fail(e, PS_ERR_TASK_TAKEN, "this is %s itself: another process has its index", h->where);
    if (h->redirecting)
        return ps_fail(e, PS_ERR_CANCELLED, "%s is at the rendezvous of another worker", h->where);
    return rendezvous_core_join(&h->meet, &guest, uv_now(k->pool->loop), e);
}

static enum ps_err
coordinator_decode(struct coordinator *h, const struct frame_head *head, const void *meta, struct wire_msg *m,
                   struct ps_error *e)
{
    enum ps_err err;

    arena_reset(&h->arena);
    if ((err = wire_decode(head, meta, &h->arena, m, e)) != PS_OK)
        return err;
    ps_assert(m->type == MSG_MEET);
    return PS_OK;
}

static bool
coordinator_send_meeting(struct coordinator *h, struct coordinator_peer *g)
{
    Psd__Meeting m = PSD__MEETING__INIT;

    m.workers = rendezvous_core_present(&h->meet, h->config.name);
    return send_message(g->conn, MSG_MEETING, g->request, &m.base);
}

static void
coordinator_peer_refuse(struct coordinator_peer *g, enum ps_err code, const char *text)
{
    uint64_t request = g->request;
    struct conn *c = coordinator_peer_free(g);

    send_error(c, request, code, text);
    conn_leave(c, CONN_LINGER_MS, coordinator_peer_closed);
}

void
coordinator_accept(void *arg, struct conn *c, const struct frame_head *head, const void *meta)
{
    struct coordinator *h = arg;
    struct coordinator_peer *g = calloc(1, sizeof *g);
    struct wire_msg m;
    struct ps_error e;
    enum ps_err err;

    h->handles++;
    c->arg = h;
    c->events = &coordinator_peer_events;
    if (g != NULL) {
        g->conn = c;
        g->coordinator = h;
        g->number = ++h->next_peer;
        g->request = head->request;
        HASH_ADD(hh, h->peers, number, sizeof g->number, g);
    }
    if (g == NULL || !HASH_TOOK(g)) {
        free(g);
        conn_close(c, coordinator_peer_closed);
        return;
    }
    c->arg = g;
    if ((err = coordinator_decode(h, head, meta, &m, &e)) != PS_OK ||
        (err = coordinator_peer_join(h, g, m.u.meet, &e)) != PS_OK) {
        coordinator_peer_refuse(g, err, e.text);
        return;
    }
    if (!coordinator_send_meeting(h, g)) {
        rendezvous_core_leave(&h->meet, g->number);
        coordinator_peer_free(g);
        conn_close(c, coordinator_peer_closed);
    }
    coordinator_answer(h);
}

enum ps_err
coordinator_join_own(struct coordinator *h, const struct rendezvous_request *own, struct ps_error *e)
{
    struct rendezvous_request guest = *own;
    enum ps_err err;

    ps_assert(!h->in);
    guest.conn_id = OWN;
    if ((err = rendezvous_core_join(&h->meet, &guest, uv_now(h->config.pool->loop), e)) != PS_OK)
        return err;
    h->in = true;
    coordinator_answer(h);
    return PS_OK;
}

void
coordinator_leave_own(struct coordinator *h)
{
    if (!h->in)
        return;
    h->in = false;
    rendezvous_core_leave(&h->meet, OWN);
}

void
coordinator_redirect(struct coordinator *h)
{
    coordinator_leave_own(h);
    h->redirecting = true;
    rendezvous_core_cancel_all(&h->meet, UINT64_MAX, PS_ERR_CANCELLED,
                               "this worker has moved to the rendezvous of a lower one");
    coordinator_answer(h);
}

void
coordinator_resume(struct coordinator *h)
{
    h->redirecting = false;
}

void
coordinator_begin_settled(struct coordinator *h)
{
    rendezvous_core_set_unsure(&h->meet, false);
    coordinator_answer(h);
    rendezvous_core_set_unsure(&h->meet, true);
}

/* ---- Life ---- */

static void
timer_closed(uv_handle_t *handle)
{
    struct coordinator *h = handle->data;

    h->handles--;
}

void
coordinator_init(struct coordinator *h, const struct coordinator_config *config)
{
    *h = (struct coordinator){.config = *config};
    snprintf(h->where, sizeof h->where, "worker %u", config->task);
    rendezvous_core_init(&h->meet, h->where, config->task, config->seed);
    rendezvous_core_set_unsure(&h->meet, true);
    uv_timer_init(config->pool->loop, &h->timer);
    h->timer.data = h;
    h->handles = 1;
}

void
coordinator_close(struct coordinator *h)
{
    struct coordinator_peer *g, *next;

    HASH_ITER (hh, h->peers, g, next) {
        struct conn *c = coordinator_peer_free(g);

        conn_close(c, coordinator_peer_closed);
    }
    rendezvous_core_finish(&h->meet);
    arena_finish(&h->arena);
    uv_close((uv_handle_t *)&h->timer, timer_closed);
}

bool
coordinator_closed(const struct coordinator *h)
{
    return h->handles == 0;
}
