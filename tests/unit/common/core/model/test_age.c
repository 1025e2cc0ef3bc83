/* Age policies by hand-computed values, their text form, their ranges, and the histogram's buckets. */
#include "common/core/model/age.h"

#include <math.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

START_TEST(policies_are_read_from_text)
{
    static const struct {
        const char *text;
        struct age_policy policy;
    } good[] = {{"none", {AGE_NONE, 0}},
                {"inverse", {AGE_INVERSE, 0}},
                {"exponential:0.9", {AGE_EXPONENTIAL, 0.9}},
                {"cutoff:0", {AGE_CUTOFF, 0}},
                {"cutoff:8", {AGE_CUTOFF, 8}}};
    static const char *const bad[] = {"",          "old",           "none:",         "inverse:2",  "exponential",
                                      "cutoff",    "cutoff:",       "cutoff:x",      "cutoff:nan", "cutoff:-1",
                                      "cutoff:8x", "exponential:0", "exponential:1", "cut:8",      "cutoffs:8"};
    struct age_policy p;
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        ck_assert_int_eq(age_parse(good[i].text, &p, &e), PS_OK);
        ck_assert(p.kind == good[i].policy.kind && p.parameter == good[i].policy.parameter);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ck_assert_msg(age_parse(bad[i], &p, &e) == PS_ERR_INVALID, "'%s' was read", bad[i]);
    ck_assert_int_eq(age_parse("old", &p, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "expected none, inverse, exponential:BASE or cutoff:AGE, got 'old'");
    ck_assert_int_eq(age_parse("exponetial:0.9", &p, &e), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(e.text, "got 'exponetial:0.9'; did you mean exponential?"));
    ck_assert_int_eq(age_parse("cutoff", &p, &e), PS_ERR_INVALID);
    ck_assert_ptr_null(strstr(e.text, "did you mean"));
}
END_TEST

START_TEST(none_counts_every_push_in_full)
{
    struct age_policy p = {AGE_NONE, 0};

    ck_assert(age_scale(&p, 0) == 1);
    ck_assert(age_scale(&p, UINT64_MAX) == 1);
}
END_TEST

START_TEST(inverse_divides_by_one_plus_age)
{
    struct age_policy p = {AGE_INVERSE, 0};

    ck_assert(age_scale(&p, 0) == 1);
    ck_assert(age_scale(&p, 1) == 0.5f);
    ck_assert(age_scale(&p, 3) == 0.25f);
    ck_assert(age_scale(&p, 9) == 0.1f);
    ck_assert(age_scale(&p, UINT64_MAX) > 0);
}
END_TEST

START_TEST(exponential_raises_the_base_to_the_age)
{
    struct age_policy p = {AGE_EXPONENTIAL, 0.9};

    ck_assert(age_scale(&p, 0) == 1);
    ck_assert(age_scale(&p, 1) == 0.9f);
    ck_assert(age_scale(&p, 2) == (float)(0.9 * 0.9));
    for (uint64_t age = 0; age < 600; age++)
        ck_assert_double_eq_tol(age_scale(&p, age), pow(0.9, (double)age), 1e-7 * pow(0.9, (double)age));
    ck_assert(age_scale(&p, UINT64_MAX) == 0);
}
END_TEST

START_TEST(cutoff_drops_past_the_parameter_only)
{
    struct age_policy p = {AGE_CUTOFF, 8}, zero = {AGE_CUTOFF, 0};

    ck_assert(age_scale(&p, 0) == 1);
    ck_assert(age_scale(&p, 8) == 1);
    ck_assert(age_scale(&p, 9) == -1);
    ck_assert(age_scale(&p, UINT64_MAX) == -1);
    ck_assert(age_scale(&zero, 0) == 1);
    ck_assert(age_scale(&zero, 1) == -1);
}
END_TEST

START_TEST(check_refuses_what_is_out_of_range)
{
    static const struct age_policy good[] = {
        {AGE_NONE, 0},   {AGE_NONE, 7},      {AGE_INVERSE, 0}, {AGE_EXPONENTIAL, 0.5}, {AGE_EXPONENTIAL, 0.999999},
        {AGE_CUTOFF, 0}, {AGE_CUTOFF, 1e18},
    };
    static const struct age_policy bad[] = {
        {AGE_EXPONENTIAL, 0},   {AGE_EXPONENTIAL, 1}, {AGE_EXPONENTIAL, -0.5}, {AGE_EXPONENTIAL, NAN},
        {AGE_CUTOFF, -1},       {AGE_CUTOFF, NAN},    {AGE_CUTOFF, INFINITY},  {(enum age_kind)AGE_KIND_MAX, 0},
        {(enum age_kind)99, 0},
    };
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        ck_assert_int_eq(age_check(&good[i], &e), PS_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        memset(&e, 0, sizeof e);
        ck_assert_msg(age_check(&bad[i], &e) == PS_ERR_INVALID, "bad[%zu] passed", i);
        ck_assert_uint_gt(strlen(e.text), 10);
    }
}
END_TEST

START_TEST(buckets_are_powers_of_two)
{
    ck_assert_int_eq(age_bucket(0), 0);
    for (int i = 1; i < AGE_BUCKETS - 1; i++) {
        ck_assert_int_eq(age_bucket(1ull << (i - 1)), i);
        ck_assert_int_eq(age_bucket((1ull << i) - 1), i);
    }
    ck_assert_int_eq(age_bucket(1ull << 31), AGE_BUCKETS - 1);
    ck_assert_int_eq(age_bucket(UINT64_MAX), AGE_BUCKETS - 1);
}
END_TEST

START_TEST(the_histogram_counts_and_sums)
{
    struct age_histogram h = {0};

    for (uint64_t age = 0; age < 9; age++)
        age_count(&h, age);
    ck_assert_uint_eq(h.count[0], 1);
    ck_assert_uint_eq(h.count[2], 2);
    ck_assert_uint_eq(h.count[3], 4);
    ck_assert_uint_eq(h.count[4], 1);
    ck_assert_uint_eq(h.sum, 36);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("age");
    TCase *t = tcase_create("age");

    tcase_add_test(t, policies_are_read_from_text);
    tcase_add_test(t, none_counts_every_push_in_full);
    tcase_add_test(t, inverse_divides_by_one_plus_age);
    tcase_add_test(t, exponential_raises_the_base_to_the_age);
    tcase_add_test(t, cutoff_drops_past_the_parameter_only);
    tcase_add_test(t, check_refuses_what_is_out_of_range);
    tcase_add_test(t, buckets_are_powers_of_two);
    tcase_add_test(t, the_histogram_counts_and_sums);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
