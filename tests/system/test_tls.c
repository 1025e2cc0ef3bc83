/* TLS as it is run: real psd, libpsclient, groups and psctl over it; and intruders, which get nothing: no certificate,
 * an old one, another cluster's, another version of TLS, none of it, half of it, silence, and records of their own
 * making. Certificates are made here, with times counted from now. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "server/daemon/tls_listener.h"
#include "tests/certs.h"
#include "tests/system/ranks.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define WAIT_MS 60000

enum { N = 700000 /* elements: blocks of each size, more than one message */, PUSHES = 5, WORKERS = 40 };

static struct certs certs;
static struct shards shards;
static struct ps_error error;

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* psd with what `psd.pem` says now, and these options. */
static void
tls_start(uint32_t count, const char *const *options)
{
    const char *const *tls =
        OPTIONS("--tls-cert", certs_path(&certs, "psd.pem"), "--tls-key", certs_path(&certs, "psd.key"));

    shards_start_with(&shards, count, &(struct shards_options){.more = shards_words(tls, options), .log = true});
}

static void
set_up(void)
{
    certs_open(&certs);
    certs_make_cas(&certs);
    certs_make(&certs, &(struct cert_spec){.file = "psd", .issuer = "ca", .names = "DNS:localhost,IP:127.0.0.1"});
    certs_make(&certs, &(struct cert_spec){.file = "worker", .issuer = "ca", .names = "IP:127.0.0.1"});
    certs_make(&certs, &(struct cert_spec){.file = "stranger", .issuer = "other", .names = "IP:127.0.0.1"});
    certs_make_old(&certs, "old");
    unsetenv("PSD_TLS_CA");
}

static void
tear_down(void)
{
    shards_stop(&shards);
    certs_close(&certs);
}

/* ---- Workers ---- */

static struct ps_client_options
tls_believing(const char *ca)
{
    return (struct ps_client_options){
        .transport = PS_TRANSPORT_TCP, .tls_ca = ca != NULL ? certs_path(&certs, ca) : "", .timeout_ms = WAIT_MS};
}

static enum ps_err
try_open(const char *addresses, uint32_t task, const struct ps_client_options *o, ps_client **c)
{
    ps_cluster *cluster;
    enum ps_err err;

    ck_assert_int_eq(ps_cluster_from_list(addresses, WORKERS, task, &cluster, &error), PS_OK);
    ck_assert_int_eq(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error), PS_OK);
    err = ps_client_open(cluster, o, c, &error);
    ps_cluster_free(cluster);
    return err;
}

static ps_client *
open_worker(const char *addresses, uint32_t task, const struct ps_client_options *o)
{
    ps_client *c;

    ck_assert_msg(try_open(addresses, task, o, &c) == PS_OK, "%s", error.text);
    return c;
}

/* It is refused long before any time-out, with the true reason. */
static void
tls_refused(const char *addresses, const struct ps_client_options *o, const char *text)
{
    ps_client *c;

    ck_assert_int_ne(try_open(addresses, 0, o, &c), PS_OK);
    ck_assert_msg(error.code == PS_ERR_TLS, "%s: %s", ps_err_name(error.code), error.text);
    ck_assert_msg(strstr(error.text, text) != NULL, "\"%s\" says nothing of \"%s\"", error.text, text);
}

static bool
all_are(const float *value, float x)
{
    for (int i = 0; i < N; i++)
        if (value[i] != x)
            return false;
    return true;
}

/* Each push takes 1 of every element. */
static void
tls_train(ps_client *c, const char *name)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {N}};
    float *grad = malloc(N * sizeof *grad), *value = malloc(N * sizeof *value);
    ps_var *v;

    spec.optimizer = (struct ps_optimizer){.kind = PS_SGD, .learning_rate = 1};
    for (int i = 0; i < N; i++)
        grad[i] = 1;
    ck_assert_int_eq(ps_client_declare(c, &spec, &v, &error), PS_OK);
    for (int k = 1; k <= PUSHES; k++) {
        ck_assert_msg(ps_client_push(c, 1, &v, (const float *[]){grad}, NULL, &error) == PS_OK, "%s", error.text);
        ck_assert_msg(ps_client_pull(c, 1, &v, &value, NULL, &error) == PS_OK, "%s", error.text);
        ck_assert(all_are(value, (float)-k));
    }
    free(grad);
    free(value);
}

/* Not everywhere: a root without /etc/hosts may know no names at all. */
static bool
localhost_is_known(void)
{
    struct addrinfo *found = NULL;
    bool known = getaddrinfo("localhost", NULL, &(struct addrinfo){.ai_family = AF_INET}, &found) == 0;

    if (known)
        freeaddrinfo(found);
    return known;
}

START_TEST(workers_train_over_it)
{
    struct ps_client_options o = tls_believing("ca.pem");
    char by_name[64];
    ps_client *c;

    tls_start(2, OPTIONS(NULL));
    c = open_worker(shards.addresses, 0, &o);
    ck_assert_int_eq(shards_maps(), 0);
    tls_train(c, "w");
    ps_client_close(c);
    o.observer = o.any_cluster = 1;
    if (localhost_is_known()) {
        snprintf(by_name, sizeof by_name, "localhost%s", strchr(shards.address[0], ':'));
        c = open_worker(by_name, 0, &o);
        ps_client_close(c);
    }
    o.tls_name = "localhost"; /* whatever address it is found by */
    c = open_worker(shards.address[1], 0, &o);
    ps_client_close(c);
}
END_TEST

/* The environment configures programs that do not set these options. */
START_TEST(the_environment_says_so)
{
    struct ps_client_options o = {.transport = PS_TRANSPORT_TCP};
    ps_client *c;

    tls_start(1, OPTIONS(NULL));
    setenv("PSD_TLS_CA", certs_path(&certs, "ca.pem"), 1);
    c = open_worker(shards.addresses, 0, &o);
    ps_client_close(c);
    setenv("PSD_TLS_NAME", "elsewhere.example", 1);
    tls_refused(shards.addresses, &o, "does not name 'elsewhere.example'");
    unsetenv("PSD_TLS_CA");
    unsetenv("PSD_TLS_NAME");
}
END_TEST

/* The handshake has proved the identity; then frames lie in memory, and the stream carries doorbells. */
START_TEST(memory_is_shared_after_the_handshake)
{
    struct ps_client_options o = tls_believing("ca.pem");
    ps_client *c;

    tls_start(1, OPTIONS(NULL));
    o.transport = PS_TRANSPORT_AUTO;
    c = open_worker(shards.addresses, 0, &o);
    ck_assert_int_gt(shards_maps(), 0);
    tls_train(c, "w");
    usleep(1000); /* both sides have gone to sleep, or not: either must work */
    tls_train(c, "v");
    ps_client_close(c);
}
END_TEST

START_TEST(unix_sockets_stay_as_they_are)
{
    struct ps_client_options o = tls_believing("ca.pem");
    ps_client *c;

    tls_start(1, OPTIONS(NULL));
    c = open_worker(shards.sockets, 0, &o);
    tls_train(c, "w");
    ps_client_close(c);
}
END_TEST

START_TEST(many_connections_go_on_side_by_side)
{
    static ps_client *c[WORKERS];
    struct ps_client_options o = tls_believing("ca.pem");
    static float value[64], grad[64];
    float *to = value;
    const float *from = grad;
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {64}};
    ps_var *v[WORKERS];

    tls_start(1, OPTIONS(NULL));
    spec.optimizer = (struct ps_optimizer){.kind = PS_SGD, .learning_rate = 1};
    for (int i = 0; i < 64; i++)
        grad[i] = 1;
    for (uint32_t i = 0; i < WORKERS; i++) {
        c[i] = open_worker(shards.addresses, i, &o);
        ck_assert_int_eq(ps_client_declare(c[i], &spec, &v[i], &error), PS_OK);
    }
    for (int k = 0; k < 10; k++)
        for (uint32_t i = 0; i < WORKERS; i++)
            ck_assert_int_eq(ps_client_push(c[i], 1, &v[i], &from, NULL, &error), PS_OK);
    ck_assert_int_eq(ps_client_pull(c[0], 1, &v[0], &to, NULL, &error), PS_OK);
    ck_assert(value[0] == -10.0f * WORKERS && value[63] == value[0]);
    for (uint32_t i = 0; i < WORKERS; i++)
        ps_client_abandon(c[i]);
}
END_TEST

START_TEST(a_worker_with_a_certificate_is_let_in_where_it_is_demanded)
{
    struct ps_client_options o = tls_believing("ca.pem");
    const char *ca = certs_path(&certs, "ca.pem");
    ps_client *c;

    tls_start(1, OPTIONS("--tls-client-ca", ca));
    tls_refused(shards.addresses, &o, "demands a certificate");
    o.tls_cert = certs_path(&certs, "stranger.pem");
    o.tls_key = certs_path(&certs, "stranger.key");
    tls_refused(shards.addresses, &o, "does not know the CA of our certificate");
    o.tls_cert = certs_path(&certs, "worker.pem");
    o.tls_key = certs_path(&certs, "worker.key");
    c = open_worker(shards.addresses, 0, &o);
    tls_train(c, "w");
    ps_client_close(c);
}
END_TEST

/* It is killed and comes back while a worker trains: the next connection shakes hands again. */
START_TEST(a_worker_finds_its_shard_again)
{
    struct ps_client_options o = tls_believing("ca.pem");
    ps_client *c;

    tls_start(1, OPTIONS(NULL));
    c = open_worker(shards.addresses, 0, &o);
    tls_train(c, "w");
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    tls_train(c, "v");
    ps_client_close(c);
}
END_TEST

/* ---- Peers that do not match ---- */

START_TEST(who_is_no_shard_of_ours_is_not_spoken_to)
{
    struct ps_client_options o = tls_believing("other.pem");

    tls_start(1, OPTIONS(NULL));
    tls_refused(shards.addresses, &o, "is of an unknown issuer");
    o = tls_believing("ca.pem");
    o.tls_name = "elsewhere.example";
    tls_refused(shards.addresses, &o, "does not name 'elsewhere.example'");
}
END_TEST

START_TEST(one_side_without_tls_is_told_so)
{
    struct ps_client_options o = tls_believing(NULL);
    struct shards plain;

    tls_start(1, OPTIONS(NULL));
    tls_refused(shards.addresses, &o, "TLS alone is spoken here");
    shards_start(&plain, 1);
    o = tls_believing("ca.pem");
    tls_refused(plain.addresses, &o, "the peer speaks without TLS");
    shards_stop(&plain);
}
END_TEST

START_TEST(files_that_are_none_are_refused_at_once)
{
    struct ps_client_options o = tls_believing("none.pem");
    ps_client *c;

    ck_assert_int_eq(try_open("127.0.0.1:1", 0, &o, &c), PS_ERR_CONFIG);
    ck_assert_msg(strstr(error.text, "none.pem") != NULL, "%s", error.text);
    o = tls_believing("ca.pem");
    o.tls_cert = certs_path(&certs, "worker.pem");
    o.tls_key = certs_path(&certs, "psd.key");
    ck_assert_int_eq(try_open("127.0.0.1:1", 0, &o, &c), PS_ERR_CONFIG);
    ck_assert_msg(strstr(error.text, "does not belong") != NULL, "%s", error.text);
}
END_TEST

/* ---- Raw peers of OpenSSL's ---- */

static int
tls_dial(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Whatever it still sends: then it closes. */
static void
hears_the_end(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char bytes[4096];
    ssize_t n = 1;

    while (n > 0) {
        ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
        n = read(fd, bytes, sizeof bytes);
    }
    ck_assert(n == 0 || errno == ECONNRESET);
    close(fd);
}

struct raw {
    int fd;
    SSL_CTX *context;
    SSL *ssl;
};

static void
raw_open(struct raw *r, const char *cert, const char *key, int version)
{
    *r = (struct raw){.fd = tls_dial(shards.address[0]), .context = SSL_CTX_new(TLS_client_method())};
    SSL_CTX_set_max_proto_version(r->context, version);
    if (cert != NULL)
        ck_assert(SSL_CTX_use_certificate_file(r->context, certs_path(&certs, cert), SSL_FILETYPE_PEM) == 1 &&
                  SSL_CTX_use_PrivateKey_file(r->context, certs_path(&certs, key), SSL_FILETYPE_PEM) == 1);
    r->ssl = SSL_new(r->context);
    SSL_set_fd(r->ssl, r->fd);
}

static void
raw_close(struct raw *r)
{
    SSL_free(r->ssl);
    SSL_CTX_free(r->context);
    ERR_clear_error();
}

/* It shakes hands, or does not, and gets no byte of psd's. */
static void
gets_nothing(const char *cert, const char *key, int version)
{
    struct raw r;
    char byte;

    raw_open(&r, cert, key, version);
    if (SSL_connect(r.ssl) == 1)
        ck_assert_int_le(SSL_read(r.ssl, &byte, 1), 0);
    raw_close(&r);
    hears_the_end(r.fd);
}

static void
still_serves(const char *ca_of_clients)
{
    struct ps_client_options o = tls_believing("ca.pem");
    ps_client *c;

    if (ca_of_clients != NULL) {
        o.tls_cert = certs_path(&certs, "worker.pem");
        o.tls_key = certs_path(&certs, "worker.key");
    }
    c = open_worker(shards.addresses, 0, &o);
    ps_client_close(c);
}

START_TEST(intruders_get_nothing)
{
    const char *ca = certs_path(&certs, "ca.pem");

    tls_start(1, OPTIONS("--tls-client-ca", ca));
    gets_nothing(NULL, NULL, TLS1_3_VERSION);
    gets_nothing("old.pem", "old.key", TLS1_3_VERSION);
    gets_nothing("stranger.pem", "stranger.key", TLS1_3_VERSION);
    gets_nothing("worker.pem", "worker.key", TLS1_2_VERSION);
    still_serves(ca);
}
END_TEST

START_TEST(half_a_handshake_and_none_of_it_end)
{
    static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, zeros[64] = {0};
    struct pollfd p;
    int fd[3];

    tls_start(1, OPTIONS("--hello-timeout", "1s"));
    for (int i = 0; i < 3; i++)
        fd[i] = tls_dial(shards.address[0]);
    ck_assert_int_eq(write(fd[0], hello, sizeof hello), sizeof hello); /* and no more: its time ends */
    hears_the_end(fd[0]);
    hears_the_end(fd[1]); /* silence */
    close(fd[2]);
    fd[0] = tls_dial(shards.address[0]);
    ck_assert_int_eq(write(fd[0], hello, sizeof hello), sizeof hello);
    close(fd[0]);
    fd[0] = tls_dial(shards.address[0]); /* no TLS, and no psd */
    ck_assert_int_eq(write(fd[0], zeros, sizeof zeros), sizeof zeros);
    p = (struct pollfd){.fd = fd[0], .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
    hears_the_end(fd[0]);
    still_serves(NULL);
}
END_TEST

/* Bytes that are no record, a record of another connection, a frame without TLS. */
static const char *const garbage[] = {"garbage, and no end of it", "\x17\x03\x03\x01\x00garbage in what looks like one",
                                      "PSD1\x06\0\x0f\0"};

START_TEST(garbage_after_the_handshake_ends_it)
{
    struct raw r;
    uint8_t bytes[512] = {0};

    tls_start(1, OPTIONS(NULL));
    raw_open(&r, NULL, NULL, TLS1_3_VERSION);
    ck_assert_int_eq(SSL_connect(r.ssl), 1);
    memcpy(bytes, garbage[_i], 8);
    memcpy(bytes, garbage[_i], strlen(garbage[_i]));
    ck_assert_int_eq(write(r.fd, bytes, sizeof bytes), sizeof bytes);
    hears_the_end(dup(r.fd));
    raw_close(&r);
    close(r.fd);
    still_serves(NULL);
}
END_TEST

/* A peer that speaks TLS but no frames gets the same error as any other. */
START_TEST(bytes_that_are_no_frames_are_answered_within)
{
    struct raw r;
    char answer[4096];
    int n;

    tls_start(1, OPTIONS(NULL));
    raw_open(&r, NULL, NULL, TLS1_3_VERSION);
    ck_assert_int_eq(SSL_connect(r.ssl), 1);
    ck_assert_int_eq(SSL_write(r.ssl, "GET / HTTP/1.1\r\nHost: a\r\n\r\n........", 36), 36);
    ck_assert_int_gt(n = SSL_read(r.ssl, answer, sizeof answer), 0);
    ck_assert(memmem(answer, (size_t)n, "this looks like HTTP", 20) != NULL);
    ck_assert_int_le(SSL_read(r.ssl, answer, sizeof answer), 0);
    ck_assert_int_eq(SSL_get_error(r.ssl, 0), SSL_ERROR_ZERO_RETURN); /* it has closed the TLS stream properly */
    raw_close(&r);
    close(r.fd);
}
END_TEST

/* One more than there may be: the oldest is closed, and the new one is served. */
START_TEST(silent_newcomers_hold_nobody_off)
{
    static int fd[TLS_LISTENER_HANDSHAKES_MAX + 1];
    struct rlimit limit;
    struct pollfd p;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    tls_start(1, OPTIONS(NULL));
    for (int i = 0; i <= TLS_LISTENER_HANDSHAKES_MAX; i++)
        fd[i] = tls_dial(shards.address[0]);
    hears_the_end(fd[0]);
    still_serves(NULL);
    p = (struct pollfd){.fd = fd[TLS_LISTENER_HANDSHAKES_MAX], .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    for (int i = 1; i <= TLS_LISTENER_HANDSHAKES_MAX; i++)
        close(fd[i]);
}
END_TEST

/* A server with an old certificate, which psd itself would not use: it shakes hands once. */
static void *
serve_old(void *arg)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    int fd = accept(*(int *)arg, NULL, NULL);
    SSL *ssl;

    if (SSL_CTX_use_certificate_file(context, certs_path(&certs, "old.pem"), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, certs_path(&certs, "old.key"), SSL_FILETYPE_PEM) != 1)
        abort();
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    (void)SSL_accept(ssl);
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    return NULL;
}

START_TEST(a_shard_whose_certificate_has_expired_is_not_spoken_to)
{
    struct ps_client_options o = tls_believing("ca.pem");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    char address[64];

    signal(SIGPIPE, SIG_IGN);
    ck_assert(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 8) == 0 &&
              getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, serve_old, &listener), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    tls_refused(address, &o, "(CN=old) has expired on ");
    pthread_join(thread, NULL);
    close(listener);
}
END_TEST

START_TEST(psd_does_not_start_with_files_that_are_none)
{
    tls_start(1, OPTIONS(NULL));
    shards_kill(&shards, 0);
    certs_make_old(&certs, "psd");
    ck_assert_int_gt(shards_refused(&shards, 0), 0);
    ck_assert(shards_said(&shards, 0, "has expired on "));
}
END_TEST

/* ---- Again ---- */

START_TEST(certificates_are_renewed_while_it_serves)
{
    struct ps_client_options o = tls_believing("ca.pem"), other = tls_believing("other.pem");
    ps_client *before, *after;

    tls_start(1, OPTIONS("--log-level", "info"));
    before = open_worker(shards.addresses, 0, &o);
    certs_make(&certs, &(struct cert_spec){.file = "psd", .cn = "renewed", .issuer = "other", .names = "IP:127.0.0.1"});
    shards_hang_up(&shards, 0, "were read again, for new connections certificate=\"CN=renewed, until ");
    after = open_worker(shards.addresses, 1, &other);
    tls_train(after, "w");
    tls_train(before, "v"); /* it goes on with what it began with */
    ps_client_close(before);
    ps_client_close(after);
    tls_refused(shards.addresses, &o, "is of an unknown issuer");
}
END_TEST

START_TEST(bad_files_after_a_hangup_change_nothing)
{
    struct ps_client_options o = tls_believing("ca.pem");
    ps_client *c;

    tls_start(1, OPTIONS("--log-level", "info"));
    if (_i == 0)
        certs_write(&certs, "psd.pem", "nonsense");
    else if (_i == 1)
        certs_make_old(&certs, "psd");
    else
        ck_assert_int_eq(rename(certs_path(&certs, "worker.key"), certs_path(&certs, "psd.key")), 0);
    shards_hang_up(&shards, 0, "certificate, key and CA stay as they are: ");
    c = open_worker(shards.addresses, 0, &o);
    tls_train(c, "w");
    ps_client_close(c);
}
END_TEST

/* ---- Groups ---- */

enum { SUM = 500000 };

static void
tls_sum(ps_group *g, float *x, size_t n)
{
    ps_work *work;

    need_ok(ps_group_all_reduce(g, x, x, n, PS_F32, PS_SUM, &work, &error));
    need_ok(ps_work_wait(work, WAIT_MS, &error));
    ps_work_free(work);
}

static void
add_up(ps_group *g, void *arg)
{
    float *x = malloc(SUM * sizeof *x);
    uint32_t ranks = ps_group_ranks(g), rank = ps_group_rank(g);

    need(strcmp(ps_group_transport(g, rank == 0 ? 1 : 0), arg) == 0);
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < SUM; i++)
            x[i] = (float)rank + (float)(i % 7);
        tls_sum(g, x, SUM);
        for (int i = 0; i < SUM; i++)
            need(x[i] == (float)(ranks * (ranks - 1) / 2 + ranks * (uint32_t)(i % 7)));
    }
    free(x);
}

START_TEST(ranks_reduce_over_it)
{
    struct ps_group_options o = {.transport = _i == 0 ? PS_TRANSPORT_TCP : PS_TRANSPORT_AUTO,
                                 .tls_ca = certs_path(&certs, "ca.pem"),
                                 .tls_cert = certs_path(&certs, "worker.pem"),
                                 .tls_key = certs_path(&certs, "worker.key")};
    struct ranks r;

    ranks_start(&r, 3, 0, &o, add_up, _i == 0 ? "tcp" : "shm");
    ranks_end(&r);
}
END_TEST

/* Two workers that meet at a shard, each a process. */
static void
meet_and_add(uint32_t task, const char *ca, const char *cert, enum ps_err expected)
{
    struct ps_group_options o = {.transport = PS_TRANSPORT_TCP, .timeout_ms = WAIT_MS};
    ps_cluster *cluster;
    ps_group *g;
    char key[32];
    float x = (float)task;

    snprintf(key, sizeof key, "%.8s.key", cert);
    o.tls_ca = certs_path(&certs, ca);
    o.tls_key = certs_path(&certs, key);
    snprintf(key, sizeof key, "%.8s.pem", cert);
    o.tls_cert = certs_path(&certs, key);
    need_ok(ps_cluster_from_list(shards.address[0], 2, task, &cluster, &error));
    need_ok(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    need(ps_group_open(cluster, &o, &g, &error) == expected);
    if (expected == PS_OK) {
        tls_sum(g, &x, 1);
        need(x == 1);
        ps_group_close(g);
    }
    ps_cluster_free(cluster);
}

START_TEST(workers_meet_at_a_shard)
{
    const char *ca = certs_path(&certs, "ca.pem");
    int status;
    pid_t pid;

    tls_start(1, OPTIONS("--tls-client-ca", ca));
    if ((pid = fork()) == 0) {
        meet_and_add(1, "ca.pem", "worker", PS_OK);
        _exit(0);
    }
    meet_and_add(0, "ca.pem", "worker", PS_OK);
    ck_assert(waitpid(pid, &status, 0) == pid && status == 0);
    meet_and_add(0, "ca.pem", "stranger", PS_ERR_TLS);
    meet_and_add(0, "other.pem", "stranger", PS_ERR_TLS);
}
END_TEST

START_TEST(a_group_needs_certificates)
{
    struct ps_group_options o = {.tls_ca = certs_path(&certs, "ca.pem")};
    ps_cluster *cluster;
    ps_group *g;

    ck_assert_int_eq(ps_cluster_from_list("127.0.0.1:1", 2, 0, &cluster, &error), PS_OK);
    ck_assert_int_eq(ps_group_open(cluster, &o, &g, &error), PS_ERR_CONFIG);
    ck_assert_msg(strstr(error.text, "needs a certificate") != NULL, "%s", error.text);
    ps_cluster_free(cluster);
}
END_TEST

/* ---- Programs ---- */

START_TEST(psctl_looks_through_it)
{
    const char *psctl = getenv("PSCTL_BIN"), *ca = certs_path(&certs, "ca.pem");

    ck_assert_ptr_nonnull(psctl);
    tls_start(1, OPTIONS("--tls-client-ca", ca));
    ck_assert_int_eq(shards_shell("%s --shards %s --tls-ca %s --tls-cert %s --tls-key %s status > %s/out", psctl,
                                  shards.address[0], ca, certs_path(&certs, "worker.pem"),
                                  certs_path(&certs, "worker.key"), certs.dir),
                     0);
    ck_assert_int_eq(shards_shell("grep -q serving %s/out", certs.dir), 0);
    ck_assert_int_ne(
        shards_shell("%s --shards %s --tls-ca %s status > %s/out 2>&1", psctl, shards.address[0], ca, certs.dir), 0);
    ck_assert_int_eq(shards_shell("grep -q 'demands a certificate' %s/out", certs.dir), 0);
}
END_TEST

START_TEST(openssl_s_client_agrees)
{
    if (shards_shell("command -v openssl >/dev/null") != 0)
        return; /* the library's peers above show the same */
    tls_start(1, OPTIONS(NULL));
    ck_assert_int_eq(shards_shell("openssl s_client -connect %s -CAfile %s -verify_return_error -verify_ip 127.0.0.1 "
                                  "</dev/null >%s/out 2>&1",
                                  shards.address[0], certs_path(&certs, "ca.pem"), certs.dir),
                     0);
    ck_assert_int_eq(shards_shell("grep -q 'New, TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256' %s/out", certs.dir), 0);
}
END_TEST

static Suite *
tls_make(void)
{
    Suite *s = suite_create("tls");
    TCase *t = tcase_create("tls");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, workers_train_over_it);
    tcase_add_test(t, the_environment_says_so);
    tcase_add_test(t, memory_is_shared_after_the_handshake);
    tcase_add_test(t, unix_sockets_stay_as_they_are);
    tcase_add_test(t, many_connections_go_on_side_by_side);
    tcase_add_test(t, a_worker_with_a_certificate_is_let_in_where_it_is_demanded);
    tcase_add_test(t, a_worker_finds_its_shard_again);
    tcase_add_test(t, who_is_no_shard_of_ours_is_not_spoken_to);
    tcase_add_test(t, one_side_without_tls_is_told_so);
    tcase_add_test(t, files_that_are_none_are_refused_at_once);
    tcase_add_test(t, intruders_get_nothing);
    tcase_add_test(t, half_a_handshake_and_none_of_it_end);
    tcase_add_loop_test(t, garbage_after_the_handshake_ends_it, 0, ARRAY_LEN(garbage));
    tcase_add_test(t, bytes_that_are_no_frames_are_answered_within);
    tcase_add_test(t, silent_newcomers_hold_nobody_off);
    tcase_add_test(t, a_shard_whose_certificate_has_expired_is_not_spoken_to);
    tcase_add_test(t, psd_does_not_start_with_files_that_are_none);
    tcase_add_test(t, certificates_are_renewed_while_it_serves);
    tcase_add_loop_test(t, bad_files_after_a_hangup_change_nothing, 0, 3);
    tcase_add_loop_test(t, ranks_reduce_over_it, 0, 2);
    tcase_add_test(t, workers_meet_at_a_shard);
    tcase_add_test(t, a_group_needs_certificates);
    tcase_add_test(t, psctl_looks_through_it);
    tcase_add_test(t, openssl_s_client_agrees);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(tls_make)
