/* Actions performed, buffers lent and taken away. */
#include "tests/fuzz/client_world.h"

#include <stdlib.h>
#include <string.h>

const struct world_definition client_world_definitions[WORLD_VARS] = {
    {4, "sgd"}, {5000, "adam"}, {40000, "sgd"}, {1009, "adam"}};

/* ---- Frames that the core sends ---- */

static void
client_world_touch(const void *data, size_t len)
{
    const volatile uint8_t *bytes = data;

    for (size_t i = 0; i < len; i += 64)
        (void)bytes[i];
    if (len > 0)
        (void)bytes[len - 1];
}

/* Head, metadata and payload are there. */
static void
read_send(const struct core_send *send)
{
    size_t len = 0;

    client_world_touch(send->head, send->head_len);
    for (size_t i = 0; i < send->parts_len; i++) {
        client_world_touch(send->parts[i].data, send->parts[i].len);
        len += send->parts[i].len;
    }
    ps_assert(len == send->payload_len);
}

static void
client_world_receive(struct client_world *w, struct world_link *l, const struct core_send *send)
{
    struct client_received *h;
    struct wire_msg msg;
    struct ps_error e;

    if (l->heard_len == WORLD_HEARD) {
        free(l->heard[0].meta);
        memmove(l->heard, l->heard + 1, (WORLD_HEARD - 1) * sizeof l->heard[0]);
        l->heard_len--;
    }
    h = &l->heard[l->heard_len++];
    ps_assert(frame_head_decode(send->head, &h->head, &e) == PS_OK && h->head.payload_len == send->payload_len);
    ps_assert(send->head_len == FRAME_HEAD_SIZE + h->head.meta_len + frame_pad(h->head.meta_len));
    h->meta = malloc(h->head.meta_len + 1);
    ps_assert(h->meta != NULL);
    memcpy(h->meta, send->head + FRAME_HEAD_SIZE, h->head.meta_len);
    arena_reset(&w->arena);
    ps_assert(wire_decode(&h->head, h->meta, &w->arena, &msg, &e) == PS_OK);
}

static void
send_frame(struct client_world *w, uint32_t shard, struct core_send *send)
{
    struct sending **at = &w->link[shard].sending, *s = malloc(sizeof *s);

    ps_assert(s != NULL && w->link[shard].connected);
    read_send(send);
    client_world_receive(w, &w->link[shard], send);
    *s = (struct sending){.send = send};
    while (*at != NULL)
        at = &(*at)->next;
    *at = s;
}

/* The oldest is reported as sent; bytes of a connection that is gone are not looked at. */
static void
tell_back(struct client_world *w, uint32_t shard, enum ps_err result)
{
    struct world_link *l = &w->link[shard];
    struct sending *s = l->sending;

    l->sending = s->next;
    if (s->lost)
        result = PS_ERR_CLOSED;
    else
        read_send(s->send);
    core_sent(w->core, s->send, result);
    free(s);
}

void
client_world_sent(struct client_world *w, uint32_t shard, enum ps_err result)
{
    if (w->link[shard].sending == NULL)
        return;
    tell_back(w, shard, result);
    client_world_perform(w);
}

/* ---- Connections ---- */

static void
end_reading(struct world_link *l)
{
    free(l->meta);
    l->meta = NULL;
    l->reading = l->discarded = false;
}

static void
end_connection(struct world_link *l)
{
    l->open = l->connected = false;
    for (struct sending *s = l->sending; s != NULL; s = s->next)
        s->lost = true;
    while (l->heard_len > 0)
        free(l->heard[--l->heard_len].meta);
    end_reading(l);
}

void
client_world_connect(struct client_world *w, uint32_t shard, bool succeeds)
{
    struct world_link *l = &w->link[shard];

    if (!l->open || l->connected)
        return;
    if (!succeeds) {
        client_world_lose(w, shard, PS_ERR_UNREACHABLE);
        return;
    }
    l->connected = true;
    core_connected(w->core, shard, w->now_ms);
    client_world_perform(w);
}

void
client_world_lose(struct client_world *w, uint32_t shard, enum ps_err why)
{
    struct ps_error e;

    if (!w->link[shard].open)
        return;
    ps_fail(&e, why, "gone");
    end_connection(&w->link[shard]);
    core_disconnected(w->core, shard, &e, w->now_ms);
    client_world_perform(w);
}

/* ---- Frames that the core gets ---- */

/* It lies in the destination of an operation that still waits for it. */
static bool
is_lent(const struct client_world *w, const struct frame_part *part)
{
    const float *from = part->data, *to = from + part->len / sizeof *from;

    for (int i = 0; i < WORLD_OPS; i++)
        for (size_t k = 0; w->op[i].op != NULL && !core_op_done(w->op[i].op) && k < w->op[i].n; k++)
            if (w->op[i].out[k] != NULL && from >= w->op[i].out[k] && to <= w->op[i].out[k] + w->op[i].len[k])
                return true;
    return false;
}

static void
check_place(const struct client_world *w, const struct world_link *l)
{
    size_t len = 0;

    for (size_t i = 0; i < l->place.n; i++) {
        ps_assert(is_lent(w, &l->place.parts[i]));
        len += l->place.parts[i].len;
    }
    ps_assert(l->place.n == 0 || (!l->place.discard && len == l->head.payload_len));
}

void
client_world_begin(struct client_world *w, uint32_t shard, const struct frame_head *head, uint8_t *meta)
{
    struct world_link *l = &w->link[shard];

    if (l->reading || !l->connected) {
        free(meta);
        return;
    }
    l->head = *head;
    l->meta = meta;
    l->reading = true;
    l->place = (struct core_payload_dest){0};
    if (head->payload_len == 0) {
        client_world_end_frame(w, shard);
        return;
    }
    core_meta(w->core, shard, &l->head, l->meta, &l->place);
    client_world_perform(w);
    if (l->reading && !l->discarded)
        check_place(w, l);
}

/* The contents of the bytes do not matter to the core. */
static void
client_world_fill(const struct client_world *w, const struct world_link *l)
{
    for (size_t i = 0; i < l->place.n; i++) {
        ps_assert(is_lent(w, &l->place.parts[i]));
        memset(l->place.parts[i].data, 1, l->place.parts[i].len);
    }
}

void
client_world_end_frame(struct client_world *w, uint32_t shard)
{
    struct world_link *l = &w->link[shard];
    bool elsewhere = l->head.payload_len == 0 || l->discarded || l->place.discard || l->place.n > 0;
    struct frame_head head = l->head;
    uint8_t *payload = NULL, *meta = l->meta;

    if (!l->reading)
        return;
    if (!l->discarded)
        client_world_fill(w, l);
    if (!elsewhere) {
        payload = calloc(1, head.payload_len);
        ps_assert(payload != NULL);
    }
    l->meta = NULL;
    end_reading(l);
    core_frame(w->core, shard, &head, meta, payload, w->now_ms);
    free(payload);
    free(meta);
    client_world_perform(w);
}

/* ---- Actions ---- */

static void
client_world_do(struct client_world *w, const struct core_action *a)
{
    struct world_link *l = &w->link[a->shard];

    switch (a->kind) {
    case CORE_CONNECT:
        ps_assert(!l->open);
        l->open = true;
        break;
    case CORE_DISCONNECT:
        ps_assert(l->open);
        end_connection(l);
        break;
    case CORE_FINISH:
        ps_assert(l->open);
        while (l->sending != NULL)
            tell_back(w, a->shard, PS_OK);
        end_connection(l);
        break;
    case CORE_SEND:
        send_frame(w, a->shard, a->send);
        if (!w->hold)
            tell_back(w, a->shard, PS_OK);
        break;
    case CORE_DISCARD:
        l->discarded = true;
        break;
    case CORE_EVENT:
        ps_assert(a->error->text[0] != '\0');
        break;
    }
}

static void
take_buffers(struct world_op *o)
{
    for (size_t i = 0; i < o->n; i++) {
        free(o->grads[i]);
        free(o->out[i]);
        o->grads[i] = o->out[i] = NULL;
    }
}

static void
client_world_attached(struct client_world *w, struct world_op *o)
{
    struct world_var *v = &w->var[o->attaches - 1];

    v->var = core_op_variable(o->op);
    v->elements = core_var_elements(v->var);
    v->layout = v->var->layout;
    v->ready = true;
    o->attaches = 0;
}

void
client_world_perform(struct client_world *w)
{
    struct core_action a;

    while (core_next_action(w->core, &a))
        client_world_do(w, &a);
    for (int i = 0; i < WORLD_OPS; i++) {
        struct world_op *o = &w->op[i];
        struct ps_error e = {0};

        if (o->op == NULL || !core_op_done(o->op))
            continue;
        take_buffers(o);
        ps_assert(core_op_result(o->op, &e) == e.code && (e.code == PS_OK || e.text[0] != '\0'));
        if (o->declares != 0 && e.code == PS_OK)
            w->var[o->declares - 1].ready = true;
        if (o->attaches != 0 && e.code == PS_OK)
            client_world_attached(w, o);
    }
}

void
client_world_free_op(struct client_world *w, struct world_op *o)
{
    core_op_free(w->core, o->op);
    client_world_perform(w); /* if it was not done it is cancelled: then its buffers are free */
    take_buffers(o);
    *o = (struct world_op){0};
    client_world_perform(w);
}

/* ---- Life ---- */

void
client_world_start(struct client_world *w, const struct core_config *config)
{
    struct ps_error e;

    *w = (struct client_world){.now_ms = 1000};
    ps_assert(core_new(config, w->now_ms, &w->core, &e) == PS_OK);
    client_world_perform(w);
}

void
client_world_end(struct client_world *w)
{
    core_goodbye(w->core);
    client_world_perform(w);
    for (uint32_t shard = 0; shard < WORLD_SHARDS; shard++) {
        ps_assert(!w->link[shard].open);
        while (w->link[shard].sending != NULL)
            tell_back(w, shard, PS_ERR_CLOSED);
    }
    for (int i = 0; i < WORLD_OPS; i++)
        if (w->op[i].op != NULL) {
            ps_assert(core_op_done(w->op[i].op));
            client_world_free_op(w, &w->op[i]);
        }
    core_free(w->core);
    arena_finish(&w->arena);
}
