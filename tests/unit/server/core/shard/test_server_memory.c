/* The whole shard when it runs out of memory or its store fails: scripts of all that clients do, in which each
 * allocation of the core fails in turn, alone or with those that follow, and each call of the store. The client is
 * told, or its connection ends and it asks again; in the end every request has been answered, every push counts exactly
 * once, a new process reads the same state, and nothing leaks. */
#include <inttypes.h>
#include <math.h>

#include "server/core/store/store_mem_cell.h"
#include "tests/unit/kits/failing_memory.h"
#include "tests/unit/kits/insist.h"

static struct kit k;
static struct insist x;

/* ---- What is there in the end ---- */

static void
expect_four(struct insist_client *o, uint32_t var, uint64_t version, float value)
{
    Psd__Pull m = PSD__PULL__INIT;
    uint32_t block = 0;
    struct kit_answer *a;

    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    m.now = true;
    a = insist_ask(o, MSG_PULL, &m.base, MSG_DATA);
    ck_assert_uint_eq(a->msg.u.data->version[0], version);
    ck_assert_uint_eq(a->payload_len, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(a->payload[i], value);
    kit_answer_free(a);
}

static uint32_t
server_memory_declared(struct insist_client *c, const char *name, uint64_t elements, enum ps_optimizer_kind kind)
{
    struct insist_post *p = insist_declare(c, name, elements, kind);
    uint32_t var;

    insist_some(&x);
    ck_assert(p->done && p->answer->msg.type == MSG_DECLARED);
    var = p->answer->msg.u.declared->var;
    insist_all(&x);
    return var;
}

static struct insist_post *
push_four(struct insist_client *c, uint32_t var, float g)
{
    const float gradient[4] = {g, g, g, g};

    return insist_push(c, var, 0, gradient, 4);
}

/* ---- Scripts ---- */

static struct insist_client *w, *v, *o; /* two workers, an observer */
static uint32_t four, large;

static void
server_memory_begin(Psd__Mode mode)
{
    Psd__Job *job = kit_job("train", mode, 2);

    job->bound = mode == PSD__MODE__SSP ? 1 : 0;
    job->quorum = mode == PSD__MODE__SYNC ? 2 : 0;
    w = insist_worker(&x, job, 0);
    v = insist_worker(&x, job, 1);
    o = insist_observer(&x);
    insist_all(&x);
    four = server_memory_declared(w, "four", 4, PS_SGD);
    large = server_memory_declared(w, "large", 20000, PS_ADAM);
}

static void
ask_all(void)
{
    for (int kind = PSD__QUERY_KIND__STATUS; kind <= PSD__QUERY_KIND__DEFINITIONS; kind++) {
        Psd__Query m = PSD__QUERY__INIT;

        m.kind = (Psd__QueryKind)kind;
        m.job = (char *)(kind == PSD__QUERY_KIND__DEFINITIONS ? "train" : "");
        kit_answer_free(insist_ask(o, MSG_QUERY, &m.base, MSG_REPORT));
    }
}

static void
push_in_async(void)
{
    float many[30000] = {1}, nan[4] = {0, NAN, 0, 0};
    uint64_t step[2] = {0, 7}, from = 0;

    server_memory_begin(PSD__MODE__ASYNC);
    push_four(w, four, 1);
    push_four(w, four, 2);
    push_four(v, four, 4);
    insist_push_as(w, &(struct kit_push){.var = four, .gradient = nan, .len = 4})->expected = PS_ERR_NONFINITE;
    insist_push_as(v, &(struct kit_push){.var = four, .gradient = many, .len = 3})->expected = PS_ERR_SHAPE;
    insist_push_as(w, &(struct kit_push){.var = four, .gradient = (float[]){8, 8, 8, 8}, .len = 4, .want_value = true});
    insist_push_as(w,
                   &(struct kit_push){.var = four, .gradient = (float[]){16, 16, 16, 16}, .len = 4, .durable = true});
    insist_push_as(v, &(struct kit_push){.var = four,
                                         .gradient = (float[]){32, 32, 32, 32},
                                         .len = 4,
                                         .durable = true,
                                         .want_value = true,
                                         .from_version = &from});
    insist_all(&x);
    insist_push_as(v, &(struct kit_push){.var = four, .seq = 1, .gradient = (float[4]){0}, .len = 4}); /* a repeat */
    insist_push_as(w, &(struct kit_push){.var = large, .gradient = many, .len = layout_capacity(1, 2)});
    insist_push_as(w, &(struct kit_push){.var = four, .gradient = (float[]){64, 64, 64, 64}, .len = 4, .cursor = step});
    insist_push_as(w,
                   &(struct kit_push){.var = four, .gradient = (float[4]){1}, .len = 4, .cursor = step}); /* counted */
    insist_tick(w, 7);
    insist_pull(w, four, 0, 1, false);
    insist_all(&x);
    insist_push_as(v, &(struct kit_push){.var = four, .seq = 50, .gradient = (float[4]){0}, .len = 4})->expected =
        PS_ERR_SEQUENCE;
    insist_all(&x);
}

static void
check_async(void)
{
    expect_four(o, four, 7, -127);
}

static void
server_memory_set(const char *variables, double rate)
{
    Psd__Set m = PSD__SET__INIT;
    Psd__Parameter parameter = PSD__PARAMETER__INIT, *list = &parameter;
    Psd__Bound bound = PSD__BOUND__INIT;

    parameter.name = (char *)"learning_rate";
    parameter.value = rate;
    bound.clocks = 2;
    m.job = (char *)"train";
    m.variables = (char *)variables;
    m.n_parameter = 1;
    m.parameter = &list;
    m.bound = &bound;
    kit_answer_free(insist_ask(o, MSG_SET, &m.base, MSG_SET_DONE));
}

static struct insist_post *
server_memory_arrive(struct insist_client *c)
{
    Psd__Barrier m = PSD__BARRIER__INIT;

    m.seq = insist_seq(c);
    m.name = (char *)"gate";
    return insist_post(c, MSG_BARRIER, m.seq, &m.base, NULL, 0);
}

/* A worker ahead waits for the other, by its pull and at a barrier, and is asked about; then the bound is raised, and
 * then the other is gone for good. */
static void
wait_in_ssp(void)
{
    struct insist_post *pull, *gate;

    server_memory_begin(PSD__MODE__SSP);
    push_four(w, four, 1);
    insist_tick(w, 0);
    insist_tick(w, 0);
    pull = insist_pull(w, four, 0, 2, false);
    insist_some(&x);
    ck_assert(!pull->done);
    ask_all();
    server_memory_set("*", 0.5);
    insist_some(&x);
    ck_assert(pull->done);
    gate = server_memory_arrive(w);
    insist_some(&x);
    ck_assert(!gate->done);
    ask_all();
    push_four(v, four, 2);
    server_memory_arrive(v);
    insist_all(&x);
    insist_tick(w, 0);
    pull = insist_pull(w, four, 0, 3, false);
    insist_some(&x);
    ck_assert(!pull->done);
    kit_close(&k, v->conn); /* and its lease ends */
    v->gone = true;
    for (int i = 0; i < 20 && !pull->done; i++) { /* a lapse that is taken back comes again later */
        kit_pass(&k, 6000);
        insist_some(&x);
    }
    insist_all(&x);
    insist_replace(v);
    v->gone = false;
    insist_some(&x);
    push_four(v, four, 4);
    insist_tick(v, 0);
    insist_all(&x);
}

static void
check_ssp(void)
{
    expect_four(o, four, 3, -1 - 0.5f * 2 - 0.5f * 4);
}

static void
server_memory_goodbye(struct insist_client *c)
{
    Psd__Goodbye m = PSD__GOODBYE__INIT;

    insist_all(&x);
    m.finished = true;
    kit_frame(&k, c->conn, MSG_GOODBYE, 0, &m.base, NULL, 0);
    insist_replace(c);
    c->gone = true;
}

/* Steps of two workers; in some of them one push is durable, or wants values. */
static void
step_in_sync(void)
{
    const float one[4] = {1, 1, 1, 1}, three[4] = {3, 3, 3, 3};

    server_memory_begin(PSD__MODE__SYNC);
    for (int step = 0; step < 3; step++) {
        uint64_t cursor[2] = {0, 10 + (uint64_t)step};
        struct kit_push a = {.var = four, .gradient = one, .len = 4, .want_value = step == 1, .cursor = cursor};
        struct kit_push b = {.var = four, .gradient = three, .len = 4, .durable = step == 2};

        insist_push_as(w, &a);
        insist_tick(w, cursor[1]);
        insist_pull(w, four, 0, (uint64_t)step + 1, false);
        insist_some(&x);
        insist_push_as(v, &b);
        insist_tick(v, 0);
        insist_all(&x);
    }
    server_memory_goodbye(w);
    server_memory_goodbye(v);
    w->gone = v->gone = false;
    insist_all(&x); /* the next round */
    push_four(w, four, 5);
    insist_some(&x);
    push_four(v, four, 7);
    insist_all(&x);
}

static void
check_sync(void)
{
    expect_four(o, four, 4, -12);
}

/* Updates move blocks that a save has not passed; then a checkpoint. */
static void
save_meanwhile(void)
{
    Psd__Save save = PSD__SAVE__INIT;
    Psd__Checkpoint checkpoint = PSD__CHECKPOINT__INIT;
    const float one[10000] = {0};

    server_memory_begin(PSD__MODE__ASYNC);
    x.saver = false;
    insist_post(o, MSG_SAVE, 0, &save.base, NULL, 0);
    insist_some(&x);
    for (uint32_t block = 0; block < 3; block++)
        insist_push(w, large, block, one, layout_capacity(1, 2));
    push_four(w, four, 1);
    push_four(v, four, 2);
    insist_some(&x);
    x.saver = true;
    insist_all(&x);
    checkpoint.job = (char *)"train";
    checkpoint.dir = (char *)"/c";
    insist_post(o, MSG_CHECKPOINT, 0, &checkpoint.base, NULL, 0);
    push_four(v, four, 4);
    insist_all(&x);
    insist_post(o, MSG_SAVE, 0, &save.base, NULL, 0);
    insist_all(&x);
}

static void
check_saved(void)
{
    expect_four(o, four, 3, -7);
}

/* A push waits for the disk when the process is killed, and again when it drains; both come again. */
static void
end_and_come_again(void)
{
    server_memory_begin(PSD__MODE__ASYNC);
    x.disk = false;
    push_four(w, four, 1);
    insist_push_as(v, &(struct kit_push){.var = four, .gradient = (float[]){2, 2, 2, 2}, .len = 4, .durable = true});
    insist_some(&x);
    kit_crash(&k);
    insist_crashed(&x);
    x.disk = true;
    push_four(w, four, 4);
    insist_all(&x);
    push_four(w, four, 8);
    insist_some(&x);
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    for (int i = 0; i < 20 && !k.stopped; i++)
        kit_turn(&k);
    ck_assert(k.stopped);
    kit_crash(&k);
    insist_crashed(&x);
    insist_all(&x);
}

static void
check_ended(void)
{
    expect_four(o, four, 4, -15);
}

static struct insist_post *
server_memory_meet(struct insist_client *c, uint32_t task)
{
    Psd__Meet m = PSD__MEET__INIT;

    m.cluster = (char *)"test";
    m.group = (char *)"group";
    m.workers = 2;
    m.task = task;
    m.incarnation = m.attempt = 1;
    m.timeout_ms = 1000000;
    m.address = (char *)"127.0.0.1:1";
    return insist_post(c, MSG_MEET, 0, &m.base, NULL, 0);
}

/* Two observers meet, beside a push whose turn may fail, and again after the shard's process was killed. */
static void
meet_twice(void)
{
    struct insist_client *other;
    struct insist_post *a, *b;

    server_memory_begin(PSD__MODE__ASYNC);
    other = insist_observer(&x);
    insist_all(&x);
    for (int round = 0; round < 2; round++) {
        a = server_memory_meet(o, 1);
        insist_some(&x);
        ck_assert(!a->done);
        if (round == 1) {
            kit_crash(&k);
            insist_crashed(&x);
        }
        b = server_memory_meet(other, 0);
        push_four(w, four, 1);
        insist_some(&x);
        ck_assert(a->done && b->done);
        ck_assert_int_eq(a->answer->msg.type, MSG_MET);
        ck_assert_uint_eq(a->answer->msg.u.met->n_member, 2);
        ck_assert_uint_eq(a->answer->msg.u.met->group, b->answer->msg.u.met->group);
        insist_all(&x);
    }
}

static void
check_met(void)
{
    expect_four(o, four, 2, -2);
}

struct memory_script {
    void (*run)(void);
    void (*check)(void);
};

static const struct memory_script scripts[] = {{push_in_async, check_async},      {wait_in_ssp, check_ssp},
                                               {step_in_sync, check_sync},        {save_meanwhile, check_saved},
                                               {end_and_come_again, check_ended}, {meet_twice, check_met}};

/* ---- What fails ---- */

enum { HOW_ONE, HOW_THREE, HOW_MANY, HOW_STORE }; /* allocations; then operations of the store */

static const uint64_t counts[HOW_STORE] = {1, 3, 12};

static void
fail_nth(int how, uint64_t n)
{
    if (how < HOW_STORE)
        failing_memory_at(n, counts[how]);
    else
        store_mem_fail_at(k.store, (enum store_mem_fail)(how - HOW_STORE), n);
}

/* Whether it was reached; from now on nothing fails. */
static bool
server_memory_failed(int how)
{
    bool yes = how < HOW_STORE ? failing_memory_failed() > 0 : store_mem_of(k.store)->fail_in[how - HOW_STORE] == 0;

    failing_memory_at(0, 0);
    store_mem_fail_none(k.store);
    return yes;
}

static bool
run_failing(const struct memory_script *script, int how, uint64_t n)
{
    struct shard_config config = {.cluster = "test", .shards = 1, .boot = 77, .durable = true};
    int64_t before = failing_memory_held();
    bool was_reached;

    kit_init(&k, &config);
    k.may_fail = true;
    x = (struct insist){.k = &k, .disk = true, .saver = true, .together = n % 2 == 0};
    fail_nth(how, n);
    script->run();
    was_reached = server_memory_failed(how);
    script->check();
    kit_crash(&k);
    insist_crashed(&x);
    script->check();
    insist_finish(&x);
    kit_finish(&k);
    ck_assert_int_eq(failing_memory_held(), before);
    return was_reached;
}

#define HOWS (HOW_STORE + STORE_MEM_FAILS_ALL)

START_TEST(each_failure_is_survived)
{
    const struct memory_script *script = &scripts[_i / HOWS];
    int how = _i % HOWS;
    uint64_t n = 1;

    if (how >= HOW_STORE + STORE_MEM_FAIL_READER_OPEN || how == HOW_STORE + STORE_MEM_FAIL_SNAPSHOT_REF)
        return; /* no call of the core's */
    while (run_failing(script, how, n)) {
        n++;
        if (getenv("KIT_LOG") != NULL)
            fprintf(stderr, "# script %d, failing %d at %" PRIu64 "\n", _i / HOWS, how, n);
    }
    ck_assert_uint_gt(n, how < HOW_STORE ? 100 : 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("server_memory");
    TCase *t = tcase_create("server_memory");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, each_failure_is_survived, 0, (int)ARRAY_LEN(scripts) * HOWS);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
