/* Frames into a ring in shared memory (common/net/share.h): at once, if all of one has room there; what has not waits
 * in a queue (common/net/conn_queue.h, as for a socket) until it has.
 *
 *     if (!ring_out_at_once(&r, frame)) conn_queue_append(&r.queue, ...)
 *     ring_out_flush(&r)                   // whoever sleeps is woken
 *     moved = ring_out_write(&r)           // what waits, as far as there is room
 *
 * Room is looked for only when what is known of is too little: the reader's position costs a cache miss. */
#ifndef CLIENT_GROUP_RING_OUT_H
#define CLIENT_GROUP_RING_OUT_H

#include "client/group/links/bell.h"
#include "client/group/links/copying.h"
#include "client/group/links/link.h"
#include "common/net/share.h"

struct ring_out {
    struct share *share; /* borrowed, as are the next three */
    struct bell *bell;
    struct copying *copying; /* of all links of the group */
    const uv_loop_t *loop;
    struct conn_queue queue;
    size_t room;  /* at least so much is there */
    bool unrung;  /* frames were put, and the other side may sleep */
    bool writing; /* further up on the stack */
    bool mute;    /* the other side's position makes no sense, or the stream is cut in the middle of a frame */
};

void ring_out_init(struct ring_out *r, struct share *share, struct bell *bell, struct copying *copying,
                   const uv_loop_t *loop);

/* False: not all of it has room, or others come first. */
bool ring_out_at_once(struct ring_out *r, const struct link_out *out);

void ring_out_flush(struct ring_out *r);
bool ring_out_write(struct ring_out *r); /* true: something moved */

/* Drop what is queued, but for the rest of a frame that has begun (conn_queue_cut()). False: it is mute now. */
bool ring_out_cut(struct ring_out *r);

#endif
