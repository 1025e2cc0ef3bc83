/* Output of a turn: acks in frames of limited size, and nothing of a turn that failed. */
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>

START_TEST(many_acks_take_several_frames)
{
    enum { N = 20000 };
    uint64_t next = 1;
    int frames = 0;
    struct kit_answer *a;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    k.hold = true;
    for (uint64_t seq = 1; seq <= N; seq++)
        kit_tick(&k, 1, seq, seq);
    kit_turn(&k);
    while ((a = kit_take(&k, 1)) != NULL) {
        ck_assert_int_eq(a->msg.type, MSG_ACK);
        ck_assert_uint_eq(a->msg.u.ack->n_code, 0); /* all OK: nothing to say */
        for (size_t i = 0; i < a->msg.u.ack->n_seq; i++)
            ck_assert_uint_eq(a->msg.u.ack->seq[i], next++);
        frames++;
        kit_answer_free(a);
    }
    ck_assert_uint_eq(next, N + 1);
    ck_assert_int_eq(frames, 3);
}
END_TEST

START_TEST(sentences_of_many_refusals_fit_frames)
{
    enum { N = 5000 };
    float g[3] = {0};
    uint64_t next = 1;
    int frames = 0;
    struct kit_answer *a;
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    k.hold = true;
    for (uint64_t seq = 1; seq <= N; seq++)
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .gradient = g, .len = 3});
    kit_turn(&k);
    while ((a = kit_take(&k, 1)) != NULL) { /* that they fit is checked as they are decoded */
        const Psd__Ack *m = a->msg.u.ack;

        for (size_t i = 0; i < m->n_seq; i++) {
            ck_assert_uint_eq(m->seq[i], next++);
            ck_assert_uint_eq(m->code[i], PS_ERR_SHAPE);
            ck_assert_uint_eq(m->error[i]->seq, m->seq[i]);
        }
        frames++;
        kit_answer_free(a);
    }
    ck_assert_uint_eq(next, N + 1);
    ck_assert_int_gt(frames, 1);
}
END_TEST

START_TEST(acks_leave_before_the_connection_is_closed)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    k.hold = true;
    kit_tick(&k, 1, 1, 1);
    kit_tick(&k, 1, 3, 2); /* a gap */
    k.hold = false;
    kit_turn(&k);
    kit_ack(&k, 1, 1, PS_OK);
    kit_expect_closed(&k, 1, PS_ERR_SEQUENCE);
}
END_TEST

START_TEST(failed_turn_says_nothing_but_goodbye)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__SSP, 2), 0);
    kit_join(&k, 2, kit_job("train", PSD__MODE__SSP, 2), 1);
    kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_tick(&k, 1, 1, 5);
    kit_ack(&k, 1, 1, PS_OK);
    kit_pull(&k, 1, 1, 0, 5);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    kit_tick(&k, 2, 1, 5); /* would release the pull */
    kit_expect_nothing(&k, 1);
    kit_expect_nothing(&k, 2);
    ck_assert(k.closed[1] && k.closed[2]); /* the one took part, the other waited */
    kit_resume(&k, 3, kit_job("train", PSD__MODE__SSP, 2), 0, 1);
    kit_pull(&k, 3, 1, 0, 5);
    kit_expect_nothing(&k, 3); /* the tick did not happen */
}
END_TEST

START_TEST(drain_is_over_also_when_its_commit_fails)
{
    float g[4] = {0};

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_declare(&k, 1, "w", 4, PS_SGD);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    k.hold = true;
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = 1, .gradient = g, .len = 4});
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    kit_event(&k, &(struct shard_event){.kind = SHARD_CLOSED, .conn = 1});
    k.open[1] = false;
    k.hold = false;
    kit_turn(&k);
    ck_assert(k.stopped);
    ck_assert(!shard_dirty(k.shard));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("actions");
    TCase *tc = tcase_create("actions");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, many_acks_take_several_frames);
    tcase_add_test(tc, sentences_of_many_refusals_fit_frames);
    tcase_add_test(tc, acks_leave_before_the_connection_is_closed);
    tcase_add_test(tc, failed_turn_says_nothing_but_goodbye);
    tcase_add_test(tc, drain_is_over_also_when_its_commit_fails);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
