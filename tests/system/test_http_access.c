/* HTTP requests to a real psd, and connections that its wire port refuses: without a token nothing is revealed, not
 * even a name; and failures on both ports are counted by reason. */
#include <arpa/inet.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "server/access/access_attempts.h"
#include "server/http/http.h"
#include "tests/certs.h"
#include "tests/exposition_page.h"
#include "tests/now.h"
#include "tests/system/http_client.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/system/wait_for.h"
#include "tests/unit/kits/check_main.h"

#define TOKEN    "0123456789abcdef0123"
#define NEWER    "abcdefghijklmnopqrst"
#define VARIABLE "hidden-variable"

static struct certs certs;
static struct shards shards;
static char address[64];
static struct http_reply reply;

#define WAIT_FOR(condition) WAIT_FOR_LOGGED(condition, shards_log(&shards, 0))

static void
write_tokens(const char *text)
{
    certs_write(&certs, "tokens", text);
    ck_assert_int_eq(chmod(certs_path(&certs, "tokens"), 0600), 0);
}

/* psd with a variable and a worker, and these options. */
static void
http_access_start(const char *const *more)
{
    shards_start_with(&shards, 1, &(struct shards_options){.more = more, .log = true});
    ck_assert_msg(http_client_find(shards_log(&shards, 0), address, sizeof address), "%s", shards_log(&shards, 0));
}

#define START(...)                                                                                                     \
    http_access_start((const char *const[]){"--cluster", "psd", "--log-level", "info", "--http", "127.0.0.1:0",        \
                                            ##__VA_ARGS__, NULL})

static void
http_access_setup(void)
{
    reply.head = NULL;
    unsetenv("PSD_HTTP_TOKEN");
    certs_open(&certs);
    write_tokens(TOKEN "\n");
}

static void
http_access_teardown(void)
{
    http_reply_free(&reply);
    shards_stop(&shards);
    certs_close(&certs);
}

static int
http_access_ask(const char *request, const char *header)
{
    http_reply_free(&reply);
    reply = http_client_ask_with(address, request, header);
    return reply.status;
}

/* With these headers and no others. */
static int
http_access_send(const char *headers, const char *path)
{
    char text[256];
    int len = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n%s\r\n\r\n", path, headers);
    int fd = http_client_connect(address);

    ck_assert_int_ge(fd, 0);
    http_client_send(fd, text, (size_t)len);
    http_reply_free(&reply);
    reply = http_client_read(fd);
    return reply.status;
}

static double
http_access_figure(const char *series)
{
    ck_assert_int_eq(http_access_ask("GET /metrics", "Authorization: Bearer " TOKEN), 200);
    return page_value(reply.body, series);
}

#define EXPECT(series, value)                                                                                          \
    do {                                                                                                               \
        double says = http_access_figure(series);                                                                      \
        ck_assert_msg(says == (value), "%s is %g", series, says);                                                      \
    } while (0)

static void
tells_no_names(void)
{
    static const char *const names[] = {VARIABLE, "\"job\"", "psd_", "cluster", "worker", TOKEN, "boot"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        ck_assert_msg(strstr(reply.body, names[i]) == NULL && strstr(reply.head, names[i]) == NULL, "%s: %s", names[i],
                      reply.body);
}

static void
http_access_train(struct probe *p)
{
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    ck_assert(probe_connect(p, shards.address[0]));
    ck_assert(probe_hello(p, 0, 1, false));
    var = probe_declare(p, VARIABLE, 4);
    ck_assert_uint_eq(probe_push(p, var, 0, g, 4), PS_OK);
}

/* ---- Other sites ---- */

static const char *const secrets[] = {"/metrics", ("/metrics?token=" TOKEN), "/api/live", "/api/history", "/api/trace"};

static const struct {
    const char *header;
    int status;
} hosts[] = {
    {"Host: 127.0.0.1:9420", 200},
    {"Host: [::1]:9420", 200},
    {"Host: [::1]", 200},
    {"Host: LocalHost", 200},
    {"Host: psd.localhost:9420", 200},
    {"Host: ps0.example:9420", 200}, /* in --http-shards */
    {"Host: ps0.example", 421},
    {"Host: ps0.example:9421", 421},
    {"Host: evil.example", 421},
    {"Host: 127.0.0.1.evil.example:9420", 421},
    {"Host: notlocalhost", 421},
    {"Host: localhost.evil.example", 421},
    {"Host: ", 421},
};

/* Its name resolves to this machine, so that a browser here asks psd in its name, and lets it read the answer. */
START_TEST(a_page_of_another_site_reads_nothing)
{
    struct probe p;

    START("--http-shards", "ps0.example:9420");
    http_access_train(&p);
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        for (size_t j = 0; j < ARRAY_LEN(secrets); j++) {
            ck_assert_msg(http_access_send(hosts[i].header, secrets[j]) == hosts[i].status, "%s of %s: %d", secrets[j],
                          hosts[i].header, reply.status);
            if (reply.status != 200)
                tells_no_names();
        }
    probe_close(&p);
}
END_TEST

/* With a token it knows who asks, in whatever name. */
START_TEST(with_a_token_any_name_is_answered)
{
    START("--http-tokens", certs_path(&certs, "tokens"));
    ck_assert_int_eq(http_access_send("Host: evil.example\r\nAuthorization: Bearer " TOKEN, "/metrics"), 200);
    ck_assert_int_eq(http_access_send("Host: evil.example", "/metrics"), 401);
}
END_TEST

/* ---- Over HTTP ---- */

static void
http_access_denied_says(const char *request, const char *header, const char *text)
{
    ck_assert_int_eq(http_access_ask(request, header), 401);
    ck_assert_msg(strstr(reply.body, text) != NULL, "\"%s\" does not say \"%s\"", reply.body, text);
}

START_TEST(intruders_get_nothing)
{
    static const char *const headers[] = {"",
                                          "Authorization:",
                                          "Authorization: Bearer",
                                          "Authorization: Bearer ",
                                          "Authorization: Bearer " NEWER,
                                          "Authorization: Bearer 0123456789abcdef012",
                                          "Authorization: Bearer " TOKEN "4",
                                          "Authorization: Basic " TOKEN,
                                          "Authorization: " TOKEN,
                                          "Proxy-Authorization: Bearer " TOKEN,
                                          "Cookie: token=" TOKEN,
                                          "X-Forwarded-For: 127.0.0.1"};
    struct probe p;
    char request[64];

    START("--http-tokens", certs_path(&certs, "tokens"));
    http_access_train(&p);
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        for (size_t j = 0; j < ARRAY_LEN(headers); j++)
            for (int head = 0; head < 2; head++) {
                snprintf(request, sizeof request, "%s %s", head ? "HEAD" : "GET", secrets[i]);
                ck_assert_msg(http_access_ask(request, headers[j]) == 401, "%s with '%s': %d", request, headers[j],
                              reply.status);
                ck_assert_ptr_nonnull(strstr(reply.head, "WWW-Authenticate: Bearer"));
                tells_no_names();
            }
    ck_assert_int_eq(http_access_ask("POST /metrics", ""), 405);
    http_access_denied_says("GET /metrics", "",
                            "the request has no token: \"Authorization: Bearer TOKEN\" is needed, with one of");
    http_access_denied_says("GET /metrics?token=" TOKEN, "", "a token in the address, where logs keep it, is not read");
    http_access_denied_says("GET /metrics", "Authorization: Basic " TOKEN,
                            "the request's Authorization is no \"Bearer TOKEN\"");
    http_access_denied_says("GET /metrics", "Authorization: Bearer " NEWER,
                            "the request's token is none of those that this shard");
    http_access_denied_says("GET /metrics", "", "/, /healthz and /readyz need none");
    ck_assert_int_eq(http_access_ask("GET /nothing", ""), 404);
    tells_no_names();
    EXPECT("psd_http_denied_total{reason=\"wrong\"}", 2 * 4 * (double)ARRAY_LEN(secrets) + 1);
    EXPECT("psd_http_denied_total{reason=\"missing\"}", 2 * 8 * (double)ARRAY_LEN(secrets) + 4);
    EXPECT("psd_variable_pushes_total{job_name=\"job\",variable=\"" VARIABLE "\"}", 1);
    probe_close(&p);
}
END_TEST

/* A request with this token is on its way. */
static int
http_access_try(const char *token)
{
    char text[256];
    int len =
        snprintf(text, sizeof text, "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token);
    int fd = http_client_connect(address);

    ck_assert_int_ge(fd, 0);
    http_client_send(fd, text, (size_t)len);
    return fd;
}

/* Health is told at once, and the right token is answered, if later. */
START_TEST(who_guesses_at_tokens_waits_longer_each_time)
{
    enum { SLOW = 4, CROWD = HTTP_HELD_MAX + 3 };
    int fds[CROWD], refused = 0;
    double began;

    START("--http-tokens", certs_path(&certs, "tokens"));
    for (int i = 0; i <= HTTP_WRONG_FREE; i++)
        ck_assert_int_eq(http_access_ask("GET /metrics", "Authorization: Bearer " NEWER), 401);
    began = now_s();
    for (int i = 0; i < SLOW; i++)
        ck_assert_int_eq(http_access_ask("GET /metrics", "Authorization: Bearer " NEWER), 401);
    ck_assert_double_ge(now_s() - began, (1 + 2 + 4 + 8) * ACCESS_ATTEMPTS_HOLD_MS / 1000.0);
    for (int i = 0; i < CROWD; i++)
        fds[i] = http_access_try(NEWER);
    ck_assert_int_eq(http_access_ask("GET /healthz", ""), 200);
    for (int i = CROWD - 1; i >= 0; i--) {
        http_reply_free(&reply);
        reply = http_client_read(fds[i]);
        refused += reply.status == 429;
        ck_assert(reply.status == 429 || reply.status == 401);
    }
    ck_assert_int_eq(refused, CROWD - HTTP_HELD_MAX);
    ck_assert_int_eq(http_access_ask("GET /metrics", "Authorization: Bearer " TOKEN), 200);
}
END_TEST

START_TEST(probes_and_the_empty_page_stay_open)
{
    static const char *const open[] = {"GET /healthz", "GET /readyz", "GET /page.css", "GET /icon.svg"};
    struct probe p;

    START("--http-tokens", certs_path(&certs, "tokens"));
    http_access_train(&p);
    for (size_t i = 0; i < ARRAY_LEN(open); i++) {
        ck_assert_int_eq(http_access_ask(open[i], ""), 200);
        ck_assert_ptr_null(strstr(reply.body, VARIABLE));
    }
    ck_assert_int_eq(http_access_ask("GET /", ""), 200);
    ck_assert(strstr(reply.body, "id=\"door\"") != NULL && strstr(reply.body, VARIABLE) == NULL);
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        char request[64];

        snprintf(request, sizeof request, "GET %s", secrets[i]);
        ck_assert_int_eq(http_access_ask(request, "authorization: bearer " TOKEN), 200);
    }
    probe_close(&p);
}
END_TEST

START_TEST(tokens_change_with_a_signal)
{
    START("--http-tokens", certs_path(&certs, "tokens"));
    write_tokens(TOKEN "\n" NEWER "\n");
    kill(shards.pids[0], SIGHUP);
    WAIT_FOR(http_access_ask("GET /metrics", "Authorization: Bearer " NEWER) == 200);
    ck_assert_int_eq(http_access_ask("GET /metrics", "Authorization: Bearer " TOKEN), 200);
    write_tokens("# none\n"); /* which changes nothing */
    shards_hang_up(&shards, 0, "there is no token in it");
    ck_assert_int_eq(http_access_ask("GET /metrics", "Authorization: Bearer " TOKEN), 200);
    write_tokens(NEWER "\n");
    kill(shards.pids[0], SIGHUP);
    WAIT_FOR(http_access_ask("GET /metrics", "Authorization: Bearer " TOKEN) == 401);
    ck_assert_int_eq(http_access_ask("GET /metrics", "Authorization: Bearer " NEWER), 200);
}
END_TEST

/* On all of this machine's addresses; what psd calls it. */
static int
listen_everywhere(char *name, size_t size)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof any;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&any, &len), 0);
    snprintf(name, size, "--http 0.0.0.0:%u,", ntohs(any.sin_port));
    return fd;
}

/* A psd that has been there, started again with these. */
static int
try_again(const char *const *more, int fd)
{
    shards.options = (struct shards_options){
        .more = more, .log = true, .handed = &fd, .handed_len = fd >= 0, .handed_names = "http"};
    return shards_try(&shards, 0);
}

START_TEST(beyond_this_machine_it_takes_a_token)
{
    static const char *const everywhere[] = {"--cluster", "psd", "--http", "0.0.0.0:0", NULL},
                             *const handed[] = {"--cluster", "psd", NULL},
                             *const insecure[] = {"--cluster", "psd", "--http", "0.0.0.0:0", "--insecure", NULL};
    char name[64];
    int fd = listen_everywhere(name, sizeof name);

    START();
    shards_kill(&shards, 0);
    ck_assert_int_eq(try_again(everywhere, -1), 1);
    ck_assert_ptr_nonnull(strstr(shards_log(&shards, 0), "will not show names and figures at --http 0.0.0.0:0"));
    ck_assert_int_eq(try_again(handed, fd), 1); /* nor on systemd's socket */
    ck_assert_ptr_nonnull(strstr(shards_log(&shards, 0), name));
    setenv("PSD_HTTP_TOKEN", TOKEN, 1);
    ck_assert_int_eq(try_again(everywhere, -1), 0);
    shards_kill(&shards, 0);
    ck_assert_int_eq(try_again(handed, fd), 0);
    shards_kill(&shards, 0);
    unsetenv("PSD_HTTP_TOKEN");
    ck_assert_int_eq(try_again(insecure, -1), 0);
    close(fd);
}
END_TEST

/* ---- At the wire port ---- */

/* Connects, sends this, and waits until it is closed; nothing: closes at once. */
static void
http_access_knock(const void *bytes, size_t len)
{
    int fd = http_client_connect(shards.address[0]);
    char heard[4096];

    ck_assert_int_ge(fd, 0);
    if (len > 0) {
        http_client_send(fd, bytes, len);
        while (recv(fd, heard, sizeof heard, 0) > 0)
            continue;
    }
    close(fd);
}

START_TEST(handshakes_are_counted_by_why_they_failed)
{
    static const char alert[] = "\x15\x03\x03\x00\x02\x02\x28"; /* a fatal alert, where a hello should be */

    certs_make(&certs, &(struct cert_spec){.file = "psd", .names = "IP:127.0.0.1"});
    START("--http-tokens", certs_path(&certs, "tokens"), "--tls-cert", certs_path(&certs, "psd.pem"), "--tls-key",
          certs_path(&certs, "psd.key"), "--hello-timeout", "100ms");
    http_access_knock(NULL, 0);
    http_access_knock("GET / HTTP/1.0\r\n\r\n", 18);
    http_access_knock("PSD1 and so on, which is no TLS", 31);
    http_access_knock(alert, sizeof alert - 1);
    http_access_knock("\x16", 1); /* the start of a hello, and then nothing */
    WAIT_FOR(http_access_figure("psd_tls_handshake_failures_total{reason=\"gone\"}") == 1);
    EXPECT("psd_tls_handshake_failures_total{reason=\"plain\"}", 2);
    EXPECT("psd_tls_handshake_failures_total{reason=\"other\"}", 1);
    EXPECT("psd_tls_handshake_failures_total{reason=\"silence\"}", 1);
    EXPECT("psd_tls_handshake_failures_total{reason=\"certificate\"}", 0);
    EXPECT("psd_tls_handshake_failures_total{reason=\"room\"}", 0);
    ck_assert(certs_end_at(&certs, "psd", http_access_figure("psd_certificate_expiry_timestamp_seconds{for=\"tcp\"}")));
    ck_assert(isnan(http_access_figure("psd_certificate_expiry_timestamp_seconds{for=\"http\"}"))); /* it is plain */
}
END_TEST

START_TEST(who_is_turned_away_is_counted)
{
    struct probe first, second;

    START("--http-tokens", certs_path(&certs, "tokens"), "--connections-max", "1");
    ck_assert(probe_connect(&first, shards.address[0]));
    ck_assert(probe_hello(&first, -1, 0, false));
    ck_assert(probe_connect(&second, shards.address[0]));
    ck_assert(probe_receive(&second) && second.msg.type == MSG_ERROR);
    EXPECT("psd_connections_refused_total{reason=\"connections-max\"}", 1);
    EXPECT("psd_connections_refused_total{reason=\"descriptors\"}", 0);
    probe_close(&first);
    probe_close(&second);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("http_guard");
    TCase *t = tcase_create("http_guard");

    tcase_add_checked_fixture(t, http_access_setup, http_access_teardown);
    tcase_add_test(t, a_page_of_another_site_reads_nothing);
    tcase_add_test(t, with_a_token_any_name_is_answered);
    tcase_add_test(t, intruders_get_nothing);
    tcase_add_test(t, who_guesses_at_tokens_waits_longer_each_time);
    tcase_add_test(t, probes_and_the_empty_page_stay_open);
    tcase_add_test(t, tokens_change_with_a_signal);
    tcase_add_test(t, beyond_this_machine_it_takes_a_token);
    tcase_add_test(t, handshakes_are_counted_by_why_they_failed);
    tcase_add_test(t, who_is_turned_away_is_counted);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
