/* Convolutions by cuDNN. libcudnn.so.9 is looked for where PSD_CUDNN in the environment says, else where the system
 * keeps its libraries.
 *
 * The algorithm of a shape is chosen once, by cuDNN's own rules and not by trial: so every process on one kind of GPU
 * chooses the same. Taken is the first that has the same bits every time, fits the workspace, and computes in the
 * device's precision; not those by Fourier or Winograd transforms, whose float32 is less exact than a sum of products.
 * A shape for which there is none, or on which the chosen one fails to start, is left to patches from then on. */
#include "client/device/cuda/cudnn.cuh"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *cudnn_handle, *cudnn_tensor, *cudnn_filter, *cudnn_convolution;

enum {
    CUDNN_SUCCESS = 0,
    CUDNN_NHWC = 1,
    CUDNN_FLOAT = 0,
    CUDNN_CROSS_CORRELATION = 1,
    CUDNN_DEFAULT_MATH = 0, /* float32 as it is: TF32 where that is faster */
    CUDNN_TENSOR_OP_MATH = 1,
    CUDNN_TENSOR_OP_MATH_CONVERTS = 2,
    CUDNN_FMA_MATH = 3, /* float32 */
    CUDNN_DETERMINISTIC = 1,
    CUDNN_ALGORITHMS = 8 /* of one pass */
};

struct cudnn_choice {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
};

static struct {
    int (*Create)(cudnn_handle *handle);
    int (*Destroy)(cudnn_handle handle);
    int (*SetStream)(cudnn_handle handle, cudaStream_t stream);
    int (*CreateTensorDescriptor)(cudnn_tensor *t);
    int (*DestroyTensorDescriptor)(cudnn_tensor t);
    int (*SetTensor4dDescriptor)(cudnn_tensor t, int format, int type, int n, int c, int h, int w);
    int (*CreateFilterDescriptor)(cudnn_filter *f);
    int (*DestroyFilterDescriptor)(cudnn_filter f);
    int (*SetFilter4dDescriptor)(cudnn_filter f, int type, int format, int k, int c, int h, int w);
    int (*CreateConvolutionDescriptor)(cudnn_convolution *c);
    int (*DestroyConvolutionDescriptor)(cudnn_convolution c);
    int (*SetConvolution2dDescriptor)(cudnn_convolution c, int pad_h, int pad_w, int stride_h, int stride_w,
                                      int dilation_h, int dilation_w, int mode, int type);
    int (*SetConvolutionMathType)(cudnn_convolution c, int math);
    int (*GetConvolutionForwardAlgorithm_v7)(cudnn_handle handle, cudnn_tensor x, cudnn_filter w, cudnn_convolution c,
                                             cudnn_tensor y, int most, int *count, struct cudnn_choice *choices);
    int (*GetConvolutionBackwardDataAlgorithm_v7)(cudnn_handle handle, cudnn_filter w, cudnn_tensor dy,
                                                  cudnn_convolution c, cudnn_tensor dx, int most, int *count,
                                                  struct cudnn_choice *choices);
    int (*GetConvolutionBackwardFilterAlgorithm_v7)(cudnn_handle handle, cudnn_tensor x, cudnn_tensor dy,
                                                    cudnn_convolution c, cudnn_filter dw, int most, int *count,
                                                    struct cudnn_choice *choices);
    int (*ConvolutionForward)(cudnn_handle handle, const void *alpha, cudnn_tensor x_is, const void *x,
                              cudnn_filter w_is, const void *w, cudnn_convolution c, int algorithm, void *workspace,
                              size_t size, const void *beta, cudnn_tensor y_is, void *y);
    int (*ConvolutionBackwardData)(cudnn_handle handle, const void *alpha, cudnn_filter w_is, const void *w,
                                   cudnn_tensor dy_is, const void *dy, cudnn_convolution c, int algorithm,
                                   void *workspace, size_t size, const void *beta, cudnn_tensor dx_is, void *dx);
    int (*ConvolutionBackwardFilter)(cudnn_handle handle, const void *alpha, cudnn_tensor x_is, const void *x,
                                     cudnn_tensor dy_is, const void *dy, cudnn_convolution c, int algorithm,
                                     void *workspace, size_t size, const void *beta, cudnn_filter dw_is, void *dw);
} cudnn;

/* ---- Loading ---- */

static bool
cudnn_find(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);

    memcpy(out, &found, sizeof found);
    return found != NULL;
}

#define CUDNN_FIND(name) cudnn_find(library, "cudnn" #name, &cudnn.name)

/* Whether it is there, with all that is needed of it. */
static bool
cudnn_load(void)
{
    const char *path = secure_getenv("PSD_CUDNN");
    void *library = dlopen(path != NULL && *path != '\0' ? path : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);

    return library != NULL && CUDNN_FIND(Create) && CUDNN_FIND(Destroy) && CUDNN_FIND(SetStream) &&
           CUDNN_FIND(CreateTensorDescriptor) && CUDNN_FIND(DestroyTensorDescriptor) &&
           CUDNN_FIND(SetTensor4dDescriptor) && CUDNN_FIND(CreateFilterDescriptor) &&
           CUDNN_FIND(DestroyFilterDescriptor) && CUDNN_FIND(SetFilter4dDescriptor) &&
           CUDNN_FIND(CreateConvolutionDescriptor) && CUDNN_FIND(DestroyConvolutionDescriptor) &&
           CUDNN_FIND(SetConvolution2dDescriptor) && CUDNN_FIND(SetConvolutionMathType) &&
           CUDNN_FIND(GetConvolutionForwardAlgorithm_v7) && CUDNN_FIND(GetConvolutionBackwardDataAlgorithm_v7) &&
           CUDNN_FIND(GetConvolutionBackwardFilterAlgorithm_v7) && CUDNN_FIND(ConvolutionForward) &&
           CUDNN_FIND(ConvolutionBackwardData) && CUDNN_FIND(ConvolutionBackwardFilter);
}

/* ---- What is known of a device and of its shapes ---- */

#define CUDNN_PLANS 64 /* shapes that are kept; more begin again with the first */

struct cudnn_plan {
    bool used, has_failed;
    enum convolution_pass pass;
    size_t rows;
    struct ps_module_conv2d shape;
    cudnn_tensor x, y;
    cudnn_filter filter;
    cudnn_convolution convolution;
    int algorithm;
    size_t memory;
};

struct cudnn_state {
    cudnn_handle handle; /* NULL: there is no cuDNN */
    struct cudnn_plan plan[CUDNN_PLANS];
    size_t next;
};

static void
cudnn_plan_clear(struct cudnn_plan *p)
{
    if (p->x != NULL)
        (void)cudnn.DestroyTensorDescriptor(p->x);
    if (p->y != NULL)
        (void)cudnn.DestroyTensorDescriptor(p->y);
    if (p->filter != NULL)
        (void)cudnn.DestroyFilterDescriptor(p->filter);
    if (p->convolution != NULL)
        (void)cudnn.DestroyConvolutionDescriptor(p->convolution);
    memset(p, 0, sizeof *p);
}

void
cudnn_close(struct cudnn_state *state)
{
    if (state == NULL)
        return;
    for (size_t i = 0; i < CUDNN_PLANS; i++)
        cudnn_plan_clear(&state->plan[i]);
    if (state->handle != NULL)
        (void)cudnn.Destroy(state->handle);
    free(state);
}

static struct cudnn_state *
cudnn_state_of(PS_MODULE_DEVICE)
{
    static const bool loaded = cudnn_load(); /* once, whichever thread comes first */

    if (d->cudnn != NULL || (d->cudnn = (struct cudnn_state *)calloc(1, sizeof *d->cudnn)) == NULL)
        return d->cudnn;
    module_use(d);
    if (!loaded || cudnn.Create(&d->cudnn->handle) != CUDNN_SUCCESS)
        d->cudnn->handle = NULL;
    else if (cudnn.SetStream(d->cudnn->handle, d->compute) != CUDNN_SUCCESS) {
        (void)cudnn.Destroy(d->cudnn->handle);
        d->cudnn->handle = NULL;
    }
    return d->cudnn;
}

/* ---- Choosing ---- */

/* cuDNN pads both ends of an axis alike. */
static bool
cudnn_axis_fits(const struct ps_module_axis *a)
{
    return a->size + 2 * a->before >= a->window && (a->size + 2 * a->before - a->window) / a->stride + 1 == a->out;
}

/* And counts elements in int. */
static bool
cudnn_fits(size_t rows, const struct ps_module_conv2d *c)
{
    size_t most = INT32_MAX;

    return cudnn_axis_fits(&c->y) && cudnn_axis_fits(&c->x) && c->y.size * c->x.size * c->in <= most / rows &&
           c->y.out * c->x.out * c->out <= most / rows;
}

static bool
cudnn_describe(struct cudnn_plan *p, int math)
{
    const struct ps_module_conv2d *c = &p->shape;
    int rows = (int)p->rows, in = (int)c->in, out = (int)c->out;

    return cudnn.CreateTensorDescriptor(&p->x) == CUDNN_SUCCESS &&
           cudnn.CreateTensorDescriptor(&p->y) == CUDNN_SUCCESS &&
           cudnn.CreateFilterDescriptor(&p->filter) == CUDNN_SUCCESS &&
           cudnn.CreateConvolutionDescriptor(&p->convolution) == CUDNN_SUCCESS &&
           cudnn.SetTensor4dDescriptor(p->x, CUDNN_NHWC, CUDNN_FLOAT, rows, in, (int)c->y.size, (int)c->x.size) ==
               CUDNN_SUCCESS &&
           cudnn.SetTensor4dDescriptor(p->y, CUDNN_NHWC, CUDNN_FLOAT, rows, out, (int)c->y.out, (int)c->x.out) ==
               CUDNN_SUCCESS &&
           cudnn.SetFilter4dDescriptor(p->filter, CUDNN_FLOAT, CUDNN_NHWC, out, in, (int)c->y.window,
                                       (int)c->x.window) == CUDNN_SUCCESS &&
           cudnn.SetConvolution2dDescriptor(p->convolution, (int)c->y.before, (int)c->x.before, (int)c->y.stride,
                                            (int)c->x.stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                            CUDNN_FLOAT) == CUDNN_SUCCESS &&
           cudnn.SetConvolutionMathType(p->convolution, math) == CUDNN_SUCCESS;
}

static int
cudnn_choices(cudnn_handle handle, const struct cudnn_plan *p, int *count, struct cudnn_choice *choices)
{
    switch (p->pass) {
    case CONVOLUTION_FORWARD:
        return cudnn.GetConvolutionForwardAlgorithm_v7(handle, p->x, p->filter, p->convolution, p->y, CUDNN_ALGORITHMS,
                                                       count, choices);
    case CONVOLUTION_DATA:
        return cudnn.GetConvolutionBackwardDataAlgorithm_v7(handle, p->filter, p->y, p->convolution, p->x,
                                                            CUDNN_ALGORITHMS, count, choices);
    default:
        return cudnn.GetConvolutionBackwardFilterAlgorithm_v7(handle, p->x, p->y, p->convolution, p->filter,
                                                              CUDNN_ALGORITHMS, count, choices);
    }
}

/* Sums of products, by number: forward 0 to 3 (implicit, precomputed and explicit GEMM, direct); backward 0, 1 and 3,
 * of which only 1 has the same bits every time. */
static bool
cudnn_sums(enum convolution_pass pass, int algorithm)
{
    return pass == CONVOLUTION_FORWARD ? algorithm <= 3 : algorithm <= 1 || algorithm == 3;
}

static bool
cudnn_suits(const struct cudnn_plan *p, const struct cudnn_choice *choice, int math, size_t size)
{
    return choice->status == CUDNN_SUCCESS && choice->determinism == CUDNN_DETERMINISTIC && choice->memory <= size &&
           cudnn_sums(p->pass, choice->algorithm) &&
           (math != CUDNN_FMA_MATH || choice->math == CUDNN_FMA_MATH || choice->math == CUDNN_DEFAULT_MATH);
}

/* False: there is none. */
static bool
cudnn_choose(PS_MODULE_DEVICE, struct cudnn_plan *p, size_t size)
{
    int math = d->precision == PS_MODULE_TF32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH, count = 0;
    struct cudnn_choice choices[CUDNN_ALGORITHMS];

    if (!cudnn_describe(p, math) || cudnn_choices(d->cudnn->handle, p, &count, choices) != CUDNN_SUCCESS)
        return false;
    for (int i = 0; i < count; i++)
        if (cudnn_suits(p, &choices[i], math, size)) {
            p->algorithm = choices[i].algorithm;
            p->memory = choices[i].memory;
            return math == CUDNN_FMA_MATH ||
                   cudnn.SetConvolutionMathType(p->convolution, choices[i].math) == CUDNN_SUCCESS;
        }
    return false;
}

static bool
cudnn_same_shape(const struct ps_module_conv2d *a, const struct ps_module_conv2d *b)
{
    return memcmp(&a->y, &b->y, sizeof a->y) == 0 && memcmp(&a->x, &b->x, sizeof a->x) == 0 && a->in == b->in &&
           a->out == b->out;
}

static struct cudnn_plan *
cudnn_plan_of(PS_MODULE_DEVICE, enum convolution_pass pass, size_t rows, const struct ps_module_conv2d *c, size_t size)
{
    struct cudnn_state *s = d->cudnn;
    struct cudnn_plan *p;

    for (size_t i = 0; i < CUDNN_PLANS; i++)
        if (s->plan[i].used && s->plan[i].pass == pass && s->plan[i].rows == rows &&
            cudnn_same_shape(&s->plan[i].shape, c))
            return &s->plan[i];
    p = &s->plan[s->next++ % CUDNN_PLANS];
    cudnn_plan_clear(p);
    p->used = true;
    p->pass = pass;
    p->rows = rows;
    p->shape = *c;
    p->has_failed = !cudnn_fits(rows, c) || !cudnn_choose(d, p, size);
    return p;
}

/* ---- Running ---- */

static int
cudnn_start(cudnn_handle handle, const struct cudnn_plan *p, const float *a, const float *b, float *out,
            void *workspace)
{
    const float one = 1, zero = 0;

    switch (p->pass) {
    case CONVOLUTION_FORWARD:
        return cudnn.ConvolutionForward(handle, &one, p->x, a, p->filter, b, p->convolution, p->algorithm, workspace,
                                        p->memory, &zero, p->y, out);
    case CONVOLUTION_DATA:
        return cudnn.ConvolutionBackwardData(handle, &one, p->filter, b, p->y, a, p->convolution, p->algorithm,
                                             workspace, p->memory, &zero, p->x, out);
    default:
        return cudnn.ConvolutionBackwardFilter(handle, &one, p->x, a, p->y, b, p->convolution, p->algorithm, workspace,
                                               p->memory, &zero, p->filter, out);
    }
}

int
cudnn_run(PS_MODULE_DEVICE, enum convolution_pass pass, size_t rows, const struct ps_module_conv2d *c, const float *a,
          const float *b, float *out, void *workspace, size_t size)
{
    struct cudnn_state *s = cudnn_state_of(d);
    struct cudnn_plan *p;

    if (s == NULL || s->handle == NULL)
        return 0;
    module_use(d);
    p = cudnn_plan_of(d, pass, rows, c, size);
    if (!p->has_failed)
        p->has_failed = cudnn_start(s->handle, p, a, b, out, workspace) != CUDNN_SUCCESS;
    return !p->has_failed;
}
