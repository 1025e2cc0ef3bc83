#include "common/core/base/comma_list.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

/* Each entry behind a bar: "|a|b". */
static const char *
comma_list_entries(const char *list, size_t size)
{
    static char out[256];
    char entry[64];

    out[0] = '\0';
    for (const char *at = list; comma_list_next(&at, entry, size);) {
        strcat(out, "|");
        strcat(out, entry);
    }
    return out;
}

START_TEST(entries_come_without_the_blanks_around_them)
{
    static const struct {
        const char *list, *entries;
    } lists[] = {{"a:1,b:2", "|a:1|b:2"},
                 {"a:1, b:2", "|a:1|b:2"},
                 {" a:1 ,\tb:2\n", "|a:1|b:2"},
                 {"a:1,\n  b:2", "|a:1|b:2"},
                 {"a", "|a"},
                 {"", "|"},
                 {"  ", "|"},
                 {",", "||"},
                 {"a, ,b", "|a||b"},
                 {"a,b,", "|a|b|"},
                 {"a b, c d", "|a b|c d"}};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        ck_assert_str_eq(comma_list_entries(lists[i].list, 64), lists[i].entries);
}
END_TEST

START_TEST(a_list_has_as_many_entries_as_its_length_says)
{
    static const char *const lists[] = {"", "a", "a,b", "a, b, c", ",,"};
    char entry[8];

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const char *at = lists[i];
        uint32_t n = 0;

        while (comma_list_next(&at, entry, sizeof entry))
            n++;
        ck_assert_uint_eq(n, comma_list_len(lists[i]));
    }
}
END_TEST

START_TEST(an_entry_that_does_not_fit_is_cut_off)
{
    ck_assert_str_eq(comma_list_entries("abcdef, g", 4), "|abc|g");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("comma_list");
    TCase *t = tcase_create("comma_list");

    tcase_add_test(t, entries_come_without_the_blanks_around_them);
    tcase_add_test(t, a_list_has_as_many_entries_as_its_length_says);
    tcase_add_test(t, an_entry_that_does_not_fit_is_cut_off);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
