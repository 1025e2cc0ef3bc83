/* Rows are gathered in one buffer that grows; their spans are found when it has come to rest. */
#include "server/core/turn/save_copy.h"

#include <stdlib.h>
#include <string.h>

void
shard_save_free(struct shard_save *save)
{
    struct save_copy *x = save != NULL ? CONTAINER_OF(save, struct save_copy, base) : NULL;

    if (x == NULL)
        return;
    free(x->rows);
    free(x->bytes);
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

static bool
save_copy_grow(void **array, size_t *size, size_t wanted, size_t item)
{
    size_t bigger = MAX(*size, 64u);
    void *moved;

    if (wanted <= *size)
        return true;
    while (bigger < wanted)
        bigger *= 2;
    if ((moved = realloc(*array, bigger * item)) == NULL)
        return false;
    *array = moved;
    *size = bigger;
    return true;
}

static void
save_copy_append(struct save_copy *x, struct span bytes)
{
    if (bytes.len > 0)
        memcpy(x->bytes + x->bytes_len, bytes.data, bytes.len);
    x->bytes_len += bytes.len;
}

bool
save_copy_add(struct save_copy *x, enum store_table table, struct span key, struct span value)
{
    if (!save_copy_grow((void **)&x->rows, &x->rows_size, x->base.rows_len + 1, sizeof *x->rows) ||
        !save_copy_grow((void **)&x->bytes, &x->bytes_size, x->bytes_len + key.len + value.len, 1))
        return false;
    x->rows[x->base.rows_len++] =
        (struct shard_save_row){.table = table, .key = {.len = key.len}, .value = {.len = value.len}};
    save_copy_append(x, key);
    save_copy_append(x, value);
    return true;
}

struct shard_save *
save_copy_done(struct save_copy *x)
{
    const uint8_t *at = x->bytes;

    for (size_t i = 0; i < x->base.rows_len; i++) {
        x->rows[i].key.data = at;
        x->rows[i].value.data = at + x->rows[i].key.len;
        at += x->rows[i].key.len + x->rows[i].value.len;
    }
    x->base.rows = x->rows;
    return &x->base;
}
