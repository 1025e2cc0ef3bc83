/* Where a worker of a group listens: as it was told to, or where the cluster says; where there are shards any port does
 * when that cannot be had. A name is looked up first, once, on a thread (client/api/resolve.h). Glue.
 *
 *     site_init(&s, &config)
 *     if (site_find(&s, &e)) ...           // known; else, after TIMEOUT in e, config.found() or config.failed() comes
 *     site_open(&s, "127.0.0.1", &e)       // the door is open, and s.mine is what the others are told
 *     site_give_up(&s)                     // nothing comes any more; the next site_find() begins anew
 *     site_close(&s)
 */
#ifndef CLIENT_GROUP_SITE_H
#define CLIENT_GROUP_SITE_H

#include "client/group/rendezvous/door.h"
#include "client/include/psclient/psclient.h"
#include "common/core/cluster/address.h"

struct resolve;

struct site_config {
    struct conn_pool *pool;
    struct door *door;
    const char *listen; /* "host:port" that it was told; NULL: where the cluster says. Borrowed until the end */
    const char *listed; /* the cluster's address of this worker; NULL: none. Borrowed until the end */
    bool any;           /* any port does where listen is NULL */
    void (*found)(void *arg);
    void (*failed)(void *arg, const struct ps_error *why); /* UNREACHABLE: the name is of nothing */
    void *arg;
    uint32_t *handles; /* counts what libuv has of it */
};

struct site {
    char mine[GROUP_ADDRESS_MAX]; /* once the door is open */

    /* private */
    struct site_config config;
    struct resolve *lookup; /* under way; NULL: none */
    uv_async_t found;
    bool known;
    char place[ADDRESS_MAX]; /* in numbers; "": anywhere */
};

/* False: no descriptor. */
bool site_init(struct site *s, const struct site_config *config);

/* True: it is known. False with TIMEOUT in *e: it is being looked up, and that is to be said if no answer comes in
 * time; else NOMEM. */
bool site_find(struct site *s, struct ps_error *e);

bool site_must_wait(const struct site *s); /* for the name: no other port does */
void site_take_any(struct site *s);        /* instead of waiting any longer */
void site_give_up(struct site *s);

/* local: this process's address on the way to where it meets. Errors as door_open(). */
enum ps_err site_open(struct site *s, const char *local, struct ps_error *e) PS_MUST_USE;

void site_close(struct site *s); /* *handles goes down in the loop */

#endif
