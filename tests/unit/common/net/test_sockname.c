/* Addresses as people write them, and which of them are this machine's own. */
#include <netinet/in.h>
#include <string.h>
#include <uv.h>

#include "common/core/base/base.h"
#include "common/net/sockname.h"
#include "tests/unit/kits/check_main.h"

static struct sockaddr_storage
address_of(const char *number, int port)
{
    struct sockaddr_storage address = {0};

    ck_assert(uv_ip4_addr(number, port, (struct sockaddr_in *)&address) == 0 ||
              uv_ip6_addr(number, port, (struct sockaddr_in6 *)&address) == 0);
    return address;
}

START_TEST(an_address_is_written_with_its_port)
{
    static const struct {
        const char *number, *text;
    } rows[] = {{"127.0.0.1", "127.0.0.1:7420"}, {"::1", "[::1]:7420"}, {"::ffff:10.0.0.1", "[::ffff:10.0.0.1]:7420"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage address = address_of(rows[i].number, 7420);
        char text[64], cut[8];

        sockname_text(&address, text, sizeof text);
        ck_assert_str_eq(text, rows[i].text);
        sockname_text(&address, cut, sizeof cut);
        ck_assert_int_eq(strncmp(cut, text, sizeof cut - 1), 0);
    }
}
END_TEST

static const struct {
    const char *number;
    bool is_loopback;
} loopback_rows[] = {
    {"127.0.0.1", true},         {"127.255.255.254", true},  {"::1", true},
    {"::ffff:127.0.0.1", true},  {"::ffff:127.8.0.1", true}, {"126.255.255.255", false},
    {"128.0.0.1", false},        {"0.0.0.0", false},         {"::", false},
    {"10.0.0.1", false},         {"fe80::1", false},         {"::2", false},
    {"::ffff:10.0.0.1", false},  {"::127.0.0.1", false},     {"7f00::1", false},
    {"2001:db8::7f00:1", false},
};

START_TEST(only_loopback_is_loopback)
{
    struct sockaddr_storage unix_socket = {.ss_family = AF_UNIX};

    for (size_t i = 0; i < ARRAY_LEN(loopback_rows); i++) {
        struct sockaddr_storage address = address_of(loopback_rows[i].number, 1);

        ck_assert_msg(sockname_is_loopback((struct sockaddr *)&address) == loopback_rows[i].is_loopback, "%s",
                      loopback_rows[i].number);
    }
    ck_assert(!sockname_is_loopback((struct sockaddr *)&unix_socket));
}
END_TEST

START_TEST(a_connection_is_local_from_loopback_or_between_equal_addresses)
{
    static const struct {
        const char *own, *peer;
        bool is_local;
    } rows[] = {
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.9", true},
        {"::1", "::1", true},
        {"::ffff:127.0.0.1", "::ffff:127.0.0.1", true},
        {"10.0.0.5", "10.0.0.5", true},
        {"::ffff:10.0.0.5", "10.0.0.5", true},
        {"2001:db8::5", "2001:db8::5", true},
        {"127.0.0.1", "10.0.0.5", false},
        {"10.0.0.5", "10.0.0.6", false},
        {"2001:db8::5", "2001:db8::6", false},
        {"10.0.0.5", "2001:db8::5", false},
        {"2001:db8::5", "10.0.0.5", false},
        {"::ffff:127.0.0.1", "::ffff:10.0.0.5", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage own = address_of(rows[i].own, 4000), peer = address_of(rows[i].peer, 50000);

        ck_assert_msg(sockname_is_local((struct sockaddr *)&own, (struct sockaddr *)&peer) == rows[i].is_local,
                      "%s to %s", rows[i].peer, rows[i].own);
    }
}
END_TEST

START_TEST(a_host_is_an_ipv4_address_or_a_network_of_ipv6)
{
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {{"10.0.0.1", "10.0.0.1", true},
                {"10.0.0.1", "10.0.0.2", false},
                {"10.0.0.1", "::ffff:10.0.0.1", true},
                {"2001:db8::1", "2001:db8::ffff:2", true},
                {"2001:db8::1", "2001:db8:0:1::1", false}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage a = address_of(rows[i].a, 1), b = address_of(rows[i].b, 2);
        struct sockname_host x = sockname_host((struct sockaddr *)&a), y = sockname_host((struct sockaddr *)&b);

        ck_assert_msg((memcmp(&x, &y, sizeof x) == 0) == rows[i].same, "%s, %s", rows[i].a, rows[i].b);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("sockname");
    TCase *t = tcase_create("sockname");

    tcase_add_test(t, an_address_is_written_with_its_port);
    tcase_add_test(t, only_loopback_is_loopback);
    tcase_add_test(t, a_connection_is_local_from_loopback_or_between_equal_addresses);
    tcase_add_test(t, a_host_is_an_ipv4_address_or_a_network_of_ipv6);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
