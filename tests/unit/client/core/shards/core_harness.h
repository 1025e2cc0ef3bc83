/* Shared by the tests of the client core: a driver that performs the core's actions on a network of two queues per
 * link, and a small honest shard that adds gradients up. A test drives it message by message, or lets it run.
 *
 *     struct harness h;
 *     harness_start(&h, shards, PS_ASYNC);      // joined
 *     ... core_push(h.core, ...); harness_run(&h);
 *     harness_stop(&h);
 *
 * Message by message: harness_perform() carries out actions; to_shard() takes the next message that the core sent;
 * to_client() hands the core an answer. */
#ifndef TESTS_UNIT_CLIENT_CORE_SHARDS_CORE_HARNESS_H
#define TESTS_UNIT_CLIENT_CORE_SHARDS_CORE_HARNESS_H

#include <string.h>

#include "client/core/shards/core.h"
#include "client/core/shards/shard_link.h"
#include "common/core/base/arena.h"
#include "common/core/cluster/placement.h"
#include "common/core/codec/codec.h"
#include "common/core/model/layout.h"
#include "common/core/wire/wire.h"
#include "tests/unit/kits/check_main.h"

#define HARNESS_SHARDS 40
#define MODEL_VARS     8
#define MODEL_SEQS     4096

static const struct ps_push_options copied = {.flags = PS_PUSH_COPY};

/* A frame on its way, bytes and all. */
struct core_flight {
    struct core_flight *next;
    struct frame_head head;
    uint8_t *meta, *payload;
    struct core_send *send; /* not reported as sent yet */
};

struct flights {
    struct core_flight *first, **last;
    size_t n;
};

struct model_var {
    char name[64];
    uint64_t elements, blocks;
    struct layout layout;
    Psd__Declare *declare;
    float *value;
    uint64_t *version;
};

/* The state of an honest shard. */
struct core_model {
    struct model_var var[MODEL_VARS];
    uint32_t vars;
    bool session;
    uint64_t incarnation, boot, next_seq, clock;
    uint32_t code[MODEL_SEQS];  /* of resolved sequence numbers */
    uint64_t seqs[MODEL_SEQS];  /* in the order in which they were taken */
    uint32_t types[MODEL_SEQS]; /* what each was */
    uint64_t taken;
    uint64_t applied; /* pushes */
    uint64_t pushes;  /* of the session: Welcome.pushes */
    uint64_t survived_from, survived_boot;
    uint8_t survived[MODEL_SEQS / 8]; /* bits */
    size_t survived_len;
    struct arena arena;
};

struct wire_end {
    bool open, connected;
    struct flights up, down; /* to the shard, to the client */
    struct flights unsent;   /* handed out, not reported as sent, when holding */
};

struct harness;
typedef void (*model_pushed)(struct harness *h, uint32_t shard, const Psd__Push *m, const float *gradients);

struct harness {
    struct core *core;
    model_pushed pushed; /* NULL, or called for every push that a shard applies */
    uint32_t shards;
    uint64_t now;
    struct wire_end link[HARNESS_SHARDS];
    struct core_model model[HARNESS_SHARDS];
    bool hold;       /* do not report sends until harness_release() */
    bool by_meta;    /* give payloads through core_meta()'s places */
    bool no_connect; /* CORE_CONNECT stays unanswered */
    uint64_t connects, disconnects, discards, finishes, sends, events;
    struct ps_error last_event;
    struct ps_error rolled_back; /* the last event of that code, or RESTORED */
    struct arena arena;          /* of what to_shard() decoded */
};

#define UNUSED __attribute__((unused))

/* ---- Queues ---- */

static inline void
flights_init(struct flights *q)
{
    *q = (struct flights){0};
    q->last = &q->first;
}

static inline void
flights_add(struct flights *q, struct core_flight *f)
{
    f->next = NULL;
    *q->last = f;
    q->last = &f->next;
    q->n++;
}

static inline struct core_flight *
flights_take(struct flights *q)
{
    struct core_flight *f = q->first;

    if (f == NULL)
        return NULL;
    if ((q->first = f->next) == NULL)
        q->last = &q->first;
    q->n--;
    return f;
}

static inline void
flight_free(struct core_flight *f)
{
    free(f->meta);
    free(f->payload);
    free(f);
}

static inline void
flights_drop(struct flights *q)
{
    struct core_flight *f;

    while ((f = flights_take(q)) != NULL)
        flight_free(f);
}

static inline void *
copy_bytes(const void *data, size_t len)
{
    void *copy = malloc(len + 1);

    ck_assert_ptr_nonnull(copy);
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

/* ---- The driver ---- */

static inline struct core_flight *
flight_of_send(const struct core_send *s)
{
    struct core_flight *f = calloc(1, sizeof(*f));
    struct ps_error e;
    size_t i, at = 0;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(frame_head_decode(s->head, &f->head, &e), PS_OK);
    ck_assert_uint_eq(f->head.payload_len, s->payload_len);
    ck_assert_uint_eq(s->head_len, FRAME_HEAD_SIZE + f->head.meta_len + frame_pad(f->head.meta_len));
    f->meta = copy_bytes(s->head + FRAME_HEAD_SIZE, f->head.meta_len);
    if (s->payload_len > 0) {
        f->payload = malloc(s->payload_len);
        for (i = 0; i < s->parts_len; i++) {
            memcpy(f->payload + at, s->parts[i].data, s->parts[i].len);
            at += s->parts[i].len;
        }
        ck_assert_uint_eq(at, s->payload_len);
    }
    return f;
}

static inline void
harness_drop_connection(struct harness *h, uint32_t shard)
{
    struct wire_end *w = &h->link[shard];
    struct core_flight *f;

    w->open = w->connected = false;
    flights_drop(&w->up);
    flights_drop(&w->down);
    while ((f = flights_take(&w->unsent)) != NULL) {
        core_sent(h->core, f->send, PS_ERR_CLOSED);
        flight_free(f);
    }
}

static inline void
harness_send(struct harness *h, uint32_t shard, struct core_send *send)
{
    struct core_flight *f = flight_of_send(send);

    h->sends++;
    ck_assert(h->link[shard].connected);
    if (h->hold || h->link[shard].unsent.first != NULL) {
        f->send = send;
        flights_add(&h->link[shard].unsent, f);
        return;
    }
    flights_add(&h->link[shard].up, f);
    core_sent(h->core, send, PS_OK);
}

static UNUSED void
harness_perform(struct harness *h)
{
    struct core_action a;

    while (core_next_action(h->core, &a)) {
        struct wire_end *w = &h->link[a.shard];

        switch (a.kind) {
        case CORE_CONNECT:
            ck_assert(!w->open);
            w->open = true;
            h->connects++;
            if (h->no_connect)
                break;
            w->connected = true;
            core_connected(h->core, a.shard, h->now);
            break;
        case CORE_DISCONNECT:
            ck_assert(w->open);
            h->disconnects++;
            harness_drop_connection(h, a.shard);
            break;
        case CORE_FINISH:
            h->finishes++;
            w->open = false;
            break;
        case CORE_SEND:
            harness_send(h, a.shard, a.send);
            break;
        case CORE_DISCARD:
            h->discards++;
            break;
        case CORE_EVENT:
            h->events++;
            h->last_event = *a.error;
            if (a.error->code == PS_ERR_ROLLED_BACK || a.error->code == PS_ERR_RESTORED)
                h->rolled_back = *a.error;
            break;
        }
    }
}

/* Report the first n held sends of a link: they are written now. */
static UNUSED void
harness_release(struct harness *h, uint32_t shard, size_t n)
{
    struct core_flight *f;

    while (n-- > 0 && (f = flights_take(&h->link[shard].unsent)) != NULL) {
        struct core_send *send = f->send;

        f->send = NULL;
        flights_add(&h->link[shard].up, f);
        core_sent(h->core, send, PS_OK);
        harness_perform(h);
    }
}

/* The connection breaks. */
static UNUSED void
harness_cut(struct harness *h, uint32_t shard)
{
    struct ps_error why;

    if (!h->link[shard].open)
        return;
    ps_fail(&why, PS_ERR_CLOSED, "cut by the test");
    harness_drop_connection(h, shard);
    core_disconnected(h->core, shard, &why, h->now);
    harness_perform(h);
}

/* Time passes, without a gap larger than the core counts in full. */
static UNUSED void
harness_pass(struct harness *h, uint64_t ms)
{
    uint64_t step;

    for (; ms > 0; ms -= step) {
        step = MIN(ms, 500);
        h->now += step;
        core_time(h->core, h->now);
        harness_perform(h);
    }
}

/* ---- Messages by hand ---- */

/* The next message that the core sent to a shard; false: none. msg lives until the next call. */
static UNUSED bool
to_shard(struct harness *h, uint32_t shard, struct wire_msg *msg)
{
    struct core_flight *f = flights_take(&h->link[shard].up);
    struct ps_error e;

    if (f == NULL)
        return false;
    arena_reset(&h->arena);
    ck_assert_msg(wire_decode(&f->head, f->meta, &h->arena, msg, &e) == PS_OK, "%s", e.text);
    flight_free(f);
    return true;
}

/* The next message, which must be of this type. */
static UNUSED struct wire_msg
core_expect(struct harness *h, uint32_t shard, enum msg_type type)
{
    struct wire_msg msg;

    ck_assert_msg(to_shard(h, shard, &msg), "no message, expected %s", wire_type_name(type));
    ck_assert_msg(msg.type == type, "got %s, expected %s", wire_type_name(msg.type), wire_type_name(type));
    return msg;
}

static UNUSED void
expect_nothing(struct harness *h, uint32_t shard)
{
    ck_assert_uint_eq(h->link[shard].up.n, 0);
}

static inline void
flight_down(struct harness *h, uint32_t shard, enum msg_type type, uint64_t request, const ProtobufCMessage *m,
            const void *payload, size_t payload_len)
{
    struct core_flight *f = calloc(1, sizeof(*f));
    struct ps_error e;
    size_t len;
    uint8_t *bytes = wire_encode_new(type, request, m, payload_len, &len);

    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(frame_head_decode(bytes, &f->head, &e), PS_OK);
    f->meta = copy_bytes(bytes + FRAME_HEAD_SIZE, f->head.meta_len);
    f->payload = payload_len > 0 ? copy_bytes(payload, payload_len) : NULL;
    free(bytes);
    flights_add(&h->link[shard].down, f);
}

/* Hand the next message of the queue to the core. False: there is none. */
static UNUSED bool
harness_deliver(struct harness *h, uint32_t shard)
{
    struct core_flight *f = flights_take(&h->link[shard].down);
    struct core_payload_dest place = {0};
    struct payload_parts to = {0};

    if (f == NULL)
        return false;
    if (h->by_meta && f->payload != NULL) {
        uint64_t discards = h->discards;

        core_meta(h->core, shard, &f->head, f->meta, &place);
        harness_perform(h);
        to = (struct payload_parts){(struct frame_part *)place.parts, place.n, place.n};
        if (!place.discard && place.n > 0 && h->discards == discards)
            payload_parts_fill(&to, f->payload);
        if (h->link[shard].connected)
            core_frame(h->core, shard, &f->head, f->meta, place.discard || place.n > 0 ? NULL : f->payload, h->now);
    } else {
        core_frame(h->core, shard, &f->head, f->meta, f->payload, h->now);
    }
    harness_perform(h);
    flight_free(f);
    return true;
}

/* Send the core a message now. */
static UNUSED void
to_client(struct harness *h, uint32_t shard, enum msg_type type, uint64_t request, const ProtobufCMessage *m,
          const void *payload, size_t payload_len)
{
    flight_down(h, shard, type, request, m, payload, payload_len);
    while (harness_deliver(h, shard))
        ;
}

static UNUSED void
tell_error(struct harness *h, uint32_t shard, uint64_t request, enum ps_err code, const char *text)
{
    Psd__Error e = PSD__ERROR__INIT;

    e.code = code;
    e.text = (char *)text;
    to_client(h, shard, MSG_ERROR, request, &e.base, NULL, 0);
}

static UNUSED void
tell_ack(struct harness *h, uint32_t shard, uint64_t seq, enum ps_err code)
{
    Psd__Ack a = PSD__ACK__INIT;
    uint32_t codes[1] = {code};

    a.n_seq = 1;
    a.seq = &seq;
    a.n_code = code != PS_OK;
    a.code = codes;
    to_client(h, shard, MSG_ACK, 0, &a.base, NULL, 0);
}

struct welcome {
    uint64_t last_seq, clock, slowest, boot, round, pushes;
    uint64_t survived_from, survived, survived_boot; /* a bit for each of 64 */
    uint64_t odd_seq, odd_lost;                      /* 0: none */
    uint32_t odd_code;
    const char *restored; /* NULL: it was not */
    uint64_t restored_boot;
    struct ps_cursor cursor;
    bool defines;
    bool begins; /* the next two are given */
    uint64_t begins_clock;
    struct ps_cursor others;
    double metrics[2]; /* up to position metrics_at of epoch 0; 0: none */
    uint64_t metrics_at;
};
static UNUSED void
tell_welcome(struct harness *h, uint32_t shard, struct welcome with)
{
    Psd__Welcome w = PSD__WELCOME__INIT;
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    Psd__Cursor cursor = PSD__CURSOR__INIT, at = PSD__CURSOR__INIT, others = PSD__CURSOR__INIT;
    Psd__Begins begins = PSD__BEGINS__INIT;
    Psd__Metrics metrics = PSD__METRICS__INIT;
    Psd__Job job = PSD__JOB__INIT;

    w.cluster = "test";
    w.shard = shard;
    w.shards = h->shards;
    w.boot = with.boot != 0 ? with.boot : 100 + shard;
    w.last_seq = with.last_seq;
    w.clock = with.clock;
    w.slowest_clock = with.slowest;
    w.round = with.round;
    w.pushes = with.pushes;
    w.survived_from = with.survived_from;
    w.survived.len = with.survived != 0 ? sizeof with.survived : 0;
    w.survived.data = (uint8_t *)&with.survived;
    w.survived_boot = with.survived_boot;
    w.n_odd_seq = w.n_odd_code = with.odd_seq != 0;
    w.odd_seq = &with.odd_seq;
    w.odd_code = &with.odd_code;
    w.odd_lost = with.odd_lost;
    w.restored = (char *)(with.restored != NULL ? with.restored : "");
    w.restored_boot = with.restored_boot;
    cursor.epoch = with.cursor.epoch;
    cursor.position = with.cursor.position;
    w.cursor = cursor.epoch + cursor.position > 0 ? &cursor : NULL;
    others.epoch = with.others.epoch;
    others.position = with.others.position;
    begins.clock = with.begins_clock;
    begins.others = others.epoch + others.position > 0 ? &others : NULL;
    w.begins = with.begins ? &begins : NULL;
    w.defines = with.defines;
    at.position = with.metrics_at;
    metrics.n_value = 2;
    metrics.value = with.metrics;
    metrics.at = &at;
    w.metrics = with.metrics_at > 0 ? &metrics : NULL;
    w.job = &job;
    job.name = "job";
    job.workers = 2;
    job.quorum = 2;
    job.age = &age;
    to_client(h, shard, MSG_WELCOME, REQUEST_ID_HELLO, &w.base, NULL, 0);
}

/* ---- The honest shard ---- */

static inline struct model_var *
model_find(struct core_model *m, const char *name, uint32_t *id)
{
    for (*id = 0; *id < m->vars; ++*id)
        if (strcmp(m->var[*id].name, name) == 0)
            return &m->var[*id];
    return NULL;
}

static inline void
model_forget(struct core_model *m)
{
    uint32_t i;

    for (i = 0; i < m->vars; i++) {
        psd__declare__free_unpacked(m->var[i].declare, NULL);
        free(m->var[i].value);
        free(m->var[i].version);
    }
    arena_finish(&m->arena);
    *m = (struct core_model){.boot = m->boot + 1000, .next_seq = 1};
}

static inline void
model_ack(struct harness *h, uint32_t shard, uint64_t seq)
{
    Psd__Ack a = PSD__ACK__INIT;
    uint32_t code = h->model[shard].code[seq % MODEL_SEQS];

    a.n_seq = 1;
    a.seq = &seq;
    a.n_code = code != PS_OK;
    a.code = &code;
    flight_down(h, shard, MSG_ACK, 0, &a.base, NULL, 0);
}

/* Take a sequence number; false: it is a repeat. */
static inline bool
model_take(struct core_model *m, uint64_t seq, enum msg_type type)
{
    ck_assert_msg(seq <= m->next_seq, "sequence %llu came, %llu was expected", (unsigned long long)seq,
                  (unsigned long long)m->next_seq);
    if (seq < m->next_seq)
        return false;
    m->next_seq++;
    m->survived_len = 0;
    m->seqs[m->taken % MODEL_SEQS] = seq;
    m->types[m->taken++ % MODEL_SEQS] = type;
    return true;
}

static inline void
model_hello(struct harness *h, uint32_t shard, const Psd__Hello *hello)
{
    struct core_model *m = &h->model[shard];
    Psd__Error e = PSD__ERROR__INIT;
    Psd__Welcome w = PSD__WELCOME__INIT;

    ck_assert_str_eq(hello->cluster, "test");
    if (hello->resume && !m->session) {
        e.code = PS_ERR_NOT_FOUND;
        flight_down(h, shard, MSG_ERROR, REQUEST_ID_HELLO, &e.base, NULL, 0);
        return;
    }
    if (hello->role == PSD__ROLE__WORKER && (!m->session || m->incarnation != hello->incarnation)) {
        m->session = true;
        m->incarnation = hello->incarnation;
        m->next_seq = 1;
        m->pushes = 0;
        m->survived_len = 0;
    }
    w.pushes = m->pushes;
    w.survived_from = m->survived_from;
    w.survived_boot = m->survived_boot;
    w.survived.len = m->survived_len;
    w.survived.data = m->survived;
    w.cluster = "test";
    w.shard = shard;
    w.shards = h->shards;
    w.job = hello->job;
    w.last_seq = m->next_seq - 1;
    w.clock = w.slowest_clock = m->clock;
    w.boot = m->boot;
    flight_down(h, shard, MSG_WELCOME, REQUEST_ID_HELLO, &w.base, NULL, 0);
}

static UNUSED void
model_make_var(struct harness *h, uint32_t shard, const Psd__Declare *d)
{
    struct core_model *m = &h->model[shard];
    struct model_var *v = &m->var[m->vars++];

    ck_assert_uint_le(m->vars, MODEL_VARS);
    strcpy(v->name, d->name);
    ck_assert_int_eq(wire_elements(d->dims, d->n_dims, &v->elements), PS_OK);
    layout_init(&v->layout, v->elements, 0);
    v->blocks = v->layout.blocks;
    v->declare = wire_copy(&d->base);
    v->value = calloc(v->elements, sizeof(float));
    v->version = calloc(v->blocks, sizeof(uint64_t));
}

static inline void
model_declare(struct harness *h, uint32_t shard, uint64_t request, const Psd__Declare *d)
{
    Psd__Declared answer = PSD__DECLARED__INIT;
    uint32_t id;

    if (model_find(&h->model[shard], d->name, &id) == NULL) {
        model_make_var(h, shard, d);
        answer.created = true;
    }
    answer.var = id;
    flight_down(h, shard, MSG_DECLARED, request, &answer.base, NULL, 0);
}

static inline void
model_attach(struct harness *h, uint32_t shard, uint64_t request, const Psd__Attach *a)
{
    Psd__Declared answer = PSD__DECLARED__INIT;
    Psd__Error e = PSD__ERROR__INIT;
    const struct model_var *v = model_find(&h->model[shard], a->name, &answer.var);

    ck_assert_str_eq(a->job, "job");
    e.code = PS_ERR_NOT_FOUND;
    e.text = (char *)"no such variable";
    answer.declare = v != NULL ? v->declare : NULL;
    if (v != NULL)
        flight_down(h, shard, MSG_DECLARED, request, &answer.base, NULL, 0);
    else
        flight_down(h, shard, MSG_ERROR, request, &e.base, NULL, 0);
}

/* Answer with these blocks. */
static inline void
model_data(struct harness *h, uint32_t shard, uint64_t request, uint64_t seq, size_t n, const uint32_t *var,
           const uint32_t *block, size_t n_newer, const uint64_t *newer)
{
    struct core_model *m = &h->model[shard];
    Psd__Data d = PSD__DATA__INIT;
    uint8_t *payload = malloc(FRAME_PAYLOAD_MAX);
    uint64_t *version = malloc(n * sizeof(*version));
    size_t at = 0, i;

    for (i = 0; i < n; i++) {
        struct model_var *v = &m->var[var[i]];
        struct layout_block b = layout_block(&v->layout, block[i]);

        ck_assert_uint_lt(var[i], m->vars);
        ck_assert_uint_lt(block[i], v->blocks);
        version[i] = v->version[block[i]];
        if (n_newer > 0 && version[i] <= newer[i])
            continue;
        memcpy(payload + at, v->value + b.first, b.len * sizeof(float));
        at += b.len * sizeof(float);
    }
    d.n_version = n;
    d.version = version;
    d.seq = seq;
    d.clock = m->clock;
    flight_down(h, shard, MSG_DATA, request, &d.base, payload, at);
    free(version);
    free(payload);
}

/* The gradient of one block, decoded if it is encoded; freed by the caller. *at moves past it. */
static inline float *
model_gradient(const Psd__Push *p, size_t len, const uint8_t *payload, size_t *at, size_t payload_len)
{
    float *grad = malloc(len * sizeof *grad);
    size_t bytes;
    struct ps_error e;

    ck_assert_msg(
        codec_measure((enum ps_compress_kind)p->encoding, len, payload + *at, payload_len - *at, &bytes, &e) == PS_OK,
        "%s", e.text);
    codec_decode((enum ps_compress_kind)p->encoding, len, payload + *at, grad);
    *at += bytes;
    return grad;
}

static inline void
model_push(struct harness *h, uint32_t shard, const struct wire_msg *msg, const uint8_t *payload)
{
    struct core_model *m = &h->model[shard];
    const Psd__Push *p = msg->u.push;
    size_t at = 0, i, j;

    if (model_take(m, p->seq, MSG_PUSH)) {
        for (i = 0; i < p->n_var; i++) {
            struct model_var *v = &m->var[p->var[i]];
            struct layout_block b = layout_block(&v->layout, p->block[i]);
            float *grad = model_gradient(p, b.len, payload, &at, msg->payload_len);

            ck_assert_uint_lt(p->var[i], m->vars);
            if (p->n_from_version > 0)
                ck_assert_uint_le(p->from_version[i], v->version[p->block[i]]);
            for (j = 0; j < b.len; j++)
                v->value[b.first + j] += grad[j];
            v->version[p->block[i]]++;
            free(grad);
        }
        ck_assert_uint_eq(at, msg->payload_len);
        m->applied++;
        m->pushes++;
        if (h->pushed != NULL)
            h->pushed(h, shard, p, (const void *)payload);
    }
    if (p->want_value && m->code[p->seq % MODEL_SEQS] == PS_OK)
        model_data(h, shard, msg->request, p->seq, p->n_var, p->var, p->block, 0, NULL);
    else
        model_ack(h, shard, p->seq);
}

static inline void
model_tick(struct harness *h, uint32_t shard, const Psd__Tick *t)
{
    struct core_model *m = &h->model[shard];

    if (model_take(m, t->seq, MSG_TICK)) {
        m->code[t->seq % MODEL_SEQS] = t->clock < m->clock ? PS_ERR_CLOCK : PS_OK;
        m->clock = MAX(m->clock, t->clock);
    }
    model_ack(h, shard, t->seq);
}

/* The shard takes the next message. False: there is none. */
static UNUSED bool
model_step(struct harness *h, uint32_t shard)
{
    struct core_flight *f = flights_take(&h->link[shard].up);
    struct core_model *m = &h->model[shard];
    Psd__SetDone set_done = {PROTOBUF_C_MESSAGE_INIT(&psd__set_done__descriptor), 1, true};
    struct wire_msg msg;
    struct ps_error e;

    if (f == NULL)
        return false;
    arena_reset(&m->arena);
    ck_assert_msg(wire_decode(&f->head, f->meta, &m->arena, &msg, &e) == PS_OK, "%s", e.text);
    switch (msg.type) {
    case MSG_HELLO:
        model_hello(h, shard, msg.u.hello);
        break;
    case MSG_DECLARE:
        model_declare(h, shard, msg.request, msg.u.declare);
        break;
    case MSG_ATTACH:
        model_attach(h, shard, msg.request, msg.u.attach);
        break;
    case MSG_PULL:
        model_data(h, shard, msg.request, 0, msg.u.pull->n_var, msg.u.pull->var, msg.u.pull->block,
                   msg.u.pull->n_newer_than, msg.u.pull->newer_than);
        break;
    case MSG_PUSH:
        model_push(h, shard, &msg, f->payload);
        break;
    case MSG_TICK:
        model_tick(h, shard, msg.u.tick);
        break;
    case MSG_BARRIER:
        model_take(m, msg.u.barrier->seq, MSG_BARRIER);
        model_ack(h, shard, msg.u.barrier->seq);
        break;
    case MSG_SKIP:
        model_take(m, msg.u.skip->seq, MSG_SKIP);
        model_ack(h, shard, msg.u.skip->seq);
        break;
    case MSG_PING:
        flight_down(h, shard, MSG_PONG, msg.request, &msg.u.ping->base, NULL, 0);
        break;
    case MSG_SET:
        flight_down(h, shard, MSG_SET_DONE, msg.request, &set_done.base, NULL, 0);
        break;
    case MSG_CANCEL:
    case MSG_GOODBYE:
        break;
    default:
        ck_abort_msg("the shard got a %s", wire_type_name(msg.type));
    }
    flight_free(f);
    return true;
}

/* Until nothing moves, backoffs included. */
static UNUSED void
harness_run(struct harness *h)
{
    uint32_t i, rounds;
    bool moved;

    for (rounds = 0; rounds < 100000; rounds++) {
        harness_perform(h);
        moved = false;
        for (i = 0; i < h->shards; i++) {
            moved |= model_step(h, i);
            moved |= harness_deliver(h, i);
        }
        if (moved)
            continue;
        for (i = 0; i < h->shards && h->core != NULL; i++)
            moved |= !h->link[i].connected && !h->no_connect;
        if (!moved)
            return;
        harness_pass(h, 500);
    }
    ck_abort_msg("it never comes to rest");
}

/* ---- Start and stop ---- */

/* False: core_new() failed for want of memory. */
static UNUSED bool
harness_try_init_as(struct harness *h, uint32_t shards, enum ps_mode mode, bool observer)
{
    static char texts[HARNESS_SHARDS][24];
    const char *addresses[HARNESS_SHARDS];
    struct core_config k = {.cluster = "test",
                            .shards = shards,
                            .addresses = addresses,
                            .agent = "here:1",
                            .job = "job",
                            .metric_names = (const char *const[]){"rows", "loss"},
                            .metrics_named = 2,
                            .workers = 2,
                            .mode = mode,
                            .lease_ms = 300000,
                            .observer = observer,
                            .copy_max = MIB,
                            .incarnation = 77,
                            .seed = 5};
    struct ps_error e;
    uint32_t i;

    *h = (struct harness){.shards = shards, .now = 1000};
    for (i = 0; i < HARNESS_SHARDS; i++) {
        snprintf(texts[i], sizeof texts[i], "127.0.0.1:%u", 4000 + i);
        addresses[i] = texts[i];
        flights_init(&h->link[i].up);
        flights_init(&h->link[i].down);
        flights_init(&h->link[i].unsent);
        h->model[i].boot = 100 + i;
        h->model[i].next_seq = 1;
    }
    return core_new(&k, h->now, &h->core, &e) == PS_OK;
}

static UNUSED bool
harness_try_init(struct harness *h, uint32_t shards, enum ps_mode mode)
{
    return harness_try_init_as(h, shards, mode, false);
}

static UNUSED void
harness_init(struct harness *h, uint32_t shards, enum ps_mode mode)
{
    ck_assert(harness_try_init(h, shards, mode));
}

static UNUSED void
harness_start(struct harness *h, uint32_t shards, enum ps_mode mode)
{
    harness_init(h, shards, mode);
    harness_run(h);
    ck_assert(core_joined(h->core));
}

static UNUSED void
harness_stop(struct harness *h)
{
    uint32_t i;

    for (i = 0; i < HARNESS_SHARDS; i++) {
        flights_drop(&h->link[i].up);
        flights_drop(&h->link[i].down);
        flights_drop(&h->link[i].unsent);
        model_forget(&h->model[i]);
    }
    core_free(h->core);
    arena_finish(&h->arena);
}

/* A declared variable of n elements. */
static UNUSED struct core_var *
harness_var(struct harness *h, const char *name, uint64_t n)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {n}, .optimizer = {.learning_rate = 0.1}};
    struct core_var *v;
    struct core_op *op;
    struct ps_error e = {0};

    ck_assert_msg(core_declare(h->core, &spec, &v, &op, &e) == PS_OK, "%s", e.text);
    harness_run(h);
    ck_assert(core_op_done(op));
    ck_assert_msg(core_op_result(op, &e) == PS_OK, "%s", e.text);
    core_op_free(h->core, op);
    return v;
}

static UNUSED struct core_op *
start_push(struct harness *h, struct core_var *v, const float *grad)
{
    struct core_op *op;
    struct ps_error e = {0};

    ck_assert_msg(core_push(h->core, 1, &v, &grad, NULL, NULL, &op, &e) == PS_OK, "%s", e.text);
    harness_perform(h);
    return op;
}

static UNUSED struct core_op *
start_pull(struct harness *h, struct core_var *v, float *out)
{
    struct core_op *op;
    struct ps_error e = {0};

    ck_assert_msg(core_pull(h->core, 1, &v, &out, NULL, &op, &e) == PS_OK, "%s", e.text);
    harness_perform(h);
    return op;
}

static UNUSED struct core_op *
start_tick(struct harness *h)
{
    struct core_op *op;

    ck_assert_int_eq(core_tick(h->core, &op, NULL), PS_OK);
    harness_perform(h);
    return op;
}

/* It must be done with this result. */
static UNUSED void
end_op(struct harness *h, struct core_op *op, enum ps_err result)
{
    struct ps_error e = {0};

    ck_assert_msg(core_op_done(op), "the operation is not done");
    ck_assert_msg(core_op_result(op, &e) == result, "%s: %s", ps_err_name(e.code), e.text);
    core_op_free(h->core, op);
    harness_perform(h);
}

static UNUSED void
cancel_op(struct harness *h, struct core_op *op, enum ps_err result)
{
    core_op_cancel(h->core, op);
    harness_perform(h);
    end_op(h, op, result);
}

#endif
