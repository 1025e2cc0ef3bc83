/* A shard starts over a store that holds rows and values of any bytes. A store that a shard has written is edited by
 * the input (rows and blocks are overwritten in part or whole, put under other keys, erased, added), then a shard is
 * made over it. It must report what is wrong, or serve: workers and observers that come are answered, updates are
 * committed, and another shard over what it left reports the same.
 *
 * Or the shard has a redo log: its pieces, edited, left out and mixed up, are replayed into an empty one. */
#include "tests/fuzz/bytes.h"

#include "common/core/wire/wire.h"
#include "server/core/shard/shard.h"
#include "server/core/store/store_mem.h"

#define EDITS_MAX 3
#define ROWS_MAX  64
#define CONN      1
#define WORDS     4

struct subject {
    struct fuzz_bytes in;
    struct store *store;
    struct shard *shard;
    struct shard_config config;
    uint64_t requests;
    bool stopped;
};

/* ---- A shard ---- */

static enum ps_err
fuzz_store_begin(struct subject *x)
{
    struct ps_error e = {0};
    enum ps_err err = shard_new(&x->config, x->store, 1000, &x->shard, &e);

    ps_assert(err == PS_OK || e.text[0] != '\0');
    return err;
}

static void
read_answer(struct subject *x, struct shard_data *data)
{
    struct store_snapshot *snap;
    struct shard_reply reply;

    ps_assert(x->store->ops->snapshot_ref(x->store, &snap) == PS_OK);
    (void)!shard_data_open(x->shard, data, snap, &reply); /* a block that is not there is an error */
    shard_data_free(data);
    x->store->ops->snapshot_unref(x->store, snap);
}

static void
end_turn(struct subject *x)
{
    struct shard_action a;

    (void)!shard_commit(x->shard);
    while (shard_next_action(x->shard, &a)) {
        free(a.bytes);
        free(a.text);
        if (a.data != NULL)
            read_answer(x, a.data);
        x->stopped |= a.kind == SHARD_STOPPED;
    }
}

static void
fuzz_store_event(struct subject *x, struct shard_event e)
{
    e.now_ms = 1000 + x->requests;
    for (int tries = 0; shard_step(x->shard, &e) == SHARD_TURN_FULL; tries++) {
        ps_assert(tries < 3);
        end_turn(x);
    }
    end_turn(x);
}

static void
fuzz_store_send(struct subject *x, enum msg_type type, const ProtobufCMessage *m, const float *payload, size_t n)
{
    uint8_t *meta = malloc(protobuf_c_message_get_packed_size(m) + 1);
    struct frame_head head = {.version = FRAME_VERSION, .type = (uint16_t)type, .request = ++x->requests};

    ps_assert(meta != NULL);
    head.meta_len = (uint32_t)protobuf_c_message_pack(m, meta);
    head.payload_len = n * sizeof *payload;
    fuzz_store_event(
        x, (struct shard_event){
               .kind = SHARD_FRAME, .conn = CONN, .role = ROLE_ADMIN, .head = &head, .meta = meta, .payload = payload});
    free(meta);
}

/* ---- What workers do with it ---- */

static void
fuzz_store_hello(struct subject *x, uint64_t incarnation, bool resume)
{
    Psd__Hello m = PSD__HELLO__INIT;
    Psd__Job job = PSD__JOB__INIT;
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;

    job.name = "a";
    job.workers = job.quorum = 1;
    job.age = &age;
    m.cluster = "fuzz";
    m.shards = 1;
    m.job = &job;
    m.incarnation = incarnation;
    m.resume = resume;
    fuzz_store_event(x, (struct shard_event){.kind = SHARD_OPENED, .conn = CONN, .peer = "here"});
    fuzz_store_send(x, MSG_HELLO, &m.base, NULL, 0);
}

static void
fuzz_store_observe(struct subject *x)
{
    Psd__Hello m = PSD__HELLO__INIT;
    Psd__Query q = PSD__QUERY__INIT;
    Psd__Pull pull = PSD__PULL__INIT;
    uint32_t var[1] = {1}, block[1] = {0};

    m.role = PSD__ROLE__OBSERVER;
    fuzz_store_event(x, (struct shard_event){.kind = SHARD_OPENED, .conn = CONN, .peer = "here"});
    fuzz_store_send(x, MSG_HELLO, &m.base, NULL, 0);
    for (q.kind = PSD__QUERY_KIND__STATUS; (int)q.kind < 6; q.kind = (Psd__QueryKind)((int)q.kind + 1))
        fuzz_store_send(x, MSG_QUERY, &q.base, NULL, 0);
    pull.n_var = pull.n_block = 1;
    pull.var = var;
    pull.block = block;
    fuzz_store_send(x, MSG_PULL, &pull.base, NULL, 0);
    fuzz_store_event(x, (struct shard_event){.kind = SHARD_CLOSED, .conn = CONN});
}

static void
fuzz_store_declare(struct subject *x)
{
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    struct ps_optimizer sgd;
    struct wire_optimizer room;
    uint64_t dims[1] = {WORDS};
    struct ps_error e;

    ps_assert(ps_optimizer_by_name("momentum", &sgd, &e) == PS_OK);
    m.name = "v";
    m.n_dims = 1;
    m.dims = dims;
    m.init = &init;
    m.optimizer = wire_optimizer_message(&sgd, &room);
    fuzz_store_send(x, MSG_DECLARE, &m.base, NULL, 0);
    while (shard_busy(x->shard))
        fuzz_store_event(x, (struct shard_event){.kind = SHARD_WORK});
}

static void
fuzz_store_train(struct subject *x, uint64_t seq, uint64_t clock)
{
    static const float gradient[WORDS] = {1, 2, 3, 4};
    Psd__Push push = PSD__PUSH__INIT;
    Psd__Tick tick = PSD__TICK__INIT;
    uint32_t var[1] = {1}, block[1] = {0};

    push.n_var = push.n_block = 1;
    push.var = var;
    push.block = block;
    push.seq = seq;
    push.clock = clock;
    push.durable = x->config.durable;
    fuzz_store_send(x, MSG_PUSH, &push.base, gradient, WORDS);
    tick.seq = seq + 1;
    tick.clock = clock + 1;
    fuzz_store_send(x, MSG_TICK, &tick.base, NULL, 0);
}

/* ---- Edits ---- */

struct fuzz_entry {
    bool block;
    enum store_table table;
    struct store_key at;
    uint8_t key[STORE_ROW_KEY_MAX];
    size_t key_len, len;
    uint8_t *value;
};

struct entries {
    struct fuzz_entry item[ROWS_MAX];
    size_t len;
    enum store_table table;
};

static uint8_t *
fuzz_store_copy(struct span value)
{
    uint8_t *bytes = malloc(value.len + 1);

    ps_assert(bytes != NULL);
    memcpy(bytes, value.data, value.len);
    return bytes;
}

static bool
collect_row(void *arg, struct span key, struct span value)
{
    struct entries *all = arg;
    struct fuzz_entry *e = &all->item[all->len++];

    *e =
        (struct fuzz_entry){.table = all->table, .key_len = key.len, .len = value.len, .value = fuzz_store_copy(value)};
    memcpy(e->key, key.data, key.len);
    return all->len < ROWS_MAX;
}

static bool
collect_block(void *arg, const struct store_key *key, struct span value)
{
    struct entries *all = arg;

    all->item[all->len++] =
        (struct fuzz_entry){.block = true, .at = *key, .len = value.len, .value = fuzz_store_copy(value)};
    return all->len < ROWS_MAX;
}

static void
fuzz_store_collect(struct subject *x, struct entries *all)
{
    *all = (struct entries){0};
    for (int t = 0; t < STORE_TABLES; t++) {
        all->table = (enum store_table)t;
        ps_assert(x->store->ops->each_row(x->store, all->table, collect_row, all) == PS_OK);
    }
    ps_assert(x->store->ops->each_block(x->store, collect_block, all) == PS_OK);
}

/* Some bytes of it become others; its end may go, or come. */
static void
fuzz_store_scribble(struct subject *x, struct fuzz_entry *e)
{
    size_t at = e->len > 0 ? bytes_one(&x->in) % MIN(e->len, 64u) : 0;

    for (uint32_t n = bytes_below(&x->in, 8) + 1; n > 0 && at < e->len; n--)
        e->value[at++] = bytes_one(&x->in);
}

static void
fuzz_store_rewrite(struct subject *x, struct fuzz_entry *e)
{
    size_t n = bytes_one(&x->in);

    free(e->value);
    e->len = MIN(n, x->in.left);
    e->value = (uint8_t *)bytes_text(&x->in, n);
}

static void
rename_entry(struct subject *x, struct fuzz_entry *e)
{
    uint8_t byte = bytes_one(&x->in);

    e->at.var = e->block ? byte % 4u : 0;
    e->at.block = byte / 4u % 4u;
    e->at.generation = byte / 16u % 4u;
    e->table = (enum store_table)(byte / 64u + (byte & 1u));
    for (size_t i = 0; i < e->key_len && byte % 3u != 0; i++)
        e->key[i] ^= i + 1 == e->key_len ? bytes_below(&x->in, 4) : 0;
    e->key_len -= byte % 16u == 15 && e->key_len > 1;
}

static size_t
fuzz_store_fitting(size_t len)
{
    size_t size = layout_value_size(0);

    for (unsigned c = 1; c < 3 && size < len; c++)
        size = layout_value_size((int)c);
    return size;
}

static void
fuzz_store_put(struct subject *x, const struct fuzz_entry *e)
{
    const struct store_ops *ops = x->store->ops;
    size_t size = fuzz_store_fitting(e->len);
    struct span old;
    void *place;

    if (!e->block) {
        ps_assert(ops->row_put(x->store, e->table, (struct span){e->key, e->key_len},
                               (struct span){e->value, e->len}) == PS_OK);
        return;
    }
    if (ops->get(x->store, &e->at, &old) == PS_OK)
        size = old.len; /* the same for a key's whole life */
    ps_assert(ops->reserve(x->store, &e->at, size, &place) == PS_OK);
    memset(place, 0, size);
    memcpy(place, e->value, MIN(size, e->len));
}

static void
fuzz_store_erase(struct subject *x, const struct fuzz_entry *e)
{
    const struct store_ops *ops = x->store->ops;

    if (e->block)
        (void)!ops->erase(x->store, &e->at);
    else
        (void)!ops->row_erase(x->store, e->table, (struct span){e->key, e->key_len});
}

static void
fuzz_store_edit(struct subject *x, const struct entries *all)
{
    struct fuzz_entry e = all->item[bytes_one(&x->in) % all->len];
    uint8_t how = bytes_one(&x->in);

    e.value = fuzz_store_copy((struct span){e.value, e.len});
    if (how % 8 == 7)
        fuzz_store_erase(x, &e);
    if (how % 8 >= 5)
        rename_entry(x, &e);
    if (how % 8 == 4)
        fuzz_store_rewrite(x, &e);
    else if (how % 2 == 0)
        fuzz_store_scribble(x, &e);
    if (how < 240)
        fuzz_store_put(x, &e);
    else
        fuzz_store_erase(x, &e);
    free(e.value);
}

static void
edit_store(struct subject *x)
{
    struct entries all;

    fuzz_store_collect(x, &all);
    ps_assert(x->store->ops->begin(x->store, STORE_ROOM_TURN) == PS_OK);
    for (uint32_t edits = 1 + bytes_below(&x->in, EDITS_MAX); edits > 0 && x->in.left > 0; edits--)
        fuzz_store_edit(x, &all);
    ps_assert(x->store->ops->commit(x->store) == PS_OK);
    for (size_t i = 0; i < all.len; i++)
        free(all.item[i].value);
}

/* ---- The input ---- */

static void
fuzz_store_serve(struct subject *x)
{
    fuzz_store_observe(x);
    fuzz_store_hello(x, 1, true);
    fuzz_store_train(x, 5, 2);
    fuzz_store_event(x, (struct shard_event){.kind = SHARD_CLOSED, .conn = CONN});
    fuzz_store_hello(x, 2, false);
    fuzz_store_declare(x);
    fuzz_store_train(x, 1, 0);
    fuzz_store_train(x, 1, 2);
    fuzz_store_event(x, (struct shard_event){.kind = SHARD_CLOSED, .conn = CONN});
    fuzz_store_event(x, (struct shard_event){.kind = SHARD_DRAIN});
    ps_assert(x->stopped);
}

static void
run_some(struct subject *x)
{
    ps_assert(fuzz_store_begin(x) == PS_OK);
    fuzz_store_hello(x, 1, false);
    fuzz_store_declare(x);
    fuzz_store_train(x, 1, 0);
    fuzz_store_train(x, 3, 1);
}

static void
end_shard(struct subject *x)
{
    shard_free(x->shard);
    store_mem_crash(x->store);
    x->stopped = false;
}

static void
start_over_edited(struct subject *x)
{
    end_shard(x);
    edit_store(x);
    if (fuzz_store_begin(x) != PS_OK)
        return;
    fuzz_store_serve(x);
    end_shard(x);
    ps_assert(fuzz_store_begin(x) == PS_OK);
    shard_free(x->shard);
}

/* A piece as the log has it, or another one, or a part of it, or with other bytes. */
static enum ps_err
replay_one(struct subject *x, const struct entries *all, size_t i)
{
    uint8_t how = bytes_one(&x->in);
    struct fuzz_entry e = all->item[how >= 240 ? how % all->len : i];
    struct ps_error error = {0};
    enum ps_err err;

    e.value = fuzz_store_copy((struct span){e.value, e.len});
    if (how % 16 >= 12)
        fuzz_store_scribble(x, &e);
    if (how % 16 == 15)
        e.len = MIN(e.len, bytes_one(&x->in));
    err = shard_replay_piece(x->shard, (struct span){e.value, e.len}, &error);
    ps_assert(err == PS_OK || error.text[0] != '\0');
    free(e.value);
    return err;
}

static void
replay_edited(struct subject *x)
{
    struct entries all = {0};
    struct store_key from = store_redo_key(1);
    uint64_t records;
    struct ps_error e;
    enum ps_err err = PS_OK;

    ps_assert(x->store->ops->each_block_from(x->store, &from, collect_block, &all) == PS_OK && all.len > 0);
    end_shard(x);
    x->store->ops->close(x->store);
    x->store = store_mem_new(64 * MIB);
    ps_assert(x->store != NULL && fuzz_store_begin(x) == PS_OK);
    for (size_t i = 0; i < all.len && err == PS_OK; i++)
        err = replay_one(x, &all, i);
    if (err == PS_OK && shard_replay_end(x->shard, &records, &e) == PS_OK)
        fuzz_store_serve(x);
    shard_free(x->shard);
    store_mem_crash(x->store);
    for (size_t i = 0; i < all.len; i++)
        free(all.item[i].value);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct subject x = {.in = {data, size}, .store = store_mem_new(64 * MIB)};

    ps_assert(x.store != NULL);
    x.config = (struct shard_config){.cluster = "fuzz", .shards = 1, .boot = 7, .version = "0", .live_dir = "/live"};
    x.config.durable = bytes_one(&x.in) % 2 == 1;
    run_some(&x);
    if (x.config.durable)
        replay_edited(&x);
    else
        start_over_edited(&x);
    x.store->ops->close(x.store);
    return 0;
}
