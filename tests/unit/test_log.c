#include "server/log.h"

#include <string.h>

#include "check_main.h"

static const struct timespec when = {.tv_sec = 1767268800, .tv_nsec = 123456789}; /* 2026-01-01T12:00:00 */

START_TEST(line_has_time_level_and_words)
{
    char line[256];
    size_t n = log_format(line, sizeof line, false, LOG_LEVEL_WARNING, &when, "worker lapsed job=train task=2");

    ck_assert_str_eq(line, "2026-01-01T12:00:00.123Z warning  worker lapsed job=train task=2\n");
    ck_assert_uint_eq(n, strlen(line));
}
END_TEST

START_TEST(journal_gets_the_level_and_knows_the_time)
{
    char line[256];

    log_format(line, sizeof line, true, LOG_LEVEL_ERROR, &when, "cannot sync");
    ck_assert_str_eq(line, "<3>cannot sync\n");
}
END_TEST

START_TEST(control_characters_cannot_forge_a_line)
{
    char line[256];

    log_format(line, sizeof line, true, LOG_LEVEL_INFO, &when, "peer=a\n<3>forged\x1b[2J\x7f");
    ck_assert_str_eq(line, "<6>peer=a?<3>forged?[2J?\n");
}
END_TEST

START_TEST(long_text_is_cut_and_the_line_still_ends)
{
    char line[64], text[512];
    size_t n;

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    n = log_format(line, sizeof line, false, LOG_LEVEL_INFO, &when, text);
    ck_assert_uint_eq(n, sizeof line - 1);
    ck_assert_int_eq(line[n - 1], '\n');
}
END_TEST

START_TEST(level_names_go_both_ways)
{
    static const enum log_level levels[] = {LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG};
    enum log_level level;

    for (size_t i = 0; i < 4; i++) {
        ck_assert(log_level_parse(log_level_name(levels[i]), &level));
        ck_assert_int_eq(level, levels[i]);
    }
    ck_assert(!log_level_parse("loud", &level));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("log");
    TCase *tc = tcase_create("log");

    tcase_add_test(tc, line_has_time_level_and_words);
    tcase_add_test(tc, journal_gets_the_level_and_knows_the_time);
    tcase_add_test(tc, control_characters_cannot_forge_a_line);
    tcase_add_test(tc, long_text_is_cut_and_the_line_still_ends);
    tcase_add_test(tc, level_names_go_both_ways);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
