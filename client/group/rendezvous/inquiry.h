/* One question to the host of a meeting: find it, connect, ask to be in, and hear what comes of it. Glue.
 *
 *     q = inquiry_start(pool, "host:port", &to, arg);    // to.connected() → inquiry_meet(q, ...)
 *     ...                                                // to.waits(), then to.met(), or to.failed() at any time
 *     inquiry_drop(q);                                   // at any time, and in the end: nothing more is heard
 *
 *     inquiry_start() ──► names, connecting ──► connected() ──► inquiry_meet() ──► waits() ──► met()
 *            └──────────────────┴──────────────────┴────────────────┴─────────────────┴────► failed()
 *
 * It has no deadline of its own: who asks drops it. Callbacks come from the loop, never from within inquiry_start();
 * any of them may call inquiry_drop(). After met() or failed() only that is left to do. */
#ifndef CLIENT_GROUP_INQUIRY_H
#define CLIENT_GROUP_INQUIRY_H

#include "client/api/credentials.h"
#include "common/core/wire/wire.h"
#include "common/net/conn.h"

struct inquiry;

struct inquiry_to {
    /* local: the address, in numbers, that this process has on the way there; "127.0.0.1" through a Unix socket. */
    void (*connected)(void *arg, const char *local);
    void (*waits)(void *arg); /* MEETING, or a shard's WELCOME */
    void (*met)(void *arg, const Psd__Met *m);
    /* UNREACHABLE: it could not be connected to; CLOSED; or what it said */
    void (*failed)(void *arg, const struct ps_error *why);
};

/* credentials: borrowed until inquiry_drop(). congestion: as conn_start() takes it; NULL: chosen. *handles counts what
 * libuv still has of it, also after it was dropped. NULL: no memory, or no descriptor. */
struct inquiry *inquiry_start(struct conn_pool *pool, const struct credentials *credentials,
                              const struct address *address, const char *congestion, const struct inquiry_to *to,
                              void *arg, uint32_t *handles);

/* Once, after connected(). hello: NULL when a worker is asked. False: no memory. */
bool inquiry_meet(struct inquiry *q, const Psd__Hello *hello, const Psd__Meet *m) PS_MUST_USE;

void inquiry_drop(struct inquiry *q); /* accepts NULL */

#endif
