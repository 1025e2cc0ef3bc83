/* How two sides of a connection agree to share memory: the first frames on it, if it begins so, and handled by the glue
 * alone. PROTOCOL.md, section 13. Pure.
 *
 *     SHARE   pid u32, fd u32, token u64    the connecting side has made memory: this descriptor of that process
 *     SHARED  yes u64                       1: it was found, and carries all that follows; 0: the stream does
 *
 * Nothing is sent between the two. */
#ifndef COMMON_CORE_WIRE_SHM_OFFER_H
#define COMMON_CORE_WIRE_SHM_OFFER_H

#include "common/core/wire/frame.h"

#define SHM_OFFER_FRAME_MAX 48 /* bytes of either frame */

struct shm_offer {
    uint32_t pid, fd;
    uint64_t token; /* never 0 */
};

/* out: [SHM_OFFER_FRAME_MAX]. Returns the frame's length. */
size_t shm_offer_encode(const struct shm_offer *o, uint8_t *out);
size_t shm_answer_encode(bool yes, uint8_t *out);

/* Decodes a frame of that type. PROTOCOL: it is not valid. */
enum ps_err shm_offer_decode(const struct frame_head *head, const void *meta, struct shm_offer *o,
                             struct ps_error *e) PS_MUST_USE;
enum ps_err shm_answer_decode(const struct frame_head *head, const void *meta, bool *yes,
                              struct ps_error *e) PS_MUST_USE;

#endif
