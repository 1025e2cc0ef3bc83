/* Large buffers that are lent for a short time and come back: the payload that a connection is just reading. The one
 * that came back last is lent first, while the cache still holds it, and connections that read nothing hold nothing.
 *
 *     uint8_t *data = buffer_pool_take(pool, len, &size);
 *     buffer_pool_give(pool, data, size);
 *
 * Pure: heap memory only. One thread. A NULL pool keeps nothing: take and give are then allocate and free. */
#ifndef COMMON_CORE_BASE_BUFFER_POOL_H
#define COMMON_CORE_BASE_BUFFER_POOL_H

#include "common/core/base/base.h"

#define BUFFER_ALIGN    64
#define BUFFER_SIZE_MIN (32 * KIB)
#define BUFFER_CLASSES  8 /* powers of two: 32 KiB to 4 MiB */
#define BUFFER_SIZE_MAX (BUFFER_SIZE_MIN << (BUFFER_CLASSES - 1))
#define BUFFER_KEEP_MAX (8 * MIB) /* bytes kept for later; more are freed when they come back */

struct buffer_free; /* the first bytes of a free buffer */

struct buffer_pool {
    struct buffer_free *free[BUFFER_CLASSES];
    size_t kept; /* bytes in the lists */
};

/* At least len bytes, 64-byte aligned, contents undefined; *size says how many. len: at most 4 MiB. NULL when out of
 * memory. */
uint8_t *buffer_pool_take(struct buffer_pool *pool, size_t len, size_t *size);

/* How many bytes take() lends for len. */
size_t buffer_pool_size(size_t len);

/* Give back what take() lent, with its *size. Accepts data == NULL. */
void buffer_pool_give(struct buffer_pool *pool, uint8_t *data, size_t size);

/* Free what is kept; accepts zeroed and finished pools. What is lent stays valid and is given back to a pool again. */
void buffer_pool_finish(struct buffer_pool *pool);

#endif
