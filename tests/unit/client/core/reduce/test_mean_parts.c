/* Means of integers against wider arithmetic. */
#include "client/core/reduce/mean_parts.h"

#include <string.h>

#include "client/core/reduce/reduce.h"
#include "tests/unit/kits/check_main.h"

#define RANKS PS_GROUP_RANKS_MAX

/* The mean of x, by its parts, and exactly. */
static int64_t
mean_by_parts(enum ps_dtype dtype, uint32_t ranks, const int64_t *x)
{
    int64_t sums[2] = {0, 0}, parts[2], out64 = 0;
    int32_t small, out32 = 0;

    for (uint32_t r = 0; r < ranks; r++) {
        small = (int32_t)x[r];
        mean_parts_split(dtype, 1, ranks, dtype == PS_I32 ? (const void *)&small : (const void *)&x[r], parts);
        reduce(dtype, PS_SUM, 2, sums, sums, parts);
    }
    mean_parts_join(dtype, 1, ranks, sums, dtype == PS_I32 ? (void *)&out32 : (void *)&out64);
    return dtype == PS_I32 ? out32 : out64;
}

static void
check_mean(enum ps_dtype dtype, uint32_t ranks, const int64_t *x)
{
    __int128 sum = 0;
    int64_t want, is = mean_by_parts(dtype, ranks, x);

    for (uint32_t r = 0; r < ranks; r++)
        sum += x[r];
    want = (int64_t)(sum / (int32_t)ranks); /* toward zero */
    ck_assert_msg(is == want, "%s of %u ranks, %" PRId64 ", %" PRId64 " ...: %" PRId64 ", not %" PRId64,
                  ps_dtype_name(dtype), ranks, x[0], x[ranks - 1], is, want);
}

START_TEST(the_mean_is_exact_whatever_the_sum)
{
    static const int64_t ends[2][4] = {{INT32_MIN, INT32_MIN + 1, INT32_MAX, INT32_MAX - 1},
                                       {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1}};
    enum ps_dtype dtype = _i == 0 ? PS_I32 : PS_I64;
    struct test_rng r = {test_seed() + (uint64_t)_i};
    int64_t x[RANKS];

    for (uint32_t ranks = 1; ranks <= RANKS; ranks += 1 + ranks / 12)
        for (int k = 0; k < 400; k++) {
            for (uint32_t i = 0; i < ranks; i++) {
                int64_t any = dtype == PS_I32 ? (int32_t)test_rand(&r) : (int64_t)test_rand(&r);

                x[i] = k < 4                    ? ends[_i][k]
                       : k % 4 == 0             ? ends[_i][test_below(&r, 4)]
                       : k % 4 == 1             ? (int64_t)test_below(&r, 7) - 3
                       : test_below(&r, 2) == 0 ? any
                                                : any / 3;
            }
            check_mean(dtype, ranks, x);
        }
}
END_TEST

/* Every pair and triple of small numbers, so that each way of rounding comes. */
START_TEST(it_is_rounded_toward_zero)
{
    for (int64_t a = -9; a <= 9; a++)
        for (int64_t b = -9; b <= 9; b++)
            for (int64_t c = -9; c <= 9; c++) {
                check_mean(PS_I32, 2, (int64_t[]){a, b});
                check_mean(PS_I64, 3, (int64_t[]){a, b, c});
            }
}
END_TEST

START_TEST(only_integers_are_split)
{
    for (int dtype = 0; dtype < PS_DTYPES; dtype++)
        ck_assert(mean_parts_needed((enum ps_dtype)dtype) == (dtype == PS_I32 || dtype == PS_I64));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("mean_parts");
    TCase *tc = tcase_create("mean_parts");

    tcase_add_loop_test(tc, the_mean_is_exact_whatever_the_sum, 0, 2);
    tcase_add_test(tc, it_is_rounded_toward_zero);
    tcase_add_test(tc, only_integers_are_split);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
