/* The acceptor: where a rank listens, for the other ranks and for workers that join a rendezvous here. The first frame
 * of a connection says what it is for; the module that is registered for such frames takes the connection over.
 *
 *     acceptor_open(&d, pool, "127.0.0.1:0", &e);       // d.address: with the port that the kernel chose
 *     acceptor_route(&d, MSG_GROUP_HELLO, mesh_accept_hello, mesh); // now connections that begin so are handed on
 *     acceptor_close(&d, closed);
 *
 * Where this process has a token, each must prove to have the same one (common/net/conn_credentials.h).
 *
 * Strangers cannot block it: a connection that does not begin with a registered frame, or sends nothing for
 * ACCEPTOR_SILENCE_MS, is closed; past ACCEPTOR_PENDING_MAX silent ones the oldest goes. */
#ifndef CLIENT_GROUP_RENDEZVOUS_ACCEPTOR_H
#define CLIENT_GROUP_RENDEZVOUS_ACCEPTOR_H

#include <uv.h>

#include "client/api/credentials.h"
#include "client/group/rendezvous/membership.h"
#include "common/net/conn.h"

#define ACCEPTOR_SILENCE_MS  10000
#define ACCEPTOR_PENDING_MAX 320
#define ACCEPTOR_KINDS_MAX   8
#define ACCEPTOR_BACKLOG     512

/* Take c over: set c->events and c->arg, or close it with conn_close(c, acceptor_conn_closed). c is heap memory of
 * malloc(); its owner closes it, and its closed() frees it. The frame that it began with is valid during the call; more
 * may follow at once. */
typedef void (*acceptor_take)(void *arg, struct conn *c, const struct frame_head *head, const void *meta);

struct acceptor_pending;

struct acceptor {
    char address[GROUP_ADDRESS_MAX]; /* numeric, with the port; of a wildcard ("0.0.0.0:0") as it was given */
    uint16_t port;
    const struct credentials *credentials; /* set before it is opened; borrowed; NULL: nothing is encrypted */

    /* private */
    struct conn_pool *pool;
    uv_tcp_t listener;
    uv_timer_t timer;
    struct acceptor_pending *pending; /* oldest first */
    uint32_t pending_count;
    uint32_t handles;       /* that libuv still has */
    bool open, accept_owed; /* accept_owed: a connection waits that there was no memory for */
    struct {
        uint16_t type;
        acceptor_take take;
        void *arg;
    } kinds[ACCEPTOR_KINDS_MAX];
};

/* A host that is a number; false: it is a name, which this does not look up. */
bool acceptor_parse_number(const struct address *address, struct sockaddr_storage *out);

/* Whether this process may listen there. */
bool acceptor_may_open(const char *listen);

/* listen: "host:port" in numbers, port 0 for a free one. Errors: INVALID, UNREACHABLE (no such address here), BUSY
 * (another process listens there), LIMIT, NOMEM, IO. */
enum ps_err acceptor_open(struct acceptor *d, struct conn_pool *pool, const char *listen,
                          struct ps_error *e) PS_MUST_USE;

/* Connections that begin with such a frame go to take(); NULL: they are refused from now on. */
void acceptor_route(struct acceptor *d, uint16_t type, acceptor_take take, void *arg);

/* Stop listening and close all pending connections. The loop must run until acceptor_closed(). Accepts zeroed and
 * closed ones. */
void acceptor_close(struct acceptor *d);
bool acceptor_closed(const struct acceptor *d);

/* Frees a connection that an acceptor handed on, or that was made in the same way. */
void acceptor_conn_closed(struct conn *c);

#endif
