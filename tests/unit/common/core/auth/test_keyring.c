/* Tokens as files and variables of the environment have them. */
#include "common/core/auth/keyring.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

#define SECRET "0123456789abcdef"

static struct ps_error error;
static struct keyring ring;

static enum ps_err
keyring_parse_text(const char *text)
{
    keyring_finish(&ring);
    return keyring_parse(&ring, "tokens", text, strlen(text), &error);
}

START_TEST(tokens_come_one_a_line)
{
    const struct key *k;

    ck_assert_int_eq(keyring_parse_text("# who may what\n\n  ops:" SECRET "  # the operators\r\nwatch:read:" SECRET
                                        "x\n"
                                        "job-7.a_B:train:" SECRET "/+=!\nroot:admin:" SECRET),
                     PS_OK);
    ck_assert_uint_eq(ring.len, 4);
    ck_assert_int_eq(keyring_find(&ring, "ops")->role, ROLE_ADMIN);
    ck_assert_int_eq(keyring_find(&ring, "watch")->role, ROLE_READ);
    ck_assert_int_eq(keyring_find(&ring, "root")->role, ROLE_ADMIN);
    k = keyring_find(&ring, "job-7.a_B");
    ck_assert(k->role == ROLE_TRAIN && k->secret_len == 20 && memcmp(k->secret, SECRET "/+=!", 20) == 0);
    ck_assert_ptr_null(keyring_find(&ring, "OPS"));
    ck_assert_ptr_null(keyring_find(&ring, ""));
}
END_TEST

static const char *const bad[][2] = {
    {"", "no token"},
    {"# only words\n\n", "no token"},
    {SECRET, "name:role:secret"},
    {":" SECRET, "name"},
    {"a b:" SECRET, "name"},
    {"a/b:" SECRET, "name"},
    {"0123456789012345678901234567890123456789012345678901234567890123:" SECRET, "1 to 63"},
    {"a:write:" SECRET, "none of read, train and admin"},
    {"a:Read:" SECRET, "none of read, train and admin; did you mean read?"},
    {"a:trian:" SECRET, "; did you mean train?"},
    {"a::" SECRET, "none of read"},
    {"a:read:" SECRET ":more", "printable"},
    {"a:read:", "has 0 characters"},
    {"a:0123456789abcde", "has 15 characters; it has 16 to 256"},
    {"a:read:0123456789 abcdef", "without blanks"},
    {"a:read:0123456789\tabcdef", "without blanks"},
    {"a:read:0123456789\xc3\xa4 abcdef", "printable"},
    {"a:" SECRET "\na:read:" SECRET, "tokens:2: there are two tokens called 'a'"},
    {"a:" SECRET "\n\nb", "tokens:3: "},
};

START_TEST(what_is_none_is_refused_with_its_line)
{
    ck_assert_int_eq(keyring_parse_text(bad[_i][0]), PS_ERR_CONFIG);
    ck_assert_msg(strstr(error.text, bad[_i][1]) != NULL, "'%s' does not say '%s'", error.text, bad[_i][1]);
    ck_assert_msg(strstr(error.text, "abcde") == NULL, "'%s' tells a secret", error.text);
    ck_assert(ring.keys == NULL && ring.len == 0);
}
END_TEST

/* A comment that ends in CR alone must not take the tokens after it along. */
START_TEST(files_of_other_systems_have_the_same_tokens)
{
    static const char *const files[] = {
        "# who\na:" SECRET "\nb:read:" SECRET "\n",
        "# who\r\na:" SECRET "\r\nb:read:" SECRET "\r\n",
        "# who\ra:" SECRET "\rb:read:" SECRET,
        "\xef\xbb\xbf# who\r\na:" SECRET "\r\nb:read:" SECRET,
        "\357\273\277a:" SECRET "\nb:read:" SECRET "  # a reader",
    };

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        ck_assert_msg(keyring_parse_text(files[i]) == PS_OK, "%zu: %s", i, error.text);
        ck_assert_uint_eq(ring.len, 2);
        ck_assert_uint_eq(keyring_find(&ring, "a")->secret_len, strlen(SECRET));
        ck_assert_int_eq(keyring_find(&ring, "b")->role, ROLE_READ);
    }
    keyring_finish(&ring);
    ck_assert_int_eq(keyring_parse(&ring, "tokens",
                                   "\xff\xfe"
                                   "a\0:\0",
                                   6, &error),
                     PS_ERR_CONFIG);
    ck_assert_str_eq(error.text, "tokens is text in UTF-16: save it as UTF-8");
}
END_TEST

START_TEST(a_value_of_the_environment_may_end_as_a_line_does)
{
    static const char *const values[] = {"a:" SECRET, "a:" SECRET "\n", " a:" SECRET "\r\n", "\357\273\277a:" SECRET};

    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        const char *text = values[i];
        size_t n = keyring_strip_value(&text, strlen(text));

        ck_assert(n == strlen("a:" SECRET) && memcmp(text, "a:" SECRET, n) == 0);
    }
}
END_TEST

START_TEST(a_nul_is_no_end)
{
    static const char name[] = "a\0b:" SECRET, secret[] = "a:" SECRET "\0x";

    ck_assert_int_eq(keyring_parse(&ring, "tokens", name, sizeof name - 1, &error), PS_ERR_CONFIG);
    ck_assert_int_eq(keyring_parse(&ring, "tokens", secret, sizeof secret - 1, &error), PS_ERR_CONFIG);
}
END_TEST

START_TEST(secrets_and_files_have_limits)
{
    char line[KEYRING_SECRET_MAX + 8] = "a:", *all = malloc(64 * (KEYRING_KEYS_MAX + 1)), *at = all;
    char *much = malloc(KEYRING_TEXT_MAX + 1);
    struct key k;

    memset(line + 2, 'x', KEYRING_SECRET_MAX + 1);
    ck_assert_int_eq(key_parse(&k, "PSD_TOKEN", line, KEYRING_SECRET_MAX + 3, &error), PS_ERR_CONFIG);
    ck_assert_int_eq(key_parse(&k, "PSD_TOKEN", line, KEYRING_SECRET_MAX + 2, &error), PS_OK);
    ck_assert_uint_eq(k.secret_len, KEYRING_SECRET_MAX);
    for (int i = 0; i <= KEYRING_KEYS_MAX; i++) {
        if (i == KEYRING_KEYS_MAX)
            ck_assert_int_eq(keyring_parse(&ring, "tokens", all, (size_t)(at - all), &error), PS_OK);
        at += sprintf(at, "k%d:" SECRET "\n", i);
    }
    ck_assert_uint_eq(ring.len, KEYRING_KEYS_MAX);
    ck_assert_ptr_nonnull(keyring_find(&ring, "k1023"));
    keyring_finish(&ring);
    ck_assert_int_eq(keyring_parse(&ring, "tokens", all, (size_t)(at - all), &error), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.text, "more than 1024"));
    memset(much, '#', KEYRING_TEXT_MAX + 1);
    ck_assert_int_eq(keyring_parse(&ring, "tokens", much, KEYRING_TEXT_MAX + 1, &error), PS_ERR_CONFIG);
    free(much);
    free(all);
}
END_TEST

START_TEST(keys_are_alike_in_all_or_not)
{
    static const char *const others[] = {"b:read:" SECRET, "a:train:" SECRET, "a:read:" SECRET "x",
                                         "a:read:0123456789abcdeF"};
    struct key a, b;

    ck_assert_int_eq(key_parse(&a, "t", "a:read:" SECRET, strlen("a:read:" SECRET), &error), PS_OK);
    b = a;
    ck_assert(key_equal(&a, &b));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        ck_assert_int_eq(key_parse(&b, "t", others[i], strlen(others[i]), &error), PS_OK);
        ck_assert(!key_equal(&a, &b));
    }
    key_finish(&a);
    ck_assert(a.name[0] == '\0' && a.secret[0] == 0 && a.secret_len == 0);
}
END_TEST

START_TEST(roles_have_names)
{
    for (int i = ROLE_READ; i < ROLES; i++)
        ck_assert_int_eq(role_of(role_name((enum role)i), strlen(role_name((enum role)i))), i);
    ck_assert_int_eq(role_of("nothing", 7), ROLE_NONE);
    ck_assert_int_eq(role_of("reader", 4), ROLE_READ);
    ck_assert_int_eq(role_of("", 0), ROLE_NONE);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("keyring");
    TCase *t = tcase_create("keyring");

    tcase_add_test(t, tokens_come_one_a_line);
    tcase_add_loop_test(t, what_is_none_is_refused_with_its_line, 0, ARRAY_LEN(bad));
    tcase_add_test(t, files_of_other_systems_have_the_same_tokens);
    tcase_add_test(t, a_value_of_the_environment_may_end_as_a_line_does);
    tcase_add_test(t, a_nul_is_no_end);
    tcase_add_test(t, secrets_and_files_have_limits);
    tcase_add_test(t, keys_are_alike_in_all_or_not);
    tcase_add_test(t, roles_have_names);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
