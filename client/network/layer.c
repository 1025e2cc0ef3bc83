/* The table of layers, and what several of them need. */
#include "client/network/layer.h"

#include <string.h>

struct layer_row {
    const char *word;
    const struct layer_kind *kind;
};

static const struct layer_row rows[] = {
#define LAYER_ROW(NAME, name, word) [PS_LAYER_##NAME] = {word, &layer_##name},
    PS_LAYER_LIST(LAYER_ROW)
#undef LAYER_ROW
};

const struct layer_kind *
layer_kind_of(int kind)
{
    return kind >= 0 && kind < PS_LAYER_KINDS ? rows[kind].kind : NULL;
}

const char *
layer_word(enum ps_layer_kind kind)
{
    return rows[kind].word;
}

size_t
shape_elements(const struct layer_shape *s)
{
    size_t n = 1;

    for (size_t i = 0; i < s->rank; i++)
        n *= s->dims[i];
    return n;
}

bool
shape_plane(const struct layer_shape *s, size_t *height, size_t *width, size_t *channels)
{
    if (s->rank < 2)
        return false;
    *height = s->dims[0];
    *width = s->rank == 3 ? s->dims[1] : 1;
    *channels = s->dims[s->rank - 1];
    return true;
}

struct layer_shape
shape_like(const struct layer_shape *like, size_t height, size_t width, size_t channels)
{
    if (like->rank == 2)
        return (struct layer_shape){2, {height, channels}};
    return (struct layer_shape){3, {height, width, channels}};
}

void
layer_add_param(struct layer *l, const char *suffix, enum ps_init_kind init, uint32_t rank, const uint64_t *dims)
{
    struct layer_param *p = &l->param[l->params++];

    ps_assert(l->params <= PS_LAYER_PARAMS_MAX);
    p->suffix = suffix;
    p->init.kind = init;
    p->rank = rank;
    p->elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        p->dims[i] = dims[i];
        p->elements *= (size_t)dims[i];
    }
}
