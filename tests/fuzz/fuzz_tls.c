/* Bytes from the network before a TLS handshake is done, at either side: the input's own, or those of a real peer with
 * the input written over them. OpenSSL reads them; our code is around it: who the peer is, how much it may send, which
 * error is reported.
 *
 * What must hold: no handshake succeeds whose bytes were changed; a failure has a sentence and is final; no more than
 * TLS_HANDSHAKE_MAX bytes are taken. */
#include <stdlib.h>
#include <string.h>

#include "common/net/tls_stream.h"
#include "tests/certs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WAY_MAX     (256 * KIB)
#define RECORD_HEAD 5

/* One side, and the bytes that wait for it. */
struct fuzz_tls_side {
    struct tls_stream *s;
    uint8_t in[WAY_MAX];
    size_t len, at;
    struct fuzz_tls_side *other;
};

static struct tls *contexts[2]; /* client, server */
static struct certs certs;
static struct fuzz_tls_side sides[2];

static void
fuzz_tls_clean(void)
{
    tls_free(contexts[0]);
    tls_free(contexts[1]);
    certs_close(&certs);
}

static void
fuzz_tls_prepare(void)
{
    struct tls_files files;
    struct ps_error e;

    if (contexts[0] != NULL)
        return;
    certs_open(&certs);
    certs_make(&certs, &(struct cert_spec){.file = "ca"});
    certs_make(&certs, &(struct cert_spec){.file = "psd", .issuer = "ca", .names = "IP:127.0.0.1"});
    files = (struct tls_files){.cert = certs_path(&certs, "psd.pem"),
                               .key = certs_path(&certs, "psd.key"),
                               .ca = certs_path(&certs, "ca.pem")};
    if (tls_new(TLS_CLIENT, &files, &contexts[0], &e) != PS_OK ||
        tls_new(TLS_SERVER, &files, &contexts[1], &e) != PS_OK)
        abort();
    atexit(fuzz_tls_clean);
}

static long
side_read(void *arg, void *data, size_t n)
{
    struct fuzz_tls_side *s = arg;
    size_t m = MIN(n, s->len - s->at);

    if (m == 0)
        return -1;
    memcpy(data, s->in + s->at, m);
    s->at += m;
    ps_assert(s->at <= TLS_HANDSHAKE_MAX);
    return (long)m;
}

static bool
side_write(void *arg, const void *data, size_t n)
{
    struct fuzz_tls_side *to = ((struct fuzz_tls_side *)arg)->other;

    ps_assert(to->len + n <= WAY_MAX);
    memcpy(to->in + to->len, data, n);
    to->len += n;
    return true;
}

static const struct tls_io io = {.read = side_read, .write = side_write};

static enum tls_step
fuzz_tls_shake(struct fuzz_tls_side *s)
{
    struct ps_error e = {0};
    enum tls_step step = tls_stream_handshake(s->s, &e);

    if (step != TLS_BAD)
        return step;
    ps_assert(e.code == PS_ERR_TLS && e.text[0] != '\0');
    step = tls_stream_handshake(s->s, &e);
    ps_assert(step == TLS_BAD || step == TLS_END);
    return TLS_BAD;
}

static void
fuzz_tls_begin(void)
{
    struct ps_error e;

    for (unsigned i = 0; i < 2; i++) {
        sides[i].len = sides[i].at = 0;
        sides[i].other = &sides[1 - i];
        if (tls_stream_new(contexts[i], i == 0 ? "127.0.0.1" : NULL, &io, &sides[i], &sides[i].s, &e) != PS_OK)
            abort();
    }
}

/* The input alone. */
static void
from_a_stranger(struct fuzz_tls_side *to, const uint8_t *data, size_t size)
{
    to->len = MIN(size, WAY_MAX);
    memcpy(to->in, data, to->len);
    ps_assert(fuzz_tls_shake(to) != TLS_DONE);
}

/* The input over the peer's first message that `to` reads: a hello. (The head of its record is not part of what is
 * signed.) One that changes nothing is let through. */
static void
over_a_peer(struct fuzz_tls_side *to, const uint8_t *data, size_t size)
{
    struct fuzz_tls_side *from = to->other;
    bool changed = false;
    size_t end;

    if (from == &sides[1]) /* the server speaks second */
        ps_assert(fuzz_tls_shake(to) == TLS_WAIT);
    ps_assert(fuzz_tls_shake(from) == TLS_WAIT);
    end = RECORD_HEAD + ((size_t)to->in[3] << 8 | to->in[4]);
    for (size_t i = 0; i < size && RECORD_HEAD + i < end; i++) {
        changed |= data[i] != 0;
        to->in[RECORD_HEAD + i] ^= data[i];
    }
    for (unsigned i = 0; i < 3; i++)
        if (fuzz_tls_shake(to) == TLS_BAD || fuzz_tls_shake(from) == TLS_BAD)
            return;
    ps_assert(!changed || !tls_stream_binding(to->s, (uint8_t[TLS_BINDING_SIZE]){0}) ||
              !tls_stream_binding(from->s, (uint8_t[TLS_BINDING_SIZE]){0}));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    fuzz_tls_prepare();
    fuzz_tls_begin();
    if (data[0] & 2)
        over_a_peer(&sides[data[0] & 1], data + 1, size - 1);
    else
        from_a_stranger(&sides[data[0] & 1], data + 1, size - 1);
    tls_stream_free(sides[0].s);
    tls_stream_free(sides[1].s);
    return 0;
}
