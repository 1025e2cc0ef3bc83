/* Chunks in a list, filled one after the other; a request larger than a chunk gets a chunk of its own size. No memory
 * is freed before the reset, which keeps only the first chunk: the steady state allocates nothing. */
#include "common/core/base/arena.h"

#include <stdlib.h>

#define ARENA_ALIGN 16

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* of bytes */
    _Alignas(ARENA_ALIGN) uint8_t bytes[];
};

static void *
arena_fail(struct arena *a, enum ps_err why)
{
    a->exceeded = why;
    return NULL;
}

/* Make a->now a chunk with space for size. */
static bool
chunk_add(struct arena *a, size_t size)
{
    size_t room = MAX(size, (size_t)ARENA_CHUNK);
    struct arena_chunk *chunk = malloc(sizeof *chunk + room);

    if (chunk == NULL)
        return false;
    chunk->next = NULL;
    chunk->size = room;
    if (a->now != NULL)
        a->now->next = chunk;
    else
        a->first = chunk;
    a->now = chunk;
    a->used = 0;
    return true;
}

void *
arena_alloc(struct arena *a, size_t size)
{
    void *place;

    /* A size of 0 takes no space, but still has an address of its own. */
    if (size > ARENA_BYTES_MAX)
        return arena_fail(a, PS_ERR_LIMIT);
    size = round_up(MAX(size, 1), ARENA_ALIGN);
    if (size > ARENA_BYTES_MAX - a->total)
        return arena_fail(a, PS_ERR_LIMIT);
    if ((a->now == NULL || size > a->now->size - a->used) && !chunk_add(a, size))
        return arena_fail(a, PS_ERR_NOMEM);
    place = a->now->bytes + a->used;
    a->used += size;
    a->total += size;
    return place;
}

static void
chunks_free(struct arena_chunk *chunk)
{
    for (struct arena_chunk *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
}

void
arena_reset(struct arena *a)
{
    /* A first chunk that one large request made is not worth keeping. */
    if (a->first != NULL && a->first->size > ARENA_CHUNK) {
        chunks_free(a->first);
        a->first = NULL;
    } else if (a->first != NULL) {
        chunks_free(a->first->next);
        a->first->next = NULL;
    }
    a->now = a->first;
    a->used = 0;
    a->total = 0;
    a->exceeded = PS_OK;
}

void
arena_finish(struct arena *a)
{
    chunks_free(a->first);
    *a = (struct arena){0};
}

static void *
protobuf_alloc(void *arena, size_t size)
{
    return arena_alloc(arena, size);
}

static void
protobuf_free(void *arena, void *place)
{
    (void)arena;
    (void)place; /* goes with the reset */
}

ProtobufCAllocator *
arena_protobuf(struct arena *a)
{
    a->allocator = (ProtobufCAllocator){.alloc = protobuf_alloc, .free = protobuf_free, .allocator_data = a};
    return &a->allocator;
}
