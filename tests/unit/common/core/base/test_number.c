/* Numbers as text: which texts are numbers, and that the locale changes nothing. */
#include "common/core/base/number.h"

#include <math.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/comma_locale.h"

static const struct {
    const char *text;
    double value;
} numbers[] = {
    {"0", 0},
    {"-0.5", -0.5},
    {"+1", 1},
    {".5", 0.5},
    {"5.", 5},
    {"1e3", 1000},
    {"1E-3", 0.001},
    {"3.0e+2", 300},
    {"1e-400", 0},
    {"1e999", INFINITY},
    {"-1e999", -INFINITY},
};

static const char *const others[] = {"",   " ",     " 1", "1 ", "1,5", "0x10", "nan", "inf", "infinity", "1e",
                                     "e1", "1.2.3", ".",  "+",  "+-1", "1-",   "1f",  "\t1", "١"};

static void
check_all(void)
{
    double value;

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        ck_assert_msg(number_parse(numbers[i].text, &value), "%s", numbers[i].text);
        ck_assert_msg(value == numbers[i].value, "%s is %g", numbers[i].text, value);
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        ck_assert_msg(!number_parse(others[i], &value), "'%s' was taken", others[i]);
}

static void
check_written(void)
{
    static const struct {
        double value;
        const char *want;
    } rows[] = {{0, "0"},        {0.1, "0.1"},         {-1.5, "-1.5"},
                {1e-9, "1e-09"}, {1234567, "1234567"}, {0.1 + 0.2, "0.30000000000000004"}};
    struct test_rng rng = {test_seed()};
    char text[NUMBER_TEXT_MAX];
    double back;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        ck_assert_str_eq(number_format(rows[i].value, text), rows[i].want);
    for (int i = 0; i < 10000; i++) {
        uint64_t bits = test_rand(&rng);
        double value;

        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        ck_assert(number_parse(number_format(value, text), &back));
        ck_assert_msg(back == value, "%a came back as %a by %s", value, back, text);
    }
}

START_TEST(plain_decimal_numbers_are_taken)
{
    check_all();
}
END_TEST

START_TEST(what_is_written_reads_back)
{
    check_written();
}
END_TEST

START_TEST(a_decimal_comma_changes_nothing)
{
    char text[16];

    if (!comma_locale())
        return;
    snprintf(text, sizeof text, "%g", 1.5);
    ck_assert_str_eq(text, "1,5"); /* the locale is on */
    check_all();
    check_written();
    snprintf(text, sizeof text, "%g", 1.5);
    ck_assert_str_eq(text, "1,5"); /* and still is */
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("number");
    TCase *tc = tcase_create("number");

    tcase_add_test(tc, plain_decimal_numbers_are_taken);
    tcase_add_test(tc, what_is_written_reads_back);
    tcase_add_test(tc, a_decimal_comma_changes_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
