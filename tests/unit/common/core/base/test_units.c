#include "common/core/base/units.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

static const struct {
    const char *text;
    const struct unit *units;
    const char *bare;
    uint64_t value;
    const char *exact;
} good[] = {
    {"0", units_of_bytes, "B", 0, "0B"},
    {"64MiB", units_of_bytes, "B", 64 * MIB, "64MiB"},
    {"64 m", units_of_bytes, "B", 64 * MIB, "64MiB"},
    {"1.5GiB", units_of_bytes, "B", 1536 * MIB, "1536MiB"},
    {"1025", units_of_bytes, "B", 1025, "1025B"},
    {"2T", units_of_bytes, "B", 2048 * GIB, "2TiB"},
    {"9223372036854775807", units_of_bytes, "B", INT64_MAX, "9223372036854775807B"},
    {"5s", units_of_ms, "ms", 5000, "5s"},
    {"5", units_of_ms, "s", 5000, "5s"},
    {"1500", units_of_ms, "ms", 1500, "1500ms"},
    {"0.0004", units_of_ms, "s", 0, "0ms"},
    {"0.0005", units_of_ms, "s", 1, "1ms"},
    {"1.25", units_of_ms, "s", 1250, "1250ms"},
    {"90m", units_of_ms, "ms", 5400000, "90m"},
    {"2d", units_of_ms, "ms", 172800000, "2d"},
    {"50us", units_of_us, "us", 50, "50us"},
    {"1MS", units_of_us, "us", 1000, "1ms"},
};

START_TEST(what_is_read_is_written_back_exactly)
{
    struct units text;
    uint64_t value = 77;

    ck_assert(units_parse(good[_i].text, good[_i].units, good[_i].bare, &value));
    ck_assert_uint_eq(value, good[_i].value);
    ck_assert_str_eq(units_exact(value, good[_i].units, &text), good[_i].exact);
    ck_assert(units_parse(text.text, good[_i].units, good[_i].bare, &value));
    ck_assert_uint_eq(value, good[_i].value);
}
END_TEST

START_TEST(what_is_no_quantity_is_refused)
{
    static const char *const bad[] = {"",
                                      " 1",
                                      "-1",
                                      "+1",
                                      "1.",
                                      ".5",
                                      "1e3",
                                      "1 s s",
                                      "1xB",
                                      "nan",
                                      "inf",
                                      "0x10",
                                      "1TiB",
                                      "18446744073709551616",
                                      "9223372036854775808",
                                      "106751991168d"};
    uint64_t value = 77;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ck_assert_msg(!units_parse(bad[i], units_of_ms, "ms", &value) && value == 77, "'%s' was read", bad[i]);
    ck_assert(!units_parse("99999999TiB", units_of_bytes, "B", &value));
}
END_TEST

START_TEST(bytes_are_read_in_three_digits)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } all[] = {{0, "0 B"},
               {1023, "1023 B"},
               {1024, "1.00 KiB"},
               {1536, "1.50 KiB"},
               {10 * 1024, "10.0 KiB"},
               {1023 * 1024 + 1000, "1.00 MiB"},
               {12345678, "11.8 MiB"},
               {300 * MIB, "300 MiB"},
               {5 * GIB, "5.00 GiB"},
               {UINT64_MAX, "16.0 EiB"}};
    struct units u;

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        ck_assert_str_eq(units_bytes(all[i].bytes, &u), all[i].text);
}
END_TEST

START_TEST(counts_and_times_are_read_at_a_glance)
{
    struct units u;

    ck_assert_str_eq(units_count(0, &u), "0");
    ck_assert_str_eq(units_count(999, &u), "999");
    ck_assert_str_eq(units_count(1000, &u), "1,000");
    ck_assert_str_eq(units_count(UINT64_MAX, &u), "18,446,744,073,709,551,615");
    ck_assert_str_eq(units_duration(0, &u), "0.0 s");
    ck_assert_str_eq(units_duration(59999, &u), "59.9 s");
    ck_assert_str_eq(units_duration(187000, &u), "3m 07s");
    ck_assert_str_eq(units_duration(7500000, &u), "2h 05m");
    ck_assert_str_eq(units_duration(UINT64_C(90000) * 1000, &u), "1d 01h");
    ck_assert_str_eq(units_microseconds(87.34, &u), "87.3 us");
    ck_assert_str_eq(units_microseconds(1240, &u), "1.24 ms");
    ck_assert_str_eq(units_microseconds(2.1e6, &u), "2.10 s");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("units");
    TCase *t = tcase_create("units");

    tcase_add_loop_test(t, what_is_read_is_written_back_exactly, 0, ARRAY_LEN(good));
    tcase_add_test(t, what_is_no_quantity_is_refused);
    tcase_add_test(t, bytes_are_read_in_three_digits);
    tcase_add_test(t, counts_and_times_are_read_at_a_glance);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
