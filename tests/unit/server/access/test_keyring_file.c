/* Tokens from files and the environment, as psd and its clients find them. */
#include "server/access/keyring_file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/system/token.h"
#include "tests/unit/kits/check_main.h"

#define SECRET "0123456789abcdef"

static char path[64];
static struct ps_error error;
static struct keyring ring;
static struct key key;
static bool has;

static void
write_file(const char *text, mode_t mode)
{
    int fd;

    snprintf(path, sizeof path, "/tmp/psd-tokens-XXXXXX");
    ck_assert_int_ge(fd = mkstemp(path), 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void
keyring_file_setup(void)
{
    unsetenv(TOKEN_VALUE);
    unsetenv(TOKEN_FILE);
}

static void
keyring_file_teardown(void)
{
    keyring_finish(&ring);
    if (path[0] != '\0')
        unlink(path);
}

#define SAYS(fragment)                                                                                                 \
    ck_assert_msg(strstr(error.text, fragment) != NULL, "\"%s\" does not say \"%s\"", error.text, fragment)

START_TEST(a_file_is_read)
{
    static const mode_t modes[] = {0600, 0400, 0640, 0440};

    write_file("a:read:" SECRET "\nb:" SECRET "\n", modes[_i]);
    ck_assert_int_eq(keyring_file_read(&ring, path, &error), PS_OK);
    ck_assert_uint_eq(ring.len, 2);
    ck_assert_int_eq(token_read(&key, path, &error), PS_OK);
    ck_assert_str_eq(key.name, "a");
}
END_TEST

START_TEST(a_value_with_a_lines_end_is_that_token)
{
    setenv(TOKEN_VALUE, "a:" SECRET "\r\n", 1); /* as a secret of Kubernetes or a file of docker --env-file has it */
    ck_assert_msg(token_find(&key, &has, NULL, &error) == PS_OK, "%s", error.text);
    ck_assert(has && key.secret_len == strlen(SECRET));
    setenv(TOKEN_VALUE, "a:" SECRET "\n" SECRET, 1);
    ck_assert_int_eq(token_find(&key, &has, NULL, &error), PS_ERR_CONFIG);
}
END_TEST

START_TEST(one_that_others_may_use_is_refused)
{
    static const mode_t modes[] = {0644, 0604, 0602, 0601, 0660, 0620};

    write_file("a:" SECRET "\n", modes[_i]);
    ck_assert_int_eq(keyring_file_read(&ring, path, &error), PS_ERR_CONFIG);
    SAYS("chmod");
    SAYS(path);
    ck_assert_int_eq(token_read(&key, path, &error), PS_ERR_CONFIG);
}
END_TEST

START_TEST(what_is_no_file_of_tokens_is_refused)
{
    ck_assert_int_eq(keyring_file_read(&ring, "/nowhere/tokens", &error), PS_ERR_CONFIG);
    SAYS("/nowhere/tokens: No such file");
    ck_assert_int_eq(keyring_file_read(&ring, "/proc", &error), PS_ERR_CONFIG);
    SAYS("not a regular file");
    write_file("a:" SECRET "\nb:short\n", 0600);
    ck_assert_int_eq(keyring_file_read(&ring, path, &error), PS_ERR_CONFIG);
    SAYS(":2: ");
    ck_assert_int_eq(truncate(path, KEYRING_TEXT_MAX + 2), 0);
    ck_assert_int_eq(keyring_file_read(&ring, path, &error), PS_ERR_CONFIG);
    SAYS("at most");
}
END_TEST

START_TEST(without_a_file_the_environment_has_one_or_none)
{
    ck_assert_int_eq(keyring_file_read(&ring, NULL, &error), PS_OK);
    ck_assert_uint_eq(ring.len, 0);
    write_file("file:train:" SECRET "\n", 0600);
    setenv(TOKEN_FILE, path, 1);
    ck_assert_int_eq(keyring_file_read(&ring, NULL, &error), PS_OK);
    ck_assert_uint_eq(ring.len, 1);
    ck_assert_str_eq(ring.keys[0].name, "file");
    keyring_finish(&ring);
    setenv(TOKEN_VALUE, "value:" SECRET, 1); /* the nearer source wins */
    ck_assert_int_eq(keyring_file_read(&ring, NULL, &error), PS_OK);
    ck_assert_str_eq(ring.keys[0].name, "value");
    ck_assert_int_eq(ring.keys[0].role, ROLE_ADMIN);
}
END_TEST

START_TEST(a_client_says_its_token_or_that_it_has_none)
{
    setenv(TOKEN_VALUE, "value:" SECRET, 1);
    ck_assert_int_eq(token_find(&key, &has, NULL, &error), PS_OK);
    ck_assert(has && strcmp(key.name, "value") == 0);
    setenv(TOKEN_VALUE, "value:" SECRET "\n", 1); /* as a Secret has it */
    ck_assert_int_eq(token_find(&key, &has, NULL, &error), PS_OK);
    ck_assert(has && strcmp(key.name, "value") == 0);
    ck_assert_int_eq(token_find(&key, &has, "own:" SECRET, &error), PS_OK);
    ck_assert(has && strcmp(key.name, "own") == 0);
    ck_assert_int_eq(token_find(&key, &has, "", &error), PS_OK);
    ck_assert(!has);
    ck_assert_int_eq(token_find(&key, &has, "own", &error), PS_ERR_CONFIG);
    SAYS("the option token: a token is");
    ck_assert(!has);
    setenv(TOKEN_VALUE, "", 1);
    setenv(TOKEN_FILE, "/nowhere", 1);
    ck_assert_int_eq(token_find(&key, &has, NULL, &error), PS_OK); /* an empty value is a word, too */
    ck_assert(!has);
    unsetenv(TOKEN_VALUE);
    ck_assert_int_eq(token_find(&key, &has, NULL, &error), PS_ERR_CONFIG);
    SAYS("PSD_TOKEN_FILE: cannot read /nowhere: ");
    ck_assert_int_eq(token_read(&key, "/nowhere", &error), PS_ERR_CONFIG); /* one that an option names */
    ck_assert_ptr_null(strstr(error.text, "PSD_TOKEN_FILE"));
    write_file("no token\n", 0600);
    setenv(TOKEN_FILE, path, 1);
    ck_assert_int_eq(keyring_file_read(&ring, NULL, &error), PS_ERR_CONFIG);
    SAYS("PSD_TOKEN_FILE: ");
    SAYS("a token is name:role:secret");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("keyring_file");
    TCase *t = tcase_create("keyring_file");

    tcase_add_checked_fixture(t, keyring_file_setup, keyring_file_teardown);
    tcase_add_loop_test(t, a_file_is_read, 0, 4);
    tcase_add_test(t, a_value_with_a_lines_end_is_that_token);
    tcase_add_loop_test(t, one_that_others_may_use_is_refused, 0, 6);
    tcase_add_test(t, what_is_no_file_of_tokens_is_refused);
    tcase_add_test(t, without_a_file_the_environment_has_one_or_none);
    tcase_add_test(t, a_client_says_its_token_or_that_it_has_none);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
