/* Connections that say nothing: observers are closed in time, unless they wait for an answer, and the silent make way
 * for newcomers; the last places are kept. */
#include <string.h>

#include "tests/unit/kits/shard_fixture.h"

enum {
    MOST = 32 /* connections, of which the last 2 are kept */,
    OBSERVER_MS = 5000,
    SPARE_MS = 1000,
    SPARE_KEPT_MS = 100
};

static void
idle_setup(void)
{
    struct shard_config config = kit_durable_config;

    config.connections_max = MOST;
    config.observer_ms = OBSERVER_MS;
    kit_init(&k, &config);
}

static void
idle_expect_closed(uint64_t conn, const char *text)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_ERROR);

    ck_assert_uint_eq(a->msg.request, 0);
    ck_assert_int_eq(a->msg.u.error->code, PS_ERR_TIMEOUT);
    ck_assert_msg(strstr(a->msg.u.error->text, text) != NULL, "%s", a->msg.u.error->text);
    kit_answer_free(a);
    ck_assert(k.closed[conn]);
}

static void
idle_open(uint64_t conn, bool reserved)
{
    k.open[conn] = true;
    kit_event(&k, &(struct shard_event){.kind = SHARD_OPENED, .conn = conn, .peer = "x", .reserved = reserved});
}

/* ---- Time ---- */

START_TEST(an_observer_that_says_nothing_is_closed)
{
    struct kit_answer *a;

    kit_observe(&k, 1);
    kit_observe(&k, 2);
    kit_pass(&k, OBSERVER_MS - 1);
    kit_answer_free(kit_ask(&k, 2, PSD__QUERY_KIND__STATUS, NULL));
    kit_expect_nothing(&k, 1);
    kit_pass(&k, 1);
    idle_expect_closed(1, "--observer-timeout");
    kit_pass(&k, OBSERVER_MS - 2);
    kit_expect_nothing(&k, 2);
    a = kit_ask(&k, 2, PSD__QUERY_KIND__STATS, NULL);
    ck_assert_uint_eq(a->msg.u.report->stats->observer_timeouts, 1);
    kit_answer_free(a);
    kit_pass(&k, OBSERVER_MS);
    idle_expect_closed(2, "--observer-timeout");
}
END_TEST

START_TEST(an_observer_that_waits_for_an_answer_stays)
{
    Psd__Save save = PSD__SAVE__INIT;

    kit_observe(&k, 1);
    kit_frame(&k, 1, MSG_SAVE, 7, &save.base, NULL, 0);
    kit_pass(&k, 10 * OBSERVER_MS);
    kit_expect_nothing(&k, 1);
    kit_work(&k);
    ck_assert_ptr_nonnull(k.save);
    kit_save_ended(&k, 0, 0, NULL);
    kit_expected(&k, 1, MSG_SAVE_DONE);
    kit_pass(&k, OBSERVER_MS - 1);
    kit_expect_nothing(&k, 1);
    kit_pass(&k, 1);
    idle_expect_closed(1, "--observer-timeout");
}
END_TEST

START_TEST(a_worker_is_no_observer)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_pass(&k, 2 * OBSERVER_MS);
    kit_expect_nothing(&k, 1);
}
END_TEST

/* ---- Making way ---- */

START_TEST(the_silent_make_way_for_newcomers)
{
    uint64_t oldest = _i == 0 ? 3 : 1; /* observers; one that has not said hello goes before them */

    for (uint64_t i = 1; i <= MOST - 2; i++)
        if (_i == 1 && i == 1)
            kit_open(&k, i);
        else
            kit_observe(&k, i);
    kit_pass(&k, SPARE_MS);
    kit_answer_free(kit_ask(&k, 2, PSD__QUERY_KIND__STATUS, NULL));
    if (_i == 0)
        kit_answer_free(kit_ask(&k, 1, PSD__QUERY_KIND__STATUS, NULL));
    kit_observe(&k, MOST);
    idle_expect_closed(oldest, "made way");
    kit_expect_nothing(&k, 2);
}
END_TEST

START_TEST(who_has_just_spoken_makes_no_way)
{
    for (uint64_t i = 1; i <= MOST - 2; i++)
        kit_observe(&k, i);
    kit_pass(&k, SPARE_MS - 1);
    kit_open(&k, MOST);
    kit_expect_closed(&k, MOST, PS_ERR_LIMIT);
}
END_TEST

START_TEST(who_administers_the_shard_waits_less)
{
    for (uint64_t i = 1; i <= MOST; i++) {
        idle_open(i, true);
        kit_expect_nothing(&k, i);
    }
    idle_open(MOST + 1, true);
    kit_expect_closed(&k, MOST + 1, PS_ERR_LIMIT);
    kit_pass(&k, SPARE_KEPT_MS);
    idle_open(MOST + 2, true);
    kit_expect_nothing(&k, MOST + 2);
    idle_expect_closed(1, "made way");
}
END_TEST

START_TEST(the_last_places_are_kept)
{
    for (uint64_t i = 1; i <= MOST - 2; i++)
        kit_join(&k, i, kit_job("train", PSD__MODE__ASYNC, MOST), (uint32_t)i);
    idle_open(MOST, false);
    kit_expect_closed(&k, MOST, PS_ERR_LIMIT);
    for (uint64_t i = MOST + 1; i <= MOST + 3; i++)
        idle_open(i, true);
    kit_expect_nothing(&k, MOST + 1);
    kit_expect_nothing(&k, MOST + 2);
    kit_expect_closed(&k, MOST + 3, PS_ERR_LIMIT);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("connection_idle");
    TCase *tc = tcase_create("connection_idle");

    tcase_add_checked_fixture(tc, idle_setup, shard_teardown);
    tcase_add_test(tc, an_observer_that_says_nothing_is_closed);
    tcase_add_test(tc, an_observer_that_waits_for_an_answer_stays);
    tcase_add_test(tc, a_worker_is_no_observer);
    tcase_add_loop_test(tc, the_silent_make_way_for_newcomers, 0, 2);
    tcase_add_test(tc, who_has_just_spoken_makes_no_way);
    tcase_add_test(tc, who_administers_the_shard_waits_less);
    tcase_add_test(tc, the_last_places_are_kept);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
