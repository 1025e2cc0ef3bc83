/* Answers with blocks. One allocation holds the request's arrays. */
#include "server/core/turn/data.h"

#include <stdlib.h>

#include "server/core/shard_state.h"

static size_t
data_size(uint32_t len, bool with_newer, bool with_codes)
{
    size_t each = sizeof(uint64_t) * (with_newer ? 2 : 1) + sizeof(uint32_t) * (with_codes ? 3 : 2);

    return sizeof(struct shard_data) + len * each;
}

struct shard_data *
data_new(uint32_t len, bool with_newer, bool with_codes)
{
    struct shard_data *d = malloc(data_size(len, with_newer, with_codes));
    uint64_t *at;

    if (d == NULL)
        return NULL;
    *d = (struct shard_data){.len = len, .with_newer = with_newer, .with_codes = with_codes};
    at = (uint64_t *)(d + 1);
    d->version = at;
    at += len;
    if (with_newer) {
        d->newer_than = at;
        at += len;
    }
    d->var = (uint32_t *)at;
    d->block = d->var + len;
    d->code = d->block + len;
    return d;
}

size_t
shard_data_bytes(const struct shard_data *d)
{
    size_t parts = d->parts != NULL && d->parts != &d->one ? d->len * sizeof *d->parts : 0;

    return data_size(d->len, d->with_newer, d->with_codes) + parts;
}

size_t
shard_data_most(const struct shard_data *d)
{
    return MIN(d->len * (size_t)(LAYOUT_PAGES_MAX * LAYOUT_PAGE), FRAME_PAYLOAD_MAX);
}

void
shard_data_free(struct shard_data *d)
{
    if (d == NULL)
        return;
    if (d->parts != &d->one)
        free(d->parts);
    free(d->head);
    free(d);
}
