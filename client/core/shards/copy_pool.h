/* Copies of gradients that pushes hold until they are done (PS_PUSH_COPY). A training loop copies the same gradients
 * step after step: memory that came back is lent again, so that the kernel need not map and clear its pages each time.
 *
 *     copy_pool_init(&p, max);
 *     if (copy_pool_has_room(&p, bytes))
 *         data = copy_pool_take(&p, bytes, &size); // NULL: out of memory
 *     copy_pool_give(&p, data, bytes, size);
 *
 * Pure: heap memory only. One thread. */
#ifndef CLIENT_CORE_SHARDS_COPY_POOL_H
#define CLIENT_CORE_SHARDS_COPY_POOL_H

#include "common/core/base/base.h"

#define COPY_POOL_SMALL    (32 * KIB) /* smaller ones are the allocator's alone */
#define COPY_POOL_KEPT_MAX 64         /* copies that are kept */
#define COPY_POOL_AGE_MAX  256        /* one that so many others were lent after, and it was not, is freed */
#define COPY_POOL_SPARE    8          /* one that is larger than is asked for is so by at most this part of it */

struct copy_kept {
    void *data;
    uint64_t size, stamp; /* pool.stamp when it came back */
};

struct copy_pool {
    uint64_t max;  /* bytes that may be asked for in all, and about what the pool holds at most (COPY_POOL_SPARE) */
    uint64_t used; /* bytes that were asked for */
    uint64_t lent, kept; /* bytes that the pool holds */
    uint64_t stamp;      /* counts what was lent */
    unsigned count;
    struct copy_kept each[COPY_POOL_KEPT_MAX]; /* the one that came back first is first */
};

void copy_pool_init(struct copy_pool *p, uint64_t max);

/* Whether so many bytes more may be asked for. What is kept gives way to them. */
bool copy_pool_has_room(const struct copy_pool *p, uint64_t bytes);

/* At least bytes > 0 bytes, aligned for every type, contents undefined; *size: what copy_pool_give() needs. There must
 * be room. NULL when out of memory. */
void *copy_pool_take(struct copy_pool *p, uint64_t bytes, uint64_t *size);

/* Accepts data == NULL. */
void copy_pool_give(struct copy_pool *p, void *data, uint64_t bytes, uint64_t size);

/* Free what is kept; all that was lent has come back. Accepts zeroed and finished pools. */
void copy_pool_finish(struct copy_pool *p);

#endif
