/* The elementary functions beside the C library's, at their edges and over their ranges. */
#include "common/core/model/elementary.h"

#include <float.h>

#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

/* x is y to within so many units in the last place of y. */
static void
elementary_near(double x, double y, double ulps, const char *what, double at)
{
    double unit = fmax(fabs(nextafter(y, INFINITY) - y), 0x1p-1074);

    if (!(fabs(x - y) <= ulps * unit))
        ck_abort_msg("%s(%.17g) is %.17g, not %.17g", what, at, x, y);
}

START_TEST(exp_is_the_c_librarys_within_two_units)
{
    struct test_rng r = {test_seed()};

    for (int i = 0; i < 100000; i++) {
        double x = (double)test_float(&r) * (i % 2 == 0 ? 1 : 700);

        elementary_near(elementary_exp(x), exp(x), 2, "exp", x);
    }
    ck_assert(elementary_exp(0) == 1);
    ck_assert(elementary_exp(-INFINITY) == 0 && elementary_exp(-746) == 0);
    ck_assert(elementary_exp(INFINITY) == INFINITY && elementary_exp(710) == INFINITY);
    ck_assert(isfinite(elementary_exp(709.78)) && isnan(elementary_exp(NAN)));
    elementary_near(elementary_exp(-740), exp(-740), 2, "exp", -740); /* subnormal */
}
END_TEST

START_TEST(log_is_the_c_librarys_within_a_few_units)
{
    struct test_rng r = {test_seed()};

    for (int i = 0; i < 100000; i++) {
        double fraction = 1 + fabs((double)test_float(&r)), x = ldexp(fraction, (int)test_below(&r, 2000) - 1000);

        elementary_near(elementary_log(x), log(x), 8, "log", x);
    }
    ck_assert(elementary_log(1) == 0);
    ck_assert(elementary_log(INFINITY) == INFINITY && isnan(elementary_log(NAN)));
    elementary_near(elementary_log(0x1p-1074), log(0x1p-1074), 2, "log", 0x1p-1074);
    elementary_near(elementary_log(DBL_MAX), log(DBL_MAX), 2, "log", DBL_MAX);
    /* Near 1 the result is small and its own digits count. */
    elementary_near(elementary_log(1 + 0x1p-30), log(1 + 0x1p-30), 4, "log", 1 + 0x1p-30);
}
END_TEST

/* Two at a time, as first values are made, and one at a time, as GPUs compute it. */
START_TEST(the_logarithm_of_a_pair_has_the_bits_of_each)
{
    struct test_rng r = {test_seed()};

    for (int i = 0; i < 100000; i++) {
        doubles x = {ldexp(1 + fabs((double)test_float(&r)), (int)test_below(&r, 2000) - 1000),
                     ldexp(1 + fabs((double)test_float(&r)), (int)test_below(&r, 3) - 1)};
        doubles exponent, half = elementary_log_parts(x, &exponent);

        for (int lane = 0; lane < 2; lane++) {
            double got = exponent[lane] * 0.69314718055994530942 + 2 * half[lane], want = elementary_log(x[lane]);

            ck_assert_msg(memcmp(&got, &want, sizeof got) == 0, "log(%a) is %a, not %a", x[lane], got, want);
        }
    }
}
END_TEST

START_TEST(powers_are_the_c_librarys)
{
    struct test_rng r = {test_seed()};

    for (int i = 0; i < 100000; i++) {
        double base = exp(20 * (double)test_float(&r));
        double exponent = 2 * (double)test_float(&r);

        elementary_near(elementary_power(base, exponent), pow(base, exponent), 200, "power", base);
    }
    ck_assert(elementary_power(0, 0) == 1 && elementary_power(0, 0.3) == 0 && elementary_power(7, 0) == 1);
    ck_assert(elementary_power(1, 0.7) == 1);
    ck_assert(elementary_power(INFINITY, 0.3) == INFINITY && isnan(elementary_power(NAN, 0.3)));
}
END_TEST

START_TEST(cosine_of_half_turns_hits_its_corners)
{
    ck_assert(elementary_cos_half_turns(0) == 1 && elementary_cos_half_turns(1) == -1);
    ck_assert(elementary_cos_half_turns(0.5) == 0);
    for (int i = 0; i <= 10000; i++) {
        double x = i / 10000.0, error = elementary_cos_half_turns(x) - cos(3.14159265358979323846 * x);

        ck_assert_msg(fabs(error) <= 5e-16, "cos(%g pi) is wrong by %g", x, error);
        ck_assert(i == 0 || elementary_cos_half_turns(x) < elementary_cos_half_turns((i - 1) / 10000.0));
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("elementary");
    TCase *t = tcase_create("elementary");

    tcase_add_test(t, exp_is_the_c_librarys_within_two_units);
    tcase_add_test(t, log_is_the_c_librarys_within_a_few_units);
    tcase_add_test(t, the_logarithm_of_a_pair_has_the_bits_of_each);
    tcase_add_test(t, powers_are_the_c_librarys);
    tcase_add_test(t, cosine_of_half_turns_hits_its_corners);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
