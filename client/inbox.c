/* What comes in on a link: a frame's metadata is decoded once, the payload of a DATA frame is sent straight to the user
 * buffers of the part that it answers, and the whole frame then ends parts.
 *
 * Whatever a shard says that cannot be true (an answer to what was not asked, a length that does not fit) is
 * PS_ERR_PROTOCOL and final: it would be said again. */
#include "client/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
broke_protocol(struct core *c, struct link *l, const char *what)
{
    struct ps_error e;

    core_say(c, l, &e, PS_ERR_PROTOCOL, "%s", what);
    core_fail(c, &e);
}

/* ---- The payload of DATA ---- */

/* Where the blocks that the payload holds go; *bytes: how long it must be. */
static enum ps_err
data_places(struct link *l, struct part *p, uint64_t *bytes)
{
    const Psd__Data *d = l->msg.u.data;
    struct core_op *op = p->op;
    struct walk walk = {op->vars, op->n, l->shard};
    struct cursor at = p->from;
    struct walk_block b;
    uint32_t i;

    *bytes = 0;
    l->places.n = 0;
    for (i = 0; i < p->blocks && cursor_next(&walk, &at, &b); i++) {
        if (p->kind == PART_PULL && p->versions.any && d->version[i] <= part_version(p, i))
            continue;
        if (PLANTED(PLACED_BY_ORDER))
            b.first = (at.nth - 1) * b.len;
        *bytes += b.len * sizeof(float);
        if (places_add(&l->places, op->out[b.var] + b.first, b.len * sizeof(float)) != PS_OK)
            return PS_ERR_NOMEM;
    }
    return PS_OK;
}

/* The part that a DATA frame answers; NULL: it broke the protocol, and the core has failed. */
static struct part *
data_part(struct core *c, struct link *l)
{
    struct part *p = requests_find(&l->requests, l->msg.request);
    bool pull = p != NULL && p->kind == PART_PULL;
    bool push = p != NULL && (p->kind == PART_PUSH || p->kind == PART_SKIP);

    if (!pull && !push && (p == NULL || p->kind != PART_GATE)) {
        broke_protocol(c, l, "sent data that was not asked for");
        return NULL;
    }
    if (p->given_up)
        return p;
    if ((push && (!p->op->want || l->msg.u.data->seq != p->seq)) || l->msg.u.data->n_version != p->blocks) {
        broke_protocol(c, l, "sent data that does not match what was asked for");
        return NULL;
    }
    return p;
}

/* Find the places of the payload of the DATA frame in l->msg. False when the link is no more. */
static bool
data_begin(struct core *c, struct link *l, struct core_place *place)
{
    struct part *p = data_part(c, l);
    struct ps_error e;
    uint64_t bytes;

    if (p == NULL)
        return false;
    if (p->given_up) {
        place->discard = true;
        return true;
    }
    if (data_places(l, p, &bytes) != PS_OK) {
        core_say(c, l, &e, PS_ERR_NOMEM, "no memory to receive");
        link_lost(c, l, &e);
        return false;
    }
    if (bytes != l->msg.payload_len) {
        broke_protocol(c, l, "sent data whose length does not fit its blocks");
        return false;
    }
    l->reading = p;
    place->parts = l->places.item;
    place->n = l->places.n;
    return true;
}

/* ---- Metadata ---- */

static bool
decode(struct core *c, struct link *l, const struct frame_head *head, const void *meta)
{
    struct ps_error e, why;

    arena_reset(&l->arena);
    if (wire_decode(head, meta, &l->arena, &l->msg, &why) == PS_OK)
        return true;
    if (why.code == PS_ERR_NOMEM) {
        core_say(c, l, &e, why.code, "no memory to receive");
        link_lost(c, l, &e);
        return false;
    }
    core_say(c, l, &e, PS_ERR_PROTOCOL, "sent a bad message: %.400s", why.text);
    core_fail(c, &e);
    return false;
}

void
link_meta(struct core *c, struct link *l, const struct frame_head *head, const void *meta, struct core_place *place)
{
    *place = (struct core_place){.discard = true};
    if (!link_up(l) && l->state != LINK_GREETING)
        return;
    l->silent_ms = 0;
    l->decoded = false;
    if (head->type != MSG_DATA) {
        place->discard = false;
        return;
    }
    if (!link_up(l)) {
        broke_protocol(c, l, "sent data before its welcome");
        return;
    }
    place->discard = false;
    if (decode(c, l, head, meta) && data_begin(c, l, place))
        l->decoded = true;
    else
        *place = (struct core_place){.discard = true};
}

/* ---- Messages ---- */

/* Its gradient is the caller's again, but the connection still reads from it: the connection must go. */
static void
answered_too_soon(struct core *c, struct link *l)
{
    struct ps_error e;

    core_say(c, l, &e, PS_ERR_PROTOCOL, "answered a push before it had all of it");
    link_lost(c, l, &e);
}

/* Also when it could not be asked: the push will hear the same. */
static void
open_gate(struct link *l, const struct part *p)
{
    struct part *push = window_find(&l->window, p->seq);

    if (push != NULL)
        push->gated = false;
}

/* Answered: its operation hears it, then it ends. error NULL: well. */
static void
part_answered(struct core *c, struct link *l, struct part *p, const struct ps_error *error)
{
    struct core_op *op = p->op;
    struct lane *lane = p->lane;
    bool too_soon = p->kind == PART_PUSH && p->state == PART_HANDED;

    l->pushes += p->counts;
    if (p->kind == PART_TICK && error == NULL)
        l->clock = MAX(l->clock, p->clock);
    if (p->kind == PART_GATE)
        open_gate(l, p);
    if (p->kind == PART_WHY && op != NULL) {
        op->whys--;
        op = NULL; /* it is not one of its parts */
    }
    part_end(c, l, p);
    if (op != NULL)
        op_answered(c, op, lane, error);
    if (too_soon)
        answered_too_soon(c, l);
}

static void
on_welcome(struct core *c, struct link *l)
{
    if (l->state != LINK_GREETING) {
        broke_protocol(c, l, "welcomed twice");
        return;
    }
    link_welcomed(c, l, l->msg.u.welcome);
}

/* What a shard says that a variable is, must be what the others said. The variable, or NULL with *e. */
static struct core_var *
attached_var(struct core *c, struct link *l, const struct part *p, struct ps_error *e)
{
    const Psd__Declare *d = l->msg.u.declared->declare;
    const char *name = p->var != NULL ? p->var->name : p->op->name;
    struct core_var *v;
    struct ps_error why;
    enum ps_err err;

    if (d == NULL || strcmp(d->name, name) != 0)
        core_say(c, l, e, PS_ERR_PROTOCOL, "did not say what variable '%.80s' is", name);
    else if ((err = variables_attach(&c->vars, d, &v, &why)) == PS_OK)
        return v;
    else
        core_say(c, l, e, err, "%s", why.text);
    return NULL;
}

static void
var_known(struct link *l, struct core_var *v)
{
    v->shard[l->shard].id = l->msg.u.declared->var;
    v->shard[l->shard].known = true;
}

static void
on_attached(struct core *c, struct link *l, struct part *p)
{
    struct core_op *op = p->op;
    struct core_var *v;
    struct ps_error e;

    if (p->given_up) {
        part_answered(c, l, p, NULL);
        return;
    }
    if ((v = attached_var(c, l, p, &e)) == NULL) {
        part_answered(c, l, p, &e);
        return;
    }
    var_known(l, v);
    e.code = PS_OK;
    if (p->var == NULL && op_attach_others(c, op, v, l->shard) != PS_OK)
        core_say(c, l, &e, PS_ERR_NOMEM, "no memory to attach to '%s'", v->name);
    part_answered(c, l, p, e.code != PS_OK ? &e : NULL);
    op_pump(c, op); /* the caller's: what is given up has no operation */
}

static void
on_restored(struct core *c, struct link *l, struct part *p)
{
    struct ps_error e;

    if (c->config.observer && attached_var(c, l, p, &e) == NULL) {
        core_fail(c, &e); /* it is another variable now */
        return;
    }
    var_known(l, p->var);
    part_answered(c, l, p, NULL);
    link_restored(c, l);
}

static void
on_declared(struct core *c, struct link *l)
{
    struct part *p = requests_find(&l->requests, l->msg.request);

    if (p != NULL && p->kind == PART_ATTACH) {
        on_attached(c, l, p);
    } else if (p != NULL && p->kind == PART_RESTORE) {
        on_restored(c, l, p);
    } else if (p != NULL && p->kind == PART_DECLARE) {
        if (!p->given_up)
            var_known(l, p->var);
        part_answered(c, l, p, NULL);
    } else {
        broke_protocol(c, l, "answered a declaration that was not made");
    }
}

/* Count and name what a push's blocks came to. *error is filled with the first that was not applied. */
static void
note_block_code(struct core *c, struct link *l, struct part *p, const struct walk_block *b, uint32_t code,
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
        core_say(c, l, error, (enum ps_err)code, "push of '%.80s' block %llu: %s", p->op->vars[b->var]->name,
                 (unsigned long long)b->block, ps_strerror((enum ps_err)code));
}

void
link_note_codes(struct core *c, struct link *l, struct part *p, const uint32_t *codes, uint32_t all,
                struct ps_error *error)
{
    struct walk walk = {p->op->vars, p->op->n, l->shard};
    struct cursor at = p->from;
    struct walk_block b;
    uint32_t i;

    error->code = PS_OK;
    if (codes == NULL && all == PS_OK)
        return;
    for (i = 0; i < p->blocks && cursor_next(&walk, &at, &b); i++)
        note_block_code(c, l, p, &b, codes != NULL ? codes[i] : all, error);
}

static void
note_data(struct core *c, struct link *l, struct part *p)
{
    const Psd__Data *d = l->msg.u.data;
    struct walk walk = {p->op->vars, p->op->n, l->shard};
    struct cursor at = p->from;
    struct walk_block b;
    uint32_t i;

    for (i = 0; i < p->blocks && cursor_next(&walk, &at, &b); i++) {
        if (p->kind != PART_PULL || !p->versions.any || d->version[i] > part_version(p, i))
            p->op->blocks_transferred++;
        var_see(p->op->vars[b.var], b.block, d->version[i]);
    }
    c->stats.bytes_pulled += l->msg.payload_len;
    l->slowest = MAX(l->slowest, d->clock);
}

static void
on_data(struct core *c, struct link *l)
{
    struct part *p = requests_find(&l->requests, l->msg.request);
    const Psd__Data *d = l->msg.u.data;
    struct ps_error error = {0};

    ps_assert(p != NULL); /* data_part() has looked */
    l->reading = NULL;
    if (p->given_up) {
        part_answered(c, l, p, NULL);
        return;
    }
    if (d->n_code > 0 && d->n_code != p->blocks) {
        broke_protocol(c, l, "sent data with codes for other blocks");
        return;
    }
    note_data(c, l, p);
    if (p->kind == PART_PUSH) {
        c->stats.bytes_pushed += p->bytes;
        link_note_codes(c, l, p, d->n_code > 0 ? d->code : NULL, PS_OK, &error);
    }
    part_answered(c, l, p, error.code != PS_OK ? &error : NULL);
}

/* ---- Acks ---- */

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
ack_push(struct core *c, struct link *l, struct part *p, uint32_t code, struct ps_error *error)
{
    const Psd__AckBlocks *blocks = ack_blocks(l->msg.u.ack, p->seq);

    if (blocks != NULL && blocks->n_code != p->blocks) {
        broke_protocol(c, l, "acknowledged other blocks than were pushed");
        return false;
    }
    if (p->op->want && code == PS_OK && blocks == NULL) {
        broke_protocol(c, l, "acknowledged a push that wanted values without them");
        return false;
    }
    c->stats.bytes_pushed += p->bytes;
    link_note_codes(c, l, p, blocks != NULL ? blocks->code : NULL, code, error);
    return true;
}

static void
ack_one(struct core *c, struct link *l, uint64_t seq, uint32_t code)
{
    struct part *p = window_find(&l->window, seq);
    const Psd__Error *said = ack_error(l->msg.u.ack, seq);
    struct ps_error error = {0};

    if (p == NULL)
        return; /* acknowledged before: a skip that filled a hole, say */
    if (p->kind == PART_PUSH && !ack_push(c, l, p, code, &error))
        return;
    /* A session that was made anew starts at the slowest clock, which may be past this tick's. */
    if (p->kind == PART_TICK && code == PS_ERR_CLOCK && p->clock <= l->floor)
        code = PS_OK;
    if (code != PS_OK && error.code == PS_OK)
        core_say(c, l, &error, (enum ps_err)code, "%s", ps_strerror((enum ps_err)code));
    if (error.code != PS_OK && said != NULL && said->text[0] != '\0')
        core_say(c, l, &error, error.code, "%s", said->text);
    part_answered(c, l, p, error.code != PS_OK ? &error : NULL);
}

static void
on_ack(struct core *c, struct link *l)
{
    const Psd__Ack *a = l->msg.u.ack;
    uint64_t epoch = l->epoch;
    size_t i;

    for (i = 0; i < a->n_seq && l->epoch == epoch; i++) {
        if (a->seq[i] == 0 || a->seq[i] >= l->window.next) {
            broke_protocol(c, l, "acknowledged what was not sent");
            return;
        }
        ack_one(c, l, a->seq[i], a->n_code > 0 ? a->code[i] : PS_OK);
    }
}

/* ---- Errors and events ---- */

static void
on_error(struct core *c, struct link *l)
{
    const Psd__Error *m = l->msg.u.error;
    enum ps_err code = m->code > PS_OK && m->code < PS_ERR_COUNT ? (enum ps_err)m->code : PS_ERR_INTERNAL;
    bool restore;
    struct ps_error e;
    struct part *p;

    core_say(c, l, &e, code, "%s", m->text[0] != '\0' ? m->text : ps_strerror(code));
    if (l->state == LINK_GREETING) {
        link_refused(c, l, &e);
        return;
    }
    if (l->msg.request == 0 && link_error_final(code)) {
        core_fail(c, &e);
        return;
    }
    if (l->msg.request == 0 || code == PS_ERR_DRAINING) {
        link_lost(c, l, &e);
        return;
    }
    if ((p = requests_find(&l->requests, l->msg.request)) == NULL)
        return; /* to a CANCEL that came too late */
    restore = p->kind == PART_RESTORE;
    if (restore && !link_error_final(code)) {
        link_restore_later(c, l, p, &e);
        return;
    }
    part_answered(c, l, p, &e);
    if (restore)
        core_fail(c, &e); /* the variables that operations work on are not there any more */
}

static void
on_event(struct core *c, struct link *l)
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
        core_say(c, l, &e, codes[m->kind], "%s", m->text[0] != '\0' ? m->text : texts[m->kind]);
    else if (m->text[0] != '\0')
        core_say(c, l, &e, codes[m->kind], "%s", m->text);
    else
        core_say(c, l, &e, codes[m->kind], "worker %u %s", m->task, texts[m->kind]);
    core_emit_event(c, &e);
}

/* ---- Queries ---- */

/* "worker 2, worker 3 until clock 7" */
static void
describe_blocked(const Psd__BlockedReport *b, char *out, size_t size)
{
    size_t at = 0, i;

    at += (size_t)snprintf(out, size, "it waits for");
    for (i = 0; i < b->n_on_task && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s worker %u", i > 0 ? "," : "", b->on_task[i]);
    if (b->on_clock > 0 && at < size)
        snprintf(out + at, size - at, " until clock %llu", (unsigned long long)b->on_clock);
}

/* Whether a row of the report is about this operation. */
static bool
blocked_matches(const struct core *c, const struct core_op *op, const Psd__BlockedReport *b)
{
    static const char *const word[] = {[OP_PULL] = "pull", [OP_PUSH] = "push", [OP_BARRIER] = "barrier"};

    return b->task == c->config.task && strcmp(b->job, c->config.job) == 0 && b->n_on_task > 0 &&
           op->kind < ARRAY_LEN(word) && word[op->kind] != NULL &&
           strncmp(b->what, word[op->kind], strlen(word[op->kind])) == 0;
}

static void
on_why(struct core *c, struct core_op *op, const Psd__Report *r)
{
    size_t i;

    for (i = 0; i < r->n_blocked; i++) {
        if (!blocked_matches(c, op, r->blocked[i]))
            continue;
        describe_blocked(r->blocked[i], op->why, sizeof(op->why));
        return;
    }
}

/* The answer as it came is the operation's result. */
static void
keep_answer(struct core *c, struct link *l, struct part *p, const struct frame_head *head, const void *meta)
{
    struct ps_error e;

    if (!p->given_up) {
        p->op->answer_len = head->meta_len;
        if ((p->op->answer = malloc(head->meta_len + 1)) == NULL) {
            core_say(c, l, &e, PS_ERR_NOMEM, "no memory for its answer");
            part_answered(c, l, p, &e);
            return;
        }
        memcpy(p->op->answer, meta, head->meta_len);
    }
    part_answered(c, l, p, NULL);
}

static void
on_told(struct core *c, struct link *l, const struct frame_head *head, const void *meta)
{
    static const enum msg_type answer_to[MSG_TYPE_MAX] = {[MSG_QUERY] = MSG_REPORT,
                                                          [MSG_SAVE] = MSG_SAVE_DONE,
                                                          [MSG_CHECKPOINT] = MSG_CHECKPOINT_DONE,
                                                          [MSG_RESTORE] = MSG_RESTORE_DONE};
    struct part *p = requests_find(&l->requests, l->msg.request);

    if (p == NULL || p->kind != PART_ASK || (!p->given_up && answer_to[p->op->ask_type] != head->type))
        broke_protocol(c, l, "answered what it was not asked");
    else
        keep_answer(c, l, p, head, meta);
}

static void
on_report(struct core *c, struct link *l, const struct frame_head *head, const void *meta)
{
    struct part *p = requests_find(&l->requests, l->msg.request);

    if (p != NULL && p->kind == PART_ASK) {
        on_told(c, l, head, meta);
    } else if (p == NULL || (p->kind != PART_QUERY && p->kind != PART_WHY)) {
        broke_protocol(c, l, "answered a query that was not made");
    } else if (p->kind == PART_QUERY) {
        keep_answer(c, l, p, head, meta);
    } else {
        if (p->op != NULL)
            on_why(c, p->op, l->msg.u.report);
        part_answered(c, l, p, NULL);
    }
}

static void
on_pong(struct core *c, struct link *l)
{
    struct part *p = requests_find(&l->requests, l->msg.request);

    if (p == NULL || (p->kind != PART_PING && p->kind != PART_ALIVE)) {
        broke_protocol(c, l, "answered a ping that was not sent");
        return;
    }
    l->probed = false;
    part_answered(c, l, p, NULL);
}

static void
on_set_done(struct core *c, struct link *l)
{
    struct part *p = requests_find(&l->requests, l->msg.request);

    if (p == NULL || p->kind != PART_SET) {
        broke_protocol(c, l, "answered a set that was not asked for");
        return;
    }
    if (!p->given_up) {
        p->op->variables += l->msg.u.set_done->variables;
        p->lane->changed = l->msg.u.set_done->changed;
    }
    part_answered(c, l, p, NULL);
}

/* ---- Frames ---- */

typedef void (*on_message)(struct core *c, struct link *l);

static const on_message handlers[MSG_TYPE_MAX] = {
    [MSG_WELCOME] = on_welcome, [MSG_DECLARED] = on_declared, [MSG_DATA] = on_data,   [MSG_ACK] = on_ack,
    [MSG_PONG] = on_pong,       [MSG_ERROR] = on_error,       [MSG_EVENT] = on_event, [MSG_SET_DONE] = on_set_done,
};

/* l->msg is this frame's, and a payload that came with it is where it belongs. False when the link is no more. */
static bool
take_frame(struct core *c, struct link *l, const struct frame_head *head, const void *meta, const void *payload)
{
    struct core_place place = {0};

    if (!l->decoded) {
        if (!decode(c, l, head, meta))
            return false;
        if (head->type == MSG_DATA && (!link_up(l) || !data_begin(c, l, &place)))
            return false;
    }
    l->decoded = false;
    if (head->type == MSG_DATA && payload != NULL && l->reading != NULL)
        places_fill(&l->places, payload);
    return true;
}

void
link_frame(struct core *c, struct link *l, const struct frame_head *head, const void *meta, const void *payload)
{
    if (!link_up(l) && l->state != LINK_GREETING)
        return;
    l->silent_ms = 0;
    if (!take_frame(c, l, head, meta, payload))
        return;
    if (l->state == LINK_GREETING && head->type != MSG_WELCOME && head->type != MSG_ERROR) {
        broke_protocol(c, l, "did not begin with a welcome");
        return;
    }
    if (link_up(l))
        l->failures = 0; /* more than a welcome: it works */
    if (head->type == MSG_REPORT)
        on_report(c, l, head, meta);
    else if (head->type == MSG_SAVE_DONE || head->type == MSG_CHECKPOINT_DONE || head->type == MSG_RESTORE_DONE)
        on_told(c, l, head, meta);
    else if (head->type < MSG_TYPE_MAX && handlers[head->type] != NULL)
        handlers[head->type](c, l);
    else
        broke_protocol(c, l, "sent a message that only workers send");
    link_pump(c, l);
}
