/* Where a worker of a group listens: as configured, or where the cluster says; where there are shards, any port does
 * when that one cannot be opened. A name is looked up first, once, on a thread (client/api/resolve.h). Glue.
 *
 *     listen_address_init(&s, &config)
 *     if (listen_address_find(&s, &e)) ... // known; else, after TIMEOUT in e, config.found() or config.failed() comes
 *     listen_address_open(&s, "127.0.0.1", &e) // the acceptor is open, and s.advertised is what the others get
 *     listen_address_give_up(&s)           // nothing comes any more; the next listen_address_find() starts over
 *     listen_address_close(&s)
 */
#ifndef CLIENT_GROUP_RENDEZVOUS_LISTEN_ADDRESS_H
#define CLIENT_GROUP_RENDEZVOUS_LISTEN_ADDRESS_H

#include "client/group/rendezvous/acceptor.h"
#include "client/include/psclient/psclient.h"
#include "common/core/cluster/address.h"

struct resolve;

struct listen_address_config {
    struct conn_pool *pool;
    struct acceptor *acceptor;
    const char *listen; /* "host:port" as configured; NULL: where the cluster says. Borrowed until the end */
    const char *listed; /* the cluster's address of this worker; NULL: none. Borrowed until the end */
    bool any;           /* any port does where listen is NULL */
    void (*found)(void *arg);
    void (*failed)(void *arg, const struct ps_error *why); /* UNREACHABLE: the name is of nothing */
    void *arg;
    uint32_t *handles; /* counts what libuv has of it */
};

struct listen_address {
    char advertised[GROUP_ADDRESS_MAX]; /* once the acceptor is open */

    /* private */
    struct listen_address_config config;
    struct resolve *lookup; /* under way; NULL: none */
    uv_async_t found;
    bool known;
    char numeric[ADDRESS_MAX]; /* in numbers; "": anywhere */
};

/* False: no descriptor. */
bool listen_address_init(struct listen_address *s, const struct listen_address_config *config);

/* True: it is known. False with TIMEOUT in *e: it is being looked up, and that is to be said if no answer comes in
 * time; else NOMEM. */
bool listen_address_find(struct listen_address *s, struct ps_error *e);

bool listen_address_must_wait(const struct listen_address *s); /* for the name: no other port does */
void listen_address_use_any(struct listen_address *s);         /* instead of waiting any longer */
void listen_address_give_up(struct listen_address *s);

/* local: this process's address on the way to where it meets. Errors as acceptor_open(). */
enum ps_err listen_address_open(struct listen_address *s, const char *local, struct ps_error *e) PS_MUST_USE;

void listen_address_close(struct listen_address *s); /* *handles goes down in the loop */

#endif
