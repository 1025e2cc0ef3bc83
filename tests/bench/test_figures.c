/* The bench's evaluation of its samples: medians, spreads, ratios of rounds; scales and their ticks; numbers of a list.
 */
#include <math.h>
#include <stdlib.h>

#include "common/core/base/base.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/scale.h"
#include "tests/bench/series.h"
#include "tests/unit/kits/check_main.h"

static struct series
series_of(size_t n, const double *values)
{
    struct series s = {.n = 0};

    for (size_t i = 0; i < n; i++)
        series_add(&s, values[i]);
    return s;
}
#define SERIES(...) series_of(sizeof((const double[]){__VA_ARGS__}) / sizeof(double), (const double[]){__VA_ARGS__})

START_TEST(a_figure_is_the_median_and_its_spread_the_middle_half)
{
    struct series s = SERIES(5, 1, 4, 2, 3), one = SERIES(7), nothing = SERIES(0, 0, 0);

    ck_assert_double_eq(series_median(&s), 3);
    ck_assert_double_eq(series_quantile(&s, 0), 1);
    ck_assert_double_eq(series_quantile(&s, 1), 5);
    ck_assert_double_eq_tol(series_spread(&s), (4.0 - 2.0) / 3, 1e-12);
    ck_assert_double_eq(series_median(&one), 7);
    ck_assert_double_eq(series_spread(&one), 0);
    ck_assert_double_eq(series_spread(&nothing), 0);
    ck_assert_double_eq(s.value[0], 5); /* the order of the rounds stays */
}
END_TEST

START_TEST(a_ratio_is_the_median_of_the_rounds_own)
{
    /* A neighbour halves everything in the second round: the medians' ratio would be 1. */
    struct series a = SERIES(20, 10, 30), b = SERIES(10, 5, 20), fewer = SERIES(40, 20);

    ck_assert_double_eq(series_ratio(&a, &b), 2);
    ck_assert_double_eq(series_ratio(&fewer, &a), 2);
}
END_TEST

START_TEST(a_scale_holds_its_values_and_its_ticks)
{
    static const double ends[][2] = {{0.3, 7}, {1, 1}, {64, 4194304}, {1e-9, 3e-9}, {999, 1001}, {0.02, 5e6}};

    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        for (int log = 0; log < 2; log++)
            for (int binary = 0; binary < 2; binary++) {
                struct scale s = scale_of(ends[i][0], ends[i][1], log, 100, 500);
                double ticks[TICKS_MAX];
                size_t n = scale_ticks(&s, binary, ticks);

                ck_assert(s.low <= ends[i][0] && s.high >= ends[i][1]);
                ck_assert_double_eq_tol(scale_at(&s, s.low), 100, 1e-6);
                ck_assert_double_eq_tol(scale_at(&s, s.high), 500, 1e-6);
                ck_assert(n >= 1 && n <= TICKS_MAX);
                for (size_t k = 0; k < n; k++) {
                    ck_assert_double_ge(scale_at(&s, ticks[k]), 100 - 1e-3);
                    ck_assert_double_le(scale_at(&s, ticks[k]), 500 + 1e-3);
                    ck_assert(k == 0 || ticks[k] > ticks[k - 1]);
                    if (log && binary)
                        ck_assert_double_eq(log2(ticks[k]), rint(log2(ticks[k])));
                }
            }
}
END_TEST

START_TEST(lists_of_numbers_know_their_units)
{
    static const uint64_t usual[] = {1, 2, 3};
    uint64_t out[4];

    ck_assert_uint_eq(bench_options_numbers(NULL, usual, 3, out, 4), 3);
    ck_assert_uint_eq(out[2], 3);
    ck_assert_uint_eq(bench_options_numbers("64,4Ki,1M,1.5Gi", usual, 3, out, 4), 4);
    ck_assert_uint_eq(out[0], 64);
    ck_assert_uint_eq(out[1], 4096);
    ck_assert_uint_eq(out[2], 1000000);
    ck_assert_uint_eq(out[3], 1536 * MIB);
}
END_TEST

static const char *const bad_lists[] = {"", "1,", ",1", "x", "1k2", "-1", "1,2,3,4,5", "1 2"};

START_TEST(what_is_no_list_of_numbers_ends_the_program)
{
    uint64_t out[4];

    bench_options_numbers(bad_lists[_i], NULL, 0, out, 4);
}
END_TEST

START_TEST(ways_are_wanted_by_their_whole_names)
{
    struct bench_options all = {0}, some = {.ways = "pump,psd-unix"};

    ck_assert(bench_options_want(&all, "psd"));
    ck_assert(bench_options_want(&some, "pump") && bench_options_want(&some, "psd-unix"));
    ck_assert(!bench_options_want(&some, "psd") && !bench_options_want(&some, "pump-unix") &&
              !bench_options_want(&some, "unix"));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("bench");
    TCase *tc = tcase_create("figures");

    tcase_add_test(tc, a_figure_is_the_median_and_its_spread_the_middle_half);
    tcase_add_test(tc, a_ratio_is_the_median_of_the_rounds_own);
    tcase_add_test(tc, a_scale_holds_its_values_and_its_ticks);
    tcase_add_test(tc, lists_of_numbers_know_their_units);
    tcase_add_loop_exit_test(tc, what_is_no_list_of_numbers_ends_the_program, EXIT_USAGE, 0, (int)ARRAY_LEN(bad_lists));
    tcase_add_test(tc, ways_are_wanted_by_their_whole_names);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
