/* Convolution as a matrix product (Chellapilla, Puri and Simard, "High performance convolutional neural networks for
 * document processing", 2006). A patch is the part of the image that one window covers: [kernel_height, kernel_width,
 * in], a row of a matrix that the weights, [kernel_height * kernel_width * in, out] as they lie, turn into the outputs
 * at that place.
 *
 *     forward     y  = patches w + b
 *     backward    dw = patchesᵀ dy;    dpatches = dy wᵀ, each added to dx where its patch came from
 *
 * The patches of a batch would be kernel_height * kernel_width times its size. So they are gathered some at a time,
 * across rows, as many as a workspace of bounded size holds, and multiplied while they lie in the cache. */
#include "client/device/cpu/device_cpu.h"

#include <string.h>

#include "client/device/window.h"

struct geometry {
    struct axis y, x;
    size_t in, out;
    size_t line, image, patch; /* floats of each, in x and in the workspace */
    size_t at_once;            /* patches; 0: x is the matrix of patches */
};

static struct geometry
geometry_of(const struct ps_conv2d *c)
{
    return (struct geometry){
        .y = axis_make(c->height, c->kernel_height, c->stride_height, c->padding),
        .x = axis_make(c->width, c->kernel_width, c->stride_width, c->padding),
        .in = c->in,
        .out = c->out,
        .line = c->width * c->in,
        .image = c->height * c->width * c->in,
        .patch = c->kernel_height * c->kernel_width * c->in,
        .at_once = conv2d_patches_at_once(c),
    };
}

/* Which patch: the row of the batch, as its offset in x, and the window. */
struct conv_place {
    size_t image, y, x;
};

static struct conv_place
conv_place_of(const struct geometry *g, size_t number)
{
    size_t line = number / g->x.out;

    return (struct conv_place){line / g->y.out * g->image, line % g->y.out, number % g->x.out};
}

static void
conv_place_next(const struct geometry *g, struct conv_place *at)
{
    if (++at->x < g->x.out)
        return;
    at->x = 0;
    if (++at->y < g->y.out)
        return;
    at->y = 0;
    at->image += g->image;
}

/* The part of a patch that lies on the image: `lines` runs of `run` floats, in x and in the patch. */
struct overlap {
    size_t lines, run;
    size_t in_x, in_patch; /* where the first begins */
    size_t patch_line;     /* from one to the next in the patch */
};

static struct overlap
overlap_of(const struct geometry *g, const struct conv_place *at)
{
    struct axis_part y = axis_part(&g->y, at->y), x = axis_part(&g->x, at->x);

    return (struct overlap){
        .lines = y.count,
        .run = x.count * g->in,
        .in_x = at->image + y.first * g->line + x.first * g->in,
        .in_patch = (y.skip * g->x.window + x.skip) * g->in,
        .patch_line = g->x.window * g->in,
    };
}

/* patches: [n, patch], those from number `first` on; 0 where they lie on padding. */
static void
conv_gather(const struct geometry *g, size_t first, size_t n, const float *restrict x, float *restrict patches)
{
    struct conv_place at = conv_place_of(g, first);

    for (; n > 0; n--, patches += g->patch, conv_place_next(g, &at)) {
        struct overlap o = overlap_of(g, &at);

        if (o.lines * o.run < g->patch)
            memset(patches, 0, g->patch * sizeof *patches);
        for (size_t i = 0; i < o.lines; i++)
            memcpy(patches + o.in_patch + i * o.patch_line, x + o.in_x + i * g->line, o.run * sizeof *x);
    }
}

/* The backward pass: each patch is added to where it came from. */
static void
conv_scatter(const struct geometry *g, size_t first, size_t n, const float *restrict patches, float *restrict dx)
{
    struct conv_place at = conv_place_of(g, first);

    for (; n > 0; n--, patches += g->patch, conv_place_next(g, &at)) {
        struct overlap o = overlap_of(g, &at);

        for (size_t i = 0; i < o.lines; i++) {
            const float *from = patches + o.in_patch + i * o.patch_line;
            float *to = dx + o.in_x + i * g->line;

            for (size_t k = 0; k < o.run; k++)
                to[k] += from[k];
        }
    }
}

/* How many of `left` patches come next. */
static size_t
some_of(const struct geometry *g, size_t left)
{
    return MIN(left, g->at_once != 0 ? g->at_once : PS_DEVICE_SIZE_MAX);
}

static const float *
patches_from(const struct geometry *g, size_t first, size_t n, const float *x, float *workspace)
{
    if (g->at_once == 0)
        return x + first * g->in;
    conv_gather(g, first, n, x, workspace);
    return workspace;
}

void
cpu_conv2d_forward(ps_device *d, size_t rows, const struct ps_conv2d *c, const float *x, const float *w, const float *b,
                   float *y, float *workspace)
{
    struct geometry g = geometry_of(c);
    size_t patches = rows * g.y.out * g.x.out, n;

    for (size_t first = 0; first < patches; first += n) {
        n = some_of(&g, patches - first);
        cpu_dense_forward(d, n, g.patch, g.out, patches_from(&g, first, n, x, workspace), w, b, y + first * g.out);
    }
}

/* dx of n patches; the workspace is free for their gradients. */
static void
input_gradient(const struct geometry *g, size_t first, size_t n, const float *w, const float *dy, float *dx,
               float *workspace)
{
    float *to = g->at_once == 0 ? dx + first * g->in : workspace;

    cpu_product(false, true, n, g->patch, g->out, dy + first * g->out, w, 0, to);
    if (to == workspace)
        conv_scatter(g, first, n, workspace, dx);
}

void
cpu_conv2d_backward(ps_device *d, size_t rows, const struct ps_conv2d *c, const float *x, const float *w,
                    const float *dy, float *dx, float *dw, float *db, float *workspace)
{
    struct geometry g = geometry_of(c);
    size_t patches = rows * g.y.out * g.x.out, n;

    if (dx != NULL)
        memset(dx, 0, rows * g.image * sizeof *dx);
    for (size_t first = 0; first < patches; first += n) {
        const float *some;

        n = some_of(&g, patches - first);
        some = patches_from(&g, first, n, x, workspace);
        cpu_product(true, false, g.patch, g.out, n, some, dy + first * g.out, first > 0, dw);
        if (dx != NULL)
            input_gradient(&g, first, n, w, dy, dx, workspace);
    }
    if (db != NULL)
        cpu_bias_backward(d, patches, g.out, dy, db);
}
