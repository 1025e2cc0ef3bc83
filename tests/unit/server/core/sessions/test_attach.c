/* The shard's side of reading without declaring: attaching, and an observer's pulls. */
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>

enum { WORKER = 1, OBSERVER = 2 };

static void
attach_variable(uint64_t conn, uint64_t request, const char *job, const char *name)
{
    Psd__Attach m = PSD__ATTACH__INIT;

    m.job = (char *)job;
    m.name = (char *)name;
    kit_frame(&k, conn, MSG_ATTACH, request, &m.base, NULL, 0);
}

/* The variable's number, after a check of its reported definition. */
static uint32_t
attach_answered(uint64_t conn, uint64_t request, const char *name, uint64_t elements)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_DECLARED);
    const Psd__Declared *m = a->msg.u.declared;
    uint32_t var = m->var;

    ck_assert_uint_eq(a->msg.request, request);
    ck_assert(!m->created);
    ck_assert_ptr_nonnull(m->declare);
    ck_assert_str_eq(m->declare->name, name);
    ck_assert_uint_eq(m->declare->n_dims, 1);
    ck_assert_uint_eq(m->declare->dims[0], elements);
    ck_assert_uint_eq(m->declare->optimizer->kind, PS_ADAM);
    kit_answer_free(a);
    return var;
}

static void
expect_text(uint64_t conn, uint64_t request, enum ps_err code, const char *says)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_ERROR);

    ck_assert_uint_eq(a->msg.request, request);
    ck_assert_uint_eq(a->msg.u.error->code, code);
    ck_assert_msg(strstr(a->msg.u.error->text, says) != NULL, "'%s' does not say '%s'", a->msg.u.error->text, says);
    kit_answer_free(a);
}

static uint32_t
declare_in(const char *job, Psd__Mode mode, uint64_t conn)
{
    kit_join(&k, conn, kit_job(job, mode, 2), 0);
    return kit_declare(&k, conn, "w", 4, PS_ADAM);
}

START_TEST(observer_learns_what_a_variable_is_and_reads_it)
{
    uint32_t var = declare_in("train", PSD__MODE__ASYNC, WORKER);
    uint64_t state;

    kit_push_four(&k, WORKER, 1, 0, var, 1);
    kit_ack(&k, WORKER, 1, PS_OK);
    state = kit_state(&k);
    kit_observe(&k, OBSERVER);
    attach_variable(OBSERVER, 7, "train", "w");
    ck_assert_uint_eq(attach_answered(OBSERVER, 7, "w", 4), var);
    ck_assert_float_ne(kit_value_four(&k, OBSERVER, var, 1), 0);
    kit_push_four(&k, WORKER, 2, 0, var, 1);
    kit_ack(&k, WORKER, 2, PS_OK);
    kit_value_four(&k, OBSERVER, var, 2);
    kit_goodbye(&k, OBSERVER, true);
    kit_crash(&k);
    ck_assert_uint_ne(kit_state(&k), state); /* the second push; and nothing by the observer: */
    kit_observe(&k, OBSERVER);
    kit_value_four(&k, OBSERVER, var, 2); /* the same number in the next life */
    state = kit_state(&k);
    attach_variable(OBSERVER, 8, "train", "w");
    attach_answered(OBSERVER, 8, "w", 4);
    ck_assert_uint_eq(kit_state(&k), state);
}
END_TEST

START_TEST(worker_attaches_within_its_job_only)
{
    uint32_t var = declare_in("train", PSD__MODE__ASYNC, WORKER);

    declare_in("other", PSD__MODE__ASYNC, 3);
    kit_join(&k, 4, kit_job("train", PSD__MODE__ASYNC, 2), 1);
    attach_variable(4, 7, "train", "w");
    ck_assert_uint_eq(attach_answered(4, 7, "w", 4), var);
    kit_push_four(&k, 4, 1, 0, var, 1);
    kit_ack(&k, 4, 1, PS_OK);
    attach_variable(4, 8, "other", "w");
    expect_text(4, 8, PS_ERR_INVALID, "job 'other'");
    kit_value_four(&k, 4, var, 1); /* and the connection goes on */
}
END_TEST

START_TEST(what_is_not_there_is_named)
{
    declare_in("train", PSD__MODE__ASYNC, WORKER);
    kit_observe(&k, OBSERVER);
    attach_variable(OBSERVER, 7, "nope", "w");
    expect_text(OBSERVER, 7, PS_ERR_NOT_FOUND, "no job 'nope'");
    attach_variable(OBSERVER, 8, "train", "v");
    expect_text(OBSERVER, 8, PS_ERR_NOT_FOUND, "no variable 'v' in job 'train'");
    attach_variable(OBSERVER, 9, "train", "w");
    attach_answered(OBSERVER, 9, "w", 4);
}
END_TEST

START_TEST(an_attach_waits_for_the_blocks)
{
    uint64_t elements = 4;

    kit_join(&k, WORKER, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_observe(&k, OBSERVER);
    kit_declare_as(&k, WORKER, 5, "w", &elements, 1, PS_ADAM, PSD__INIT_KIND__ZEROS);
    attach_variable(OBSERVER, 7, "train", "w");
    kit_expect_nothing(&k, OBSERVER);
    if (_i == 1) {
        kit_cancel(&k, OBSERVER, 7);
        kit_expect_error(&k, OBSERVER, 7, PS_ERR_CANCELLED);
        kit_work(&k);
        kit_expect_nothing(&k, OBSERVER);
    } else if (_i == 2) {
        kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
        kit_answer_free(kit_expect(&k, OBSERVER, MSG_EVENT));
        kit_expect_error(&k, OBSERVER, 7, PS_ERR_DRAINING);
    } else if (_i == 3) {
        kit_close(&k, OBSERVER);
        kit_work(&k);
    } else {
        kit_work(&k);
        attach_answered(OBSERVER, 7, "w", 4);
    }
}
END_TEST

/* In ssp and sync, where a worker's pull at that clock would wait. */
START_TEST(an_observers_pull_waits_for_nobody)
{
    Psd__Mode mode = _i == 0 ? PSD__MODE__SSP : PSD__MODE__SYNC;
    uint32_t var = declare_in("train", mode, WORKER);

    kit_observe(&k, OBSERVER);
    kit_pull(&k, WORKER, var, 0, 9);
    kit_expect_nothing(&k, WORKER);
    kit_pull(&k, OBSERVER, var, 0, 9);
    kit_answer_free(kit_expect(&k, OBSERVER, MSG_DATA));
}
END_TEST

START_TEST(nobody_waits_for_an_observer)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 1);
    uint32_t var;

    kit_join(&k, WORKER, job, 0);
    var = kit_declare(&k, WORKER, "w", 4, PS_ADAM);
    kit_observe(&k, OBSERVER);
    attach_variable(OBSERVER, 7, "train", "w");
    attach_answered(OBSERVER, 7, "w", 4);
    for (uint64_t clock = 0; clock < 5; clock++) {
        kit_push_four(&k, WORKER, 2 * clock + 1, clock, var, 1);
        kit_ack(&k, WORKER, 2 * clock + 1, PS_OK);
        kit_ticked(&k, WORKER, 2 * clock + 2, clock + 1);
        kit_value_four(&k, OBSERVER, var, clock + 1);
    }
    kit_goodbye(&k, WORKER, true);
    kit_value_four(&k, OBSERVER, var, 5); /* the workers have finished, the model is there */
}
END_TEST

START_TEST(an_observers_bad_pull_is_answered)
{
    uint32_t var = declare_in("train", PSD__MODE__ASYNC, WORKER), other = declare_in("other", PSD__MODE__ASYNC, 3);
    uint32_t vars[2] = {var, other}, blocks[2] = {0, 0};
    Psd__Pull m = PSD__PULL__INIT;
    uint64_t request;

    kit_observe(&k, OBSERVER);
    request = kit_pull(&k, OBSERVER, 0, 0, 0);
    expect_text(OBSERVER, request, PS_ERR_NOT_FOUND, "attach first");
    request = kit_pull(&k, OBSERVER, UINT32_MAX, 0, 0);
    expect_text(OBSERVER, request, PS_ERR_NOT_FOUND, "attach first");
    request = kit_pull(&k, OBSERVER, var, 1, 0);
    expect_text(OBSERVER, request, PS_ERR_NOT_FOUND, "no block 1");
    m.n_var = m.n_block = 2;
    m.var = vars;
    m.block = blocks;
    kit_frame(&k, OBSERVER, MSG_PULL, 99, &m.base, NULL, 0);
    expect_text(OBSERVER, 99, PS_ERR_NOT_FOUND, "in job 'train'");
    kit_cancel(&k, OBSERVER, 99);
    kit_value_four(&k, OBSERVER, var, 0);
}
END_TEST

START_TEST(an_observer_that_trains_is_let_go)
{
    static const enum msg_type types[] = {MSG_DECLARE, MSG_PUSH, MSG_TICK, MSG_BARRIER, MSG_SKIP};

    declare_in("train", PSD__MODE__ASYNC, WORKER);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        kit_observe(&k, OBSERVER + i);
        kit_bytes(&k, OBSERVER + i, types[i], 1, "", 0, NULL, 0);
        kit_expect_closed(&k, OBSERVER + i, PS_ERR_PROTOCOL);
    }
}
END_TEST

/* Its blocks could not be made: a client that may not declare cannot have them made either. */
START_TEST(what_was_never_finished_is_not_found)
{
    uint64_t elements = 4 * 262144;

    kit_join(&k, WORKER, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_observe(&k, OBSERVER);
    kit_declare_as(&k, WORKER, 5, "w", &elements, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_BEGIN, 1);
    kit_work(&k);
    kit_drop_answers(&k, WORKER);
    attach_variable(OBSERVER, 7, "train", "w");
    expect_text(OBSERVER, 7, PS_ERR_NOT_FOUND, "blocks of variable 'w'");
}
END_TEST

START_TEST(attaches_that_wait_have_a_limit)
{
    uint64_t elements = 4;

    kit_join(&k, WORKER, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_observe(&k, OBSERVER);
    kit_declare_as(&k, WORKER, 5, "w", &elements, 1, PS_ADAM, PSD__INIT_KIND__ZEROS);
    for (uint64_t i = 0; i < SHARD_PARKED; i++)
        attach_variable(OBSERVER, 100 + i, "train", "w");
    kit_expect_nothing(&k, OBSERVER);
    attach_variable(OBSERVER, 7, "train", "w");
    kit_expect_error(&k, OBSERVER, 7, PS_ERR_LIMIT);
    kit_work(&k);
    for (uint64_t i = 0; i < SHARD_PARKED; i++)
        attach_answered(OBSERVER, 100 + i, "w", 4);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("attach");
    TCase *tc = tcase_create("attach");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_add_test(tc, observer_learns_what_a_variable_is_and_reads_it);
    tcase_add_test(tc, worker_attaches_within_its_job_only);
    tcase_add_test(tc, what_is_not_there_is_named);
    tcase_add_loop_test(tc, an_attach_waits_for_the_blocks, 0, 4);
    tcase_add_loop_test(tc, an_observers_pull_waits_for_nobody, 0, 2);
    tcase_add_test(tc, nobody_waits_for_an_observer);
    tcase_add_test(tc, an_observers_bad_pull_is_answered);
    tcase_add_test(tc, an_observer_that_trains_is_let_go);
    tcase_add_test(tc, what_was_never_finished_is_not_found);
    tcase_add_test(tc, attaches_that_wait_have_a_limit);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
