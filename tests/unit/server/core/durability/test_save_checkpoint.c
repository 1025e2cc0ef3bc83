/* Checkpoints: their instant, their contents, and which clients are notified. */
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>

#include "common/core/model/layout.h"
#include "server/core/durability/save_request.h"

static struct layout layouts[3]; /* of variables 1 and 2 */
static uint64_t seq[4], clocks[4];

static void
save_checkpoint_setup(void)
{
    kit_init(&k, NULL); /* no durable environment is needed */
    memset(seq, 0, sizeof seq);
    memset(clocks, 0, sizeof clocks);
}

static Psd__Job *
job_of(Psd__Mode mode, uint32_t workers)
{
    return kit_job("train", mode, workers);
}

/* Worker t is on connection t + 1; variables 1 and 2; an observer on 10. */
static void
start_job(Psd__Job *job)
{
    static const uint64_t elements[] = {0, 20000, 10};

    for (uint32_t task = 0; task < job->workers; task++)
        kit_join(&k, task + 1, job, task);
    for (uint32_t var = 1; var <= 2; var++) {
        layout_init(&layouts[var], elements[var], 0);
        ck_assert_uint_eq(kit_declare(&k, 1, var == 1 ? "w" : "b", elements[var], PS_SGD), var);
    }
    kit_observe(&k, 10);
}

static void
push_block(uint64_t conn, uint32_t var, uint32_t block)
{
    static float gradient[20000];

    kit_push(&k, conn,
             &(struct kit_push){.seq = ++seq[conn],
                                .clock = clocks[conn],
                                .var = var,
                                .block = block,
                                .gradient = gradient,
                                .len = layout_block(&layouts[var], block).len});
}

static void
push_all(uint64_t conn)
{
    for (uint32_t var = 1; var <= 2; var++)
        for (uint32_t block = 0; block < layouts[var].blocks; block++)
            push_block(conn, var, block);
}

static void
save_checkpoint_tick(uint64_t conn)
{
    kit_tick(&k, conn, ++seq[conn], ++clocks[conn]);
}

static void
save_checkpoint_ask(uint64_t conn, uint64_t request, const char *job, const uint64_t *clock)
{
    Psd__Checkpoint m = PSD__CHECKPOINT__INIT;

    m.job = (char *)job;
    m.dir = (char *)"/ckpt/1";
    m.at_clock = clock != NULL;
    m.clock = clock != NULL ? *clock : 0;
    kit_frame(&k, conn, MSG_CHECKPOINT, request, &m.base, NULL, 0);
}

static void
ask_at(uint64_t clock)
{
    save_checkpoint_ask(10, 5, "train", &clock);
}

/* The sink reads all and is done. Returns how many blocks there were. */
static size_t
write_out(void)
{
    static struct shard_save_block blocks[1000];
    size_t n;

    ck_assert_ptr_nonnull(k.save);
    n = shard_save_next(k.shard, SIZE_MAX, blocks, 1000);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
    kit_save_ended(&k, 4321, 2, NULL);
    return n;
}

static struct kit_answer *
save_checkpoint_answer(uint64_t conn)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_CHECKPOINT_DONE);

    ck_assert_uint_eq(a->msg.request, 5);
    return a;
}

static void
expect_clock(const Psd__CheckpointDone *m, uint64_t clock)
{
    ck_assert_uint_eq(m->n_variable, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(m->variable[i]->clock_min, clock);
        ck_assert_uint_eq(m->variable[i]->clock_max, clock);
        ck_assert_uint_eq(m->variable[i]->version_min, clock);
        ck_assert_uint_eq(m->variable[i]->version_max, clock);
    }
}

START_TEST(checkpoint_has_the_jobs_blocks_and_rows_and_no_others)
{
    struct kit_answer *a;

    start_job(job_of(PSD__MODE__ASYNC, 1));
    kit_join(&k, 5, kit_job("other", PSD__MODE__ASYNC, 1), 0);
    kit_declare(&k, 5, "x", 100, PS_SGD);
    push_block(1, 1, 0);
    save_checkpoint_ask(10, 5, "train", NULL);
    ck_assert_str_eq(k.save->checkpoint, "/ckpt/1");
    ck_assert_str_eq(k.save->job, "train");
    ck_assert_uint_eq(k.save->number, 0);
    ck_assert_uint_eq(k.save->blocks, layouts[1].blocks + layouts[2].blocks);
    ck_assert_uint_eq(k.save->rows_len, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(k.save->rows[i].table, STORE_VARS);
    ck_assert_uint_eq(write_out(), layouts[1].blocks + layouts[2].blocks);
    a = save_checkpoint_answer(10);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->bytes, 4321);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->left_out, 2);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->blocks, layouts[1].blocks + layouts[2].blocks);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->n_variable, 2);
    ck_assert_str_eq(a->msg.u.checkpoint_done->variable[0]->name, "w");
    ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[0]->version_min, 0);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[0]->version_max, 1);
    kit_answer_free(a);
}
END_TEST

START_TEST(job_that_is_not_known_has_no_checkpoint)
{
    kit_observe(&k, 10);
    save_checkpoint_ask(10, 5, "train", NULL);
    kit_expect_error(&k, 10, 5, PS_ERR_NOT_FOUND);
    ck_assert_ptr_null(k.save);
}
END_TEST

START_TEST(sync_checkpoint_waits_until_all_steps_before_its_clock_are_done)
{
    struct kit_answer *a;

    start_job(job_of(PSD__MODE__SYNC, 2));
    ask_at(2);
    for (int step = 0; step < 2; step++) {
        for (uint64_t conn = 1; conn <= 2; conn++) {
            ck_assert_ptr_null(k.save);
            push_all(conn);
            if (step == 0 || conn == 1)
                save_checkpoint_tick(conn);
        }
    }
    ck_assert_ptr_nonnull(k.save); /* when the last block was done, no tick is needed */
    save_checkpoint_tick(2);
    push_all(1);
    push_all(2); /* it goes on */
    write_out();
    a = save_checkpoint_answer(10);
    expect_clock(a->msg.u.checkpoint_done, 2);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->clock, 1); /* of the slowest: worker 2 had not ticked */
    kit_answer_free(a);
}
END_TEST

/* All that comes in one turn: the next step's pushes must not get in before the instant. */
START_TEST(sync_checkpoint_holds_one_clock_when_pushes_of_the_next_step_are_in_the_same_turn)
{
    struct kit_answer *a;

    start_job(job_of(PSD__MODE__SYNC, 2));
    ask_at(1);
    k.hold = true;
    for (int step = 0; step < 3; step++)
        for (uint64_t conn = 1; conn <= 2; conn++) {
            push_all(conn);
            save_checkpoint_tick(conn);
        }
    kit_turn(&k);
    k.hold = false;
    write_out();
    a = save_checkpoint_answer(10);
    expect_clock(a->msg.u.checkpoint_done, 1);
    kit_answer_free(a);
}
END_TEST

START_TEST(sync_checkpoint_that_comes_too_late_takes_the_next_common_clock)
{
    struct kit_answer *a;

    start_job(job_of(PSD__MODE__SYNC, 2));
    for (int step = 0; step < 3; step++)
        for (uint64_t conn = 1; conn <= 2; conn++) {
            push_all(conn);
            save_checkpoint_tick(conn);
        }
    for (uint64_t conn = 1; conn <= 2; conn++) /* one block is a step further */
        push_block(conn, 1, 0);
    ask_at(2);
    ck_assert_ptr_null(k.save);
    for (uint64_t conn = 1; conn <= 2; conn++) {
        for (uint32_t block = 1; block < layouts[1].blocks; block++)
            push_block(conn, 1, block);
        push_block(conn, 2, 0);
    }
    write_out();
    a = save_checkpoint_answer(10);
    expect_clock(a->msg.u.checkpoint_done, 4);
    kit_answer_free(a);
}
END_TEST

START_TEST(blocks_that_nobody_pushes_to_are_at_the_slowest_clock)
{
    struct kit_answer *a;

    start_job(job_of(PSD__MODE__SYNC, 2));
    ask_at(3);
    for (int step = 0; step < 3; step++)
        for (uint64_t conn = 1; conn <= 2; conn++) {
            push_block(conn, 2, 0);
            save_checkpoint_tick(conn);
        }
    write_out();
    a = save_checkpoint_answer(10);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[0]->clock_min, 3);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[0]->clock_max, 3);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[0]->version_max, 0);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[1]->clock_min, 3);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->clock, 3);
    kit_answer_free(a);
}
END_TEST

START_TEST(ssp_checkpoint_waits_for_the_slowest_worker)
{
    struct kit_answer *a;

    start_job(job_of(PSD__MODE__SSP, 2));
    ask_at(2);
    save_checkpoint_tick(1);
    save_checkpoint_tick(1);
    save_checkpoint_tick(2);
    ck_assert_ptr_null(k.save);
    save_checkpoint_tick(2);
    write_out();
    a = save_checkpoint_answer(10);
    ck_assert_uint_eq(a->msg.u.checkpoint_done->clock, 2);
    kit_answer_free(a);
}
END_TEST

START_TEST(async_checkpoint_is_of_now)
{
    start_job(job_of(PSD__MODE__ASYNC, 2));
    ask_at(1000);
    write_out();
    kit_answer_free(save_checkpoint_answer(10));
}
END_TEST

START_TEST(checkpoint_that_waits_for_its_clock_holds_up_no_other)
{
    uint64_t far = 1000;

    start_job(job_of(PSD__MODE__SYNC, 2));
    kit_observe(&k, 11);
    save_checkpoint_ask(11, 6, "train", &far);
    save_checkpoint_ask(10, 5, "train", NULL);
    write_out();
    kit_answer_free(save_checkpoint_answer(10));
    kit_expect_nothing(&k, 11);
    ck_assert_ptr_null(k.save);
}
END_TEST

START_TEST(who_is_gone_ends_a_checkpoint_that_waits_but_not_one_that_runs)
{
    uint64_t far = 1000;

    start_job(job_of(PSD__MODE__SYNC, 2));
    kit_observe(&k, 11);
    save_checkpoint_ask(11, 6, "train", &far);
    kit_cancel(&k, 11, 6);
    kit_expect_error(&k, 11, 6, PS_ERR_CANCELLED);
    save_checkpoint_ask(11, 7, "train", &far);
    save_checkpoint_ask(10, 5, "train", NULL);
    kit_close(&k, 10);
    kit_close(&k, 11);
    for (uint64_t conn = 1; conn <= 2; conn++)
        for (int i = 0; i < 1000; i++)
            save_checkpoint_tick(conn);
    ck_assert_uint_eq(write_out(), layouts[1].blocks + layouts[2].blocks);
    ck_assert_ptr_null(k.save);
}
END_TEST

START_TEST(failed_checkpoint_is_told)
{
    struct ps_error e;

    start_job(job_of(PSD__MODE__ASYNC, 1));
    save_checkpoint_ask(10, 5, "train", NULL);
    ck_assert_int_eq(ps_fail(&e, PS_ERR_IO, "no such directory"), PS_ERR_IO);
    kit_save_ended(&k, 0, 0, &e);
    kit_expect_error(&k, 10, 5, PS_ERR_IO);
    save_checkpoint_ask(10, 5, "train", NULL);
    write_out();
    kit_answer_free(save_checkpoint_answer(10));
}
END_TEST

START_TEST(only_so_many_may_wait)
{
    uint64_t far = 1000;

    start_job(job_of(PSD__MODE__SYNC, 1));
    for (uint64_t i = 0; i < SAVE_REQUESTS_MAX; i++)
        save_checkpoint_ask(10, 100 + i, "train", &far);
    kit_expect_nothing(&k, 10);
    save_checkpoint_ask(10, 5, "train", &far);
    kit_expect_error(&k, 10, 5, PS_ERR_LIMIT);
}
END_TEST

/* Workers that push in any order, several steps to a turn, with a checkpoint at every clock that is asked for. */
START_TEST(sync_checkpoints_hold_one_clock_whatever_the_order)
{
    struct test_rng rng = {test_seed()};
    uint64_t checkpoints = 0, asked = 0;

    start_job(job_of(PSD__MODE__SYNC, 2));
    for (int i = 0; i < 3000; i++) {
        uint64_t conn = 1 + test_below(&rng, 2), other = 3 - conn;
        struct kit_answer *a;

        if (test_below(&rng, 8) == 0)
            k.hold = !k.hold;
        if (clocks[conn] <= clocks[other] || test_below(&rng, 4) == 0) {
            push_all(conn);
            save_checkpoint_tick(conn);
        }
        if (k.save == NULL && asked == checkpoints && !k.hold) {
            asked++;
            ask_at(MAX(clocks[1], clocks[2]) + test_below(&rng, 3));
        }
        if (k.save != NULL && !k.hold && test_below(&rng, 3) == 0) {
            write_out();
            a = save_checkpoint_answer(10);
            ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[0]->clock_min,
                              a->msg.u.checkpoint_done->variable[1]->clock_max);
            ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[0]->clock_max,
                              a->msg.u.checkpoint_done->variable[1]->clock_min);
            ck_assert_uint_eq(a->msg.u.checkpoint_done->variable[0]->clock_min,
                              a->msg.u.checkpoint_done->variable[0]->clock_max);
            kit_answer_free(a);
            checkpoints++;
        }
        kit_drop_answers(&k, 1);
        kit_drop_answers(&k, 2);
        kit_work(&k);
    }
    k.hold = false;
    ck_assert_uint_gt(checkpoints, 50);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("save_checkpoint");
    TCase *t = tcase_create("checkpoint");

    tcase_add_checked_fixture(t, save_checkpoint_setup, shard_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, checkpoint_has_the_jobs_blocks_and_rows_and_no_others);
    tcase_add_test(t, job_that_is_not_known_has_no_checkpoint);
    tcase_add_test(t, sync_checkpoint_waits_until_all_steps_before_its_clock_are_done);
    tcase_add_test(t, sync_checkpoint_holds_one_clock_when_pushes_of_the_next_step_are_in_the_same_turn);
    tcase_add_test(t, sync_checkpoint_that_comes_too_late_takes_the_next_common_clock);
    tcase_add_test(t, blocks_that_nobody_pushes_to_are_at_the_slowest_clock);
    tcase_add_test(t, ssp_checkpoint_waits_for_the_slowest_worker);
    tcase_add_test(t, async_checkpoint_is_of_now);
    tcase_add_test(t, checkpoint_that_waits_for_its_clock_holds_up_no_other);
    tcase_add_test(t, who_is_gone_ends_a_checkpoint_that_waits_but_not_one_that_runs);
    tcase_add_test(t, failed_checkpoint_is_told);
    tcase_add_test(t, only_so_many_may_wait);
    tcase_add_test(t, sync_checkpoints_hold_one_clock_whatever_the_order);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
