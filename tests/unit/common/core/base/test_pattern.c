/* Patterns of names: against a list by hand, and against a plain recursive reference on random ones. */
#include "tests/unit/kits/check_main.h"

#include <string.h>

#include "common/core/base/base.h"
#include "common/core/base/pattern.h"

static const struct pattern_row {
    const char *pattern, *name;
    bool fits;
} rows[] = {
    {"", "", true},
    {"", "a", false},
    {"w", "w", true},
    {"w", "W", false},
    {"w", "ww", false},
    {"*", "", true},
    {"*", "anything/at all", true},
    {"**", "", true},
    {"?", "", false},
    {"?", "a", true},
    {"?", "ab", false},
    {"?*", "", false},
    {"layer*/w", "layer12/w", true},
    {"layer*/w", "layer12/b", false},
    {"layer*/w", "layer/w", true},
    {"*/w", "a/b/w", true},
    {"*a*b", "xxaxxbxxb", true},
    {"*a*b", "xxaxxbxxc", false},
    {"a*b*c", "abcbc", true},
    {"layer[0]", "layer[0]", true}, /* nothing else is special */
    {"layer[0]", "layer0", false},
    {"a\\*", "a\\b", true},
    {"?", "\xc3\xa4", true}, /* one character of two bytes */
    {"??", "\xc3\xa4", false},
    {"*\xa4", "\xc3\xa4", false},
    {"t?r", "t\xf0\x9f\x98\x80r", true},
};

START_TEST(patterns_fit_what_they_should)
{
    const struct pattern_row *row = &rows[_i];

    ck_assert_msg(pattern_matches(row->pattern, row->name) == row->fits, "'%s' and '%s'", row->pattern, row->name);
}
END_TEST

static bool
pattern_reference(const char *pattern, const char *name)
{
    if (*pattern == '\0')
        return *name == '\0';
    if (*pattern == '*')
        return pattern_reference(pattern + 1, name) || (*name != '\0' && pattern_reference(pattern, name + 1));
    return *name != '\0' && (*pattern == '?' || *pattern == *name) && pattern_reference(pattern + 1, name + 1);
}

START_TEST(patterns_agree_with_the_reference)
{
    struct test_rng rng = {test_seed()};
    unsigned fits = 0;

    for (int round = 0; round < 200000; round++) {
        char pattern[9] = "", name[11] = "";
        size_t n = test_below(&rng, sizeof pattern), m = test_below(&rng, sizeof name);

        for (size_t i = 0; i < n; i++)
            pattern[i] = "ab?**"[test_below(&rng, 5)];
        for (size_t i = 0; i < m; i++)
            name[i] = "ab"[test_below(&rng, 2)];
        ck_assert_msg(pattern_matches(pattern, name) == pattern_reference(pattern, name), "'%s' and '%s'", pattern,
                      name);
        fits += pattern_reference(pattern, name);
    }
    ck_assert_uint_gt(fits, 10000);
}
END_TEST

/* A pattern that takes exponential time when every star is tried again. */
START_TEST(many_stars_take_no_time)
{
    char pattern[255], name[256];

    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i < sizeof pattern - 2; i++)
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    strcpy(pattern + sizeof pattern - 3, "*b");
    for (int i = 0; i < 1000; i++)
        ck_assert(!pattern_matches(pattern, name));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("pattern");
    TCase *tc = tcase_create("pattern");

    tcase_add_loop_test(tc, patterns_fit_what_they_should, 0, ARRAY_LEN(rows));
    tcase_add_test(tc, patterns_agree_with_the_reference);
    tcase_add_test(tc, many_stars_take_no_time);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
