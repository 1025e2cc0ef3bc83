/* Free lists, one per size class. Class 4k + j holds pieces of 256 * 2^k * (4 + j) / 4 bytes. */
#include "server/core/turn/pool.h"

#include <stdlib.h>

struct pool_piece {
    struct pool_piece *next;
};

/* The class of a size up to POOL_SIZE_MAX. */
static unsigned
class_of(size_t size)
{
    size_t octave = POOL_SIZE_MIN;
    unsigned k = 0, j;

    if (size <= POOL_SIZE_MIN)
        return 0;
    k = (unsigned)(63 - __builtin_clzll((size - 1) / POOL_SIZE_MIN));
    octave <<= k;
    j = (unsigned)((size - octave + octave / 4 - 1) / (octave / 4));
    return 4 * k + j;
}

static size_t
class_size(unsigned c)
{
    return (POOL_SIZE_MIN << (c / 4)) / 4 * (4 + c % 4);
}

size_t
pool_size(size_t size)
{
    return size > POOL_SIZE_MAX ? (size_t)round_up(size, POOL_ALIGN) : class_size(class_of(size));
}

void *
pool_take(struct pool *p, size_t size)
{
    struct pool_piece *piece;
    unsigned c;

    ps_assert(size >= 1);
    if (size > POOL_SIZE_MAX)
        return aligned_alloc(POOL_ALIGN, pool_size(size));
    c = class_of(size);
    if ((piece = p->kept[c]) == NULL)
        return aligned_alloc(POOL_ALIGN, class_size(c));
    p->kept[c] = piece->next;
    p->kept_bytes -= class_size(c);
    return piece;
}

void
pool_give(struct pool *p, void *data, size_t size)
{
    struct pool_piece *piece = data;
    unsigned c;

    if (piece == NULL)
        return;
    if (size > POOL_SIZE_MAX || p->kept_bytes + pool_size(size) > p->kept_max) {
        free(piece);
        return;
    }
    c = class_of(size);
    piece->next = p->kept[c];
    p->kept[c] = piece;
    p->kept_bytes += class_size(c);
}

void
pool_finish(struct pool *p)
{
    for (unsigned c = 0; c < POOL_CLASSES; c++)
        for (struct pool_piece *piece = p->kept[c], *next; piece != NULL; piece = next) {
            next = piece->next;
            free(piece);
        }
    *p = (struct pool){0};
}
