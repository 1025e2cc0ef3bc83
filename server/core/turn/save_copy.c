/* Rows lie in chunks, which stay where they are, so that a row is whole when it is added. */
#include "server/core/turn/save_copy.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (256 * KIB)

struct save_copy_chunk {
    struct save_copy_chunk *next;
    size_t used, size;
    uint8_t bytes[];
};

void
shard_save_free(struct shard_save *save)
{
    struct save_copy *x = save != NULL ? CONTAINER_OF(save, struct save_copy, base) : NULL;
    struct save_copy_chunk *chunk;

    if (x == NULL)
        return;
    while ((chunk = x->chunks) != NULL) {
        x->chunks = chunk->next;
        free(chunk);
    }
    free(x->rows);
    free(x->dir);
    free(x->job);
    free(x);
}

struct save_copy *
save_copy_new(const char *job, const char *dir)
{
    struct save_copy *x = calloc(1, sizeof *x);

    if (x == NULL || job == NULL)
        return x;
    x->base.job = x->job = strdup(job);
    x->base.checkpoint = x->dir = strdup(dir);
    if (x->job != NULL && x->dir != NULL)
        return x;
    shard_save_free(&x->base);
    return NULL;
}

/* Room in the array for one row more. */
static bool
save_copy_grow(struct save_copy *x)
{
    size_t bigger = MAX(2 * x->rows_size, 64u);
    struct shard_save_row *moved;

    if (x->base.rows_len < x->rows_size)
        return true;
    if ((moved = realloc(x->rows, bigger * sizeof *moved)) == NULL)
        return false;
    x->base.rows = x->rows = moved;
    x->rows_size = bigger;
    return true;
}

/* So many bytes that stay where they are. NULL: no memory. */
static uint8_t *
save_copy_room(struct save_copy *x, size_t len)
{
    struct save_copy_chunk *chunk = x->chunks;
    size_t size = MAX((size_t)CHUNK_BYTES, len);

    if (chunk == NULL || chunk->size - chunk->used < len) {
        if ((chunk = malloc(sizeof *chunk + size)) == NULL)
            return NULL;
        *chunk = (struct save_copy_chunk){.next = x->chunks, .size = size};
        x->chunks = chunk;
    }
    chunk->used += len;
    return chunk->bytes + chunk->used - len;
}

bool
save_copy_add(struct save_copy *x, enum store_table table, struct span key, struct span value)
{
    uint8_t *at = save_copy_grow(x) ? save_copy_room(x, key.len + value.len) : NULL;

    if (at == NULL)
        return false;
    memcpy(at, key.data, key.len);
    if (value.len > 0)
        memcpy(at + key.len, value.data, value.len);
    x->rows[x->base.rows_len++] =
        (struct shard_save_row){.table = table, .key = {at, key.len}, .value = {at + key.len, value.len}};
    return true;
}
