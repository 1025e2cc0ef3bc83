/* The rendezvous at a shard: who may ask, the answers, the ends of a wait, the reports; and turns that fail. */
#include <string.h>

#include "common/core/cluster/rendezvous_core.h"
#include "tests/unit/kits/shard_fixture.h"

static Psd__Meet *
rendezvous_service_meet(uint32_t task)
{
    static Psd__Meet m;

    psd__meet__init(&m);
    m.cluster = (char *)"test";
    m.group = (char *)"group";
    m.workers = 2;
    m.task = task;
    m.incarnation = 100 + task;
    m.attempt = 1;
    m.settle_ms = 100;
    m.timeout_ms = 1000;
    m.address = (char *)"127.0.0.1:4000";
    m.host = (char *)"here";
    return &m;
}

/* By request 50 + conn. */
static void
rendezvous_service_ask(uint64_t conn, const Psd__Meet *m)
{
    kit_frame(&k, conn, MSG_MEET, 50 + conn, &m->base, NULL, 0);
}

static void
rendezvous_service_come(uint64_t conn, uint32_t task)
{
    kit_observe(&k, conn);
    rendezvous_service_ask(conn, rendezvous_service_meet(task));
}

/* Its epoch. */
static uint64_t
rendezvous_service_answered(uint64_t conn, uint32_t ranks)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_MET);
    uint64_t epoch = a->msg.u.met->epoch;

    ck_assert_uint_eq(a->msg.request, 50 + conn);
    ck_assert_uint_eq(a->msg.u.met->n_member, ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        ck_assert_uint_eq(a->msg.u.met->member[rank]->incarnation, 100 + a->msg.u.met->member[rank]->task);
        ck_assert_str_eq(a->msg.u.met->member[rank]->address, "127.0.0.1:4000");
        ck_assert_str_eq(a->msg.u.met->member[rank]->host, "here");
    }
    kit_answer_free(a);
    return epoch;
}

START_TEST(workers_meet_at_shard_0)
{
    uint64_t epoch;

    rendezvous_service_come(1, 1);
    kit_expect_nothing(&k, 1);
    rendezvous_service_come(2, 0);
    epoch = rendezvous_service_answered(1, 2);
    ck_assert_uint_eq(rendezvous_service_answered(2, 2), epoch);
    rendezvous_service_ask(1, rendezvous_service_meet(1)); /* again, by the same connections */
    rendezvous_service_ask(2, rendezvous_service_meet(0));
    ck_assert_uint_gt(rendezvous_service_answered(1, 2), epoch);
    rendezvous_service_answered(2, 2);
    ck_assert(k.open[1] && k.open[2]);
}
END_TEST

START_TEST(meetings_are_of_shard_0_alone)
{
    struct shard_config config = {.cluster = "test", .shard = 1, .shards = 2, .boot = 1};

    kit_finish(&k);
    kit_init(&k, &config);
    kit_open(&k, 1);
    {
        Psd__Hello hello = PSD__HELLO__INIT;

        hello.role = PSD__ROLE__OBSERVER;
        kit_frame(&k, 1, MSG_HELLO, 1, &hello.base, NULL, 0);
        kit_answer_free(kit_expect(&k, 1, MSG_WELCOME));
    }
    rendezvous_service_ask(1, rendezvous_service_meet(0));
    kit_expect_error(&k, 1, 51, PS_ERR_INVALID);
    ck_assert(k.open[1]);
}
END_TEST

START_TEST(strangers_and_workers_without_a_place_are_refused)
{
    Psd__Meet *m = rendezvous_service_meet(0);

    kit_observe(&k, 1);
    m->cluster = (char *)"another";
    rendezvous_service_ask(1, m);
    kit_expect_error(&k, 1, 51, PS_ERR_CLUSTER);
    rendezvous_service_ask(1, rendezvous_service_meet(0));
    rendezvous_service_ask(1, rendezvous_service_meet(1));
    kit_expect_error(&k, 1, 51, PS_ERR_INVALID); /* one connection, one place */
    kit_observe(&k, 2);
    m = rendezvous_service_meet(1);
    m->workers = 3;
    rendezvous_service_ask(2, m);
    kit_expect_error(&k, 2, 52, PS_ERR_CLUSTER);
    m = rendezvous_service_meet(0);
    m->incarnation = 7;
    rendezvous_service_ask(2, m);
    kit_expect_error(&k, 2, 52, PS_ERR_TASK_TAKEN);
    m = rendezvous_service_meet(0);
    m->address = (char *)"nowhere";
    rendezvous_service_ask(2, m);
    kit_expect_error(&k, 2, 52, PS_ERR_INVALID);
    rendezvous_service_ask(2, rendezvous_service_meet(1));
    rendezvous_service_answered(1, 2);
    rendezvous_service_answered(2, 2);
}
END_TEST

START_TEST(only_an_observer_may_ask)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    rendezvous_service_ask(1, rendezvous_service_meet(0));
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL);
    kit_open(&k, 2);
    rendezvous_service_ask(2, rendezvous_service_meet(0));
    kit_expect_closed(&k, 2, PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(a_lost_connection_leaves_its_place_to_a_replacement)
{
    Psd__Meet *m = rendezvous_service_meet(0);

    rendezvous_service_come(1, 0);
    kit_close(&k, 1);
    rendezvous_service_come(2, 1);
    kit_expect_nothing(&k, 2);
    kit_observe(&k, 3);
    m = rendezvous_service_meet(0);
    rendezvous_service_ask(3, m);
    rendezvous_service_answered(3, 2);
    rendezvous_service_answered(2, 2);
}
END_TEST

START_TEST(who_does_not_come_is_named_in_time)
{
    rendezvous_service_come(1, 1);
    kit_pass(&k, 999);
    kit_expect_nothing(&k, 1);
    ck_assert_uint_eq(shard_next_time(k.shard), k.now_ms + 1);
    kit_pass(&k, 1);
    {
        struct kit_answer *a = kit_expect(&k, 1, MSG_ERROR);

        ck_assert_uint_eq(a->msg.request, 51);
        ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_TIMEOUT);
        ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "shard 0 for group 'group': worker 0 has not come"));
        kit_answer_free(a);
    }
    ck_assert(k.open[1]);
    ck_assert_uint_gt(shard_next_time(k.shard), k.now_ms + 100000);
}
END_TEST

START_TEST(survivors_go_on_when_it_is_quiet)
{
    Psd__Meet *m;

    kit_observe(&k, 1);
    m = rendezvous_service_meet(1);
    m->ranks_min = 1;
    rendezvous_service_ask(1, m);
    kit_pass(&k, 99);
    kit_expect_nothing(&k, 1);
    kit_pass(&k, 1);
    rendezvous_service_answered(1, 1);
}
END_TEST

START_TEST(a_question_can_be_taken_back)
{
    rendezvous_service_come(1, 1);
    kit_cancel(&k, 1, 51);
    kit_expect_error(&k, 1, 51, PS_ERR_CANCELLED);
    rendezvous_service_come(2, 0);
    kit_expect_nothing(&k, 2);
    rendezvous_service_ask(1, rendezvous_service_meet(1));
    rendezvous_service_answered(1, 2);
    rendezvous_service_answered(2, 2);
}
END_TEST

START_TEST(a_shard_that_stops_says_so)
{
    rendezvous_service_come(1, 1);
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_expect_error(&k, 1, 51, PS_ERR_DRAINING);
    kit_drop_answers(&k, 1);
    ck_assert(k.closed[1]);
}
END_TEST

START_TEST(who_asked_before_a_restart_asks_again)
{
    Psd__Meet *m = rendezvous_service_meet(0);
    uint64_t epoch;

    rendezvous_service_come(1, 1);
    rendezvous_service_come(2, 0);
    epoch = rendezvous_service_answered(1, 2);
    rendezvous_service_answered(2, 2);
    rendezvous_service_ask(1, rendezvous_service_meet(1));
    kit_crash(&k);
    kit_observe(&k, 1);
    kit_observe(&k, 2);
    m = rendezvous_service_meet(1);
    m->epoch = epoch;
    rendezvous_service_ask(1, m);
    kit_expect_nothing(&k, 1);
    rendezvous_service_ask(2, rendezvous_service_meet(0));
    ck_assert_uint_gt(rendezvous_service_answered(1, 2), epoch);
    rendezvous_service_answered(2, 2);
}
END_TEST

static Psd__Report *
rendezvous_service_report(struct kit_answer **a, Psd__QueryKind kind, const char *job)
{
    *a = kit_ask(&k, 9, kind, job);
    return (*a)->msg.u.report;
}

START_TEST(who_waits_at_a_meeting_is_reported)
{
    struct kit_answer *a;
    Psd__Report *r;
    bool found = false;

    kit_observe(&k, 9);
    rendezvous_service_come(1, 1);
    kit_pass(&k, 70);
    r = rendezvous_service_report(&a, PSD__QUERY_KIND__BLOCKED, "");
    ck_assert_uint_eq(r->n_blocked, 1);
    ck_assert_str_eq(r->blocked[0]->what, "meeting group");
    ck_assert_uint_eq(r->blocked[0]->task, 1);
    ck_assert_uint_eq(r->blocked[0]->waited_ms, 70);
    ck_assert_uint_eq(r->blocked[0]->n_on_task, 1);
    ck_assert_uint_eq(r->blocked[0]->on_task[0], 0);
    kit_answer_free(a);
    r = rendezvous_service_report(&a, PSD__QUERY_KIND__BLOCKED, "train");
    ck_assert_uint_eq(r->n_blocked, 0);
    kit_answer_free(a);
    r = rendezvous_service_report(&a, PSD__QUERY_KIND__STATS, "");
    for (size_t i = 0; i < r->stats->n_limit; i++) {
        const Psd__LimitReport *l = r->stats->limit[i];

        if (strcmp(l->name, "workers at meetings") != 0)
            continue;
        found = true;
        ck_assert_uint_eq(l->now, 1);
        ck_assert_uint_eq(l->max, RENDEZVOUS_REQUESTS_MAX);
    }
    ck_assert(found);
    kit_answer_free(a);
}
END_TEST

/* The turn in which the last one came fails: none was answered, all ask again. */
START_TEST(a_table_that_was_not_committed_is_asked_for_again)
{
    const float gradient[4] = {1, 1, 1, 1};
    uint32_t var;

    kit_join(&k, 9, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 9, "w", 4, PS_SGD);
    rendezvous_service_come(1, 1);
    kit_observe(&k, 2);
    kit_observe(&k, 3);
    {
        Psd__Meet *m = rendezvous_service_meet(0);

        m->group = (char *)"other";
        rendezvous_service_ask(3, m);
    }
    k.hold = k.may_fail = true;
    rendezvous_service_ask(2, rendezvous_service_meet(0));
    kit_push(&k, 9, &(struct kit_push){.seq = 1, .var = var, .gradient = gradient, .len = 4});
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    kit_turn(&k);
    k.hold = false;
    ck_assert(k.closed[1] && k.closed[2] && !k.closed[3]);
    kit_expect_nothing(&k, 1);
    kit_expect_nothing(&k, 2);
    rendezvous_service_come(4, 0);
    kit_expect_nothing(&k, 4);
    rendezvous_service_come(5, 1);
    rendezvous_service_answered(4, 2);
    rendezvous_service_answered(5, 2);
    kit_expect_nothing(&k, 3);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("meetings");
    TCase *tc = tcase_create("meetings");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, workers_meet_at_shard_0);
    tcase_add_test(tc, meetings_are_of_shard_0_alone);
    tcase_add_test(tc, strangers_and_workers_without_a_place_are_refused);
    tcase_add_test(tc, only_an_observer_may_ask);
    tcase_add_test(tc, a_lost_connection_leaves_its_place_to_a_replacement);
    tcase_add_test(tc, who_does_not_come_is_named_in_time);
    tcase_add_test(tc, survivors_go_on_when_it_is_quiet);
    tcase_add_test(tc, a_question_can_be_taken_back);
    tcase_add_test(tc, a_shard_that_stops_says_so);
    tcase_add_test(tc, who_asked_before_a_restart_asks_again);
    tcase_add_test(tc, who_waits_at_a_meeting_is_reported);
    tcase_add_test(tc, a_table_that_was_not_committed_is_asked_for_again);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
