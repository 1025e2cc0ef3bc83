#include "tests/unit/client/network/network_kit.h"

enum { AREAS_MAX = 256 };
static struct {
    char *start;
    size_t size;
} areas[AREAS_MAX];
static struct device_ops apart_ops;

ps_device *cpu;
ps_device apart;
size_t uploads, downloads, device_allocs, fail_at;

/* ---- Memory of its own ---- */

static bool
is_own(const void *p)
{
    for (size_t i = 0; i < AREAS_MAX; i++)
        if (areas[i].start != NULL && (const char *)p >= areas[i].start &&
            (const char *)p < areas[i].start + areas[i].size)
            return true;
    return false;
}

static bool
is_own_or_null(const void *p)
{
    return p == NULL || is_own(p);
}

static void *
apart_alloc(ps_device *d, size_t size)
{
    if (++device_allocs == fail_at)
        return NULL;
    for (size_t i = 0; i < AREAS_MAX; i++)
        if (areas[i].start == NULL) {
            areas[i].size = size;
            return areas[i].start = cpu->ops->alloc(d, size);
        }
    return NULL;
}

static void
apart_free(ps_device *d, void *memory)
{
    for (size_t i = 0; i < AREAS_MAX; i++)
        if (areas[i].start == memory)
            areas[i].start = NULL;
    cpu->ops->free(d, memory);
}

static void
apart_upload(ps_device *d, void *to, const void *from, size_t size)
{
    ck_assert(is_own(to) && !is_own(from));
    uploads++;
    cpu->ops->upload(d, to, from, size);
}

static enum ps_err
apart_download(ps_device *d, void *to, const void *from, size_t size, struct ps_error *e)
{
    ck_assert(!is_own(to) && is_own(from));
    downloads++;
    return cpu->ops->download(d, to, from, size, e);
}

/* ---- Operations: those that read inputs and parameters and write gradients ---- */

static void
apart_dense_forward(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *b,
                    float *y)
{
    ck_assert(is_own(x) && is_own(w) && is_own_or_null(b) && is_own(y));
    cpu->ops->dense_forward(d, rows, in, out, x, w, b, y);
}

static void
apart_dense_backward(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *dy,
                     float *dx, float *dw, float *db)
{
    ck_assert(is_own(x) && is_own(w) && is_own(dy) && is_own_or_null(dx) && is_own(dw) && is_own_or_null(db));
    cpu->ops->dense_backward(d, rows, in, out, x, w, dy, dx, dw, db);
}

static void
apart_conv2d_forward(ps_device *d, size_t rows, const struct ps_conv2d *c, const float *x, const float *w,
                     const float *b, float *y, float *workspace)
{
    ck_assert(is_own(x) && is_own(w) && is_own_or_null(b) && is_own(y) && is_own_or_null(workspace));
    cpu->ops->conv2d_forward(d, rows, c, x, w, b, y, workspace);
}

static void
apart_conv2d_backward(ps_device *d, size_t rows, const struct ps_conv2d *c, const float *x, const float *w,
                      const float *dy, float *dx, float *dw, float *db, float *workspace)
{
    ck_assert(is_own(x) && is_own(w) && is_own(dy) && is_own_or_null(dx) && is_own(dw) && is_own_or_null(db) &&
              is_own_or_null(workspace));
    cpu->ops->conv2d_backward(d, rows, c, x, w, dy, dx, dw, db, workspace);
}

static void
apart_max_pool_forward(ps_device *d, size_t rows, const struct ps_pool2d *p, const float *x, float *y, uint32_t *best)
{
    ck_assert(is_own(x) && is_own(y) && is_own(best));
    cpu->ops->max_pool_forward(d, rows, p, x, y, best);
}

static void
apart_softmax_cross_entropy(ps_device *d, size_t rows, size_t classes, const float *x, const uint32_t *labels,
                            float scale, float *loss, float *dx)
{
    ck_assert(is_own(x) && is_own(labels) && is_own(loss) && is_own_or_null(dx));
    cpu->ops->softmax_cross_entropy(d, rows, classes, x, labels, scale, loss, dx);
}

static void
apart_sigmoid_cross_entropy(ps_device *d, size_t rows, size_t n, const float *x, const float *targets, float scale,
                            float *loss, float *dx)
{
    ck_assert(is_own(x) && is_own(targets) && is_own(loss) && is_own_or_null(dx));
    cpu->ops->sigmoid_cross_entropy(d, rows, n, x, targets, scale, loss, dx);
}

static void
apart_embedding_forward(ps_device *d, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                        const float *table, float *y)
{
    ck_assert(is_own(ids) && is_own(table) && is_own(y));
    cpu->ops->embedding_forward(d, n, vocabulary, width, ids, table, y);
}

static void
apart_layer_norm_backward(ps_device *d, size_t rows, size_t n, const float *x, const float *gamma, const float *mean,
                          const float *rstd, const float *dy, float *dx, float *dgamma, float *dbeta)
{
    ck_assert(is_own(x) && is_own(gamma) && is_own(mean) && is_own(rstd) && is_own(dy) && is_own_or_null(dx) &&
              is_own(dgamma) && is_own(dbeta));
    cpu->ops->layer_norm_backward(d, rows, n, x, gamma, mean, rstd, dy, dx, dgamma, dbeta);
}

/* ---- Set-up ---- */

void
network_setup(void)
{
    struct ps_device_options options = {.threads = 1};

    ck_assert_int_eq(ps_device_open("cpu", &options, &cpu, NULL), PS_OK);
    apart_ops = *cpu->ops;
    apart_ops.is_host = 0;
    apart_ops.alloc = apart_alloc;
    apart_ops.free = apart_free;
    apart_ops.upload = apart_upload;
    apart_ops.download = apart_download;
    apart_ops.dense_forward = apart_dense_forward;
    apart_ops.dense_backward = apart_dense_backward;
    apart_ops.conv2d_forward = apart_conv2d_forward;
    apart_ops.conv2d_backward = apart_conv2d_backward;
    apart_ops.max_pool_forward = apart_max_pool_forward;
    apart_ops.softmax_cross_entropy = apart_softmax_cross_entropy;
    apart_ops.sigmoid_cross_entropy = apart_sigmoid_cross_entropy;
    apart_ops.embedding_forward = apart_embedding_forward;
    apart_ops.layer_norm_backward = apart_layer_norm_backward;
    apart = *cpu;
    apart.ops = &apart_ops;
}

void
network_teardown(void)
{
    for (size_t i = 0; i < AREAS_MAX; i++)
        ck_assert_ptr_null(areas[i].start);
    ps_device_close(cpu);
}

/* ---- Networks ---- */

enum ps_err
network_try(ps_device *device, const struct kit_spec *spec, ps_network **out, struct ps_error *error)
{
    struct ps_layer layers[PS_LAYERS_MAX];
    struct ps_network_spec full = {
        .layer = layers, .loss = spec->loss, .rows_max = spec->rows_max != 0 ? spec->rows_max : 40, .seed = spec->seed};

    while (full.rank < 3 && spec->dims[full.rank] != 0) {
        full.dims[full.rank] = spec->dims[full.rank];
        full.rank++;
    }
    if (ps_network_parse(spec->layers, layers, &full.layers, error) != PS_OK)
        return PS_ERR_INVALID;
    return ps_network_new(device, &full, out, error);
}

ps_network *
network_make(ps_device *device, const struct kit_spec *spec)
{
    struct ps_error error;
    ps_network *network;

    if (network_try(device, spec, &network, &error) != PS_OK)
        ck_abort_msg("%s: %s", spec->layers, error.text);
    return network;
}

void
network_descend(ps_network *network, float rate)
{
    for (size_t i = 0; i < ps_network_params(network); i++)
        for (size_t k = 0; k < param_elements(network, i); k++)
            ps_network_values(network)[i][k] -= rate * ps_network_gradients(network)[i][k];
}
