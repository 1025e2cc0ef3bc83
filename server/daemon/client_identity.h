/* Identities: what psd knows of the other end of a connection: its token, the user of a Unix socket, or its host.
 * Limits hold for all connections of an identity together. Pure.
 *
 *     i = client_identity_take(&all, "token alice");     // made when it is the first one's
 *     client_identity_give(&all, i);                     // gone with the last one's
 */
#ifndef SERVER_DAEMON_CLIENT_IDENTITY_H
#define SERVER_DAEMON_CLIENT_IDENTITY_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "server/core/turn/shard_types.h"
#include "server/daemon/in_flight.h"

#define CLIENT_IDENTITY_EIGHTHS 4 /* of --in-flight: what one identity may hold of messages in memory */

struct client_identity {
    struct in_flight_share share;
    struct shard_share waiting; /* counted by the shard */
    uint32_t connections;
    uint32_t reserved; /* of them, in places that are kept for who administers the shard */
    UT_hash_handle hh;
    char name[];
};

/* NULL: there is no memory for it. */
struct client_identity *client_identity_take(struct client_identity **all, const char *name);

void client_identity_give(struct client_identity **all, struct client_identity *i); /* accepts NULL */

#endif
