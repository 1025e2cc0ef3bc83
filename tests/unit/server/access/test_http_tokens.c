/* Tokens of HTTP: their form, their sources, and which request headers are accepted. */
#include "server/access/http_tokens.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/process/options.h"
#include "tests/unit/kits/check_main.h"

#define ONE "0123456789abcdef"
#define TWO "fedcba9876543210"

static char path[64];
static struct http_tokens tokens;
static struct keyring apart;
static struct ps_error error;

static void
write_file(const char *text, mode_t mode)
{
    FILE *out;

    if (path[0] == '\0') {
        snprintf(path, sizeof path, "/tmp/psd-http-tokens-XXXXXX");
        close(mkstemp(path));
    }
    chmod(path, 0600);
    ck_assert_ptr_nonnull(out = fopen(path, "w"));
    fputs(text, out);
    fclose(out);
    ck_assert_int_eq(chmod(path, mode), 0);
}

static void
http_tokens_setup(void)
{
    unsetenv(HTTP_TOKEN_VALUE);
    apart = (struct keyring){0};
}

static void
http_tokens_teardown(void)
{
    keyring_finish(&apart);
    unsetenv(HTTP_TOKEN_VALUE);
    if (path[0] != '\0')
        unlink(path);
    path[0] = '\0';
}

static void
read_well(const char *text)
{
    write_file(text, 0600);
    ck_assert_msg(http_tokens_read(&tokens, path, &apart, &error) == PS_OK, "%s", error.text);
}

START_TEST(without_tokens_whoever_comes_may_look)
{
    ck_assert_int_eq(http_tokens_read(&tokens, NULL, &apart, &error), PS_OK);
    ck_assert_uint_eq(tokens.len, 0);
    ck_assert_int_eq(http_tokens_look(&tokens, NULL), HTTP_PASS);
    ck_assert_int_eq(http_tokens_look(&tokens, "Bearer anything"), HTTP_PASS);
    setenv(HTTP_TOKEN_VALUE, "", 1);
    ck_assert_int_eq(http_tokens_read(&tokens, NULL, &apart, &error), PS_OK);
    ck_assert_uint_eq(tokens.len, 0);
}
END_TEST

static const struct {
    const char *header;
    enum http_pass pass;
} headers[] = {
    {"Bearer " ONE, HTTP_PASS},
    {"bearer  " TWO, HTTP_PASS},
    {NULL, HTTP_PASS_MISSING},
    {"", HTTP_PASS_MISSING},
    {"Bearer", HTTP_PASS_MISSING},
    {"Bearer" ONE, HTTP_PASS_MISSING},
    {"Basic " ONE, HTTP_PASS_MISSING},
    {ONE, HTTP_PASS_MISSING},
    {"Bearer ", HTTP_PASS_WRONG},
    {"Bearer 0123456789abcde", HTTP_PASS_WRONG},
    {"Bearer " ONE "0", HTTP_PASS_WRONG},
    {"Bearer " ONE " ", HTTP_PASS_WRONG},
    {"Bearer " ONE TWO, HTTP_PASS_WRONG},
    {"Bearer 0123456789abcdeF", HTTP_PASS_WRONG},
    {"Bearer # comment", HTTP_PASS_WRONG},
};

START_TEST(a_header_is_worth_its_token)
{
    read_well("# of Prometheus\n" ONE "\n\n  " TWO "\t# of somebody\r\n");
    ck_assert_uint_eq(tokens.len, 2);
    ck_assert_int_eq(http_tokens_look(&tokens, headers[_i].header), headers[_i].pass);
}
END_TEST

START_TEST(the_environment_has_one)
{
    setenv(HTTP_TOKEN_VALUE, ONE, 1);
    ck_assert_int_eq(http_tokens_read(&tokens, NULL, &apart, &error), PS_OK);
    ck_assert_int_eq(http_tokens_look(&tokens, "Bearer " ONE), HTTP_PASS);
    read_well(TWO); /* without an end; and the file comes before it */
    ck_assert_int_eq(http_tokens_look(&tokens, "Bearer " ONE), HTTP_PASS_WRONG);
    ck_assert_int_eq(http_tokens_look(&tokens, "Bearer " TWO), HTTP_PASS);
}
END_TEST

START_TEST(nothing_of_a_token_is_kept)
{
    read_well(ONE "\n");
    ck_assert_ptr_null(memmem(&tokens, sizeof tokens, ONE, strlen(ONE)));
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"", ": there is no token in it"},
    {"# nothing\n \n", ": there is no token in it"},
    {ONE "\nshort\n", ":2: a token of HTTP has 16 to 256"},
    {"a:read:" ONE "\n", ":1: a token of HTTP"},
    {"two words of one\n", ":1: a token of HTTP"},
    {"0123456789abcd\xc3\xa9\n", ":1: a token of HTTP"},
    {"x\n0123456789abcdefghij\n", ":1: a token of HTTP"},
    {TWO "\nthe-data-port-secret\n", ":2: this is the secret of token 'w' of --tokens"},
};

START_TEST(what_is_no_token_is_refused_by_line)
{
    static const char ring[] = "r:read:another-secret-16\nw:train:the-data-port-secret\n";

    ck_assert_int_eq(keyring_parse(&apart, "ring", ring, strlen(ring), &error), PS_OK);
    write_file(bad[_i].text, 0600);
    ck_assert_int_eq(http_tokens_read(&tokens, path, &apart, &error), PS_ERR_CONFIG);
    ck_assert_msg(strstr(error.text, bad[_i].says) != NULL, "%s", error.text);
    ck_assert_ptr_null(strstr(error.text, "the-data-port-secret"));
    write_file(ONE "\n", 0604); /* and a file that others may read */
    ck_assert_int_eq(http_tokens_read(&tokens, path, &apart, &error), PS_ERR_CONFIG);
}
END_TEST

START_TEST(there_are_only_so_many)
{
    char text[(HTTP_TOKENS_MAX + 1) * 20] = "";

    for (int i = 0; i < HTTP_TOKENS_MAX; i++)
        sprintf(text + strlen(text), "%018d\n", i);
    read_well(text);
    ck_assert_int_eq(http_tokens_look(&tokens, "Bearer 000000000000000063"), HTTP_PASS);
    strcat(text, ONE);
    write_file(text, 0600);
    ck_assert_int_eq(http_tokens_read(&tokens, path, &apart, &error), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.text, ":65: more than 64"));
}
END_TEST

/* Headers of random bytes are not accepted. */
START_TEST(garbage_opens_nothing)
{
    struct test_rng rng = {test_seed()};
    char header[80];

    read_well(ONE "\n" TWO "\n");
    for (int i = 0; i < 20000; i++) {
        size_t n = test_below(&rng, sizeof header);

        snprintf(header, sizeof header, "Bearer %s", i % 2 == 0 ? ONE : TWO);
        for (size_t j = 0; j < 1 + test_below(&rng, 3); j++)
            header[7 + test_below(&rng, 16)] ^= (char)(1 + test_below(&rng, 127));
        if (i % 3 == 0) {
            for (size_t j = 0; j + 1 < n; j++)
                header[j] = (char)test_rand(&rng);
            header[MAX(n, 1) - 1] = '\0';
        }
        if (strcmp(header, "Bearer " ONE) != 0 && strcmp(header, "Bearer " TWO) != 0)
            ck_assert_int_ne(http_tokens_look(&tokens, header), HTTP_PASS);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("http_tokens");
    TCase *t = tcase_create("http_tokens");

    tcase_add_checked_fixture(t, http_tokens_setup, http_tokens_teardown);
    tcase_add_test(t, without_tokens_whoever_comes_may_look);
    tcase_add_loop_test(t, a_header_is_worth_its_token, 0, (int)ARRAY_LEN(headers));
    tcase_add_test(t, the_environment_has_one);
    tcase_add_test(t, nothing_of_a_token_is_kept);
    tcase_add_loop_test(t, what_is_no_token_is_refused_by_line, 0, (int)ARRAY_LEN(bad));
    tcase_add_test(t, there_are_only_so_many);
    tcase_add_test(t, garbage_opens_nothing);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
