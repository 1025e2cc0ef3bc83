/* Each client's posts are a list; posts that are sent and not answered when a connection ends are sent again. */
#include "tests/unit/kits/insist.h"

#include <string.h>

#define ROUNDS 40 /* more than the calls that fail in a row */

/* ---- Posting ---- */

static struct insist_client *
client_new(struct insist *x, const Psd__Job *job, uint32_t task)
{
    struct insist_client *c = &x->clients[x->len];

    ck_assert_uint_lt(x->len, INSIST_CLIENTS);
    *c = (struct insist_client){.x = x, .conn = x->len + 1, .task = task, .incarnation = 1000 + x->len};
    c->job = job != NULL ? wire_copy(&job->base) : NULL;
    x->len++;
    return c;
}

struct insist_client *
insist_worker(struct insist *x, const Psd__Job *job, uint32_t task)
{
    return client_new(x, job, task);
}

struct insist_client *
insist_observer(struct insist *x)
{
    return client_new(x, NULL, 0);
}

uint64_t
insist_seq(struct insist_client *c)
{
    return ++c->seq;
}

struct insist_post *
insist_post(struct insist_client *c, enum msg_type type, uint64_t seq, const ProtobufCMessage *m, const float *payload,
            size_t len)
{
    struct insist_post *p = &c->posts[c->len++];

    ck_assert_uint_le(c->len, INSIST_POSTS);
    *p = (struct insist_post){.type = type, .seq = seq, .request = c->x->k->next_request++};
    p->meta_len = protobuf_c_message_get_packed_size(m);
    p->meta = malloc(p->meta_len + 1);
    protobuf_c_message_pack(m, p->meta);
    if (len == 0)
        return p;
    p->payload_bytes = len * sizeof *payload;
    p->payload = aligned_alloc(LAYOUT_ALIGN, round_up(p->payload_bytes, LAYOUT_ALIGN));
    memcpy(p->payload, payload, p->payload_bytes);
    return p;
}

static void
post_finish(struct insist_post *p)
{
    free(p->meta);
    free(p->payload);
    kit_answer_free(p->answer);
}

static void
forget_posts(struct insist_client *c)
{
    for (size_t i = 0; i < c->len; i++)
        post_finish(&c->posts[i]);
    c->len = 0;
}

/* ---- The usual ones ---- */

struct insist_post *
insist_declare(struct insist_client *c, const char *name, uint64_t elements, enum ps_optimizer_kind kind)
{
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Initializer initializer = PSD__INITIALIZER__INIT;
    struct ps_optimizer o = kit_optimizer(kind);
    struct wire_optimizer room;

    m.name = (char *)name;
    m.dims = &elements;
    m.n_dims = 1;
    m.init = &initializer;
    m.optimizer = wire_optimizer_message(&o, &room);
    return insist_post(c, MSG_DECLARE, 0, &m.base, NULL, 0);
}

struct insist_post *
insist_push_as(struct insist_client *c, const struct kit_push *p)
{
    struct kit_push_message m;

    kit_push_message(p, &m);
    if (p->seq == 0)
        m.push.seq = insist_seq(c);
    m.push.clock = c->clock;
    m.push.acked_through = MIN(c->acked_through, m.push.seq - 1);
    return insist_post(c, MSG_PUSH, m.push.seq, &m.push.base, p->gradient, p->len);
}

struct insist_post *
insist_push(struct insist_client *c, uint32_t var, uint32_t block, const float *gradient, size_t len)
{
    return insist_push_as(c, &(struct kit_push){.var = var, .block = block, .gradient = gradient, .len = len});
}

struct insist_post *
insist_tick(struct insist_client *c, uint64_t position)
{
    Psd__Tick m = PSD__TICK__INIT;
    Psd__Cursor cursor = PSD__CURSOR__INIT;

    m.seq = insist_seq(c);
    m.clock = ++c->clock;
    m.acked_through = c->acked_through;
    cursor.position = position;
    m.cursor = position > 0 ? &cursor : NULL;
    return insist_post(c, MSG_TICK, m.seq, &m.base, NULL, 0);
}

struct insist_post *
insist_pull(struct insist_client *c, uint32_t var, uint32_t block, uint64_t clock, bool now)
{
    Psd__Pull m = PSD__PULL__INIT;

    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    m.clock = clock;
    m.now = now;
    return insist_post(c, MSG_PULL, 0, &m.base, NULL, 0);
}

/* ---- Listening ---- */

static bool
insist_connected(const struct insist_client *c)
{
    return c->x->k->open[c->conn] && !c->x->k->closed[c->conn] && c->welcome;
}

static bool
insist_passes(enum ps_err code)
{
    return code == PS_ERR_NOMEM || code == PS_ERR_IO;
}

static void
post_done(struct insist_post *p, enum ps_err code, struct kit_answer *answer)
{
    p->done = true;
    p->code = code;
    kit_answer_free(p->answer);
    p->answer = answer;
}

static struct insist_post *
post_find(struct insist_client *c, uint64_t seq, uint64_t request)
{
    for (size_t i = 0; i < c->len; i++)
        if (seq > 0 ? c->posts[i].seq == seq : c->posts[i].seq == 0 && c->posts[i].request == request)
            return &c->posts[i];
    return NULL;
}

static void
take_ack(struct insist_client *c, const Psd__Ack *m)
{
    for (size_t i = 0; i < m->n_seq; i++) {
        struct insist_post *p = post_find(c, m->seq[i], 0);

        if (p != NULL && !p->done)
            post_done(p, m->n_code > 0 ? (enum ps_err)m->code[i] : PS_OK, NULL);
    }
}

static enum ps_err
code_of(const struct wire_msg *m)
{
    if (m->type == MSG_ERROR)
        return (enum ps_err)m->u.error->code;
    return m->type == MSG_DATA && m->u.data->n_code > 0 ? (enum ps_err)m->u.data->code[0] : PS_OK;
}

/* The connection ends, as one of its posts asked. */
static void
take_end(struct insist_client *c, enum ps_err code, const char *text)
{
    for (size_t i = 0; i < c->len; i++)
        if (c->posts[i].sent && !c->posts[i].done && c->posts[i].expected == code) {
            post_done(&c->posts[i], code, NULL);
            return;
        }
    ck_abort_msg("the connection ended with %s: %s", ps_err_name(code), text);
}

static void
take_answer(struct insist_client *c, struct kit_answer *a)
{
    uint64_t seq = a->msg.type == MSG_DATA ? a->msg.u.data->seq : 0;
    struct insist_post *p = a->msg.request > 0 || seq > 0 ? post_find(c, seq, a->msg.request) : NULL;
    enum ps_err code = code_of(&a->msg);

    if (a->msg.type == MSG_ERROR && a->msg.request == 0 && !insist_passes(code))
        take_end(c, code, a->msg.u.error->text);
    if (a->msg.type == MSG_ACK)
        take_ack(c, a->msg.u.ack);
    if (p == NULL || p->done) {
        kit_answer_free(a);
    } else if (insist_passes(code) && code != p->expected) {
        p->sent = false;
        kit_answer_free(a);
    } else {
        post_done(p, code, a);
    }
}

/* True: there was something. */
static bool
insist_listen(struct insist_client *c)
{
    struct kit_answer *a;
    bool some = false;

    for (; (a = kit_take(c->x->k, c->conn)) != NULL; some = true)
        take_answer(c, a);
    return some;
}

/* ---- Saying ---- */

static void
say_hello(struct insist_client *c)
{
    Psd__Hello m = PSD__HELLO__INIT;
    struct kit *k = c->x->k;

    m.cluster = (char *)k->config.cluster;
    m.shards = 1;
    m.agent = (char *)"insist";
    m.role = c->job != NULL ? PSD__ROLE__WORKER : PSD__ROLE__OBSERVER;
    m.job = c->job;
    m.task = c->task;
    m.incarnation = c->incarnation;
    m.resume = c->met && c->job != NULL;
    m.acked_through = m.resume ? c->acked_through : 0;
    kit_frame(k, c->conn, MSG_HELLO, k->next_request++, &m.base, NULL, 0);
}

/* Answered posts are sent again, too, when the shard has not come that far: for example a tick that overtook a push. */
static void
take_welcome(struct insist_client *c, const struct kit_answer *a)
{
    for (size_t i = 0; i < c->len; i++)
        c->posts[i].sent = c->posts[i].done && c->posts[i].seq <= a->msg.u.welcome->last_seq;
    if (c->job != NULL && !c->met)
        c->clock = a->msg.u.welcome->clock;
    c->met = c->welcome = true;
}

/* Whether it was welcomed; an incarnation whose welcome was lost comes back as another one. */
static bool
insist_meet(struct insist_client *c)
{
    struct kit *k = c->x->k;
    struct kit_answer *a;

    kit_turn(k); /* connections that the shard closed are gone */
    c->welcome = false;
    kit_open(k, c->conn);
    if (k->open[c->conn] && !k->closed[c->conn])
        say_hello(c);
    kit_turn(k);
    while (!c->welcome && (a = kit_take(k, c->conn)) != NULL) {
        if (a->msg.type == MSG_WELCOME)
            take_welcome(c, a);
        else if (a->msg.type == MSG_ERROR)
            ck_assert_msg(insist_passes((enum ps_err)a->msg.u.error->code), "no welcome: %s", a->msg.u.error->text);
        kit_answer_free(a);
    }
    ck_assert_msg(c->welcome || k->closed[c->conn] || !k->open[c->conn], "a hello was not answered");
    if (!c->welcome && !c->met)
        c->incarnation += 100;
    return c->welcome;
}

static bool
insist_waits(const struct insist_client *c)
{
    for (size_t i = 0; i < c->len; i++)
        if (!c->posts[i].done)
            return true;
    return false;
}

static bool
must_come_again(const struct insist_client *c)
{
    return !c->gone && insist_waits(c) && !insist_connected(c);
}

/* True: something was sent. */
static bool
insist_speak(struct insist_client *c)
{
    struct kit *k = c->x->k;
    bool some = false;

    if (c->gone || (!insist_waits(c) && c->met))
        return false;
    if (!insist_connected(c)) {
        c->x->again += c->met;
        if (!insist_meet(c))
            return true;
        some = true;
    }
    k->hold = c->x->together;
    for (size_t i = 0; i < c->len && insist_connected(c); i++) {
        struct insist_post *p = &c->posts[i];

        if (p->sent)
            continue;
        p->sent = some = true;
        kit_bytes(k, c->conn, p->type, p->request, p->meta, p->meta_len, p->payload, p->payload_bytes);
    }
    k->hold = false;
    return some;
}

/* ---- Until the end ---- */

static bool
write_log(struct insist *x)
{
    uint64_t number = x->k->redo;

    if (!x->disk || number <= x->durable)
        return false;
    x->durable = number;
    kit_durable(x->k, number);
    kit_turn(x->k);
    return true;
}

/* A few blocks of the save that runs, or its end. */
static bool
write_save(struct insist *x)
{
    struct shard_save_block blocks[4];
    struct kit *k = x->k;
    size_t n;

    if (!x->saver || k->save == NULL)
        return false;
    if (k->save_closing)
        kit_save_ended(k, 1, 0, NULL);
    else if ((n = shard_save_next(k->shard, SIZE_MAX, blocks, ARRAY_LEN(blocks))) > 0)
        kit_event(k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
    kit_turn(k);
    return true;
}

void
insist_some(struct insist *x)
{
    bool some = true;

    for (int round = 0; some; round++) {
        ck_assert_int_lt(round, ROUNDS);
        some = false;
        for (size_t i = 0; i < x->len; i++)
            some = insist_speak(&x->clients[i]) || some;
        kit_turn(x->k);
        kit_work(x->k);
        some = write_log(x) || some;
        some = write_save(x) || some;
        for (size_t i = 0; i < x->len; i++)
            some = insist_listen(&x->clients[i]) || must_come_again(&x->clients[i]) || some;
    }
}

static uint64_t
known_through(const struct insist_client *c)
{
    uint64_t seq = c->acked_through;

    for (size_t i = 0; i < c->len; i++)
        seq = MAX(seq, c->posts[i].seq);
    return seq;
}

void
insist_all(struct insist *x)
{
    insist_some(x);
    for (size_t i = 0; i < x->len; i++) {
        struct insist_client *c = &x->clients[i];

        for (size_t j = 0; j < c->len; j++) {
            const struct insist_post *p = &c->posts[j];

            ck_assert_msg(p->done, "client %zu: nobody answered its %s", i, wire_type_name(p->type));
            ck_assert_msg(p->code == p->expected, "client %zu: %s where %s was expected to a %s", i,
                          ps_err_name(p->code), ps_err_name(p->expected), wire_type_name(p->type));
        }
        c->acked_through = known_through(c);
        forget_posts(c);
    }
}

struct kit_answer *
insist_ask(struct insist_client *c, enum msg_type type, const ProtobufCMessage *m, enum msg_type answer)
{
    struct insist_post *p = insist_post(c, type, 0, m, NULL, 0);
    struct kit_answer *a;

    insist_some(c->x);
    ck_assert_msg(p->done && p->answer != NULL, "nobody answered a %s", wire_type_name(type));
    ck_assert_msg(p->answer->msg.type == answer, "a %s to a %s: %s", wire_type_name(p->answer->msg.type),
                  wire_type_name(type), p->code != PS_OK ? p->answer->msg.u.error->text : "");
    a = p->answer;
    p->answer = NULL;
    return a;
}

void
insist_replace(struct insist_client *c)
{
    forget_posts(c);
    c->met = c->welcome = false;
    c->incarnation += 100;
    c->seq = c->acked_through = 0;
}

void
insist_crashed(struct insist *x)
{
    for (size_t i = 0; i < x->len; i++)
        x->clients[i].welcome = false;
    x->durable = 0;
}

void
insist_finish(struct insist *x)
{
    for (size_t i = 0; i < x->len; i++) {
        forget_posts(&x->clients[i]);
        if (x->clients[i].job != NULL)
            psd__job__free_unpacked(x->clients[i].job, NULL);
    }
    x->len = 0;
}
