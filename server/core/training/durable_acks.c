/* One list over all connections, in order of arrival; a connection counts its own, so that one that holds none costs
 * nothing when it goes. */
#include "server/core/training/durable_acks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"

struct durable_ack {
    struct durable_ack *prev, *next;
    uint64_t conn;
    uint64_t until; /* DURABLE_ACKS_RECORD: not known yet */
    uint64_t seq;
    uint64_t since_ms, since_ns;
    uint32_t task;
    uint64_t clock;
    struct shard_data *data; /* or an ack: */
    enum ps_err code;
    uint32_t *codes;
    uint32_t codes_len;
    char *text;
    uint64_t request; /* or the answer to this request, as a frame: */
    uint8_t *frame;
    size_t frame_len;
};

static void
durable_ack_free(struct durable_ack *h)
{
    if (h == NULL)
        return;
    shard_data_free(h->data);
    free(h->frame);
    free(h->codes);
    free(h->text);
    free(h);
}

/* Answers go out in order of arrival: behind one that waits for a record that is not written yet, this one waits for
 * it, too. */
static uint64_t
behind_the_newest(const struct shard *s, uint64_t until)
{
    return s->durable_acks != NULL && s->durable_acks->prev->until == DURABLE_ACKS_RECORD ? DURABLE_ACKS_RECORD : until;
}

static struct durable_ack *
durable_ack_new(struct shard *s, struct connection *c, uint64_t until, uint64_t seq)
{
    struct durable_ack *h = calloc(1, sizeof *h);

    c->turn = s->turn.number;
    if (h == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    h->conn = c->id;
    h->until = behind_the_newest(s, until);
    h->seq = seq;
    h->since_ms = s->now_ms;
    h->since_ns = s->now_ns;
    h->task = c->session != NULL ? c->session->task : TIMELINE_NOBODY;
    h->clock = c->session != NULL ? c->session->clock : 0;
    return h;
}

static void
durable_acks_append(struct shard *s, struct connection *c, struct durable_ack *h)
{
    DL_APPEND(s->durable_acks, h);
    c->durable_acks_len++;
}

/* seq: of a sequenced message; else the request. */
static void
not_durable(struct shard *s, struct connection *c, uint64_t seq, uint64_t request, const struct ps_error *why)
{
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "%s: %.400s", ps_strerror(PS_ERR_NOT_DURABLE), why->text);
    if (request == 0)
        actions_ack(s, c, seq, PS_ERR_NOT_DURABLE, NULL, 0, text);
    else if (c != NULL)
        actions_error(s, c, request, PS_ERR_NOT_DURABLE, text);
}

void
durable_acks_hold(struct shard *s, struct connection *c, uint64_t until, uint64_t seq, enum ps_err code,
                  const uint32_t *codes, uint32_t n, const char *text)
{
    struct durable_ack *h;

    if (c == NULL || c->state == CONN_CLOSING)
        return;
    if (redo_failed(s)) {
        not_durable(s, c, seq, 0, &s->redo.failure);
        return;
    }
    if ((h = durable_ack_new(s, c, until, seq)) == NULL)
        return;
    h->code = code;
    if ((codes != NULL && (h->codes = malloc(n * sizeof *codes)) == NULL) ||
        (text != NULL && (h->text = strdup(text)) == NULL)) {
        durable_ack_free(h);
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    if (codes != NULL)
        memcpy(h->codes, codes, n * sizeof *codes);
    h->codes_len = n;
    durable_acks_append(s, c, h);
}

void
durable_acks_hold_data(struct shard *s, struct connection *c, uint64_t until, struct shard_data *data)
{
    struct durable_ack *h;

    if (redo_failed(s)) {
        not_durable(s, c, data->seq, 0, &s->redo.failure);
        shard_data_free(data);
        return;
    }
    if ((h = durable_ack_new(s, c, until, data->seq)) == NULL) {
        shard_data_free(data);
        return;
    }
    h->data = data;
    durable_acks_append(s, c, h);
}

void
durable_acks_hold_message(struct shard *s, struct connection *c, uint64_t until, enum msg_type type, uint64_t request,
                          const ProtobufCMessage *message)
{
    struct durable_ack *h;

    if (c->state == CONN_CLOSING)
        return;
    if (redo_failed(s)) {
        not_durable(s, c, 0, request, &s->redo.failure);
        return;
    }
    if ((h = durable_ack_new(s, c, until, 0)) == NULL)
        return;
    h->request = request;
    if ((h->frame = wire_encode_new(type, request, message, 0, &h->frame_len)) == NULL) {
        durable_ack_free(h);
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    durable_acks_append(s, c, h);
}

bool
durable_acks_full(const struct connection *c)
{
    return c->durable_acks_len >= SHARD_UNRESOLVED_MAX;
}

void
durable_acks_recorded(struct shard *s, uint64_t until)
{
    struct durable_ack *h =
        s->durable_acks != NULL ? s->durable_acks->prev : NULL; /* the newest: those of this record come last */

    for (; h != NULL && h->until == DURABLE_ACKS_RECORD; h = h->prev) {
        h->until = until;
        if (h == s->durable_acks)
            return;
    }
}

static void
durable_acks_unlist(struct shard *s, const struct connection *c, struct durable_ack *h)
{
    (void)traffic_waited(s, c != NULL ? c->session : NULL, WAIT_DISK, h->since_ms);
    (void)shard_trace_held(s, TIMELINE_HELD_DISK, h->since_ns, h->task, h->clock);
    DL_DELETE(s->durable_acks, h);
}

/* Take it out of the list; its connection, or NULL. */
static struct connection *
durable_acks_unlink(struct shard *s, struct durable_ack *h)
{
    struct connection *c = connection_find(s, h->conn);

    durable_acks_unlist(s, c, h);
    if (c != NULL)
        c->durable_acks_len--;
    return c;
}

static void
durable_acks_answer(struct shard *s, struct connection *c, struct durable_ack *h)
{
    if (c == NULL || c->state == CONN_CLOSING)
        return;
    if (h->data != NULL) {
        actions_data(s, c, h->data);
        h->data = NULL;
    } else if (h->frame != NULL) {
        actions_frame(s, c, h->frame, h->frame_len);
        h->frame = NULL;
    } else {
        actions_ack(s, c, h->seq, h->code, h->codes, h->codes_len, h->text);
    }
}

void
durable_acks_release(struct shard *s, uint64_t durable)
{
    struct durable_ack *h;

    while ((h = s->durable_acks) != NULL && h->until <= durable) {
        durable_acks_answer(s, durable_acks_unlink(s, h), h);
        durable_ack_free(h);
    }
}

void
durable_acks_fail(struct shard *s, const struct ps_error *why)
{
    struct durable_ack *h;

    while ((h = s->durable_acks) != NULL) {
        struct connection *c = durable_acks_unlink(s, h);

        not_durable(s, c, h->seq, h->request, why);
        durable_ack_free(h);
    }
}

void
durable_acks_forget(struct shard *s, struct connection *c)
{
    struct durable_ack *h, *next;

    if (c->durable_acks_len == 0)
        return;
    DL_FOREACH_SAFE (s->durable_acks, h, next)
        if (h->conn == c->id) {
            durable_acks_unlist(s, c, h);
            durable_ack_free(h);
        }
    c->durable_acks_len = 0;
}

bool
durable_acks_each(const struct shard *s, durable_acks_visit visit, void *arg)
{
    const struct durable_ack *h;

    DL_FOREACH (s->durable_acks, h) {
        const struct connection *c = connection_find(s, h->conn);

        if (c != NULL && !visit(arg, c, h->since_ms))
            return false;
    }
    return true;
}

void
durable_acks_finish(struct shard *s)
{
    struct durable_ack *h, *next;

    DL_FOREACH_SAFE (s->durable_acks, h, next)
        durable_ack_free(h);
    s->durable_acks = NULL;
}
