/* Memory that comes and goes on the hot path: gradients that wait, pushes that are not answered yet. Freed pieces are
 * kept by size and lent again, so that the steady state allocates nothing. Pure, one thread.
 *
 *     void *p = pool_take(&pool, size);
 *     pool_give(&pool, p, size);          // the same size
 *     pool_finish(&pool);                 // what is lent must be back
 *
 * Sizes are rounded up to one of four steps per power of two, so at most a fifth is lost. */
#ifndef SERVER_CORE_TURN_POOL_H
#define SERVER_CORE_TURN_POOL_H

#include "common/core/base/base.h"

#define POOL_SIZE_MIN ((size_t)256)
#define POOL_SIZE_MAX ((size_t)(2 * MIB)) /* larger pieces go straight to the heap */
#define POOL_CLASSES  53                  /* four per power of two from 256 B to 2 MiB */
#define POOL_ALIGN    64

struct pool_piece;

struct pool {
    struct pool_piece *kept[POOL_CLASSES];
    uint64_t kept_bytes;
    uint64_t kept_max; /* beyond this, pieces go back to the heap */
};

/* POOL_ALIGN-aligned, contents undefined; NULL when out of memory. size >= 1. */
void *pool_take(struct pool *p, size_t size);

/* piece may be NULL. */
void pool_give(struct pool *p, void *piece, size_t size);

/* What a piece of this size really takes. */
size_t pool_size(size_t size);

void pool_finish(struct pool *p);

#endif
