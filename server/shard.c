/* Events in, actions out. A frame goes: connection, decode, the row of its type in the dispatch table, its room. */
#include "shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "shard_state.h"

#define GRACE_MS_DEFAULT    5000
#define CONNECTIONS_DEFAULT 4096
#define GATHER_DEFAULT      (1 * GIB)
#define STREAM_MIN_DEFAULT  (8 * MIB) /* measured: 20 % less time for a 1 MiB push on a model of 16 MiB */

/* Clocks and rounds stay far from the end of their numbers, so that sums of a few never wrap. */
#define CLOCK_MAX (UINT64_C(1) << 62)

char *
shard_strdup(const char *text)
{
    return strdup(text);
}

/* ---- Hello ---- */

static bool
is_for_us(const struct shard *s, const Psd__Hello *m)
{
    if (m->role == PSD__ROLE__OBSERVER && m->cluster[0] == '\0')
        return true;
    return strcmp(m->cluster, s->cluster) == 0 && m->shard == s->config.shard && m->shards == s->config.shards;
}

static void
send_welcome(struct shard *s, struct connection *c, uint64_t request)
{
    const struct session *session = c->session;
    Psd__Welcome m = PSD__WELCOME__INIT;

    m.cluster = s->cluster;
    m.shard = s->config.shard;
    m.shards = s->config.shards;
    m.boot = s->boot;
    m.grace_ms = s->config.grace_ms;
    m.in_flight_bytes_max = s->config.in_flight_bytes_max;
    if (session != NULL) {
        m.job = session->job->options;
        m.last_seq = session->last_seq;
        m.clock = session->clock;
        m.slowest_clock = session->job->slowest;
        m.round = session->round;
    }
    actions_send(s, c, MSG_WELCOME, request, &m.base);
}

/* A worker that is refused here has another's place, or none: it is told and let go. */
static void
welcome_worker(struct shard *s, struct connection *c, uint64_t request, const Psd__Hello *m)
{
    struct session *session;
    struct ps_error e;
    struct job *job;
    enum ps_err err;

    if ((err = job_open(s, m->job, &job, &e)) != PS_OK || (err = hello_worker(s, job, c, m, &session, &e)) != PS_OK) {
        connection_refuse(s, c, err, "%s", e.text);
        return;
    }
    c->state = CONN_WORKER;
    c->session = session;
    c->job_id = job->id;
    c->task = session->task;
    c->incarnation = session->incarnation;
    send_welcome(s, c, request);
}

static enum shard_result
on_hello(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    const Psd__Hello *m = msg->u.hello;

    (void)event;
    if (!is_for_us(s, m)) {
        connection_refuse(s, c, PS_ERR_CLUSTER,
                          "this is shard %u of %u of cluster '%.128s', the client wants shard %u of %u of '%.128s'",
                          s->config.shard, s->config.shards, s->cluster, m->shard, m->shards, m->cluster);
    } else if (m->role == PSD__ROLE__OBSERVER) {
        c->state = CONN_OBSERVER;
        c->agent = shard_strdup(m->agent);
        send_welcome(s, c, msg->request);
    } else {
        welcome_worker(s, c, msg->request, m);
    }
    return SHARD_TAKEN;
}

/* ---- Messages without a sequence ---- */

static enum shard_result
on_declare(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    (void)event;
    declare_take(s, c, msg->request, msg->u.declare);
    return SHARD_TAKEN;
}

static enum shard_result
on_attach(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    (void)event;
    declare_attach(s, c, msg->request, msg->u.attach);
    return SHARD_TAKEN;
}

static enum shard_result
on_pull(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    (void)event;
    pull_ask(s, c, msg->request, msg->u.pull);
    return SHARD_TAKEN;
}

static enum shard_result
on_query(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    report_answer(s, c, msg->request, msg->u.query, event->in_flight_bytes);
    return SHARD_TAKEN;
}

static enum shard_result
on_ping(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    (void)event;
    actions_send(s, c, MSG_PONG, msg->request, msg->u.base);
    return SHARD_TAKEN;
}

static enum shard_result
on_goodbye(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    (void)event;
    if (c->state == CONN_WORKER && msg->u.goodbye->finished)
        session_finish_work(s, c->session);
    connection_close(s, c);
    return SHARD_TAKEN;
}

static enum shard_result
on_set(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    (void)event;
    return setting_take(s, c, msg->request, msg->u.set);
}

static void drain(struct shard *s);

/* Answered by EVENT(DRAINING) and the end of the connection, as for everybody. */
static enum shard_result
on_drain(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    (void)msg;
    (void)event;
    actions_log(s, SHARD_LOG_INFO, "drain asked by=\"%s\" peer=%s", connection_agent(c), c->peer);
    drain(s);
    return SHARD_TAKEN;
}

static void
give_up_barrier(struct shard *s, struct pending *p)
{
    barrier_leave(s, p);
    pending_resolve(s, p, PS_ERR_CANCELLED, ps_strerror(PS_ERR_CANCELLED));
}

/* Only what waits can be taken back: a pull, a declare, a barrier. A push that waits is given up with SKIP. */
static enum shard_result
on_cancel(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    uint64_t request = msg->u.cancel->request;
    const char *text = ps_strerror(PS_ERR_CANCELLED);
    struct pending *p;

    (void)event;
    if (pull_end(s, c, request, PS_ERR_CANCELLED, text) || declare_forget(s, c, request, PS_ERR_CANCELLED))
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
        if (sequence_resolved_early(session, seq, &code)) {
            sequence_take(s, session, code);
            actions_ack(s, c, seq, code, NULL, 0, code != PS_OK ? ps_strerror(code) : NULL);
            return false;
        }
        if (!sequence_window_full(session))
            return true;
        connection_break(s, c, PS_ERR_LIMIT, "more than %d messages of this worker are not answered yet",
                         SHARD_UNRESOLVED_MAX);
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

/* The worker knows from another shard that a new round has begun. */
static void
take_round(struct shard *s, struct session *session, uint64_t round)
{
    if (round <= session->round || round > CLOCK_MAX)
        return;
    job_begin_round(s, session->job, round);
    session->round = round;
    turn_mark_session(s, session);
}

static void
take_tick(struct shard *s, struct session *session, const Psd__Tick *m)
{
    char text[PS_ERROR_TEXT_MAX];

    take_round(s, session, m->round);
    if (m->seq <= session->last_tick || m->clock == session->clock) { /* taken before a crash, ahead of a push */
        session->last_tick = MAX(session->last_tick, m->seq);
        sequence_take(s, session, PS_OK);
        actions_ack(s, session->connection, m->seq, PS_OK, NULL, 0, NULL);
        return;
    }
    if (m->clock < session->clock || m->clock > CLOCK_MAX) {
        snprintf(text, sizeof text, "worker %u is at clock %" PRIu64 " and cannot go to %" PRIu64, session->task,
                 session->clock, m->clock);
        sequence_take(s, session, PS_ERR_CLOCK);
        actions_ack(s, session->connection, m->seq, PS_ERR_CLOCK, NULL, 0, text);
        return;
    }
    session->last_tick = m->seq;
    sequence_take(s, session, PS_OK);
    actions_ack(s, session->connection, m->seq, PS_OK, NULL, 0, NULL);
    clock_tick(s, session, m->clock);
}

static enum shard_result
on_tick(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    const Psd__Tick *m = msg->u.tick;

    (void)event;
    sequence_acked(s, c->session, m->acked_through);
    if (is_new(s, c, m->seq, msg->request))
        take_tick(s, c->session, m);
    return SHARD_TAKEN;
}

static enum shard_result
on_barrier(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    const Psd__Barrier *m = msg->u.barrier;
    struct session *session = c->session;

    (void)event;
    sequence_acked(s, session, m->acked_through);
    if (!is_new(s, c, m->seq, msg->request))
        return SHARD_TAKEN;
    if (m->seq > session->last_barrier) {
        barrier_arrive(s, session, msg->request, m);
    } else { /* it opened before a crash */
        sequence_take(s, session, PS_OK);
        actions_ack(s, c, m->seq, PS_OK, NULL, 0, NULL);
    }
    return SHARD_TAKEN;
}

static enum shard_result
on_skip(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    const Psd__Skip *m = msg->u.skip;
    struct pending *p = sequence_pending(c->session, m->seq);

    (void)event;
    sequence_acked(s, c->session, m->acked_through);
    if (is_new(s, c, m->seq, msg->request)) {
        sequence_take(s, c->session, PS_OK);
        actions_ack(s, c, m->seq, PS_OK, NULL, 0, NULL);
    } else if (p != NULL && p->barrier != NULL) {
        give_up_barrier(s, p); /* while there was no connection */
    }
    return SHARD_TAKEN;
}

static enum shard_result
on_push(struct shard *s, struct connection *c, const struct wire_msg *msg, const struct shard_event *event)
{
    sequence_acked(s, c->session, msg->u.push->acked_through);
    return push_take(s, c, msg, event->payload);
}

/* ---- Dispatch ---- */

#define IN(state) (1u << (state))

struct row {
    enum shard_result (*handle)(struct shard *s, struct connection *c, const struct wire_msg *msg,
                                const struct shard_event *event);
    unsigned states;  /* of the connection, in which the message is allowed */
    bool error_stays; /* a message that is not valid is answered and the connection goes on */
};

static const struct row dispatch[MSG_TYPE_MAX] = {
    [MSG_HELLO] = {on_hello, IN(CONN_NEW), false},
    [MSG_DECLARE] = {on_declare, IN(CONN_WORKER), true},
    [MSG_PULL] = {on_pull, IN(CONN_WORKER) | IN(CONN_OBSERVER), true},
    [MSG_PUSH] = {on_push, IN(CONN_WORKER), false},
    [MSG_TICK] = {on_tick, IN(CONN_WORKER), false},
    [MSG_BARRIER] = {on_barrier, IN(CONN_WORKER), false},
    [MSG_SKIP] = {on_skip, IN(CONN_WORKER), false},
    [MSG_CANCEL] = {on_cancel, IN(CONN_WORKER) | IN(CONN_OBSERVER), false},
    [MSG_QUERY] = {on_query, IN(CONN_WORKER) | IN(CONN_OBSERVER), true},
    [MSG_PING] = {on_ping, IN(CONN_WORKER) | IN(CONN_OBSERVER), true},
    [MSG_GOODBYE] = {on_goodbye, IN(CONN_WORKER) | IN(CONN_OBSERVER), false},
    [MSG_SET] = {on_set, IN(CONN_WORKER) | IN(CONN_OBSERVER), true},
    [MSG_DRAIN] = {on_drain, IN(CONN_WORKER) | IN(CONN_OBSERVER), false},
    [MSG_ATTACH] = {on_attach, IN(CONN_WORKER) | IN(CONN_OBSERVER), true},
};

static const char *const state_names[CONN_STATES] = {
    [CONN_NEW] = "before hello",
    [CONN_WORKER] = "from a worker",
    [CONN_OBSERVER] = "from an observer",
    [CONN_CLOSING] = "after the end",
};

static bool
allowed(struct shard *s, struct connection *c, const struct frame_head *head)
{
    const struct row *row = head->type < MSG_TYPE_MAX ? &dispatch[head->type] : NULL;

    if (row != NULL && row->handle != NULL && (row->states & IN(c->state)) != 0)
        return true;
    connection_break(s, c, PS_ERR_PROTOCOL, "a %s is not allowed %s", wire_type_name((enum msg_type)head->type),
                     state_names[c->state]);
    return false;
}

static bool reload(struct shard *s, struct ps_error *e);

/* The shard can do nothing for this connection now. */
static bool
turned_away(struct shard *s, struct connection *c)
{
    struct ps_error e;

    if (!s->broken || reload(s, &e))
        return false;
    connection_refuse(s, c, PS_ERR_IO, "shard %u cannot read its store: %s", s->config.shard, e.text);
    return true;
}

static void
refuse_message(struct shard *s, struct connection *c, const struct frame_head *head, enum ps_err err,
               const struct ps_error *e)
{
    if (dispatch[head->type].error_stays && head->request > 0 && err != PS_ERR_PROTOCOL)
        actions_error(s, c, head->request, err, e->text);
    else
        connection_break(s, c, err, "%s", e->text);
}

static enum shard_result
on_frame(struct shard *s, struct connection *c, const struct shard_event *event)
{
    struct wire_msg msg;
    struct ps_error e;
    enum ps_err err;

    if (turned_away(s, c) || !allowed(s, c, event->head))
        return SHARD_TAKEN;
    c->turn = s->turn.number;
    if (c->session != NULL)
        c->session->heard_ms = s->now_ms;
    arena_reset(&s->arena);
    if ((err = wire_decode(event->head, event->meta, &s->arena, &msg, &e)) != PS_OK) {
        refuse_message(s, c, event->head, err, &e);
        return SHARD_TAKEN;
    }
    return dispatch[msg.type].handle(s, c, &msg, event);
}

/* ---- Draining ---- */

static void
stop_if_idle(struct shard *s)
{
    if (!s->draining || s->stopped || s->connections_len > 0)
        return;
    s->stopped = true;
    actions_stopped(s);
}

/* What is applied is committed with this turn. What waits is told to come again in the next life. */
static void
drain(struct shard *s)
{
    const char *text = ps_strerror(PS_ERR_DRAINING);
    struct connection *c, *next;

    if (s->draining)
        return;
    s->draining = true;
    actions_draining(s);
    actions_log(s, SHARD_LOG_INFO, "draining connections=%" PRIu64, s->connections_len);
    actions_event(s, NULL, NULL, PSD__EVENT_KIND__EVENT_DRAINING, 0, text);
    HASH_ITER (hh, s->connections, c, next) {
        pull_end(s, c, 0, PS_ERR_DRAINING, text);
        declare_forget(s, c, 0, PS_ERR_DRAINING);
        connection_close(s, c);
    }
    stop_if_idle(s);
}

/* ---- Steps ---- */

static enum shard_result
on_connection_event(struct shard *s, const struct shard_event *event)
{
    struct connection *c = connection_find(s, event->conn);

    if (c == NULL)
        return SHARD_TAKEN;
    if (event->kind == SHARD_CLOSED) {
        connection_gone(s, c);
        stop_if_idle(s);
    } else if (c->state == CONN_CLOSING) {
        return SHARD_TAKEN;
    } else if (event->kind == SHARD_BROKEN) {
        connection_break(s, c, event->error->code, "%s", event->error->text);
    } else {
        return on_frame(s, c, event);
    }
    return SHARD_TAKEN;
}

static enum shard_result
work(struct shard *s)
{
    if (!shard_busy(s))
        return SHARD_TAKEN;
    if (s->due != NULL)
        return gather_work(s) ? SHARD_TAKEN : SHARD_TURN_FULL;
    return block_work(s) ? SHARD_TAKEN : SHARD_TURN_FULL;
}

static enum shard_result
take(struct shard *s, const struct shard_event *event)
{
    switch (event->kind) {
    case SHARD_OPENED:
        connection_open(s, event->conn, event->peer != NULL ? event->peer : "");
        return SHARD_TAKEN;
    case SHARD_FRAME:
    case SHARD_BROKEN:
    case SHARD_CLOSED:
        return on_connection_event(s, event);
    case SHARD_TIME:
        session_time(s);
        return SHARD_TAKEN;
    case SHARD_WORK:
        return work(s);
    case SHARD_DRAIN:
        drain(s);
        return SHARD_TAKEN;
    }
    ps_assert(false);
}

enum shard_result
shard_step(struct shard *s, const struct shard_event *event)
{
    enum shard_result result;

    if (s->turn.failed != PS_OK)
        return SHARD_TURN_FULL;
    ps_assert(event->now_ms >= s->now_ms);
    s->now_ms = event->now_ms;
    result = take(s, event);
    if (result == SHARD_TAKEN && s->due != NULL)
        gather_work(s);
    return result;
}

/* ---- The end of a turn ---- */

static enum ps_err
load(struct shard *s, struct ps_error *e)
{
    enum ps_err err;

    if ((err = catalog_load(s, e)) != PS_OK || (err = session_row_load(s, e)) != PS_OK)
        return err;
    return catalog_load_blocks(s, e);
}

static struct variable_stats *
save_stats(const struct shard *s, uint32_t len)
{
    struct variable_stats *stats = calloc((size_t)len + 1, sizeof *stats);

    for (uint32_t id = 1; stats != NULL && id <= len; id++)
        stats[id] = s->variables[id]->stats;
    return stats;
}

/* Throw away what heap memory says and read the store again. */
static bool
reload(struct shard *s, struct ps_error *e)
{
    uint32_t len = s->variables_len;
    struct variable_stats *stats = save_stats(s, len);

    catalog_free(s);
    s->sweep = false;
    s->lapse_at = UINT64_MAX;
    s->broken = load(s, e) != PS_OK;
    if (s->broken)
        catalog_free(s);
    for (uint32_t id = 1; stats != NULL && id <= MIN(len, s->variables_len); id++)
        s->variables[id]->stats = stats[id];
    free(stats);
    return !s->broken;
}

/* Nothing of the turn happened. Who took part is told by its closed connection, and asks again. */
static void
undo(struct shard *s, enum ps_err why)
{
    struct ps_error e;

    actions_drop(s);
    actions_log(s, SHARD_LOG_ERROR, "commit failed code=%s reason=\"%s\"", ps_err_name(why), ps_strerror(why));
    connection_before_reload(s);
    turn_next(s);
    if (!PLANTED(NOT_RELOADED) && !reload(s, &e))
        actions_log(s, SHARD_LOG_ERROR, "store cannot be read code=%s reason=\"%s\"", ps_err_name(e.code), e.text);
    connection_after_reload(s);
    s->stopped = false; /* what was said is undone, draining goes on */
    if (s->draining)
        actions_draining(s);
    stop_if_idle(s);
    actions_hand_out(s);
}

enum ps_err
shard_commit(struct shard *s)
{
    enum ps_err err;

    pull_sweep(s);
    actions_flush(s);
    if (PLANTED(ACK_BEFORE_COMMIT))
        actions_hand_out(s);
    if ((err = turn_commit(s)) != PS_OK) {
        undo(s, err);
        return err;
    }
    actions_hand_out(s);
    turn_next(s);
    return PS_OK;
}

bool
shard_dirty(const struct shard *s)
{
    return turn_dirty(s);
}

bool
shard_long_turn(const struct shard *s)
{
    return s->turn.used >= SHARD_TURN_LONG && s->actions.values == s->turn.number;
}

void
shard_set_grace(struct shard *s, uint32_t grace_ms)
{
    s->config.grace_ms = grace_ms != 0 ? grace_ms : GRACE_MS_DEFAULT;
    s->lapse_at = s->now_ms; /* all deadlines are counted anew */
}

uint64_t
shard_next_time(const struct shard *s)
{
    return s->draining ? UINT64_MAX : s->lapse_at;
}

bool
shard_busy(const struct shard *s)
{
    return !s->draining && !s->broken && (s->work != NULL || s->due != NULL);
}

bool
shard_next_action(struct shard *s, struct shard_action *out)
{
    return actions_next(s, out);
}

/* ---- Life ---- */

static const struct span identity_key = {"identity", 8};

static enum ps_err
put_identity(struct shard *s)
{
    const struct store_ops *ops = s->store->ops;
    Psd__ShardRow row = PSD__SHARD_ROW__INIT;
    uint8_t bytes[512];
    size_t len;
    enum ps_err err;

    row.format = SHARD_FORMAT;
    row.cluster = s->cluster;
    row.shard = s->config.shard;
    row.shards = s->config.shards;
    row.boot = s->boot = s->config.boot;
    len = psd__shard_row__get_packed_size(&row);
    ps_assert(len <= sizeof bytes);
    psd__shard_row__pack(&row, bytes);
    if ((err = ops->begin(s->store, 64 * KIB)) != PS_OK)
        return err;
    if ((err = ops->row_put(s->store, STORE_SHARD, identity_key, (struct span){bytes, len})) != PS_OK) {
        ops->abort(s->store);
        return err;
    }
    return ops->commit(s->store);
}

static bool
find_identity(void *arg, struct span key, struct span value)
{
    Psd__ShardRow **row = arg;

    if (key.len == identity_key.len && memcmp(key.data, identity_key.data, key.len) == 0)
        *row = psd__shard_row__unpack(NULL, value.len, value.data);
    return *row == NULL;
}

static enum ps_err
check_identity(struct shard *s, const Psd__ShardRow *row, struct ps_error *e)
{
    if (row->format != SHARD_FORMAT)
        return ps_fail(e, PS_ERR_VERSION, "the store has format %u, this psd knows format %d", row->format,
                       SHARD_FORMAT);
    if (strcmp(row->cluster, s->cluster) != 0 || row->shard != s->config.shard || row->shards != s->config.shards)
        return ps_fail(e, PS_ERR_CLUSTER,
                       "the store belongs to shard %u of %u of cluster '%.128s', not to %u of %u of '%.128s'",
                       row->shard, row->shards, row->cluster, s->config.shard, s->config.shards, s->cluster);
    s->boot = row->boot;
    return PS_OK;
}

static enum ps_err
identify(struct shard *s, struct ps_error *e)
{
    Psd__ShardRow *row = NULL;
    enum ps_err err = s->store->ops->each_row(s->store, STORE_SHARD, find_identity, &row);

    if (err == PS_OK && row == NULL)
        err = put_identity(s);
    if (err != PS_OK)
        return ps_fail(e, err, "the store cannot be used: %s", ps_strerror(err));
    if (row == NULL)
        return PS_OK;
    err = check_identity(s, row, e);
    psd__shard_row__free_unpacked(row, NULL);
    return err;
}

static void
set_defaults(struct shard_config *c)
{
    if (c->grace_ms == 0)
        c->grace_ms = GRACE_MS_DEFAULT;
    if (c->connections_max == 0)
        c->connections_max = CONNECTIONS_DEFAULT;
    if (c->gather_bytes_max == 0)
        c->gather_bytes_max = GATHER_DEFAULT;
    if (c->stream_min_bytes == 0)
        c->stream_min_bytes = STREAM_MIN_DEFAULT;
}

enum ps_err
shard_new(const struct shard_config *config, struct store *store, uint64_t now_ms, struct shard **out,
          struct ps_error *e)
{
    struct shard *s = calloc(1, sizeof *s);
    enum ps_err err = PS_ERR_NOMEM;

    ps_assert(config->shards >= 1 && config->shards <= WIRE_SHARDS_MAX && config->shard < config->shards);
    if (s == NULL)
        return ps_fail(e, err, "no memory for a shard");
    s->config = *config;
    set_defaults(&s->config);
    s->store = store;
    s->now_ms = s->start_ms = now_ms;
    s->lapse_at = UINT64_MAX;
    s->turn.number = 1;
    s->cluster = shard_strdup(config->cluster);
    s->version = shard_strdup(config->version != NULL ? config->version : "");
    s->live_dir = shard_strdup(config->live_dir != NULL ? config->live_dir : "");
    s->refs = calloc(WIRE_BLOCKS_MAX, sizeof *s->refs);
    if (s->cluster == NULL || s->version == NULL || s->live_dir == NULL || s->refs == NULL)
        ps_fail(e, err, "no memory for a shard");
    else if ((err = identify(s, e)) == PS_OK)
        err = load(s, e);
    if (err != PS_OK) {
        shard_free(s);
        return err;
    }
    *out = s;
    return PS_OK;
}

void
shard_free(struct shard *s)
{
    if (s == NULL)
        return;
    if (s->turn.begun)
        s->store->ops->abort(s->store);
    catalog_free(s);
    actions_finish(s);
    connection_free_all(s);
    pool_finish(&s->pool);
    arena_finish(&s->arena);
    free(s->refs);
    free(s->sums);
    free(s->cluster);
    free(s->version);
    free(s->live_dir);
    free(s);
}
