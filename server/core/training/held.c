/* One list over all connections, in order of arrival; a connection counts its own, so that one that holds none costs
 * nothing when it goes. */
#include "server/core/training/held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"

struct held {
    struct held *prev, *next;
    uint64_t conn;
    uint64_t until; /* HELD_RECORD: not known yet */
    uint64_t seq;
    uint64_t since_ms, since_ns;
    uint32_t task;
    uint64_t clock;
    struct shard_data *data; /* or an ack: */
    enum ps_err code;
    uint32_t *codes;
    uint32_t codes_len;
    char *text;
};

static void
held_free(struct held *h)
{
    if (h == NULL)
        return;
    shard_data_free(h->data);
    free(h->codes);
    free(h->text);
    free(h);
}

/* Who came before it goes out before it: behind what waits for a record that is not written yet, so does this. */
static uint64_t
behind_the_newest(const struct shard *s, uint64_t until)
{
    return s->held != NULL && s->held->prev->until == HELD_RECORD ? HELD_RECORD : until;
}

static struct held *
held_new(struct shard *s, struct connection *c, uint64_t until, uint64_t seq)
{
    struct held *h = calloc(1, sizeof *h);

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
append(struct shard *s, struct connection *c, struct held *h)
{
    DL_APPEND(s->held, h);
    c->held_len++;
}

static void
not_durable(struct shard *s, struct connection *c, uint64_t seq, const struct ps_error *why)
{
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "%s: %.400s", ps_strerror(PS_ERR_NOT_DURABLE), why->text);
    actions_ack(s, c, seq, PS_ERR_NOT_DURABLE, NULL, 0, text);
}

void
held_hold_ack(struct shard *s, struct connection *c, uint64_t until, uint64_t seq, enum ps_err code,
              const uint32_t *codes, uint32_t n, const char *text)
{
    struct held *h;

    if (c == NULL || c->state == CONN_CLOSING)
        return;
    if (redo_failed(s)) {
        not_durable(s, c, seq, &s->redo.failure);
        return;
    }
    if ((h = held_new(s, c, until, seq)) == NULL)
        return;
    h->code = code;
    if ((codes != NULL && (h->codes = malloc(n * sizeof *codes)) == NULL) ||
        (text != NULL && (h->text = strdup(text)) == NULL)) {
        held_free(h);
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    if (codes != NULL)
        memcpy(h->codes, codes, n * sizeof *codes);
    h->codes_len = n;
    append(s, c, h);
}

void
held_hold_data(struct shard *s, struct connection *c, uint64_t until, struct shard_data *data)
{
    struct held *h;

    if (redo_failed(s)) {
        not_durable(s, c, data->seq, &s->redo.failure);
        shard_data_free(data);
        return;
    }
    if ((h = held_new(s, c, until, data->seq)) == NULL) {
        shard_data_free(data);
        return;
    }
    h->data = data;
    append(s, c, h);
}

bool
held_full(const struct connection *c)
{
    return c->held_len >= SHARD_UNRESOLVED_MAX;
}

void
held_recorded(struct shard *s, uint64_t until)
{
    struct held *h = s->held != NULL ? s->held->prev : NULL; /* the newest: those of this record come last */

    for (; h != NULL && h->until == HELD_RECORD; h = h->prev) {
        h->until = until;
        if (h == s->held)
            return;
    }
}

static void
unlist(struct shard *s, const struct connection *c, struct held *h)
{
    (void)traffic_waited(s, c != NULL ? c->session : NULL, WAIT_DISK, h->since_ms);
    (void)spans_held(s, TIMELINE_HELD_DISK, h->since_ns, h->task, h->clock);
    DL_DELETE(s->held, h);
}

/* Take it out of the list; its connection, or NULL. */
static struct connection *
take(struct shard *s, struct held *h)
{
    struct connection *c = connection_find(s, h->conn);

    unlist(s, c, h);
    if (c != NULL)
        c->held_len--;
    return c;
}

static void
send(struct shard *s, struct connection *c, struct held *h)
{
    if (c == NULL || c->state == CONN_CLOSING)
        return;
    if (h->data != NULL) {
        actions_data(s, c, h->data);
        h->data = NULL;
    } else {
        actions_ack(s, c, h->seq, h->code, h->codes, h->codes_len, h->text);
    }
}

void
held_release(struct shard *s, uint64_t durable)
{
    struct held *h;

    while ((h = s->held) != NULL && h->until <= durable) {
        send(s, take(s, h), h);
        held_free(h);
    }
}

void
held_fail(struct shard *s, const struct ps_error *why)
{
    struct held *h;

    while ((h = s->held) != NULL) {
        struct connection *c = take(s, h);

        not_durable(s, c, h->seq, why);
        held_free(h);
    }
}

void
held_forget(struct shard *s, struct connection *c)
{
    struct held *h, *next;

    if (c->held_len == 0)
        return;
    DL_FOREACH_SAFE (s->held, h, next)
        if (h->conn == c->id) {
            unlist(s, c, h);
            held_free(h);
        }
    c->held_len = 0;
}

bool
held_each(const struct shard *s, held_visit visit, void *arg)
{
    const struct held *h;

    DL_FOREACH (s->held, h) {
        const struct connection *c = connection_find(s, h->conn);

        if (c != NULL && !visit(arg, c, h->since_ms))
            return false;
    }
    return true;
}

void
held_finish(struct shard *s)
{
    struct held *h, *next;

    DL_FOREACH_SAFE (s->held, h, next)
        held_free(h);
    s->held = NULL;
}
