/* Barriers with a place in the data: a worker that comes again passes, one that is beyond is not waited for, and the
 * metrics' sums are kept. */
#include "tests/unit/kits/power_kit.h"
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>

static Psd__Job *
barrier_opened_job(void)
{
    return kit_job("train", PSD__MODE__ASYNC, 3);
}

static void
barrier_opened_setup(void)
{
    kit_init(&k, NULL);
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_join(&k, conn, barrier_opened_job(), (uint32_t)conn - 1);
}

static void
come_as(uint64_t conn, uint64_t seq, const char *name, uint64_t position, uint32_t again)
{
    Psd__Barrier m = PSD__BARRIER__INIT;
    Psd__Place place = PSD__PLACE__INIT;
    Psd__Cursor at = PSD__CURSOR__INIT;

    at.position = position;
    place.at = &at;
    place.again = again;
    m.seq = seq;
    m.name = (char *)name;
    m.place = &place;
    kit_frame(&k, conn, MSG_BARRIER, k.next_request++, &m.base, NULL, 0);
}

static void
barrier_opened_come(uint64_t conn, uint64_t seq, uint64_t position)
{
    char name[32];

    snprintf(name, sizeof name, "after %u", (unsigned)position);
    come_as(conn, seq, name, position, 0);
}

/* The step that ends here has this metric in its sum. */
static void
barrier_opened_step(uint64_t conn, uint64_t seq, uint64_t clock, double sum, uint64_t position)
{
    Psd__Tick m = PSD__TICK__INIT;
    Psd__Metrics metrics = PSD__METRICS__INIT;
    Psd__Cursor at = PSD__CURSOR__INIT;

    m.seq = seq;
    m.clock = clock;
    m.metrics = &metrics;
    metrics.n_value = 1;
    metrics.value = &sum;
    metrics.at = &at;
    at.position = position;
    kit_frame(&k, conn, MSG_TICK, k.next_request++, &m.base, NULL, 0);
    kit_ack(&k, conn, seq, PS_OK);
}

/* The furthest that has opened; position 0: none has. */
static void
opened_is(uint64_t position, uint32_t again, size_t n, double sum)
{
    struct kit_answer *a = kit_look(&k, PSD__QUERY_KIND__JOBS, "train");
    const Psd__Opened *o = a->msg.u.report->job[0]->opened;

    ck_assert(o == NULL ? position == 0 : o->place->at->position == position && o->place->again == again);
    ck_assert(o == NULL || (o->n_sum == n && (n == 0 || o->sum[0] == sum)));
    kit_answer_free(a);
}

static void
all_do_step_1(void)
{
    for (uint64_t conn = 1; conn <= 3; conn++)
        barrier_opened_step(conn, 1, 1, (double)conn, 10);
    for (uint64_t conn = 1; conn <= 3; conn++)
        barrier_opened_come(conn, 2, 10);
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_ack(&k, conn, 2, PS_OK);
}

static void
barrier_opened_replace(uint64_t conn, uint64_t by, uint32_t task)
{
    kit_close(&k, conn);
    kit_hello(&k, by, &(struct kit_hello){.job = barrier_opened_job(), .task = task, .incarnation = 77});
    kit_answer_free(kit_expect(&k, by, MSG_WELCOME));
    for (uint64_t other = 1; other <= 3; other++)
        kit_drop_answers(&k, other); /* the events of it */
}

START_TEST(sums_are_those_of_the_moment_in_which_it_opens)
{
    opened_is(0, 0, 0, 0);
    all_do_step_1();
    barrier_opened_step(1, 3, 2, 100, 20); /* the first one is off again before the others ask */
    opened_is(10, 0, 1, 6);
}
END_TEST

START_TEST(who_comes_again_in_anothers_place_passes)
{
    all_do_step_1();
    barrier_opened_come(1, 3, 20);
    barrier_opened_come(3, 3, 20);
    barrier_opened_replace(2, 4, 1);
    barrier_opened_come(4, 1, 10);
    kit_ack(&k, 4, 1, PS_OK);
    barrier_opened_come(4, 2, 10); /* as often as it likes */
    kit_ack(&k, 4, 2, PS_OK);
    kit_expect_nothing(&k, 1);
    opened_is(10, 0, 1, 6);
    barrier_opened_come(4, 3, 20);
    kit_ack(&k, 1, 3, PS_OK);
    kit_ack(&k, 3, 3, PS_OK);
    kit_ack(&k, 4, 3, PS_OK);
    opened_is(20, 0, 1, 6);
}
END_TEST

START_TEST(who_has_done_later_data_is_not_waited_for)
{
    barrier_opened_step(1, 1, 1, 1, 10);
    barrier_opened_step(3, 1, 1, 1, 10);
    barrier_opened_come(1, 2, 10);
    barrier_opened_come(3, 2, 10);
    barrier_opened_step(2, 1, 1, 1, 10);
    kit_expect_nothing(&k, 1);
    barrier_opened_step(2, 2, 2, 1, 11);
    kit_ack(&k, 1, 2, PS_OK);
    kit_ack(&k, 3, 2, PS_OK);
}
END_TEST

START_TEST(who_waits_at_a_later_one_is_not_waited_for)
{
    barrier_opened_come(2, 1, 20);
    barrier_opened_come(1, 1, 10);
    kit_expect_nothing(&k, 1);
    barrier_opened_come(3, 1, 10);
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 3, 1, PS_OK);
    kit_expect_nothing(&k, 2);
    come_as(1, 2, "again", 10, 1);
    come_as(3, 2, "again", 10, 1);
    kit_ack(&k, 1, 2, PS_OK);
    kit_ack(&k, 3, 2, PS_OK);
    opened_is(10, 1, 0, 0);
}
END_TEST

START_TEST(a_kill_of_the_shard_forgets_nothing_and_a_new_round_all)
{
    all_do_step_1();
    kit_crash(&k);
    opened_is(10, 0, 1, 6);
    kit_pass(&k, 5000);
    kit_hello(&k, 1, &(struct kit_hello){.job = barrier_opened_job(), .incarnation = 78});
    kit_answer_free(kit_expect(&k, 1, MSG_WELCOME));
    barrier_opened_come(1, 1, 10);
    kit_ack(&k, 1, 1, PS_OK);
    kit_goodbye(&k, 1, true);
    kit_hello(&k, 4, &(struct kit_hello){.job = barrier_opened_job(), .incarnation = 79});
    kit_answer_free(kit_expect(&k, 4, MSG_WELCOME));
    opened_is(0, 0, 0, 0);
    barrier_opened_come(4, 1, 10);
    kit_expect_nothing(&k, 4);
}
END_TEST

START_TEST(one_name_has_one_place)
{
    come_as(1, 1, "b", 10, 0);
    come_as(2, 1, "b", 10, 1);
    kit_ack(&k, 2, 1, PS_ERR_INVALID);
    kit_barrier(&k, 2, 2, "b");
    kit_ack(&k, 2, 2, PS_ERR_INVALID);
    come_as(2, 3, "b", 10, 0);
    kit_expect_nothing(&k, 2);
}
END_TEST

/* The opening is lost with the power, and so are its sums: a worker that had not received them comes again. The first
 * one has, and went on: the others are told of its later step, too (barrier_opened.h says why). */
START_TEST(after_a_power_loss_later_steps_of_who_went_on_are_told_too)
{
    struct power_disk disk = {0};

    disk_save(&disk, &k);
    all_do_step_1();
    barrier_opened_step(1, 3, 2, 100, 20);
    opened_is(10, 0, 1, 6);
    power_loss(&disk, &k, 78);
    for (uint64_t conn = 4; conn <= 6; conn++)
        ck_assert_uint_eq(kit_resume(&k, conn, barrier_opened_job(), (uint32_t)conn - 4, 0), 0);
    opened_is(0, 0, 0, 0);
    barrier_opened_step(4, 1, 2, 100, 20); /* workers report their metrics again */
    barrier_opened_step(5, 1, 1, 2, 10);
    barrier_opened_step(6, 1, 1, 3, 10);
    barrier_opened_come(5, 2, 10);
    barrier_opened_come(6, 2, 10); /* and wait for each other, not for the first */
    kit_ack(&k, 5, 2, PS_OK);
    kit_ack(&k, 6, 2, PS_OK);
    opened_is(10, 0, 1, 105);
    barrier_opened_step(5, 3, 2, 20, 20);
    barrier_opened_step(6, 3, 2, 30, 20);
    for (uint64_t conn = 4; conn <= 6; conn++)
        barrier_opened_come(conn, conn == 4 ? 2 : 4, 20);
    opened_is(20, 0, 1, 150); /* the next one is as if nothing had happened */
    disk_finish(&disk);
}
END_TEST

/* The row of the job is changed to hold more than any ticks could have brought. */
START_TEST(a_row_with_too_many_sums_is_not_loaded)
{
    Psd__JobRow row = PSD__JOB_ROW__INIT;
    Psd__Opened opened = PSD__OPENED__INIT;
    double many[WIRE_METRICS_MAX + 1] = {0};

    row.id = 1;
    row.options = barrier_opened_job();
    row.opened = &opened;
    opened.sum = many;
    opened.n_sum = WIRE_METRICS_MAX + 1;
    kit_job_row_is_damaged(&k, &row);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("opened");
    TCase *tc = tcase_create("opened");

    tcase_add_checked_fixture(tc, barrier_opened_setup, shard_teardown);
    tcase_add_test(tc, sums_are_those_of_the_moment_in_which_it_opens);
    tcase_add_test(tc, who_comes_again_in_anothers_place_passes);
    tcase_add_test(tc, who_has_done_later_data_is_not_waited_for);
    tcase_add_test(tc, who_waits_at_a_later_one_is_not_waited_for);
    tcase_add_test(tc, a_kill_of_the_shard_forgets_nothing_and_a_new_round_all);
    tcase_add_test(tc, after_a_power_loss_later_steps_of_who_went_on_are_told_too);
    tcase_add_test(tc, one_name_has_one_place);
    tcase_add_test(tc, a_row_with_too_many_sums_is_not_loaded);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
