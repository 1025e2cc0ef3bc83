/* The queue of actions: one array, in which the turn's own lie behind those that may be handed out. Acks lie in a
 * second array, chained by connection, and become frames at the end of the turn, or when their connection is closed. */
#include "server/core/turn/actions.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"
#include "server/core/turn/connection_idle.h"

#define LOG_TEXT_MAX       1024
#define ACTIONS_OF_FAILURE 16 /* besides the CLOSEs */

static void
action_finish(struct shard_action *a)
{
    free(a->bytes);
    free(a->text);
    free(a->job);
    shard_data_free(a->data);
    shard_save_free(a->save);
}

static bool
actions_grow(void **array, size_t *size, size_t len, size_t item)
{
    size_t more = *size == 0 ? 64 : *size * 2;
    void *bigger;

    if (len < *size)
        return true;
    if ((bigger = realloc(*array, more * item)) == NULL)
        return false;
    *array = bigger;
    *size = more;
    return true;
}

bool
actions_room(struct shard *s, uint64_t connections)
{
    struct actions *a = &s->actions;

    while (a->size < connections + ACTIONS_OF_FAILURE)
        if (!actions_grow((void **)&a->queue, &a->size, a->size, sizeof *a->queue))
            return false;
    return true;
}

/* Takes what the action holds, also when it fails. */
static bool
try_queue(struct shard *s, struct shard_action action)
{
    struct actions *a = &s->actions;

    if (!actions_grow((void **)&a->queue, &a->size, a->len, sizeof *a->queue)) {
        action_finish(&action);
        return false;
    }
    a->queue[a->len++] = action;
    return true;
}

static void
actions_queue(struct shard *s, struct shard_action action)
{
    if (!try_queue(s, action))
        turn_fail(s, PS_ERR_NOMEM);
}

/* ---- Frames ---- */

void
actions_send(struct shard *s, struct connection *c, enum msg_type type, uint64_t request,
             const ProtobufCMessage *message)
{
    struct shard_action action = {.kind = SHARD_SEND, .conn = c->id};

    if (c->state == CONN_CLOSING)
        return;
    c->turn = s->turn.number;
    action.bytes = wire_encode_new(type, request, message, 0, &action.len);
    if (action.bytes == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    s->actions.bytes += action.len;
    actions_queue(s, action);
    if (request != 0)
        connection_idle_answered(s, c);
}

void
actions_frame(struct shard *s, struct connection *c, uint8_t *bytes, size_t len)
{
    struct shard_action action = {.kind = SHARD_SEND, .conn = c->id, .bytes = bytes, .len = len};

    if (c->state == CONN_CLOSING) {
        free(bytes);
        return;
    }
    c->turn = s->turn.number;
    actions_queue(s, action);
}

void
actions_error(struct shard *s, struct connection *c, uint64_t request, enum ps_err code, const char *text)
{
    Psd__Error m = PSD__ERROR__INIT;

    m.code = (uint32_t)code;
    m.text = (char *)text;
    actions_send(s, c, MSG_ERROR, request, &m.base);
}

void
actions_data(struct shard *s, struct connection *c, struct shard_data *data)
{
    c->turn = s->turn.number;
    s->actions.bytes += shard_data_bytes(data);
    data->boot = s->boot;
    data->job_id = c->session != NULL ? c->session->job->id : 0;
    data->task = c->session != NULL ? c->session->task : 0;
    actions_queue(s, (struct shard_action){.kind = SHARD_DATA, .conn = c->id, .data = data});
    connection_idle_answered(s, c);
}

void
actions_close(struct shard *s, uint64_t conn)
{
    actions_queue(s, (struct shard_action){.kind = SHARD_CLOSE, .conn = conn});
}

void
actions_log(struct shard *s, enum shard_log_level level, const char *format, ...)
{
    char text[LOG_TEXT_MAX];
    char *copy;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if ((copy = strdup(text)) != NULL) /* else only this line is lost */
        actions_queue(s, (struct shard_action){.kind = SHARD_LOG, .level = level, .text = copy});
}

void
actions_draining(struct shard *s)
{
    actions_queue(s, (struct shard_action){.kind = SHARD_DRAIN_BEGUN});
}

void
actions_stopped(struct shard *s)
{
    actions_queue(s, (struct shard_action){.kind = SHARD_STOPPED});
}

bool
actions_save(struct shard *s, enum shard_action_kind kind, struct shard_save *save)
{
    return try_queue(s, (struct shard_action){.kind = kind, .save = save});
}

void
actions_redo(struct shard *s, uint64_t number)
{
    actions_queue(s, (struct shard_action){.kind = SHARD_REDO, .number = number});
}

void
actions_restore(struct shard *s, const struct connection *c, uint64_t request, const Psd__Restore *m)
{
    struct shard_action action = {.kind = SHARD_RESTORE_WANTED, .conn = c->id, .number = request, .check = m->check};

    for (size_t i = 0; i < MIN(m->n_verified, ARRAY_LEN(action.verified)); i++)
        action.verified[i] = m->verified[i];
    action.text = strdup(m->dir);
    action.job = strdup(m->job);
    if (action.text != NULL && action.job != NULL) {
        actions_queue(s, action);
    } else {
        action_finish(&action);
        turn_fail(s, PS_ERR_NOMEM);
    }
}

void
actions_event(struct shard *s, struct job *job, const struct connection *but, Psd__EventKind kind, uint32_t task,
              const char *text)
{
    Psd__Event m = PSD__EVENT__INIT;
    struct connection *c, *next;
    const struct session *x;

    m.kind = kind;
    m.task = task;
    m.text = (char *)text;
    if (job == NULL) {
        HASH_ITER (hh, s->connections, c, next)
            if (c != but && c->state != CONN_NEW)
                actions_send(s, c, MSG_EVENT, 0, &m.base);
        return;
    }
    SESSION_EACH (job, x)
        if (x->connection != NULL && x->connection != but)
            actions_send(s, x->connection, MSG_EVENT, 0, &m.base);
}

/* ---- Acks ---- */

static void
ack_finish(struct ack *ack)
{
    free(ack->codes);
    free(ack->text);
}

static bool
ack_init(struct ack *ack, uint64_t seq, enum ps_err code, const uint32_t *codes, uint32_t n, const char *text)
{
    *ack = (struct ack){.seq = seq, .code = (uint32_t)code};
    if (codes != NULL) {
        if ((ack->codes = malloc(n * sizeof *codes)) == NULL)
            return false;
        memcpy(ack->codes, codes, n * sizeof *codes);
        ack->codes_len = n;
    }
    if (text != NULL && (ack->text = strdup(text)) == NULL) {
        ack_finish(ack);
        return false;
    }
    return true;
}

void
actions_ack(struct shard *s, struct connection *c, uint64_t seq, enum ps_err code, const uint32_t *codes, uint32_t n,
            const char *text)
{
    struct actions *a = &s->actions;

    if (c == NULL || c->state == CONN_CLOSING)
        return;
    c->turn = s->turn.number;
    if (!actions_grow((void **)&a->acks, &a->acks_size, a->acks_len, sizeof *a->acks) ||
        !ack_init(&a->acks[a->acks_len], seq, code, codes, n, text)) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    a->acks_len++;
    if (c->acks_first == 0) {
        c->acks_first = (uint32_t)a->acks_len;
        c->acking_next = a->acking;
        a->acking = c;
    } else {
        a->acks[c->acks_last - 1].next = (uint32_t)a->acks_len;
    }
    c->acks_last = (uint32_t)a->acks_len;
}

/* Space for one frame of acks, made once. */
struct ack_frame {
    Psd__Ack message;
    uint64_t seq[ACTIONS_ACK_MAX];
    uint32_t code[ACTIONS_ACK_MAX];
    Psd__AckBlocks blocks[ACTIONS_ACK_MAX], *block_list[ACTIONS_ACK_MAX];
    Psd__Error errors[ACTIONS_ACK_MAX], *error_list[ACTIONS_ACK_MAX];
};

static void
frame_add_extra(struct ack_frame *f, const struct ack *ack, size_t *extra)
{
    Psd__Ack *m = &f->message;

    if (ack->codes != NULL) {
        Psd__AckBlocks *b = &f->blocks[m->n_blocks];

        psd__ack_blocks__init(b);
        b->seq = ack->seq;
        b->code = ack->codes;
        b->n_code = ack->codes_len;
        f->block_list[m->n_blocks++] = b;
        *extra += 16 + ack->codes_len;
    }
    if (ack->text != NULL) {
        Psd__Error *e = &f->errors[m->n_error];

        psd__error__init(e);
        e->code = ack->code;
        e->seq = ack->seq;
        e->text = ack->text;
        f->error_list[m->n_error++] = e;
        *extra += 32 + strlen(ack->text);
    }
}

/* Fill one frame from the chain at *at. Codes are left out while all are OK. */
static void
frame_fill(struct ack_frame *f, const struct ack *acks, uint32_t *at)
{
    Psd__Ack *m = &f->message;
    size_t extra = 0;
    bool odd = false;

    psd__ack__init(m);
    m->seq = f->seq;
    m->code = f->code;
    m->blocks = f->block_list;
    m->error = f->error_list;
    while (*at != 0 && m->n_seq < ACTIONS_ACK_MAX && extra < ACTIONS_ACK_EXTRA_MAX) {
        const struct ack *ack = &acks[*at - 1];

        f->seq[m->n_seq] = ack->seq;
        f->code[m->n_seq] = ack->code;
        m->n_seq++;
        odd = odd || ack->code != PS_OK;
        frame_add_extra(f, ack, &extra);
        *at = ack->next;
    }
    m->n_code = odd ? m->n_seq : 0;
}

void
actions_flush_acks(struct shard *s, struct connection *c)
{
    struct actions *a = &s->actions;
    uint32_t at = c->acks_first;
    uint64_t held_us;

    if (at == 0)
        return;
    held_us = c->acks_held_us;
    c->acks_first = c->acks_last = 0;
    c->acks_held_us = 0;
    LL_DELETE2(a->acking, c, acking_next);
    if (a->frame == NULL && (a->frame = malloc(sizeof *a->frame)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    while (at != 0) {
        frame_fill(a->frame, a->acks, &at);
        a->frame->message.held_us = held_us;
        if (s->config.shard == 0 && c->session != NULL) {
            a->frame->message.assigned = c->session->job->assigns.assigned;
            a->frame->message.given_up = c->session->job->assigns.given_up;
        }
        actions_send(s, c, MSG_ACK, 0, &a->frame->message.base);
    }
}

static void
acks_clear(struct actions *a)
{
    for (struct connection *c = a->acking; c != NULL; c = c->acking_next) {
        c->acks_first = c->acks_last = 0;
        c->acks_held_us = 0;
    }
    a->acking = NULL;
    for (size_t i = 0; i < a->acks_len; i++)
        ack_finish(&a->acks[i]);
    a->acks_len = 0;
}

/* ---- The end of a turn ---- */

void
actions_flush(struct shard *s)
{
    struct actions *a = &s->actions;

    while (a->acking != NULL)
        actions_flush_acks(s, a->acking);
    acks_clear(a);
}

void
actions_hand_out(struct shard *s)
{
    s->actions.ready = s->actions.len;
    s->actions.bytes = 0;
}

void
actions_drop(struct shard *s)
{
    struct actions *a = &s->actions;

    acks_clear(a);
    a->bytes = 0;
    while (a->len > a->ready)
        action_finish(&a->queue[--a->len]);
}

bool
actions_next(struct shard *s, struct shard_action *out)
{
    struct actions *a = &s->actions;

    if (a->first == a->ready)
        return false;
    *out = a->queue[a->first++];
    if (a->first == a->len)
        a->first = a->ready = a->len = 0;
    return true;
}

void
actions_finish(struct shard *s)
{
    struct actions *a = &s->actions;

    acks_clear(a);
    for (; a->first < a->len; a->first++)
        action_finish(&a->queue[a->first]);
    free(a->queue);
    free(a->acks);
    free(a->frame);
    *a = (struct actions){0};
}
