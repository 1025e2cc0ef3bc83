#include "client/tools/shared/latency.h"

#include <stdlib.h>

#include "tests/unit/kits/check_main.h"

static struct latencies l;

static void
latency_setup(void)
{
    l = (struct latencies){0};
}

START_TEST(none_is_nothing)
{
    ck_assert_uint_eq(latencies_at(&l, 0.5), 0);
}
END_TEST

START_TEST(short_times_are_exact)
{
    for (uint64_t ns = 0; ns < 100; ns++)
        latencies_add(&l, ns);
    ck_assert_uint_eq(latencies_at(&l, 0), 0);
    ck_assert_uint_eq(latencies_at(&l, 0.5), 49);
    ck_assert_uint_eq(latencies_at(&l, 1), 99);
}
END_TEST

START_TEST(any_time_is_told_a_sixty_fourth_too_high_at_most)
{
    static const uint64_t times[] = {1,       63,        64,         65,         127,         128,           129,
                                     1000,    4095,      4096,       123456,     1000000,     999999999,     4294967295,
                                     1 << 30, 123456789, 5000000000, 1048575ull, 77777777777, 3600000000000, 64000};

    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        uint64_t got;

        l = (struct latencies){0};
        latencies_add(&l, times[i]);
        latencies_add(&l, UINT64_MAX / 2); /* so that the greatest does not limit it */
        got = latencies_at(&l, 0.5);
        ck_assert_msg(got >= times[i] && got - times[i] <= times[i] / 64, "%llu: %llu", (unsigned long long)times[i],
                      (unsigned long long)got);
    }
}
END_TEST

START_TEST(shares_are_of_all)
{
    for (int i = 0; i < 98; i++)
        latencies_add(&l, 10);
    latencies_add(&l, 1000000);
    latencies_add(&l, UINT64_MAX);
    ck_assert_uint_eq(latencies_at(&l, 0.98), 10);
    ck_assert_uint_ge(latencies_at(&l, 0.99), 1000000);
    ck_assert_uint_le(latencies_at(&l, 0.99), 1016000);
    ck_assert_uint_eq(l.most_ns, UINT64_MAX);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("latency");
    TCase *t = tcase_create("latency");

    tcase_add_checked_fixture(t, latency_setup, NULL);
    tcase_add_test(t, none_is_nothing);
    tcase_add_test(t, short_times_are_exact);
    tcase_add_test(t, any_time_is_told_a_sixty_fourth_too_high_at_most);
    tcase_add_test(t, shares_are_of_all);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
