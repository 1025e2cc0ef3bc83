/* One function for each message that a shard sends. */
#include "tests/fuzz/client_answer.h"

#define BLOCKS 64 /* arrays of an answer */

/* An answer that is being made. */
struct fuzz_answer {
    struct fuzz_bytes *in;
    struct client_world *world;
    uint32_t shard;
    enum msg_type type;
    uint64_t request, payload_len;
    const ProtobufCMessage *message;
    uint64_t version[BLOCKS];
    uint32_t code[BLOCKS];
    uint8_t lie; /* 0: none */
};

void
client_message(struct client_world *w, uint32_t shard, enum msg_type type, uint64_t request,
               const ProtobufCMessage *message, uint64_t payload_len)
{
    struct frame_head head = {.version = FRAME_VERSION,
                              .type = (uint16_t)type,
                              .meta_len = (uint32_t)protobuf_c_message_get_packed_size(message),
                              .payload_len = payload_len,
                              .request = request};
    uint8_t *meta = malloc(head.meta_len + 1);

    ps_assert(meta != NULL);
    protobuf_c_message_pack(message, meta);
    client_world_begin(w, shard, &head, meta);
}

static void
client_answer_deliver(const struct fuzz_answer *a)
{
    client_message(a->world, a->shard, a->type, a->request, a->message, a->payload_len);
}

/* The part of this task's data that shard a->shard reports. */
static void
client_answer_place(struct fuzz_answer *a, Psd__Cursor *room, Psd__Welcome *m)
{
    const struct world_link *l = &a->world->link[a->shard];

    psd__cursor__init(room);
    room->epoch = l->cursor.epoch;
    room->position = l->cursor.position;
    if (a->lie == 6) {
        room->epoch = bytes_number(a->in);
        room->position = bytes_number(a->in);
    }
    m->cursor = l->has_cursor || a->lie == 6 ? room : NULL;
}

/* Its power was lost: it is back with an older state, perhaps with pushes that survived. */
static void
client_answer_older(struct fuzz_answer *a, const Psd__Hello *hello, Psd__Welcome *m)
{
    static uint8_t bits[2];

    m->boot = 9 + bytes_one(a->in) % 4;
    m->last_seq = hello->acked_through - bytes_one(a->in) % (hello->acked_through + 1);
    m->pushes = bytes_one(a->in);
    m->survived_boot = bytes_one(a->in) % 2 == 0 ? 1 : 9;
    m->survived_from = m->last_seq + bytes_one(a->in) % 4;
    bits[0] = bytes_one(a->in);
    bits[1] = bytes_one(a->in);
    m->survived.data = bits;
    m->survived.len = sizeof bits;
}

static void
client_answer_welcome(struct fuzz_answer *a, const Psd__Hello *hello)
{
    Psd__Welcome m = PSD__WELCOME__INIT;
    Psd__Cursor cursor;

    a->type = MSG_WELCOME;
    m.cluster = a->lie == 1 ? "other" : "fuzz";
    m.shard = a->lie == 2 ? 1 - a->shard : a->shard;
    m.shards = WORLD_SHARDS;
    m.job = hello->job;
    m.boot = a->lie == 3 ? 9 : 1;
    m.last_seq = a->lie == 9 ? 0 : hello->acked_through + (a->lie == 4 ? bytes_number(a->in) : 0);
    m.clock = a->lie == 5 ? bytes_number(a->in) : 0;
    m.defines = a->shard == 0;
    m.slowest_clock = a->lie == 6 ? bytes_number(a->in) : 0;
    client_answer_place(a, &cursor, &m);
    if (a->lie == 7 || a->lie == 8) /* no lie, but rare */
        client_answer_older(a, hello, &m);
    a->message = &m.base;
    client_answer_deliver(a);
}

/* definition: NULL when the answer goes to the worker that declared it. */
static void
client_answer_declared(struct fuzz_answer *a, const char *name, Psd__Declare *definition)
{
    Psd__Declared m = PSD__DECLARED__INIT;
    unsigned which = (unsigned char)name[1] - '0';

    a->type = MSG_DECLARED;
    m.var = a->lie == 1 ? bytes_one(a->in) : 1 + which;
    m.declare = definition;
    if (which < WORLD_VARS)
        a->world->var[which].id[a->shard] = m.var;
    a->message = &m.base;
    client_answer_deliver(a);
}

static void
client_answer_attached(struct fuzz_answer *a, const Psd__Attach *attach)
{
    const struct world_definition *d = &client_world_definitions[((unsigned char)attach->name[1] - '0') % WORLD_VARS];
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    struct wire_optimizer room;
    struct ps_optimizer optimizer;
    struct ps_error e;
    uint64_t dims[1] = {a->lie == 2 ? 1 + bytes_number(a->in) % 50000 : d->elements};

    ps_assert(ps_optimizer_by_name(a->lie == 3 ? "adagrad" : d->optimizer, &optimizer, &e) == PS_OK);
    m.name = a->lie == 4 ? "other" : attach->name;
    m.n_dims = 1;
    m.dims = dims;
    m.init = &init;
    m.optimizer = wire_optimizer_message(&optimizer, &room);
    client_answer_declared(a, attach->name, a->lie == 5 ? NULL : &m);
}

static uint64_t
block_bytes(const struct fuzz_answer *a, uint32_t var, uint32_t block)
{
    for (int i = 0; i < WORLD_VARS; i++) {
        const struct world_var *v = &a->world->var[i];

        if (v->var != NULL && v->id[a->shard] == var && block < v->layout.blocks)
            return layout_block(&v->layout, block).len * sizeof(float);
    }
    return 4;
}

static void
client_answer_data(struct fuzz_answer *a, uint64_t seq, size_t n, const uint32_t *var, const uint32_t *block,
                   const uint64_t *newer_than)
{
    Psd__Data m = PSD__DATA__INIT;

    a->type = MSG_DATA;
    n = MIN(n, BLOCKS);
    for (size_t i = 0; i < n; i++) {
        a->version[i] = a->lie == 1 ? bytes_number(a->in) : 5;
        a->code[i] = a->lie == 2 ? bytes_below(a->in, PS_ERR_COUNT + 2) : PS_OK;
        if (newer_than == NULL || a->version[i] > newer_than[i])
            a->payload_len += block_bytes(a, var[i], block[i]);
    }
    a->payload_len = MIN(a->payload_len + (a->lie == 3 ? 4 : 0), FRAME_PAYLOAD_MAX);
    m.n_version = n - (a->lie == 4 && n > 0);
    m.version = a->version;
    m.n_code = a->lie == 2 ? n : a->lie == 5 ? 1 : 0;
    m.code = a->code;
    m.seq = a->lie == 6 ? bytes_number(a->in) : seq;
    m.clock = bytes_one(a->in);
    a->message = &m.base;
    client_answer_deliver(a);
}

static void
client_answer_ack(struct fuzz_answer *a, uint64_t seq, size_t blocks)
{
    Psd__Ack m = PSD__ACK__INIT;
    Psd__AckBlocks differ = PSD__ACK_BLOCKS__INIT, *all_differ[1] = {&differ};
    uint64_t seqs[2] = {a->lie == 1 ? bytes_number(a->in) : seq, seq + 1};

    a->type = MSG_ACK;
    a->request = 0;
    a->code[0] = a->lie == 2 ? bytes_below(a->in, PS_ERR_COUNT + 2) : PS_OK;
    m.n_seq = a->lie == 3 ? 2 : 1;
    m.seq = seqs;
    m.n_code = a->lie == 2 ? 1 : 0;
    m.code = a->code;
    if (a->lie == 4 || a->lie == 5) {
        differ.seq = seq;
        differ.n_code = MIN(blocks, BLOCKS) - (a->lie == 5 && blocks > 1);
        differ.code = a->code;
        for (size_t i = 1; i < differ.n_code; i++)
            a->code[i] = PS_ERR_STALE;
        m.n_blocks = 1;
        m.blocks = all_differ;
    }
    a->message = &m.base;
    client_answer_deliver(a);
}

static void
client_answer_report(struct fuzz_answer *a, const Psd__Query *query)
{
    Psd__Report m = PSD__REPORT__INIT;
    Psd__BlockedReport blocked = PSD__BLOCKED_REPORT__INIT, *all_blocked[1] = {&blocked};
    uint32_t tasks[3] = {1, 2, 3};

    a->type = MSG_REPORT;
    m.kind = query->kind;
    if (query->kind == PSD__QUERY_KIND__BLOCKED) {
        blocked.what = a->lie == 1 ? "x" : "pull";
        blocked.job = "job";
        blocked.n_on_task = 3;
        blocked.on_task = tasks;
        blocked.on_clock = a->lie;
        m.n_blocked = 1;
        m.blocked = all_blocked;
    }
    a->message = &m.base;
    client_answer_deliver(a);
}

/* A message that reports an outcome. */
static void
client_answer_outcome(struct fuzz_answer *a, enum msg_type type)
{
    static const Psd__SaveDone saved = PSD__SAVE_DONE__INIT;
    static const Psd__CheckpointDone written = PSD__CHECKPOINT_DONE__INIT;
    static const Psd__RestoreDone restored = PSD__RESTORE_DONE__INIT;
    static const Psd__Evicted evicted = PSD__EVICTED__INIT;
    static const Psd__Dropped dropped = PSD__DROPPED__INIT;

    a->type = a->lie == 1 ? MSG_RESTORE_DONE : type;
    a->message = a->type == MSG_SAVE_DONE         ? &saved.base
                 : a->type == MSG_CHECKPOINT_DONE ? &written.base
                 : a->type == MSG_EVICTED         ? &evicted.base
                 : a->type == MSG_DROPPED         ? &dropped.base
                                                  : &restored.base;
    client_answer_deliver(a);
}

static void
client_answer_define(struct fuzz_answer *a)
{
    Psd__Defined m = PSD__DEFINED__INIT;
    Psd__Error e = PSD__ERROR__INIT;

    m.round = a->lie == 1 ? bytes_number(a->in) : bytes_below(a->in, 3);
    e.code = PS_ERR_MISMATCH;
    a->type = a->lie == 2 ? MSG_ERROR : a->lie == 3 ? MSG_EVICTED : MSG_DEFINED;
    a->message = a->type == MSG_ERROR ? &e.base : &m.base;
    client_answer_deliver(a);
}

/* The step of its data that ends so counts in all of its blocks. */
static void
client_answer_ticked(struct fuzz_answer *a, const Psd__Tick *tick)
{
    struct world_link *l = &a->world->link[a->shard];

    if (tick->cursor != NULL) {
        l->cursor = (struct ps_cursor){tick->cursor->epoch, tick->cursor->position};
        l->has_cursor = true;
    }
    client_answer_ack(a, tick->seq, 0);
}

static void
answer_error(struct fuzz_answer *a)
{
    Psd__Error m = PSD__ERROR__INIT;

    a->type = MSG_ERROR;
    m.code = bytes_below(a->in, PS_ERR_COUNT + 2);
    m.text = "no";
    a->message = &m.base;
    client_answer_deliver(a);
}

void
client_answer(struct fuzz_bytes *in, struct client_world *w, uint32_t shard, const struct client_received *h,
              uint8_t lie)
{
    struct fuzz_answer made = {.in = in, .world = w, .shard = shard, .lie = lie}, *a = &made;
    struct wire_msg msg;
    struct ps_error e;
    Psd__SetDone done = PSD__SET_DONE__INIT;

    arena_reset(&a->world->arena);
    ps_assert(wire_decode(&h->head, h->meta, &a->world->arena, &msg, &e) == PS_OK);
    a->request = h->head.request + (a->lie == 7);
    if (a->lie == 8) {
        answer_error(a);
        return;
    }
    switch (msg.type) {
    case MSG_HELLO:
        client_answer_welcome(a, msg.u.hello);
        break;
    case MSG_DECLARE:
        client_answer_declared(a, msg.u.declare->name, NULL);
        break;
    case MSG_ATTACH:
        client_answer_attached(a, msg.u.attach);
        break;
    case MSG_PULL:
        client_answer_data(a, 0, msg.u.pull->n_var, msg.u.pull->var, msg.u.pull->block,
                           msg.u.pull->n_newer_than > 0 ? msg.u.pull->newer_than : NULL);
        break;
    case MSG_PUSH:
        if (msg.u.push->want_value && a->lie != 9)
            client_answer_data(a, msg.u.push->seq, msg.u.push->n_var, msg.u.push->var, msg.u.push->block, NULL);
        else
            client_answer_ack(a, msg.u.push->seq, msg.u.push->n_var);
        break;
    case MSG_TICK:
        client_answer_ticked(a, msg.u.tick);
        break;
    case MSG_BARRIER:
        client_answer_ack(a, msg.u.barrier->seq, 0);
        break;
    case MSG_SKIP:
        client_answer_ack(a, msg.u.skip->seq, 0);
        break;
    case MSG_QUERY:
        client_answer_report(a, msg.u.query);
        break;
    case MSG_PING:
        a->type = MSG_PONG;
        a->message = &msg.u.ping->base;
        client_answer_deliver(a);
        break;
    case MSG_SAVE:
        client_answer_outcome(a, MSG_SAVE_DONE);
        break;
    case MSG_CHECKPOINT:
        client_answer_outcome(a, MSG_CHECKPOINT_DONE);
        break;
    case MSG_RESTORE:
        client_answer_outcome(a, MSG_RESTORE_DONE);
        break;
    case MSG_EVICT:
        client_answer_outcome(a, MSG_EVICTED);
        break;
    case MSG_DEFINE:
        client_answer_define(a);
        break;
    case MSG_DROP:
        client_answer_outcome(a, MSG_DROPPED);
        break;
    case MSG_SET:
        a->type = MSG_SET_DONE;
        done.variables = 2;
        a->message = &done.base;
        client_answer_deliver(a);
        break;
    default:
        break; /* CANCEL, GOODBYE, DRAIN */
    }
}
