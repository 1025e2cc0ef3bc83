/* Dropout: the mask recomputed word by word from Philox, its moments, its independence of everything but seed, counter
 * and index, and backward's agreement with forward. */
#include <signal.h>

#include "common/core/model/philox.h"
#include "tests/unit/client/device/device_kit.h"

/* Element i's word: word i % 4 of block i / 4, under the seed with "dropouts" in it. */
static uint32_t
reference_word(size_t i, uint64_t seed, uint64_t counter)
{
    uint64_t mixed = seed ^ 0x64726f706f757473u, block = i / 4;
    uint32_t key[2] = {(uint32_t)mixed, (uint32_t)(mixed >> 32)}, words[4];
    uint32_t at[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)counter, (uint32_t)(counter >> 32)};

    philox_4x32(at, key, words);
    return words[i % 4];
}

START_TEST(dropout_follows_philox_word_by_word)
{
    static const size_t lengths[] = {1, 4, 63, 64, 65, 1000};
    static const float rates[] = {0.1f, 0.5f, 0.9f};
    const uint64_t seed = 0x123456789abcdef0, counter = 0xfedcba9876543210;

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++)
        for (size_t j = 0; j < ARRAY_LEN(rates); j++) {
            size_t n = lengths[k];
            float *x = random_floats(n), *y = nan_floats(n), *dx = nan_floats(n);

            ps_dropout_forward(device, n, rates[j], seed, counter, x, y);
            ps_dropout_backward(device, n, rates[j], seed, counter, x, dx);
            for (size_t i = 0; i < n; i++) {
                bool kept = (double)reference_word(i, seed, counter) * 0x1p-32 >= (double)rates[j];

                assert_near((double)y[i], kept ? (double)x[i] / (1 - (double)rates[j]) : 0, 1, "y", i);
            }
            assert_same_bits(dx, y, n); /* linear, with the same factors */
            ps_dropout_forward(device, n, rates[j], seed, counter, x, x);
            assert_same_bits(x, y, n);
        }
}
END_TEST

/* A binomial number of n is within 5 deviations of its mean but for one seed in a million. */
static void
assert_binomial(size_t got, size_t n, double p)
{
    double deviation = sqrt((double)n * p * (1 - p));

    ck_assert_msg(fabs((double)got - (double)n * p) <= 5 * deviation, "%zu of %zu with probability %g", got, n, p);
}

START_TEST(dropout_drops_at_its_rate_and_keeps_the_mean)
{
    enum { N = 200000 };
    float *x = device_take(N * sizeof *x), *y = nan_floats(N);
    uint64_t seed = test_rand(&rng);

    for (size_t i = 0; i < N; i++)
        x[i] = 1;
    for (int tenth = 1; tenth < 10; tenth += 4) {
        double rate = tenth / 10.0;
        size_t dropped = 0, pairs = 0;

        ps_dropout_forward(device, N, (float)rate, seed, 7, x, y);
        for (size_t i = 0; i < N; i++) {
            ck_assert(y[i] == 0 || fabs((double)y[i] * (1 - rate) - 1) < 1e-6);
            dropped += y[i] == 0;
            pairs += i > 0 && i % 2 == 1 && y[i] == 0 && y[i - 1] == 0;
        }
        assert_binomial(dropped, N, rate);
        assert_binomial(pairs, N / 2, rate * rate); /* neighbours know nothing of each other */
    }
}
END_TEST

static size_t
kept_by_both(size_t n, const float *a, const float *b)
{
    size_t both = 0;

    for (size_t i = 0; i < n; i++)
        both += a[i] != 0 && b[i] != 0;
    return both;
}

START_TEST(seeds_and_counters_give_masks_of_their_own)
{
    enum { N = 20000 };
    float *x = device_take(N * sizeof *x), *y = nan_floats(N), *other = nan_floats(N);
    const uint64_t seeds[] = {1, 1, 1, (uint64_t)1 << 32 | 1}, counters[] = {2, 3, (uint64_t)1 << 32 | 2, 2};

    for (size_t i = 0; i < N; i++)
        x[i] = 1;
    ps_dropout_forward(device, N, 0.5f, 1, 2, x, y);
    ps_dropout_forward(device, N, 0.5f, seeds[0], counters[0], x, other);
    assert_same_bits(y, other, N);
    for (size_t k = 1; k < ARRAY_LEN(seeds); k++) {
        ps_dropout_forward(device, N, 0.5f, seeds[k], counters[k], x, other);
        assert_binomial(kept_by_both(N, y, other), N, 0.25);
    }
}
END_TEST

START_TEST(a_prefix_has_the_bits_of_the_whole)
{
    enum { N = 300 };
    float *x = random_floats(N), *y = nan_floats(N), *part = nan_floats(N);

    ps_dropout_forward(device, N, 0.3f, 5, 6, x, y);
    for (size_t n = 0; n <= N; n += 7) {
        ps_dropout_forward(device, n, 0.3f, 5, 6, x, part);
        assert_same_bits(part, y, n);
    }
}
END_TEST

START_TEST(dropout_at_its_ends)
{
    float x[4] = {1, -2, 3e30f, NAN}, y[4];
    size_t dropped = 0;

    ps_dropout_forward(device, 4, 0, 1, 1, x, y);
    assert_same_bits(y, x, 4); /* nothing happens */
    for (uint64_t counter = 0; counter < 100; counter++) {
        ps_dropout_forward(device, 1, 0x1.fffffep-1f, 1, counter, x, y);
        dropped += y[0] == 0;
    }
    ck_assert_uint_eq(dropped, 100);
    for (uint64_t counter = 0; counter < 100; counter++) { /* what is dropped is 0, whatever it was */
        ps_dropout_forward(device, 1, 0.5f, 1, counter, x + 3, y);
        ck_assert(y[0] == 0 || isnan(y[0]));
        dropped += y[0] == 0;
    }
    ck_assert(dropped > 120 && dropped < 180);
    ps_dropout_forward(device, 0, 0.5f, 1, 1, NULL, NULL);
    ps_dropout_backward(device, 0, 0.5f, 1, 1, NULL, NULL);
}
END_TEST

START_TEST(a_rate_that_is_none_stops_the_program)
{
    float x = 1;

    ps_dropout_forward(device, 1, _i == 0 ? 1 : -0.1f, 1, 1, &x, &x);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_dropout");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, dropout_follows_philox_word_by_word);
    tcase_add_test(tc, dropout_drops_at_its_rate_and_keeps_the_mean);
    tcase_add_test(tc, seeds_and_counters_give_masks_of_their_own);
    tcase_add_test(tc, a_prefix_has_the_bits_of_the_whole);
    tcase_add_test(tc, dropout_at_its_ends);
    if (tests_fork())
        tcase_add_loop_test_raise_signal(tc, a_rate_that_is_none_stops_the_program, SIGABRT, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
