/* A peer's mistakes, one at a time, against a real psd: the peer gets a typed error, loses at most its own connection,
 * and a worker of the same job that is connected all the while sees nothing of it.
 *
 * test_daemon.c has other protocols (HTTP, TLS, another version, metadata past its limit) and peers that exhaust
 * memory; test_client.c has libpsclient's reaction to shards of other clusters, taken indices and other definitions. */
#include <math.h>
#include <string.h>
#include <sys/socket.h>

#include "common/core/base/base.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum { ELEMENTS = 1000, BYSTANDER = 0, TASK = 1, CLOCK = 7 };

static struct shards shards;
static struct probe bystander;
static uint32_t var; /* the same id for both */
static float expected;

/* ---- Talking ---- */

static void
bad_input_text(char **field, const char *value)
{
    *field = (char *)(uintptr_t)value;
}

/* A hello that would be welcome. */
struct bad_input_greeting {
    Psd__AgePolicy age;
    Psd__Job job;
    Psd__Hello hello;
};

static void
greeting_init(struct bad_input_greeting *g, uint32_t task)
{
    psd__age_policy__init(&g->age);
    psd__job__init(&g->job);
    psd__hello__init(&g->hello);
    bad_input_text(&g->job.name, "job");
    g->job.workers = g->job.quorum = 4;
    g->job.age = &g->age;
    bad_input_text(&g->hello.cluster, SHARDS_CLUSTER);
    g->hello.shards = 1;
    g->hello.job = &g->job;
    g->hello.task = task;
    g->hello.incarnation = 100 + task;
    bad_input_text(&g->hello.agent, "probe");
}

static void
bad_input_greet(struct probe *p, const struct bad_input_greeting *g)
{
    probe_send(p, MSG_HELLO, &g->hello.base, NULL, 0);
}

/* The next frame that is not about other workers. */
static bool
bad_input_receive(struct probe *p)
{
    bool got;

    do
        got = probe_receive(p);
    while (got && p->msg.type == MSG_EVENT);
    return got;
}

static struct probe
bad_input_connected(int transport)
{
    struct probe p;

    ck_assert(probe_connect(&p, transport == 0 ? shards.addresses : shards.sockets));
    return p;
}

static void
bad_input_expect(struct probe *p, enum msg_type type)
{
    ck_assert_msg(bad_input_receive(p), "closed instead of %s", wire_type_name(type));
    ck_assert_msg(p->msg.type == type, "%s instead of %s: %s", wire_type_name(p->msg.type), wire_type_name(type),
                  p->msg.type == MSG_ERROR ? p->msg.u.error->text : "");
}

static struct probe
bad_input_joined(int transport, uint32_t task)
{
    struct probe p = bad_input_connected(transport);
    struct bad_input_greeting g;

    greeting_init(&g, task);
    bad_input_greet(&p, &g);
    bad_input_expect(&p, MSG_WELCOME);
    p.seq = p.msg.u.welcome->last_seq;
    return p;
}

/* ---- Messages: as they should be, to be spoilt ---- */

static void
declare_init(Psd__Declare *d, Psd__Optimizer *o, uint64_t *dims, const char *name)
{
    psd__declare__init(d);
    psd__optimizer__init(o);
    bad_input_text(&d->name, name);
    d->dims = dims;
    d->n_dims = 1;
    o->learning_rate = 1;
    d->optimizer = o;
}

static const uint32_t zero = 0;
static float gradient[2 * ELEMENTS];

/* The next push of block 0, at clock 0. */
static Psd__Push
push_of(struct probe *p)
{
    Psd__Push push = PSD__PUSH__INIT;

    push.seq = ++p->seq;
    push.n_var = push.n_block = 1;
    push.var = &var;
    push.block = (uint32_t *)(uintptr_t)&zero;
    return push;
}

static Psd__Pull
pull_of(void)
{
    Psd__Pull pull = PSD__PULL__INIT;

    pull.n_var = pull.n_block = 1;
    pull.var = &var;
    pull.block = (uint32_t *)(uintptr_t)&zero;
    return pull;
}

static void
send_push(struct probe *p, const Psd__Push *push, size_t elements)
{
    probe_send(p, MSG_PUSH, &push->base, gradient, elements * sizeof *gradient);
}

static void
send_empty(struct probe *p, enum msg_type type, const ProtobufCMessage *message)
{
    probe_send(p, type, message, NULL, 0);
}

/* A header with lengths right or wrong, and what follows it. */
static void
send_raw(struct probe *p, enum msg_type type, uint32_t meta_len, uint64_t payload_len, const void *meta)
{
    struct frame_head head = {.version = FRAME_VERSION, .type = type, .meta_len = meta_len, .request = ++p->request};
    uint8_t bytes[FRAME_HEAD_SIZE];

    frame_head_encode(&head, bytes);
    for (int i = 0; i < 8; i++)
        bytes[16 + i] = (uint8_t)(payload_len >> 8 * i);
    probe_send_bytes(p, bytes, sizeof bytes);
    probe_send_bytes(p, meta, meta_len);
}

static uint32_t
bad_input_declare(struct probe *p, const char *name)
{
    Psd__Declare d;
    Psd__Optimizer o;
    uint64_t dim = ELEMENTS;

    declare_init(&d, &o, &dim, name);
    send_empty(p, MSG_DECLARE, &d.base);
    bad_input_expect(p, MSG_DECLARED);
    return p->msg.u.declared->var;
}

static uint32_t
ack_code(struct probe *p, uint64_t seq)
{
    bad_input_expect(p, MSG_ACK);
    ck_assert_uint_eq(p->msg.u.ack->n_seq, 1);
    ck_assert_uint_eq(p->msg.u.ack->seq[0], seq);
    return p->msg.u.ack->n_code > 0 ? p->msg.u.ack->code[0] : PS_OK;
}

/* ---- The worker without errors ---- */

/* Push and pull: nothing but its own pushes is in the values. */
static void
bystander_works(void)
{
    static float one[ELEMENTS], got[ELEMENTS];
    Psd__Push push = push_of(&bystander);
    Psd__Pull pull = pull_of();

    for (int i = 0; i < ELEMENTS; i++)
        one[i] = 1;
    probe_send(&bystander, MSG_PUSH, &push.base, one, sizeof one);
    ck_assert_uint_eq(ack_code(&bystander, push.seq), PS_OK);
    expected -= 1;
    send_empty(&bystander, MSG_PULL, &pull.base);
    bad_input_expect(&bystander, MSG_DATA);
    ck_assert_uint_eq(bystander.msg.u.data->version[0], push.seq);
    ck_assert_uint_eq(bystander.head.payload_len, sizeof got);
    memcpy(got, bystander.payload, sizeof got);
    for (int i = 0; i < ELEMENTS; i++)
        ck_assert_msg(got[i] == expected, "element %d is %g, not %g", i, (double)got[i], (double)expected);
}

static void
bad_input_setup(void)
{
    shards_start(&shards, 1);
    expected = 0;
    for (size_t i = 0; i < ARRAY_LEN(gradient); i++)
        gradient[i] = 1000; /* would be seen */
    bystander = bad_input_joined(0, BYSTANDER);
    var = bad_input_declare(&bystander, "w");
    bystander_works();
}

static void
bad_input_teardown(void)
{
    probe_close(&bystander);
    shards_stop(&shards);
}

/* ---- What can be wrong ---- */

static void
wrong_magic(struct probe *p)
{
    probe_send_bytes(p, "PSD2\1\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", FRAME_HEAD_SIZE);
}

/* The answer must arrive, though much of the input is never read. */
static void
http_with_a_body(struct probe *p)
{
    static char body[MIB];
    const char *head = "POST /v1/models HTTP/1.1\r\nHost: psd\r\nContent-Length: 1048576\r\n\r\n";

    probe_send_bytes(p, head, strlen(head));
    probe_send_bytes(p, body, sizeof body);
}

static void
payload_past_its_limit(struct probe *p)
{
    send_raw(p, MSG_PUSH, 0, FRAME_PAYLOAD_MAX + 4, NULL);
}

static void
payload_of_half_a_float(struct probe *p)
{
    send_raw(p, MSG_PUSH, 0, 6, NULL);
}

static void
payload_where_none_belongs(struct probe *p)
{
    uint8_t pull[8] = {0x0a, 1, 1, 0x12, 1, 0}; /* var[] 1, block[] 0 */

    send_raw(p, MSG_PULL, 6, 8, pull);
    probe_send_bytes(p, pull, 2); /* pad */
    probe_send_bytes(p, gradient, 8);
}

static void
hello_of_garbage(struct probe *p)
{
    static const uint8_t garbage[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    send_raw(p, MSG_HELLO, sizeof garbage, 0, garbage);
}

static void
push_of_garbage(struct probe *p)
{
    static const uint8_t garbage[8] = {0x22, 0x7f, 1, 2, 3, 4, 5, 6}; /* var[] of 127 bytes in 8 */

    send_raw(p, MSG_PUSH, sizeof garbage, 0, garbage);
}

static void
declare_of_garbage(struct probe *p)
{
    static const uint8_t garbage[8] = {0x07, 0x07, 0x07, 0x07, 0x07, 0x07, 0x07, 0x07}; /* wire type 7 */

    send_raw(p, MSG_DECLARE, sizeof garbage, 0, garbage);
}

static void
declare_before_hello(struct probe *p)
{
    Psd__Declare d;
    Psd__Optimizer o;
    uint64_t dim = ELEMENTS;

    declare_init(&d, &o, &dim, "w");
    send_empty(p, MSG_DECLARE, &d.base);
}

static void
push_before_hello(struct probe *p)
{
    Psd__Push push = push_of(p);

    send_push(p, &push, ELEMENTS);
}

static void
hello_twice(struct probe *p)
{
    struct bad_input_greeting g;

    greeting_init(&g, TASK);
    bad_input_greet(p, &g);
}

/* A set of one parameter. */
static void
send_set(struct probe *p, const char *job, const char *variables, const char *name, double value)
{
    Psd__Parameter parameter = PSD__PARAMETER__INIT, *list = &parameter;
    Psd__Set set = PSD__SET__INIT;

    bad_input_text(&set.job, job);
    bad_input_text(&set.variables, variables);
    bad_input_text(&parameter.name, name);
    parameter.value = value;
    set.n_parameter = 1;
    set.parameter = &list;
    send_empty(p, MSG_SET, &set.base);
}

static void
set_of_a_variable(struct probe *p)
{
    send_set(p, "job", "w", "learning_rate", 0.5);
}

static void
drain_of_a_stranger(struct probe *p)
{
    Psd__Drain drain = PSD__DRAIN__INIT;

    send_empty(p, MSG_DRAIN, &drain.base);
}

static void
set_of_nothing(struct probe *p)
{
    Psd__Set set = PSD__SET__INIT;

    bad_input_text(&set.job, "job");
    send_empty(p, MSG_SET, &set.base);
}

static void
set_of_another_job(struct probe *p)
{
    send_set(p, "nobody's", "w", "learning_rate", 0.5);
}

static void
set_of_a_bound_where_none_is(struct probe *p)
{
    Psd__Set set = PSD__SET__INIT;
    Psd__Bound bound = PSD__BOUND__INIT;

    bad_input_text(&set.job, "job");
    set.bound = &bound;
    send_empty(p, MSG_SET, &set.base);
}

static void
set_of_a_negative_rate(struct probe *p)
{
    send_set(p, "job", "*", "learning_rate", -1);
}

static void
set_of_nan(struct probe *p)
{
    send_set(p, "job", "*", "learning_rate", NAN);
}

static void
set_of_another_optimizers_parameter(struct probe *p)
{
    send_set(p, "job", "*", "beta1", 0.5);
}

static void
set_of_a_norm_that_nobody_gives(struct probe *p)
{
    Psd__Set set = PSD__SET__INIT;
    Psd__Clip clip = PSD__CLIP__INIT;

    bad_input_text(&set.job, "job");
    bad_input_text(&set.variables, "w");
    clip.kind = PSD__CLIP_KIND__CLIP_GIVEN_NORM;
    clip.limit = 1;
    set.clip = &clip;
    send_empty(p, MSG_SET, &set.base);
}

static void
set_of_too_many(struct probe *p)
{
    Psd__Parameter parameter = PSD__PARAMETER__INIT, *list[WIRE_PARAMETERS_MAX + 1];
    Psd__Set set = PSD__SET__INIT;

    bad_input_text(&parameter.name, "learning_rate");
    parameter.value = 0.5;
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        list[i] = &parameter;
    bad_input_text(&set.job, "job");
    bad_input_text(&set.variables, "w");
    set.n_parameter = ARRAY_LEN(list);
    set.parameter = list;
    send_empty(p, MSG_SET, &set.base);
}

static void
set_of_no_utf8(struct probe *p)
{
    send_set(p, "job", "\xff*", "learning_rate", 0.5);
}

static void
set_of_garbage(struct probe *p)
{
    static const uint8_t garbage[8] = {0x1a, 0x7f, 1, 2, 3, 4, 5, 6}; /* a parameter of 127 bytes in 8 */

    send_raw(p, MSG_SET, sizeof garbage, 0, garbage);
}

static void
set_done_of_a_client(struct probe *p)
{
    Psd__SetDone done = PSD__SET_DONE__INIT;

    send_empty(p, MSG_SET_DONE, &done.base);
}

static void
push_with_norm(struct probe *p, double l2)
{
    Psd__Push push = push_of(p);
    Psd__Norm norm = PSD__NORM__INIT;

    norm.l2 = l2;
    push.norm = &norm;
    send_push(p, &push, ELEMENTS);
}

static void
push_of_negative_norm(struct probe *p)
{
    push_with_norm(p, -1);
}

static void
push_of_endless_norm(struct probe *p)
{
    push_with_norm(p, INFINITY);
}

static void
message_of_a_shard(struct probe *p)
{
    Psd__Ack ack = PSD__ACK__INIT;

    send_empty(p, MSG_ACK, &ack.base);
}

static void
bad_input_observe(struct probe *p)
{
    struct bad_input_greeting g;

    greeting_init(&g, 0);
    g.hello.role = PSD__ROLE__OBSERVER;
    bad_input_greet(p, &g);
    bad_input_expect(p, MSG_WELCOME);
}

static void
observer_that_pushes(struct probe *p)
{
    Psd__Push push;

    bad_input_observe(p);
    push = push_of(p);
    send_push(p, &push, ELEMENTS);
}

static void
bad_input_attach(struct probe *p, const char *job, const char *name)
{
    Psd__Attach a = PSD__ATTACH__INIT;

    bad_input_text(&a.job, job);
    bad_input_text(&a.name, name);
    send_empty(p, MSG_ATTACH, &a.base);
}

static void
attach_before_hello(struct probe *p)
{
    bad_input_attach(p, "job", "w");
}

static void
attach_of_no_name(struct probe *p)
{
    bad_input_attach(p, "job", "");
}

static void
attach_in_no_utf8(struct probe *p)
{
    bad_input_attach(p, "job", "\xc0\x80");
}

static void
attach_to_what_nobody_declared(struct probe *p)
{
    bad_input_attach(p, "job", "nobody's");
}

static void
attach_to_another_job(struct probe *p)
{
    bad_input_attach(p, "other", "w");
}

/* ---- Hellos ---- */

#define HELLO(name, ...)                                                                                               \
    static void name(struct probe *p)                                                                                  \
    {                                                                                                                  \
        struct bad_input_greeting g;                                                                                   \
        greeting_init(&g, TASK);                                                                                       \
        __VA_ARGS__;                                                                                                   \
        bad_input_greet(p, &g);                                                                                        \
    }

HELLO(hello_to_another_cluster, bad_input_text(&g.hello.cluster, "other"))
HELLO(hello_to_another_shard, g.hello.shard = 1; g.hello.shards = 2)
HELLO(hello_to_more_shards, g.hello.shards = 2)
HELLO(hello_to_nobody, bad_input_text(&g.hello.cluster, ""))
HELLO(hello_without_job, g.hello.job = NULL)
HELLO(hello_with_no_workers, g.job.workers = 0)
HELLO(hello_with_too_many_workers, g.job.workers = WIRE_WORKERS_MAX + 1)
HELLO(hello_past_the_workers, g.hello.task = 4)
HELLO(hello_with_quorum_past_workers, bad_input_text(&g.job.name, "new"); g.job.mode = PSD__MODE__SYNC;
      g.job.quorum = 5)
HELLO(hello_with_unknown_mode, g.job.mode = (Psd__Mode)9)
HELLO(hello_with_age_that_grows, g.age.kind = PSD__AGE_KIND__AGE_EXPONENTIAL; g.age.parameter = 2)
HELLO(hello_without_incarnation, g.hello.incarnation = 0)
HELLO(hello_in_no_utf8, bad_input_text(&g.job.name, "\xc0\x80"))
HELLO(hello_in_other_mode, g.job.mode = PSD__MODE__SSP)
HELLO(hello_to_resume_nothing, g.hello.resume = true)
HELLO(hello_to_a_taken_index, g.hello.task = BYSTANDER)
HELLO(hello_to_resume_anothers, g.hello.task = BYSTANDER; g.hello.resume = true)

/* ---- Declares ---- */

#define DECLARE(name, ...)                                                                                             \
    static void name(struct probe *p)                                                                                  \
    {                                                                                                                  \
        Psd__Initializer init = PSD__INITIALIZER__INIT;                                                                \
        Psd__Declare d;                                                                                                \
        Psd__Optimizer o;                                                                                              \
        uint64_t dims[9] = {ELEMENTS, 1, 1, 1, 1, 1, 1, 1, 1};                                                         \
        declare_init(&d, &o, dims, "new");                                                                             \
        d.init = &init;                                                                                                \
        __VA_ARGS__;                                                                                                   \
        send_empty(p, MSG_DECLARE, &d.base);                                                                           \
    }

DECLARE(declare_of_no_name, bad_input_text(&d.name, ""))
DECLARE(declare_in_no_utf8, bad_input_text(&d.name, "\xff"))
DECLARE(declare_of_rank_9, d.n_dims = 9)
DECLARE(declare_of_no_elements, dims[0] = 0)
DECLARE(declare_past_all_limits, d.n_dims = 2; dims[0] = dims[1] = UINT64_C(1) << 40)
DECLARE(declare_past_the_memory, dims[0] = UINT64_C(1) << 40)
DECLARE(declare_of_unknown_optimizer, o.kind = (uint32_t)77)
DECLARE(declare_of_a_negative_rate, o.learning_rate = -1)
DECLARE(declare_of_endless_rate, o.learning_rate = (double)INFINITY)
DECLARE(declare_of_nan, init.kind = PSD__INIT_KIND__CONSTANT; init.a = (double)NAN)
DECLARE(declare_of_other_shape, bad_input_text(&d.name, "w"); dims[0] = ELEMENTS + 1)

/* ---- Pulls and questions ---- */

#define PULL(name, ...)                                                                                                \
    static void name(struct probe *p)                                                                                  \
    {                                                                                                                  \
        static uint32_t vars[1 + WIRE_BLOCKS_MAX], blocks[1 + WIRE_BLOCKS_MAX];                                        \
        Psd__Pull pull = pull_of();                                                                                    \
        pull.var = vars;                                                                                               \
        pull.block = blocks;                                                                                           \
        vars[0] = var;                                                                                                 \
        __VA_ARGS__;                                                                                                   \
        send_empty(p, MSG_PULL, &pull.base);                                                                           \
    }

PULL(pull_of_no_variable, vars[0] = 99)
PULL(pull_of_the_last_id, vars[0] = UINT32_MAX)
PULL(pull_of_no_block, blocks[0] = 1)
PULL(pull_of_nothing, pull.n_var = pull.n_block = 0)
PULL(pull_of_too_many, pull.n_var = pull.n_block = 1 + WIRE_BLOCKS_MAX)
PULL(pull_past_a_frame, pull.n_var = pull.n_block = 2000; for (int i = 0; i < 2000; i++) vars[i] = var)
PULL(pull_of_uneven_lists, pull.n_block = 2)

static void
unknown_question(struct probe *p)
{
    Psd__Query q = PSD__QUERY__INIT;

    q.kind = (Psd__QueryKind)42;
    send_empty(p, MSG_QUERY, &q.base);
}

/* ---- Sequenced messages ---- */

#define PUSH(name, elements, ...)                                                                                      \
    static void name(struct probe *p)                                                                                  \
    {                                                                                                                  \
        uint32_t vars[2] = {var, var}, blocks[2] = {0};                                                                \
        uint64_t from = 0;                                                                                             \
        Psd__Push push = push_of(p);                                                                                   \
        push.var = vars;                                                                                               \
        push.block = blocks;                                                                                           \
        push.from_version = &from;                                                                                     \
        __VA_ARGS__;                                                                                                   \
        send_push(p, &push, elements);                                                                                 \
    }

PUSH(push_before_declare, ELEMENTS, vars[0] = 2)
PUSH(push_to_the_last_id, ELEMENTS, vars[0] = UINT32_MAX)
PUSH(push_to_no_block, ELEMENTS, blocks[0] = 1)
PUSH(push_one_too_many, ELEMENTS + 1)
PUSH(push_one_too_few, ELEMENTS - 1)
PUSH(push_without_payload, 0)
PUSH(push_of_two_blocks_that_are_one, ELEMENTS, push.n_var = push.n_block = 2; blocks[1] = 7)
PUSH(push_from_the_future, ELEMENTS, push.n_from_version = 1; from = 99)
PUSH(push_ahead_of_its_clock, ELEMENTS, push.clock = 1)
PUSH(push_of_uneven_lists, ELEMENTS, push.n_block = 2)
PUSH(push_that_skips_one, ELEMENTS, push.seq++)
PUSH(push_without_sequence, ELEMENTS, push.seq = 0)
PUSH(push_acked_before_it_is_sent, ELEMENTS, push.acked_through = push.seq)

static void
push_of_nan(struct probe *p)
{
    Psd__Push push = push_of(p);

    gradient[ELEMENTS - 1] = NAN;
    send_push(p, &push, ELEMENTS);
    gradient[ELEMENTS - 1] = 1000;
}

static void
bad_input_tick(struct probe *p, uint64_t seq, uint64_t clock)
{
    Psd__Tick t = PSD__TICK__INIT;

    t.seq = seq;
    t.clock = clock;
    send_empty(p, MSG_TICK, &t.base);
}

static void
clock_that_goes_back(struct probe *p)
{
    bad_input_tick(p, ++p->seq, CLOCK);
    ck_assert_uint_eq(ack_code(p, p->seq), PS_OK);
    bad_input_tick(p, ++p->seq, CLOCK - 1);
}

static void
clock_at_the_end_of_time(struct probe *p)
{
    bad_input_tick(p, ++p->seq, UINT64_MAX);
}

static void
tick_that_skips_many(struct probe *p)
{
    bad_input_tick(p, UINT64_MAX, 1);
}

static void
barrier_without_name(struct probe *p)
{
    Psd__Barrier b = PSD__BARRIER__INIT;

    b.seq = ++p->seq;
    send_empty(p, MSG_BARRIER, &b.base);
}

/* ---- And what it brings ---- */

enum bad_input_end {
    CLOSED,  /* ERROR, and the connection ends */
    REFUSED, /* ERROR about this request; the connection goes on */
    ACKED    /* a code in an ACK; its sequence is used up and the connection goes on */
};

static const struct mistake {
    const char *name;
    void (*make)(struct probe *p);
    enum ps_err code;
    enum bad_input_end end;
    bool join; /* is welcome first */
} mistakes[] = {
#define BEFORE(make, code, end)                                                                                        \
    {                                                                                                                  \
#make, make, PS_ERR_##code, end, false                                                                         \
    }
#define AFTER(make, code, end)                                                                                         \
    {                                                                                                                  \
#make, make, PS_ERR_##code, end, true                                                                          \
    }
    BEFORE(wrong_magic, PROTOCOL, CLOSED),
    BEFORE(http_with_a_body, PROTOCOL, CLOSED),
    BEFORE(payload_past_its_limit, PROTOCOL, CLOSED),
    BEFORE(payload_of_half_a_float, PROTOCOL, CLOSED),
    BEFORE(hello_of_garbage, PROTOCOL, CLOSED),
    BEFORE(declare_before_hello, PROTOCOL, CLOSED),
    BEFORE(push_before_hello, PROTOCOL, CLOSED),
    BEFORE(observer_that_pushes, PROTOCOL, CLOSED),
    BEFORE(attach_before_hello, PROTOCOL, CLOSED),
    BEFORE(set_of_a_variable, PROTOCOL, CLOSED),
    BEFORE(drain_of_a_stranger, PROTOCOL, CLOSED),
    BEFORE(hello_to_another_cluster, CLUSTER, CLOSED),
    BEFORE(hello_to_another_shard, CLUSTER, CLOSED),
    BEFORE(hello_to_more_shards, CLUSTER, CLOSED),
    BEFORE(hello_to_nobody, INVALID, CLOSED),
    BEFORE(hello_without_job, INVALID, CLOSED),
    BEFORE(hello_with_no_workers, INVALID, CLOSED),
    BEFORE(hello_with_too_many_workers, LIMIT, CLOSED),
    BEFORE(hello_past_the_workers, INVALID, CLOSED),
    BEFORE(hello_with_quorum_past_workers, INVALID, CLOSED),
    BEFORE(hello_with_unknown_mode, INVALID, CLOSED),
    BEFORE(hello_with_age_that_grows, INVALID, CLOSED),
    BEFORE(hello_without_incarnation, INVALID, CLOSED),
    BEFORE(hello_in_no_utf8, INVALID, CLOSED),
    BEFORE(hello_in_other_mode, MISMATCH, CLOSED),
    BEFORE(hello_to_resume_nothing, NOT_FOUND, CLOSED),
    BEFORE(hello_to_a_taken_index, TASK_TAKEN, CLOSED),
    BEFORE(hello_to_resume_anothers, FENCED, CLOSED),
    AFTER(hello_twice, PROTOCOL, CLOSED),
    AFTER(message_of_a_shard, PROTOCOL, CLOSED),
    AFTER(payload_past_its_limit, PROTOCOL, CLOSED),
    AFTER(payload_where_none_belongs, PROTOCOL, CLOSED),
    AFTER(push_of_garbage, PROTOCOL, CLOSED),
    AFTER(declare_of_garbage, PROTOCOL, CLOSED),
    AFTER(declare_of_no_name, INVALID, REFUSED),
    AFTER(declare_in_no_utf8, INVALID, REFUSED),
    AFTER(declare_of_rank_9, LIMIT, REFUSED),
    AFTER(declare_of_no_elements, INVALID, REFUSED),
    AFTER(declare_past_all_limits, LIMIT, REFUSED),
    AFTER(declare_past_the_memory, FULL, REFUSED),
    AFTER(declare_of_unknown_optimizer, INVALID, REFUSED),
    AFTER(declare_of_a_negative_rate, INVALID, REFUSED),
    AFTER(declare_of_endless_rate, INVALID, REFUSED),
    AFTER(declare_of_nan, INVALID, REFUSED),
    AFTER(declare_of_other_shape, MISMATCH, REFUSED),
    AFTER(attach_of_no_name, INVALID, REFUSED),
    AFTER(attach_in_no_utf8, INVALID, REFUSED),
    AFTER(attach_to_what_nobody_declared, NOT_FOUND, REFUSED),
    AFTER(attach_to_another_job, INVALID, REFUSED),
    AFTER(pull_of_no_variable, NOT_FOUND, REFUSED),
    AFTER(pull_of_the_last_id, NOT_FOUND, REFUSED),
    AFTER(pull_of_no_block, NOT_FOUND, REFUSED),
    AFTER(pull_of_nothing, INVALID, REFUSED),
    AFTER(pull_of_too_many, LIMIT, REFUSED),
    AFTER(pull_past_a_frame, LIMIT, REFUSED),
    AFTER(pull_of_uneven_lists, INVALID, REFUSED),
    AFTER(unknown_question, INVALID, REFUSED),
    AFTER(set_of_nothing, INVALID, REFUSED),
    AFTER(set_of_another_job, NOT_FOUND, REFUSED),
    AFTER(set_of_a_bound_where_none_is, INVALID, REFUSED),
    AFTER(set_of_a_negative_rate, INVALID, REFUSED),
    AFTER(set_of_nan, INVALID, REFUSED),
    AFTER(set_of_another_optimizers_parameter, INVALID, REFUSED),
    AFTER(set_of_a_norm_that_nobody_gives, INVALID, REFUSED),
    AFTER(set_of_too_many, LIMIT, REFUSED),
    AFTER(set_of_no_utf8, INVALID, REFUSED),
    AFTER(set_of_garbage, PROTOCOL, CLOSED),
    AFTER(set_done_of_a_client, PROTOCOL, CLOSED),
    AFTER(push_before_declare, NOT_FOUND, ACKED),
    AFTER(push_to_the_last_id, NOT_FOUND, ACKED),
    AFTER(push_to_no_block, NOT_FOUND, ACKED),
    AFTER(push_one_too_many, SHAPE, ACKED),
    AFTER(push_one_too_few, SHAPE, ACKED),
    AFTER(push_without_payload, SHAPE, ACKED),
    AFTER(push_of_two_blocks_that_are_one, NOT_FOUND, ACKED),
    AFTER(push_from_the_future, INVALID, ACKED),
    AFTER(push_ahead_of_its_clock, CLOCK, ACKED),
    AFTER(push_of_nan, NONFINITE, ACKED),
    AFTER(clock_that_goes_back, CLOCK, ACKED),
    AFTER(clock_at_the_end_of_time, CLOCK, ACKED),
    AFTER(push_of_negative_norm, INVALID, CLOSED),
    AFTER(push_of_endless_norm, INVALID, CLOSED),
    AFTER(push_of_uneven_lists, INVALID, CLOSED),
    AFTER(push_that_skips_one, SEQUENCE, CLOSED),
    AFTER(push_without_sequence, INVALID, CLOSED),
    AFTER(push_acked_before_it_is_sent, INVALID, CLOSED),
    AFTER(tick_that_skips_many, SEQUENCE, CLOSED),
    AFTER(barrier_without_name, INVALID, CLOSED),
};

static void
expect_error(struct probe *p, const struct mistake *m)
{
    ck_assert_msg(bad_input_receive(p), "%s: closed without a word", m->name);
    ck_assert_msg(p->msg.type == MSG_ERROR, "%s: answered by %s", m->name, wire_type_name(p->msg.type));
    ck_assert_msg(p->msg.u.error->code == m->code, "%s: %u: %s", m->name, p->msg.u.error->code, p->msg.u.error->text);
    ck_assert_msg(strlen(p->msg.u.error->text) > 10, "%s: no sentence: %s", m->name, p->msg.u.error->text);
}

/* The connection goes on: the next sequence is taken, and a ping is answered. */
static void
expect_service(struct probe *p)
{
    Psd__Skip skip = PSD__SKIP__INIT;
    Psd__Ping ping = PSD__PING__INIT;

    skip.seq = ++p->seq;
    send_empty(p, MSG_SKIP, &skip.base);
    ck_assert_uint_eq(ack_code(p, skip.seq), PS_OK);
    ping.token = 99;
    send_empty(p, MSG_PING, &ping.base);
    bad_input_expect(p, MSG_PONG);
    ck_assert_uint_eq(p->msg.u.ping->token, 99);
}

static void
expect_end(struct probe *p, const struct mistake *m)
{
    if (m->end == ACKED) {
        uint32_t code = ack_code(p, p->seq);

        ck_assert_msg(code == m->code, "%s: %s", m->name, ps_err_name((enum ps_err)code));
        expect_service(p);
        return;
    }
    expect_error(p, m);
    if (m->end == REFUSED) {
        ck_assert_msg(p->head.request == p->request, "%s: answered for another request", m->name);
        expect_service(p);
        return;
    }
    ck_assert_msg(p->head.request == 0, "%s: ends only a request", m->name);
    ck_assert_msg(!bad_input_receive(p), "%s: the connection goes on", m->name);
}

START_TEST(a_mistake_is_told_and_the_others_see_nothing)
{
    for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
        const struct mistake *m = &mistakes[i];
        struct probe p = m->join ? bad_input_joined(_i, TASK) : bad_input_connected(_i);

        if (m->join)
            ck_assert_uint_eq(bad_input_declare(&p, "w"), var);
        m->make(&p);
        expect_end(&p, m);
        bystander_works();
        probe_close(&p);
    }
}
END_TEST

/* Requests beyond its role are refused, and the connection goes on. */
START_TEST(an_observers_mistakes_are_answered)
{
    static const struct {
        const char *job, *name;
        enum ps_err code;
    } attaches[] = {{"job", "", PS_ERR_INVALID},
                    {"", "w", PS_ERR_INVALID},
                    {"job", "\xc0\x80", PS_ERR_INVALID},
                    {"nobody's", "w", PS_ERR_NOT_FOUND},
                    {"job", "nobody's", PS_ERR_NOT_FOUND}};
    struct probe p = bad_input_connected(_i);
    Psd__Pull pull = pull_of();
    uint32_t none[] = {0, 1000000, UINT32_MAX};

    bad_input_observe(&p);
    for (size_t i = 0; i < ARRAY_LEN(attaches); i++) {
        bad_input_attach(&p, attaches[i].job, attaches[i].name);
        bad_input_expect(&p, MSG_ERROR);
        ck_assert_uint_eq(p.msg.u.error->code, attaches[i].code);
    }
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        pull.var = &none[i];
        send_empty(&p, MSG_PULL, &pull.base);
        bad_input_expect(&p, MSG_ERROR);
        ck_assert_uint_eq(p.msg.u.error->code, PS_ERR_NOT_FOUND);
    }
    bad_input_attach(&p, "job", "w");
    bad_input_expect(&p, MSG_DECLARED);
    pull.var = &p.msg.u.declared->var;
    send_empty(&p, MSG_PULL, &pull.base);
    bad_input_expect(&p, MSG_DATA);
    probe_close(&p);
    bystander_works();
}
END_TEST

/* ---- Half of a message ---- */

/* As a peer that dies without a goodbye: the other end gets a reset. */
static void
bad_input_reset(struct probe *p)
{
    struct linger at_once = {.l_onoff = 1};

    setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    probe_close(p);
}

static void
bad_input_leave(struct probe *p, bool abruptly)
{
    if (abruptly)
        bad_input_reset(p);
    else
        probe_close(p);
}

START_TEST(a_hello_cut_anywhere_is_forgotten)
{
    struct bad_input_greeting g;
    uint8_t *bytes;
    size_t len;

    greeting_init(&g, TASK);
    bytes = wire_encode_new(MSG_HELLO, 1, &g.hello.base, 0, &len);
    for (size_t cut = 0; cut < len; cut++) {
        struct probe p = bad_input_connected((int)cut % 2);

        probe_send_bytes(&p, bytes, cut);
        bad_input_leave(&p, cut % 3 == 0);
    }
    free(bytes);
    bystander_works();
}
END_TEST

START_TEST(a_push_cut_anywhere_changes_nothing)
{
    struct probe p = bad_input_joined(0, TASK);
    Psd__Push push = push_of(&p);
    size_t len, all;
    uint8_t *head = wire_encode_new(MSG_PUSH, 2, &push.base, ELEMENTS * sizeof *gradient, &len), *bytes;

    all = len + ELEMENTS * sizeof *gradient;
    bytes = malloc(all);
    memcpy(bytes, head, len);
    memcpy(bytes + len, gradient, all - len);
    probe_close(&p);
    for (size_t cut = 0; cut < all; cut += cut < len + 16 ? 1 : 397) {
        p = bad_input_joined((int)cut % 2, TASK); /* the same incarnation: this counts as a resume */
        ck_assert_uint_eq(p.seq, 0);
        probe_send_bytes(&p, bytes, cut);
        bad_input_leave(&p, cut % 3 == 0);
    }
    bystander_works();
    p = bad_input_joined(0, TASK);
    ck_assert_uint_eq(bad_input_declare(&p, "w"), var);
    probe_send_bytes(&p, bytes, all);
    ck_assert_uint_eq(ack_code(&p, 1), PS_OK); /* whole, it is still the first */
    probe_close(&p);
    free(head);
    free(bytes);
}
END_TEST

/* ---- Anything at all ---- */

/* The messages of a worker of a job of its own, one frame after the other. */
static size_t
bad_input_conversation(uint8_t *out, size_t size)
{
    struct bad_input_greeting g;
    Psd__Declare d;
    Psd__Optimizer o;
    Psd__Push push = PSD__PUSH__INIT;
    Psd__Pull pull = pull_of();
    Psd__Tick t = PSD__TICK__INIT;
    Psd__Set set = PSD__SET__INIT;
    Psd__Parameter parameter = PSD__PARAMETER__INIT, *list = &parameter;
    Psd__Goodbye bye = PSD__GOODBYE__INIT;
    uint64_t dim = 40;
    uint32_t first = 1;
    size_t at = 0;

    greeting_init(&g, 0);
    bad_input_text(&g.job.name, "some other job");
    declare_init(&d, &o, &dim, "variable");
    push.seq = 1;
    push.n_var = push.n_block = 1;
    push.var = pull.var = &first;
    push.block = pull.block;
    t.seq = 2;
    t.clock = 1;
    bad_input_text(&set.job, "some other job");
    bad_input_text(&set.variables, "v*");
    bad_input_text(&parameter.name, "learning_rate");
    parameter.value = 0.5;
    set.n_parameter = 1;
    set.parameter = &list;
    const struct {
        enum msg_type type;
        const ProtobufCMessage *message;
        size_t payload;
    } frames[] = {{MSG_HELLO, &g.hello.base, 0}, {MSG_DECLARE, &d.base, 0}, {MSG_PUSH, &push.base, 160},
                  {MSG_TICK, &t.base, 0},        {MSG_SET, &set.base, 0},   {MSG_PULL, &pull.base, 0},
                  {MSG_GOODBYE, &bye.base, 0}};

    for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
        size_t len = wire_size(frames[i].message);

        ck_assert_uint_le(at + len + frames[i].payload, size);
        wire_encode(frames[i].type, i + 1, frames[i].message, frames[i].payload, out + at);
        memcpy(out + at + len, gradient, frames[i].payload);
        at += len + frames[i].payload;
    }
    return at;
}

/* A byte that could become DRAIN's type is replaced: a shard obeys that. */
static uint8_t
no_drain(uint8_t byte)
{
    return byte == MSG_DRAIN ? 0 : byte;
}

START_TEST(damaged_conversations_harm_nobody)
{
    enum { ROUNDS = 1500, SIZE = 4096 };
    static uint8_t whole[SIZE], damaged[SIZE];
    struct test_rng r = {test_seed()};
    size_t len = bad_input_conversation(whole, sizeof whole);
    uint32_t told = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct probe p = bad_input_connected(round % 2);

        memcpy(damaged, whole, len);
        for (uint64_t n = 1 + test_below(&r, 4); n > 0; n--)
            damaged[test_below(&r, len)] = no_drain((uint8_t)test_rand(&r));
        probe_send_bytes(&p, damaged, len);
        shutdown(p.fd, SHUT_WR);
        while (bad_input_receive(&p)) /* every frame that comes back is whole */
            told += p.msg.type == MSG_ERROR;
        probe_close(&p);
        if (round % 100 == 0)
            bystander_works();
    }
    ck_assert_uint_gt(told, ROUNDS / 4);
    bystander_works();
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("bad_input");
    TCase *tc = tcase_create("bad_input");

    tcase_add_checked_fixture(tc, bad_input_setup, bad_input_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_mistake_is_told_and_the_others_see_nothing, 0, 2);
    tcase_add_loop_test(tc, an_observers_mistakes_are_answered, 0, 2);
    tcase_add_test(tc, a_hello_cut_anywhere_is_forgotten);
    tcase_add_test(tc, a_push_cut_anywhere_changes_nothing);
    tcase_add_test(tc, damaged_conversations_harm_nobody);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
