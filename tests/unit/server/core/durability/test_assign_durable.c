/* Assigns and the disk: all of one is there after a power loss, or nothing of it; nobody learns that it is done before
 * it is on disk; and saves have what waits at their instant. */
#include "server/core/durability/identity.h"
#include "server/core/shard_state.h"
#include "tests/unit/kits/assign_kit.h"
#include "tests/unit/kits/power_kit.h"

#define BEGIN  PSD__ASSIGN_STEP__BEGIN
#define COMMIT PSD__ASSIGN_STEP__COMMIT

static struct kit k;
static struct power_disk disk;
static Psd__Job job;
static uint32_t w; /* of four elements, all 0 */

/* All workers are there, and the disk has a save of w. */
static void
durable_start(const struct shard_config *config, Psd__Mode mode)
{
    disk = (struct power_disk){0};
    kit_init(&k, config);
    job = *kit_job("train", mode, 2);
    kit_join(&k, 1, &job, 0);
    kit_join(&k, 2, &job, 1);
    w = kit_declare(&k, 1, config->shard == 0 ? "w" : assign_kit_name_there(), 4, PS_SGD);
    disk_save(&disk, &k);
}

static void
durable_setup(void)
{
    durable_start(&kit_durable_config, PSD__MODE__ASYNC);
}

static void
durable_setup_sync(void)
{
    durable_start(&kit_durable_config, PSD__MODE__SYNC);
}

static void
durable_setup_other(void)
{
    struct shard_config config = assign_kit_other;

    config.durable = true;
    durable_start(&config, PSD__MODE__ASYNC);
}

static void
durable_teardown(void)
{
    kit_finish(&k);
    disk_finish(&disk);
}

/* The disk has everything. */
static void
durable_sync(void)
{
    kit_turn(&k);
    disk_take(&disk, &k, k.redo);
    kit_durable(&k, k.redo);
}

static void
durable_lose_power(void)
{
    static uint64_t boot = 78;

    power_loss(&disk, &k, boot++);
    kit_resume_all(&k, &job, 0);
}

/* Sends steps whose answers wait for the disk. */
static void
durable_stage(const struct kit_assign *a, uint32_t var, float value)
{
    const float values[4] = {value, value, value, value};
    uint64_t request = assign_send_stage(&k, 1, a, var, 0, values, 4);

    kit_expect_nothing(&k, 1);
    durable_sync();
    (void)assign_expect(&k, 1, request);
}

static void
durable_step(Psd__AssignStep step, const struct kit_assign *a, uint64_t blocks)
{
    uint64_t request = assign_send(&k, 1, step, a, blocks);

    kit_expect_nothing(&k, 1);
    durable_sync();
    (void)assign_expect(&k, 1, request);
}

static struct kit_assign
durable_assign(uint64_t attempt, float value, uint64_t clock)
{
    struct kit_assign a = {.attempt = attempt};

    assign_begin_ok(&k, 1, &a);
    durable_stage(&a, w, value);
    a.clock = clock;
    durable_step(COMMIT, &a, 1);
    return a;
}

/* The same of worker 1. */
static void
durable_assign_of_another(float value)
{
    const float values[4] = {value, value, value, value};
    struct kit_assign a = {.attempt = 1};
    uint64_t request;

    assign_begin_ok(&k, 2, &a);
    request = assign_send_stage(&k, 2, &a, w, 0, values, 4);
    durable_sync();
    (void)assign_expect(&k, 2, request);
    request = assign_send(&k, 2, COMMIT, &a, 1);
    durable_sync();
    (void)assign_expect(&k, 2, request);
}

START_TEST(an_assign_that_is_done_survives_power_loss)
{
    struct kit_assign a = durable_assign(1, 5, 0);

    if (_i == 1)
        kit_work(&k);
    durable_sync();
    durable_lose_power();
    durable_sync();
    assign_commit_ok(&k, 1, &a, 1); /* again */
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

/* Its worker does not know that it is done, and asks once more when others have given values since. */
START_TEST(an_assign_is_done_once_whatever_others_gave_since)
{
    struct kit_assign a = durable_assign(1, 5, 0), again = {.attempt = 1};

    kit_work(&k);
    durable_assign_of_another(7);
    kit_work(&k);
    if (_i == 1)
        disk_save(&disk, &k);
    durable_sync();
    durable_lose_power();
    durable_sync();
    assign_commit_ok(&k, 1, &a, 1);
    (void)assign_expect_again(&k, 1, assign_send(&k, 1, BEGIN, &again, 0));
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 2) == 7);
}
END_TEST

static uint32_t
durable_format(void)
{
    Psd__ShardRow *row;
    uint32_t format;

    ck_assert_int_eq(identity_get(k.store, identity_live, &row), PS_OK);
    format = row->format;
    psd__shard_row__free_unpacked(row, NULL);
    return format;
}

/* In the live store, the log and saves. */
START_TEST(an_earlier_psd_refuses_data_with_values_that_workers_gave)
{
    struct kit_assign a = {.attempt = 1};

    assign_begin_ok(&k, 1, &a);
    ck_assert_uint_eq(durable_format(), SHARD_FORMAT); /* which it reads */
    durable_stage(&a, w, 5);
    ck_assert_uint_eq(durable_format(), SHARD_FORMAT_ASSIGNS);
    durable_lose_power(); /* the save is of before */
    ck_assert_uint_eq(durable_format(), SHARD_FORMAT_ASSIGNS);
    kit_crash(&k);
    ck_assert_uint_eq(k.shard->format, SHARD_FORMAT_ASSIGNS);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    ck_assert_uint_eq(k.save->format, SHARD_FORMAT_ASSIGNS);
}
END_TEST

START_TEST(updates_that_follow_are_replayed_on_top_of_it)
{
    const float g[4] = {1, 1, 1, 1};

    (void)durable_assign(1, 5, 0);
    if (_i == 1)
        kit_work(&k); /* or the push lets the block take its value */
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = w, .gradient = g, .len = 4, .durable = true});
    durable_sync();
    kit_ack(&k, 2, 1, PS_OK);
    durable_lose_power();
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 2) == 4);
}
END_TEST

/* Two assigns with an update between them, none of which the log names: it has rows and values alone. */
START_TEST(assigns_and_updates_are_replayed_in_their_order)
{
    const float g[4] = {1, 1, 1, 1};
    uint64_t hash;

    (void)durable_assign(1, 5, 0);
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = w, .gradient = g, .len = 4, .durable = true});
    (void)durable_assign(2, 9, 0);
    kit_drop_answers(&k, 2);
    kit_work(&k);
    kit_push(&k, 2, &(struct kit_push){.seq = 2, .var = w, .gradient = g, .len = 4, .durable = true});
    durable_sync();
    hash = blocks_hash(k.store);
    durable_lose_power();
    kit_work(&k);
    ck_assert(blocks_hash(k.store) == hash);
    ck_assert(kit_value_four(&k, 2, w, 4) == 8);
}
END_TEST

/* Of the tick's acknowledgement: the number of the last assign that was given up. */
static void
durable_tick_says(uint64_t seq, uint64_t given_up)
{
    struct kit_answer *answer;

    kit_tick(&k, 2, seq, seq);
    answer = kit_expect(&k, 2, MSG_ACK);
    ck_assert_uint_eq(answer->msg.u.ack->assigned, 0);
    ck_assert_uint_eq(answer->msg.u.ack->given_up, given_up);
    kit_answer_free(answer);
}

/* Power is lost before the commit is on disk: whoever asked would have found nothing of it. */
START_TEST(nobody_learns_of_an_assign_that_is_not_on_disk)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 1};
    uint64_t request;

    assign_begin_ok(&k, 1, &a);
    durable_stage(&a, w, 5);
    (void)assign_send(&k, 1, COMMIT, &a, 1);
    if (_i == 1) { /* a new process does not know better */
        kit_crash(&k);
        kit_resume_all(&k, &job, 0);
    }
    kit_work(&k);
    request = assign_send(&k, 2, BEGIN, &b, 0);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    durable_tick_says(1, 0);
    kit_expect_nothing(&k, 2);
    if (_i == 2) {
        durable_lose_power();
        kit_work(&k);
        ck_assert(kit_value_four(&k, 2, w, 0) == 0);
        request = assign_send(&k, 1, COMMIT, &a, 1);
        durable_sync();
        (void)assign_expect(&k, 1, request);
        kit_work(&k);
        ck_assert(kit_value_four(&k, 2, w, 1) == 5);
        return;
    }
    durable_sync();
    ck_assert_uint_eq(assign_nth(assign_expect(&k, 2, request).number), 2);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5);
}
END_TEST

/* The worker gives up what it has asked to be done already: that comes too late. */
START_TEST(what_is_about_to_be_done_cannot_be_given_up)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 2};
    uint64_t begin;

    assign_begin_ok(&k, 1, &a);
    durable_stage(&a, w, 5);
    (void)assign_send(&k, 1, COMMIT, &a, 1);
    if (_i == 0)
        (void)assign_send(&k, 1, PSD__ASSIGN_STEP__GIVE_UP, &a, 0);
    begin = assign_send(&k, 1, BEGIN, &b, 0);
    kit_drop_answers(&k, 1);
    durable_sync();
    kit_drop_answers(&k, 1);
    (void)begin;
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5);
}
END_TEST

/* A worker that comes back may still go on with what this shard has forgotten to have given up. */
START_TEST(nobody_learns_of_a_give_up_that_is_not_on_disk)
{
    struct kit_assign a = {.attempt = 1};

    assign_begin_ok(&k, 1, &a);
    durable_stage(&a, w, 5);
    (void)assign_expect(&k, 1, assign_send(&k, 1, PSD__ASSIGN_STEP__GIVE_UP, &a, 0));
    if (_i == 1) {
        kit_crash(&k);
        kit_resume_all(&k, &job, 0);
        kit_work(&k);
    }
    durable_tick_says(1, 0);
    durable_sync();
    durable_tick_says(2, a.number);
    if (_i == 2) {
        kit_crash(&k);
        kit_resume_all(&k, &job, 2);
        kit_work(&k);
        durable_sync();
        durable_tick_says(3, a.number);
    }
}
END_TEST

START_TEST(a_failing_disk_does_not_stop_assigns)
{
    struct ps_error why = {.code = PS_ERR_IO, .text = "the disk is on fire"};
    struct kit_assign a = {.attempt = 1};
    uint64_t request;

    assign_begin_ok(&k, 1, &a);
    durable_stage(&a, w, 5);
    request = assign_send(&k, 1, COMMIT, &a, 1);
    kit_event(&k, &(struct shard_event){.kind = SHARD_NOT_DURABLE, .error = &why});
    kit_expect_error(&k, 1, request, PS_ERR_NOT_DURABLE);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5);
    a.attempt = 2;
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 6);
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 2) == 6);
    a.attempt = 3;
    a.durable = true;
    request = assign_send(&k, 1, BEGIN, &a, 0);
    kit_expect_error(&k, 1, request, PS_ERR_IO);
}
END_TEST

START_TEST(an_assign_without_a_disk_cannot_be_durable)
{
    struct kit_assign a = {.attempt = 1, .durable = true};
    struct kit other;
    uint64_t request;

    kit_init(&other, NULL);
    (void)kit_start(&other, &job);
    request = assign_send(&other, 1, BEGIN, &a, 0);
    kit_expect_error(&other, 1, request, PS_ERR_UNSUPPORTED);
    kit_finish(&other);
}
END_TEST

START_TEST(a_staged_assign_goes_on_after_power_loss)
{
    struct kit_assign a = {.attempt = 1};
    uint32_t v = kit_declare(&k, 1, "v", 4, PS_SGD);

    disk_save(&disk, &k);
    assign_begin_ok(&k, 1, &a);
    durable_stage(&a, w, 5);
    durable_lose_power();
    durable_stage(&a, v, 6);
    durable_step(COMMIT, &a, 2);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5 && kit_value_four(&k, 2, v, 1) == 6);
}
END_TEST

/* Its worker was told that it is done, and that is gone; it gives nothing any more, and others wait. */
START_TEST(what_was_staged_before_a_rollback_is_in_nobodys_way)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 1};

    disk_save(&disk, &k);
    assign_begin_ok(&k, 1, &a);
    durable_stage(&a, w, 5);
    power_loss(&disk, &k, 99);
    for (uint64_t conn = 1; conn <= 2; conn++) {
        kit_hello(&k, conn,
                  &(struct kit_hello){
                      .job = &job, .task = (uint32_t)conn - 1, .resume = true, .boot = kit_durable_config.boot});
        kit_answer_free(kit_expect(&k, conn, MSG_WELCOME));
    }
    assign_begin_ok(&k, 2, &b);
    ck_assert_uint_gt(b.number, a.number);
}
END_TEST

/* ---- Saves ---- */

/* Values wait for a clock at the instant of a save; the log before it is gone. */
START_TEST(a_save_has_values_that_wait)
{
    (void)durable_assign(1, 50, 1);
    disk_save(&disk, &k);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    kit_turn(&k);
    ck_assert_ptr_nonnull(k.save);
    kit_work(&k);
    ck_assert(!k.save_closing); /* not before they are on disk */
    if (_i == 1) {              /* blocks take them meanwhile, and updates follow */
        kit_step(&k, 2, 1, 0, w, 1);
        kit_work(&k);
        ck_assert(kit_value_four(&k, 2, w, 2) == 50);
    }
    durable_sync();
    shard_save_next(k.shard, SIZE_MAX, (struct shard_save_block[4]){0}, 4);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = k.save->blocks});
    ck_assert(k.save_closing);
    kit_save_ended(&k, 1000, 0, NULL);
    durable_lose_power();
    kit_work(&k);
    if (_i == 0)
        ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    kit_ticked(&k, 1, 1, 1);
    kit_ticked(&k, 2, 1, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 50);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

/* The block takes its value while the save runs, and a durable step follows: the log has the value before the step. */
START_TEST(what_a_block_takes_during_a_save_is_logged_first)
{
    const float g[4] = {1, 1, 1, 1};

    (void)durable_assign(1, 50, 0);
    disk_save(&disk, &k);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    kit_turn(&k);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = w, .gradient = g, .len = 4, .durable = true});
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = w, .gradient = g, .len = 4, .durable = true});
    durable_sync();
    kit_ack(&k, 1, 1, PS_OK);
    durable_lose_power();
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 2) == 49);
}
END_TEST

/* The save that runs has copied all, and ends. */
static void
durable_save_ends(void)
{
    kit_work(&k);
    durable_sync();
    shard_save_next(k.shard, SIZE_MAX, (struct shard_save_block[4]){0}, 4);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = k.save->blocks});
    ck_assert(k.save_closing);
    kit_save_ended(&k, 1000, 0, NULL);
}

/* Others wait for the slot that they are in. */
START_TEST(values_that_are_over_go_also_when_one_save_follows_another)
{
    (void)durable_assign(1, 50, 0);
    (void)durable_assign(2, 60, 1); /* it waits, so saves log what waits */
    for (int i = 0; i < 2; i++) {
        kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
        kit_turn(&k);
        if (i == 0)
            durable_save_ends(); /* the block takes the first meanwhile */
    }
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), 1);
    disk_save(&disk, &k);
    durable_lose_power();
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 50);
}
END_TEST

/* ---- First values ---- */

START_TEST(first_values_survive_power_loss)
{
    struct kit_assign a = {.attempt = 1, .first = true};
    bool awaits;
    uint32_t var;

    assign_declare(&k, 1, 5, "g", true);
    var = assign_declared(&k, 1, 5, &awaits);
    ck_assert(awaits);
    disk_save(&disk, &k);
    assign_begin_ok(&k, 1, &a);
    durable_stage(&a, var, 7);
    if (_i == 0) { /* not done */
        durable_lose_power();
        assign_declare(&k, 2, 6, "g", true);
        (void)assign_declared(&k, 2, 6, &awaits);
        ck_assert(awaits);
    }
    durable_step(COMMIT, &a, 1);
    if (_i == 2)
        kit_work(&k);
    durable_sync();
    durable_lose_power();
    assign_declare(&k, 2, 7, "g", true);
    (void)assign_declared(&k, 2, 7, &awaits);
    ck_assert(!awaits);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, var, 1) == 7);
}
END_TEST

/* ---- Another shard ---- */

START_TEST(what_is_prepared_survives_power_loss)
{
    struct kit_assign a = {.attempt = 1, .number = 1};

    assign_open_ok(&k, 1, &a);
    durable_stage(&a, w, 5);
    durable_step(PSD__ASSIGN_STEP__PREPARE, &a, 1);
    durable_lose_power();
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    kit_goodbye(&k, 1, true);
    assign_tick(&k, 2, 1, 1, _i == 0 ? 1 : 0, _i == 0 ? 0 : 1);
    kit_work(&k);
    if (_i == 0)
        ck_assert(kit_value_four(&k, 2, w, 1) == 5);
    else
        ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("assign_durable");
    TCase *t = tcase_create("assign_durable"), *sync = tcase_create("assign_saved"),
          *other = tcase_create("assign_prepared");

    tcase_add_checked_fixture(t, durable_setup, durable_teardown);
    tcase_add_loop_test(t, an_assign_that_is_done_survives_power_loss, 0, 2);
    tcase_add_loop_test(t, an_assign_is_done_once_whatever_others_gave_since, 0, 2);
    tcase_add_test(t, an_earlier_psd_refuses_data_with_values_that_workers_gave);
    tcase_add_loop_test(t, updates_that_follow_are_replayed_on_top_of_it, 0, 2);
    tcase_add_test(t, assigns_and_updates_are_replayed_in_their_order);
    tcase_add_loop_test(t, nobody_learns_of_an_assign_that_is_not_on_disk, 0, 3);
    tcase_add_loop_test(t, what_is_about_to_be_done_cannot_be_given_up, 0, 2);
    tcase_add_loop_test(t, nobody_learns_of_a_give_up_that_is_not_on_disk, 0, 3);
    tcase_add_test(t, a_failing_disk_does_not_stop_assigns);
    tcase_add_test(t, an_assign_without_a_disk_cannot_be_durable);
    tcase_add_test(t, a_staged_assign_goes_on_after_power_loss);
    tcase_add_test(t, what_was_staged_before_a_rollback_is_in_nobodys_way);
    tcase_add_loop_test(t, first_values_survive_power_loss, 0, 3);
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(sync, durable_setup_sync, durable_teardown);
    tcase_add_loop_test(sync, a_save_has_values_that_wait, 0, 2);
    tcase_add_test(sync, what_a_block_takes_during_a_save_is_logged_first);
    tcase_add_test(sync, values_that_are_over_go_also_when_one_save_follows_another);
    suite_add_tcase(s, sync);
    tcase_add_checked_fixture(other, durable_setup_other, durable_teardown);
    tcase_add_loop_test(other, what_is_prepared_survives_power_loss, 0, 2);
    suite_add_tcase(s, other);
    return s;
}

CHECK_MAIN(make_suite)
