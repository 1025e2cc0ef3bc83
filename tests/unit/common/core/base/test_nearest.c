/* Which name was meant: mistakes of the keyboard are near, other words are not. */
#include "common/core/base/nearest.h"

#include <string.h>

#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

START_TEST(a_distance_counts_letters)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } all[] = {{"", "", 0},         {"", "abc", 3},           {"set", "set", 0},      {"set", "sett", 1},
               {"set", "st", 1},    {"set", "sat", 1},        {"set", "ste", 1},      {"ab", "ba", 1},
               {"abcd", "badc", 2}, {"kitten", "sitting", 3}, {"shards", "sdhars", 2}};

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        ck_assert_uint_eq(nearest_distance(all[i].a, all[i].b), all[i].distance);
        ck_assert_uint_eq(nearest_distance(all[i].b, all[i].a), all[i].distance);
    }
}
END_TEST

static const char *
nearest_meant(const char *word)
{
    static const char *const names[] = {"set",   "status",        "stats",  "shard", "shards",
                                        "bound", "learning_rate", "memory", "top",   "checkpoint"};
    struct nearest n = nearest_to(word);

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        nearest_offer(&n, names[i]);
    return n.name;
}

START_TEST(the_nearest_name_is_the_one_that_was_meant)
{
    static const struct {
        const char *word, *name;
    } all[] = {
        {"ste", "set"},    {"staus", "status"},         {"sahrds", "shards"},    {"lerningrate", "learning_rate"},
        {"mem", "memory"}, {"chekpiont", "checkpoint"}, {"check", "checkpoint"}, {"shads", "shards"},
        {"SET", "set"},    {"lr", "learning_rate"},     {"statsu", "status"},    {"", NULL},
        {"x", NULL},       {"frobnicate", NULL},        {"xyz", NULL},           {"quota", NULL}};
    char longest[200], out[NEAREST_TEXT_MAX];
    struct nearest n;

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        const char *name = nearest_meant(all[i].word);

        ck_assert_msg(name == NULL ? all[i].name == NULL : all[i].name != NULL && strcmp(name, all[i].name) == 0,
                      "%s is taken for %s", all[i].word, name != NULL ? name : "nothing");
    }
    memset(longest, 's', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    ck_assert_ptr_null(nearest_meant(longest));
    n = nearest_to("sets");
    ck_assert_str_eq(nearest_text(&n, "--", out), "");
    nearest_offer(&n, longest);
    nearest_offer(&n, "set");
    ck_assert_str_eq(nearest_text(&n, "--", out), "; did you mean --set?");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("nearest");
    TCase *tc = tcase_create("nearest");

    tcase_add_test(tc, a_distance_counts_letters);
    tcase_add_test(tc, the_nearest_name_is_the_one_that_was_meant);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
