/* Choices become frames. Most of what is sent makes sense: the next sequence number, a block that exists, a payload of
 * its length. Some does not. */
#include "tests/fuzz/shard_script.h"

#include <math.h>

#include "common/core/cluster/placement.h"

#define MEMBERS_MAX 4 /* blocks of one frame */

/* ---- Choices ---- */

struct world_conn *
script_conn(struct shard_script *s)
{
    return &s->world.conn[bytes_below(&s->in, WORLD_CONNS)];
}

static struct session *
session_of(const struct shard_script *s, const struct world_conn *c)
{
    struct connection *at = connection_find(s->world.shard, c->id);

    return at != NULL ? at->session : NULL;
}

/* Mostly the next one; sometimes one that was used, or a gap. */
static uint64_t
some_seq(struct shard_script *s, const struct world_conn *c)
{
    const struct session *session = session_of(s, c);
    uint64_t next = session != NULL ? session->next_seq : 1;
    uint8_t how = bytes_one(&s->in);

    if (how < 200)
        return next;
    if (how < 250)
        return next > how % 8u ? next - how % 8u : 1;
    return next + how % 3u;
}

static uint64_t
some_clock(struct shard_script *s, const struct world_conn *c, unsigned ahead)
{
    const struct session *session = session_of(s, c);
    uint64_t clock = session != NULL ? session->clock : 0;
    uint8_t how = bytes_one(&s->in);

    if (how < 220)
        return clock + ahead;
    return how < 240 ? clock + how % 4u : bytes_number(&s->in);
}

/* What the worker claims to know: mostly all that is resolved. */
static uint64_t
some_acked(struct shard_script *s, const struct world_conn *c)
{
    const struct session *session = session_of(s, c);
    uint8_t how = bytes_one(&s->in);

    if (session == NULL || how < 128)
        return 0;
    return how < 240 ? session->last_seq : bytes_number(&s->in);
}

/* ---- Frames ---- */

void
script_send(struct shard_script *s, struct world_conn *c, struct world_frame f, const ProtobufCMessage *m)
{
    uint8_t *meta;

    if (c->id == 0 || c->requests.len == WORLD_ASKED || c->seqs.len == WORLD_ASKED)
        return;
    f.meta_len = protobuf_c_message_get_packed_size(m);
    meta = malloc(f.meta_len + 1);
    ps_assert(meta != NULL);
    protobuf_c_message_pack(m, meta);
    f.meta = meta;
    if (f.request == 0)
        f.request = ++s->world.requests;
    world_frame(&s->world, c, &f);
    free(meta);
}

static void
fill_job(Psd__Job *job, Psd__AgePolicy *age, uint32_t which, char name[2])
{
    static const Psd__Mode modes[SCRIPT_JOBS] = {PSD__MODE__ASYNC, PSD__MODE__SSP, PSD__MODE__SYNC, PSD__MODE__SYNC,
                                                 PSD__MODE__SYNC};

    name[0] = (char)('a' + which);
    name[1] = '\0';
    job->name = name;
    job->mode = modes[which];
    job->workers = which == 4 ? 1 : which == 3 ? SCRIPT_WORKERS : 2;
    job->bound = 1;
    job->quorum = which == 3 ? 2 : job->workers;
    job->lapse = which == 3 ? PSD__LAPSE__FAIL : PSD__LAPSE__SHRINK;
    if (which == 0)
        *age = (Psd__AgePolicy){.base = age->base, .kind = PSD__AGE_KIND__AGE_EXPONENTIAL, .parameter = 0.5};
    if (which == 1 || which == 3)
        *age = (Psd__AgePolicy){.base = age->base, .kind = PSD__AGE_KIND__AGE_CUTOFF, .parameter = 1};
    job->age = age;
}

static void
hello_as(struct shard_script *s, struct world_conn *c, uint32_t which, uint32_t task, uint8_t how)
{
    Psd__Hello m = PSD__HELLO__INIT;
    Psd__Job job = PSD__JOB__INIT;
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    char name[2];

    if (c->id == 0)
        world_open(&s->world, c);
    fill_job(&job, &age, which, name);
    if (how >= 250)
        job.workers = 1 + bytes_below(&s->in, 4);
    m.cluster = how == 249 ? "other" : "fuzz";
    m.shard = s->world.config.shard;
    m.shards = s->world.config.shards;
    m.job = &job;
    m.task = task;
    m.agent = "here 1";
    m.lease_ms = how % 4 == 3 ? 2000 : 0;
    if (how % 2 == 1 || s->incarnation[which][task] == 0)
        s->incarnation[which][task] = 1 + which * 1000 + task * 100 + how % 97u;
    else
        m.resume = how % 8 != 0;
    m.incarnation = s->incarnation[which][task];
    m.acked_through = bytes_number(&s->in);
    c->job = which;
    c->task = task;
    script_send(s, c, (struct world_frame){.type = MSG_HELLO, .asks = true}, &m.base);
}

void
script_hello(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    uint32_t which = bytes_below(&s->in, SCRIPT_JOBS), task = bytes_below(&s->in, SCRIPT_WORKERS);

    hello_as(s, c, which, task, bytes_one(&s->in));
}

void
script_observe(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Hello m = PSD__HELLO__INIT;

    if (c->id == 0)
        world_open(&s->world, c);
    m.role = PSD__ROLE__OBSERVER;
    m.agent = "psctl";
    script_send(s, c, (struct world_frame){.type = MSG_HELLO, .asks = true}, &m.base);
}

/* Learning rates that keep numbers finite for long; the optimizer goes by the name, so that workers agree. */
static void
fill_optimizer(Psd__Optimizer *o, struct wire_optimizer *room, uint32_t which)
{
    struct ps_optimizer made = {.kind = (enum ps_optimizer_kind)(which % PS_OPTIMIZER_KINDS)};
    const char *name = ps_optimizer_name(made.kind);
    struct ps_error e;

    ps_assert(ps_optimizer_by_name(name, &made, &e) == PS_OK);
    if (which % 3 == 1)
        made.clip = (struct ps_clip){.kind = which % 2 ? PS_CLIP_BLOCK_NORM : PS_CLIP_GIVEN_NORM, .limit = 1};
    if (which % 3 == 2)
        made.schedule = (struct ps_schedule){.kind = PS_SCHEDULE_LINEAR, .steps = 20, .factor = 0.5};
    *o = *wire_optimizer_message(&made, room);
}

void
script_declare(struct shard_script *s)
{
    static const uint64_t sizes[] = {4, 1, 10, 1008, 1009, 3000, 17000, 40000};
    struct world_conn *c = script_conn(s);
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Optimizer o = PSD__OPTIMIZER__INIT;
    struct wire_optimizer room;
    uint32_t which = bytes_below(&s->in, 32);
    uint64_t dims[1] = {sizes[which % ARRAY_LEN(sizes)]};
    uint8_t how = bytes_one(&s->in);
    char name[8];

    snprintf(name, sizeof name, "v%u", which);
    if (how >= 250) /* not as it was declared before, or more than there is room for */
        dims[0] = bytes_number(&s->in);
    m.name = name;
    m.n_dims = 1;
    m.dims = dims;
    init.kind = which % 5 == 4 ? PSD__INIT_KIND__HE_NORMAL : (Psd__InitKind)(which % 3);
    init.a = 0.5;
    if (which >= 240)
        init.kind = PSD__INIT_KIND__GIVEN;
    m.gives = which & 1;
    m.init = &init;
    fill_optimizer(&o, &room, which);
    m.optimizer = &o;
    m.nonfinite = which % 7 == 6 ? PSD__NON_FINITE__ALLOW : PSD__NON_FINITE__REFUSE;
    script_send(s, c, (struct world_frame){.type = MSG_DECLARE, .asks = true}, &m.base);
}

/* Blocks of variables that there are, or nearly. */
struct some_blocks {
    uint32_t var[MEMBERS_MAX], block[MEMBERS_MAX];
    uint64_t number[MEMBERS_MAX]; /* from_version, newer_than */
    size_t n, floats;
};

static void
some_blocks(struct shard_script *s, struct some_blocks *out)
{
    const struct shard *shard = s->world.shard;
    uint8_t how = bytes_one(&s->in);

    *out = (struct some_blocks){.n = 1 + (how < 128 ? 0 : how % MEMBERS_MAX)};
    for (size_t i = 0; i < out->n; i++) {
        uint32_t id = 1 + bytes_below(&s->in, MAX(MIN(MAX(shard->variables.next, 1u) - 1, 255u), 1u) + (how >= 250));
        uint32_t block = bytes_one(&s->in);
        const struct variable *v = variable_find(shard, id);

        if (v != NULL && v->count > 0 && how < 252)
            block = (uint32_t)placement_nth(v->start, s->world.config.shard, s->world.config.shards, block % v->count);
        out->var[i] = id;
        out->block[i] = block;
        if (v != NULL && block < v->def->layout.blocks)
            out->floats += layout_block(&v->def->layout, block).len;
        if (v != NULL && v->ready > 0)
            out->number[i] = v->blocks[0].version - MIN(v->blocks[0].version, how % 3u);
    }
}

void
script_pull(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Pull m = PSD__PULL__INIT;
    struct some_blocks b;
    uint8_t how = bytes_one(&s->in);

    some_blocks(s, &b);
    m.n_var = m.n_block = b.n;
    m.var = b.var;
    m.block = b.block;
    m.n_newer_than = how % 4 == 3 ? b.n : 0;
    m.newer_than = b.number;
    m.clock = some_clock(s, c, how % 3);
    m.now = how >= 224;
    script_send(s, c, (struct world_frame){.type = MSG_PULL, .asks = true}, &m.base);
}

/* The data of a step, mostly that of the worker's clock. */
static void
some_place(struct shard_script *s, uint64_t clock, Psd__Cursor places[2])
{
    uint8_t how = bytes_one(&s->in);

    places[0].epoch = places[1].epoch = how / 16u % 2u;
    places[0].position = how < 200 ? clock : clock + how % 4u;
    places[1].position = how < 240 ? places[0].position + 1 : places[0].position + how % 3u + 1;
}

void
script_push(struct shard_script *s)
{
    static const float values[] = {1, -1, 0.5f, 0, 1e-20f, 3, 1e30f, -2};
    struct world_conn *c = script_conn(s);
    Psd__Push m = PSD__PUSH__INIT;
    Psd__Norm norm = PSD__NORM__INIT;
    Psd__Cursor places[2] = {PSD__CURSOR__INIT, PSD__CURSOR__INIT};
    struct some_blocks b;
    uint8_t how = bytes_one(&s->in);
    float value = values[how % 8];

    some_blocks(s, &b);
    m.n_var = m.n_block = b.n;
    m.var = b.var;
    m.block = b.block;
    m.n_from_version = how % 16 >= 12 ? b.n : 0;
    m.from_version = b.number;
    m.want_value = how & 0x80;
    norm.l2 = 2;
    m.norm = how & 0x40 ? &norm : NULL;
    m.seq = some_seq(s, c);
    m.clock = some_clock(s, c, 0);
    m.acked_through = some_acked(s, c);
    m.durable = how & 0x10;
    if (how & 0x20) {
        some_place(s, m.clock, places);
        m.cursor_from = &places[0];
        m.cursor = &places[1];
    }
    if (how == 0xff)
        b.floats += 1;
    if (how == 0xfe)
        value = NAN;
    script_send(s, c, (struct world_frame){.type = MSG_PUSH, .seq = m.seq, .value = value, .n = b.floats}, &m.base);
}

void
script_tick(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Tick m = PSD__TICK__INIT;
    Psd__Metrics metrics = PSD__METRICS__INIT;
    Psd__Cursor at = PSD__CURSOR__INIT;
    double values[WIRE_METRICS_MAX + 2];

    m.seq = some_seq(s, c);
    m.clock = some_clock(s, c, 1);
    m.acked_through = some_acked(s, c);
    metrics.n_value = (m.clock ^ m.seq) % ARRAY_LEN(values); /* 33 are too many */
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        values[i] = i == 7 ? NAN : (double)(m.clock * i);
    metrics.value = values;
    at.position = m.clock % 5;
    metrics.at = at.position > 0 ? &at : NULL;
    m.metrics = m.seq % 3 > 0 ? &metrics : NULL;
    script_send(s, c, (struct world_frame){.type = MSG_TICK, .seq = m.seq}, &m.base);
}

void
script_barrier(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Barrier m = PSD__BARRIER__INIT;
    Psd__Place place = PSD__PLACE__INIT;
    Psd__Cursor at = PSD__CURSOR__INIT;

    m.seq = some_seq(s, c);
    m.name = bytes_below(&s->in, 2) != 0 ? "one" : "two";
    m.acked_through = some_acked(s, c);
    at.position = m.seq % 7;
    place.at = at.position > 0 ? &at : NULL;
    place.again = m.seq % 11 == 0;
    m.place = m.seq % 2 > 0 ? &place : NULL;
    script_send(s, c, (struct world_frame){.type = MSG_BARRIER, .seq = m.seq}, &m.base);
}

void
script_skip(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Skip m = PSD__SKIP__INIT;

    m.seq = some_seq(s, c);
    m.acked_through = some_acked(s, c);
    script_send(s, c, (struct world_frame){.type = MSG_SKIP, .seq = m.seq}, &m.base);
}

void
script_cancel(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Cancel m = PSD__CANCEL__INIT;
    uint8_t how = bytes_one(&s->in);

    m.request = c->requests.len > 0 ? c->requests.number[how % c->requests.len]
                                    : s->world.requests - MIN(how, s->world.requests);
    script_send(s, c, (struct world_frame){.type = MSG_CANCEL}, &m.base);
}

void
script_set(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Set m = PSD__SET__INIT;
    Psd__Parameter p = PSD__PARAMETER__INIT, *parameters[1] = {&p};
    Psd__Schedule schedule = PSD__SCHEDULE__INIT;
    Psd__Clip clip = PSD__CLIP__INIT;
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    Psd__Bound bound = PSD__BOUND__INIT;
    uint8_t how = bytes_one(&s->in);
    char job[2] = {(char)('a' + bytes_below(&s->in, SCRIPT_JOBS)), '\0'};

    m.job = job;
    m.variables = how & 1 ? "v?" : how & 2 ? "*" : "";
    p.name = how & 4 ? "learning_rate" : "momentum";
    p.value = bytes_one(&s->in) / 256.0;
    m.n_parameter = how & 3 && how & 8;
    m.parameter = parameters;
    schedule.kind = PSD__SCHEDULE_KIND__SCHEDULE_STEP;
    schedule.steps = 3;
    schedule.factor = 0.5;
    m.schedule = how & 3 && how & 16 ? &schedule : NULL;
    m.begin_now = m.schedule != NULL && how % 3 > 0;
    m.careful = how % 7 > 3;
    clip.kind = PSD__CLIP_KIND__CLIP_VALUE;
    clip.limit = 0.1;
    m.clip = how & 3 && how & 32 ? &clip : NULL;
    age.kind = PSD__AGE_KIND__AGE_INVERSE;
    m.age = how & 64 ? &age : NULL;
    bound.clocks = how % 5;
    m.bound = how & 128 ? &bound : NULL;
    m.workers = how % 11 == 0 ? 1 + how % 4 : 0;
    script_send(s, c, (struct world_frame){.type = MSG_SET, .asks = true}, &m.base);
}

void
script_query(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Query m = PSD__QUERY__INIT;
    uint8_t how = bytes_one(&s->in);

    m.kind = (Psd__QueryKind)(how % 6);
    m.job = how & 64 ? "c" : "";
    m.after = how & 128 ? "c/v1" : "";
    script_send(s, c, (struct world_frame){.type = MSG_QUERY, .asks = true}, &m.base);
}

void
script_ping(struct shard_script *s)
{
    Psd__Ping m = PSD__PING__INIT;

    script_send(s, script_conn(s), (struct world_frame){.type = MSG_PING, .asks = true}, &m.base);
}

void
script_goodbye(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Goodbye m = PSD__GOODBYE__INIT;

    m.finished = bytes_below(&s->in, 4) != 0;
    script_send(s, c, (struct world_frame){.type = MSG_GOODBYE}, &m.base);
}

void
script_round(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Goodbye m = PSD__GOODBYE__INIT;
    uint32_t which = c->job, task = c->task;
    uint8_t how = bytes_one(&s->in) | 1; /* another incarnation */

    if (session_of(s, c) == NULL)
        return;
    m.finished = true;
    script_send(s, c, (struct world_frame){.type = MSG_GOODBYE}, &m.base);
    world_turn(&s->world);
    world_lose(&s->world, c);
    hello_as(s, c, which, task, MIN(how, 247));
}

void
script_attach(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Attach m = PSD__ATTACH__INIT;
    uint8_t how = bytes_one(&s->in);
    char name[8], job[2] = {(char)('a' + how / 32 % SCRIPT_JOBS), '\0'};

    snprintf(name, sizeof name, "v%u", how % 32u);
    m.name = name;
    m.job = how >= 250 ? "nobody's" : job;
    script_send(s, c, (struct world_frame){.type = MSG_ATTACH, .asks = true}, &m.base);
}

void
script_save(struct shard_script *s)
{
    Psd__Save m = PSD__SAVE__INIT;

    script_send(s, script_conn(s), (struct world_frame){.type = MSG_SAVE, .asks = true}, &m.base);
}

void
script_evict(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    char name[2] = {(char)('a' + bytes_below(&s->in, SCRIPT_JOBS)), '\0'};
    Psd__Evict m = PSD__EVICT__INIT;

    m.job = name;
    m.task = bytes_below(&s->in, SCRIPT_WORKERS);
    script_send(s, c, (struct world_frame){.type = MSG_EVICT, .asks = true}, &m.base);
}

/* Two of three fields, each of two values. */
void
script_define(struct shard_script *s)
{
    static const char *const names[] = {"rows", "batch", "seed"}, *const values[] = {"1", "2"};
    struct world_conn *c = script_conn(s);
    uint8_t how = bytes_one(&s->in);
    Psd__DefinitionField field[2] = {PSD__DEFINITION_FIELD__INIT, PSD__DEFINITION_FIELD__INIT},
                         *list[2] = {&field[0], &field[1]};
    Psd__Define m = PSD__DEFINE__INIT;

    for (uint32_t i = 0; i < 2; i++) {
        field[i].name = (char *)names[(how % 3 + i) % 3];
        field[i].value = (char *)values[how >> (3 + i) & 1];
    }
    m.n_field = how >= 250 ? 0 : 1 + (how >> 5 & 1);
    m.field = list;
    m.again = how >> 6 & 1;
    script_send(s, c, (struct world_frame){.type = MSG_DEFINE, .asks = true}, &m.base);
}

void
script_drop(struct shard_script *s)
{
    static const char *const patterns[] = {"", "", "*", "v1*", "v3"};
    struct world_conn *c = script_conn(s);
    char name[2] = {(char)('a' + bytes_below(&s->in, SCRIPT_JOBS)), '\0'};
    uint8_t how = bytes_one(&s->in);
    Psd__Drop m = PSD__DROP__INIT;

    m.job = name;
    m.variables = (char *)(uintptr_t)patterns[how % ARRAY_LEN(patterns)];
    m.force = how & 0x80;
    m.check = how & 0x40;
    script_send(s, c, (struct world_frame){.type = MSG_DROP, .asks = true}, &m.base);
}

/* The assign that a worker's job has not decided, if there is one and it is to go on: mostly so. */
static void
some_assign(const struct job *job, uint8_t how, Psd__Assign *m)
{
    const struct assign_slot *slot = job != NULL && how < 230 ? assigns_undecided(&job->assigns) : NULL;

    m->attempt = slot != NULL ? slot->attempt : 1 + how % 4u;
    m->number = slot != NULL ? slot->number : MAX(job != NULL ? job->assigns.begun : 0, 1u) + how % 3u;
    m->blocks = slot != NULL ? slot->blocks + (how == 7) : how;
    m->committed = job != NULL ? job->assigns.assigned : 0;
}

void
script_assign(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    const struct connection *conn = connection_find(s->world.shard, c->id);
    const struct job *job = conn != NULL && conn->session != NULL ? conn->session->job : NULL;
    struct world_frame f = {.type = MSG_ASSIGN, .asks = true};
    Psd__Assign m = PSD__ASSIGN__INIT;
    struct some_blocks b;
    uint8_t how = bytes_one(&s->in);

    some_assign(job, how, &m);
    m.step = (Psd__AssignStep)bytes_below(&s->in, PSD__ASSIGN_STEP__GIVE_UP + 1);
    if (m.step == PSD__ASSIGN_STEP__STAGE) {
        some_blocks(s, &b);
        m.n_var = m.n_block = b.n;
        m.var = b.var;
        m.block = b.block;
        f.value = (float)how;
        f.n = b.floats + (how == 255);
    }
    m.clock = some_clock(s, c, how % 3);
    m.reset_slots = how & 0x10;
    m.durable = how & 0x20;
    m.first = how & 0x40;
    script_send(s, c, f, &m.base);
}

/* Groups of two, of which one is of another cluster. A request is refused, or answered in time: no two of an index, no
 * two requests of a connection, and no short deadlines. */
void
script_meet(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    Psd__Meet m = PSD__MEET__INIT;
    uint8_t how = bytes_one(&s->in);

    m.cluster = how >= 250 ? "other" : "fuzz";
    m.group = how & 1 ? "a" : "b";
    m.workers = 2 + (how >= 240);
    m.task = how / 2 % 2;
    m.ranks_min = how / 4 % 3;
    m.incarnation = 1 + how / 16 % 2;
    m.attempt = 1 + how / 32 % 4;
    m.settle_ms = 100;
    m.timeout_ms = how & 8 ? 1000 : 0;
    m.address = "127.0.0.1:1";
    m.host = "h";
    script_send(s, c, (struct world_frame){.type = MSG_MEET, .asks = true}, &m.base);
}

/* Any type, any metadata; a payload of one number, so that blocks still tell whether they were torn. */
void
script_raw_frame(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    struct world_frame f = {.type = (enum msg_type)(1 + bytes_below(&s->in, MSG_TYPE_MAX - 1))};
    char *meta;

    if (c->id == 0)
        return;
    f.request = bytes_one(&s->in);
    f.n = bytes_one(&s->in);
    f.value = 1;
    f.meta_len = bytes_one(&s->in);
    f.meta_len = MIN(f.meta_len, s->in.left);
    f.meta = meta = bytes_text(&s->in, f.meta_len);
    c->wild = true;
    world_frame(&s->world, c, &f);
    free(meta);
}
