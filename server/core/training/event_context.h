/* The context of one event: what its earlier steps leave for its later ones. shard_step() makes it and passes it down
 * as an argument; it ends with the event, and nothing of it is in struct shard.
 *
 *     shard_step() ──► message_take() ──► push_check(): blocks, gradients ──► the push is applied, or joins sync steps
 *
 * Memory that it works in is the shard's (struct event_buffers) and is kept from event to event, since most are alike:
 * in the steady state nothing is allocated. The contents have no meaning once the event is over. */
#ifndef SERVER_CORE_TRAINING_EVENT_CONTEXT_H
#define SERVER_CORE_TRAINING_EVENT_CONTEXT_H

#include "common/core/base/base.h"
#include "server/core/model/update.h"
#include "server/core/turn/shard_types.h"

struct block_ref;

struct event_buffers {
    struct block_ref *blocks; /* [WIRE_BLOCKS_MAX] */
    float *decoded;           /* [decoded_size bytes] */
    uint64_t decoded_size;
    const float **summands; /* [summands_size] */
    uint32_t summands_size;
};

struct event_context {
    const struct shard_event *event;
    struct event_buffers *buffers;

    /* A push, once push_check() has looked at it. */
    struct block_ref *blocks;  /* [its blocks], found */
    struct gradient gradients; /* theirs, one after the other */
};

/* False: out of memory. */
bool event_buffers_init(struct event_buffers *b) PS_MUST_USE;
void event_buffers_finish(struct event_buffers *b); /* accepts a zeroed one */

/* Room for so many bytes of decoded gradients, or so many summands of one update; what was there is lost. NULL: out of
 * memory. */
float *event_decoded_room(struct event_context *ctx, uint64_t bytes);
const float **event_summands_room(struct event_context *ctx, uint32_t n);

#endif
