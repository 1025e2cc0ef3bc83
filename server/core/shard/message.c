/* A frame's way: check that the message is allowed here, decode it, find its type's row in the table, call its
 * module. */
#include "server/core/shard/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/core/durability/drop_erase.h"
#include "server/core/durability/identity.h"
#include "server/core/shard/audit.h"
#include "server/core/shard/commit.h"
#include "server/core/shard/define.h"
#include "server/core/shard/drain.h"
#include "server/core/shard/drop.h"
#include "server/core/shard/permissions.h"
#include "server/core/shard/worker_exit.h"
#include "server/core/shard_state.h"
#include "server/core/turn/connection_idle.h"

/* Clocks and rounds stay far from the end of their numbers, so that sums of a few never wrap. */
#define CLOCK_MAX (UINT64_C(1) << 62)

/* ---- Messages without a sequence ---- */

static enum shard_result
message_on_hello(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    return hello_take(s, c, msg->request, msg->u.hello, ctx->event->role, ctx->event->token);
}

/* From now on the store may have what a psd of before does not know. False: not in this turn. */
static bool
message_raise_format(struct shard *s)
{
    enum ps_err err;

    if (s->format >= SHARD_FORMAT_ASSIGNS)
        return true;
    switch (turn_room(s, STORE_ROW_ROOM, &err)) {
    case TURN_WAIT:
        return false;
    case TURN_REFUSED:
        return true; /* nor is there room for values */
    case TURN_READY:
        break;
    }
    turn_take_rows(s, 1);
    if ((err = identity_raise(s, SHARD_FORMAT_ASSIGNS)) != PS_OK)
        turn_fail(s, err);
    return true;
}

static enum shard_result
message_on_declare(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    if (msg->u.declare->init->kind == PSD__INIT_KIND__GIVEN && !message_raise_format(s))
        return SHARD_TURN_FULL;
    declare_take(s, c, msg->request, msg->u.declare);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_define(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    define_take(s, c, msg->request, msg->u.define);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_attach(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    declare_attach(s, c, msg->request, msg->u.attach);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_assign(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    if (msg->u.assign->step == PSD__ASSIGN_STEP__STAGE && !message_raise_format(s))
        return SHARD_TURN_FULL;
    return assign_take(s, c, msg, ctx);
}

static enum shard_result
message_on_pull(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    pull_ask(s, c, msg->request, msg->u.pull);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_query(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    report_answer(s, c, msg->request, msg->u.query, ctx->event);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_ping(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    actions_send(s, c, MSG_PONG, msg->request, msg->u.base);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_goodbye(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    if (c->state == CONN_WORKER && msg->u.goodbye->finished)
        worker_exit_finish(s, c->session);
    connection_close(s, c);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_set(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    return setting_take(s, c, msg->request, msg->u.set);
}

/* Answered by EVENT(DRAINING) and the end of the connection, as for all connections. */
static enum shard_result
message_on_drain(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)msg;
    (void)ctx;
    actions_log(s, SHARD_LOG_INFO, "drain asked by=\"%s\" peer=%s", connection_agent(c), c->peer);
    drain_begin(s);
    return SHARD_TAKEN;
}

/* A second request has the effect of one. */
static enum shard_result
message_on_evict(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    const Psd__Evict *m = msg->u.evict;
    Psd__Evicted answer = PSD__EVICTED__INIT;
    struct session *session;
    const struct job *job;

    (void)ctx;
    HASH_FIND(hh, s->jobs, m->job, strlen(m->job), job);
    session = job != NULL ? session_find(s, job->id, m->task) : NULL;
    if (session != NULL) {
        answer.found = true;
        answer.live = session->state == SESSION_LIVE;
        answer.clock = session->clock;
        answer.agent = session->agent;
    }
    if (answer.live)
        worker_exit_evict(s, session, connection_agent(c));
    actions_send(s, c, MSG_EVICTED, msg->request, &answer.base);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_drop(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    return drop_take(s, c, msg->request, msg->u.drop);
}

static enum shard_result
message_on_save(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    save_request_save(s, c, msg->request, msg->u.save->verify);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_checkpoint(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    save_request_checkpoint(s, c, msg->request, msg->u.checkpoint);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_restore(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    restore_ask(s, c, msg->request, msg->u.restore);
    return SHARD_TAKEN;
}

static enum shard_result
message_on_meet(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    (void)ctx;
    rendezvous_service_join(s, c, msg->request, msg->u.meet);
    return SHARD_TAKEN;
}

static void
give_up_barrier(struct shard *s, struct pending *p)
{
    barrier_leave(s, p);
    pending_resolve(s, p, PS_ERR_CANCELLED, ps_strerror(PS_ERR_CANCELLED));
}

/* Only what waits can be taken back: a pull, a declare, an assign, a barrier, a rendezvous, a save (its answer: one
 * that runs goes on). A push that waits is given up with SKIP. */
static enum shard_result
message_on_cancel(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    uint64_t request = msg->u.cancel->request;
    const char *text = ps_strerror(PS_ERR_CANCELLED);
    struct pending *p;

    (void)ctx;
    if (pull_end(s, c, request, PS_ERR_CANCELLED, text) || declare_forget(s, c, request, PS_ERR_CANCELLED) ||
        assign_end(s, c, request, PS_ERR_CANCELLED) || save_request_end(s, c, request, PS_ERR_CANCELLED) ||
        drop_erase_end(s, c, request, PS_ERR_CANCELLED) || rendezvous_service_cancel(s, c, request))
        return SHARD_TAKEN;
    p = c->session != NULL ? sequence_pending_request(c->session, request) : NULL;
    if (p != NULL && p->barrier != NULL)
        give_up_barrier(s, p);
    return SHARD_TAKEN;
}

/* ---- Sequenced messages ---- */

/* True when the message is new and may be taken. Else it was dealt with: a repeat is answered, a gap ends the
 * connection. */
static bool
is_new(struct shard *s, struct connection *c, uint64_t seq, uint64_t request)
{
    struct session *session = c->session;
    struct pending *p;
    enum ps_err code;

    switch (sequence_classify(session, seq)) {
    case SEQ_NEW:
        if (sequence_resolved_early(s, session, seq, &code)) {
            pending_resolve_next(s, session, code);
            actions_ack(s, c, seq, code, NULL, 0, code != PS_OK ? ps_strerror(code) : NULL);
            return false;
        }
        if (!sequence_window_full(session))
            return true;
        sequence_break(s, c);
        return false;
    case SEQ_REPEATED:
        code = sequence_outcome(session, seq);
        actions_ack(s, c, seq, code, NULL, 0, code != PS_OK ? ps_strerror(code) : NULL);
        return false;
    case SEQ_WAITING:
        p = sequence_pending(session, seq);
        p->connection = c->id;
        p->request = request;
        p->want_value = false;
        return false;
    default:
        connection_break(s, c, PS_ERR_SEQUENCE, "message %" PRIu64 " came where %" PRIu64 " was expected", seq,
                         session->next_seq);
        return false;
    }
}

/* The worker knows that a new round has begun: from another shard, or from this one's DEFINED. */
static void
take_round(struct shard *s, struct session *session, uint64_t round)
{
    if (round > session->known_round && round >= session->round && round <= CLOCK_MAX)
        job_enter_round(s, session, round);
}

static void
take_tick(struct shard *s, struct session *session, const Psd__Tick *m)
{
    char text[PS_ERROR_TEXT_MAX];

    take_round(s, session, m->round);
    worker_metrics_take(&session->metrics,
                        m->metrics); /* also of one that is refused: they are the newest, whatever its clock */
    if (m->seq <= session->last_tick || m->clock == session->clock) { /* taken before a crash, ahead of a push */
        session->last_tick = MAX(session->last_tick, m->seq);
        pending_resolve_next(s, session, PS_OK);
        actions_ack(s, session->connection, m->seq, PS_OK, NULL, 0, NULL);
        return;
    }
    if (m->clock < session->clock || m->clock > CLOCK_MAX) {
        snprintf(text, sizeof text, "worker %u is at clock %" PRIu64 " and cannot go to %" PRIu64, session->task,
                 session->clock, m->clock);
        pending_resolve_next(s, session, PS_ERR_CLOCK);
        actions_ack(s, session->connection, m->seq, PS_ERR_CLOCK, NULL, 0, text);
        return;
    }
    session->last_tick = m->seq;
    pending_resolve_next(s, session, PS_OK);
    actions_ack(s, session->connection, m->seq, PS_OK, NULL, 0, NULL);
    data_steps_tick(session, data_cursor_of(m->cursor));
    clock_tick(s, session, m->clock);
    if (job_is_sync(session->job))
        sync_step_review(s, session->job);
}

static enum shard_result
message_on_tick(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    const Psd__Tick *m = msg->u.tick;

    (void)ctx;
    sequence_acked(s, c->session, m->acked_through);
    assign_resolve(s, c->session->job, m->assigned, m->given_up);
    if (!is_new(s, c, m->seq, msg->request))
        return SHARD_TAKEN;
    take_tick(s, c->session, m);
    barrier_review(s, c->session->job); /* it may have gone beyond the place of one */
    return SHARD_TAKEN;
}

static enum shard_result
message_on_barrier(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    const Psd__Barrier *m = msg->u.barrier;
    struct session *session = c->session;

    (void)ctx;
    sequence_acked(s, session, m->acked_through);
    if (!is_new(s, c, m->seq, msg->request))
        return SHARD_TAKEN;
    if (m->seq > session->last_barrier) {
        barrier_arrive(s, session, msg->request, m);
    } else { /* it opened before a crash */
        pending_resolve_next(s, session, PS_OK);
        actions_ack(s, c, m->seq, PS_OK, NULL, 0, NULL);
    }
    return SHARD_TAKEN;
}

static enum shard_result
message_on_skip(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    const Psd__Skip *m = msg->u.skip;
    struct pending *p = sequence_pending(c->session, m->seq);

    (void)ctx;
    sequence_acked(s, c->session, m->acked_through);
    if (is_new(s, c, m->seq, msg->request)) {
        if (m->push)
            pending_resolve_next_push(s, c->session, PS_OK);
        else
            pending_resolve_next(s, c->session, PS_OK);
        actions_ack(s, c, m->seq, PS_OK, NULL, 0, NULL);
    } else if (p != NULL && p->barrier != NULL) {
        give_up_barrier(s, p); /* while there was no connection */
    }
    return SHARD_TAKEN;
}

static enum shard_result
message_on_push(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    sequence_acked(s, c->session, msg->u.push->acked_through);
    return push_take(s, c, msg, ctx);
}

/* ---- Dispatch ---- */

struct message_row {
    /* NULL: no client sends it */
    enum shard_result (*handle)(struct shard *s, struct connection *c, const struct wire_msg *msg,
                                struct event_context *ctx);
    unsigned states; /* of the connection, in which the message is allowed */
    bool asks;       /* it is answered */
    bool answers;    /* a message that is not valid is answered and the connection goes on */
    bool payload;    /* it may have one */
};

#define IN(state) (1u << (state))

/* Each message that a client sends has a handler of its name, message_on_hello(). */
#define MESSAGE_TAKE_NEWCOMER(name) message_on_##name, IN(CONN_NEW)
#define MESSAGE_TAKE_WORKER(name)   message_on_##name, IN(CONN_WORKER)
#define MESSAGE_TAKE_OBSERVER(name) message_on_##name, IN(CONN_OBSERVER)
#define MESSAGE_TAKE_CLIENT(name)   message_on_##name, IN(CONN_WORKER) | IN(CONN_OBSERVER)
#define MESSAGE_TAKE_SHARD(name)    NULL, 0
#define MESSAGE_TAKE_MEMBER(name)   NULL, 0

static const struct message_row message_rows[MSG_TYPE_MAX] = {
#define X(id, number, name, type, text, payload, request, check, sender, invalid, role, answer)                        \
    [MSG_##id] = {MESSAGE_TAKE_##sender(name), MSG_##answer != MSG_NONE, MESSAGE_##invalid, MESSAGE_##payload},
    MESSAGE_LIST(X)
#undef X
};

static const char *const state_names[CONN_STATES] = {
    [CONN_NEW] = "before hello",
    [CONN_WORKER] = "from a worker",
    [CONN_OBSERVER] = "from an observer",
    [CONN_CLOSING] = "after the end",
};

static enum ps_err
message_check_state(const struct connection *c, const struct frame_head *head, struct ps_error *e)
{
    const struct message_row *row = head->type < MSG_TYPE_MAX ? &message_rows[head->type] : NULL;

    if (row != NULL && row->handle != NULL && (row->states & IN(c->state)) != 0)
        return PS_OK;
    return ps_fail(e, PS_ERR_PROTOCOL, "%s %s is not allowed %s", wire_type_article((enum msg_type)head->type),
                   wire_type_name((enum msg_type)head->type), state_names[c->state]);
}

static bool
message_allowed(struct shard *s, struct connection *c, const struct frame_head *head)
{
    struct ps_error e;

    if (message_check_state(c, head, &e) == PS_OK)
        return true;
    connection_break(s, c, e.code, "%s", e.text);
    return false;
}

/* What a frame may bring beyond its head, in this state and with this role. */
static enum ps_err
message_check_head(const struct connection *c, const struct frame_head *head, enum role role, struct ps_error *e)
{
    const struct message_row *row = &message_rows[head->type];
    uint32_t meta_max = c->state == CONN_NEW ? MESSAGE_META_NEW : FRAME_META_MAX;
    char text[PS_ERROR_TEXT_MAX];
    enum ps_err err;

    if ((err = message_check_state(c, head, e)) != PS_OK)
        return err;
    if (role < permissions_of(head->type)) {
        permissions_refusal(head->type, role, permissions_of(head->type), text, sizeof text);
        return ps_fail(e, PS_ERR_DENIED, "%s", text);
    }
    if (!row->payload && head->payload_len > 0)
        return ps_fail(e, PS_ERR_PROTOCOL, "%s %s has no payload, and this one would have %" PRIu64 " bytes",
                       wire_type_article((enum msg_type)head->type), wire_type_name((enum msg_type)head->type),
                       head->payload_len);
    if (head->meta_len > meta_max)
        return ps_fail(e, PS_ERR_PROTOCOL, "%s %s %s with %u bytes of metadata; the limit is %u",
                       wire_type_article((enum msg_type)head->type), wire_type_name((enum msg_type)head->type),
                       state_names[c->state], head->meta_len, meta_max);
    return PS_OK;
}

enum ps_err
message_head(const struct shard *s, uint64_t conn, const struct frame_head *head, enum role role, struct ps_error *e)
{
    const struct connection *c = connection_find(s, conn);

    if (head->type >= MSG_TYPE_MAX) /* of no use to a shard, or the offer of shared memory: small */
        return head->payload_len == 0 && head->meta_len <= MESSAGE_META_NEW
                   ? PS_OK
                   : ps_fail(e, PS_ERR_PROTOCOL, "a message of type %u is not taken here", head->type);
    if (c == NULL || c->state == CONN_CLOSING) /* what comes is not handled any more */
        return PS_OK;
    return message_check_head(c, head, role, e);
}

/* The connection's role is too low: its request ends with an error. */
static void
message_deny(struct shard *s, struct connection *c, const struct shard_event *event, enum role takes)
{
    unsigned type = event->head->type;
    char text[PS_ERROR_TEXT_MAX];

    s->stats.denied++;
    permissions_refusal(type, event->role, takes, text, sizeof text);
    if (message_rows[type].answers && event->head->request > 0)
        actions_error(s, c, event->head->request, PS_ERR_DENIED, text);
    else
        connection_refuse(s, c, PS_ERR_DENIED, "%s", text);
}

static bool
has_right(struct shard *s, struct connection *c, const struct shard_event *event)
{
    enum role takes = permissions_of(event->head->type);

    if (event->role >= takes)
        return true;
    message_deny(s, c, event, takes);
    return false;
}

/* Once its hello was taken a connection whose role is too low is refused for that, whether workers or observers send
 * such a message. */
static bool
message_permitted(struct shard *s, struct connection *c, const struct shard_event *event)
{
    if (c->state == CONN_WORKER || c->state == CONN_OBSERVER)
        return has_right(s, c, event) && message_allowed(s, c, event->head);
    return message_allowed(s, c, event->head) && has_right(s, c, event);
}

/* The shard can do nothing for this connection now. */
static bool
turned_away(struct shard *s, struct connection *c)
{
    struct ps_error e;

    if (!s->broken || shard_reload(s, &e))
        return false;
    connection_refuse(s, c, PS_ERR_IO, "shard %u cannot read its store: %s", s->config.shard, e.text);
    return true;
}

static void
refuse_message(struct shard *s, struct connection *c, const struct frame_head *head, enum ps_err err,
               const struct ps_error *e)
{
    if (message_rows[head->type].answers && head->request > 0 && err != PS_ERR_PROTOCOL)
        actions_error(s, c, head->request, err, e->text);
    else
        connection_break(s, c, err, "%s", e->text);
}

enum shard_result
message_take(struct shard *s, struct connection *c, struct event_context *ctx)
{
    const struct shard_event *event = ctx->event;
    struct wire_msg msg;
    struct ps_error e;
    enum ps_err err;

    if (turned_away(s, c))
        return SHARD_TAKEN;
    c->turn = s->turn.number;
    if (c->state == CONN_NEW)
        c->share = event->share;
    if (c->session != NULL)
        c->session->heard_ms = s->now_ms;
    if (c->state == CONN_OBSERVER)
        connection_idle_spoke(s, c, event->head->type < MSG_TYPE_MAX && message_rows[event->head->type].asks);
    if (!message_permitted(s, c, event))
        return SHARD_TAKEN;
    arena_reset(&s->arena);
    if ((err = wire_decode(event->head, event->meta, &s->arena, &msg, &e)) != PS_OK) {
        refuse_message(s, c, event->head, err, &e);
        return SHARD_TAKEN;
    }
    audit_asked(s, c, &msg, event->token);
    return message_rows[msg.type].handle(s, c, &msg, ctx);
}
