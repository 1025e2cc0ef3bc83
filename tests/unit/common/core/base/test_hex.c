/* Bytes as hexadecimal digits, and back. */
#include "common/core/base/hex.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

START_TEST(every_byte_has_two_digits_and_comes_back)
{
    uint8_t all[256], back[256];
    char text[2 * sizeof all + 1], two[3];

    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    hex_write(all, sizeof all, text);
    ck_assert_uint_eq(strlen(text), 2 * sizeof all);
    for (unsigned i = 0; i < sizeof all; i++) {
        snprintf(two, sizeof two, "%02x", i);
        ck_assert_mem_eq(text + 2 * (size_t)i, two, 2);
    }
    ck_assert(hex_read(text, sizeof back, back));
    ck_assert_mem_eq(back, all, sizeof all);
}
END_TEST

START_TEST(nothing_is_an_empty_text)
{
    char text[1] = {'x'};

    hex_write(NULL, 0, text);
    ck_assert_int_eq(text[0], '\0');
    ck_assert(hex_read(text, 0, NULL));
}
END_TEST

START_TEST(what_is_no_digit_is_not_read)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t byte;

    for (int c = 0; c < 256; c++) {
        char first[2] = {(char)c, '0'}, second[2] = {'0', (char)c};
        bool is_digit = c != 0 && strchr(digits, c) != NULL;

        ck_assert_int_eq(hex_read(first, 1, &byte), is_digit);
        ck_assert_int_eq(hex_read(second, 1, &byte), is_digit);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("hex");
    TCase *tc = tcase_create("hex");

    tcase_add_test(tc, every_byte_has_two_digits_and_comes_back);
    tcase_add_test(tc, nothing_is_an_empty_text);
    tcase_add_test(tc, what_is_no_digit_is_not_read);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
