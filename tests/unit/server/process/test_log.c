#include "server/process/log.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

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

START_TEST(each_level_has_its_name_and_its_number_in_syslog)
{
    static const struct {
        enum log_level level;
        const char *name, *number;
    } levels[] = {{LOG_LEVEL_ERROR, " error ", "<3>"},
                  {LOG_LEVEL_WARNING, " warning ", "<4>"},
                  {LOG_LEVEL_INFO, " info ", "<6>"},
                  {LOG_LEVEL_DEBUG, " debug ", "<7>"}};
    char line[128];

    for (size_t i = 0; i < 4; i++) {
        line[log_format(line, sizeof line - 1, false, levels[i].level, &when, "text")] = '\0';
        ck_assert_ptr_nonnull(strstr(line, levels[i].name));
        line[log_format(line, sizeof line - 1, true, levels[i].level, &when, "text")] = '\0';
        ck_assert(strncmp(line, levels[i].number, 3) == 0);
    }
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
    tcase_add_test(tc, each_level_has_its_name_and_its_number_in_syslog);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
