/* A connection's frames as TLS records, where conn_tls() was called: a transport (conn_transport.h).
 *
 * In: libuv only reports that the socket has bytes (conn_tls_place() gives it no buffer, and it reads nothing). OpenSSL
 * has them read by take_in() right into the buffer in which it decrypts, many records at once, and copies what a record
 * carried to where the frame reader wants it: a large payload into its final place. Out: what the queue has is
 * encrypted as far as a buffer goes, which is written as plain bytes would be; what the socket does not take waits
 * there, outside any sender's memory. So a frame is done when its last byte was encrypted, and nothing of it is held.
 *
 * A large part of a payload is encrypted where it lies, in records of their own: small pieces (heads, acks) are put
 * together first. The other side finds payloads at the beginning of a record and need not move them.
 *
 * With shared memory (conn_shm()) the handshake has authenticated both sides; the memory was agreed on in records, and
 * lies in this machine, with a token that only the two know. The stream then carries doorbells, without TLS, since they
 * hold no data; TLS's memory is freed.
 *
 * Why not the kernel's TLS, and why not memory BIOs: deploy/README.md, "Encryption". */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/tls_stream.h"

#define READ_TURN  (1 * MIB)   /* read at once before the loop's other work gets its turn */
#define BATCH      (112 * KIB) /* of frames is encrypted and written at once */
#define OUT_BYTES  (128 * KIB) /* the records that this makes */
#define OUT_MAX    (1 * MIB)   /* this side's certificate chain may be long */
#define DIRECT_MIN (4 * KIB)   /* a piece of this size is encrypted where it lies */

/* From the pool's buffers. */
struct tls_records {
    uint8_t *data;
    size_t size, at, len; /* those from `at` to `len` are yet to be written */
};

struct conn_tls {
    struct tls_stream *stream;
    uint32_t timeout_ms;
    bool drained; /* the socket had no more in this turn */
    size_t turn;  /* bytes that may be read in it */
    int status;   /* how the stream has ended, libuv's; 0: it has not failed */
    bool parted;  /* the last record was made */
    struct tls_records out;
};

static const struct transport_ops conn_tls_transport;

static struct conn_tls *
conn_tls_of(const struct conn *c)
{
    return c->transport_data;
}

/* ---- What OpenSSL calls ---- */

static long
take_in(void *arg, void *data, size_t n)
{
    struct conn *c = arg;
    struct conn_tls *t = c->transport_data;
    ssize_t got;

    if (t->drained || t->turn == 0)
        return -1;
    got = read(c->fd, data, n);
    t->drained = got < (ssize_t)n;
    if (got > 0) {
        t->turn -= MIN(t->turn, (size_t)got);
        c->pool->received += (uint64_t)got;
        return got;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return -1;
    if (got < 0)
        t->status = uv_translate_sys_error(errno);
    return 0;
}

static void
records_give(struct conn *c, struct tls_records *r)
{
    buffer_pool_give(&c->pool->buffers, r->data, r->size);
    *r = (struct tls_records){0};
}

static bool
put_out(void *arg, const void *data, size_t n)
{
    struct conn *c = arg;
    struct tls_records *out = &conn_tls_of(c)->out, more = {0};
    size_t left = out->len - out->at;

    if (out->len + n > out->size) {
        if (left + n > OUT_MAX ||
            (more.data = buffer_pool_take(&c->pool->buffers, MAX(left + n, OUT_BYTES), &more.size)) == NULL)
            return false;
        if (left > 0)
            memcpy(more.data, out->data + out->at, left);
        more.len = left;
        records_give(c, out);
        *out = more;
    }
    memcpy(out->data + out->len, data, n);
    out->len += n;
    return true;
}

static const struct tls_io conn_io = {.read = take_in, .write = put_out};

/* ---- Records out ---- */

/* Writes the records to the socket; the rest goes out when it has space. later: not before the loop's next iteration.
 * False: there is more to be written, or nothing can be. */
static bool
flush_records(struct conn *c, bool later)
{
    struct tls_records *out = &conn_tls_of(c)->out;
    size_t left = out->len - out->at;
    ssize_t taken = 0;
    uv_buf_t buf;

    if (left == 0 || c->blocked || c->closing)
        return left == 0;
    buf = uv_buf_init((char *)out->data + out->at, (unsigned)left);
    if (!later && (taken = conn_write(c, &buf, 1)) < 0) {
        records_give(c, out);
        conn_broke(c, (int)taken);
        return false;
    }
    c->pool->sent += (uint64_t)taken;
    out->at += (size_t)taken;
    if (out->at == out->len) {
        records_give(c, out);
        return true;
    }
    conn_block(c);
    return false;
}

static void
conn_tls_unblocked(struct conn *c)
{
    (void)flush_records(c, false);
}

/* Small pieces share a record. */
static bool
conn_tls_encrypt(struct conn_tls *t, const uv_buf_t *bufs, unsigned n)
{
    uint8_t small[TLS_RECORD_MAX];
    size_t len = 0, m;
    bool good = true;

    for (unsigned i = 0; i < n && good; i++)
        for (size_t at = 0, left = bufs[i].len; left > 0 && good; at += m, left -= m) {
            bool direct = left >= DIRECT_MIN;

            m = MIN(left, direct ? TLS_RECORD_MAX : TLS_RECORD_MAX - len);
            if (direct || m == 0) {
                good = tls_stream_write(t->stream, small, len);
                len = 0;
            }
            if (direct)
                good = good && tls_stream_write(t->stream, bufs[i].base + at, m);
            else
                memcpy(small + len, bufs[i].base + at, m);
            len += direct ? 0 : m;
        }
    return good && tls_stream_write(t->stream, small, len);
}

static bool
conn_tls_write(struct conn *c, uint64_t *budget)
{
    struct conn_tls *t = c->transport_data;
    uv_buf_t bufs[CONN_QUEUE_BUFS];
    uint64_t bytes;
    unsigned n;
    bool written;

    if (!c->secured)
        return false;
    conn_queue_prepare(&c->queue, c->pool->loop);
    if (c->closing || !conn_queue_ready(&c->queue))
        return false;
    bytes = conn_queue_gather(&c->queue, bufs, &n, BATCH);
    if (!conn_tls_encrypt(t, bufs, n)) {
        conn_broke(c, UV_ENOMEM);
        return false;
    }
    *budget -= MIN(*budget, bytes);
    written = flush_records(c, *budget == 0);
    conn_queue_take(&c->queue, bytes);
    return written;
}

static void
conn_tls_bye(struct conn *c)
{
    struct conn_tls *t = conn_tls_of(c);

    if (!c->secured || t->parted)
        return;
    t->parted = true;
    tls_stream_bye(t->stream);
    (void)flush_records(c, false);
}

/* ---- Records in ---- */

/* The owner is notified why, unless it has closed the connection. */
static void
conn_tls_end_with(struct conn *c, const struct ps_error *why)
{
    c->transport_ms = 0;
    if (c->finishing)
        conn_close(c, NULL);
    else
        conn_end(c, why);
}

/* The stream has failed. The other side may receive an alert. */
static void
conn_tls_end(struct conn *c, const struct ps_error *why)
{
    c->broken = true;
    conn_tls_end_with(c, why);
}

/* There is nothing more to read. */
static void
conn_tls_read_ended(struct conn *c)
{
    struct conn_tls *t = c->transport_data;
    struct ps_error e;

    c->eof = true;
    if (c->reading)
        uv_read_stop(&c->u.stream);
    c->reading = false;
    if (c->secured || t->status != 0) {
        conn_over(c, t->status != 0 ? t->status : UV_EOF);
        return;
    }
    ps_error_set(&e, PS_ERR_CLOSED, "the peer closed the connection in the TLS handshake");
    conn_tls_end(c, &e);
}

/* The peer has no TLS, but can understand an error frame; so the connection continues in plain text, only to send that.
 * Nothing else is ever sent: it has ended for its owner. */
static void
end_plain(struct conn *c, const struct ps_error *why)
{
    conn_carry(c, &conn_socket_transport, NULL);
    conn_tls_end_with(c, why);
}

static void
conn_tls_fail(struct conn *c, const struct ps_error *why)
{
    struct conn_tls *t = c->transport_data;

    if (!c->secured)
        c->tls_blame = tls_stream_blames(t->stream);
    if (!c->secured && tls_stream_is_plain(t->stream)) {
        end_plain(c, why);
        return;
    }
    (void)flush_records(c, false);
    if (!c->closing)
        conn_tls_end(c, why);
}

/* True: the step was made. TLS_WAIT continues when bytes come; other outcomes end the connection. */
static bool
conn_tls_step_made(struct conn *c, enum tls_step result, const struct ps_error *e)
{
    if (result == TLS_END)
        conn_tls_read_ended(c);
    else if (result == TLS_BAD)
        conn_tls_fail(c, e);
    return result == TLS_DONE;
}

/* True: the handshake is done, and the connection continues. */
static bool
shake_hands(struct conn *c)
{
    struct conn_tls *t = c->transport_data;
    struct ps_error e;
    enum tls_step result = tls_stream_handshake(t->stream, &e);

    if (result == TLS_WAIT)
        (void)flush_records(c, false);
    if (!conn_tls_step_made(c, result, &e))
        return false;
    c->secured = true;
    c->shaking = false;
    c->transport_ms = 0;
    static_assert(TLS_BINDING_SIZE <= CONN_BINDING_MAX, "it has room");
    if (!tls_stream_binding(t->stream, c->binding)) {
        ps_error_set(&e, PS_ERR_NOMEM, "no memory for TLS");
        conn_tls_end(c, &e);
        return false;
    }
    c->binding_len = TLS_BINDING_SIZE;
    (void)flush_records(c, false);
    if (c->events->secured != NULL && !c->ended && !c->closing)
        c->events->secured(c);
    conn_flush(c);
    return !c->closing;
}

static bool
may_read(const struct conn *c)
{
    return !c->paused && !c->ended && !c->closing && !c->finishing && c->transport == &conn_tls_transport &&
           c->rest_len == 0;
}

/* Reads at most one record's content. False: nothing more for now. */
static bool
read_one(struct conn *c)
{
    struct ps_error e;
    size_t len, got;
    void *at;

    conn_read_place(c, &at, &len);
    if (!conn_tls_step_made(c, tls_stream_read(conn_tls_of(c)->stream, at, len, &got, &e), &e))
        return false;
    conn_feed(c, at, got);
    return true;
}

static bool
conn_tls_read(struct conn *c)
{
    struct conn_tls *t = c->transport_data;
    bool came = false;

    t->drained = false;
    t->turn = READ_TURN;
    if (!c->secured && !shake_hands(c))
        return c->ended || c->closing;
    while (may_read(c) && read_one(c))
        came = true;
    return came || c->ended || c->closing;
}

/* OpenSSL reads by itself, but for bytes that are discarded at the end. */
static void
conn_tls_place(struct conn *c, void **at, size_t *len)
{
    *at = NULL;
    *len = 0;
    if (c->finishing && c->secured)
        conn_read_place(c, at, len);
}

static bool
conn_tls_pending(const struct conn *c)
{
    return c->secured && tls_stream_pending(conn_tls_of(c)->stream);
}

static void
conn_tls_late(struct conn *c)
{
    struct ps_error e;

    ps_error_set(&e, PS_ERR_TIMEOUT, "the TLS handshake was not done within %u ms", conn_tls_of(c)->timeout_ms);
    conn_tls_end(c, &e);
}

/* ---- Life ---- */

static enum ps_err
conn_tls_begin(struct conn *c)
{
    struct conn_tls *t = conn_tls_of(c);
    struct ps_error e;

    uv_update_time(c->pool->loop);
    c->transport_ms = uv_now(c->pool->loop) + t->timeout_ms;
    if (tls_stream_handshake(t->stream, &e) != TLS_WAIT) /* nothing has come yet */
        return PS_ERR_NOMEM;
    (void)flush_records(c, false);
    return PS_OK;
}

static uint64_t
conn_tls_bytes(const struct conn *c)
{
    return conn_tls_of(c)->out.size;
}

static void
conn_tls_free(struct conn *c)
{
    struct conn_tls *t = conn_tls_of(c);

    records_give(c, &t->out);
    tls_stream_free(t->stream);
    free(t);
}

static const struct transport_ops conn_tls_transport = {
    .begin = conn_tls_begin,
    .write = conn_tls_write,
    .unblocked = conn_tls_unblocked,
    .bye = conn_tls_bye,
    .place = conn_tls_place,
    .came = conn_socket_came,
    .read = conn_tls_read,
    .pending = conn_tls_pending,
    .late = conn_tls_late,
    .bytes = conn_tls_bytes,
    .free = conn_tls_free,
};

enum ps_err
conn_tls(struct conn *c, const struct tls *tls, const char *name, uint32_t timeout_ms, struct ps_error *e)
{
    struct conn_tls *t = calloc(1, sizeof *t);
    enum ps_err err;

    ps_assert(!c->started && c->transport == &conn_socket_transport);
    if (t == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for TLS");
    if ((err = tls_stream_new(tls, name, &conn_io, c, &t->stream, e)) != PS_OK) {
        free(t);
        return err;
    }
    t->timeout_ms = timeout_ms;
    conn_carry(c, &conn_tls_transport, t);
    c->shaking = true;
    return PS_OK;
}
