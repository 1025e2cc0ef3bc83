/* One list of free buffers for each power of two. */
#include "common/core/base/buffer_pool.h"

#include <stdlib.h>

struct buffer_free {
    struct buffer_free *next;
};

static size_t
class_size(int class)
{
    return (size_t)BUFFER_SIZE_MIN << class;
}

static int
class_of(size_t len)
{
    int class = 0;

    while (class_size(class) < len)
        class ++;
    ps_assert(class < BUFFER_CLASSES);
    return class;
}

size_t
buffer_pool_size(size_t len)
{
    return class_size(class_of(len));
}

uint8_t *
buffer_pool_take(struct buffer_pool *pool, size_t len, size_t *size)
{
    int class = class_of(len);
    struct buffer_free *first = pool != NULL ? pool->free[class] : NULL;

    *size = class_size(class);
    if (first == NULL)
        return aligned_alloc(BUFFER_ALIGN, *size);
    pool->free[class] = first->next;
    pool->kept -= *size;
    return (uint8_t *)first;
}

void
buffer_pool_give(struct buffer_pool *pool, uint8_t *data, size_t size)
{
    struct buffer_free *back = (void *)data;

    if (data == NULL)
        return;
    if (pool == NULL || pool->kept + size > BUFFER_KEEP_MAX) {
        free(data);
        return;
    }
    back->next = pool->free[class_of(size)];
    pool->free[class_of(size)] = back;
    pool->kept += size;
}

void
buffer_pool_finish(struct buffer_pool *pool)
{
    for (int class = 0; class < BUFFER_CLASSES; class ++) {
        for (struct buffer_free *next; pool->free[class] != NULL; pool->free[class] = next) {
            next = pool->free[class]->next;
            free(pool->free[class]);
        }
    }
    pool->kept = 0;
}
