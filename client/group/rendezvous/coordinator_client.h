/* One question to the coordinator of a rendezvous: find it, connect, ask to join, and receive the answer. Glue.
 *
 *     q = coordinator_client_start(pool, "host:port", &to, arg); // to.connected() → coordinator_client_meet(q, ...)
 *     ...                                                // to.waits(), then to.met(), or to.failed() at any time
 *     coordinator_client_drop(q);                        // at any time, and in the end: no callback comes after it
 *
 *     coordinator_client_start() ─► names, connecting ─► connected() ─► coordinator_client_meet() ─► waits() ─► met()
 *                        └──────────────────┴─────────────────┴─────────────────────────┴───────────────┴────► failed()
 *
 * It has no deadline of its own: its owner drops it. Callbacks come from the loop, never from within
 * coordinator_client_start(); any of them may call coordinator_client_drop(). After met() or failed() only that is left
 * to do. */
#ifndef CLIENT_GROUP_RENDEZVOUS_COORDINATOR_CLIENT_H
#define CLIENT_GROUP_RENDEZVOUS_COORDINATOR_CLIENT_H

#include "client/api/credentials.h"
#include "common/core/wire/wire.h"
#include "common/net/conn.h"

struct coordinator_client;

struct coordinator_client_events {
    /* local: the address, in numbers, that this process has on the way there; "127.0.0.1" through a Unix socket. */
    void (*connected)(void *arg, const char *local);
    void (*waits)(void *arg); /* MEETING, or a shard's WELCOME */
    void (*met)(void *arg, const Psd__Met *m);
    /* UNREACHABLE: it could not be connected to; CLOSED; or the error that it sent */
    void (*failed)(void *arg, const struct ps_error *why);
};

/* credentials: borrowed until coordinator_client_drop(). congestion: as conn_start() takes it; NULL: chosen. *handles
 * counts what libuv still has of it, also after it was dropped. NULL: no memory, or no descriptor. */
struct coordinator_client *coordinator_client_start(struct conn_pool *pool, const struct credentials *credentials,
                                                    const struct address *address, const char *congestion,
                                                    const struct coordinator_client_events *to, void *arg,
                                                    uint32_t *handles);

/* Once, after connected(). hello: NULL when a worker is asked. False: no memory. */
bool coordinator_client_meet(struct coordinator_client *q, const Psd__Hello *hello, const Psd__Meet *m) PS_MUST_USE;

void coordinator_client_drop(struct coordinator_client *q); /* accepts NULL */

#endif
