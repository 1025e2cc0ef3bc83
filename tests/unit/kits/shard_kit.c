/* The kit: encode, step, end the turn, decode what comes out. */
#include "tests/unit/kits/shard_kit.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"

/* ---- Life ---- */

const struct shard_config kit_durable_config = {.cluster = "test", .shards = 1, .boot = 77, .durable = true};

static void
shard_kit_start(struct kit *k)
{
    struct ps_error e;
    enum ps_err err = shard_new(&k->config, k->store, k->now_ms, &k->shard, &e);

    for (int i = 0; err != PS_OK && k->may_fail && i < 20; i++) /* psd would end and be started again */
        err = shard_new(&k->config, k->store, k->now_ms, &k->shard, &e);
    ck_assert_msg(err == PS_OK, "%s", e.text);
}

static void
drop_save(struct kit *k)
{
    shard_save_free(k->save);
    k->save = NULL;
    k->save_closing = false;
}

void
kit_init_over(struct kit *k, const struct shard_config *config, struct store *store)
{
    *k = (struct kit){.now_ms = 1000, .next_request = 1, .role = ROLE_ADMIN};
    if (config != NULL)
        k->config = *config;
    else
        k->config = (struct shard_config){.cluster = "test", .shards = 1, .boot = 77};
    ck_assert_ptr_nonnull(k->store = store);
    shard_kit_start(k);
}

void
kit_init_size(struct kit *k, const struct shard_config *config, uint64_t store_bytes)
{
    kit_init_over(k, config, store_mem_new(store_bytes));
}

void
kit_init(struct kit *k, const struct shard_config *config)
{
    kit_init_size(k, config, 256 * MIB);
}

static void
drop_wanted(struct kit *k)
{
    free(k->wanted.text);
    free(k->wanted.job);
    k->wanted = (struct shard_action){0};
}

void
kit_finish(struct kit *k)
{
    shard_free(k->shard);
    drop_save(k);
    drop_wanted(k);
    for (uint64_t conn = 0; conn < KIT_CONNS; conn++)
        kit_drop_answers(k, conn);
    k->store->ops->close(k->store);
}

void
kit_crash(struct kit *k)
{
    shard_free(k->shard);
    drop_save(k);
    drop_wanted(k);
    store_mem_crash(k->store);
    k->redo = 0;
    for (uint64_t conn = 0; conn < KIT_CONNS; conn++) {
        kit_drop_answers(k, conn);
        k->open[conn] = k->closed[conn] = k->lost[conn] = false;
    }
    shard_kit_start(k);
}

/* ---- What comes out ---- */

static void
shard_kit_append(struct kit *k, uint64_t conn, struct kit_answer *a)
{
    struct kit_answer **at = &k->answers[conn];

    while (*at != NULL)
        at = &(*at)->next;
    *at = a;
}

/* Head, metadata and pad, as they came; the payload is ours already. */
static void
keep_frame(struct kit *k, uint64_t conn, const uint8_t *bytes, size_t len, float *payload, size_t payload_bytes)
{
    struct kit_answer *a = calloc(1, sizeof *a);
    struct frame_head head;
    struct ps_error e;
    enum ps_err err;

    ck_assert_msg(frame_head_decode(bytes, &head, &e) == PS_OK, "%s", e.text);
    ck_assert_uint_eq(len, FRAME_HEAD_SIZE + head.meta_len + frame_pad(head.meta_len));
    ck_assert_uint_eq(head.payload_len, payload_bytes);
    err = wire_decode(&head, bytes + FRAME_HEAD_SIZE, &a->arena, &a->msg, &e);
    ck_assert_msg(err == PS_OK, "the shard sent what is not valid: %s", e.text);
    a->payload = payload;
    a->payload_len = payload_bytes / sizeof(float);
    shard_kit_append(k, conn, a);
}

static void
keep_data(struct kit *k, uint64_t conn, struct shard_data *data)
{
    struct store_snapshot *snap;
    struct shard_reply reply;
    uint8_t *payload;
    size_t at = 0;

    ck_assert(shard_data_bytes(data) > 0);
    ck_assert_int_eq(k->store->ops->snapshot_ref(k->store, &snap), PS_OK);
    if (shard_data_open(k->shard, data, snap, &reply) != PS_OK) {
        ck_assert(k->may_fail);
        k->lost[conn] = true;
        k->open[conn] = false;
        shard_data_free(data);
        k->store->ops->snapshot_unref(k->store, snap);
        return;
    }
    payload = malloc(reply.payload_len + 1);
    for (size_t i = 0; i < reply.parts_len; i++) {
        memcpy(payload + at, reply.parts[i].data, reply.parts[i].len);
        at += reply.parts[i].len;
    }
    ck_assert_uint_eq(at, reply.payload_len);
    keep_frame(k, conn, reply.head, reply.head_len, (float *)payload, reply.payload_len);
    shard_data_free(data);
    k->store->ops->snapshot_unref(k->store, snap);
}

static void
shard_kit_perform(struct kit *k, struct shard_action *a)
{
    switch (a->kind) {
    case SHARD_SEND:
        ck_assert(!k->closed[a->conn]);
        if (k->open[a->conn]) /* otherwise it was lost in the same turn */
            keep_frame(k, a->conn, a->bytes, a->len, NULL, 0);
        free(a->bytes);
        break;
    case SHARD_DATA:
        ck_assert(!k->closed[a->conn]);
        if (k->open[a->conn])
            keep_data(k, a->conn, a->data);
        else
            shard_data_free(a->data);
        break;
    case SHARD_CLOSE:
        k->closed[a->conn] = true;
        break;
    case SHARD_LOG:
        ck_assert_ptr_nonnull(a->text);
        if (getenv("KIT_LOG") != NULL)
            fprintf(stderr, "# %s\n", a->text);
        if (strncmp(a->text, "audit ", 6) == 0)
            snprintf(k->audit, sizeof k->audit, "%s", a->text);
        free(a->text);
        k->logs++;
        break;
    case SHARD_DRAIN_BEGUN:
        k->draining = true;
        break;
    case SHARD_STOPPED:
        k->stopped = true;
        break;
    case SHARD_REDO:
        ck_assert_uint_gt(a->number, k->redo);
        k->redo = a->number;
        break;
    case SHARD_RESTORE_WANTED:
        drop_wanted(k);
        k->wanted = *a;
        break;
    case SHARD_SAVE_INSTANT:
        ck_assert_ptr_null(k->save);
        if (k->save_instant != NULL)
            k->save_instant(k);
        break;
    case SHARD_SAVE_BEGUN:
        ck_assert(k->save == NULL && a->save != NULL);
        k->save = a->save;
        k->save_closing = false;
        if (k->save_begun != NULL)
            k->save_begun(k);
        break;
    case SHARD_SAVE_CLOSE:
        ck_assert(k->save != NULL && !k->save_closing);
        k->save_closing = true;
        break;
    case SHARD_SAVE_ABANDONED:
        ck_assert(k->save != NULL && !k->save_closing);
        drop_save(k);
        k->abandoned++;
        break;
        break;
    }
}

static void
end_turn(struct kit *k)
{
    struct shard_action a;
    bool dirty = shard_dirty(k->shard);

    k->failed = shard_commit(k->shard) != PS_OK;
    ck_assert(dirty || !k->failed || k->may_fail);
    while (shard_next_action(k->shard, &a))
        shard_kit_perform(k, &a);
}

/* A connection that the shard closed is gone; that is an event of the next turn. */
static void
shard_kit_reap(struct kit *k)
{
    for (uint64_t conn = 0; conn < KIT_CONNS; conn++) {
        struct shard_event event = {.kind = SHARD_CLOSED, .now_ms = k->now_ms, .conn = conn};

        if (!(k->closed[conn] && k->open[conn]) && !k->lost[conn])
            continue;
        k->open[conn] = k->lost[conn] = false;
        while (shard_step(k->shard, &event) == SHARD_TURN_FULL) {
            ck_assert(k->may_fail);
            end_turn(k);
        }
    }
}

void
kit_turn(struct kit *k)
{
    end_turn(k);
    shard_kit_reap(k);
    end_turn(k);
}

/* ---- Events ---- */

void
kit_event(struct kit *k, struct shard_event *event)
{
    event->now_ms = k->now_ms;
    while (shard_step(k->shard, event) == SHARD_TURN_FULL)
        end_turn(k);
    if (!k->hold)
        kit_turn(k);
}

void
kit_open(struct kit *k, uint64_t conn)
{
    ck_assert(conn < KIT_CONNS && !k->open[conn]);
    kit_turn(k); /* an id is used again only here; nothing may be left for its last owner */
    kit_drop_answers(k, conn);
    k->open[conn] = true;
    k->closed[conn] = false;
    kit_event(k, &(struct shard_event){.kind = SHARD_OPENED, .conn = conn, .peer = "127.0.0.1:9"});
}

void
kit_close(struct kit *k, uint64_t conn)
{
    k->open[conn] = false;
    kit_drop_answers(k, conn);
    kit_event(k, &(struct shard_event){.kind = SHARD_CLOSED, .conn = conn});
}

void
kit_bytes(struct kit *k, uint64_t conn, unsigned type, uint64_t request, const void *meta, size_t meta_len,
          const void *payload, size_t payload_bytes)
{
    struct frame_head head = {.version = FRAME_VERSION,
                              .type = (uint16_t)type,
                              .meta_len = (uint32_t)meta_len,
                              .payload_len = payload_bytes,
                              .request = request};
    struct shard_event event = {.kind = SHARD_FRAME,
                                .conn = conn,
                                .head = &head,
                                .meta = meta,
                                .payload = payload,
                                .role = k->role,
                                .token = k->token,
                                .unstable = k->unstable,
                                .share = k->share,
                                .in_flight_bytes = 123};

    kit_event(k, &event);
}

void
kit_frame(struct kit *k, uint64_t conn, enum msg_type type, uint64_t request, const ProtobufCMessage *m,
          const void *payload, size_t payload_bytes)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *meta = malloc(len + 1);

    protobuf_c_message_pack(m, meta);
    kit_bytes(k, conn, type, request, meta, len, payload, payload_bytes);
    free(meta);
}

void
kit_work(struct kit *k)
{
    for (int i = 0; shard_busy(k->shard); i++) {
        ck_assert_int_lt(i, 100000);
        kit_event(k, &(struct shard_event){.kind = SHARD_WORK});
    }
}

void
kit_durable(struct kit *k, uint64_t number)
{
    kit_event(k, &(struct shard_event){.kind = SHARD_DURABLE, .number = number});
}

void
kit_pass(struct kit *k, uint64_t ms)
{
    uint64_t until = k->now_ms + ms;

    while (shard_next_time(k->shard) <= until) {
        k->now_ms = MAX(k->now_ms, shard_next_time(k->shard));
        kit_event(k, &(struct shard_event){.kind = SHARD_TIME});
    }
    k->now_ms = until;
}

void
kit_save_ended(struct kit *k, uint64_t bytes, uint64_t count, const struct ps_error *error)
{
    ck_assert(k->save != NULL && (k->save_closing || error != NULL));
    drop_save(k);
    kit_event(k,
              &(struct shard_event){
                  .kind = SHARD_SAVE_ENDED, .bytes = bytes, .count = count, .error = error, .verified = k->verified});
    k->verified = NULL;
}

/* ---- Answers ---- */

struct kit_answer *
kit_take(struct kit *k, uint64_t conn)
{
    struct kit_answer *a = k->answers[conn];

    if (a != NULL)
        k->answers[conn] = a->next;
    return a;
}

void
kit_answer_free(struct kit_answer *a)
{
    if (a == NULL)
        return;
    arena_finish(&a->arena);
    free(a->payload);
    free(a);
}

void
kit_drop_answers(struct kit *k, uint64_t conn)
{
    while (k->answers[conn] != NULL)
        kit_answer_free(kit_take(k, conn));
}

struct kit_answer *
kit_expect(struct kit *k, uint64_t conn, enum msg_type type)
{
    struct kit_answer *a = kit_take(k, conn);

    ck_assert_msg(a != NULL, "no answer where a %s was expected", wire_type_name(type));
    ck_assert_msg(a->msg.type == type, "a %s where a %s was expected: %s", wire_type_name(a->msg.type),
                  wire_type_name(type), a->msg.type == MSG_ERROR ? a->msg.u.error->text : "");
    return a;
}

void
kit_expected(struct kit *k, uint64_t conn, enum msg_type type)
{
    kit_answer_free(kit_expect(k, conn, type));
}

void
kit_expect_error(struct kit *k, uint64_t conn, uint64_t request, enum ps_err code)
{
    struct kit_answer *a = kit_expect(k, conn, MSG_ERROR);

    ck_assert_msg(a->msg.u.error->code == code, "%s where %s was expected: %s",
                  ps_err_name((enum ps_err)a->msg.u.error->code), ps_err_name(code), a->msg.u.error->text);
    ck_assert_uint_eq(a->msg.request, request);
    ck_assert(a->msg.u.error->text[0] != '\0');
    kit_answer_free(a);
}

void
kit_expect_nothing(struct kit *k, uint64_t conn)
{
    ck_assert_msg(k->answers[conn] == NULL, "a %s where nothing was expected",
                  wire_type_name(k->answers[conn]->msg.type));
}

struct kit_answer *
kit_ask(struct kit *k, uint64_t conn, Psd__QueryKind kind, const char *job)
{
    Psd__Query m = PSD__QUERY__INIT;

    m.kind = kind;
    if (job != NULL)
        m.job = (char *)(uintptr_t)job;
    kit_frame(k, conn, MSG_QUERY, k->next_request++, &m.base, NULL, 0);
    return kit_expect(k, conn, MSG_REPORT);
}

struct kit_answer *
kit_look(struct kit *k, Psd__QueryKind kind, const char *job)
{
    const uint64_t conn = KIT_CONNS - 1;
    struct kit_answer *a;

    kit_observe(k, conn);
    a = kit_ask(k, conn, kind, job);
    kit_close(k, conn);
    return a;
}

void
kit_expect_closed(struct kit *k, uint64_t conn, enum ps_err code)
{
    kit_expect_error(k, conn, 0, code);
    ck_assert(k->closed[conn] && !k->open[conn]);
}

void
kit_ack(struct kit *k, uint64_t conn, uint64_t seq, enum ps_err code)
{
    struct kit_answer *a = kit_expect(k, conn, MSG_ACK);
    const Psd__Ack *m = a->msg.u.ack;
    enum ps_err got = m->n_code > 0 ? (enum ps_err)m->code[0] : PS_OK;

    ck_assert_uint_eq(a->msg.request, 0);
    ck_assert_uint_eq(m->n_seq, 1);
    ck_assert_uint_eq(m->seq[0], seq);
    ck_assert_msg(got == code, "%s where %s was expected: %s", ps_err_name(got), ps_err_name(code),
                  m->n_error > 0 ? m->error[0]->text : "");
    kit_answer_free(a);
}

void
kit_job_row_is_damaged(struct kit *k, const Psd__JobRow *row)
{
    const struct store_ops *ops = k->store->ops;
    size_t len = psd__job_row__get_packed_size(row);
    uint8_t key[4] = {0, 0, 0, 1}, bytes[1024];
    struct shard *shard;
    struct ps_error e;

    ck_assert_uint_le(len, sizeof bytes);
    psd__job_row__pack(row, bytes);
    ck_assert_int_eq(ops->begin(k->store, KIB), PS_OK);
    ck_assert_int_eq(ops->row_put(k->store, STORE_JOBS, (struct span){key, sizeof key}, (struct span){bytes, len}),
                     PS_OK);
    ck_assert_int_eq(ops->commit(k->store), PS_OK);
    ck_assert_int_eq(shard_new(&k->config, k->store, k->now_ms, &shard, &e), PS_ERR_IO);
    ck_assert_str_eq(e.text, "the store's row of job 1 is damaged");
}

/* ---- Workers ---- */

Psd__Job *
kit_job(const char *name, Psd__Mode mode, uint32_t workers)
{
    static Psd__Job job;
    static Psd__AgePolicy age;

    psd__job__init(&job);
    psd__age_policy__init(&age);
    job.name = (char *)name;
    job.mode = mode;
    job.workers = workers;
    job.quorum = workers;
    job.age = &age;
    return &job;
}

void
kit_hello(struct kit *k, uint64_t conn, const struct kit_hello *h)
{
    Psd__Hello m = PSD__HELLO__INIT;

    kit_open(k, conn);
    m.cluster = (char *)k->config.cluster;
    m.shard = k->config.shard;
    m.shards = k->config.shards;
    m.job = (Psd__Job *)h->job;
    m.task = h->task;
    m.incarnation = h->incarnation != 0 ? h->incarnation : h->task + 1000;
    m.resume = h->resume;
    m.acked_through = h->acked_through;
    m.lease_ms = h->lease_ms;
    m.boot = h->boot;
    m.codes = h->older ? 0 : PS_ERR_COUNT - 1;
    m.agent = (char *)(h->agent != NULL ? h->agent : "kit");
    m.metric_names = (char **)h->metric_names;
    while (h->metric_names[m.n_metric_names] != NULL)
        m.n_metric_names++;
    kit_frame(k, conn, MSG_HELLO, k->next_request++, &m.base, NULL, 0);
}

static uint64_t
shard_kit_welcomed(struct kit *k, uint64_t conn)
{
    struct kit_answer *a = kit_expect(k, conn, MSG_WELCOME);
    uint64_t last_seq = a->msg.u.welcome->last_seq;

    kit_answer_free(a);
    return last_seq;
}

void
kit_observe(struct kit *k, uint64_t conn)
{
    Psd__Hello m = PSD__HELLO__INIT;

    kit_open(k, conn);
    m.role = PSD__ROLE__OBSERVER;
    m.agent = (char *)"watcher";
    kit_frame(k, conn, MSG_HELLO, k->next_request++, &m.base, NULL, 0);
    shard_kit_welcomed(k, conn);
}

uint64_t
kit_join(struct kit *k, uint64_t conn, const Psd__Job *job, uint32_t task)
{
    kit_hello(k, conn, &(struct kit_hello){.job = job, .task = task});
    return shard_kit_welcomed(k, conn);
}

uint64_t
kit_resume(struct kit *k, uint64_t conn, const Psd__Job *job, uint32_t task, uint64_t acked_through)
{
    kit_hello(k, conn, &(struct kit_hello){.job = job, .task = task, .resume = true, .acked_through = acked_through});
    return shard_kit_welcomed(k, conn);
}

struct ps_optimizer
kit_optimizer(enum ps_optimizer_kind kind)
{
    struct ps_optimizer o;

    ck_assert_int_eq(ps_optimizer_by_name(ps_optimizer_name(kind), &o, NULL), PS_OK);
    o.learning_rate = 1;
    o.momentum = 0.5;
    o.beta1 = 0.5;
    o.beta2 = 0.75;
    o.rho = 0.5;
    o.epsilon = 1;
    return o;
}

static void
send_declare(struct kit *k, uint64_t conn, uint64_t request, const char *name, const uint64_t *dims, size_t rank,
             const struct ps_optimizer *o, Psd__InitKind init)
{
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Initializer initializer = PSD__INITIALIZER__INIT;
    struct wire_optimizer room;

    initializer.kind = init;
    initializer.b = init == PSD__INIT_KIND__UNIFORM ? 1 : 0;
    initializer.seed = 5;
    m.name = (char *)name;
    m.dims = (uint64_t *)dims;
    m.n_dims = rank;
    m.init = &initializer;
    m.optimizer = wire_optimizer_message(o, &room);
    kit_frame(k, conn, MSG_DECLARE, request, &m.base, NULL, 0);
}

void
kit_declare_as(struct kit *k, uint64_t conn, uint64_t request, const char *name, const uint64_t *dims, size_t rank,
               enum ps_optimizer_kind optimizer, Psd__InitKind init)
{
    struct ps_optimizer o = kit_optimizer(optimizer);

    send_declare(k, conn, request, name, dims, rank, &o, init);
}

uint32_t
kit_declare(struct kit *k, uint64_t conn, const char *name, uint64_t elements, enum ps_optimizer_kind optimizer)
{
    struct ps_optimizer o = kit_optimizer(optimizer);

    return kit_declare_with(k, conn, name, elements, &o);
}

uint32_t
kit_declare_with(struct kit *k, uint64_t conn, const char *name, uint64_t elements,
                 const struct ps_optimizer *optimizer)
{
    struct kit_answer *a;
    uint32_t var;

    send_declare(k, conn, k->next_request++, name, &elements, 1, optimizer, PSD__INIT_KIND__ZEROS);
    kit_work(k);
    a = kit_expect(k, conn, MSG_DECLARED);
    var = a->msg.u.declared->var;
    kit_answer_free(a);
    return var;
}

void
kit_push_many(struct kit *k, uint64_t conn, Psd__Push *m, const float *payload, size_t len)
{
    kit_frame(k, conn, MSG_PUSH, k->next_request++, &m->base, payload, len * sizeof *payload);
}

static Psd__Cursor *
set_cursor(Psd__Cursor *m, const uint64_t *cursor)
{
    *m = (Psd__Cursor)PSD__CURSOR__INIT;
    if (cursor == NULL)
        return NULL;
    m->epoch = cursor[0];
    m->position = cursor[1];
    return m;
}

void
kit_push_message(const struct kit_push *p, struct kit_push_message *m)
{
    m->push = (Psd__Push)PSD__PUSH__INIT;
    m->norm = (Psd__Norm)PSD__NORM__INIT;
    m->var = p->var;
    m->block = p->block;
    m->from_version = p->from_version != NULL ? *p->from_version : 0;
    m->push.seq = p->seq;
    m->push.clock = p->clock;
    m->push.acked_through = p->acked_through;
    m->push.n_var = m->push.n_block = 1;
    m->push.var = &m->var;
    m->push.block = &m->block;
    m->push.n_from_version = p->from_version != NULL;
    m->push.from_version = &m->from_version;
    m->push.want_value = p->want_value;
    m->push.durable = p->durable;
    m->push.cursor = set_cursor(&m->cursor, p->cursor);
    m->push.cursor_from = set_cursor(&m->cursor_from, p->cursor_from);
    if (p->norm != NULL) {
        m->norm.l2 = *p->norm;
        m->push.norm = &m->norm;
    }
}

void
kit_push(struct kit *k, uint64_t conn, const struct kit_push *p)
{
    struct kit_push_message m;

    kit_push_message(p, &m);
    kit_frame(k, conn, MSG_PUSH, p->request != 0 ? p->request : k->next_request++, &m.push.base, p->gradient,
              p->len * sizeof(float));
}

void
kit_tick_at(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock, uint64_t position)
{
    Psd__Tick m = PSD__TICK__INIT;
    Psd__Cursor cursor = PSD__CURSOR__INIT;

    m.seq = seq;
    m.clock = clock;
    m.cursor = &cursor;
    cursor.position = position;
    kit_frame(k, conn, MSG_TICK, k->next_request++, &m.base, NULL, 0);
}

void
kit_tick(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock)
{
    Psd__Tick m = PSD__TICK__INIT;

    m.seq = seq;
    m.clock = clock;
    kit_frame(k, conn, MSG_TICK, k->next_request++, &m.base, NULL, 0);
}

uint64_t
kit_barrier(struct kit *k, uint64_t conn, uint64_t seq, const char *name)
{
    Psd__Barrier m = PSD__BARRIER__INIT;

    m.seq = seq;
    m.name = (char *)name;
    kit_frame(k, conn, MSG_BARRIER, k->next_request, &m.base, NULL, 0);
    return k->next_request++;
}

void
kit_skip(struct kit *k, uint64_t conn, uint64_t seq)
{
    Psd__Skip m = PSD__SKIP__INIT;

    m.seq = seq;
    kit_frame(k, conn, MSG_SKIP, k->next_request++, &m.base, NULL, 0);
}

void
kit_skip_push(struct kit *k, uint64_t conn, uint64_t seq)
{
    Psd__Skip m = PSD__SKIP__INIT;

    m.seq = seq;
    m.push = true;
    kit_frame(k, conn, MSG_SKIP, k->next_request++, &m.base, NULL, 0);
}

void
kit_cancel(struct kit *k, uint64_t conn, uint64_t request)
{
    Psd__Cancel m = PSD__CANCEL__INIT;

    m.request = request;
    kit_frame(k, conn, MSG_CANCEL, 0, &m.base, NULL, 0);
}

void
kit_goodbye(struct kit *k, uint64_t conn, bool finished)
{
    Psd__Goodbye m = PSD__GOODBYE__INIT;

    m.finished = finished;
    kit_frame(k, conn, MSG_GOODBYE, 0, &m.base, NULL, 0);
}

static void
shard_kit_pull(struct kit *k, uint64_t conn, uint32_t var, uint32_t block, uint64_t clock, bool now)
{
    Psd__Pull m = PSD__PULL__INIT;

    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    m.clock = clock;
    m.now = now;
    kit_frame(k, conn, MSG_PULL, k->next_request, &m.base, NULL, 0);
}

uint64_t
kit_pull(struct kit *k, uint64_t conn, uint32_t var, uint32_t block, uint64_t clock)
{
    shard_kit_pull(k, conn, var, block, clock, false);
    return k->next_request++;
}

uint64_t
kit_read(struct kit *k, uint64_t conn, uint32_t var, uint32_t block, float *out, size_t n)
{
    struct kit_answer *a;
    uint64_t version;

    shard_kit_pull(k, conn, var, block, 0, true);
    k->next_request++;
    a = kit_expect(k, conn, MSG_DATA);
    ck_assert_uint_eq(a->payload_len, n);
    memcpy(out, a->payload, n * sizeof *out);
    version = a->msg.u.data->version[0];
    kit_answer_free(a);
    return version;
}

/* ---- State ---- */

static bool
hash_block(void *arg, const struct store_key *key, struct span value)
{
    uint64_t *hash = arg;
    const struct block_head *head = value.data;
    uint32_t stride = (uint32_t)round_up(head->len, 16);

    if (key->generation >= STORE_GENERATION_REDO) {
        *hash = placement_hash(value.data, value.len, *hash);
        return true;
    }
    *hash = placement_hash(&key->var, sizeof key->var, *hash);
    *hash = placement_hash(&key->block, sizeof key->block, *hash);
    *hash = placement_hash(head, sizeof *head, *hash);
    for (uint32_t i = 0; i <= head->slots; i++)
        *hash = placement_hash((const uint8_t *)value.data + layout_array(stride, i), head->len * sizeof(float), *hash);
    return true;
}

static bool
hash_row(void *arg, struct span key, struct span value)
{
    uint64_t *hash = arg;

    *hash = placement_hash(key.data, key.len, *hash);
    *hash = placement_hash(value.data, value.len, *hash);
    return true;
}

uint64_t
kit_state(struct kit *k)
{
    uint64_t hash = 0;

    ck_assert_int_eq(k->store->ops->each_block(k->store, hash_block, &hash), PS_OK);
    for (int t = 0; t < STORE_TABLES; t++)
        ck_assert_int_eq(k->store->ops->each_row(k->store, (enum store_table)t, hash_row, &hash), PS_OK);
    return hash;
}

/* ---- Variables of four equal elements ---- */

void
kit_push_four(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, float g)
{
    float gradient[4] = {g, g, g, g};

    kit_push(k, conn, &(struct kit_push){.seq = seq, .clock = clock, .var = var, .gradient = gradient, .len = 4});
}

float
kit_value_four(struct kit *k, uint64_t conn, uint32_t var, uint64_t version)
{
    float out[4];

    ck_assert_uint_eq(kit_read(k, conn, var, 0, out, 4), version);
    return out[0];
}

void
kit_ticked(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock)
{
    kit_tick(k, conn, seq, clock);
    kit_ack(k, conn, seq, PS_OK);
}

void
kit_durable_ack(struct kit *k, uint64_t conn, uint64_t seq)
{
    kit_durable(k, k->redo);
    kit_ack(k, conn, seq, PS_OK);
}

/* ---- All workers of a job ---- */

uint32_t
kit_start(struct kit *k, const Psd__Job *job)
{
    for (uint32_t task = 0; task < job->workers; task++)
        kit_join(k, task + 1, job, task);
    return kit_declare(k, 1, "w", 4, PS_SGD);
}

void
kit_resume_all(struct kit *k, const Psd__Job *job, uint64_t acked_through)
{
    for (uint32_t task = 0; task < job->workers; task++)
        kit_resume(k, task + 1, job, task, acked_through);
}

void
kit_step(struct kit *k, uint32_t workers, uint64_t seq, uint64_t clock, uint32_t var, float g)
{
    for (uint64_t conn = 1; conn <= workers; conn++)
        kit_push_four(k, conn, seq, clock, var, g);
    for (uint64_t conn = 1; conn <= workers; conn++)
        kit_drop_answers(k, conn);
    for (uint64_t conn = 1; conn <= workers; conn++)
        kit_ticked(k, conn, seq + 1, clock + 1);
}
