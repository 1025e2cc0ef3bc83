/* The doorbell that wakes the other rank of a link through shared memory: a frame on the connection beside it, which
 * ends the sleep of its loop. It is rung only for a rank that has announced its sleep (shm_ring_sleep()), and only once
 * at a time: a bell that is under way wakes it later than the next one would. */
#ifndef CLIENT_GROUP_LINKS_BELL_H
#define CLIENT_GROUP_LINKS_BELL_H

#include "common/net/conn.h"
#include "common/net/shm_ring.h"

struct bell {
    struct shm_ring *shm; /* borrowed */
    struct conn *conn;    /* borrowed; NULL: it has ended, and that wakes as well */
    struct conn_out out;
    uint8_t head[FRAME_HEAD_SIZE];
    bool rings; /* the connection has it */
};

void bell_init(struct bell *b, struct shm_ring *share, struct conn *conn);

/* After what the other side may have been waiting for was written or read. */
void bell_ring(struct bell *b, enum shm_ring_wants what);

#endif
