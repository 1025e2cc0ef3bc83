/* The frames that a connection has yet to write, in order, and how far each one is. Moves no bytes itself: conn.c asks
 * what to give to the socket and reports what the socket took. Glue; conn.h is what psd and libpsclient include.
 *
 *     conn_queue_append(&q, out);
 *     conn_queue_prepare(&q, loop);                       // the first frames have their head and parts now
 *     bytes = conn_queue_gather(&q, bufs, &n, most);      // what to write next
 *     conn_queue_take(&q, taken);                         // done() of the frames that went out
 *     conn_queue_drop(&q);                                // done(PS_ERR_CLOSED) of all others
 *
 * The life of one frame:
 *
 *     queued ──first in line: prepare()──► ready ──all bytes were taken──► done(PS_OK)
 *       │                                    │ socket full: continue when it has space
 *       │                                    │ pinned and ready for CONN_PIN_MS: copy what is left and release()
 *       └── connection closed ───────────────┴──► done(PS_ERR_CLOSED)
 *
 * A conn_out is its sender's, and so are its head and parts; the queue borrows them until done(), parts until
 * release(). It owns only the copies that conn_queue_own() makes, and frees each before its frame's done().
 *
 * prepare(), release() and done() come from within these calls and may do what conn.h allows them. */
#ifndef COMMON_NET_CONN_QUEUE_H
#define COMMON_NET_CONN_QUEUE_H

#include <uv.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* How much one system call is given. Loopback carries a third more by 1 MiB than by 256 KiB; for a peer that stops
 * reading, as much is copied after CONN_PIN_MS. */
#define CONN_QUEUE_BUFS  128 /* buffers */
#define CONN_QUEUE_BATCH MIB /* bytes, up to which frames are added */

/* One outgoing frame; embedded in the sender's own struct or allocated by it, zeroed but for what the sender sets. head
 * stays valid until done(), parts until release() or done(). */
struct conn_out {
    /* Set by the sender. prepare() is called once, when the frame is about to be written; it sets head, parts and
     * pinned. If it fails the frame is dropped: done() gets its code, and the connection goes on with the next. */
    enum ps_err (*prepare)(struct conn_out *out);           /* NULL: head and parts are already set */
    bool (*may_prepare)(struct conn_out *out);              /* false: not now, nor those behind it: the sender calls
                                                               conn_flush() when it may. NULL: at any time */
    void (*release)(struct conn_out *out);                  /* pinned and prepared: once, before done(); may be NULL */
    void (*done)(struct conn_out *out, enum ps_err result); /* once, last; may free out */
    const uint8_t *head;                                    /* header, metadata, pad */
    size_t head_len;
    const struct span *parts; /* payload; the connection adds the pad after it */
    size_t parts_len;
    bool pinned; /* parts lie under a read transaction: hold them at most CONN_PIN_MS */

    /* private */
    struct conn_out *next;
    const struct span *rest; /* parts, or what was copied of them */
    size_t rest_len;
    struct span owned;    /* the copy */
    size_t piece, offset; /* the next byte: piece 0 is head, then rest[], then the pad */
    size_t pad;
    uint64_t left;       /* bytes, once it is ready */
    uint64_t held_bytes; /* its share of the connection's */
    uint64_t ready_ms;
    bool ready, released;
};

struct conn_queue {
    struct conn_out *first, *last; /* those that are ready come first, oldest first */
    uint64_t held_bytes;           /* heads and copies of queued frames */
    uint64_t taken_bytes;          /* by conn_queue_take(), in all */
    bool closing;                  /* set by conn_close(): prepare() goes no further */
};

void conn_queue_append(struct conn_queue *q, struct conn_out *o);

/* Make the first frame ready, and those behind it that fit the same system call. loop: for the time. */
void conn_queue_prepare(struct conn_queue *q, const uv_loop_t *loop);

/* There is something to write: the first frame is ready. */
static inline bool
conn_queue_ready(const struct conn_queue *q)
{
    return q->first != NULL && q->first->ready;
}

/* List the first bytes of what is ready in bufs, CONN_QUEUE_BUFS of them, at most `most` bytes; *n says how many
 * buffers were used. Returns bytes. Valid until the queue is next touched. */
uint64_t conn_queue_gather(const struct conn_queue *q, uv_buf_t *bufs, unsigned *n, uint64_t most);

/* The first n bytes of the queue were taken, n at most what gather() returned; frames that are whole are done. */
void conn_queue_take(struct conn_queue *q, uint64_t n);

/* The first frame, from this one on, that is ready and still holds its pin; NULL when none does. Accepts NULL. */
struct conn_out *conn_queue_pinned(struct conn_out *from);

/* Copy what is left of its parts, so that they can be released. False: out of memory. */
bool conn_queue_own(struct conn_queue *q, struct conn_out *o) PS_MUST_USE;

/* Its parts are no longer needed. Does nothing for a frame that is not pinned or was released before. */
void conn_queue_release(struct conn_out *o);

/* Drop all frames, each with PS_ERR_CANCELLED; but of the one that has begun, what is left is copied and stays first,
 * so that the stream goes on with the next frame. False: out of memory; then nothing is left, and the stream is cut in
 * the middle of a frame. */
bool conn_queue_cut(struct conn_queue *q) PS_MUST_USE;

/* Every frame ends with PS_ERR_CLOSED, those that are appended meanwhile too. */
void conn_queue_drop(struct conn_queue *q);

#endif
