/* A connection that carries frames over a libuv stream (TCP or Unix socket). Glue, shared by psd and libpsclient.
 *
 *     conn_pool_init(&pool, loop);                        // once per loop
 *     conn_init(&c, &pool, is_pipe, &events, arg);        // then accept or connect on c.u
 *     conn_start(&c, congestion);                         // frames come in through events
 *     conn_auth_listen(), conn_auth_connect()             // first authentication, where it is demanded: conn_auth.h
 *     conn_send(&c, &out, later);                         // frames go out; out.done() reports the result
 *     conn_close(&c, closed);  or  conn_finish(&c, closed), conn_leave(&c, CONN_LINGER_MS, closed);
 *     conn_pool_finish(&pool);                            // when all are closed; then run the loop once more
 *
 * Reading: bytes go to where the frame reader wants them: a large payload straight into its final buffer, the rest
 * through one scratch buffer per loop. Writing: a queue of outgoing frames, sent in order; several small ones share a
 * system call. conn_queue.h explains what a sender fills in (struct conn_out) and draws the life of one frame.
 *
 * Bytes go from the sender's memory straight to the kernel, by calls that do not wait; the rest stays queued, and may
 * be dropped at any time. A peer that has gone causes no SIGPIPE, whatever the program's handling of that signal, which
 * is left alone.
 *
 * Callbacks come from the loop or from within conn_send(), conn_flush() and conn_start(); any of them may call anything
 * here, conn_close() included. A conn's memory is its owner's and is free when closed() was called.
 *
 * Everything runs on the loop's thread. */
#ifndef COMMON_NET_CONN_H
#define COMMON_NET_CONN_H

#include <uv.h>

#include "common/core/auth/keyring.h"
#include "common/core/base/base.h"
#include "common/core/base/buffer_pool.h"
#include "common/core/cluster/address.h"
#include "common/core/wire/frame.h"
#include "common/include/psclient/ps_err.h"
#include "common/net/conn_queue.h"
#include "common/net/shm_ring.h"
#include "common/net/tls_stream.h"

#define CONN_PIN_MS      10         /* a read transaction is held no longer than this for one frame */
#define CONN_SCRATCH     (64 * KIB) /* bytes read at once when no large payload is expected */
#define CONN_TURN_BYTES  (8 * MIB)  /* written at once before the loop's other work gets its turn */
#define CONN_LINGER_MS   2000       /* how long conn_finish() waits for the peer */
#define CONN_TLS_MS      10000      /* how long a handshake may take, by default */
#define CONN_BINDING_MAX 64

struct conn;
struct conn_auth;
struct conn_credentials;
struct conn_shm;
struct transport_ops;

/* One per loop: what its connections share. */
struct conn_pool {
    uv_loop_t *loop;
    uint8_t *scratch; /* CONN_SCRATCH + FRAME_ALIGN bytes, 64-byte aligned */
    struct buffer_pool buffers;
    uint64_t received, sent;              /* bytes, of all connections ever */
    struct conn_credentials *credentials; /* conn_credentials.h: the token that they present; NULL: none */

    /* private */
    uv_timer_t *timer; /* due when the first of waiting is */
    uint64_t timer_ms;
    struct conn *waiting; /* connections that have a deadline */
    uv_idle_t *idle;      /* runs while there are */
    struct conn *kept;    /* connections with kept bytes to hand out */
    uint64_t kept_bytes;  /* read and kept back by pauses, of all connections: read it */
    size_t read_max;      /* set by the loop's owner: as conn_read_at_most(), for all connections; 0: CONN_SCRATCH */

    /* conn_blocked.c */
    int blocked_fd; /* epoll's */
    uv_poll_t *blocked;
    uint32_t blocked_len; /* connections whose sockets are full */

    /* conn_shm.c */
    uint32_t shm_len; /* connections that share memory: read it */
    bool sleeps;      /* uv_run() may sleep in its next poll: set by the loop's owner, true at first */
    uv_prepare_t *before;
    uv_check_t *after;
    uv_idle_t *awake;                    /* runs when the loop may not sleep */
    struct conn_shm *shm_conns, *shm_at; /* those that share; the next one to be looked at */
    bool dozes;                          /* the other sides know that this loop sleeps */
};

/* PS_ERR_NOMEM, PS_ERR_LIMIT (descriptors). */
enum ps_err conn_pool_init(struct conn_pool *p, uv_loop_t *loop) PS_MUST_USE;
void conn_pool_finish(struct conn_pool *p); /* accepts zeroed and finished pools */

struct conn_events {
    /* TLS: the handshake is done, once; frames may come from now on, and queued ones go out after this. May be NULL. */
    void (*secured)(struct conn *c);
    /* The head of a frame is whole, and the rest has yet to come: memory for it is not taken yet. An error, with a
     * sentence in *why, ends the connection (ended()); after conn_read_pause() nothing more of it is read, or taken,
     * before reading continues. Not called in authentication. May be NULL. */
    enum ps_err (*head)(struct conn *c, const struct frame_head *head, struct ps_error *why);
    /* Metadata of a frame with a payload is whole: optionally frame_direct() or frame_discard() on conn_reader(). May
     * be NULL. */
    void (*meta)(struct conn *c, const struct frame_head *head, const void *meta);
    /* A whole frame. payload is NULL when there is none or when it was directed or discarded; else valid during the
     * call. */
    void (*frame)(struct conn *c, const struct frame_head *head, const void *meta, const void *payload);
    /* The stream ended or failed, or its bytes were no frame (PS_ERR_PROTOCOL, PS_ERR_VERSION: the connection still
     * writes, so an ERROR frame can be sent before conn_finish()). PS_ERR_TLS, PS_ERR_TIMEOUT: the handshake failed; to
     * a peer that began without TLS, an error can still be sent in plain text (conn_tells()). After this no more frames
     * come. Once. Not called after conn_close() or conn_finish(). */
    void (*ended)(struct conn *c, const struct ps_error *why);
    /* Only with authentication (conn_auth.h): it is done, with this role and token. May be NULL elsewhere. */
    void (*admitted)(struct conn *c, enum role role, const char *token);
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
    char peer[PS_ERROR_PEER_MAX]; /* set by conn_start() unless the owner did: "127.0.0.1:4000", "unix:/path" */

    /* Bytes that only both ends of an encrypted stream know: a proof is valid for this stream alone. None: it is not
     * encrypted. Set before the first frame. */
    uint8_t binding[CONN_BINDING_MAX];
    size_t binding_len;
    bool refused; /* authentication has ended it */
    bool local;   /* from conn_start() on: the peer is on this machine, as a Unix socket or the addresses show */

    /* private */
    struct frame_reader reader;
    struct conn_auth *auth; /* NULL: all frames are the owner's */
    uint64_t auth_ms;       /* its deadline; 0: it has none */
    uint64_t auth_hold_ms;  /* until when a proof waits to be looked at; 0: none does */
    size_t read_max;        /* 0: CONN_SCRATCH */
    struct conn_queue queue;
    uv_shutdown_t shutdown;
    int fd; /* from conn_start() on */
    bool started, paused, reading;
    bool flushing;  /* a caller on the stack is in flush() */
    bool blocked;   /* the socket is full, or its turn is over: it continues from the loop */
    bool listed;    /* in the pool's epoll */
    bool broken;    /* writing failed */
    bool ended;     /* the owner was notified, or needs it no more */
    bool eof;       /* there is nothing more to read */
    bool finishing; /* conn_finish() was called */
    bool leaving;   /* ... by conn_leave() */
    bool shut;      /* and all was sent */
    bool closing;   /* conn_close() was called */
    int broken_status;
    void (*closed)(struct conn *c);
    uint64_t end_ms;  /* deadline of linger or of reporting `broken`; 0: none */
    uint64_t look_ms; /* when it is next checked whether all was acknowledged; 0: never */
    uint32_t look_wait_ms;
    uint64_t due_ms;                     /* when the timer must look here; 0: not in pool->waiting */
    struct conn *due_next, **due_before; /* pool->waiting */
    uint8_t *rest;                       /* read, and kept back by a pause; NULL: nothing */
    size_t rest_at, rest_len, rest_size;
    struct conn *kept_next, **kept_before; /* pool->kept; NULL: not in it */
    int eof_status;                        /* how the stream has ended, libuv's; eof */

    const struct transport_ops *transport; /* carries the frames: conn_transport.h */
    void *transport_data;
    uint64_t transport_ms;    /* deadline of its handshake; 0: none */
    bool shaking;             /* frames wait for the end of a handshake */
    bool secured;             /* the handshake is done */
    enum tls_blame tls_blame; /* of one that failed with PS_ERR_TLS */
};

/* Make the handle (uv_tcp_init or uv_pipe_init); the caller then accepts or connects on c->u, and calls conn_start().
 * After a successful init, conn_close() is owed. */
enum ps_err conn_init(struct conn *c, struct conn_pool *pool, bool is_pipe, const struct conn_events *events,
                      void *arg) PS_MUST_USE;

/* TCP: all bytes are encrypted, TLS 1.3 (tls.h), from the first one on. After conn_init(), before conn_start(). name:
 * for a client, the host or IP address that the other side's certificate must name; for a server NULL. tls is borrowed
 * until this returns. Queued frames wait for the end of the handshake, which has timeout_ms. */
enum ps_err conn_tls(struct conn *c, const struct tls *tls, const char *name, uint32_t timeout_ms,
                     struct ps_error *e) PS_MUST_USE;

/* The error for a peer without TLS (conn_tells()). */
#define CONN_TLS_WANTED "TLS alone is spoken here, and you speak without: give the CA (tls_ca, PSD_TLS_CA)"

/* The handshake is done. */
static inline bool
conn_secured(const struct conn *c)
{
    return c->secured;
}

/* TCP: no delay, and the congestion control named; NULL, or a name that the kernel does not know or allow, leaves the
 * system's own. Begin to read, and to write frames queued before. */
enum ps_err conn_start(struct conn *c, const char *congestion) PS_MUST_USE;

/* TCP: another congestion control; a name that the kernel does not know or allow changes nothing. After conn_start().
 */
void conn_congestion(struct conn *c, const char *name);

/* A Unix socket, of a listener or a connection: refuses descriptors that peers pass along with bytes (SCM_RIGHTS). They
 * would not be used, but the kernel closes them in the thread that reads the bytes, which may take as long as the
 * sender likes: a TCP socket may linger. Changes nothing where the kernel is older than 6.16. conn_start() does so
 * itself. */
void conn_refuse_descriptors(int fd);

/* Frames go through this memory from now on, both ways; the stream only wakes the other side. Takes the memory over,
 * unless it fails. Both sides have agreed on it: not one byte is on the stream, of which nothing is queued (started,
 * and flushed to the end). Payloads may then change while frame() reads them: an owner that relies on a check copies
 * first. PS_ERR_NOMEM.
 *
 * An owner that runs the loop by uv_run() alone has nothing else to do: the rings are checked before each poll. Set
 * pool->sleeps to false around iterations that do not sleep (UV_RUN_NOWAIT, an idle handle that runs), or the other
 * sides send doorbells in vain; an owner that sleeps in a poll of its own does so between conn_pool_doze() and
 * conn_pool_wake(), and not when the first returns false. */
enum ps_err conn_shm(struct conn *c, struct shm_ring *share) PS_MUST_USE;
bool conn_shares(const struct conn *c);
bool conn_pool_doze(struct conn_pool *p);
void conn_pool_wake(struct conn_pool *p);

/* Queue a frame. Tries to write at once unless `later`; conn_flush() writes what was queued with `later`. done() may
 * come before this returns. */
void conn_send(struct conn *c, struct conn_out *out, bool later);
void conn_flush(struct conn *c);

/* Drop what is queued, each frame with PS_ERR_CANCELLED, and the rest of the payload that is being read: neither the
 * senders' memory nor the parts are touched after this returns. The stream stays in step, in both directions: the rest
 * of a frame that has begun is copied and goes out. Without memory for that nothing more is written, and the owner is
 * notified as for any failure to write. Not from within done(), prepare() or release(). */
void conn_cut(struct conn *c);

/* Read once, without waiting, outside the loop: for callers that spin, not with shared memory. True: something came,
 * and was handed out. */
bool conn_poll(struct conn *c);

/* Stop and continue reading. Within head() that is before the frame; else the frame that has begun may still come, when
 * all of it was read already. Whole frames behind it are kept back (at most CONN_SCRATCH bytes, copied) and come from
 * the loop's next iteration on, after reading continues. */
void conn_read_pause(struct conn *c);
void conn_read_resume(struct conn *c);

/* Read at most this many bytes at once beyond the frame that is being read, when no large payload is expected; 0:
 * CONN_SCRATCH. */
void conn_read_at_most(struct conn *c, size_t bytes);

/* Send what is queued, shut the stream down, and close when the peer has closed its side (so that unread bytes do not
 * reset the connection under the last frame), at most CONN_LINGER_MS from now. No more frames come. */
void conn_finish(struct conn *c, void (*closed)(struct conn *c));

/* The same, but no longer than until the peer's system has acknowledged all: the peer can read it at any time, even
 * when what it sends meanwhile is answered by a reset. That is soon, however long the peer itself does not read, unless
 * it left so much unread that not all is taken; then at most patience_ms from now. For peers without a proxy between,
 * which may discard its data when it sees that reset. */
void conn_leave(struct conn *c, uint32_t patience_ms, void (*closed)(struct conn *c));

/* Close now: not one byte of a queued frame is touched after this returns. From the loop, each of them ends with
 * PS_ERR_CLOSED, then closed() (may be NULL) comes last and may free the conn. Calling it again, or after
 * conn_finish(), is allowed and keeps the first closed(). */
void conn_close(struct conn *c, void (*closed)(struct conn *c));

/* Heap bytes held for reading and writing: payload being read, heads and copies of frames queued. For accounting. */
uint64_t conn_bytes(const struct conn *c);

/* Frames wait to be written. */
static inline bool
conn_queued(const struct conn *c)
{
    return c->queue.first != NULL || c->blocked;
}

/* Bytes wait for the other side to take them. */
static inline bool
conn_writes(const struct conn *c)
{
    return conn_queue_ready(&c->queue) || c->blocked;
}

/* Bytes of frames that the other side's system has taken, in all; where they are encrypted, or lie in shared memory,
 * what has gone there. */
static inline uint64_t
conn_written(const struct conn *c)
{
    return c->queue.taken_bytes;
}

/* It has ended, and a last frame can still be sent. */
static inline bool
conn_tells(const struct conn *c)
{
    return !c->broken && !c->closing && !c->shaking;
}

static inline struct frame_reader *
conn_reader(struct conn *c)
{
    return &c->reader;
}

/* Translate a libuv status (negative errno) to our code. The one place that does. */
enum ps_err conn_uv_error(int status);

#endif
