/* Frames into a ring in shared memory (common/net/frame_ring.h): at once, if all of one has room there; what has not
 * waits in a queue (common/net/conn_queue.h, as for a socket) until it has.
 *
 *     if (!ring_out_at_once(&r, frame)) conn_queue_append(&r.queue, ...)
 *     ring_out_flush(&r)                   // the other side is woken if it sleeps
 *     moved = ring_out_write(&r)           // what waits, as far as there is room
 *
 * Two things are special to groups: sending at once, without a queue between, and two ways to copy (copy_policy.h). */
#ifndef CLIENT_GROUP_LINKS_RING_OUT_H
#define CLIENT_GROUP_LINKS_RING_OUT_H

#include "client/group/links/bell.h"
#include "client/group/links/copy_policy.h"
#include "client/group/links/rank_link.h"
#include "common/net/frame_ring.h"

struct ring_out {
    struct frame_ring *ring; /* borrowed, as are the next three */
    struct bell *bell;
    struct copy_policy *copy_policy; /* of all links of the group */
    const uv_loop_t *loop;
    struct conn_queue queue;
    bool unrung;  /* frames were put, and the other side may sleep */
    bool writing; /* further up on the stack */
    bool mute;    /* the other side's position makes no sense, or the stream is cut in the middle of a frame */
};

void ring_out_init(struct ring_out *r, struct frame_ring *ring, struct bell *bell, struct copy_policy *copying,
                   const uv_loop_t *loop);

/* False: not all of it has room, or others come first. */
bool ring_out_at_once(struct ring_out *r, const struct rank_link_out *out);

void ring_out_flush(struct ring_out *r);
bool ring_out_write(struct ring_out *r); /* true: something moved */

/* Drop what is queued, but for the rest of a frame that has begun (conn_queue_cut()). False: it is mute now. */
bool ring_out_cut(struct ring_out *r);

#endif
