/* Definitions as bytes with their names, sorted once. */
#include "common/core/format/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

struct checkpoint_gathered {
    char *name;
    struct span declared, now; /* packed; owned */
    size_t order;              /* of equal names the first one taken stays the first */
};

static void
gathered_finish(struct checkpoint_gathered *item)
{
    free(item->name);
    free((void *)item->declared.data);
    free((void *)item->now.data);
}

static bool
gathered_init(struct checkpoint_gathered *item, const Psd__Declare *declared, const Psd__Declare *now)
{
    item->name = strdup(declared->name);
    item->declared.data = checkpoint_pack(&declared->base, &item->declared.len);
    item->now.data = checkpoint_pack(&now->base, &item->now.len);
    return item->name != NULL && item->declared.data != NULL && item->now.data != NULL;
}

enum ps_err
checkpoint_gather_take(struct checkpoint_gather *g, const Psd__Declare *declared, const Psd__Declare *now,
                       struct ps_error *e)
{
    size_t room = MAX(2 * g->room, 16u);
    struct checkpoint_gathered item = {.order = g->len}, *grown;

    if (g->len == g->room) {
        if ((grown = reallocarray(g->items, room, sizeof *grown)) == NULL)
            return checkpoint_no_memory(e);
        g->items = grown;
        g->room = room;
    }
    if (!gathered_init(&item, declared, now)) {
        gathered_finish(&item);
        return checkpoint_no_memory(e);
    }
    g->items[g->len++] = item;
    return PS_OK;
}

static int
gathered_order(const void *a, const void *b)
{
    const struct checkpoint_gathered *x = a, *y = b;
    int names = strcmp(x->name, y->name);

    return names != 0 ? names : (x->order > y->order) - (x->order < y->order);
}

enum ps_err
checkpoint_gather_add(struct checkpoint_gather *g, struct checkpoint *to, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if (g->len > 0)
        qsort(g->items, g->len, sizeof *g->items, gathered_order);
    for (size_t i = 0; i < g->len && err == PS_OK; i++)
        err = checkpoint_add_packed(to, g->items[i].declared, g->items[i].now, e);
    return err;
}

void
checkpoint_gather_finish(struct checkpoint_gather *g)
{
    for (size_t i = 0; i < g->len; i++)
        gathered_finish(&g->items[i]);
    free(g->items);
    *g = (struct checkpoint_gather){0};
}
