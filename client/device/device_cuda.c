/* The CUDA device: the calls of ps_device.h, passed to the module for GPUs (client/device/ps_device_module.h).
 *
 * A result of the module becomes an error that names the device. Shapes are computed here, as by the CPU device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/device/device.h"
#include "client/device/device_codec.h"
#include "client/device/device_module.h"
#include "client/device/device_optimizer.h"
#include "client/device/device_team.h"
#include "client/device/window.h"
#include "common/core/optimizer/optimizer_row.h"

/* Host memory that the GPU can reach. */
struct staging {
    struct staging *next;
    char *start;
    size_t size;
};

struct cuda_device {
    ps_device base;
    const struct ps_device_module *module;
    struct ps_module_device *own;
    struct staging *staging;
    uint64_t calls; /* of the module that may write to a tensor, so far */
    struct {
        uint64_t at; /* calls when it was started; what was called later may have changed x */
        size_t n;
        const float *x; /* NULL: none was */
    } norm;
    char name[24];
};

static struct cuda_device *
cuda_of(ps_device *d)
{
    return CONTAINER_OF(d, struct cuda_device, base);
}

/* For a call of the module that may write to a tensor. */
static struct cuda_device *
cuda_called(ps_device *d)
{
    cuda_of(d)->calls++;
    return cuda_of(d);
}

static enum ps_err
result_of(const char *name, enum ps_module_result result, const struct ps_module_text *why, struct ps_error *e)
{
    static const enum ps_err errors[] = {[PS_MODULE_ABSENT] = PS_ERR_UNSUPPORTED,
                                         [PS_MODULE_NO_MEMORY] = PS_ERR_NOMEM,
                                         [PS_MODULE_INVALID] = PS_ERR_INVALID,
                                         [PS_MODULE_FAILED] = PS_ERR_IO};

    if (result == PS_MODULE_OK)
        return PS_OK;
    return ps_fail(e, (size_t)result < ARRAY_LEN(errors) ? errors[result] : PS_ERR_INTERNAL, "device %s: %s", name,
                   why->text);
}

/* A call of the module that returns a result: none of these writes to a tensor. */
#define CALL(d, e, function, ...)                                                                                      \
    ({                                                                                                                 \
        struct cuda_device *c_ = cuda_of(d);                                                                           \
        struct ps_module_text why_ = {""};                                                                             \
                                                                                                                       \
        result_of(c_->name, c_->module->function(__VA_ARGS__, &why_), &why_, e);                                       \
    })

/* One that does not. */
#define RUN(d, function, ...) cuda_called(d)->module->function(cuda_of(d)->own, __VA_ARGS__)

/* ---- Memory and copies ---- */

static void
cuda_close(ps_device *d)
{
    struct cuda_device *c = cuda_of(d);

    ps_assert(c->staging == NULL);
    c->module->close(c->own);
    free(c);
}

static void *
cuda_alloc(ps_device *d, size_t size)
{
    return RUN(d, alloc, size);
}

static void
cuda_free(ps_device *d, void *memory)
{
    RUN(d, free, memory);
}

static void
cuda_upload(ps_device *d, void *to, const void *from_host, size_t size)
{
    RUN(d, upload, to, from_host, size);
}

static void
cuda_copy(ps_device *d, void *to, const void *from, size_t size)
{
    RUN(d, copy, to, from, size);
}

static void
cuda_zero(ps_device *d, void *to, size_t size)
{
    if (size > 0)
        RUN(d, zero, to, size);
}

static enum ps_err
cuda_download(ps_device *d, void *to_host, const void *from, size_t size, struct ps_error *e)
{
    return CALL(d, e, download, cuda_of(d)->own, to_host, from, size);
}

static enum ps_err
cuda_finish(ps_device *d, struct ps_error *e)
{
    return CALL(d, e, finish, cuda_of(d)->own);
}

static void *
cuda_alloc_host(ps_device *d, size_t size)
{
    struct cuda_device *c = cuda_of(d);
    struct staging *s = calloc(1, sizeof *s);

    if (s == NULL || (s->start = c->module->alloc_host(c->own, size)) == NULL) {
        free(s);
        return NULL;
    }
    s->size = size;
    s->next = c->staging;
    c->staging = s;
    return s->start;
}

static void
cuda_free_host(ps_device *d, void *memory)
{
    struct cuda_device *c = cuda_of(d);
    struct staging **at = &c->staging, *s;

    while (*at != NULL && (*at)->start != (char *)memory)
        at = &(*at)->next;
    ps_assert(*at != NULL);
    s = *at;
    *at = s->next;
    c->module->free_host(c->own, s->start);
    free(s);
}

static int
cuda_is_staging(ps_device *d, const void *host, size_t size)
{
    uintptr_t start = (uintptr_t)host;

    for (const struct staging *s = cuda_of(d)->staging; s != NULL; s = s->next)
        if (start >= (uintptr_t)s->start && start - (uintptr_t)s->start <= s->size &&
            size <= s->size - (start - (uintptr_t)s->start))
            return 1;
    return 0;
}

static void
cuda_copy_in(ps_device *d, void *to, const void *from_staging, size_t size)
{
    RUN(d, copy_in, to, from_staging, size);
}

static void
cuda_copy_out(ps_device *d, void *to_staging, const void *from, size_t size)
{
    RUN(d, copy_out, to_staging, from, size);
}

static enum ps_err
cuda_copied(ps_device *d, struct ps_error *e)
{
    return CALL(d, e, copied, cuda_of(d)->own);
}

/* ---- Shapes ---- */

static struct ps_module_axis
axis_of(size_t size, size_t window, size_t stride, enum ps_padding padding)
{
    struct axis a = axis_make(size, window, stride, padding);

    return (struct ps_module_axis){a.size, a.window, a.stride, a.out, a.before};
}

static struct ps_module_conv2d
conv2d_of(const struct ps_conv2d *c)
{
    return (struct ps_module_conv2d){.y = axis_of(c->height, c->kernel_height, c->stride_height, c->padding),
                                     .x = axis_of(c->width, c->kernel_width, c->stride_width, c->padding),
                                     .in = c->in,
                                     .out = c->out,
                                     .at_once = conv2d_patches_at_once(c)};
}

static struct ps_module_pool2d
pool2d_of(const struct ps_pool2d *p)
{
    return (struct ps_module_pool2d){.y = axis_of(p->height, p->window_height, p->stride_height, p->padding),
                                     .x = axis_of(p->width, p->window_width, p->stride_width, p->padding),
                                     .channels = p->channels};
}

/* ---- Operations: the arguments as they are, but for shapes ---- */

#define FORWARD(name, arguments, ...)                                                                                  \
    static void cuda_##name(ps_device *d, __VA_ARGS__)                                                                 \
    {                                                                                                                  \
        struct ps_module_device *own = cuda_called(d)->own;                                                            \
                                                                                                                       \
        cuda_of(d)->module->name arguments;                                                                            \
    }

/* clang-format off */
FORWARD(dense_forward, (own, rows, in, out, x, w, b, y), size_t rows, size_t in, size_t out, const float *x,
        const float *w, const float *b, float *y)
FORWARD(dense_backward, (own, rows, in, out, x, w, dy, dx, dw, db), size_t rows, size_t in, size_t out, const float *x,
        const float *w, const float *dy, float *dx, float *dw, float *db)
FORWARD(sparse_forward, (own, rows, in, out, start, column, value, w, b, y), size_t rows, size_t in, size_t out,
        const uint64_t *start, const uint32_t *column, const float *value, const float *w, const float *b, float *y)
FORWARD(sparse_backward, (own, rows, in, out, start, column, value, dy, dw, db), size_t rows, size_t in, size_t out,
        const uint64_t *start, const uint32_t *column, const float *value, const float *dy, float *dw, float *db)
FORWARD(bias_forward, (own, rows, n, x, b, y), size_t rows, size_t n, const float *x, const float *b, float *y)
FORWARD(bias_backward, (own, rows, n, dy, db), size_t rows, size_t n, const float *dy, float *db)
FORWARD(conv2d_forward, (own, rows, (struct ps_module_conv2d[]){conv2d_of(c)}, x, w, b, y, workspace), size_t rows,
        const struct ps_conv2d *c, const float *x, const float *w, const float *b, float *y, float *workspace)
FORWARD(conv2d_backward, (own, rows, (struct ps_module_conv2d[]){conv2d_of(c)}, x, w, dy, dx, dw, db, workspace),
        size_t rows, const struct ps_conv2d *c, const float *x, const float *w, const float *dy, float *dx, float *dw,
        float *db, float *workspace)
FORWARD(max_pool_forward, (own, rows, (struct ps_module_pool2d[]){pool2d_of(p)}, x, y, best), size_t rows,
        const struct ps_pool2d *p, const float *x, float *y, uint32_t *best)
FORWARD(max_pool_backward, (own, rows, (struct ps_module_pool2d[]){pool2d_of(p)}, best, dy, dx), size_t rows,
        const struct ps_pool2d *p, const uint32_t *best, const float *dy, float *dx)
FORWARD(avg_pool_forward, (own, rows, (struct ps_module_pool2d[]){pool2d_of(p)}, x, y), size_t rows,
        const struct ps_pool2d *p, const float *x, float *y)
FORWARD(avg_pool_backward, (own, rows, (struct ps_module_pool2d[]){pool2d_of(p)}, dy, dx), size_t rows,
        const struct ps_pool2d *p, const float *dy, float *dx)
FORWARD(relu_forward, (own, n, x, y), size_t n, const float *x, float *y)
FORWARD(relu_backward, (own, n, y, dy, dx), size_t n, const float *y, const float *dy, float *dx)
FORWARD(tanh_forward, (own, n, x, y), size_t n, const float *x, float *y)
FORWARD(tanh_backward, (own, n, y, dy, dx), size_t n, const float *y, const float *dy, float *dx)
FORWARD(sigmoid_forward, (own, n, x, y), size_t n, const float *x, float *y)
FORWARD(sigmoid_backward, (own, n, y, dy, dx), size_t n, const float *y, const float *dy, float *dx)
FORWARD(gelu_forward, (own, n, x, y), size_t n, const float *x, float *y)
FORWARD(gelu_backward, (own, n, x, dy, dx), size_t n, const float *x, const float *dy, float *dx)
FORWARD(layer_norm_forward, (own, rows, n, x, gamma, beta, epsilon, y, mean, rstd), size_t rows, size_t n,
        const float *x, const float *gamma, const float *beta, float epsilon, float *y, float *mean, float *rstd)
FORWARD(layer_norm_backward, (own, rows, n, x, gamma, mean, rstd, dy, dx, dgamma, dbeta), size_t rows, size_t n,
        const float *x, const float *gamma, const float *mean, const float *rstd, const float *dy, float *dx,
        float *dgamma, float *dbeta)
FORWARD(embedding_forward, (own, n, vocabulary, width, ids, table, y), size_t n, size_t vocabulary, size_t width,
        const uint32_t *ids, const float *table, float *y)
FORWARD(embedding_backward, (own, n, vocabulary, width, ids, dy, dtable), size_t n, size_t vocabulary, size_t width,
        const uint32_t *ids, const float *dy, float *dtable)
FORWARD(dropout_forward, (own, n, rate, seed, counter, x, y), size_t n, float rate, uint64_t seed, uint64_t counter,
        const float *x, float *y)
FORWARD(dropout_backward, (own, n, rate, seed, counter, dy, dx), size_t n, float rate, uint64_t seed, uint64_t counter,
        const float *dy, float *dx)
FORWARD(softmax, (own, rows, classes, x, p), size_t rows, size_t classes, const float *x, float *p)
FORWARD(softmax_cross_entropy, (own, rows, classes, x, labels, scale, loss, dx), size_t rows, size_t classes,
        const float *x, const uint32_t *labels, float scale, float *loss, float *dx)
FORWARD(sigmoid_cross_entropy, (own, rows, n, x, targets, scale, loss, dx), size_t rows, size_t n, const float *x,
        const float *targets, float scale, float *loss, float *dx)
FORWARD(argmax, (own, rows, classes, x, best), size_t rows, size_t classes, const float *x, uint32_t *best)
/* clang-format on */

static enum ps_err
cuda_count_equal(ps_device *d, size_t n, const uint32_t *a, const uint32_t *b, size_t *count, struct ps_error *e)
{
    return CALL(d, e, count_equal, cuda_of(d)->own, n, a, b, count);
}

/* ---- Optimizers ---- */

static void
cuda_fill(ps_device *d, size_t n, float value, float *x)
{
    RUN(d, fill, n, value, x);
}

static void
cuda_square_sum_start(ps_device *d, size_t n, const float *x)
{
    struct cuda_device *c = cuda_called(d);

    c->module->square_sum_start(c->own, n, x);
    c->norm.n = n;
    c->norm.x = x;
    c->norm.at = c->calls;
}

static enum ps_err
cuda_square_sum(ps_device *d, size_t n, const float *x, double *sum, struct ps_error *e)
{
    struct cuda_device *c = cuda_of(d);

    if (c->norm.x != x || c->norm.n != n || c->norm.at != c->calls)
        cuda_square_sum_start(d, n, x);
    c->norm.x = NULL;
    return CALL(d, e, square_sum_end, c->own, sum);
}

/* ---- The result of a batch ---- */

static void
cuda_tally_start(ps_device *d, size_t n, const uint32_t *a, const uint32_t *b, const float *losses)
{
    RUN(d, tally_start, n, a, b, losses);
}

static enum ps_err
cuda_tally_end(ps_device *d, size_t *count, double *loss, struct ps_error *e)
{
    return CALL(d, e, tally_end, cuda_of(d)->own, count, loss);
}

static void
cuda_update(ps_device *d, enum ps_optimizer_kind kind, const struct optimizer_step *step, size_t n,
            const float *gradient, const struct optimizer_arrays *arrays)
{
    struct ps_module_step s = {.scale = step->scale,
                               .shaped = step->shaped,
                               .limit = step->limit,
                               .l2 = step->l2,
                               .decay = step->decay,
                               .slots = step->slots};

    static_assert(sizeof s.own == sizeof step->own && PS_MODULE_SLOTS_MAX == LAYOUT_SLOTS_MAX, "one step for both");
    memcpy(s.own, step->own, sizeof s.own);
    RUN(d, update, (unsigned)kind, &s, n, gradient, arrays->weights, arrays->slot);
}

static const struct device_optimizer_kind cuda_optimizer = {cuda_fill, cuda_square_sum_start, cuda_square_sum,
                                                            cuda_update};

/* ---- Gradients that are encoded ---- */

static_assert((int)PS_COMPRESS_FLOAT16 == PS_MODULE_CODE_FLOAT16 &&
                  (int)PS_COMPRESS_BFLOAT16 == PS_MODULE_CODE_BFLOAT16 && (int)PS_COMPRESS_INT8 == PS_MODULE_CODE_INT8,
              "codes must agree");

static void
cuda_encode(ps_device *d, enum ps_compress_kind kind, size_t n, size_t block, const float *gradient,
            const float *residual, float *left, void *encoding, uint32_t *nonfinite)
{
    RUN(d, encode, (enum ps_module_code)kind, n, block, gradient, residual, left, encoding, nonfinite);
}

static const struct device_codec_kind cuda_codec = {cuda_encode};

/* ---- Gangs ---- */

struct cuda_gang {
    const struct ps_device_module *module;
    struct ps_module_gang *own;
    size_t n;
    struct cuda_device *device[DEVICE_GANG_MAX];
};

static enum ps_err
cuda_gang_open(ps_device *const devices[], size_t n, void **state, struct ps_error *e)
{
    struct ps_module_device *own[DEVICE_GANG_MAX];
    struct ps_module_text why = {""};
    struct cuda_gang *g;
    enum ps_err err;

    if ((g = calloc(1, sizeof *g)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "device cuda: a gang of %zu: out of memory", n);
    g->n = n;
    for (size_t i = 0; i < n; i++) {
        g->device[i] = cuda_of(devices[i]);
        own[i] = g->device[i]->own;
    }
    g->module = g->device[0]->module;
    if ((err = result_of("cuda", g->module->gang_open(own, n, &g->own, &why), &why, e)) != PS_OK) {
        free(g);
        return err;
    }
    *state = g;
    return PS_OK;
}

static void
cuda_gang_close(void *state)
{
    struct cuda_gang *g = state;

    g->module->gang_close(g->own);
    free(g);
}

static void
gang_called(struct cuda_gang *g)
{
    for (size_t i = 0; i < g->n; i++)
        g->device[i]->calls++;
}

/* The cause: the first device that fails when it is asked alone; without one the error of all together. */
static enum ps_err
gang_result(const struct cuda_gang *g, enum ps_module_result result, const struct ps_module_text *why,
            struct ps_error *e)
{
    struct ps_module_text of_one = {""};
    enum ps_module_result one = PS_MODULE_OK;

    for (size_t i = 0; result != PS_MODULE_OK && i < g->n; i++)
        if ((one = g->module->finish(g->device[i]->own, &of_one)) != PS_MODULE_OK)
            return result_of(g->device[i]->name, one, &of_one, e);
    return result_of("cuda", result, why, e);
}

static enum ps_err
cuda_gang_all_reduce(void *state, size_t n, float *const tensors[], size_t elements, enum device_gang_op op,
                     struct ps_error *e)
{
    struct cuda_gang *g = state;
    struct ps_module_text why = {""};
    float divisor = op == DEVICE_GANG_MEAN ? (float)n : 1;

    gang_called(g);
    return gang_result(g, g->module->gang_sum(g->own, tensors, elements, divisor, &why), &why, e);
}

static enum ps_err
cuda_gang_broadcast(void *state, size_t n, float *const tensors[], size_t elements, size_t root, struct ps_error *e)
{
    struct cuda_gang *g = state;
    struct ps_module_text why = {""};

    (void)n;
    gang_called(g);
    return gang_result(g, g->module->gang_broadcast(g->own, tensors, elements, root, &why), &why, e);
}

static const struct device_gang_kind cuda_gang = {cuda_gang_open, cuda_gang_close, cuda_gang_all_reduce,
                                                  cuda_gang_broadcast};

/* ---- Teams ---- */

static_assert(DEVICE_TEAM_ID == PS_MODULE_TEAM_ID && DEVICE_TEAM_IDENTITY == PS_MODULE_IDENTITY, "one size of each");

struct cuda_team {
    struct cuda_device *device;
    struct ps_module_team *own;
};

/* A call of the module about a team. */
#define CALL_TEAM(t, e, function, ...)                                                                                 \
    ({                                                                                                                 \
        struct cuda_team *t_ = (t);                                                                                    \
        struct ps_module_text why_ = {""};                                                                             \
                                                                                                                       \
        t_->device->calls++;                                                                                           \
        result_of(t_->device->name, t_->device->module->function(t_->own, __VA_ARGS__, &why_), &why_, e);              \
    })

static void
cuda_team_identity(ps_device *d, unsigned char identity[DEVICE_TEAM_IDENTITY])
{
    RUN(d, identity, identity);
}

static enum ps_err
cuda_team_id(ps_device *d, unsigned char id[DEVICE_TEAM_ID], struct ps_error *e)
{
    return CALL(d, e, team_id, cuda_of(d)->own, id);
}

static enum ps_err
cuda_team_open(ps_device *d, const unsigned char id[DEVICE_TEAM_ID], uint32_t ranks, uint32_t rank, void **state,
               struct ps_error *e)
{
    struct cuda_team *t = calloc(1, sizeof *t);
    enum ps_err err;

    if (t == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "device %s: a team of %u: out of memory", d->name, ranks);
    t->device = cuda_of(d);
    if ((err = CALL(d, e, team_open, t->device->own, id, ranks, rank, &t->own)) != PS_OK) {
        free(t);
        return err;
    }
    *state = t;
    return PS_OK;
}

static void
cuda_team_close(void *state)
{
    struct cuda_team *t = state;

    t->device->module->team_close(t->own);
    free(t);
}

static enum ps_err
cuda_team_all_reduce(void *state, float *tensor, size_t elements, float divisor, struct ps_error *e)
{
    return CALL_TEAM(state, e, team_sum, tensor, elements, divisor);
}

static enum ps_err
cuda_team_broadcast(void *state, float *tensor, size_t elements, uint32_t root, struct ps_error *e)
{
    return CALL_TEAM(state, e, team_broadcast, tensor, elements, root);
}

static enum ps_err
cuda_team_poll(void *state, bool *done, struct ps_error *e)
{
    int is = 0;
    enum ps_err err = CALL_TEAM(state, e, team_poll, &is);

    *done = is != 0;
    return err;
}

static const struct device_team_kind cuda_team = {cuda_team_identity, cuda_team_id,         cuda_team_open,
                                                  cuda_team_close,    cuda_team_all_reduce, cuda_team_broadcast,
                                                  cuda_team_poll};

/* ---- Opening ---- */

#define CUDA_OP_ENTRY(name, ...) .name = cuda_##name,

static const struct device_ops cuda_ops = {
    .is_host = 0,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .copy = cuda_copy,
    .zero = cuda_zero,
    .download = cuda_download,
    .finish = cuda_finish,
    DEVICE_COMPUTE_OPS(CUDA_OP_ENTRY).count_equal = cuda_count_equal,
    .tally_start = cuda_tally_start,
    .tally_end = cuda_tally_end,
    .gang = &cuda_gang,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .is_staging = cuda_is_staging,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copied = cuda_copied,
    .codec = &cuda_codec,
    .optimizer = &cuda_optimizer,
    .team = &cuda_team,
};

static_assert((int)PS_MODULE_FLOAT32 == (int)PS_PRECISION_FLOAT32 && (int)PS_MODULE_TF32 == (int)PS_PRECISION_TF32 &&
                  (int)PS_MODULE_BFLOAT16 == (int)PS_PRECISION_BFLOAT16,
              "one numbering");

static void
cuda_describe(struct cuda_device *c, enum ps_precision precision)
{
    char *text = c->base.description;
    size_t size = sizeof c->base.description, len;

    c->module->describe(c->own, text, size);
    len = strlen(text);
    if (precision != PS_PRECISION_FLOAT32)
        snprintf(text + len, size - len, ", products in %s", ps_precision_name(precision));
}

enum ps_err
device_cuda_open(unsigned number, const struct ps_device_options *options, ps_device **out, struct ps_error *e)
{
    struct ps_module_text why = {""};
    struct cuda_device *c;
    struct ps_error inner;
    enum ps_err err;

    if ((c = calloc(1, sizeof *c)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "device cuda: out of memory");
    snprintf(c->name, sizeof c->name, number > 0 ? "cuda:%u" : "cuda", number);
    if ((err = device_module_load(&c->module, &inner)) != PS_OK)
        (void)ps_fail(e, err, "device %s: %s", c->name, inner.text);
    else
        err = result_of(c->name, c->module->open(number, (enum ps_module_precision)options->precision, &c->own, &why),
                        &why, e);
    if (err != PS_OK) {
        free(c);
        return err;
    }
    c->base.ops = &cuda_ops;
    c->base.name = c->name;
    c->base.threads = 1;
    cuda_describe(c, options->precision);
    *out = &c->base;
    return PS_OK;
}
