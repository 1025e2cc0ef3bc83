/* What comes in on a link: a frame's metadata is decoded once, the payload of a DATA frame is sent straight to the user
 * buffers of the request that it answers, and the whole frame then ends requests.
 *
 * A message that cannot be true (an answer to what was not asked, a length that does not fit) is PS_ERR_PROTOCOL and
 * final: the shard would send it again. */
#include "client/core/shards/inbox.h"

#include "client/core/shards/definition.h"
#include "client/core/shards/residual.h"

void
inbox_broke(struct core *c, struct shard_link *l, const char *what)
{
    struct ps_error e;

    core_error_set(c, l, &e, PS_ERR_PROTOCOL, "%s", what);
    core_fail(c, &e);
}

/* ---- Metadata ---- */

static bool
inbox_decode(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta)
{
    struct ps_error e, why;

    arena_reset(&l->arena);
    if (wire_decode(head, meta, &l->arena, &l->msg, &why) == PS_OK)
        return true;
    if (why.code == PS_ERR_NOMEM) {
        core_error_set(c, l, &e, why.code, "no memory to receive");
        shard_link_lost(c, l, &e);
        return false;
    }
    core_error_set(c, l, &e, PS_ERR_PROTOCOL, "sent a bad message: %.400s", why.text);
    core_fail(c, &e);
    return false;
}

void
shard_link_meta(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta,
                struct core_payload_dest *place)
{
    *place = (struct core_payload_dest){.discard = true};
    if (!shard_link_up(l) && l->state != SHARD_LINK_GREETING)
        return;
    l->silent_ms = 0;
    l->decoded = false;
    if (head->type != MSG_DATA) {
        place->discard = false;
        return;
    }
    if (!shard_link_up(l)) {
        inbox_broke(c, l, "sent data before its welcome");
        return;
    }
    place->discard = false;
    if (inbox_decode(c, l, head, meta) && inbox_data_begin(c, l, place))
        l->decoded = true;
    else
        *place = (struct core_payload_dest){.discard = true};
}

/* ---- Messages ---- */

/* Its buffer is the caller's again, but the connection still reads from it: the connection must go. */
static void
answered_too_soon(struct core *c, struct shard_link *l)
{
    struct ps_error e;

    core_error_set(c, l, &e, PS_ERR_PROTOCOL, "answered a push or an assign before it had all of it");
    shard_link_lost(c, l, &e);
}

/* Also when it could not be asked: the push will get the same answer. But a step that failed for a worker that was lost
 * is one before the push's, which is as early as it was: the gate is asked again. */
static void
open_gate(struct shard_link *l, const struct request *p, const struct ps_error *error)
{
    struct request *push = send_window_find(&l->window, p->seq);

    if (push != NULL && (error == NULL || error->code != PS_ERR_STEP_FAILED))
        push->gated = false;
}

void
inbox_answered(struct core *c, struct shard_link *l, struct request *p, const struct ps_error *error)
{
    struct core_op *op = p->op;
    struct lane *lane = p->lane;
    bool too_soon = request_sends_blocks(p) && p->state == REQUEST_HANDED_OUT;

    l->pushes += p->counts;
    if (p->kind == REQUEST_TICK && error == NULL) {
        l->ticked =
            MAX(l->ticked, MIN(p->clock, c->clock)); /* the core's own may be at a session's, past this worker */
        l->clock = MAX(l->clock, p->clock);
    }
    if (p->kind == REQUEST_PUSH)
        l->pushed = MAX(l->pushed, p->clock + 1);
    if (p->kind == REQUEST_GATE)
        open_gate(l, p, error);
    if (p->kind == REQUEST_DELAY_QUERY && op != NULL) {
        op->delay_queries--;
        op = NULL; /* it is not one of its requests */
    }
    request_end(c, l, p);
    if (op != NULL)
        op_answered(c, op, lane, error);
    if (too_soon)
        answered_too_soon(c, l);
}

static void
on_welcome(struct core *c, struct shard_link *l)
{
    if (l->state != SHARD_LINK_GREETING) {
        inbox_broke(c, l, "welcomed twice");
        return;
    }
    shard_link_welcomed(c, l, l->msg.u.welcome);
}

/* ---- Acks ---- */

/* Count and name what a push's blocks came to. *error is filled with the first that was not applied. */
static void
note_block_code(struct core *c, struct shard_link *l, struct request *p, const struct walk_block *b, uint32_t code,
                struct ps_error *error)
{
    if (code == PS_OK)
        return;
    if (code == PS_ERR_STALE)
        c->stats.dropped_stale++;
    else if (code == PS_ERR_LATE)
        c->stats.dropped_late++;
    else if (code != PS_ERR_NOT_DURABLE) /* that one was applied */
        c->stats.refused++;
    if (error->code == PS_OK)
        core_error_set(c, l, error, (enum ps_err)code, "push of '%.80s' block %llu: %s", p->op->vars[b->var]->name,
                       (unsigned long long)b->block, ps_strerror((enum ps_err)code));
}

void
shard_link_note_codes(struct core *c, struct shard_link *l, struct request *p, const uint32_t *codes, uint32_t all,
                      struct ps_error *error)
{
    struct block_walk walk = op_walk(p->op, l->shard);
    struct block_cursor at = p->from;
    struct walk_block b;
    uint32_t i;

    error->code = PS_OK;
    c->stats.bytes_pushed += p->bytes;
    c->stats.gradient_bytes += p->gradient_bytes;
    if (codes == NULL && all == PS_OK)
        return;
    residual_note(l, p, codes, all);
    for (i = 0; i < p->blocks && block_cursor_next(&walk, &at, &b); i++)
        note_block_code(c, l, p, &b, codes != NULL ? codes[i] : all, error);
}

static const Psd__Error *
ack_error(const Psd__Ack *a, uint64_t seq)
{
    size_t i;

    for (i = 0; i < a->n_error; i++)
        if (a->error[i]->seq == seq)
            return a->error[i];
    return NULL;
}

static const Psd__AckBlocks *
ack_blocks(const Psd__Ack *a, uint64_t seq)
{
    size_t i;

    for (i = 0; i < a->n_blocks; i++)
        if (a->blocks[i]->seq == seq)
            return a->blocks[i];
    return NULL;
}

/* A push's outcome, and its blocks' when they differ. False: it broke the protocol. */
static bool
ack_push(struct core *c, struct shard_link *l, struct request *p, uint32_t code, struct ps_error *error)
{
    const Psd__AckBlocks *blocks = ack_blocks(l->msg.u.ack, p->seq);

    if (blocks != NULL && blocks->n_code != p->blocks) {
        inbox_broke(c, l, "acknowledged other blocks than were pushed");
        return false;
    }
    if (p->op->want && code == PS_OK && blocks == NULL) {
        inbox_broke(c, l, "acknowledged a push that wanted values without them");
        return false;
    }
    shard_link_note_codes(c, l, p, blocks != NULL ? blocks->code : NULL, code, error);
    return true;
}

static void
ack_one(struct core *c, struct shard_link *l, uint64_t seq, uint32_t code)
{
    struct request *p = send_window_find(&l->window, seq);
    const Psd__Error *said = ack_error(l->msg.u.ack, seq);
    struct ps_error error;

    error_none(&error);
    if (p == NULL)
        return; /* acknowledged before: a skip that filled a hole, say */
    if (p->kind == REQUEST_PUSH && !ack_push(c, l, p, code, &error))
        return;
    /* A session that was made again starts at the slowest clock, which may be past this tick's. */
    if (p->kind == REQUEST_TICK && code == PS_ERR_CLOCK && p->clock <= l->floor)
        code = PS_OK;
    if (code != PS_OK && error.code == PS_OK)
        core_error_set(c, l, &error, (enum ps_err)code, "%s", ps_strerror((enum ps_err)code));
    if (error.code != PS_OK && said != NULL && said->text[0] != '\0')
        core_error_set(c, l, &error, error.code, "%s", said->text);
    if (p->op != NULL)
        p->op->held_us = MAX(p->op->held_us, l->msg.u.ack->held_us);
    inbox_answered(c, l, p, error.code != PS_OK ? &error : NULL);
}

static void
on_ack(struct core *c, struct shard_link *l)
{
    const Psd__Ack *a = l->msg.u.ack;
    uint64_t epoch = l->epoch;
    size_t i;

    op_assign_known(c, a->assigned);
    if (a->given_up != 0)
        c->assigns.given_up = a->given_up;
    for (i = 0; i < a->n_seq && l->epoch == epoch; i++) {
        if (a->seq[i] == 0 || a->seq[i] >= l->window.next) {
            inbox_broke(c, l, "acknowledged what was not sent");
            return;
        }
        ack_one(c, l, a->seq[i], a->n_code > 0 ? a->code[i] : PS_OK);
    }
}

/* ---- Errors and events ---- */

static void
on_error(struct core *c, struct shard_link *l)
{
    const Psd__Error *m = l->msg.u.error;
    enum ps_err code = m->code > PS_OK && m->code < PS_ERR_COUNT ? (enum ps_err)m->code : PS_ERR_INTERNAL;
    bool restore, own;
    struct ps_error e;
    struct request *p;

    core_error_set(c, l, &e, code, "%s", m->text[0] != '\0' ? m->text : ps_strerror(code));
    if (l->state == SHARD_LINK_GREETING) {
        shard_link_refused(c, l, &e);
        return;
    }
    if (l->msg.request == 0 && shard_link_error_final(code)) {
        core_fail(c, &e);
        return;
    }
    if (l->msg.request == 0 || code == PS_ERR_DRAINING) {
        shard_link_lost(c, l, &e);
        return;
    }
    if ((p = request_ids_find(&l->requests, l->msg.request)) == NULL)
        return; /* to a CANCEL that came too late */
    restore = p->kind == REQUEST_RESTORE;
    own = restore || p->kind == REQUEST_DEFINE;
    if (restore && !shard_link_error_final(code)) {
        shard_link_restore_later(c, l, p, &e);
        return;
    }
    inbox_answered(c, l, p, &e);
    if (own)
        core_fail(c, &e); /* the variables that operations work on are not there any more, or others train otherwise */
}

static void
on_event(struct core *c, struct shard_link *l)
{
    static const enum ps_err codes[] = {[PSD__EVENT_KIND__EVENT_DRAINING] = PS_ERR_DRAINING,
                                        [PSD__EVENT_KIND__EVENT_LEASE_LAPSED] = PS_ERR_LEASE_LAPSED,
                                        [PSD__EVENT_KIND__EVENT_REJOINED] = PS_OK};
    static const char *const texts[] = {[PSD__EVENT_KIND__EVENT_DRAINING] = "is shutting down",
                                        [PSD__EVENT_KIND__EVENT_LEASE_LAPSED] = "lost its lease",
                                        [PSD__EVENT_KIND__EVENT_REJOINED] = "is back"};
    const Psd__Event *m = l->msg.u.event;
    struct ps_error e;

    if ((size_t)m->kind >= ARRAY_LEN(codes))
        return; /* of a later version */
    l->draining |= m->kind == PSD__EVENT_KIND__EVENT_DRAINING;
    if (m->kind == PSD__EVENT_KIND__EVENT_DRAINING)
        core_error_set(c, l, &e, codes[m->kind], "%s", m->text[0] != '\0' ? m->text : texts[m->kind]);
    else if (m->text[0] != '\0')
        core_error_set(c, l, &e, codes[m->kind], "%s", m->text);
    else
        core_error_set(c, l, &e, codes[m->kind], "worker %u %s", m->task, texts[m->kind]);
    core_emit_event(c, &e);
}

static void
on_pong(struct core *c, struct shard_link *l)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);

    if (p == NULL || (p->kind != REQUEST_PING && p->kind != REQUEST_ALIVE)) {
        inbox_broke(c, l, "answered a ping that was not sent");
        return;
    }
    l->probed = false;
    inbox_answered(c, l, p, NULL);
}

static void
on_set_done(struct core *c, struct shard_link *l)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);

    if (p == NULL || p->kind != REQUEST_SET) {
        inbox_broke(c, l, "answered a set that was not asked for");
        return;
    }
    if (!p->given_up) {
        p->op->variables += l->msg.u.set_done->variables;
        p->lane->changed = l->msg.u.set_done->changed;
    }
    inbox_answered(c, l, p, NULL);
}

static void
on_assigned(struct core *c, struct shard_link *l)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);
    struct ps_error error = {0};

    if (p == NULL || (p->kind != REQUEST_STAGE && p->kind != REQUEST_ASSIGN && p->kind != REQUEST_ABANDON)) {
        inbox_broke(c, l, "answered an assign that was not made");
        return;
    }
    op_assign_answered(c, l, p, l->msg.u.assigned, &error);
    inbox_answered(c, l, p, error.code != PS_OK ? &error : NULL);
}

/* ---- Frames ---- */

struct inbox_row {
    void (*take)(struct core *c, struct shard_link *l);
    void (*keep)(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta);
};

/* Each message that a shard sends. MET answers on a connection of its own
 * (client/group/rendezvous/coordinator_client.c): a link refuses it.
 */
#define INBOX_LIST(X)                                                                                                  \
    X(WELCOME, .take = on_welcome)                                                                                     \
    X(DECLARED, .take = inbox_declared)                                                                                \
    X(DATA, .take = inbox_data)                                                                                        \
    X(ACK, .take = on_ack)                                                                                             \
    X(REPORT, .keep = inbox_report)                                                                                    \
    X(PONG, .take = on_pong)                                                                                           \
    X(ERROR, .take = on_error)                                                                                         \
    X(EVENT, .take = on_event)                                                                                         \
    X(SET_DONE, .take = on_set_done)                                                                                   \
    X(SAVE_DONE, .keep = inbox_answer_kept)                                                                            \
    X(CHECKPOINT_DONE, .keep = inbox_answer_kept)                                                                      \
    X(RESTORE_DONE, .keep = inbox_answer_kept)                                                                         \
    X(MET, .take = NULL)                                                                                               \
    X(EVICTED, .keep = inbox_answer_kept)                                                                              \
    X(DEFINED, .take = definition_taken)                                                                               \
    X(DROPPED, .keep = inbox_answer_kept)                                                                              \
    X(ASSIGNED, .take = on_assigned)

static const struct inbox_row inbox_rows[MSG_TYPE_MAX] = {
#define X(id, ...) [MSG_##id] = {__VA_ARGS__},
    INBOX_LIST(X)
#undef X
};
static_assert((UINT64_C(0) INBOX_LIST(MESSAGE_BIT_OF_ANY)) == MESSAGES_FROM_SHARD,
              "each message that a shard sends has a row, and no other");

/* Hand a frame to the handler of its type. */
static void
inbox_dispatch(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta)
{
    const struct inbox_row *row = head->type < MSG_TYPE_MAX ? &inbox_rows[head->type] : NULL;

    if (row != NULL && row->take != NULL)
        row->take(c, l);
    else if (row != NULL && row->keep != NULL)
        row->keep(c, l, head, meta);
    else
        inbox_broke(c, l, "sent a message that only workers send");
}

/* l->msg is this frame's, and a payload that came with it is where it belongs. False when the link is gone. */
static bool
take_frame(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta, const void *payload)
{
    struct core_payload_dest place = {0};

    if (!l->decoded) {
        if (!inbox_decode(c, l, head, meta))
            return false;
        if (head->type == MSG_DATA && (!shard_link_up(l) || !inbox_data_begin(c, l, &place)))
            return false;
    }
    l->decoded = false;
    if (head->type == MSG_DATA && payload != NULL && l->reading != NULL)
        payload_parts_fill(&l->payload_parts, payload);
    return true;
}

void
shard_link_frame(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta,
                 const void *payload)
{
    if (!shard_link_up(l) && l->state != SHARD_LINK_GREETING)
        return;
    l->silent_ms = 0;
    if (!take_frame(c, l, head, meta, payload))
        return;
    if (l->state == SHARD_LINK_GREETING && head->type != MSG_WELCOME && head->type != MSG_ERROR) {
        inbox_broke(c, l, "did not begin with a welcome");
        return;
    }
    if (shard_link_up(l))
        l->failures = 0; /* more than a welcome: it works */
    inbox_dispatch(c, l, head, meta);
    shard_link_pump(c, l);
}
