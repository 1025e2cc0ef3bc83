/* A bump allocator for what lives as long as one frame: protobuf-c's unpacked messages.
 *
 *     struct arena a = {0};
 *     msg = psd__push__unpack(arena_protobuf(&a), len, bytes);   // never free msg
 *     arena_reset(&a);                                           // all of it is gone; memory is kept
 *     arena_finish(&a);
 *
 * One thread. Allocation fails (NULL) past ARENA_BYTES_MAX, so a hostile message cannot take more. An arena may not be
 * moved once arena_protobuf() was called: the allocator points back to it. */
#ifndef COMMON_CORE_BASE_ARENA_H
#define COMMON_CORE_BASE_ARENA_H

#include <protobuf-c/protobuf-c.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define ARENA_CHUNK     (64 * KIB)
#define ARENA_BYTES_MAX (16 * MIB)

struct arena_chunk;

struct arena {
    struct arena_chunk *first, *now;
    size_t used;          /* in `now` */
    size_t total;         /* handed out since the last reset */
    enum ps_err exceeded; /* why an allocation failed since the last reset: PS_ERR_NOMEM, PS_ERR_LIMIT; PS_OK: none */
    ProtobufCAllocator allocator;
};

void *arena_alloc(struct arena *a, size_t size); /* 16-byte aligned; NULL when out of memory or past the maximum */
void arena_reset(struct arena *a);               /* keeps the first chunk */
void arena_finish(struct arena *a);              /* accepts zeroed and finished arenas; it may be used again */
ProtobufCAllocator *arena_protobuf(struct arena *a);

#endif
