/* Buffers that grow to what the largest event took. */
#include "server/core/training/event_context.h"

#include <stdlib.h>

#include "common/core/wire/wire.h"
#include "server/core/model/block.h"

bool
event_buffers_init(struct event_buffers *b)
{
    *b = (struct event_buffers){.blocks = calloc(WIRE_BLOCKS_MAX, sizeof *b->blocks)};
    return b->blocks != NULL;
}

void
event_buffers_finish(struct event_buffers *b)
{
    free(b->blocks);
    free(b->decoded);
    free(b->summands);
    *b = (struct event_buffers){0};
}

float *
event_decoded_room(struct event_context *ctx, uint64_t bytes)
{
    struct event_buffers *b = ctx->buffers;
    uint64_t size = MAX(b->decoded_size, (uint64_t)(64 * KIB));
    float *bigger;

    if (bytes <= b->decoded_size)
        return b->decoded;
    while (size < bytes)
        size *= 2;
    if ((bigger = aligned_alloc(64, size)) == NULL)
        return NULL;
    free(b->decoded);
    b->decoded = bigger;
    b->decoded_size = size;
    return bigger;
}

const float **
event_summands_room(struct event_context *ctx, uint32_t n)
{
    struct event_buffers *b = ctx->buffers;
    uint32_t size = MAX(n, 16u);
    const float **bigger;

    if (b->summands_size > 0 && n <= b->summands_size)
        return b->summands;
    if ((bigger = realloc(b->summands, size * sizeof *bigger)) == NULL)
        return NULL;
    b->summands = bigger;
    b->summands_size = size;
    return bigger;
}
