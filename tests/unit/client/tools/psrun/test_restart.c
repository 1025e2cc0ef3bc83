#include "client/tools/psrun/restart.h"

#include "tests/unit/kits/check_main.h"

static const struct restart_policy policy = {
    .starts_max = 7, .delay_ms = 1000, .delay_ms_max = 30000, .reset_ms = 60000};

START_TEST(the_pause_doubles_up_to_its_end_and_then_it_is_enough)
{
    static const uint64_t delays[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    struct restart r = {0};
    uint64_t delay_ms;

    for (size_t i = 0; i < ARRAY_LEN(delays); i++) {
        ck_assert(restart_next(&r, &policy, 59999, 3, &delay_ms));
        ck_assert_uint_eq(delay_ms, delays[i]);
        ck_assert_uint_eq(r.starts, i + 1);
    }
    ck_assert(!restart_next(&r, &policy, 59999, 3, &delay_ms));
    ck_assert(!restart_next(&r, &policy, 0, 137, &delay_ms));
}
END_TEST

START_TEST(who_ran_long_begins_anew)
{
    struct restart r = {.starts = 7};
    uint64_t delay_ms;

    ck_assert(restart_next(&r, &policy, 60000, 3, &delay_ms));
    ck_assert_uint_eq(delay_ms, 1000);
    ck_assert_uint_eq(r.starts, 1);
}
END_TEST

START_TEST(who_was_called_wrongly_is_not_started_again)
{
    struct restart r = {0};
    uint64_t delay_ms;

    ck_assert(!restart_next(&r, &policy, 100000, 2, &delay_ms));
    ck_assert_uint_eq(r.starts, 0);
    ck_assert(restart_next(&r, &policy, 0, 0, &delay_ms)); /* a shard is started again even after status 0 */
}
END_TEST

START_TEST(without_restarts_or_pauses_there_are_none)
{
    struct restart_policy none = {.starts_max = 0, .delay_ms = 1000, .delay_ms_max = 30000, .reset_ms = 0};
    struct restart_policy at_once = {.starts_max = 1000, .delay_ms = 0, .delay_ms_max = 30000, .reset_ms = 60000};
    struct restart_policy short_end = {.starts_max = 3, .delay_ms = 5000, .delay_ms_max = 2000, .reset_ms = 60000};
    struct restart r = {0};
    uint64_t delay_ms;

    ck_assert(!restart_next(&r, &none, 100000, 3, &delay_ms));
    for (int i = 0; i < 1000; i++) {
        ck_assert(restart_next(&r, &at_once, 0, 3, &delay_ms));
        ck_assert_uint_eq(delay_ms, 0);
    }
    ck_assert(!restart_next(&r, &at_once, 0, 3, &delay_ms));
    r = (struct restart){0};
    ck_assert(restart_next(&r, &short_end, 0, 3, &delay_ms));
    ck_assert_uint_eq(delay_ms, 2000);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("restart");
    TCase *t = tcase_create("restart");

    tcase_add_test(t, the_pause_doubles_up_to_its_end_and_then_it_is_enough);
    tcase_add_test(t, who_ran_long_begins_anew);
    tcase_add_test(t, who_was_called_wrongly_is_not_started_again);
    tcase_add_test(t, without_restarts_or_pauses_there_are_none);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
