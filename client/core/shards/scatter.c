/* Scatter and gather. See scatter.h. */
#include "client/core/shards/scatter.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/shards/core.h"

bool
block_cursor_next(const struct block_walk *w, struct block_cursor *at, struct walk_block *out)
{
    const struct core_var *v;

    for (; at->var < w->n; at->var++, at->nth = 0) {
        v = w->vars[at->var];
        if (at->nth >= v->shard[w->shard].blocks || (w->awaiting && !v->shard[w->shard].awaits))
            continue;
        out->var = at->var;
        out->block = var_nth_block(v, w->shard, at->nth++);
        var_block_range(v, out->block, &out->first, &out->len);
        return true;
    }
    return false;
}

void
scatter_stretch(const struct block_walk *w, struct block_cursor from, bool by_seen, struct stretch *out)
{
    struct block_cursor next = from;
    struct walk_block b;
    uint64_t bytes, version;
    bool seen = false;

    *out = (struct stretch){.from = from, .to = from};
    while ((out->end = !block_cursor_next(w, &next, &b)) == false) {
        bytes = walk_block_bytes(&b);
        if (by_seen)
            seen = var_seen(w->vars[b.var], b.block, &version);
        if (out->blocks > 0 && (out->bytes + bytes > REQUEST_BATCH_BYTES || seen != out->seen))
            return;
        if (out->blocks == REQUEST_BLOCKS_MAX)
            return;
        out->seen = seen;
        out->bytes += bytes;
        out->blocks++;
        out->to = next;
    }
}

/* Room for one more item: the list, moved perhaps; NULL when out of memory. */
static void *
list_room(void *item, size_t n, size_t *room, size_t size)
{
    size_t more = *room == 0 ? 4 : *room * 2;
    void *grown;

    if (n < *room)
        return item;
    if ((grown = realloc(item, more * size)) != NULL)
        *room = more;
    return grown;
}

enum ps_err
spans_add(struct spans *s, const void *data, size_t len)
{
    struct span *last = s->n > 0 ? &s->item[s->n - 1] : NULL;
    void *list;

    if (last != NULL && (const char *)last->data + last->len == data) {
        last->len += len;
        return PS_OK;
    }
    if ((list = list_room(s->item, s->n, &s->room, sizeof(*s->item))) == NULL)
        return PS_ERR_NOMEM;
    s->item = list;
    s->item[s->n++] = (struct span){data, len};
    return PS_OK;
}

void
spans_finish(struct spans *s)
{
    free(s->item);
    *s = (struct spans){0};
}

enum ps_err
payload_parts_add(struct payload_parts *p, void *data, size_t len)
{
    struct frame_part *last = p->n > 0 ? &p->item[p->n - 1] : NULL;
    void *list;

    if (last != NULL && (char *)last->data + last->len == data) {
        last->len += len;
        return PS_OK;
    }
    if ((list = list_room(p->item, p->n, &p->room, sizeof(*p->item))) == NULL)
        return PS_ERR_NOMEM;
    p->item = list;
    p->item[p->n++] = (struct frame_part){data, len};
    return PS_OK;
}

void
payload_parts_finish(struct payload_parts *p)
{
    free(p->item);
    *p = (struct payload_parts){0};
}

void
payload_parts_fill(const struct payload_parts *p, const void *payload)
{
    const char *from = payload;
    size_t i;

    for (i = 0; i < p->n; i++) {
        memcpy(p->item[i].data, from, p->item[i].len);
        from += p->item[i].len;
    }
}
