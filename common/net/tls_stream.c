#include "common/net/tls_stream.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/address.h"
#include "common/net/tls_internal.h"

#define BINDING_LABEL "EXPORTER-psd-token"
#define STRANGER_LOOK 4 /* bytes by which one that does not speak TLS is known */

struct tls_stream {
    SSL *ssl;
    enum tls_side side;
    const struct tls_io *io;
    void *arg;
    char *wanted;      /* name; NULL: any */
    bool done;         /* the handshake is */
    bool ended;        /* as io.read() reported */
    bool nomem;        /* as io.write() reported */
    bool too_much;     /* the other side has sent TLS_HANDSHAKE_MAX */
    uint64_t received; /* bytes, while the handshake lasts */
    uint8_t first[STRANGER_LOOK];
    bool uncertified;                 /* it presented no certificate, and had to */
    char distrust[PS_ERROR_TEXT_MAX]; /* why its certificate is not trusted; "": it is, or was not seen */
};

/* ---- OpenSSL's way to the owner's functions ---- */

static void
note_first(struct tls_stream *s, const uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n && s->received + i < STRANGER_LOOK; i++)
        s->first[s->received + i] = data[i];
    s->received += n;
}

static int
bio_read(BIO *bio, char *out, int n)
{
    struct tls_stream *s = BIO_get_data(bio);
    long got = -1;

    BIO_clear_retry_flags(bio);
    if (!s->done && s->received >= TLS_HANDSHAKE_MAX)
        s->too_much = true;
    else if (n > 0)
        got = s->io->read(s->arg, out, !s->done ? MIN((size_t)n, TLS_HANDSHAKE_MAX - s->received) : (size_t)n);
    if (got > 0 && !s->done)
        note_first(s, (const uint8_t *)out, (size_t)got);
    if (got == 0)
        s->ended = true;
    if (got < 0)
        BIO_set_retry_read(bio);
    return (int)got;
}

static int
bio_write(BIO *bio, const char *data, int n)
{
    struct tls_stream *s = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (s->io->write(s->arg, data, (size_t)n))
        return n;
    s->nomem = true;
    return -1;
}

static long
bio_ctrl(BIO *bio, int what, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void
make_bio_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "psd");

    if (m == NULL || BIO_meth_set_read(m, bio_read) != 1 || BIO_meth_set_write(m, bio_write) != 1 ||
        BIO_meth_set_ctrl(m, bio_ctrl) != 1) {
        BIO_meth_free(m);
        return;
    }
    bio_method = m;
}

/* One for all, never freed: contexts may be made anywhere, by any thread. */
static bool
have_bio_method(void)
{
    static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;

    return CRYPTO_THREAD_run_once(&once, make_bio_method) == 1 && bio_method != NULL;
}

/* ---- Trust ---- */

/* OpenSSL calls this for each certificate of the chain, to confirm its own judgement. It is confirmed; the reason is
 * recorded here, where the certificate is at hand. */
static int
tls_stream_verify(int good, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls_stream *s = ssl != NULL ? SSL_get_app_data(ssl) : NULL;

    if (!good && s != NULL && s->distrust[0] == '\0')
        tls_error_untrusted(X509_STORE_CTX_get_error(store), X509_STORE_CTX_get_current_cert(store), s->wanted,
                            s->distrust, sizeof s->distrust);
    return good;
}

static bool
want_name(struct tls_stream *s, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(s->ssl);

    if ((s->wanted = strdup(name)) == NULL)
        return false;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (address_is_number(name))
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    return SSL_set_tlsext_host_name(s->ssl, name) == 1 && X509_VERIFY_PARAM_set1_host(param, name, 0) == 1;
}

/* ---- Life ---- */

static bool
set_up(struct tls_stream *s, const struct tls *t, const char *name)
{
    BIO *bio = have_bio_method() ? BIO_new(bio_method) : NULL;

    if ((s->ssl = SSL_new(t->context)) == NULL || bio == NULL) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    SSL_set_app_data(s->ssl, s);
    SSL_set_verify(s->ssl, SSL_get_verify_mode(s->ssl), tls_stream_verify);
    if (s->side == TLS_SERVER)
        SSL_set_accept_state(s->ssl);
    else
        SSL_set_connect_state(s->ssl);
    return name == NULL || want_name(s, name);
}

enum ps_err
tls_stream_new(const struct tls *t, const char *name, const struct tls_io *io, void *arg, struct tls_stream **out,
               struct ps_error *e)
{
    struct tls_stream *s = calloc(1, sizeof *s);

    ps_assert(t->side == TLS_SERVER || name != NULL);
    *out = NULL;
    ERR_clear_error();
    if (s == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for TLS");
    s->side = t->side;
    s->io = io;
    s->arg = arg;
    if (!set_up(s, t, t->side == TLS_CLIENT ? name : NULL)) {
        tls_stream_free(s);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for TLS");
    }
    *out = s;
    return PS_OK;
}

void
tls_stream_free(struct tls_stream *s)
{
    if (s == NULL)
        return;
    SSL_free(s->ssl);
    free(s->wanted);
    free(s);
}

/* ---- The handshake ---- */

bool
tls_stream_is_plain(const struct tls_stream *s)
{
    return s->received >= STRANGER_LOOK && memcmp(s->first, "PSD1", STRANGER_LOOK) == 0;
}

/* Its first bytes are no TLS: which protocol they are. */
static const char *
tls_stream_not_tls(const struct tls_stream *s)
{
    if (s->received < STRANGER_LOOK || (s->first[0] >= 0x14 && s->first[0] <= 0x17 && s->first[1] == 3))
        return NULL;
    if (tls_stream_is_plain(s))
        return s->side == TLS_SERVER
                   ? "the peer speaks without TLS, which is required here: it needs the CA (tls_ca, PSD_TLS_CA)"
                   : "the peer speaks without TLS: it was started without a certificate (--tls-cert), or TLS is not "
                     "wanted here (tls_ca, PSD_TLS_CA)";
    if (memcmp(s->first, "GET ", 4) == 0 || memcmp(s->first, "HTTP", 4) == 0 || memcmp(s->first, "POST", 4) == 0)
        return "the peer speaks HTTP, not TLS";
    return "the peer does not speak TLS";
}

enum tls_blame
tls_stream_blames(const struct tls_stream *s)
{
    if (tls_stream_not_tls(s) != NULL)
        return TLS_BLAMES_STRANGER;
    return s->uncertified || s->distrust[0] != '\0' ? TLS_BLAMES_CERTIFICATE : TLS_BLAMES_OTHER;
}

static enum tls_step
not_shaken(struct tls_stream *s, struct ps_error *e)
{
    const char *who = tls_stream_not_tls(s);
    char why[PS_ERROR_TEXT_MAX];

    s->uncertified = ERR_GET_REASON(ERR_peek_error()) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE;
    tls_error_text(why, sizeof why);
    if (s->nomem)
        ps_error_set(e, PS_ERR_NOMEM, "no memory for TLS");
    else if (s->too_much)
        ps_error_set(e, PS_ERR_TLS, "the peer sent more than %llu bytes without being done with the handshake",
                     (unsigned long long)TLS_HANDSHAKE_MAX);
    else if (who != NULL)
        ps_error_set(e, PS_ERR_TLS, "%s", who);
    else
        ps_error_set(e, PS_ERR_TLS, "%s", s->distrust[0] != '\0' ? s->distrust : why);
    return TLS_BAD;
}

enum tls_step
tls_stream_handshake(struct tls_stream *s, struct ps_error *e)
{
    int result;

    ERR_clear_error();
    if ((result = SSL_do_handshake(s->ssl)) == 1) {
        s->done = true;
        return TLS_DONE;
    }
    if (!s->too_much && !s->nomem && SSL_get_error(s->ssl, result) == SSL_ERROR_WANT_READ)
        return TLS_WAIT;
    if (s->ended && tls_stream_not_tls(s) == NULL && s->distrust[0] == '\0') {
        ERR_clear_error();
        return TLS_END;
    }
    return not_shaken(s, e);
}

bool
tls_stream_binding(const struct tls_stream *s, uint8_t out[TLS_BINDING_SIZE])
{
    return s->done && SSL_export_keying_material(s->ssl, out, TLS_BINDING_SIZE, BINDING_LABEL, strlen(BINDING_LABEL),
                                                 NULL, 0, 0) == 1;
}

/* ---- Bytes ---- */

static enum tls_step
not_read(struct tls_stream *s, struct ps_error *e)
{
    unsigned long code = ERR_peek_error();
    bool alert = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET;
    char why[PS_ERROR_TEXT_MAX];

    tls_error_text(why, sizeof why);
    if (s->nomem)
        ps_error_set(e, PS_ERR_NOMEM, "no memory for TLS");
    else if (alert)
        ps_error_set(e, PS_ERR_TLS, "%s", why);
    else
        ps_error_set(e, PS_ERR_CLOSED, "the connection was damaged or tampered with: %.400s", why);
    return TLS_BAD;
}

enum tls_step
tls_stream_read(struct tls_stream *s, void *data, size_t n, size_t *got, struct ps_error *e)
{
    int result;

    ERR_clear_error();
    if ((result = SSL_read_ex(s->ssl, data, n, got)) == 1)
        return TLS_DONE;
    *got = 0;
    switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return TLS_WAIT;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_END;
    default:
        break;
    }
    if (!s->ended || s->nomem)
        return not_read(s, e);
    ERR_clear_error(); /* without a last record, which a killed process does not send. Frames have their own ends */
    return TLS_END;
}

bool
tls_stream_pending(const struct tls_stream *s)
{
    return SSL_has_pending(s->ssl) == 1;
}

bool
tls_stream_write(struct tls_stream *s, const void *data, size_t n)
{
    size_t written;

    ERR_clear_error();
    return n == 0 || SSL_write_ex(s->ssl, data, n, &written) == 1;
}

void
tls_stream_bye(struct tls_stream *s)
{
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl);
    ERR_clear_error();
}
