/* The shard as a whole: connections, dispatch, hello, bad input, turns, draining, restart. */
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>
#include <string.h>

#include "server/core/durability/identity.h"

enum { LARGE = 65536 /* elements of the largest block */ };

static Psd__Hello
shard_hello(uint32_t task)
{
    Psd__Hello m = PSD__HELLO__INIT;

    m.cluster = "test";
    m.shards = 1;
    m.job = kit_job("train", PSD__MODE__ASYNC, 2);
    m.task = task;
    m.incarnation = 9;
    return m;
}

static void
say_hello(uint64_t conn, const Psd__Hello *m)
{
    kit_open(&k, conn);
    kit_frame(&k, conn, MSG_HELLO, 1, &m->base, NULL, 0);
}

START_TEST(hello_is_answered_with_job_and_clock)
{
    Psd__Hello m = shard_hello(1);
    struct kit_answer *a;

    say_hello(1, &m);
    a = kit_expect(&k, 1, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.request, 1);
    ck_assert_str_eq(a->msg.u.welcome->cluster, "test");
    ck_assert_str_eq(a->msg.u.welcome->job->name, "train");
    ck_assert_uint_eq(a->msg.u.welcome->boot, 77);
    ck_assert_uint_eq(a->msg.u.welcome->last_seq, 0);
    ck_assert_uint_eq(a->msg.u.welcome->clock, 0);
    ck_assert_uint_eq(a->msg.u.welcome->grace_ms, 5000);
    kit_answer_free(a);
    ck_assert_uint_gt(k.logs, 0);
}
END_TEST

START_TEST(client_of_another_cluster_is_refused)
{
    Psd__Hello m = shard_hello(0);

    m.cluster = "other";
    say_hello(1, &m);
    kit_expect_closed(&k, 1, PS_ERR_CLUSTER);
    m = shard_hello(0);
    m.shards = 2;
    say_hello(2, &m);
    kit_expect_closed(&k, 2, PS_ERR_CLUSTER);
    m = shard_hello(0);
    m.shard = 1;
    m.shards = 2;
    say_hello(3, &m);
    kit_expect_closed(&k, 3, PS_ERR_CLUSTER);
}
END_TEST

START_TEST(job_with_other_options_is_refused_with_what_differs)
{
    Psd__Hello m = shard_hello(0);
    struct kit_answer *a;

    say_hello(1, &m);
    kit_drop_answers(&k, 1);
    m.job->workers = 3;
    m.task = 1;
    say_hello(2, &m);
    a = kit_expect(&k, 2, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(
        strstr(a->msg.u.error->text, "' was opened with mode async, 2 workers, not async, 3 workers"));
    kit_answer_free(a);
    ck_assert(k.closed[2] && !k.closed[1]);
}
END_TEST

START_TEST(observer_may_leave_the_cluster_out_and_only_ask)
{
    Psd__Hello m = PSD__HELLO__INIT;
    Psd__Ping ping = PSD__PING__INIT;
    Psd__Tick tick = PSD__TICK__INIT;
    struct kit_answer *a;

    m.role = PSD__ROLE__OBSERVER;
    say_hello(1, &m);
    kit_answer_free(kit_expect(&k, 1, MSG_WELCOME));
    ping.token = 42;
    kit_frame(&k, 1, MSG_PING, 7, &ping.base, NULL, 0);
    a = kit_expect(&k, 1, MSG_PONG);
    ck_assert_uint_eq(a->msg.u.ping->token, 42);
    ck_assert_uint_eq(a->msg.request, 7);
    kit_answer_free(a);
    tick.seq = 1;
    kit_frame(&k, 1, MSG_TICK, 8, &tick.base, NULL, 0);
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL);
    m.cluster = "other";
    m.shards = 1;
    say_hello(2, &m);
    kit_expect_closed(&k, 2, PS_ERR_CLUSTER);
}
END_TEST

START_TEST(nothing_is_heard_before_hello)
{
    static const enum msg_type types[] = {MSG_PUSH, MSG_PULL, MSG_DECLARE, MSG_TICK, MSG_QUERY, MSG_PING, MSG_GOODBYE};

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        kit_open(&k, i);
        kit_bytes(&k, i, types[i], 1, "", 0, NULL, 0);
        kit_expect_closed(&k, i, PS_ERR_PROTOCOL);
    }
}
END_TEST

START_TEST(second_hello_breaks_the_connection)
{
    Psd__Hello m = shard_hello(0);

    kit_join(&k, 1, m.job, 0);
    kit_frame(&k, 1, MSG_HELLO, 2, &m.base, NULL, 0);
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(messages_of_a_server_break_the_connection)
{
    static const enum msg_type types[] = {MSG_WELCOME, MSG_DECLARED, MSG_DATA,  MSG_ACK,
                                          MSG_REPORT,  MSG_PONG,     MSG_ERROR, MSG_EVENT};

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        kit_hello(&k, i, &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 9), .task = (uint32_t)i});
        kit_drop_answers(&k, i);
        kit_bytes(&k, i, types[i], 1, "", 0, NULL, 0);
        while (k.answers[i] != NULL && k.answers[i]->msg.type == MSG_EVENT)
            kit_answer_free(kit_take(&k, i));
        kit_expect_closed(&k, i, PS_ERR_PROTOCOL);
    }
    kit_join(&k, 20, kit_job("train", PSD__MODE__ASYNC, 9), 8);
    kit_bytes(&k, 20, 99, 1, "", 0, NULL, 0);
    kit_expect_closed(&k, 20, PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(protobuf_garbage_ends_only_its_own_connection)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 1);
    kit_bytes(&k, 1, MSG_PUSH, 1, "\xff\xff\xff\xff\xff", 5, NULL, 0);
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL);
    kit_tick(&k, 2, 1, 1);
    kit_ack(&k, 2, 1, PS_OK);
}
END_TEST

START_TEST(invalid_pull_is_answered_and_the_connection_stays)
{
    Psd__Pull m = PSD__PULL__INIT;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_frame(&k, 1, MSG_PULL, 5, &m.base, NULL, 0); /* no blocks */
    kit_expect_error(&k, 1, 5, PS_ERR_INVALID);
    kit_tick(&k, 1, 1, 1);
    kit_ack(&k, 1, 1, PS_OK);
}
END_TEST

START_TEST(broken_stream_is_told_and_closed)
{
    struct ps_error e = {.code = PS_ERR_PROTOCOL, .text = "this is HTTP"};
    struct kit_answer *a;

    kit_open(&k, 1);
    kit_event(&k, &(struct shard_event){.kind = SHARD_BROKEN, .conn = 1, .error = &e});
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_str_eq(a->msg.u.error->text, "this is HTTP");
    kit_answer_free(a);
    ck_assert(k.closed[1]);
}
END_TEST

START_TEST(more_connections_than_allowed_are_refused)
{
    struct shard_config config = {.cluster = "test", .shards = 1, .boot = 1, .connections_max = 2};
    struct kit small;

    kit_init(&small, &config);
    kit_open(&small, 1);
    kit_open(&small, 2);
    kit_open(&small, 3);
    kit_expect_closed(&small, 3, PS_ERR_LIMIT);
    kit_close(&small, 1);
    kit_open(&small, 4);
    kit_expect_nothing(&small, 4);
    kit_finish(&small);
}
END_TEST

START_TEST(events_of_unknown_connections_are_ignored)
{
    Psd__Ping m = PSD__PING__INIT;

    kit_frame(&k, 9, MSG_PING, 1, &m.base, NULL, 0);
    kit_event(&k, &(struct shard_event){.kind = SHARD_CLOSED, .conn = 9});
    kit_expect_nothing(&k, 9);
}
END_TEST

START_TEST(acks_of_one_turn_share_a_frame)
{
    float g[4] = {1, 2, 3, 4};
    uint32_t var;
    struct kit_answer *a;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    k.hold = true;
    for (uint64_t seq = 1; seq <= 5; seq++)
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .gradient = g, .len = seq == 3 ? 3 : 4});
    kit_expect_nothing(&k, 1); /* nothing leaves before the commit */
    kit_turn(&k);
    a = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->n_seq, 5);
    ck_assert_uint_eq(a->msg.u.ack->code[2], PS_ERR_SHAPE);
    ck_assert_uint_eq(a->msg.u.ack->code[3], PS_OK);
    ck_assert_uint_eq(a->msg.u.ack->n_error, 1);
    ck_assert_uint_eq(a->msg.u.ack->error[0]->seq, 3);
    kit_answer_free(a);
    kit_expect_nothing(&k, 1);
}
END_TEST

START_TEST(drain_ends_all_and_stops)
{
    float g[4] = {0};
    uint32_t var;
    uint64_t request;

    kit_join(&k, 1, kit_job("train", PSD__MODE__SSP, 2), 0);
    kit_join(&k, 2, kit_job("train", PSD__MODE__SSP, 2), 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_tick(&k, 1, 1, 5);
    kit_ack(&k, 1, 1, PS_OK);
    request = kit_pull(&k, 1, var, 0, 5);
    kit_expect_nothing(&k, 1);
    k.hold = true;
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    k.hold = false;
    ck_assert(!k.stopped);
    kit_turn(&k);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_expect_error(&k, 1, request, PS_ERR_DRAINING);
    kit_answer_free(kit_expect(&k, 2, MSG_EVENT));
    kit_ack(&k, 2, 1, PS_OK); /* what came before is done */
    ck_assert(k.closed[1] && k.closed[2]);
    ck_assert(k.stopped);
}
END_TEST

START_TEST(hello_while_draining_is_refused)
{
    Psd__Hello m = shard_hello(0);

    kit_open(&k, 1);
    k.hold = true;
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    kit_event(&k, &(struct shard_event){.kind = SHARD_OPENED, .conn = 2, .peer = "x"});
    k.open[2] = true;
    k.hold = false;
    kit_frame(&k, 2, MSG_HELLO, 1, &m.base, NULL, 0);
    kit_expect_closed(&k, 2, PS_ERR_DRAINING);
    ck_assert(k.stopped);
    ck_assert(!shard_busy(k.shard));
}
END_TEST

/* Accepted just before the listeners close, and silent: a port scan, for example. */
START_TEST(silent_newcomer_does_not_hold_a_drain_up)
{
    kit_open(&k, 1);
    k.hold = true;
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    kit_event(&k, &(struct shard_event){.kind = SHARD_OPENED, .conn = 2, .peer = "x"});
    k.open[2] = true;
    k.hold = false;
    kit_turn(&k);
    kit_expect_closed(&k, 2, PS_ERR_DRAINING);
    ck_assert(k.stopped);
}
END_TEST

START_TEST(two_jobs_of_one_name_space_do_not_meet)
{
    float g[4] = {1, 1, 1, 1}, out[4];
    uint32_t a, b;

    kit_join(&k, 1, kit_job("one", PSD__MODE__ASYNC, 1), 0);
    kit_join(&k, 2, kit_job("two", PSD__MODE__ASYNC, 1), 0);
    a = kit_declare(&k, 1, "w", 4, PS_SGD);
    b = kit_declare(&k, 2, "w", 4, PS_SGD);
    ck_assert_uint_ne(a, b);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = b, .gradient = g, .len = 4});
    kit_ack(&k, 1, 1, PS_ERR_NOT_FOUND);
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = a, .gradient = g, .len = 4});
    kit_ack(&k, 1, 2, PS_OK);
    kit_expect_error(&k, 1, kit_pull(&k, 1, b, 0, 0), PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(kit_read(&k, 2, b, 0, out, 4), 0);
    ck_assert(out[0] == 0);
    ck_assert_uint_eq(kit_read(&k, 1, a, 0, out, 4), 1);
    ck_assert(out[0] == -1);
}
END_TEST

START_TEST(store_of_another_shard_is_refused)
{
    struct shard_config config = k.config;
    struct ps_error e;
    struct shard *s;

    config.cluster = "other";
    ck_assert_int_eq(shard_new(&config, k.store, 0, &s, &e), PS_ERR_CLUSTER);
    ck_assert_ptr_nonnull(strstr(e.text, "'other'"));
    config = k.config;
    config.shards = 2;
    ck_assert_int_eq(shard_new(&config, k.store, 0, &s, &e), PS_ERR_CLUSTER);
}
END_TEST

START_TEST(store_of_a_newer_format_is_refused)
{
    struct identity newer = {.format = SHARD_FORMAT_ASSIGNS + 1, .cluster = "test", .shards = 1, .id = 77};
    const struct store_ops *ops = k.store->ops;
    struct ps_error e = {0};
    struct shard *s;

    ck_assert_int_eq(ops->begin(k.store, STORE_ROW_ROOM), PS_OK);
    ck_assert_int_eq(identity_put(k.store, identity_live, &newer), PS_OK);
    ck_assert_int_eq(ops->commit(k.store), PS_OK);
    ck_assert_int_eq(shard_new(&k.config, k.store, 0, &s, &e), PS_ERR_VERSION);
    ck_assert_ptr_nonnull(strstr(e.text, "format 5"));
}
END_TEST

START_TEST(boot_id_stays_with_the_data)
{
    Psd__Hello m = shard_hello(0);
    struct kit_answer *a;

    k.config.boot = 123456;
    kit_crash(&k);
    say_hello(1, &m);
    a = kit_expect(&k, 1, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->boot, 77);
    kit_answer_free(a);
}
END_TEST

START_TEST(store_that_fails_at_birth_is_reported)
{
    struct store *store = store_mem_new(MIB);
    struct ps_error e;
    struct shard *s;

    store_mem_fail_at(store, STORE_MEM_FAIL_COMMIT, 1);
    ck_assert_int_eq(shard_new(&k.config, store, 0, &s, &e), PS_ERR_IO);
    store_mem_fail_at(store, STORE_MEM_FAIL_BEGIN, 1);
    ck_assert_int_eq(shard_new(&k.config, store, 0, &s, &e), PS_ERR_IO);
    store->ops->close(store);
}
END_TEST

START_TEST(failed_commit_undoes_the_turn_and_closes_who_took_part)
{
    float g[4] = {1, 1, 1, 1}, out[4];
    uint32_t var;
    uint64_t state;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 3), 0);
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 3), 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 1, 1, PS_OK);
    state = kit_state(&k);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = var, .gradient = g, .len = 4});
    kit_expect_nothing(&k, 1); /* neither ack nor error: it comes back and asks */
    ck_assert(k.closed[1] && !k.closed[2]);
    ck_assert_uint_eq(kit_state(&k), state);
    kit_tick(&k, 2, 1, 1); /* the other one goes on, in its session */
    kit_ack(&k, 2, 1, PS_OK);
    ck_assert_uint_eq(kit_resume(&k, 3, kit_job("train", PSD__MODE__ASYNC, 3), 0, 1), 1);
    kit_push(&k, 3, &(struct kit_push){.seq = 2, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 3, 2, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 3, var, 0, out, 4), 2);
    ck_assert(out[0] == -2);
}
END_TEST

/* A store whose operations are replaced for a while. */
static struct store_ops bad_ops;
static const struct store_ops *good_ops;
static int reserves_left;

static enum ps_err
each_row_fails(struct store *s, enum store_table t, store_visit_row visit, void *arg)
{
    (void)s;
    (void)t;
    (void)visit;
    (void)arg;
    return PS_ERR_IO;
}

static enum ps_err
reserve_finds_no_room(struct store *s, const struct store_key *key, size_t size, void **place)
{
    return reserves_left-- > 0 ? good_ops->reserve(s, key, size, place) : PS_ERR_FULL;
}

static void
shard_spoil(void)
{
    good_ops = k.store->ops;
    bad_ops = *good_ops;
    k.store->ops = &bad_ops;
}

START_TEST(store_that_cannot_be_read_again_is_tried_at_every_hello)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);

    kit_join(&k, 1, job, 0);
    kit_declare(&k, 1, "w", 4, PS_SGD);
    shard_spoil();
    bad_ops.each_row = each_row_fails;
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    kit_tick(&k, 1, 1, 1);
    ck_assert(k.closed[1]);
    ck_assert(!shard_busy(k.shard));
    kit_hello(&k, 2, &(struct kit_hello){.job = job, .resume = true});
    kit_expect_closed(&k, 2, PS_ERR_IO);
    k.store->ops = good_ops;
    kit_resume(&k, 3, job, 0, 0);
    kit_tick(&k, 3, 1, 1);
    kit_ack(&k, 3, 1, PS_OK);
    ck_assert_uint_eq(kit_declare(&k, 3, "w", 4, PS_SGD), 1);
}
END_TEST

START_TEST(block_without_room_leaves_the_others_of_its_push_alone)
{
    uint32_t var[3], block[3] = {0, 0, 0};
    float g[12], out[4];
    Psd__Push m = PSD__PUSH__INIT;
    const char *names[3] = {"a", "b", "c"};

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (int i = 0; i < 3; i++)
        var[i] = kit_declare(&k, 1, names[i], 4, PS_SGD);
    for (int i = 0; i < 12; i++)
        g[i] = 1;
    m.n_var = m.n_block = 3;
    m.var = var;
    m.block = block;
    m.seq = 1;
    kit_push_many(&k, 1, &m, g, 12);
    kit_ack(&k, 1, 1, PS_OK);
    shard_spoil();
    bad_ops.reserve = reserve_finds_no_room;
    reserves_left = 2;
    m.seq = 2;
    kit_push_many(&k, 1, &m, g, 12);
    kit_ack(&k, 1, 2, PS_ERR_FULL);
    k.store->ops = good_ops;
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(kit_read(&k, 1, var[i], 0, out, 4), 1);
        ck_assert(out[3] == -1);
    }
    m.seq = 3;
    kit_push_many(&k, 1, &m, g, 12);
    kit_ack(&k, 1, 3, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, var[1], 0, out, 4), 2);
    ck_assert(out[3] == -2);
}
END_TEST

/* All steps of a small training, with the nth store operation failing; workers that lose their connection come back. */
struct survivor {
    uint64_t conn, seq;
};

static void
come_back(struct survivor *w, uint32_t var, const float *g)
{
    for (int tries = 0; tries < 20; tries++) {
        struct kit_answer *a;

        if (k.closed[w->conn] || !k.open[w->conn]) {
            kit_hello(&k, ++w->conn, &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 1), .resume = true});
            a = kit_take(&k, w->conn);
            if (a == NULL || a->msg.type != MSG_WELCOME) {
                kit_answer_free(a);
                continue;
            }
            kit_answer_free(a);
        }
        kit_push(&k, w->conn, &(struct kit_push){.seq = w->seq, .var = var, .gradient = g, .len = 4});
        a = kit_take(&k, w->conn);
        if (a != NULL && a->msg.type == MSG_ACK) {
            ck_assert_uint_eq(a->msg.u.ack->seq[0], w->seq);
            ck_assert_uint_eq(a->msg.u.ack->n_code, 0);
            kit_answer_free(a);
            w->seq++;
            return;
        }
        kit_answer_free(a);
    }
    ck_abort_msg("push never got through");
}

START_TEST(store_may_fail_at_any_call_and_nothing_is_lost_or_doubled)
{
    float g[4] = {1, 2, 3, 4}, out[4];
    struct survivor w = {.conn = 1, .seq = 1};
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint64_t nth = 1; nth <= 3; nth++)
        for (int what = 0; what < STORE_MEM_FAILS; what++) {
            store_mem_fail_at(k.store, (enum store_mem_fail)what, nth);
            for (int i = 0; i < 4; i++)
                come_back(&w, var, g);
        }
    ck_assert_uint_eq(kit_read(&k, w.conn, var, 0, out, 4), w.seq - 1);
    for (int i = 0; i < 4; i++)
        ck_assert(out[i] == -g[i] * (float)(w.seq - 1));
}
END_TEST

START_TEST(declare_survives_a_failing_store)
{
    uint64_t dims = 12 * LARGE, conn = 1;

    kit_join(&k, conn, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (uint64_t nth = 1; nth <= 4; nth++)
        for (int what = 0; what < STORE_MEM_FAILS; what++) {
            char name[32];
            struct kit_answer *a = NULL;

            snprintf(name, sizeof name, "w%d.%d", (int)nth, what);
            store_mem_fail_at(k.store, (enum store_mem_fail)what, nth);
            for (int tries = 0; tries < 10 && (a == NULL || a->msg.type != MSG_DECLARED); tries++) {
                kit_answer_free(a);
                if (!k.open[conn])
                    kit_hello(&k, ++conn,
                              &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 1), .resume = true});
                kit_drop_answers(&k, conn);
                if (k.open[conn])
                    kit_declare_as(&k, conn, 7, name, &dims, 1, PS_SGD, PSD__INIT_KIND__UNIFORM);
                kit_work(&k);
                a = kit_take(&k, conn);
            }
            ck_assert_ptr_nonnull(a);
            ck_assert_int_eq(a->msg.type, MSG_DECLARED);
            kit_answer_free(a);
        }
}
END_TEST

START_TEST(restart_serves_the_same_bits)
{
    uint64_t dims[2] = {100, 70};
    float g[2000], before[1344], after[1344];
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    uint64_t state;

    for (int i = 0; i < 2000; i++)
        g[i] = (float)i * 0.01f - 3;
    kit_join(&k, 1, job, 0);
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++) {
        char name[16];

        snprintf(name, sizeof name, "w%d", kind);
        kit_declare_as(&k, 1, 50, name, dims, 2, (enum ps_optimizer_kind)kind, PSD__INIT_KIND__GLOROT_UNIFORM);
        kit_work(&k);
        kit_drop_answers(&k, 1);
    }
    for (uint64_t seq = 1; seq <= 30; seq++) {
        /* Block 1 is of the middle or the smallest class, as the slots have it. */
        uint32_t var = (uint32_t)(seq % PS_OPTIMIZER_KINDS) + 1;
        struct ps_optimizer o = kit_optimizer((enum ps_optimizer_kind)(var - 1));
        size_t len = layout_capacity(0, optimizer_slots(&o));

        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .block = 1, .gradient = g, .len = len});
        kit_ack(&k, 1, seq, PS_OK);
    }
    state = kit_state(&k);
    kit_read(&k, 1, 1, 1, before, 1008);
    kit_crash(&k);
    ck_assert_uint_eq(kit_state(&k), state);
    ck_assert_uint_eq(kit_resume(&k, 2, kit_job("train", PSD__MODE__ASYNC, 1), 0, 30), 30);
    ck_assert_uint_eq(kit_read(&k, 2, 1, 1, after, 1008), 30 / PS_OPTIMIZER_KINDS);
    ck_assert_mem_eq(before, after, 1008 * sizeof(float));
}
END_TEST

START_TEST(turn_that_is_full_ends_before_the_event)
{
    static float g[LARGE];
    uint64_t dims = 160 * LARGE;
    int full = 0;
    uint32_t var = 1;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_declare_as(&k, 1, 5, "w", &dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_work(&k);
    kit_drop_answers(&k, 1);
    k.hold = true;
    for (uint64_t seq = 1; seq <= 160; seq++) {
        kit_push(&k, 1,
                 &(struct kit_push){.seq = seq, .var = var, .block = (uint32_t)seq - 1, .gradient = g, .len = LARGE});
        full += k.answers[1] != NULL;
        kit_drop_answers(&k, 1);
    }
    ck_assert_int_ge(full, 2); /* 40 MiB do not fit turns of 16 */
    ck_assert_int_le(full, 4);
    /* The same block again and again takes no more room. */
    full = 0;
    for (uint64_t seq = 161; seq <= 210; seq++) {
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .block = 3, .gradient = g, .len = LARGE});
        full += k.answers[1] != NULL;
        kit_drop_answers(&k, 1);
    }
    ck_assert_int_le(full, 1);
    kit_turn(&k);
    kit_drop_answers(&k, 1);
    k.hold = false;
    ck_assert_uint_eq(kit_read(&k, 1, var, 3, g, LARGE), 51);
}
END_TEST

/* The updates of a turn are counted in bytes of weights and slots, however often a block comes. */
START_TEST(turn_that_has_updated_much_had_better_end)
{
    static float g[LARGE];
    uint32_t small, large;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    small = kit_declare(&k, 1, "small", 16384, PS_SGD);
    large = kit_declare(&k, 1, "large", LARGE, PS_SGD);
    k.hold = true;
    for (uint64_t seq = 1; seq <= 4; seq++) {
        ck_assert(!shard_long_turn(k.shard));
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = small, .gradient = g, .len = 16384});
    }
    ck_assert(shard_long_turn(k.shard)); /* four times 64 KiB */
    kit_turn(&k);
    ck_assert(!shard_long_turn(k.shard));
    kit_push(&k, 1, &(struct kit_push){.seq = 5, .var = large, .gradient = g, .len = LARGE});
    ck_assert(shard_long_turn(k.shard));
    k.hold = false;
    kit_turn(&k);
    kit_drop_answers(&k, 1);
}
END_TEST

/* Frames of every type with random metadata and payload, from connections in every state: nothing must break, and the
 * shard must still serve. */
START_TEST(random_frames_never_break_the_shard)
{
    struct test_rng rng = {test_seed()};
    uint8_t meta[64];
    static float payload[64];
    uint32_t var;
    float out[4];

    kit_join(&k, 1, kit_job("train", PSD__MODE__SYNC, 4), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (int i = 0; i < 20000; i++) {
        uint64_t conn = 2 + test_below(&rng, 6);
        size_t len = test_below(&rng, sizeof meta);
        unsigned type;

        if (!k.open[conn]) {
            if (test_below(&rng, 2) == 0)
                kit_open(&k, conn);
            else
                kit_hello(&k, conn,
                          &(struct kit_hello){.job = kit_job("train", PSD__MODE__SYNC, 4),
                                              .task = 1 + (uint32_t)test_below(&rng, 3),
                                              .incarnation = 1 + test_below(&rng, 3),
                                              .resume = test_below(&rng, 2) == 0});
        }
        if (!k.open[conn])
            continue;
        for (size_t j = 0; j < len; j++) /* small field numbers and values make valid messages likely */
            meta[j] = (uint8_t)(test_below(&rng, 4) == 0 ? test_rand(&rng) : test_below(&rng, 10) * 8);
        if ((type = (unsigned)test_below(&rng, MSG_TYPE_MAX + 2)) == MSG_DRAIN)
            continue; /* it would do just that */
        kit_bytes(&k, conn, type, test_below(&rng, 4), meta, len, payload,
                  test_below(&rng, 3) == 0 ? 4 * test_below(&rng, 64) : 0);
        kit_drop_answers(&k, conn);
        if (test_below(&rng, 50) == 0)
            kit_pass(&k, test_below(&rng, 4000));
        if (!k.open[1])
            break;
    }
    if (k.open[1])
        kit_close(&k, 1);
    kit_pass(&k, 10000);
    kit_hello(&k, 40, &(struct kit_hello){.job = kit_job("train", PSD__MODE__SYNC, 4), .incarnation = 99});
    kit_drop_answers(&k, 40);
    kit_read(&k, 40, var, 0, out, 4);
    ck_assert(isfinite(out[0]));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("shard");
    TCase *tc = tcase_create("shard");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, hello_is_answered_with_job_and_clock);
    tcase_add_test(tc, client_of_another_cluster_is_refused);
    tcase_add_test(tc, job_with_other_options_is_refused_with_what_differs);
    tcase_add_test(tc, observer_may_leave_the_cluster_out_and_only_ask);
    tcase_add_test(tc, nothing_is_heard_before_hello);
    tcase_add_test(tc, second_hello_breaks_the_connection);
    tcase_add_test(tc, messages_of_a_server_break_the_connection);
    tcase_add_test(tc, protobuf_garbage_ends_only_its_own_connection);
    tcase_add_test(tc, invalid_pull_is_answered_and_the_connection_stays);
    tcase_add_test(tc, broken_stream_is_told_and_closed);
    tcase_add_test(tc, more_connections_than_allowed_are_refused);
    tcase_add_test(tc, events_of_unknown_connections_are_ignored);
    tcase_add_test(tc, acks_of_one_turn_share_a_frame);
    tcase_add_test(tc, drain_ends_all_and_stops);
    tcase_add_test(tc, hello_while_draining_is_refused);
    tcase_add_test(tc, silent_newcomer_does_not_hold_a_drain_up);
    tcase_add_test(tc, two_jobs_of_one_name_space_do_not_meet);
    tcase_add_test(tc, store_of_another_shard_is_refused);
    tcase_add_test(tc, store_of_a_newer_format_is_refused);
    tcase_add_test(tc, boot_id_stays_with_the_data);
    tcase_add_test(tc, store_that_fails_at_birth_is_reported);
    tcase_add_test(tc, failed_commit_undoes_the_turn_and_closes_who_took_part);
    tcase_add_test(tc, store_that_cannot_be_read_again_is_tried_at_every_hello);
    tcase_add_test(tc, block_without_room_leaves_the_others_of_its_push_alone);
    tcase_add_test(tc, store_may_fail_at_any_call_and_nothing_is_lost_or_doubled);
    tcase_add_test(tc, declare_survives_a_failing_store);
    tcase_add_test(tc, restart_serves_the_same_bits);
    tcase_add_test(tc, turn_that_is_full_ends_before_the_event);
    tcase_add_test(tc, turn_that_has_updated_much_had_better_end);
    tcase_add_test(tc, random_frames_never_break_the_shard);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
