/* Which peers have to prove what, and where psd may listen. */
#include "server/access/access_policy.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/kits/check_main.h"

#define SECRET "0123456789abcdef"

static char path[64];
static struct access_policy guard;
static struct options options;
static struct ps_error error;
static char gone[256];

static void
write_tokens(const char *text)
{
    FILE *out;

    if (path[0] == '\0') {
        snprintf(path, sizeof path, "/tmp/psd-guard-XXXXXX");
        close(mkstemp(path));
    }
    ck_assert_ptr_nonnull(out = fopen(path, "w"));
    fputs(text, out);
    fclose(out);
    chmod(path, 0600);
}

static void
access_policy_setup(void)
{
    gone[0] = '\0';
    unsetenv("PSD_TOKEN");
    unsetenv("PSD_TOKEN_FILE");
    unsetenv(HTTP_TOKEN_VALUE);
}

static void
access_policy_teardown(void)
{
    access_policy_finish(&guard);
    if (path[0] != '\0')
        unlink(path);
}

static void
open_guard(const char *tokens, const char *users)
{
    if (tokens != NULL)
        write_tokens(tokens);
    options = (struct options){.tokens = tokens != NULL ? path : NULL, .unix_users = users};
    ck_assert_msg(access_policy_open(&guard, &options, &error) == PS_OK, "%s", error.text);
}

static enum access_decision
access_policy_decision(long uid, enum role *role)
{
    struct ucred who = {.uid = (uid_t)uid};

    return access_policy_decide(&guard, uid >= 0 ? &who : NULL, role);
}

#define TCP        (-1L)
#define STRANGER   123456L
#define TOKENS     "a:train:" SECRET "\nb:read:" SECRET "\n"
#define LISTED     "123457:read, 123458"
#define LISTED_UID 123457L

static const struct {
    const char *tokens, *users;
    long uid; /* -2: psd's own */
    enum access_decision way;
    enum role role;
} looks[] = {
    {NULL, NULL, TCP, ACCESS_PASS, ROLE_ADMIN},
    {NULL, NULL, STRANGER, ACCESS_PASS, ROLE_ADMIN}, /* the socket's permissions have let it in */
    {NULL, LISTED, TCP, ACCESS_PASS, ROLE_ADMIN},
    {NULL, LISTED, STRANGER, ACCESS_REFUSE, ROLE_NONE},
    {NULL, LISTED, -2, ACCESS_REFUSE, ROLE_NONE}, /* a list is all of it */
    {NULL, LISTED, LISTED_UID, ACCESS_PASS, ROLE_READ},
    {NULL, LISTED, LISTED_UID + 1, ACCESS_PASS, ROLE_ADMIN},
    {TOKENS, NULL, TCP, ACCESS_DEMAND, ROLE_NONE},
    {TOKENS, NULL, STRANGER, ACCESS_DEMAND, ROLE_NONE},
    {TOKENS, NULL, -2, ACCESS_PASS, ROLE_ADMIN},
    {TOKENS, NULL, 0, ACCESS_PASS, ROLE_ADMIN},
    {TOKENS, LISTED, TCP, ACCESS_DEMAND, ROLE_NONE},
    {TOKENS, LISTED, -2, ACCESS_DEMAND, ROLE_NONE},
    {TOKENS, LISTED, LISTED_UID, ACCESS_PASS, ROLE_READ},
};

START_TEST(who_comes_how_has_to_prove_what)
{
    enum role role = ROLES;

    open_guard(looks[_i].tokens, looks[_i].users);
    ck_assert_int_eq(access_policy_decision(looks[_i].uid == -2 ? (long)geteuid() : looks[_i].uid, &role),
                     looks[_i].way);
    ck_assert_int_eq(role, looks[_i].role);
}
END_TEST

static void
address_of(const char *text, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (void *)out;
    struct sockaddr_in6 *v6 = (void *)out;

    *out = (struct sockaddr_storage){.ss_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET};
    if (out->ss_family == AF_INET)
        ck_assert_int_eq(inet_pton(AF_INET, text, &v4->sin_addr), 1);
    else
        ck_assert_int_eq(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
}

static const struct {
    const char *address;
    bool here;
} places[] = {
    {"127.0.0.1", true},  {"127.255.3.4", true},      {"::1", true},  {"::ffff:127.0.0.1", true},
    {"0.0.0.0", false},   {"192.0.2.1", false},       {"::", false},  {"fe80::1", false},
    {"128.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"::2", false}, {"10.0.0.127", false},
};

START_TEST(beyond_this_machine_somebody_must_prove_something)
{
    struct sockaddr_storage address;

    address_of(places[_i].address, &address);
    open_guard(NULL, LISTED);
    ck_assert(!access_policy_authenticates(&guard));
    ck_assert_int_eq(access_policy_check_address(&guard, &address, "x:7420", &error),
                     places[_i].here ? PS_OK : PS_ERR_CONFIG);
    if (!places[_i].here)
        ck_assert(strstr(error.text, "x:7420") != NULL && strstr(error.text, "--tokens FILE") != NULL &&
                  strstr(error.text, "--insecure") != NULL);
    guard.insecure = true;
    ck_assert_int_eq(access_policy_check_address(&guard, &address, "x:7420", &error), PS_OK);
    options = (struct options){.tls_cert = "cert", .tls_key = "key", .tls_client_ca = "ca"};
    ck_assert_int_eq(access_policy_open(&guard, &options, &error), PS_OK);
    ck_assert_int_eq(access_policy_check_address(&guard, &address, "x:7420", &error), PS_OK);
    open_guard(TOKENS, NULL);
    ck_assert(access_policy_authenticates(&guard));
    ck_assert_int_eq(access_policy_check_address(&guard, &address, "x:7420", &error), PS_OK);
}
END_TEST

START_TEST(http_beyond_this_machine_wants_tokens_of_its_own)
{
    struct sockaddr_storage address;

    address_of(places[_i].address, &address);
    open_guard(TOKENS, NULL); /* the data's tokens do not apply to it */
    ck_assert_int_eq(access_policy_check_http(&guard, &address, "x:9420", &error),
                     places[_i].here ? PS_OK : PS_ERR_CONFIG);
    if (!places[_i].here)
        ck_assert(strstr(error.text, "x:9420") != NULL && strstr(error.text, "--http-tokens FILE") != NULL &&
                  strstr(error.text, "--insecure") != NULL);
    guard.insecure = true;
    ck_assert_int_eq(access_policy_check_http(&guard, &address, "x:9420", &error), PS_OK);
    access_policy_finish(&guard);
    setenv(HTTP_TOKEN_VALUE, "fedcba9876543210", 1);
    open_guard(TOKENS, NULL);
    ck_assert_int_eq(access_policy_check_http(&guard, &address, "x:9420", &error), PS_OK);
    unsetenv(HTTP_TOKEN_VALUE); /* without a restart it stays shut */
    ck_assert_int_eq(access_policy_reload(&guard, &options, NULL, NULL, &error), PS_ERR_CONFIG);
    ck_assert_uint_eq(guard.http.len, 1);
}
END_TEST

static const char *const bad_users[][2] = {
    {"nobody-of-this-name-here", "no user 'nobody-of-this-name-here'"},
    {"1:write", "the role of '1'"},
    {"1:", "the role of '1'"},
    {"1,1:read", "'1' is there twice"},
    {",", "no user in it"},
    {"4294967295", "no user '4294967295'"},
    {"1x", "no user '1x'"},
    {"-1", "no user '-1'"},
};

START_TEST(users_that_are_none_are_refused)
{
    options = (struct options){.unix_users = bad_users[_i][0]};
    ck_assert_int_eq(access_policy_open(&guard, &options, &error), PS_ERR_CONFIG);
    ck_assert_msg(strstr(error.text, bad_users[_i][1]) != NULL, "%s", error.text);
}
END_TEST

START_TEST(users_have_names)
{
    enum role role;

    open_guard(NULL, "root:train");
    ck_assert_int_eq(access_policy_decision(0, &role), ACCESS_PASS);
    ck_assert_int_eq(role, ROLE_TRAIN);
}
END_TEST

static void
note_gone(void *arg, const struct key *key)
{
    (void)arg;
    strcat(gone, key->name);
}

START_TEST(tokens_are_read_again)
{
    open_guard(TOKENS "c:" SECRET "\n", NULL);
    write_tokens("a:train:" SECRET "\nc:read:" SECRET "\nd:" SECRET "\n");
    ck_assert_int_eq(access_policy_reload(&guard, &options, note_gone, NULL, &error), PS_OK);
    ck_assert_str_eq(gone, "bc"); /* left out; another role */
    ck_assert_uint_eq(guard.ring.len, 3);
    ck_assert_ptr_nonnull(keyring_find(&guard.ring, "d"));
}
END_TEST

START_TEST(bad_tokens_change_nothing)
{
    static const char *const texts[] = {"", "a:train:short\n", "b:read:" SECRET "\nb:read:" SECRET "\n"};

    open_guard(TOKENS, NULL);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        write_tokens(texts[i]);
        ck_assert_int_eq(access_policy_reload(&guard, &options, note_gone, NULL, &error), PS_ERR_CONFIG);
        ck_assert(guard.ring.len == 2 && gone[0] == '\0');
    }
    write_tokens(TOKENS);
    chmod(path, 0644);
    ck_assert_int_eq(access_policy_reload(&guard, &options, note_gone, NULL, &error), PS_ERR_CONFIG);
    options.tokens = NULL; /* and the requirement never ends by itself */
    ck_assert_int_eq(access_policy_reload(&guard, &options, note_gone, NULL, &error), PS_ERR_CONFIG);
    ck_assert(guard.ring.len == 2 && gone[0] == '\0');
}
END_TEST

START_TEST(users_are_read_again)
{
    enum role role;

    open_guard(TOKENS, "root:train");
    options.unix_users = "root:read,1001";
    ck_assert_int_eq(access_policy_reload(&guard, &options, note_gone, NULL, &error), PS_OK);
    ck_assert_int_eq(access_policy_decision(1001, &role), ACCESS_PASS);
    options.unix_users = NULL; /* as if it had never been given */
    ck_assert_int_eq(access_policy_reload(&guard, &options, note_gone, NULL, &error), PS_OK);
    ck_assert_int_eq(access_policy_decision(1001, &role), ACCESS_DEMAND);
    ck_assert_str_eq(gone, "");
}
END_TEST

START_TEST(without_users_and_tokens_the_socket_is_not_opened_to_all)
{
    enum role role;

    open_guard(NULL, "1001");
    options.unix_users = NULL;
    ck_assert_int_eq(access_policy_reload(&guard, &options, note_gone, NULL, &error), PS_ERR_CONFIG);
    ck_assert_int_eq(access_policy_decision(1002, &role), ACCESS_REFUSE);
    ck_assert_int_eq(access_policy_decision(1001, &role), ACCESS_PASS);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("guard");
    TCase *t = tcase_create("guard");

    tcase_add_checked_fixture(t, access_policy_setup, access_policy_teardown);
    tcase_add_loop_test(t, who_comes_how_has_to_prove_what, 0, ARRAY_LEN(looks));
    tcase_add_loop_test(t, beyond_this_machine_somebody_must_prove_something, 0, ARRAY_LEN(places));
    tcase_add_loop_test(t, http_beyond_this_machine_wants_tokens_of_its_own, 0, ARRAY_LEN(places));
    tcase_add_loop_test(t, users_that_are_none_are_refused, 0, ARRAY_LEN(bad_users));
    tcase_add_test(t, users_have_names);
    tcase_add_test(t, tokens_are_read_again);
    tcase_add_test(t, bad_tokens_change_nothing);
    tcase_add_test(t, users_are_read_again);
    tcase_add_test(t, without_users_and_tokens_the_socket_is_not_opened_to_all);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
