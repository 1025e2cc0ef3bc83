#include "server/core/metrics/exposition.h"

#include <string.h>

#include "tests/exposition_page.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/comma_locale.h"

static struct exposition x;

static void
exposition_teardown(void)
{
    exposition_finish(&x);
}

START_TEST(a_family_is_its_help_its_type_and_its_samples)
{
    exposition_family(&x, "a_total", EXPOSITION_COUNTER, "Things.");
    exposition_count(&x, UINT64_MAX, NULL);
    exposition_family(&x, "b_seconds", EXPOSITION_GAUGE, "Time.");
    exposition_real(&x, 0.125, "job", "train", "worker", "3", NULL);
    exposition_real(&x, -2, "job", "other", "worker", "3", NULL);
    ck_assert_str_eq(x.text, "# HELP a_total Things.\n# TYPE a_total counter\na_total 18446744073709551615\n"
                             "# HELP b_seconds Time.\n# TYPE b_seconds gauge\n"
                             "b_seconds{job=\"train\",worker=\"3\"} 0.125\nb_seconds{job=\"other\",worker=\"3\"} -2\n");
    ck_assert(!x.failed);
    ck_assert_ptr_null(page_wrong(x.text));
}
END_TEST

START_TEST(values_and_helps_cannot_break_a_line)
{
    exposition_family(&x, "a", EXPOSITION_GAUGE, "one\ntwo \\ \"three\"");
    exposition_count(&x, 1, "l", "\"} 5\n# HELP", NULL);
    exposition_count(&x, 2, "l", "back\\slash\\", NULL);
    exposition_count(&x, 3, "l", "\xc3\xa9\xff\xc3", NULL); /* one letter of two bytes, and two that are none */
    exposition_count(&x, 4, "l", "", NULL);
    ck_assert_str_eq(x.text, "# HELP a one\\ntwo \\\\ \"three\"\n# TYPE a gauge\na{l=\"\\\"} 5?# HELP\"} 1\n"
                             "a{l=\"back\\\\slash\\\\\"} 2\na{l=\"\xc3\xa9??\"} 3\na{l=\"\"} 4\n");
    ck_assert_ptr_null(page_wrong(x.text));
}
END_TEST

START_TEST(a_long_value_is_cut_between_letters)
{
    char value[2 * EXPOSITION_VALUE_MAX], want[EXPOSITION_VALUE_MAX + 64];

    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    memcpy(value + EXPOSITION_VALUE_MAX - 1, "\xc3\xa9", 2);
    exposition_family(&x, "a", EXPOSITION_GAUGE, "A.");
    exposition_count(&x, 1, "l", value, NULL);
    snprintf(want, sizeof want, "a{l=\"%.*s?\"}", EXPOSITION_VALUE_MAX - 1, value);
    ck_assert_double_eq(page_value(x.text, want), 1);
}
END_TEST

START_TEST(histograms_are_cumulative)
{
    const double bounds[] = {0.001, 1, 60};
    const uint64_t counts[] = {3, 0, 4, 5};

    exposition_family(&x, "h", EXPOSITION_HISTOGRAM, "H.");
    exposition_histogram(&x, &(struct exposition_histogram){bounds, counts, 4, 77.5}, "k", "v", NULL);
    ck_assert_str_eq(strchr(strchr(x.text, '\n') + 1, '\n') + 1,
                     "h_bucket{k=\"v\",le=\"0.001\"} 3\nh_bucket{k=\"v\",le=\"1\"} 3\nh_bucket{k=\"v\",le=\"60\"} 7\n"
                     "h_bucket{k=\"v\",le=\"+Inf\"} 12\nh_sum{k=\"v\"} 77.5\nh_count{k=\"v\"} 12\n");
    ck_assert_ptr_null(page_wrong(x.text));
}
END_TEST

START_TEST(numbers_have_points_in_every_locale)
{
    if (!comma_locale())
        return;
    exposition_family(&x, "a", EXPOSITION_GAUGE, "A.");
    exposition_real(&x, 0.5, NULL);
    ck_assert_ptr_nonnull(strstr(x.text, "a 0.5\n"));
}
END_TEST

START_TEST(a_page_ends_at_its_limit_and_says_so)
{
    exposition_family(&x, "a", EXPOSITION_GAUGE, "A.");
    for (uint64_t i = 0; i < 4 * EXPOSITION_MAX / 64 && !x.failed; i++)
        exposition_count(&x, i, "label", "01234567890123456789012345678901234567890123456789", NULL);
    ck_assert(x.failed);
    ck_assert_uint_lt(x.len, EXPOSITION_MAX);
}
END_TEST

/* The checker of the other tests must be able to find errors. */
START_TEST(what_is_wrong_on_a_page_is_seen)
{
    static const char *const wrong[] = {
        "a 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE a gauge\nb 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a A.\n# TYPE a gauge\na{l=\"x\"y\"} 1\n",
        "# HELP a A.\n# TYPE a gauge\na{l=\"\\x\"} 1\n",
        "# HELP a A.\n# TYPE a gauge\na one\n",
        "# HELP a A.\n# TYPE a gauge\na 1\n# HELP b B.\n# TYPE b gauge\n# HELP a A.\n# TYPE a gauge\n",
        "# HELP a A.\n# TYPE a histogram\na 1\n",
        "# TYPE a gauge\na 1\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        ck_assert_msg(page_wrong(wrong[i]) != NULL, "passed: %s", wrong[i]);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("exposition");
    TCase *t = tcase_create("exposition");

    tcase_add_checked_fixture(t, NULL, exposition_teardown);
    tcase_add_test(t, a_family_is_its_help_its_type_and_its_samples);
    tcase_add_test(t, values_and_helps_cannot_break_a_line);
    tcase_add_test(t, a_long_value_is_cut_between_letters);
    tcase_add_test(t, histograms_are_cumulative);
    tcase_add_test(t, numbers_have_points_in_every_locale);
    tcase_add_test(t, a_page_ends_at_its_limit_and_says_so);
    tcase_add_test(t, what_is_wrong_on_a_page_is_seen);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
