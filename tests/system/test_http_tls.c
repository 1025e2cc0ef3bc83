/* Metrics and health over TLS, for watchers: OpenSSL's peers, curl, and peers that send something else; and
 * certificates that are renewed under constant requests. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "server/http/http.h"
#include "tests/certs.h"
#include "tests/exposition_page.h"
#include "tests/now.h"
#include "tests/system/http_tls_client.h"
#include "tests/system/shard_processes.h"
#include "tests/system/wait_for.h"
#include "tests/unit/kits/check_main.h"

#define TOKEN    "0123456789abcdef0123"
#define WITH     "Authorization: Bearer " TOKEN
#define RENEWALS 12
#define SCRAPERS 3

static struct certs certs;
static struct shards shards;
static char address[64];

#define WAIT_FOR(condition) WAIT_FOR_LOGGED(condition, shards_log(&shards, 0))

/* ---- The world ---- */

static void
http_tls_make(const char *file, const char *cn)
{
    certs_make(&certs, &(struct cert_spec){.file = file, .cn = cn, .issuer = "ca", .names = "IP:127.0.0.1"});
}

static void
http_tls_setup(void)
{
    signal(SIGPIPE, SIG_IGN);
    unsetenv("PSD_HTTP_TOKEN");
    certs_open(&certs);
    certs_make_cas(&certs);
    http_tls_make("psd", "shared");
    http_tls_make("web", "of its own");
    certs_write(&certs, "tokens", TOKEN "\n");
    ck_assert_int_eq(chmod(certs_path(&certs, "tokens"), 0600), 0);
}

static void
http_tls_teardown(void)
{
    shards_stop(&shards);
    certs_close(&certs);
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* psd's options: with tokens, there, and these. */
static const char *const *
http_tls_want(const char *at, const char *const *options)
{
    const char *const *usual =
        OPTIONS("--cluster", "psd", "--log-level", "info", "--http", at, "--http-tokens", certs_path(&certs, "tokens"));

    return shards_words(usual, options);
}

static void
start_at(const char *at, const char *const *options)
{
    shards_start_with(&shards, 1, &(struct shards_options){.more = http_tls_want(at, options), .log = true});
    ck_assert_msg(http_client_find(shards_log(&shards, 0), address, sizeof address), "%s", shards_log(&shards, 0));
}

static void
http_tls_start(const char *const *options)
{
    start_at("127.0.0.1:0", options);
}

/* Killed before, with other options. */
static void
start_again(const char *const *options)
{
    shards.options.more = http_tls_want("127.0.0.1:0", options);
    shards_restart(&shards, 0);
    ck_assert(http_client_find(shards_log(&shards, 0), address, sizeof address));
}

/* With the certificate that TCP has, and with one of HTTP's own. */
#define TCP    "--tls-cert", certs_path(&certs, "psd.pem"), "--tls-key", certs_path(&certs, "psd.key")
#define SHARED TCP, "--http-tls"
#define OWN                                                                                                            \
    "--http-tls", "--http-tls-cert", certs_path(&certs, "web.pem"), "--http-tls-key", certs_path(&certs, "web.key")

/* ---- Asking ---- */

static bool
open_with(struct https *s, const char *ca, int version)
{
    return https_open(s, address, certs_path(&certs, ca), version);
}

static struct https
http_tls_opened(void)
{
    struct https s;

    ck_assert(open_with(&s, "ca.pem", TLS1_3_VERSION));
    return s;
}

static int
http_tls_ask(const char *request)
{
    struct https s = http_tls_opened();
    struct http_reply r = https_ask(&s, request, WITH);

    http_reply_free(&r);
    return r.status;
}

static double
http_tls_figure(const char *series)
{
    struct https s = http_tls_opened();
    struct http_reply r = https_ask(&s, "GET /metrics", WITH);
    const char *wrong = page_wrong(r.body);
    double value;

    ck_assert_int_eq(r.status, 200);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    value = page_value(r.body, series);
    http_reply_free(&r);
    return value;
}

static bool
http_tls_shows(const char *cn)
{
    struct https s = http_tls_opened();
    bool is = https_shows(&s, cn);

    https_close(&s);
    return is;
}

#define ENDS "psd_certificate_expiry_timestamp_seconds"

static bool
http_tls_ends(const char *series, const char *file)
{
    return certs_end_at(&certs, file, http_tls_figure(series));
}

/* ---- Served peers ---- */

START_TEST(it_shows_what_tcp_shows)
{
    struct https s;
    struct http_reply r;

    http_tls_start(OPTIONS(SHARED));
    ck_assert(shards_said(&shards, 0, "metrics and health, encrypted, certificate=\"CN=shared, until "));
    ck_assert_int_eq(http_tls_ask("GET /healthz"), 200);
    ck_assert_int_eq(http_tls_ask("GET /readyz"), 200);
    ck_assert_int_eq(http_tls_ask("GET /api/live"), 200);
    ck_assert_int_eq(http_tls_ask("GET /page.js"), 200);
    ck_assert_int_eq(http_tls_ask("POST /metrics"), 405);
    ck_assert_double_eq(http_tls_figure("psd_state{state=\"serving\"}"), 1);
    s = http_tls_opened();
    ck_assert(https_shows(&s, "shared"));
    ck_assert(http_tls_ends(ENDS "{for=\"tcp\"}", "psd") && http_tls_ends(ENDS "{for=\"http\"}", "psd"));
    r = https_ask(&s, "GET /metrics", "");
    ck_assert_int_eq(r.status, 401); /* a certificate is no token */
    http_reply_free(&r);
}
END_TEST

START_TEST(it_shows_one_of_its_own)
{
    http_tls_start(OPTIONS(OWN));
    ck_assert(http_tls_shows("of its own"));
    ck_assert(!shards_said(&shards, 0, "TCP connections are encrypted"));
    ck_assert(http_tls_ends(ENDS "{for=\"http\"}", "web"));
    ck_assert(isnan(http_tls_figure(ENDS "{for=\"tcp\"}")));
    ck_assert_double_eq(http_tls_figure("psd_state{state=\"serving\"}"), 1);
    shards_kill(&shards, 0);
    start_again(OPTIONS(TCP, OWN));
    ck_assert(http_tls_shows("of its own"));
}
END_TEST

/* A chain of two: the certificate's issuer is no CA that the peer knows, but was signed by one and is sent along. */
START_TEST(those_between_it_and_the_ca_are_shown)
{
    certs_make(&certs, &(struct cert_spec){.file = "between", .issuer = "ca", .signs = true});
    certs_make(&certs, &(struct cert_spec){.file = "web", .issuer = "between", .names = "IP:127.0.0.1"});
    ck_assert_int_eq(shards_shell("cat %s >>%s", certs_path(&certs, "between.pem"), certs_path(&certs, "web.pem")), 0);
    http_tls_start(OPTIONS(OWN));
    ck_assert_int_eq(http_tls_ask("GET /healthz"), 200);
}
END_TEST

static const char *const kinds[] = {"RSA -pkeyopt rsa_keygen_bits:2048", "EC -pkeyopt ec_paramgen_curve:P-384",
                                    "ED25519"};

/* Made by openssl, as an operator does. */
START_TEST(keys_of_each_kind_serve)
{
    const char *key = certs_path(&certs, "web.key"), *cert = certs_path(&certs, "web.pem");

    ck_assert_int_eq(shards_shell("openssl genpkey -algorithm %s -out %s 2>/dev/null", kinds[_i], key), 0);
    ck_assert_int_eq(
        shards_shell("openssl req -new -x509 -key %s -subj '/CN=of its own' -addext subjectAltName=IP:127.0.0.1 "
                     "-days 2 -out %s",
                     key, cert),
        0);
    http_tls_start(OPTIONS(OWN));
    ck_assert_int_eq(shards_shell("cp %s %s", cert, certs_path(&certs, "ca.pem")), 0);
    ck_assert(http_tls_shows("of its own"));
    ck_assert_int_eq(http_tls_ask("GET /healthz"), 200);
}
END_TEST

START_TEST(curl_and_openssl_agree)
{
    const char *ca = certs_path(&certs, "ca.pem");

    if (shards_shell("command -v curl >/dev/null && command -v openssl >/dev/null") != 0)
        return; /* the library's peers show the same */
    http_tls_start(OPTIONS(SHARED));
    ck_assert_int_eq(shards_shell("curl -sS --cacert %s -H '" WITH "' https://%s/metrics | grep -q '^psd_turns_total '",
                                  ca, address),
                     0);
    ck_assert_int_eq(
        shards_shell("curl -s --cacert %s https://%s/healthz >/dev/null", certs_path(&certs, "other.pem"), address),
        60 /* it cannot be verified */);
    ck_assert_int_eq(shards_shell("curl -s --tls-max 1.2 --cacert %s https://%s/healthz", ca, address),
                     35 /* no handshake */);
    ck_assert_int_eq(shards_shell("curl -s http://%s/healthz", address), 52 /* nothing */);
    ck_assert_int_eq(
        shards_shell("openssl s_client -connect %s -CAfile %s -verify_return_error -verify_ip 127.0.0.1 </dev/null "
                     ">%s/out 2>&1",
                     address, ca, certs.dir),
        0);
    ck_assert_int_eq(shards_shell("grep -q 'New, TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256' %s/out", certs.dir), 0);
    ck_assert_int_ne(shards_shell("openssl s_client -connect %s -tls1_2 </dev/null >/dev/null 2>&1", address), 0);
    ck_assert_int_ne(
        shards_shell("openssl s_client -connect %s -ciphersuites TLS_AES_128_CCM_SHA256 </dev/null >/dev/null 2>&1",
                     address),
        0);
}
END_TEST

/* ---- Refused peers ---- */

static void
http_tls_send_garbage(const void *bytes, size_t len)
{
    int fd = http_client_connect(address);
    struct http_reply r;

    ck_assert_int_ge(fd, 0);
    http_client_send(fd, bytes, len);
    shutdown(fd, SHUT_WR);
    r = http_client_read(fd);
    ck_assert_int_eq(r.status, 0);
    ck_assert_msg(strstr(r.head, "psd") == NULL && strstr(r.head, "alive") == NULL, "%s", r.head);
    http_reply_free(&r);
}

START_TEST(intruders_get_nothing)
{
    static const char plain[] = "GET /healthz HTTP/1.1\r\nHost: psd\r\n\r\n", alert[] = "\x15\x03\x03\x00\x02\x02\x28";
    struct test_rng rng = {test_seed()};
    uint8_t bytes[512];
    struct https s;
    size_t len;

    http_tls_start(OPTIONS(SHARED));
    ck_assert(!open_with(&s, "ca.pem", TLS1_2_VERSION));
    ck_assert(!open_with(&s, "other.pem", TLS1_3_VERSION));
    http_tls_send_garbage(plain, sizeof plain - 1);
    http_tls_send_garbage(alert, sizeof alert - 1);
    http_tls_send_garbage("", 0);
    ck_assert_double_eq(http_tls_figure("psd_http_unasked_total"), 5);
    for (int i = 0; i < 200; i++) { /* bytes that begin like a hello, and some that do not */
        len = 5 + test_below(&rng, sizeof bytes - 5);
        for (size_t j = 0; j < len; j++)
            bytes[j] = (uint8_t)test_rand(&rng);
        if (i % 2 == 0)
            memcpy(bytes, "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03", 11);
        http_tls_send_garbage(bytes, len);
    }
    ck_assert_double_eq(http_tls_figure("psd_http_unasked_total"), 205);
    ck_assert_int_eq(http_tls_ask("GET /readyz"), 200);
}
END_TEST

/* A handshake is part of a connection's time: before it, in its midst, after it. */
START_TEST(silence_has_an_end)
{
    static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    int silent, half;
    struct https done;
    uint64_t began;
    char byte;

    http_tls_start(OPTIONS(SHARED));
    began = now_ms();
    silent = http_client_connect(address);
    half = http_client_connect(address);
    http_client_send(half, hello, sizeof hello);
    done = http_tls_opened();
    ck_assert_int_eq(http_tls_ask("GET /healthz"), 200); /* they block no other connection */
    ck_assert_int_le(recv(silent, &byte, 1, 0), 0);
    ck_assert_uint_ge(now_ms() - began, HTTP_LIFE_MS - 1000);
    ck_assert_int_le(recv(half, &byte, 1, 0), 0);
    ck_assert_int_le(SSL_read(done.ssl, &byte, 1), 0);
    close(silent);
    close(half);
    https_close(&done);
    ck_assert_double_ge(http_tls_figure("psd_http_overdue_total"), 3);
}
END_TEST

/* Handshakes that have not begun make way for one that has. */
START_TEST(one_host_cannot_take_all_places)
{
    int fds[2 * HTTP_HOST_MAX];
    struct https s;

    http_tls_start(OPTIONS(SHARED));
    for (int i = 0; i < 2 * HTTP_HOST_MAX; i++) {
        ck_assert_int_ge(fds[i] = http_client_connect(address), 0);
        if (i < HTTP_HOST_MAX)
            continue;
        ck_assert(open_with(&s, "ca.pem", TLS1_3_VERSION));
        https_close(&s);
    }
    for (int i = 0; i < 2 * HTTP_HOST_MAX; i++)
        close(fds[i]);
}
END_TEST

/* ---- Files ---- */

/* The error in the files, and the sentence that must report it. */
static const char *
http_tls_spoil(int how)
{
    switch (how) {
    case 0:
        certs_write(&certs, "web.pem", "nonsense");
        return "web.pem' holds no certificate in PEM form";
    case 1:
        certs_make_old(&certs, "web");
        return "has expired on ";
    case 2:
        certs_make(&certs, &(struct cert_spec){
                               .file = "web", .issuer = "ca", .from_s = CERTS_HOUR_S, .until_s = 2 * CERTS_HOUR_S});
        return "is the clock right?";
    case 3:
        ck_assert_int_eq(shards_shell("cp %s %s", certs_path(&certs, "psd.key"), certs_path(&certs, "web.key")), 0);
        return "does not belong to the certificate ";
    case 4:
        certs_make(&certs, &(struct cert_spec){.file = "web", .issuer = "ca", .passphrase = "secret"});
        return "is protected by a passphrase";
    default:
        ck_assert_int_eq(unlink(certs_path(&certs, "web.key")), 0);
        return "cannot read the private key '";
    }
}
enum { SPOILT = 6 };

START_TEST(it_does_not_start_with_files_that_are_none)
{
    const char *why;

    http_tls_start(OPTIONS(OWN));
    shards_kill(&shards, 0);
    why = http_tls_spoil(_i);
    ck_assert_int_eq(shards_refused(&shards, 0), 1);
    ck_assert_msg(shards_said(&shards, 0, why), "\"%s\" is not in %s", why, shards_log(&shards, 0));
}
END_TEST

START_TEST(where_libmicrohttpd_has_no_tls_it_says_so)
{
    http_tls_start(OPTIONS(OWN));
    shards_kill(&shards, 0);
    shards_preload("NO_HTTP_TLS_LIB");
    ck_assert_int_eq(shards_refused(&shards, 0), 1);
    ck_assert(shards_said(&shards, 0, "--http-tls: libmicrohttpd was built without TLS here"));
    start_again(OPTIONS(TCP)); /* plain HTTP needs none */
}
END_TEST

START_TEST(a_token_on_a_plain_wire_is_warned_of)
{
    start_at("0.0.0.0:0", OPTIONS(TCP));
    ck_assert(shards_said(&shards, 0, "tokens of HTTP travel as they are, to be read on the way"));
    shards_stop(&shards);
    start_at("0.0.0.0:0", OPTIONS(OWN));
    ck_assert(!shards_said(&shards, 0, "tokens of HTTP travel as they are"));
}
END_TEST

/* ---- Again ---- */

START_TEST(bad_files_after_a_hangup_change_nothing)
{
    struct https s;
    const char *why;
    char text[64];

    http_tls_start(OPTIONS(OWN));
    s = http_tls_opened();
    why = http_tls_spoil(_i);
    shards_hang_up(&shards, 0, "HTTP's certificate and key stay as they are: ");
    ck_assert_msg(shards_said(&shards, 0, why), "\"%s\" is not in %s", why, shards_log(&shards, 0));
    ck_assert(http_tls_shows("of its own"));
    ck_assert_int_eq(http_tls_ask("GET /healthz"), 200);
    http_tls_make("web", "renewed");
    snprintf(text, sizeof text, "for new connections certificate=\"CN=renewed, until ");
    shards_hang_up(&shards, 0, text);
    WAIT_FOR(http_tls_shows("renewed"));
    https_close(&s);
}
END_TEST

static void
make_ending(const char *file, long until_s)
{
    certs_make(&certs,
               &(struct cert_spec){
                   .file = file, .issuer = "ca", .names = "IP:127.0.0.1", .from_s = -CERTS_HOUR_S, .until_s = until_s});
}

/* After a renewal the new end is reported; when the new files cannot be used, the old certificate's end stays, with a
 * warning. */
START_TEST(it_is_told_when_they_end_and_warned_before)
{
    make_ending("psd", 15 * 24 * CERTS_HOUR_S);
    make_ending("web", 20 * 24 * CERTS_HOUR_S);
    http_tls_start(OPTIONS(TCP, OWN));
    ck_assert(http_tls_ends(ENDS "{for=\"tcp\"}", "psd") && http_tls_ends(ENDS "{for=\"http\"}", "web"));
    ck_assert(!shards_said(&shards, 0, "the certificate of"));
    make_ending("psd", 48 * CERTS_HOUR_S);
    make_ending("web", 12 * CERTS_HOUR_S);
    shards_hang_up(&shards, 0,
                   "the certificate of HTTP ends within a day: renew it, and send HUP certificate=\"CN=web, until ");
    ck_assert(shards_said(
        &shards, 0, "the certificate of TCP ends within 2 days: renew it, and send HUP certificate=\"CN=psd, until "));
    ck_assert(http_tls_ends(ENDS "{for=\"tcp\"}", "psd") && http_tls_ends(ENDS "{for=\"http\"}", "web"));
    ck_assert_int_eq(shards_shell("cp %s %s", certs_path(&certs, "web.pem"), certs_path(&certs, "before.pem")), 0);
    make_ending("psd", 30 * 24 * CERTS_HOUR_S);
    certs_write(&certs, "web.pem", "nonsense");
    shards_hang_up(&shards, 0, "HTTP's certificate and key stay as they are: ");
    WAIT_FOR(strstr(strstr(shards_log(&shards, 0), "stay as they are: "), "the certificate of HTTP ends within a day"));
    ck_assert(http_tls_ends(ENDS "{for=\"tcp\"}", "psd") && http_tls_ends(ENDS "{for=\"http\"}", "before"));
}
END_TEST

START_TEST(an_end_that_is_near_is_warned_of_at_the_start)
{
    make_ending("psd", 72 * CERTS_HOUR_S);
    http_tls_start(OPTIONS(SHARED));
    ck_assert(shards_said(
        &shards, 0, "the certificate of TCP ends within 3 days: renew it, and send HUP certificate=\"CN=psd, until "));
    ck_assert(shards_said(
        &shards, 0, "the certificate of HTTP ends within 3 days: renew it, and send HUP certificate=\"CN=psd, until "));
}
END_TEST

/* A connection that has shaken hands with the old one is answered until its time-out; new connections see the new one.
 */
START_TEST(guests_go_on_with_what_they_began_with)
{
    enum { LIVES = 5 };
    struct https guest[LIVES];
    struct http_reply r;
    char cn[16], text[64];

    http_tls_start(OPTIONS(OWN));
    for (int i = 0; i < LIVES; i++) {
        snprintf(cn, sizeof cn, "life %d", i);
        snprintf(text, sizeof text, "certificate=\"CN=%s, until ", cn);
        http_tls_make("web", cn);
        shards_hang_up(&shards, 0, text);
        WAIT_FOR(http_tls_shows(cn));
        guest[i] = http_tls_opened();
    }
    for (int i = 0; i < LIVES; i++) {
        snprintf(cn, sizeof cn, "life %d", i);
        ck_assert(https_shows(&guest[i], cn));
        r = https_ask(&guest[i], "GET /metrics", WITH);
        ck_assert_int_eq(r.status, 200);
        http_reply_free(&r);
    }
    ck_assert_double_eq(http_tls_figure("psd_http_overdue_total"), 0);
}
END_TEST

static atomic_bool over;
static atomic_uint failures, answers;

static void *
http_tls_scrape(void *ca)
{
    while (!atomic_load(&over)) {
        struct https s;
        struct http_reply r = {.status = 0};

        if (https_open(&s, address, ca, TLS1_3_VERSION)) {
            r = https_ask(&s, "GET /metrics", WITH);
            http_reply_free(&r);
        }
        atomic_fetch_add(r.status == 200 ? &answers : &failures, 1);
    }
    return NULL;
}

START_TEST(nobody_is_refused_while_certificates_are_renewed)
{
    pthread_t threads[SCRAPERS];
    char cn[16], text[64], ca[128];

    http_tls_start(OPTIONS(OWN));
    snprintf(ca, sizeof ca, "%s", certs_path(&certs, "ca.pem")); /* threads of their own know no certs */
    for (int i = 0; i < SCRAPERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, http_tls_scrape, ca), 0);
    for (int i = 0; i < RENEWALS; i++) {
        unsigned before = atomic_load(&answers);

        snprintf(cn, sizeof cn, "life %d", i);
        snprintf(text, sizeof text, "certificate=\"CN=%s, until ", cn);
        http_tls_make("web", cn);
        shards_hang_up(&shards, 0, text);
        WAIT_FOR(http_tls_shows(cn));
        WAIT_FOR(atomic_load(&answers) > before);
    }
    atomic_store(&over, true);
    for (int i = 0; i < SCRAPERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(atomic_load(&failures), 0);
    ck_assert_uint_ge(atomic_load(&answers), RENEWALS);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("http_tls");
    TCase *t = tcase_create("http_tls");

    tcase_add_checked_fixture(t, http_tls_setup, http_tls_teardown);
    tcase_add_test(t, it_shows_what_tcp_shows);
    tcase_add_test(t, it_shows_one_of_its_own);
    tcase_add_test(t, those_between_it_and_the_ca_are_shown);
    tcase_add_loop_test(t, keys_of_each_kind_serve, 0, ARRAY_LEN(kinds));
    tcase_add_test(t, curl_and_openssl_agree);
    tcase_add_test(t, intruders_get_nothing);
    tcase_add_test(t, silence_has_an_end);
    tcase_add_test(t, one_host_cannot_take_all_places);
    tcase_add_loop_test(t, it_does_not_start_with_files_that_are_none, 0, SPOILT);
    tcase_add_test(t, where_libmicrohttpd_has_no_tls_it_says_so);
    tcase_add_test(t, a_token_on_a_plain_wire_is_warned_of);
    tcase_add_loop_test(t, bad_files_after_a_hangup_change_nothing, 0, SPOILT);
    tcase_add_test(t, it_is_told_when_they_end_and_warned_before);
    tcase_add_test(t, an_end_that_is_near_is_warned_of_at_the_start);
    tcase_add_test(t, guests_go_on_with_what_they_began_with);
    tcase_add_test(t, nobody_is_refused_while_certificates_are_renewed);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
