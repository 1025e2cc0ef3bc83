/* TLS on its own: which files are accepted, and two sides that communicate over memory, byte by byte or all at once.
 * Sides that do not match fail, and the sentence says why. */
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/net/conn.h"
#include "common/net/tls_stream.h"
#include "tests/certs.h"
#include "tests/unit/kits/check_main.h"

static struct certs certs;
static struct tls *usual_client, *usual_server; /* a pair that matches */

/* ---- Files ---- */

static struct tls_files
tls_files(const char *cert, const char *key, const char *ca)
{
    return (struct tls_files){.cert = cert != NULL ? certs_path(&certs, cert) : NULL,
                              .key = key != NULL ? certs_path(&certs, key) : NULL,
                              .ca = ca != NULL ? certs_path(&certs, ca) : NULL};
}

static struct tls *
tls_context(enum tls_side side, const char *cert, const char *key, const char *ca)
{
    struct tls_files f = tls_files(cert, key, ca);
    struct ps_error e = {0};
    struct tls *t;

    ck_assert_msg(tls_new(side, &f, &t, &e) == PS_OK, "%s", e.text);
    return t;
}

static void
tls_refused(enum tls_side side, const struct tls_files *f, const char *text)
{
    struct ps_error e = {0};
    struct tls *t;

    ck_assert_int_eq(tls_new(side, f, &t, &e), PS_ERR_CONFIG);
    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(e.text, text) != NULL, "\"%s\" says nothing of \"%s\"", e.text, text);
}

static void
make_all(void)
{
    certs_open(&certs);
    certs_make_cas(&certs);
    certs_make(&certs, &(struct cert_spec){.file = "psd", .issuer = "ca", .names = "DNS:shard.example,IP:127.0.0.1"});
    certs_make(&certs, &(struct cert_spec){.file = "worker", .issuer = "ca", .usage = "clientAuth"});
    certs_make(&certs, &(struct cert_spec){.file = "stranger", .issuer = "other", .names = "IP:127.0.0.1"});
    certs_make_old(&certs, "old");
    certs_make(&certs, &(struct cert_spec){
                           .file = "early", .issuer = "ca", .from_s = CERTS_HOUR_S, .until_s = 48 * CERTS_HOUR_S});
    certs_make(&certs, &(struct cert_spec){.file = "open", .issuer = "ca"});
    ck_assert_int_eq(chmod(certs_path(&certs, "open.key"), 0644), 0);
    certs_make(&certs, &(struct cert_spec){.file = "shut", .issuer = "ca", .passphrase = "secret"});
    certs_write(&certs, "nonsense.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    certs_write(&certs, "empty.pem", "");
    usual_client = tls_context(TLS_CLIENT, NULL, NULL, "ca.pem");
    usual_server = tls_context(TLS_SERVER, "psd.pem", "psd.key", NULL);
}

static void
remove_all(void)
{
    tls_free(usual_client);
    tls_free(usual_server);
    certs_close(&certs);
}

START_TEST(good_files_are_taken)
{
    struct tls *t = tls_context(TLS_SERVER, "psd.pem", "psd.key", NULL);

    ck_assert(!tls_authenticates(t));
    ck_assert_msg(strncmp(tls_shows(t), "CN=psd, until ", 14) == 0, "%s", tls_shows(t));
    tls_free(t);
    t = tls_context(TLS_SERVER, "psd.pem", "psd.key", "ca.pem");
    ck_assert(tls_authenticates(t));
    tls_free(t);
    t = tls_context(TLS_CLIENT, NULL, NULL, "ca.pem");
    ck_assert(!tls_authenticates(t));
    ck_assert_str_eq(tls_shows(t), "");
    tls_free(t);
    tls_free(NULL);
}
END_TEST

/* To the second, and again when it was renewed; as far as certificates go. */
START_TEST(it_is_known_when_they_end)
{
    struct tls_files f = tls_files("soon.pem", "soon.key", NULL);
    struct ps_error e;
    struct tls *t;

    certs_make(&certs, &(struct cert_spec){.file = "soon", .from_s = -CERTS_HOUR_S, .until_s = 3 * CERTS_HOUR_S});
    t = tls_context(TLS_SERVER, "soon.pem", "soon.key", NULL);
    ck_assert(certs_end_at(&certs, "soon", (double)tls_ends(t)));
    ck_assert(!certs_end_at(&certs, "soon", (double)tls_ends(t) + 1));
    certs_make(&certs,
               &(struct cert_spec){.file = "soon", .from_s = -CERTS_HOUR_S, .until_s = 24 * 365 * 900 * CERTS_HOUR_S});
    ck_assert_int_eq(tls_reload(t, &f, &e), PS_OK);
    ck_assert(certs_end_at(&certs, "soon", (double)tls_ends(t)));
    f = tls_files("old.pem", "old.key", NULL);
    ck_assert_int_eq(tls_reload(t, &f, &e), PS_ERR_CONFIG);
    ck_assert(certs_end_at(&certs, "soon", (double)tls_ends(t)));
    tls_free(t);
    ck_assert_uint_eq(tls_ends(usual_client), 0);
}
END_TEST

static const struct {
    enum tls_side side;
    const char *cert, *key, *ca, *text;
} bad[] = {
    {TLS_SERVER, NULL, NULL, "ca.pem", "TLS needs a certificate"},
    {TLS_SERVER, "psd.pem", NULL, NULL, "no key that belongs to it"},
    {TLS_SERVER, NULL, "psd.key", NULL, "no certificate that it belongs to"},
    {TLS_SERVER, "none.pem", "psd.key", NULL, "none.pem': No such file"},
    {TLS_SERVER, "psd.pem", "none.key", NULL, "none.key': No such file"},
    {TLS_SERVER, "psd.pem", "psd.key", "none.pem", "none.pem': No such file"},
    {TLS_SERVER, "psd.pem", "worker.key", NULL, "worker.key' does not belong to the certificate"},
    {TLS_SERVER, "old.pem", "old.key", NULL, "(CN=old) has expired on "},
    {TLS_SERVER, "early.pem", "early.key", NULL, "(CN=early) is valid from "},
    {TLS_SERVER, "shut.pem", "shut.key", NULL, "is protected by a passphrase"},
    {TLS_SERVER, "nonsense.pem", "psd.key", NULL, "nonsense.pem' is no certificate"},
    {TLS_SERVER, "empty.pem", "psd.key", NULL, "empty.pem' holds no certificate"},
    {TLS_SERVER, "psd.key", "psd.key", NULL, "psd.key' holds no certificate"},
    {TLS_SERVER, "psd.pem", "psd.pem", NULL, "psd.pem"},
    {TLS_SERVER, "open.pem", "open.key", NULL, "open.key has mode 644, so others may use what is secret in it"},
    {TLS_SERVER, "psd.pem", "psd.key", "empty.pem", "empty.pem' holds no CA certificate"},
    {TLS_CLIENT, NULL, NULL, "none.pem", "none.pem': No such file"},
    {TLS_CLIENT, NULL, NULL, "nonsense.pem", "nonsense.pem' "},
    {TLS_CLIENT, "worker.pem", "worker.key", NULL, "no CA by which"},
};

START_TEST(bad_files_are_refused_by_name)
{
    struct tls_files f = tls_files(bad[_i].cert, bad[_i].key, bad[_i].ca);

    tls_refused(bad[_i].side, &f, bad[_i].text);
}
END_TEST

/* ---- Two sides ---- */

/* Bytes on the way to one side. */
struct pipe {
    uint8_t *data;
    size_t len, at, size;
    size_t most;    /* handed out at once; 0: all */
    bool ended;     /* after these */
    bool no_memory; /* for the side that writes into it */
};

struct tls_end {
    struct tls_stream *s;
    struct pipe *in, *out;
    bool done;
};

struct tls_pair {
    struct pipe to[2];
    struct tls_end end[2]; /* client, server */
};

static long
pipe_read(void *arg, void *data, size_t n)
{
    struct pipe *p = ((struct tls_end *)arg)->in;
    size_t m = MIN(n, p->len - p->at);

    if (m == 0)
        return p->ended ? 0 : -1;
    if (p->most > 0)
        m = MIN(m, p->most);
    memcpy(data, p->data + p->at, m);
    p->at += m;
    return (long)m;
}

static void
pipe_put(struct pipe *p, const void *data, size_t n)
{
    if (p->len + n > p->size) {
        p->size = 2 * (p->len + n);
        ck_assert_ptr_nonnull(p->data = realloc(p->data, p->size));
    }
    memcpy(p->data + p->len, data, n);
    p->len += n;
}

static bool
pipe_write(void *arg, const void *data, size_t n)
{
    struct pipe *p = ((struct tls_end *)arg)->out;

    if (p->no_memory)
        return false;
    pipe_put(p, data, n);
    return true;
}

static const struct tls_io io = {.read = pipe_read, .write = pipe_write};

static struct tls_stream *
tls_make_stream(const struct tls *t, const char *name, struct tls_end *arg)
{
    struct tls_stream *s;
    struct ps_error e;

    ck_assert_msg(tls_stream_new(t, name, &io, arg, &s, &e) == PS_OK, "%s", e.text);
    return s;
}

static void
pair_open(struct tls_pair *p, const struct tls *client, const char *name, const struct tls *server)
{
    *p = (struct tls_pair){0};
    for (unsigned i = 0; i < 2; i++) {
        p->end[i].in = &p->to[i];
        p->end[i].out = &p->to[1 - i];
    }
    p->end[0].s = tls_make_stream(client, name, &p->end[0]);
    p->end[1].s = tls_make_stream(server, NULL, &p->end[1]);
}

static void
pair_close(struct tls_pair *p)
{
    for (unsigned i = 0; i < 2; i++) {
        tls_stream_free(p->end[i].s);
        free(p->to[i].data);
    }
}

/* Until neither side has anything to do. The first failure: its side, with *e; -1: none. */
static int
tls_shake(struct tls_pair *p, struct ps_error *e)
{
    for (unsigned idle = 0, i = 0; idle < 2; i = 1 - i, idle++) {
        size_t before = p->end[i].out->len, read = p->end[i].in->at;
        enum tls_step step;

        if (p->end[i].done)
            continue;
        step = tls_stream_handshake(p->end[i].s, e);
        if (step == TLS_BAD || step == TLS_END)
            return (int)i;
        p->end[i].done = step == TLS_DONE;
        if (p->end[i].done || p->end[i].out->len > before || p->end[i].in->at > read)
            idle = 0;
    }
    return -1;
}

/* Both handshakes succeed. */
static void
pair_meet(struct tls_pair *p, const struct tls *client, const char *name, const struct tls *server)
{
    struct ps_error e = {0};
    int failed;

    pair_open(p, client, name, server);
    failed = tls_shake(p, &e);
    ck_assert_msg(failed < 0 && p->end[0].done && p->end[1].done, "%d: %s", failed, e.text);
}

static void
tls_send(struct tls_pair *p, unsigned from, const void *data, size_t n)
{
    uint8_t *got = malloc(n);
    size_t have = 0, m;
    struct ps_error e;

    ck_assert_ptr_nonnull(got);
    for (size_t at = 0; at < n; at += m) {
        m = MIN(n - at, TLS_RECORD_MAX);
        ck_assert(tls_stream_write(p->end[from].s, (const uint8_t *)data + at, m));
    }
    while (have < n) {
        ck_assert_int_eq(tls_stream_read(p->end[1 - from].s, got + have, n - have, &m, &e), TLS_DONE);
        have += m;
    }
    ck_assert(memcmp(got, data, n) == 0);
    ck_assert_int_eq(tls_stream_read(p->end[1 - from].s, got, 1, &m, &e), TLS_WAIT);
    free(got);
}

START_TEST(what_one_side_says_the_other_hears)
{
    static const size_t lengths[] = {1, 7, 4096, 16384, 16385, 1000003};
    uint8_t *data = malloc(1000003);
    struct tls_pair p;

    for (size_t i = 0; i < 1000003; i++)
        data[i] = (uint8_t)(i * 0x9e3779b1u >> 24);
    pair_open(&p, usual_client, _i == 0 ? "shard.example" : "127.0.0.1", usual_server);
    p.to[0].most = p.to[1].most = _i == 0 ? 0 : 1; /* byte by byte */
    ck_assert_int_eq(tls_shake(&p, NULL), -1);
    p.to[0].most = p.to[1].most = _i == 0 ? 0 : 17000;
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        tls_send(&p, i % 2, data, lengths[i]);
    pair_close(&p);
    free(data);
}
END_TEST

START_TEST(both_sides_know_the_binding_and_no_other_connection_has_it)
{
    uint8_t one[2][TLS_BINDING_SIZE], two[2][TLS_BINDING_SIZE];
    struct tls_pair p, q;

    pair_open(&p, usual_client, "127.0.0.1", usual_server);
    ck_assert(!tls_stream_binding(p.end[0].s, one[0]));
    ck_assert_int_eq(tls_shake(&p, NULL), -1);
    pair_meet(&q, usual_client, "127.0.0.1", usual_server);
    for (unsigned i = 0; i < 2; i++)
        ck_assert(tls_stream_binding(p.end[i].s, one[i]) && tls_stream_binding(q.end[i].s, two[i]));
    ck_assert(memcmp(one[0], one[1], TLS_BINDING_SIZE) == 0 && memcmp(two[0], two[1], TLS_BINDING_SIZE) == 0);
    ck_assert(memcmp(one[0], two[0], TLS_BINDING_SIZE) != 0);
    pair_close(&p);
    pair_close(&q);
}
END_TEST

/* ---- Sides that do not match ---- */

static const struct {
    const char *client_ca, *client_cert, *name, *server_cert, *server_ca;
    const char *client_says, *server_says; /* NULL: nothing is wrong for it */
} strangers[] = {
    {"other.pem", NULL, "127.0.0.1", "psd", NULL, "(CN=psd, issued by CN=ca) is of an unknown issuer",
     "does not know the CA of our certificate"},
    {"ca.pem", NULL, "127.0.0.2", "psd", NULL, "(CN=psd) does not name '127.0.0.2'", "certificate"},
    {"ca.pem", NULL, "elsewhere.example", "psd", NULL, "does not name 'elsewhere.example'", "certificate"},
    {"ca.pem", NULL, "psd", "psd", NULL, "does not name 'psd'", "certificate"}, /* a CN is not asked */
    {"ca.pem", NULL, "127.0.0.1", "worker", NULL, "is not meant for this", "certificate"},
    {"ca.pem", NULL, "127.0.0.1", "psd", "ca.pem", "demands a certificate", "showed no certificate"},
    {"ca.pem", "stranger", "127.0.0.1", "psd", "ca.pem", "does not know the CA of our certificate",
     "(CN=stranger, issued by CN=other) is of an unknown issuer"},
};

static void
tls_receives(struct tls_pair *p, unsigned i, const char *text)
{
    struct ps_error e = {0};
    uint8_t byte;
    size_t n;
    enum tls_step step =
        p->end[i].done ? tls_stream_read(p->end[i].s, &byte, 1, &n, &e) : tls_stream_handshake(p->end[i].s, &e);

    ck_assert_int_eq(step, TLS_BAD);
    ck_assert_int_eq(e.code, PS_ERR_TLS);
    ck_assert_msg(strstr(e.text, text) != NULL, "\"%s\" says nothing of \"%s\"", e.text, text);
}

START_TEST(who_is_not_believed_is_told_why)
{
    char cert[2][32], key[2][32];
    struct tls *client, *server;
    struct ps_error e = {0};
    struct tls_pair p;
    const char *said[2] = {strangers[_i].client_says, strangers[_i].server_says};
    bool own = strangers[_i].client_cert != NULL;
    int failed;

    snprintf(cert[0], 32, "%s.pem", own ? strangers[_i].client_cert : "");
    snprintf(key[0], 32, "%s.key", own ? strangers[_i].client_cert : "");
    snprintf(cert[1], 32, "%s.pem", strangers[_i].server_cert);
    snprintf(key[1], 32, "%s.key", strangers[_i].server_cert);
    client = tls_context(TLS_CLIENT, own ? cert[0] : NULL, own ? key[0] : NULL, strangers[_i].client_ca);
    server = tls_context(TLS_SERVER, cert[1], key[1], strangers[_i].server_ca);
    pair_open(&p, client, strangers[_i].name, server);
    failed = tls_shake(&p, &e);
    ck_assert_int_ge(failed, 0);
    ck_assert_int_eq(e.code, PS_ERR_TLS);
    ck_assert_msg(strstr(e.text, said[failed]) != NULL, "\"%s\" says nothing of \"%s\"", e.text, said[failed]);
    tls_receives(&p, 1 - (unsigned)failed, said[1 - failed]);
    pair_close(&p);
    tls_free(client);
    tls_free(server);
}
END_TEST

START_TEST(a_client_with_a_certificate_is_let_in)
{
    struct tls *client = tls_context(TLS_CLIENT, "worker.pem", "worker.key", "ca.pem");
    struct tls *server = tls_context(TLS_SERVER, "psd.pem", "psd.key", "ca.pem");
    struct tls_pair p;

    pair_meet(&p, client, "shard.example", server);
    tls_send(&p, 0, "hello", 5);
    tls_send(&p, 1, "welcome", 7);
    pair_close(&p);
    tls_free(client);
    tls_free(server);
}
END_TEST

/* The first bytes of a peer that does not speak TLS, to either side. */
static const struct {
    const char *bytes;
    const char *client_says, *server_says;
} foreign[] = {
    {"PSD1\5\0\1\0", "it was started without a certificate", "which is required here"},
    {"GET / HTTP/1.1\r\n\r\n", "speaks HTTP", "speaks HTTP"},
    {"SSH-2.0-OpenSSH\r\n", "does not speak TLS", "does not speak TLS"},
    {"\x16\x03\x01\x7f\xff garbage", "", ""},
};

START_TEST(strangers_are_named)
{
    const struct tls *t[2] = {usual_client, usual_server};

    for (unsigned side = 0; side < 2; side++) {
        struct pipe in = {0}, out = {0};
        struct tls_end end = {.in = &in, .out = &out};
        const char *said = side == 0 ? foreign[_i].client_says : foreign[_i].server_says;
        struct ps_error e = {0};
        uint8_t bytes[64] = {0};

        end.s = tls_make_stream(t[side], "127.0.0.1", &end);
        memcpy(bytes, foreign[_i].bytes, 8);
        memcpy(bytes, foreign[_i].bytes, strlen(foreign[_i].bytes));
        pipe_put(&in, bytes, sizeof bytes);
        ck_assert_int_eq(tls_stream_handshake(end.s, &e), TLS_BAD);
        ck_assert_int_eq(e.code, PS_ERR_TLS);
        ck_assert_msg(strstr(e.text, said) != NULL, "\"%s\" says nothing of \"%s\"", e.text, said);
        tls_stream_free(end.s);
        free(in.data);
        free(out.data);
    }
}
END_TEST

/* A raw client of OpenSSL that speaks no more than TLS 1.2. */
START_TEST(older_versions_are_refused)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl;
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    struct pipe to = {0}, from = {0};
    struct tls_end end = {.in = &to, .out = &from};
    struct ps_error e = {0};
    uint8_t hello[4096];
    int n;

    SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
    ssl = SSL_new(context);
    SSL_set_bio(ssl, in, out);
    SSL_set_connect_state(ssl);
    ck_assert_int_lt(SSL_do_handshake(ssl), 1);
    ck_assert_int_gt(n = BIO_read(out, hello, sizeof hello), 0);
    end.s = tls_make_stream(usual_server, NULL, &end);
    pipe_put(&to, hello, (size_t)n);
    ck_assert_int_eq(tls_stream_handshake(end.s, &e), TLS_BAD);
    ck_assert_int_eq(e.code, PS_ERR_TLS);
    ck_assert_msg(strstr(e.text, "offers no TLS 1.3") != NULL, "%s", e.text);
    ck_assert_int_gt(from.len, 0); /* it receives an alert, too */
    tls_stream_free(end.s);
    SSL_free(ssl);
    SSL_CTX_free(context);
    free(to.data);
    free(from.data);
}
END_TEST

START_TEST(a_handshake_has_a_bound)
{
    struct pipe to = {0}, from = {0};
    struct tls_end end = {.in = &to, .out = &from};
    uint8_t record[5 + 4 + 16000] = {0x16, 3, 1, (4 + 16000) >> 8, (4 + 16000) & 0xff, 1, 1, 0xff, 0xff};
    struct ps_error e = {0};

    end.s = tls_make_stream(usual_server, NULL, &end);
    for (unsigned i = 0; i < 20; i++) {
        pipe_put(&to, record, sizeof record);
        memset(record + 5, 0, 4); /* it goes on */
    }
    ck_assert_int_eq(tls_stream_handshake(end.s, &e), TLS_BAD);
    ck_assert_int_eq(e.code, PS_ERR_TLS);
    ck_assert_uint_le(to.at, TLS_HANDSHAKE_MAX);
    tls_stream_free(end.s);
    free(to.data);
    free(from.data);
}
END_TEST

/* ---- Ends ---- */

START_TEST(the_end_is_told_with_a_last_record_and_without)
{
    struct ps_error e = {0};
    struct tls_pair p;
    uint8_t byte;
    size_t n;

    pair_meet(&p, usual_client, "127.0.0.1", usual_server);
    tls_send(&p, 0, "hello", 5);
    if (_i == 0)
        tls_stream_bye(p.end[0].s);
    p.to[1].ended = _i == 1;
    ck_assert_int_eq(tls_stream_read(p.end[1].s, &byte, 1, &n, &e), TLS_END);
    ck_assert_int_eq(tls_stream_read(p.end[1].s, &byte, 1, &n, &e), TLS_END);
    pair_close(&p);
    pair_open(&p, usual_client, "127.0.0.1", usual_server);
    p.to[1].ended = true;
    ck_assert_int_eq(tls_stream_handshake(p.end[1].s, &e), TLS_END);
    pair_close(&p);
}
END_TEST

/* A record that was changed on the way, one that was sent twice, one that was made up. */
START_TEST(records_of_somebody_else_end_it)
{
    static const uint8_t made_up[] = {0x17, 3,  3,  0,  32, 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                                      15,   16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
    struct ps_error e = {0};
    uint8_t bytes[64], copy[256];
    struct tls_pair p;
    size_t n, begin;

    pair_meet(&p, usual_client, "127.0.0.1", usual_server);
    begin = p.to[1].len;
    ck_assert(tls_stream_write(p.end[0].s, "a gradient", 10));
    if (_i == 0)
        p.to[1].data[begin + 9] ^= 1;
    if (_i == 1) {
        n = p.to[1].len - begin;
        memcpy(copy, p.to[1].data + begin, n);
        pipe_put(&p.to[1], copy, n);
        ck_assert_int_eq(tls_stream_read(p.end[1].s, bytes, sizeof bytes, &n, &e), TLS_DONE);
    }
    if (_i == 2) {
        p.to[1].len = begin;
        pipe_put(&p.to[1], made_up, sizeof made_up);
    }
    ck_assert_int_eq(tls_stream_read(p.end[1].s, bytes, sizeof bytes, &n, &e), TLS_BAD);
    ck_assert_int_eq(e.code, PS_ERR_CLOSED);
    ck_assert_msg(strstr(e.text, "damaged or tampered with") != NULL, "%s", e.text);
    pair_close(&p);
}
END_TEST

START_TEST(no_memory_for_what_it_says_is_told)
{
    struct ps_error e = {0};
    struct tls_pair p;

    pair_open(&p, usual_client, "127.0.0.1", usual_server);
    p.to[1].no_memory = true;
    ck_assert_int_eq(tls_stream_handshake(p.end[0].s, &e), TLS_BAD);
    ck_assert_int_eq(e.code, PS_ERR_NOMEM);
    pair_close(&p);
    pair_meet(&p, usual_client, "127.0.0.1", usual_server);
    p.to[1].no_memory = true;
    ck_assert(!tls_stream_write(p.end[0].s, "hello", 5));
    pair_close(&p);
}
END_TEST

/* ---- Again ---- */

START_TEST(files_are_read_again_for_new_connections)
{
    struct tls *other = tls_context(TLS_CLIENT, NULL, NULL, "other.pem");
    struct tls_files f = tls_files("stranger.pem", "stranger.key", NULL);
    struct ps_error e = {0};
    struct tls_pair before, after;

    pair_meet(&before, usual_client, "127.0.0.1", usual_server);
    ck_assert_int_eq(tls_reload(usual_server, &f, &e), PS_OK);
    ck_assert_msg(strstr(tls_shows(usual_server), "CN=stranger") != NULL, "%s", tls_shows(usual_server));
    pair_meet(&after, other, "127.0.0.1", usual_server);
    tls_send(&before, 0, "still here", 10);
    pair_close(&before);
    pair_close(&after);
    tls_free(other);
}
END_TEST

START_TEST(bad_files_change_nothing)
{
    struct tls *client = tls_context(TLS_CLIENT, "worker.pem", "worker.key", "ca.pem");
    struct tls *server = tls_context(TLS_SERVER, "psd.pem", "psd.key", "ca.pem");
    struct tls_files f = tls_files("old.pem", "old.key", NULL);
    struct ps_error e = {0};
    struct tls_pair p;

    ck_assert_int_eq(tls_reload(server, &f, &e), PS_ERR_CONFIG);
    ck_assert_msg(strstr(e.text, "has expired on ") != NULL, "%s", e.text);
    ck_assert(tls_authenticates(server));
    ck_assert_msg(strstr(tls_shows(server), "CN=psd") != NULL, "%s", tls_shows(server));
    pair_meet(&p, client, "127.0.0.1", server);
    pair_close(&p);
    tls_free(client);
    tls_free(server);
}
END_TEST

/* ---- Connections ---- */

#define CONN_FRAMES  8
#define CONN_PAYLOAD (1 * MIB)

static unsigned conn_came, conn_sent, conn_closed;

static uint8_t
conn_byte(unsigned frame, size_t i)
{
    return (uint8_t)(i * 7 + (i >> 8) + frame);
}

static void
conn_on_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    (void)c;
    (void)meta;
    ck_assert_uint_eq(head->payload_len, CONN_PAYLOAD);
    for (size_t i = 0; i < CONN_PAYLOAD; i++)
        if (((const uint8_t *)payload)[i] != conn_byte(conn_came, i))
            ck_abort_msg("byte %zu of frame %u is another", i, conn_came);
    conn_came++;
}

static void
conn_on_ended(struct conn *c, const struct ps_error *why)
{
    (void)c;
    ck_abort_msg("%s", why->text);
}

static void
conn_on_sent(struct conn_out *out, enum ps_err result)
{
    (void)out;
    ck_assert_int_eq(result, PS_OK);
    conn_sent++;
}

static void
conn_on_closed(struct conn *c)
{
    (void)c;
    conn_closed++;
}

/* Neither side reads before the socket is full of records. */
START_TEST(frames_go_on_when_a_full_socket_has_room)
{
    static const struct conn_events events = {.frame = conn_on_frame, .ended = conn_on_ended};
    static uint8_t payload[CONN_FRAMES][CONN_PAYLOAD], head[CONN_FRAMES][FRAME_HEAD_SIZE];
    static struct conn_out out[CONN_FRAMES];
    static struct span part[CONN_FRAMES];
    static struct conn server, client;
    struct conn_pool pool;
    struct ps_error e = {0};
    uv_loop_t loop;
    int fd[2];

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(conn_pool_init(&pool, &loop), PS_OK);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    for (int i = 0; i < 2; i++) {
        struct conn *c = i == 0 ? &server : &client;

        ck_assert_int_eq(conn_init(c, &pool, true, &events, NULL), PS_OK);
        ck_assert_int_eq(
            conn_tls(c, i == 0 ? usual_server : usual_client, i == 0 ? NULL : "127.0.0.1", CONN_TLS_MS, &e), PS_OK);
        ck_assert_int_eq(uv_pipe_open(&c->u.pipe, fd[i]), 0);
        ck_assert_int_eq(conn_start(c, NULL), PS_OK);
    }
    while (!conn_secured(&server) || !conn_secured(&client))
        uv_run(&loop, UV_RUN_ONCE);
    conn_read_pause(&server);
    for (unsigned k = 0; k < CONN_FRAMES; k++) {
        frame_head_encode(&(struct frame_head){.version = FRAME_VERSION, .type = MSG_PUSH, .payload_len = CONN_PAYLOAD},
                          head[k]);
        for (size_t i = 0; i < CONN_PAYLOAD; i++)
            payload[k][i] = conn_byte(k, i);
        part[k] = (struct span){payload[k], CONN_PAYLOAD};
        out[k] = (struct conn_out){
            .done = conn_on_sent, .head = head[k], .head_len = FRAME_HEAD_SIZE, .parts = &part[k], .parts_len = 1};
        conn_send(&client, &out[k], false);
    }
    for (int i = 0; i < 10; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert(conn_queued(&client) && conn_came == 0);
    conn_read_resume(&server);
    while (conn_came < CONN_FRAMES)
        uv_run(&loop, UV_RUN_ONCE);
    ck_assert_uint_eq(conn_sent, CONN_FRAMES);
    ck_assert(!conn_queued(&client));
    conn_finish(&client, conn_on_closed);
    conn_finish(&server, conn_on_closed);
    while (conn_closed < 2)
        uv_run(&loop, UV_RUN_ONCE);
    conn_pool_finish(&pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

static Suite *
tls_make(void)
{
    Suite *s = suite_create("tls");
    TCase *t = tcase_create("tls");

    tcase_add_checked_fixture(t, make_all, remove_all);
    tcase_add_test(t, good_files_are_taken);
    tcase_add_test(t, it_is_known_when_they_end);
    tcase_add_loop_test(t, bad_files_are_refused_by_name, 0, ARRAY_LEN(bad));
    tcase_add_loop_test(t, what_one_side_says_the_other_hears, 0, 2);
    tcase_add_test(t, both_sides_know_the_binding_and_no_other_connection_has_it);
    tcase_add_loop_test(t, who_is_not_believed_is_told_why, 0, ARRAY_LEN(strangers));
    tcase_add_test(t, a_client_with_a_certificate_is_let_in);
    tcase_add_loop_test(t, strangers_are_named, 0, ARRAY_LEN(foreign));
    tcase_add_test(t, older_versions_are_refused);
    tcase_add_test(t, a_handshake_has_a_bound);
    tcase_add_loop_test(t, the_end_is_told_with_a_last_record_and_without, 0, 2);
    tcase_add_loop_test(t, records_of_somebody_else_end_it, 0, 3);
    tcase_add_test(t, no_memory_for_what_it_says_is_told);
    tcase_add_test(t, files_are_read_again_for_new_connections);
    tcase_add_test(t, bad_files_change_nothing);
    tcase_add_test(t, frames_go_on_when_a_full_socket_has_room);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(tls_make)
