/* The queue of outgoing frames.
 *
 * The usual way: append() puts a frame last; prepare() makes the first ones ready, so those that are ready come first,
 * oldest first; gather() lists their bytes for one system call; take() moves on by what the kernel took, and a frame
 * that is whole is done. Where a frame stands is one pair, piece and offset: piece 0 is its head, then its parts, then
 * the pad.
 *
 * Exceptions: a frame whose prepare() fails leaves from the middle of the queue; own() replaces the sender's parts with
 * a copy of what is left of them and continues at the same byte; drop() empties the queue.
 *
 * A callback may append and may close the connection, nothing else here: conn.c does not flush within a flush. */
#include "common/net/conn_queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/wire/frame.h"

/* ---- One outgoing frame ---- */

/* Heap bytes that this frame holds from now on. */
static void
out_hold(struct conn_queue *q, struct conn_out *o, uint64_t bytes)
{
    o->held_bytes += bytes;
    q->held_bytes += bytes;
}

static void
out_ready(struct conn_out *o, uint64_t now)
{
    uint64_t payload = 0;

    for (size_t i = 0; i < o->parts_len; i++)
        payload += o->parts[i].len;
    o->ready = true;
    o->ready_ms = now;
    o->rest = o->parts;
    o->rest_len = o->parts_len;
    o->piece = o->offset = 0;
    o->pad = frame_pad(payload);
    o->left = o->head_len + payload + o->pad;
    ps_assert(o->left > 0);
}

static struct span
out_piece(const struct conn_out *o, size_t i)
{
    static const uint8_t zeros[FRAME_ALIGN];

    if (i == 0)
        return (struct span){o->head, o->head_len};
    return i <= o->rest_len ? o->rest[i - 1] : (struct span){zeros, o->pad};
}

/* Add what is left of the frame to bufs, at most `most` bytes. *n counts buffers, at most CONN_QUEUE_BUFS. Returns
 * bytes. */
static uint64_t
out_gather(const struct conn_out *o, uv_buf_t *bufs, unsigned *n, uint64_t most)
{
    uint64_t bytes = 0;
    size_t offset = o->offset;

    for (size_t i = o->piece; i <= o->rest_len + 1 && *n < CONN_QUEUE_BUFS && bytes < most; i++, offset = 0) {
        struct span piece = out_piece(o, i);
        size_t len = MIN(piece.len - offset, most - bytes);

        if (len == 0)
            continue;
        bufs[(*n)++] = (uv_buf_t){.base = (char *)piece.data + offset, .len = len};
        bytes += len;
    }
    return bytes;
}

/* n bytes of it are gone, n <= left. */
static void
out_take(struct conn_out *o, uint64_t n)
{
    o->left -= n;
    while (n > 0) {
        size_t here = out_piece(o, o->piece).len - o->offset;

        if (n < here) {
            o->offset += n;
            return;
        }
        n -= here;
        o->piece++;
        o->offset = 0;
    }
}

void
conn_queue_release(struct conn_out *o)
{
    if (!o->ready || !o->pinned || o->released)
        return;
    o->released = true;
    if (o->release != NULL)
        o->release(o);
}

/* The frame is off the queue: calls release() and done(). */
static void
out_done(struct conn_queue *q, struct conn_out *o, enum ps_err result)
{
    conn_queue_release(o);
    q->held_bytes -= o->held_bytes;
    free((void *)o->owned.data);
    o->done(o, result); /* may free it */
}

bool
conn_queue_own(struct conn_queue *q, struct conn_out *o)
{
    size_t head_left = o->piece == 0 ? o->head_len - o->offset : 0, len, at = 0;
    uint8_t *copy;

    if (o->piece > o->rest_len) /* only pad is left */
        return true;
    len = (size_t)o->left - head_left - o->pad;
    copy = malloc(len);
    if (copy == NULL)
        return false;
    for (size_t i = MAX(o->piece, 1), offset = o->piece > 0 ? o->offset : 0; i <= o->rest_len; i++, offset = 0) {
        const struct span *part = &o->rest[i - 1];

        if (part->len > offset)
            memcpy(copy + at, (const uint8_t *)part->data + offset, part->len - offset);
        at += part->len - offset;
    }
    ps_assert(at == len);
    o->owned = (struct span){copy, len};
    o->rest = &o->owned;
    o->rest_len = 1;
    if (o->piece > 0) {
        o->piece = 1;
        o->offset = 0;
    }
    out_hold(q, o, len);
    return true;
}

/* ---- The queue ---- */

void
conn_queue_append(struct conn_queue *q, struct conn_out *o)
{
    o->ready = o->released = false;
    o->owned = (struct span){0};
    o->held_bytes = 0;
    o->next = NULL;
    if (q->last != NULL)
        q->last->next = o;
    else
        q->first = o;
    q->last = o;
    if (o->prepare == NULL)
        out_hold(q, o, o->head_len);
}

static struct conn_out *
queue_pop(struct conn_queue *q)
{
    struct conn_out *o = q->first;

    q->first = o->next;
    if (q->first == NULL)
        q->last = NULL;
    return o;
}

static void
queue_remove_after(struct conn_queue *q, struct conn_out *before, struct conn_out *o)
{
    if (before == NULL) {
        queue_pop(q);
        return;
    }
    before->next = o->next;
    if (q->last == o)
        q->last = before;
}

void
conn_queue_prepare(struct conn_queue *q, const uv_loop_t *loop)
{
    struct conn_out *before = NULL, *o = q->first;
    uint64_t bytes = 0;
    unsigned n = 0; /* frames: each fills a buffer at least */

    while (o != NULL && bytes < CONN_QUEUE_BATCH && n < CONN_QUEUE_BUFS) {
        enum ps_err err;

        if (!o->ready && o->may_prepare != NULL && !o->may_prepare(o))
            return;
        err = !o->ready && o->prepare != NULL ? o->prepare(o) : PS_OK;

        if (err != PS_OK) {
            queue_remove_after(q, before, o);
            out_done(q, o, err);
            before = NULL; /* the callback may have changed the queue: start again */
            o = q->first;
            bytes = n = 0;
            continue;
        }
        if (!o->ready) {
            if (o->prepare != NULL)
                out_hold(q, o, o->head_len);
            out_ready(o, uv_now(loop));
        }
        if (q->closing)
            return;
        bytes += o->left;
        n++;
        before = o;
        o = o->next;
    }
}

uint64_t
conn_queue_gather(const struct conn_queue *q, uv_buf_t *bufs, unsigned *n, uint64_t most)
{
    uint64_t bytes = 0;

    *n = 0;
    for (const struct conn_out *o = q->first; o != NULL && o->ready && *n < CONN_QUEUE_BUFS && bytes < most;
         o = o->next) {
        uint64_t got = out_gather(o, bufs, n, most - bytes);

        bytes += got;
        if (got < o->left) /* no space for the rest of it: later frames must wait */
            break;
    }
    return bytes;
}

void
conn_queue_take(struct conn_queue *q, uint64_t n)
{
    q->taken_bytes += n;
    while (n > 0) {
        struct conn_out *o = q->first;
        uint64_t here = MIN(n, o->left);

        out_take(o, here);
        n -= here;
        if (o->left == 0)
            out_done(q, queue_pop(q), PS_OK);
    }
}

struct conn_out *
conn_queue_pinned(struct conn_out *from)
{
    for (struct conn_out *o = from; o != NULL && o->ready; o = o->next)
        if (o->pinned && !o->released)
            return o;
    return NULL;
}

/* The rest of a frame, as one without a sender. */
struct cut {
    struct conn_out out;
    uint8_t bytes[];
};

static void
cut_done(struct conn_out *o, enum ps_err result)
{
    (void)result;
    free(CONTAINER_OF(o, struct cut, out));
}

static struct cut *
cut_new(const struct conn_out *o)
{
    struct cut *cut = calloc(1, sizeof *cut + o->left);
    size_t at = 0, offset = o->offset;

    if (cut == NULL)
        return NULL;
    for (size_t i = o->piece; i <= o->rest_len + 1; i++, offset = 0) {
        struct span piece = out_piece(o, i);

        if (piece.len > offset)
            memcpy(cut->bytes + at, (const uint8_t *)piece.data + offset, piece.len - offset);
        at += piece.len - offset;
    }
    ps_assert(at == o->left);
    cut->out = (struct conn_out){.done = cut_done, .head = cut->bytes, .head_len = o->left};
    return cut;
}

bool
conn_queue_cut(struct conn_queue *q)
{
    struct conn_out *o = q->first, *next;
    bool begun = o != NULL && o->ready && (o->piece > 0 || o->offset > 0);
    struct cut *cut = begun ? cut_new(o) : NULL;

    q->first = q->last = NULL;
    if (cut != NULL)
        conn_queue_append(q, &cut->out);
    for (; o != NULL; o = next) {
        next = o->next;
        out_done(q, o, PS_ERR_CANCELLED);
    }
    return !begun || cut != NULL;
}

void
conn_queue_drop(struct conn_queue *q)
{
    while (q->first != NULL)
        out_done(q, queue_pop(q), PS_ERR_CLOSED);
}
