/* The error list: numbers that may never change, texts for all of them, and ps_fail(). */
#include "common/include/psclient/ps_err.h"

#include <signal.h>
#include <string.h>

#include "common/core/base/base.h"
#include "common/core/base/utf8.h"
#include "tests/unit/kits/check_main.h"

START_TEST(numbers_are_those_of_the_protocol)
{
    /* Written out once more, on purpose: a renumbered list must fail here. */
    static const char *const names[] = {
        "OK",          "INVALID", "NOMEM",       "TIMEOUT",   "CANCELLED",  "UNREACHABLE", "CLOSED",
        "PROTOCOL",    "VERSION", "CLUSTER",     "NOT_FOUND", "MISMATCH",   "SHAPE",       "NONFINITE",
        "STALE",       "LATE",    "SEQUENCE",    "CLOCK",     "TASK_TAKEN", "FENCED",      "LEASE_LAPSED",
        "STEP_FAILED", "LIMIT",   "FULL",        "IO",        "DRAINING",   "ROLLED_BACK", "UNKNOWN_OUTCOME",
        "CONFIG",      "DATA",    "UNSUPPORTED", "BUSY",      "INTERNAL",
    };

    ck_assert_uint_ge(PS_ERR_COUNT, ARRAY_LEN(names)); /* more may have been added at the end */
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        ck_assert_str_eq(ps_err_name((enum ps_err)i), names[i]);
}
END_TEST

START_TEST(every_code_has_a_name_and_a_sentence_of_its_own)
{
    for (int i = 0; i < PS_ERR_COUNT; i++) {
        ck_assert_str_ne(ps_err_name((enum ps_err)i), "UNKNOWN");
        ck_assert_str_ne(ps_strerror((enum ps_err)i), "unknown error code");
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(ps_strerror((enum ps_err)i), ps_strerror((enum ps_err)j));
    }
}
END_TEST

START_TEST(unknown_numbers_are_named_so)
{
    static const int numbers[] = {-1, PS_ERR_COUNT, 1000000};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        ck_assert_str_eq(ps_err_name((enum ps_err)numbers[i]), "UNKNOWN");
        ck_assert_str_eq(ps_strerror((enum ps_err)numbers[i]), "unknown error code");
    }
}
END_TEST

START_TEST(fail_fills_the_error_and_returns_the_code)
{
    struct ps_error e;

    memset(&e, 'x', sizeof e);
    ck_assert_int_eq(ps_fail(&e, PS_ERR_SHAPE, "%s has %d elements", "w", 3), PS_ERR_SHAPE);
    ck_assert_int_eq(e.code, PS_ERR_SHAPE);
    ck_assert_str_eq(e.text, "w has 3 elements");
    ck_assert_str_eq(e.peer, "");
    ck_assert_int_eq(ps_fail(NULL, PS_ERR_FULL, "nobody %s", "listens"), PS_ERR_FULL);
}
END_TEST

START_TEST(long_text_is_cut_and_terminated)
{
    char text[2 * PS_ERROR_TEXT_MAX];
    struct ps_error e;

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert_int_eq(ps_fail(&e, PS_ERR_INVALID, "%s", text), PS_ERR_INVALID);
    ck_assert_uint_eq(strlen(e.text), PS_ERROR_TEXT_MAX - 1);
}
END_TEST

START_TEST(what_a_quoted_text_hides_is_written_out)
{
    static const struct {
        const char *quoted, *shown;
    } texts[] = {
        {"0\n", "'0\\n'"},
        {"a\r\tb", "'a\\r\\tb'"},
        {"\x01\x7f", "'\\x01\\x7f'"},
        {"\xef\xbb\xbfmemory", "'\\ufeffmemory'"},
        {"1\xc2\xa0"
         "000",
         "'1\\u00a0"
         "000'"},
        {"a\xe2\x80\x8b"
         "b",
         "'a\\u200b"
         "b'"},
        {"caf\xe9", "'caf\\xe9'"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa7", "'caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa7'"},
    };
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        (void)ps_fail(&e, PS_ERR_CONFIG, "'%s'", texts[i].quoted);
        ck_assert_str_eq(e.text, texts[i].shown);
    }
    (void)ps_fail(&e, PS_ERR_CONFIG, "%s, and more", e.text); /* an error may quote the one that it replaces */
    ck_assert_str_eq(e.text, "'caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa7', and more");
}
END_TEST

START_TEST(a_text_is_cut_between_characters)
{
    char text[2 * PS_ERROR_TEXT_MAX];
    struct ps_error e;

    for (size_t before = 0; before < 4; before++) {
        for (size_t i = 0; i < sizeof text - 4; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4);
        memset(text, 'a', 3 * before); /* ends that differ by each number of bytes */
        (void)ps_fail(&e, PS_ERR_INVALID, "%.*s%s", (int)before, "...", text);
        ck_assert_uint_ge(strlen(e.text), PS_ERROR_TEXT_MAX - 4);
        ck_assert_msg(utf8_is_printable(e.text, strlen(e.text)), "%zu: cut within a character", before);
        ck_assert_ptr_null(strstr(e.text, "\\x"));
    }
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)ps_fail(&e, PS_ERR_INVALID, "%s", text);
    ck_assert_uint_eq(strlen(e.text), PS_ERROR_TEXT_MAX - 2); /* 255 times two letters */
}
END_TEST

START_TEST(an_error_is_one_line_that_names_its_peer_once)
{
    struct ps_error e;
    char out[PS_ERROR_LINE_MAX], small[8];

    (void)ps_fail(&e, PS_ERR_TIMEOUT, "waited 5 ms");
    ps_error_format(&e, out, sizeof out);
    ck_assert_str_eq(out, "TIMEOUT: waited 5 ms");
    snprintf(e.peer, sizeof e.peer, "shard 1 at a:1");
    ps_error_format(&e, out, sizeof out);
    ck_assert_str_eq(out, "TIMEOUT: waited 5 ms (shard 1 at a:1)");
    snprintf(e.text, sizeof e.text, "waited 5 ms for shard 1 at a:1: ping");
    ps_error_format(&e, out, sizeof out);
    ck_assert_str_eq(out, "TIMEOUT: waited 5 ms for shard 1 at a:1: ping");
    e.code = PS_OK;
    snprintf(e.text, sizeof e.text, "connected again");
    ps_error_format(&e, out, sizeof out);
    ck_assert_str_eq(out, "connected again (shard 1 at a:1)");
    ps_error_format(&e, small, sizeof small);
    ck_assert_str_eq(small, "connect");
    memset(e.text, 'x', sizeof e.text - 1);
    memset(e.peer, 'y', sizeof e.peer - 1);
    e.text[sizeof e.text - 1] = e.peer[sizeof e.peer - 1] = '\0';
    e.code = PS_ERR_UNKNOWN_OUTCOME;
    ps_error_format(&e, out, sizeof out);
    ck_assert_str_eq(out + strlen(out) - 2, "y)"); /* nothing was cut off */
}
END_TEST

START_TEST(a_true_assertion_does_nothing)
{
    ps_assert(1 + 1 == 2);
}
END_TEST

START_TEST(a_false_assertion_aborts)
{
    volatile int two = 2;

    ps_assert(two == 3);
}
END_TEST

START_TEST(rounding_goes_up_to_the_multiple)
{
    ck_assert_uint_eq(round_up(0, 16), 0);
    ck_assert_uint_eq(round_up(1, 16), 16);
    ck_assert_uint_eq(round_up(16, 16), 16);
    ck_assert_uint_eq(round_up(17, 12), 24);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("ps_err");
    TCase *t = tcase_create("ps_err");

    tcase_add_test(t, numbers_are_those_of_the_protocol);
    tcase_add_test(t, every_code_has_a_name_and_a_sentence_of_its_own);
    tcase_add_test(t, unknown_numbers_are_named_so);
    tcase_add_test(t, fail_fills_the_error_and_returns_the_code);
    tcase_add_test(t, long_text_is_cut_and_terminated);
    tcase_add_test(t, what_a_quoted_text_hides_is_written_out);
    tcase_add_test(t, a_text_is_cut_between_characters);
    tcase_add_test(t, an_error_is_one_line_that_names_its_peer_once);
    tcase_add_test(t, a_true_assertion_does_nothing);
    tcase_add_test(t, rounding_goes_up_to_the_multiple);
    if (getenv("CK_FORK") == NULL || strcmp(getenv("CK_FORK"), "no") != 0)
        tcase_add_test_raise_signal(t, a_false_assertion_aborts, SIGABRT);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
