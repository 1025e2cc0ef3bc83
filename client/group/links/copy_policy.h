/* How the bytes of a large frame get into a ring in shared memory: through the caches, or past them with streamed
 * stores. Which is faster depends on where the two processes run: what one core has written is read quickly by another
 * that shares a cache with it, and four times slower than from memory by one that does not. The kernel says neither
 * where a virtual machine's cores are nor when they move, so both ways are tried now and then, and what they cost
 * decides.
 *
 *     writer:  way = copy_policy_mode(&c, position);            // of the ring, before the frame
 *              copy; copy_policy_note(&c, way, COPY_IN, bytes, ns);
 *     reader:  if (copy_policy_tried(position, bytes, &way))    // the writer had no choice there
 *                  copy_policy_note(&c, way, COPY_OUT, bytes, ns);
 *
 * Two processes measure the writing of one direction and the reading of the other: the way between two cores is the
 * same in both directions. Pure but for copy_policy_streamed(): time is an argument. */
#ifndef CLIENT_GROUP_LINKS_COPY_POLICY_H
#define CLIENT_GROUP_LINKS_COPY_POLICY_H

#include "common/core/base/base.h"

#define COPY_POLICY_BYTES_MIN (32 * KIB) /* what is smaller goes through the caches, and is not measured */
#define COPY_POLICY_EPOCH     (1 * MIB)  /* bytes of the stream that are written alike */
#define COPY_POLICY_CYCLE     64         /* epochs, of which one is tried in each way */

enum copy_mode { COPY_CACHED, COPY_STREAMED, COPY_MODES };
enum copy_side { COPY_IN, COPY_OUT, COPY_SIDES };

/* Zeroed: nothing is known. */
struct copy_policy {
    double ns_per_byte[COPY_MODES][COPY_SIDES]; /* 0: not known */
};

/* position: bytes that were ever put into the ring. */
enum copy_mode copy_policy_mode(const struct copy_policy *c, uint64_t position);

/* Whether all of these bytes were written to try a way. */
bool copy_policy_tried(uint64_t position, size_t bytes, enum copy_mode *way);

void copy_policy_note(struct copy_policy *c, enum copy_mode way, enum copy_side side, size_t bytes, uint64_t ns);

/* memcpy() past the caches; through them where the processor has no such stores. */
void copy_policy_streamed(void *restrict to, const void *restrict from, size_t n);

#endif
