/* The client core among hostile shards: an input is a script of what callers start, cancel and free, of connections
 * that come and go, of time, and of what shards answer. client_world.h says what is checked.
 *
 * An answer is an honest one to a frame that was sent, mostly; a byte says which part of it is a lie: its request, a
 * length, a count, a code, a version, its type. One step is a frame of bytes. */
#include "tests/fuzz/client_answer.h"

#define STEPS_MAX 600

struct client_script {
    struct fuzz_bytes in;
    struct client_world world;
    uint64_t lives;
};

/* ---- Callers ---- */

static struct world_op *
any_op(struct client_script *s)
{
    return &s->world.op[bytes_below(&s->in, WORLD_OPS)];
}

/* One that is not used; the oldest is freed when all are, done or not. */
static struct world_op *
new_op(struct client_script *s)
{
    struct client_world *w = &s->world;

    for (int i = 0; i < WORLD_OPS; i++)
        if (w->op[i].op == NULL)
            return &w->op[i];
    client_world_free_op(w, &w->op[0]);
    return &w->op[0];
}

static void
fuzz_client_started(struct client_script *s, struct world_op *o, enum ps_err err, const struct ps_error *e)
{
    if (err != PS_OK) {
        ps_assert(err == e->code && e->text[0] != '\0');
        for (size_t i = 0; i < o->n; i++) {
            free(o->grads[i]);
            free(o->out[i]);
        }
        *o = (struct world_op){0};
    }
    client_world_perform(&s->world);
}

static float *
fuzz_client_floats(uint64_t n)
{
    float *x = calloc(n, sizeof *x);

    ps_assert(x != NULL);
    return x;
}

static void
fuzz_client_declare(struct client_script *s)
{
    size_t which = bytes_below(&s->in, WORLD_VARS);
    const struct world_definition *d = &client_world_definitions[which];
    struct world_var *v = &s->world.var[which];
    struct ps_var_spec spec = {.rank = 1, .dims = {d->elements}};
    char name[] = {'v', (char)('0' + which), '\0'};
    struct world_op *o = new_op(s);
    struct core_var *var = NULL;
    struct ps_error e = {0};
    enum ps_err err;

    spec.name = name;
    ps_assert(ps_optimizer_by_name(d->optimizer, &spec.optimizer, &e) == PS_OK);
    err = core_declare(s->world.core, &spec, &var, &o->op, &e);
    if (err == PS_OK) {
        v->var = var;
        v->elements = d->elements;
        layout_init(&v->layout, v->elements, optimizer_slots(&spec.optimizer));
        o->declares = which + 1;
    }
    fuzz_client_started(s, o, err, &e);
}

static void
fuzz_client_attach(struct client_script *s)
{
    size_t which = bytes_below(&s->in, WORLD_VARS);
    char name[] = {'v', (char)('0' + which), '\0'};
    struct world_op *o = new_op(s);
    struct ps_error e = {0};

    o->attaches = which + 1;
    fuzz_client_started(s, o, core_attach(s->world.core, name, &o->op, &e), &e);
}

/* Some variables that are declared, each once, with buffers for them. */
static size_t
some_vars(struct client_script *s, struct world_op *o, struct core_var *vars[], bool grads, bool out)
{
    uint8_t which = bytes_one(&s->in);

    for (size_t i = 0; i < WORLD_VARS; i++) {
        const struct world_var *v = &s->world.var[i];

        if (!(which >> i & 1) || !v->ready)
            continue;
        vars[o->n] = v->var;
        o->len[o->n] = v->elements;
        o->grads[o->n] = grads ? fuzz_client_floats(v->elements) : NULL;
        o->out[o->n] = out ? fuzz_client_floats(v->elements) : NULL;
        o->n++;
    }
    return o->n;
}

static void
fuzz_client_pull(struct client_script *s)
{
    uint8_t how = bytes_one(&s->in);
    struct ps_pull_options options = {.newer_than = how % 4, .only_changed = how & 16, .now = how & 32};
    struct world_op *o = new_op(s);
    struct core_var *vars[WORLD_VARS];
    size_t n = some_vars(s, o, vars, false, true);
    struct ps_error e = {0};

    if (n > 0)
        fuzz_client_started(s, o, core_pull(s->world.core, n, vars, o->out, how & 64 ? &options : NULL, &o->op, &e),
                            &e);
}

/* Where the step's data ends: mostly the same in all of its pushes, past where it begins. */
static struct ps_cursor
some_cursor(struct client_script *s, bool odd)
{
    struct ps_cursor cursor = core_cursor(s->world.core);

    cursor.epoch += odd ? bytes_number(&s->in) : 0;
    cursor.position += odd ? bytes_number(&s->in) : 10;
    return cursor;
}

static void
fuzz_client_push(struct client_script *s)
{
    uint8_t how = bytes_one(&s->in);
    struct ps_cursor cursor = some_cursor(s, (how & 96) == 96);
    struct ps_push_options options = {.flags = (how & 1 ? PS_PUSH_COPY : 0u) | (how & 16 ? PS_PUSH_DURABLE : 0u),
                                      .norm = how & 2 ? 3 : 0,
                                      .cursor = how & 32 ? &cursor : NULL};
    struct world_op *o = new_op(s);
    struct core_var *vars[WORLD_VARS];
    size_t n = some_vars(s, o, vars, true, how & 4);
    struct ps_error e = {0};
    enum ps_err err;

    if (n == 0)
        return;
    err = core_push(s->world.core, n, vars, (const float *const *)o->grads, how & 4 ? o->out : NULL,
                    how & 8 ? &options : NULL, &o->op, &e);
    if (err == PS_OK && how & 8 && how & 1) /* copied: they are free at once */
        for (size_t i = 0; i < n; i++) {
            free(o->grads[i]);
            o->grads[i] = NULL;
        }
    fuzz_client_started(s, o, err, &e);
}

static void
fuzz_client_tick(struct client_script *s)
{
    struct world_op *o = new_op(s);
    struct ps_error e = {0};
    enum ps_err err = core_set_metrics(s->world.core, 2, (double[]){1, 0.5}, NULL);

    (void)err; /* an observer may not, nor one that has failed: the tick says so, too */
    fuzz_client_started(s, o, core_tick(s->world.core, &o->op, &e), &e);
}

static void
fuzz_client_barrier(struct client_script *s)
{
    struct world_op *o = new_op(s);
    struct ps_error e = {0};

    fuzz_client_started(s, o, core_barrier(s->world.core, "here", &o->op, &e), &e);
}

static void
fuzz_client_ask(struct client_script *s)
{
    struct core *core = s->world.core;
    uint8_t how = bytes_one(&s->in);
    uint32_t shard = how & 1;
    uint32_t bound = 3;
    struct ps_parameter rate = {"learning_rate", 0.5};
    struct ps_setting setting = {.variables = "v*", .parameters = 1, .parameter = &rate, .bound = &bound};
    struct world_op *o = new_op(s);
    struct ps_error e = {0};

    switch (how / 2 % 4) {
    case 0:
        fuzz_client_started(s, o, core_query(core, shard, (enum ps_query)(how / 8 % 6), NULL, NULL, &o->op, &e), &e);
        break;
    case 1:
        fuzz_client_started(s, o, core_ping(core, shard, &o->op, &e), &e);
        break;
    case 2:
        fuzz_client_started(s, o, core_set(core, &setting, &o->op, &e), &e);
        break;
    default:
        fuzz_client_started(s, o, core_drain(core, shard, &o->op, &e), &e);
        break;
    }
}

/* psctl's requests: the answer passes through unchanged. */
static void
ask_more(struct client_script *s)
{
    Psd__Query query = PSD__QUERY__INIT;
    Psd__Save save = PSD__SAVE__INIT;
    Psd__Checkpoint checkpoint = PSD__CHECKPOINT__INIT;
    Psd__Restore restore = PSD__RESTORE__INIT;
    Psd__Evict evict = PSD__EVICT__INIT;
    Psd__Drop drop = PSD__DROP__INIT;
    const struct {
        enum msg_type type;
        const ProtobufCMessage *message;
    } asks[] = {{MSG_QUERY, &query.base},     {MSG_SAVE, &save.base},   {MSG_CHECKPOINT, &checkpoint.base},
                {MSG_RESTORE, &restore.base}, {MSG_EVICT, &evict.base}, {MSG_DROP, &drop.base}};
    uint8_t how = bytes_one(&s->in), which = how & 128 ? 4 + (how >= 240) : how / 2 % 4;
    struct world_op *o = new_op(s);
    struct ps_error e = {0};

    if ((how & 160) == 160 && core_defines(s->world.core)) {
        const struct ps_definition field = {"batch", how & 1 ? "96" : "48"};

        fuzz_client_started(s, o, core_define(s->world.core, 1, &field, &o->op, &e), &e);
        return;
    }
    query.kind = PSD__QUERY_KIND__DEFINITIONS;
    query.job = checkpoint.job = evict.job = drop.job = (char *)"job";
    checkpoint.dir = restore.dir = (char *)"/there";
    checkpoint.at_clock = how & 64;
    restore.check = how & 64;
    fuzz_client_started(s, o, core_ask(s->world.core, how & 1, asks[which].type, asks[which].message, &o->op, &e), &e);
}

static void
fuzz_client_cancel(struct client_script *s)
{
    struct world_op *o = any_op(s);

    if (o->op == NULL)
        return;
    core_op_cancel(s->world.core, o->op);
    client_world_perform(&s->world);
    ps_assert(core_op_done(o->op));
}

static void
free_op(struct client_script *s)
{
    struct world_op *o = any_op(s);

    if (o->op != NULL)
        client_world_free_op(&s->world, o);
}

static void
fuzz_client_why(struct client_script *s)
{
    struct world_op *o = any_op(s);
    struct ps_error e = {0};

    if (o->op == NULL || core_op_done(o->op))
        return;
    core_op_query_delay(s->world.core, o->op);
    client_world_perform(&s->world);
    if (!core_op_done(o->op))
        ps_assert(core_op_waiting(s->world.core, o->op, 5, &e) == PS_ERR_TIMEOUT && e.text[0] != '\0');
}

static void
fuzz_client_rejoin(struct client_script *s)
{
    if (core_fatal(s->world.core, NULL) == PS_OK && bytes_one(&s->in) < 192)
        return;
    core_rejoin(s->world.core, 100 + ++s->lives, s->world.now_ms);
    client_world_perform(&s->world);
}

/* ---- The network ---- */

static void
fuzz_client_connect(struct client_script *s)
{
    uint8_t how = bytes_one(&s->in);

    client_world_connect(&s->world, how & 1, how < 240);
}

static void
fuzz_client_lose(struct client_script *s)
{
    static const enum ps_err codes[] = {PS_ERR_CLOSED, PS_ERR_UNREACHABLE, PS_ERR_IO, PS_ERR_PROTOCOL};
    uint8_t how = bytes_one(&s->in);

    client_world_lose(&s->world, how & 1, how < 248 ? codes[how / 2 % 3] : codes[3]);
}

static void
fuzz_client_sent(struct client_script *s)
{
    uint8_t how = bytes_one(&s->in);

    for (int n = 1 + how / 2 % 4; n > 0; n--)
        client_world_sent(&s->world, how & 1, how < 250 ? PS_OK : PS_ERR_CLOSED);
}

static void
fuzz_client_hold(struct client_script *s)
{
    s->world.hold = !s->world.hold;
}

static void
fuzz_client_pass(struct client_script *s)
{
    static const uint64_t ms[] = {1, 20, 1000, 6000, 31000};

    s->world.now_ms += ms[bytes_below(&s->in, ARRAY_LEN(ms))];
    core_time(s->world.core, s->world.now_ms);
    client_world_perform(&s->world);
    ps_assert(core_next_time(s->world.core) > 0);
}

/* ---- Shards ---- */

/* Which frame, what is the lie, and whether its payload waits on the way. */
static void
some_answer(struct client_script *s)
{
    uint8_t how = bytes_one(&s->in), lie = bytes_one(&s->in);
    uint32_t shard = how & 1;
    struct world_link *l = &s->world.link[shard];
    struct client_received h;
    size_t which;

    client_world_end_frame(&s->world, shard);
    if (l->heard_len == 0)
        return;
    which = how >= 64 ? 0 : how / 2 % l->heard_len;
    h = l->heard[which];
    if (lie % 16 != 15) { /* else it may be answered again */
        memmove(&l->heard[which], &l->heard[which + 1], (l->heard_len - which - 1) * sizeof h);
        l->heard_len--;
    } else {
        h.meta = malloc(h.head.meta_len + 1);
        ps_assert(h.meta != NULL);
        memcpy(h.meta, l->heard[which].meta, h.head.meta_len);
    }
    client_answer(&s->in, &s->world, shard, &h, lie >= 192 ? lie % CLIENT_LIES : 0);
    free(h.meta);
    if (!(how & 32))
        client_world_end_frame(&s->world, shard);
}

/* Both shards are honest for a while. */
static void
fuzz_client_answers(struct client_script *s)
{
    struct fuzz_bytes none = {0}, rest = s->in;

    for (uint32_t round = 0; round < 8; round++) {
        uint8_t how[2] = {(uint8_t)(64 | (round & 1)), 0};

        s->in = (struct fuzz_bytes){how, 2};
        client_world_connect(&s->world, round & 1, true);
        some_answer(s);
        s->in = none;
    }
    s->in = rest;
}

static void
end_frame(struct client_script *s)
{
    client_world_end_frame(&s->world, bytes_below(&s->in, WORLD_SHARDS));
}

static void
fuzz_client_event(struct client_script *s)
{
    Psd__Event m = PSD__EVENT__INIT;
    uint8_t how = bytes_one(&s->in);

    m.kind = (Psd__EventKind)(how / 2 % 3);
    m.task = how / 8;
    client_world_end_frame(&s->world, how & 1);
    client_message(&s->world, how & 1, MSG_EVENT, 0, &m.base, 0);
}

static void
raw_frame(struct client_script *s)
{
    uint8_t how = bytes_one(&s->in);
    struct frame_head head = {.version = FRAME_VERSION, .type = (uint16_t)(1 + bytes_below(&s->in, MSG_TYPE_MAX - 1))};

    head.request = bytes_one(&s->in);
    head.payload_len = how & 2 ? 4 * bytes_one(&s->in) : 0;
    head.meta_len = bytes_one(&s->in);
    head.meta_len = (uint32_t)MIN(head.meta_len, s->in.left);
    client_world_end_frame(&s->world, how & 1);
    client_world_begin(&s->world, how & 1, &head, (uint8_t *)bytes_text(&s->in, head.meta_len));
}

static void (*const steps[])(struct client_script *) = {
    fuzz_client_answers,
    some_answer,
    fuzz_client_declare,
    fuzz_client_pull,
    fuzz_client_push,
    fuzz_client_tick,
    fuzz_client_connect,
    fuzz_client_barrier,
    fuzz_client_ask,
    fuzz_client_cancel,
    free_op,
    fuzz_client_why,
    fuzz_client_rejoin,
    fuzz_client_lose,
    fuzz_client_sent,
    fuzz_client_hold,
    fuzz_client_pass,
    fuzz_client_event,
    end_frame,
    raw_frame,
    some_answer,
    some_answer,
    fuzz_client_pull,
    fuzz_client_push,
    fuzz_client_attach,
    ask_more,
};

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const addresses[WORLD_SHARDS] = {"127.0.0.1:4000", "127.0.0.1:4001"};
    struct client_script s = {.in = {bytes, size}};
    uint8_t how = bytes_one(&s.in);
    struct core_config config = {.cluster = "fuzz",
                                 .shards = WORLD_SHARDS,
                                 .addresses = addresses,
                                 .agent = "here 1",
                                 .job = "job",
                                 .workers = 2,
                                 .mode = (enum ps_mode)(how % 3),
                                 .bound = 1,
                                 .lease_ms = 300000,
                                 .observer = (how & 0xf0) == 0xf0,
                                 .durable = how & 8,
                                 .copy_max = 64 * KIB,
                                 .incarnation = 7,
                                 .seed = 5};

    client_world_start(&s.world, &config);
    for (int i = 0; i < STEPS_MAX && s.in.left > 0; i++)
        steps[bytes_one(&s.in) % ARRAY_LEN(steps)](&s);
    client_world_end(&s.world);
    return 0;
}
