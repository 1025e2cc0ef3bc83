#include "client/tools/shared/redraw.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

/* The drawn text, in a buffer that lasts until the next. */
static const char *
redraw_drawn(const char *text, size_t columns, size_t rows)
{
    static char *out;
    size_t len;

    free(out);
    len = redraw(text, (struct redraw_size){.columns = columns, .rows = rows}, &out);
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(len, strlen(out));
    return out;
}

START_TEST(each_line_clears_what_stood_behind_it_and_the_last_what_stood_below)
{
    ck_assert_str_eq(redraw_drawn("one\ntwo\n", 80, 24), "\x1b[Hone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
    ck_assert_str_eq(redraw_drawn("one\n\ntwo", 80, 24), "\x1b[Hone\x1b[K\r\n\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
    ck_assert_str_eq(redraw_drawn("", 80, 24), "\x1b[H\x1b[J");
}
END_TEST

START_TEST(a_text_that_fills_the_screen_does_not_scroll_it)
{
    ck_assert_str_eq(redraw_drawn("a\nb\n", 80, 2), "\x1b[Ha\x1b[K\r\nb\x1b[K");
}
END_TEST

START_TEST(a_line_that_fills_its_row_is_not_cleared_behind)
{
    ck_assert_str_eq(redraw_drawn("abcd\nabc\n", 4, 9), "\x1b[Habcd\r\nabc\x1b[K\r\n\x1b[J");
}
END_TEST

START_TEST(lines_too_long_are_cut_and_their_colours_end)
{
    ck_assert_str_eq(redraw_drawn("abcdef\n", 4, 9), "\x1b[Habcd\r\n\x1b[J");
    ck_assert_str_eq(redraw_drawn("\x1b[31mabcdef\x1b[0m\n", 4, 9), "\x1b[H\x1b[31mabcd\x1b[0m\r\n\x1b[J");
}
END_TEST

START_TEST(lines_too_many_are_counted_in_the_last_row)
{
    ck_assert_str_eq(redraw_drawn("a\nb\nc\nd\n", 80, 3), "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n... 2 lines more\x1b[K");
    ck_assert_str_eq(redraw_drawn("a\nb\n", 80, 1), "\x1b[H... 2 lines more\x1b[K");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("redraw");
    TCase *t = tcase_create("redraw");

    tcase_add_test(t, each_line_clears_what_stood_behind_it_and_the_last_what_stood_below);
    tcase_add_test(t, a_text_that_fills_the_screen_does_not_scroll_it);
    tcase_add_test(t, a_line_that_fills_its_row_is_not_cleared_behind);
    tcase_add_test(t, lines_too_long_are_cut_and_their_colours_end);
    tcase_add_test(t, lines_too_many_are_counted_in_the_last_row);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
