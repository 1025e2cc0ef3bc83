/* Rights: which role a message takes. PROTOCOL.md, section 14, has the same table. Pure. */
#ifndef SERVER_CORE_SHARD_PERMISSIONS_H
#define SERVER_CORE_SHARD_PERMISSIONS_H

#include "common/core/auth/keyring.h"
#include "common/core/wire/frame.h"

/* The least role that may send it to a shard. A HELLO: that of an observer; one of a worker takes PERMISSIONS_WORKER. A
 * type that no peer sends takes ROLE_NONE: it is refused for another reason. */
enum role permissions_of(unsigned type);

#define PERMISSIONS_WORKER ROLE_TRAIN

/* The sentence for a connection that has less than the message takes. */
void permissions_refusal(unsigned type, enum role has, enum role takes, char *out, size_t size);

#endif
