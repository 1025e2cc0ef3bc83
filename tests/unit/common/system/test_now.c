/* The clocks: their units are of one reading, and a time to come is whole. */
#include "common/system/now.h"

#include <errno.h>

#include "tests/unit/kits/check_main.h"

START_TEST(all_units_are_of_the_monotonic_clock)
{
    struct timespec before, after;
    uint64_t ns, us, ms;

    clock_gettime(CLOCK_MONOTONIC, &before);
    ns = monotonic_ns();
    us = monotonic_us();
    ms = monotonic_ms();
    clock_gettime(CLOCK_MONOTONIC, &after);
    ck_assert_uint_ge(ns, (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec);
    ck_assert_uint_ge(us, ns / 1000);
    ck_assert_uint_ge(ms, us / 1000);
    ck_assert_uint_le(ms, (uint64_t)after.tv_sec * 1000 + (uint64_t)after.tv_nsec / 1000000);
}
END_TEST

START_TEST(the_date_is_since_1970)
{
    time_t before = time(NULL); /* a clock of its own: up to a tick behind */
    uint64_t ms = unix_ms(), ns = unix_ns();

    ck_assert_uint_ge(ms, (uint64_t)before * 1000);
    ck_assert_uint_ge(ns / 1000000, ms);
    ck_assert_uint_le(ns / 1000000000, (uint64_t)time(NULL) + 1);
}
END_TEST

/* Any number of milliseconds makes seconds and less than one of nanoseconds. */
START_TEST(a_time_to_come_is_whole_and_so_far_away)
{
    static const uint64_t waits[] = {0, 1, 999, 1000, 1001, 60999, 4000000};
    uint64_t before = monotonic_ns(), ns = waits[_i] * 1000000;
    struct timespec t = monotonic_in(waits[_i]);
    uint64_t at = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;

    ck_assert_int_lt(t.tv_nsec, 1000000000);
    ck_assert_uint_ge(at, before + ns);
    ck_assert_uint_le(at, monotonic_ns() + ns);
}
END_TEST

START_TEST(a_condition_is_waited_for_until_a_time)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec until;
    pthread_cond_t changed;
    int result;

    monotonic_cond_init(&changed);
    until = monotonic_in(20);
    pthread_mutex_lock(&mutex);
    while ((result = pthread_cond_timedwait(&changed, &mutex, &until)) == 0)
        ; /* woken for nothing */
    pthread_mutex_unlock(&mutex);
    ck_assert_int_eq(result, ETIMEDOUT);
    ck_assert_uint_ge(monotonic_ns(), (uint64_t)until.tv_sec * 1000000000 + (uint64_t)until.tv_nsec);
    pthread_cond_destroy(&changed);
}
END_TEST

static Suite *
now_suite(void)
{
    Suite *suite = suite_create("now");
    TCase *now = tcase_create("now");

    tcase_add_test(now, all_units_are_of_the_monotonic_clock);
    tcase_add_test(now, the_date_is_since_1970);
    tcase_add_loop_test(now, a_time_to_come_is_whole_and_so_far_away, 0, 7);
    tcase_add_test(now, a_condition_is_waited_for_until_a_time);
    suite_add_tcase(suite, now);
    return suite;
}

CHECK_MAIN(now_suite)
