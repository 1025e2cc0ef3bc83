#include "common/core/cluster/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "common/core/base/utf8.h"
#include "tests/unit/kits/check_main.h"

struct good {
    const char *text, *host, *path;
    uint16_t port;
};

static const struct good good[] = {
    {"127.0.0.1:4000", "127.0.0.1", "", 4000},   {"node-7.example.org:65535", "node-7.example.org", "", 65535},
    {"localhost:0", "localhost", "", 0},         {"[::1]:22", "::1", "", 22},
    {"[fe80::1%eth0]:9", "fe80::1%eth0", "", 9}, {"unix:/run/psd.sock", "", "/run/psd.sock", 0},
    {"unix:relative", "", "relative", 0},
};

START_TEST(three_forms_are_taken_apart)
{
    const struct good *g = &good[_i];
    struct address a;

    ck_assert_int_eq(address_parse(g->text, &a, NULL), PS_OK);
    ck_assert_str_eq(a.host, g->host);
    ck_assert_str_eq(a.path, g->path);
    ck_assert_uint_eq(a.port, g->port);
    ck_assert(a.is_unix == (g->path[0] != '\0'));
}
END_TEST

/* Text, and what the sentence must say. */
static const char *const bad[][2] = {
    {"", "expected host:port"},
    {"localhost", "expected host:port"},
    {":80", "names no host"},
    {"[]:80", "names no host"},
    {"host:", "port"},
    {"host:http", "port"},
    {"host:65536", "0 to 65535"},
    {"host:000080", "0 to 65535"},
    {"host:-1", "0 to 65535"},
    {"host:80 ", "has a blank in it"},
    {" host:80", "has a blank in it"},
    {"a:1 b:2", "has a blank in it: expected host:port, [v6]:port or unix:/path, several with commas between"},
    {"::1:80", "[v6]:port"},
    {"[::1]80", "[v6]:port"},
    {"[::1", "[v6]:port"},
    {"ho st:80", "has a blank in it"},
    {"ho\x01st:80", "not valid"},
    {"a,b:80", "not valid"},
    {"unix:", "names no path"},
};

START_TEST(a_bad_address_is_refused_with_the_reason)
{
    struct ps_error e = {0};
    struct address a;
    char quoted[64];

    utf8_show(bad[_i][0], quoted, sizeof quoted);
    ck_assert_int_eq(address_parse(bad[_i][0], &a, &e), PS_ERR_INVALID);
    ck_assert_msg(strstr(e.text, bad[_i][1]) != NULL, "'%s' does not say '%s'", e.text, bad[_i][1]);
    ck_assert_msg(strstr(e.text, quoted) != NULL, "'%s' does not quote '%s'", e.text, quoted);
}
END_TEST

START_TEST(lengths_are_bounded)
{
    char text[2000];
    struct address a;

    snprintf(text, sizeof text, "unix:/%0106d", 1);
    ck_assert_int_eq(address_parse(text, &a, NULL), PS_OK);
    snprintf(text, sizeof text, "unix:/%0107d", 1);
    ck_assert_int_eq(address_parse(text, &a, NULL), PS_ERR_INVALID);
    snprintf(text, sizeof text, "%0255d:1", 1);
    ck_assert_int_eq(address_parse(text, &a, NULL), PS_OK);
    snprintf(text, sizeof text, "%0256d:1", 1);
    ck_assert_int_eq(address_parse(text, &a, NULL), PS_ERR_INVALID);
    snprintf(text, sizeof text, "%01500d:1", 1);
    ck_assert_int_eq(address_parse(text, &a, NULL), PS_ERR_INVALID);
}
END_TEST

/* Against the system's own reader: made from pieces of numbers, so that many are right and more are nearly so. */
START_TEST(numbers_are_what_inet_pton_takes)
{
    static const char *const pieces[] = {":",    "::",    ".", "0", "1", "01",  "ff",    "255",     "256", "1.2.3.4",
                                         "fe80", "12345", "g", "%", "",  "0:0", "1:2:3", "a:b:c:d", "10",  "::1"};
    static const char *const whole[] = {"0.0.0.0",
                                        "255.255.255.255",
                                        "::",
                                        "::1",
                                        "1::",
                                        "1:2:3:4:5:6:7:8",
                                        "1:2:3:4:5:6:7::",
                                        "::2:3:4:5:6:7:8",
                                        "1:2:3:4:5:6:1.2.3.4",
                                        "::ffff:1.2.3.4",
                                        "1:2:3:4:5::1.2.3.4",
                                        "1::2::3",
                                        "1:2:3:4:5:6:7",
                                        ":1",
                                        "1:",
                                        "1.2.3",
                                        "1.2.3.4.5",
                                        "1.2.3.4:",
                                        "::1.2.3.4:5",
                                        "1:2:3:4:5:6:7:1.2.3.4",
                                        "::1:2:3:4:5:6:7:8"};
    struct test_rng rng = {test_seed()};
    uint8_t room[16];
    char text[128];

    for (size_t i = 0; i < 200000 + ARRAY_LEN(whole); i++) {
        uint64_t n = 1 + test_below(&rng, 9);
        bool want;

        text[0] = '\0';
        if (i < ARRAY_LEN(whole))
            strcpy(text, whole[i]);
        else
            while (n-- > 0)
                strcat(text, pieces[test_below(&rng, ARRAY_LEN(pieces))]);
        want = inet_pton(AF_INET, text, room) == 1 || inet_pton(AF_INET6, text, room) == 1;
        ck_assert_msg(address_is_number(text) == want, "\"%s\" is %s number", text, want ? "a" : "no");
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("address");
    TCase *t = tcase_create("address");

    tcase_add_loop_test(t, three_forms_are_taken_apart, 0, ARRAY_LEN(good));
    tcase_add_loop_test(t, a_bad_address_is_refused_with_the_reason, 0, ARRAY_LEN(bad));
    tcase_add_test(t, lengths_are_bounded);
    tcase_add_test(t, numbers_are_what_inet_pton_takes);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
