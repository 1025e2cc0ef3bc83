/* Frames through the two rings of shared memory (shm_ring.h), as a connection to a shard (conn_shm.c) and a link
 * between ranks (client/group/links/link_shm.c) move them alike. How the other side is woken is up to each of the two.
 *
 *     writer:  room = frame_ring_room(&r, wanted)
 *              bytes = frame_ring_fill(&r, &queue, room, NULL, NULL);    wake the other side (SHM_RING_DATA)
 *              conn_queue_take(&queue, bytes)
 *     reader:  n = frame_ring_next(&r, &reader, &ripe)                   n bytes at shm_ring_out(&r.share)
 *              if (frame_ring_taken(&r, n))                              wake the other side (SHM_RING_SPACE)
 *     before a sleep:  frame_ring_sleep(&r, &reader, wants)
 *
 * A frame that fits half a ring is not read until all of it is there, so it is never copied first; a larger one comes
 * in pieces, the head by itself where the reader announces it, so that the rest can stay in the ring.
 *
 * A position that one side writes and the other reads costs each of them a cache miss, so both look as rarely as
 * possible: the writer uses the space that it knew of until that is too little, and the reader publishes what it has
 * read when that is an eighth of the ring. Until then some free space is unknown to the writer: a writer that finds
 * none waits, but all the rest of the ring, more than half of it, is there to be read, so the reader has something to
 * read and reaches the point where it publishes. */
#ifndef COMMON_NET_FRAME_RING_H
#define COMMON_NET_FRAME_RING_H

#include "common/core/wire/frame.h"
#include "common/net/conn_queue.h"
#include "common/net/shm_ring.h"

struct frame_ring {
    struct shm_ring shm;
    size_t room;   /* known free bytes of the ring out */
    size_t unsaid; /* bytes that were read and not yet published */
};

/* The next bytes to handle: n of them are a whole frame with this head, or go to the reader; 0: there must be more
 * first. */
struct frame_ripe {
    size_t n;
    bool whole;
    struct frame_head head;
};

/* Takes the memory over. */
void frame_ring_init(struct frame_ring *r, struct shm_ring *share);
void frame_ring_finish(struct frame_ring *r);

/* Bytes that may be put into the ring; the other side's position is read again if fewer than wanted are known.
 * SIZE_MAX: that position is not valid. */
size_t frame_ring_room(struct frame_ring *r, size_t wanted);

/* n bytes were written at shm_ring_in(). */
void frame_ring_put(struct frame_ring *r, size_t n);

/* Copy the queue's ready bytes, as far as there is space, and put them. copy: NULL: memcpy(). Returns bytes. */
typedef void frame_ring_copy(void *arg, void *to, const void *from, size_t n);
size_t frame_ring_fill(struct frame_ring *r, const struct conn_queue *q, size_t room, frame_ring_copy *copy, void *arg);

/* The next bytes to handle, as *ripe; its n. SIZE_MAX: the other side's position is not valid. reader: of frames that
 * come in pieces. */
size_t frame_ring_next(const struct frame_ring *r, const struct frame_reader *reader, struct frame_ripe *ripe);

/* n bytes were read. True: the other side must be woken, if it waits for space. */
bool frame_ring_taken(struct frame_ring *r, size_t n) PS_MUST_USE;

/* Marks all that is there as read, and publishes it. True: there was some. */
bool frame_ring_drop(struct frame_ring *r);

/* False: something is there already; else this side may sleep, and is woken for what it wants (shm_ring_sleep()). A
 * frame that has only begun is no reason to stay awake: its rest wakes this side. */
bool frame_ring_sleep(struct frame_ring *r, const struct frame_reader *reader, unsigned wants);

#endif
