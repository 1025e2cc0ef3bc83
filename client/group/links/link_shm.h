/* A link through shared memory, for ranks of one machine (shm_ring.h): frames lie in a ring as they would on a socket,
 * and are read where they lie.
 *
 * The connection over which the two have greeted each other stays: its end is the other side's end, and a GROUP_BELL on
 * it wakes a side that sleeps. What was written into the ring before the end of the connection comes before it. */
#ifndef CLIENT_GROUP_LINKS_LINK_SHM_H
#define CLIENT_GROUP_LINKS_LINK_SHM_H

#include "client/group/links/copy_policy.h"
#include "client/group/links/rank_link.h"
#include "common/net/conn.h"
#include "common/net/shm_ring.h"

/* Of a ring, when so many ranks are on this machine. A quarter of it holds the messages of large operations, so that
 * some are under way while one is read; all that a rank's rings have should fit a cache. */
size_t link_shm_ring_bytes(uint32_t ranks);

/* Take over a started connection, which is heap memory of malloc(), and what is shared with its other side; *share is
 * zeroed then. Freed once closed() came. copying: of all links of a group, borrowed until then. NULL: out of memory,
 * and neither is taken. */
struct rank_link *link_shm_new(struct conn *conn, struct shm_ring *share, uint32_t rank, struct copy_policy *copying);

#endif
