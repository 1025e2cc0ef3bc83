/* A connection that carries frames over a libuv stream (TCP or Unix socket). Glue, shared by psd and libpsclient.
 *
 * Reading: bytes go where the frame reader wants them: a large payload straight into its final buffer, the rest through
 * one scratch buffer per loop. Writing: a queue of outgoing frames, sent in order; several small ones share a system
 * call.
 *
 * The writing of one frame:
 *
 *     OUT_QUEUED ──first in line: prepare()──► OUT_READY ──all bytes taken by the kernel──► done(PS_OK)
 *         │                                      │ socket full, borrowed: uv_write of the rest
 *         │                                      │ socket full, pinned: copy a little, uv_write that, go on in its
 *         │                                      │   callback; after CONN_PIN_MS copy what is left and release()
 *         └── connection closed ─────────────────┴──► done(PS_ERR_CLOSED)
 *
 * Everything runs on the loop's thread. */
#ifndef COMMON_CONN_H
#define COMMON_CONN_H

#include <uv.h>

#include "address.h"
#include "base.h"
#include "frame.h"
#include "ps_err.h"

#define CONN_PIN_MS  10
#define CONN_SCRATCH (64 * KIB)

/* One per loop: the scratch buffer. */
struct conn_pool {
    uv_loop_t *loop;
    uint8_t *scratch; /* CONN_SCRATCH + FRAME_ALIGN bytes, 64-byte aligned */
};
enum ps_err conn_pool_init(struct conn_pool *p, uv_loop_t *loop) PS_MUST_USE;
void conn_pool_finish(struct conn_pool *p);

/* One outgoing frame; embedded in the sender's own struct or allocated by it. All bytes that prepare() named stay valid
 * until release() or done(). */
struct conn_out {
    /* set by the sender */
    enum ps_err (*prepare)(struct conn_out *out);           /* NULL: head and parts are already set */
    void (*release)(struct conn_out *out);                  /* pinned only: parts are no longer needed; may be NULL */
    void (*done)(struct conn_out *out, enum ps_err result); /* once, last; may free */
    const uint8_t *head;                                    /* header, metadata, pad */
    size_t head_len;
    const struct span *parts; /* payload; the connection adds the pad after it */
    size_t parts_len;
    bool pinned; /* parts lie under a read transaction: hold them at most CONN_PIN_MS */

    /* private */
    struct conn_out *next;
    size_t sent, total;
    uint64_t ready_ms;
    bool ready;
};

struct conn;

struct conn_events {
    /* Metadata is whole: optionally frame_direct() or frame_discard() on conn_reader(). May be NULL. */
    void (*meta)(struct conn *c, const struct frame_head *head, const void *meta);
    /* A whole frame. payload is NULL when there is none or when it was directed or discarded; else valid during the
     * call. */
    void (*frame)(struct conn *c, const struct frame_head *head, const void *meta, const void *payload);
    /* The stream ended or failed, or its bytes were no frame (PS_ERR_PROTOCOL, PS_ERR_VERSION: the connection still
     * writes, so an ERROR frame can be sent before conn_close()). After this no more frames come. Once. */
    void (*ended)(struct conn *c, const struct ps_error *why);
};

struct conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
    void *arg; /* the owner's */
    const struct conn_events *events;
    struct conn_pool *pool;
    char peer[PS_ERROR_PEER_MAX];

    /* private */
    struct frame_reader reader;
    struct conn_out *first, *last;
    size_t out_count;
    uint64_t out_bytes; /* prepared or known bytes not yet taken by the kernel */
    uv_write_t write;
    uint8_t *copy; /* what uv_write is sending of a pinned frame */
    size_t copy_size;
    bool writing, reading, ended, closing, finishing;
    void (*closed)(struct conn *c);
};

/* Make the handle (uv_tcp_init or uv_pipe_init); the caller then accepts or connects on c->u, and calls conn_start().
 * After a successful init, conn_close() is owed. */
enum ps_err conn_init(struct conn *c, struct conn_pool *pool, bool is_pipe, const struct conn_events *events,
                      void *arg) PS_MUST_USE;

/* TCP: no delay, and the congestion control named (NULL: the system's own). Begin to read. */
enum ps_err conn_start(struct conn *c, const char *congestion) PS_MUST_USE;

/* Queue a frame. Tries to write at once unless `later`; conn_flush() writes what was queued with `later`. */
void conn_send(struct conn *c, struct conn_out *out, bool later);
void conn_flush(struct conn *c);

/* Stop and go on reading (memory cap). */
void conn_read_pause(struct conn *c);
void conn_read_resume(struct conn *c);

/* Close after what is queued was sent (at most CONN_LINGER_MS). */
#define CONN_LINGER_MS 2000
void conn_finish(struct conn *c, void (*closed)(struct conn *c));

/* Close now: queued frames end with PS_ERR_CLOSED; closed() comes last, from the loop, and may free the conn. Calling
 * it again, or after conn_finish(), is allowed and keeps the first closed(). */
void conn_close(struct conn *c, void (*closed)(struct conn *c));

/* Heap bytes it holds for reading and writing, for accounting. */
uint64_t conn_bytes(const struct conn *c);

static inline struct frame_reader *
conn_reader(struct conn *c)
{
    return &c->reader;
}

/* Translate a libuv status (negative errno) to our code. The one place that does. */
enum ps_err conn_uv_error(int status);

#endif
