/* What wakes the other rank of a link through shared memory: a frame on the connection beside it, which ends the sleep
 * of its loop. Rung only for one that said that it sleeps (share_sleep()), and only once at a time: a bell that is
 * under way wakes it later than the next one would. */
#ifndef CLIENT_GROUP_BELL_H
#define CLIENT_GROUP_BELL_H

#include "common/net/conn.h"
#include "common/net/share.h"

struct bell {
    struct share *share; /* borrowed */
    struct conn *conn;   /* borrowed; NULL: it has ended, and that wakes as well */
    struct conn_out out;
    uint8_t head[FRAME_HEAD_SIZE];
    bool rings; /* the connection has it */
};

void bell_init(struct bell *b, struct share *share, struct conn *conn);

/* After what the other side may have been waiting for was written or read. */
void bell_ring(struct bell *b, enum share_wants what);

#endif
