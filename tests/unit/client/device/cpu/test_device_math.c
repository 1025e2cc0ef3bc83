/* The CPU's own functions of one number, against the C library's in double over all their range; and sums. */
#include "client/device/cpu/device_cpu_math.h"
#include "tests/unit/client/device/device_kit.h"

/* Every 10007th float from low to high, in the order of their bits, which for positive floats is theirs. */
#define EACH_FLOAT(x, low, high) for (float x = (low); x <= (high); x = step_up(x, 10007))

static float
step_up(float x, uint32_t steps)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits += steps;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void
assert_relative(float x, double got, double want, double allowed)
{
    ck_assert_msg(fabs(got - want) <= allowed * fabs(want), "at %.9g: %.9g, should be %.9g", (double)x, got, want);
}

START_TEST(exp_agrees_with_double_over_its_range)
{
    EACH_FLOAT(x, 1e-9f, 88.7f)
    {
        assert_relative(x, (double)math_exp(x), exp((double)x), 0x1p-22);
        if (x < 87)
            assert_relative(-x, (double)math_exp(-x), exp(-(double)x), 0x1p-22);
    }
    for (float x = 87; x < 104; x += 0.01f) /* subnormal: to the last bit */
        ck_assert(fabs((double)math_exp(-x) - exp(-(double)x)) <= 0x1p-149);
}
END_TEST

/* Every 1009th float down to -2^7, subnormal results and those that are 0 among them, and a few beyond. */
START_TEST(exp_below_0_has_the_bits_of_exp)
{
    static const float edges[] = {-0.0f, -104, -103.9f, -1e30f, -INFINITY};

    for (uint32_t bits = 0; bits < 0x43000000; bits += 1009) {
        float x, one, other;

        memcpy(&x, &bits, sizeof x);
        one = math_exp(-x);
        other = math_exp_below(-x);
        if (memcmp(&one, &other, sizeof one) != 0)
            ck_abort_msg("of %.9g: %.9g, not %.9g", (double)-x, (double)other, (double)one);
    }
    for (size_t i = 0; i < ARRAY_LEN(edges); i++)
        ck_assert(math_exp_below(edges[i]) == math_exp(edges[i]));
    ck_assert(isnan(math_exp_below(NAN)) && isnan(math_exp_below(-NAN)));
}
END_TEST

START_TEST(exp_has_its_limits)
{
    ck_assert(math_exp(0) == 1 && math_exp(-0.0f) == 1);
    ck_assert(math_exp(INFINITY) == INFINITY && math_exp(1e30f) == INFINITY && math_exp(89) == INFINITY);
    ck_assert(math_exp(-INFINITY) == 0 && math_exp(-1e30f) == 0 && math_exp(-104) == 0);
    ck_assert(isnan(math_exp(NAN)) && isnan(math_exp(-NAN)));
}
END_TEST

START_TEST(log1p_agrees_with_double_from_0_to_1)
{
    ck_assert(math_log1p(0) == 0);
    ck_assert(isnan(math_log1p(NAN)));
    EACH_FLOAT(x, 1e-37f, 1)
    {
        assert_relative(x, (double)math_log1p(x), log1p((double)x), 0x1p-22);
    }
}
END_TEST

START_TEST(sigmoid_agrees_with_double_in_its_tails_too)
{
    EACH_FLOAT(x, 1e-9f, 87)
    {
        assert_relative(x, (double)math_sigmoid(x), 1 / (1 + exp(-(double)x)), 0x1p-22);
        assert_relative(-x, (double)math_sigmoid(-x), 1 / (1 + exp((double)x)), 0x1p-22);
    }
    ck_assert(math_sigmoid(0) == 0.5f && math_sigmoid(INFINITY) == 1 && math_sigmoid(-INFINITY) == 0);
    ck_assert(isnan(math_sigmoid(NAN)));
}
END_TEST

START_TEST(tanh_agrees_with_double_near_0_too)
{
    EACH_FLOAT(x, 1e-30f, 100)
    {
        assert_relative(x, (double)math_tanh(x), tanh((double)x), 0x1p-22);
        ck_assert(math_tanh(-x) == -math_tanh(x));
    }
    ck_assert(math_tanh(0) == 0 && signbit(math_tanh(-0.0f)) && math_tanh(1e-40f) == 1e-40f);
    ck_assert(math_tanh(INFINITY) == 1 && math_tanh(-INFINITY) == -1 && math_tanh(FLT_MAX) == 1);
    ck_assert(isnan(math_tanh(NAN)));
}
END_TEST

START_TEST(the_normal_distribution_agrees_with_double_in_its_tails_too)
{
    float density, below;

    EACH_FLOAT(a, 1e-9f, 13)
    {
        double allowed = 0x1p-21 + 0x1p-24 * (double)a * (double)a;

        for (int side = 0; side < 2; side++) {
            float x = side == 0 ? a : -a;

            math_normal(x, &density, &below);
            assert_relative(x, (double)below, erfc(-(double)x / sqrt(2)) / 2, allowed);
            assert_relative(x, (double)density, exp(-(double)x * (double)x / 2) / sqrt(8 * atan(1)), allowed);
        }
    }
    math_normal(0, &density, &below);
    ck_assert(below == 0.5f);
    math_normal(1e30f, &density, &below);
    ck_assert(below == 1 && density == 0);
    math_normal(-INFINITY, &density, &below);
    ck_assert(below == 0 && density == 0);
    math_normal(NAN, &density, &below);
    ck_assert(isnan(below) && isnan(density));
}
END_TEST

START_TEST(sums_take_every_element_once)
{
    for (size_t n = 0; n < 100; n++) {
        float *x = device_take((n + 1) * sizeof *x);

        for (size_t i = 0; i < n; i++)
            x[i] = (float)(i * i + 1);
        x[n] = NAN;
        ck_assert(math_sum(n, x) == (float)(n * (n - 1) / 2 * (2 * n - 1) / 3 + n));
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_math");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, exp_agrees_with_double_over_its_range);
    tcase_add_test(tc, exp_below_0_has_the_bits_of_exp);
    tcase_add_test(tc, exp_has_its_limits);
    tcase_add_test(tc, log1p_agrees_with_double_from_0_to_1);
    tcase_add_test(tc, sigmoid_agrees_with_double_in_its_tails_too);
    tcase_add_test(tc, tanh_agrees_with_double_near_0_too);
    tcase_add_test(tc, the_normal_distribution_agrees_with_double_in_its_tails_too);
    tcase_add_test(tc, sums_take_every_element_once);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
