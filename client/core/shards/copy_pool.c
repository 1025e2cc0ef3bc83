/* A list of what came back, oldest first, from which the smallest that is not far too large is lent. */
#include "client/core/shards/copy_pool.h"

#include <stdlib.h>
#include <string.h>

void
copy_pool_init(struct copy_pool *p, uint64_t max)
{
    *p = (struct copy_pool){.max = max};
}

bool
copy_pool_has_room(const struct copy_pool *p, uint64_t bytes)
{
    return p->used <= p->max && bytes <= p->max - p->used;
}

static struct copy_kept
copy_pool_remove(struct copy_pool *p, unsigned i)
{
    struct copy_kept k = p->each[i];

    p->count--;
    memmove(&p->each[i], &p->each[i + 1], (p->count - i) * sizeof p->each[0]);
    p->kept -= k.size;
    return k;
}

static void
copy_pool_free_oldest(struct copy_pool *p)
{
    free(copy_pool_remove(p, 0).data);
}

/* The smallest that has bytes and few more; count: none. */
static unsigned
copy_pool_find(const struct copy_pool *p, uint64_t bytes)
{
    unsigned best = p->count;

    for (unsigned i = 0; i < p->count; i++) {
        uint64_t size = p->each[i].size;

        if (size >= bytes && size - bytes <= bytes / COPY_POOL_SPARE && (best == p->count || size < p->each[best].size))
            best = i;
    }
    return best;
}

void *
copy_pool_take(struct copy_pool *p, uint64_t bytes, uint64_t *size)
{
    struct copy_kept k = {.size = bytes};
    unsigned at;

    ps_assert(bytes > 0 && copy_pool_has_room(p, bytes));
    if (bytes >= COPY_POOL_SMALL) {
        p->stamp++;
        if ((at = copy_pool_find(p, bytes)) < p->count)
            k = copy_pool_remove(p, at);
    }
    while (p->count > 0 && p->lent + k.size + p->kept > p->max)
        copy_pool_free_oldest(p);
    if (k.data == NULL && (k.data = malloc(bytes)) == NULL)
        return NULL;
    p->used += bytes;
    p->lent += k.size;
    *size = k.size;
    return k.data;
}

void
copy_pool_give(struct copy_pool *p, void *data, uint64_t bytes, uint64_t size)
{
    if (data == NULL)
        return;
    p->used -= bytes;
    p->lent -= size;
    if (size < COPY_POOL_SMALL) {
        free(data);
        return;
    }
    while (p->count > 0 && (p->count == COPY_POOL_KEPT_MAX || p->stamp - p->each[0].stamp > COPY_POOL_AGE_MAX))
        copy_pool_free_oldest(p);
    p->each[p->count++] = (struct copy_kept){data, size, p->stamp};
    p->kept += size;
}

void
copy_pool_finish(struct copy_pool *p)
{
    while (p->count > 0)
        copy_pool_free_oldest(p);
}
