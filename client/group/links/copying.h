/* How the bytes of a large frame get into a ring in shared memory: through the caches, or past them with streamed
 * stores. Which is faster depends on where the two processes run: what one core has written is read quickly by another
 * that shares a cache with it, and four times slower than from memory by one that does not. The kernel says neither
 * where a virtual machine's cores are nor when they move, so both ways are tried now and then, and what they cost
 * decides.
 *
 *     writer:  way = copying_way(&c, position);                 // of the ring, before the frame
 *              copy; copying_note(&c, way, COPYING_IN, bytes, ns);
 *     reader:  if (copying_tried(position, bytes, &way))        // the writer had no choice there
 *                  copying_note(&c, way, COPYING_OUT, bytes, ns);
 *
 * Two processes measure the writing of one direction and the reading of the other: the way between two cores is the
 * same in both directions. Pure but for copying_streamed(): time is an argument. */
#ifndef CLIENT_GROUP_COPYING_H
#define CLIENT_GROUP_COPYING_H

#include "common/core/base/base.h"

#define COPYING_BYTES_MIN (32 * KIB) /* what is smaller goes through the caches, and is not measured */
#define COPYING_EPOCH     (1 * MIB)  /* bytes of the stream that are written alike */
#define COPYING_CYCLE     64         /* epochs, of which one is tried in each way */

enum copying_way { COPYING_CACHED, COPYING_STREAMED, COPYING_WAYS };
enum copying_side { COPYING_IN, COPYING_OUT, COPYING_SIDES };

/* Zeroed: nothing is known. */
struct copying {
    double ns_per_byte[COPYING_WAYS][COPYING_SIDES]; /* 0: not known */
};

/* position: bytes that were ever put into the ring. */
enum copying_way copying_way(const struct copying *c, uint64_t position);

/* Whether all of these bytes were written to try a way. */
bool copying_tried(uint64_t position, size_t bytes, enum copying_way *way);

void copying_note(struct copying *c, enum copying_way way, enum copying_side side, size_t bytes, uint64_t ns);

/* memcpy() past the caches; through them where the processor has no such stores. */
void copying_streamed(void *restrict to, const void *restrict from, size_t n);

#endif
