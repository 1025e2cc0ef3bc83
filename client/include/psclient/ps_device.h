/* ps_device.h: where a worker computes. A device has memory and the operations that a small neural network needs,
 * forward and backward; the same calls work on every kind of device.
 *
 *     ps_device *device;
 *     void *w, *x, *y;
 *     ps_device_open("cpu", NULL, &device, &error);
 *     ps_device_alloc(device, 64 * 10 * sizeof(float), &w, &error); ...
 *     ps_device_upload(device, x, images, 32 * 64 * sizeof(float));
 *     ps_dense_forward(device, 32, 64, 10, x, w, NULL, y);
 *     ps_device_download(device, result, y, 32 * 10 * sizeof(float), &error);
 *     ps_device_close(device);
 *
 * ps_network.h builds whole networks from these.
 *
 * Rules that hold everywhere:
 *
 * - Tensors are float32, row-major, contiguous; every pointer given to an operation is device memory, at least 4-byte
 *   aligned (64 is best; ps_device_alloc() gives 64). Where ps_device_is_host() says so, device memory and host memory
 *   are the same thing and any buffer will do: pulled weights are computed with where they landed.
 * - Operations run in the order of their calls, and may still be running when a call returns. Memory is read and
 *   written until ps_device_finish() or ps_device_download() has returned. That is also where a failure of the device
 *   is reported; operations themselves return nothing.
 * - Operations allocate nothing (OpenBLAS may, while a product runs that it cuts among several threads) and keep
 *   nothing: the same inputs, shapes and number of threads give the same bits on one instruction set, whatever was
 *   computed before, in whichever process.
 * - Sizes are in elements. Rows may be 0: nothing is computed, gradients are 0. No size may exceed PS_DEVICE_SIZE_MAX;
 *   a larger one stops the program with an assertion, as a null pointer would.
 * - Threads: one thread at a time per device. */
#ifndef PS_DEVICE_H
#define PS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "ps_err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PS_DEVICE_SIZE_MAX 2147483647 /* rows, columns: what a BLAS takes */

typedef struct ps_device ps_device;

struct ps_device_options {
    int threads; /* that compute; 0: OPENBLAS_NUM_THREADS when set, else this process's cores / workers */
    int workers; /* worker processes that share this machine; 0: 1 */
};

/* Open a device by name: "cpu" (OpenBLAS); "cuda" or "cuda:0", the first NVIDIA GPU, "cuda:1", the second one, and so
 * on (cuBLAS; libpsclient-cuda.so is loaded for it). options may be NULL. Free it with ps_device_close(). Errors:
 * UNSUPPORTED (the name is known, but not on this machine: says whether the module, the driver or the GPU is missing),
 * INVALID (not known: lists the names), NOMEM.
 * The number of threads belongs to the process, not the device: the last open of "cpu" decides for all. */
PS_API enum ps_err ps_device_open(const char *name, const struct ps_device_options *options, ps_device **out,
                                  struct ps_error *error) PS_MUST_USE;

/* Waits for what runs. Memory of the device is freed before, by its owner. Accepts NULL. */
PS_API void ps_device_close(ps_device *device);

PS_API const char *ps_device_name(const ps_device *device);     /* "cpu" */
PS_API const char *ps_device_describe(const ps_device *device); /* "OpenBLAS 0.3.21 SkylakeX, 2 threads" */
PS_API int ps_device_threads(const ps_device *device);
PS_API int ps_device_is_host(const ps_device *device); /* nonzero: device memory is host memory */

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

/* size in bytes; *out is zeroed, 64-byte aligned, freed with ps_device_free(). NOMEM says how much was asked. */
PS_API enum ps_err ps_device_alloc(ps_device *device, size_t size, void **out, struct ps_error *error) PS_MUST_USE;
PS_API void ps_device_free(ps_device *device, void *memory); /* accepts NULL */

/* Host to device; device to device; device to host. Sizes in bytes; the areas do not overlap. An upload has read its
 * source when it returns; a download is complete when it returns. */
PS_API void ps_device_upload(ps_device *device, void *to, const void *from_host, size_t size);
PS_API void ps_device_copy(ps_device *device, void *to, const void *from, size_t size);
PS_API enum ps_err ps_device_download(ps_device *device, void *to_host, const void *from, size_t size,
                                      struct ps_error *error) PS_MUST_USE;

/* Wait until all operations are done; the first failure among them. */
PS_API enum ps_err ps_device_finish(ps_device *device, struct ps_error *error) PS_MUST_USE;

/* ---- Dense layer: y = x w + b ---------------------------------------------------------------------------------- */

/* x: [rows, in], w: [in, out], b: [out] or NULL, y: [rows, out]. */
PS_API void ps_dense_forward(ps_device *device, size_t rows, size_t in, size_t out, const float *x, const float *w,
                             const float *b, float *y);

/* From dy: [rows, out], the gradient with respect to y:
 *   dw: [in, out] = xᵀ dy    db: [out] = column sums of dy, may be NULL    dx: [rows, in] = dy wᵀ, may be NULL */
PS_API void ps_dense_backward(ps_device *device, size_t rows, size_t in, size_t out, const float *x, const float *w,
                              const float *dy, float *dx, float *dw, float *db);

/* ---- Sparse input: y = x w + b, where most of x is 0 ------------------------------------------------------------- */

/* x: [rows, in] by its entries: those of row r are number start[r] to start[r + 1] - 1; column[i] is below in (one
 * that is not stops the program), value[i] what stands there (struct ps_sparse of ps_data.h has all three). w: [in,
 * out], b: [out] or NULL, y: [rows, out]. */
PS_API void ps_sparse_forward(ps_device *device, size_t rows, size_t in, size_t out, const uint64_t *start,
                              const uint32_t *column, const float *value, const float *w, const float *b, float *y);

/* From dy: [rows, out]: dw: [in, out], whole, 0 where no row has an entry; db: [out], may be NULL. */
PS_API void ps_sparse_backward(ps_device *device, size_t rows, size_t in, size_t out, const uint64_t *start,
                               const uint32_t *column, const float *value, const float *dy, float *dw, float *db);

/* ---- Bias: y = x + b ------------------------------------------------------------------------------------------- */

/* x, y: [rows, n], b: [n]; y may be x. Backward: db: [n] = column sums of dy: [rows, n]; dx is dy itself. */
PS_API void ps_bias_forward(ps_device *device, size_t rows, size_t n, const float *x, const float *b, float *y);
PS_API void ps_bias_backward(ps_device *device, size_t rows, size_t n, const float *dy, float *db);

/* ---- Windows over images --------------------------------------------------------------------------------------- */

/* An image is [height, width, channels]: the channels of a pixel lie beside each other (NHWC). Windows start every
 * stride pixels. VALID: where they lie on the image; SAME: as often as strides begin on it, so that a stride of 1 keeps
 * the size, on an image padded at both ends of each axis as evenly as can be, the odd pixel at the far end. Layouts and
 * padding are TensorFlow's, so that weights mean the same here and there. */
enum ps_padding { PS_PAD_VALID = 0, PS_PAD_SAME = 1 };

struct ps_conv2d {
    size_t height, width, in; /* of the input; in: channels */
    size_t out;               /* channels of the output */
    size_t kernel_height, kernel_width;
    size_t stride_height, stride_width;
    enum ps_padding padding;
};

/* Check a shape before it is used: one that fails here stops the program anywhere else. Errors: INVALID (a size is 0,
 * no such padding, a window that does not fit without padding), LIMIT (an image, a kernel of one output, or an output
 * past PS_DEVICE_SIZE_MAX elements). */
PS_API enum ps_err ps_conv2d_check(const struct ps_conv2d *c, struct ps_error *error) PS_MUST_USE;
PS_API void ps_conv2d_output(const struct ps_conv2d *c, size_t *height, size_t *width);

/* Floats of memory that a convolution of at most so many rows needs while it runs; what they held does not matter. It
 * grows with the rows up to a size that fits a cache, half a MiB or 256 windows, and may be 0. */
PS_API size_t ps_conv2d_workspace(const struct ps_conv2d *c, size_t rows);

/* y = x * w + b, the cross-correlation that networks call convolution; 0 beyond the edges.
 * x: [rows, height, width, in], w: [kernel_height, kernel_width, in, out], b: [out] or NULL,
 * y: [rows, output height, output width, out], not x. workspace: [ps_conv2d_workspace()], NULL where that is 0. */
PS_API void ps_conv2d_forward(ps_device *device, size_t rows, const struct ps_conv2d *c, const float *x, const float *w,
                              const float *b, float *y, float *workspace);

/* From dy, shaped as y: dw as w; db: [out], may be NULL; dx as x, may be NULL, not x or dy. */
PS_API void ps_conv2d_backward(ps_device *device, size_t rows, const struct ps_conv2d *c, const float *x,
                               const float *w, const float *dy, float *dx, float *dw, float *db, float *workspace);

struct ps_pool2d {
    size_t height, width, channels;
    size_t window_height, window_width;
    size_t stride_height, stride_width;
    enum ps_padding padding;
};

PS_API enum ps_err ps_pool2d_check(const struct ps_pool2d *p, struct ps_error *error) PS_MUST_USE;
PS_API void ps_pool2d_output(const struct ps_pool2d *p, size_t *height, size_t *width);

/* Largest of each window, for each channel. x: [rows, height, width, channels]; y, best: [rows, output height, output
 * width, channels]. best: where in its row of x each was, the first of equals; NaN is the largest of all. Backward adds
 * each element of dy, shaped as y, to dx, shaped as x, there; other elements of dx are 0. dx may not be dy. */
PS_API void ps_max_pool_forward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *x, float *y,
                                uint32_t *best);
PS_API void ps_max_pool_backward(ps_device *device, size_t rows, const struct ps_pool2d *p, const uint32_t *best,
                                 const float *dy, float *dx);

/* Mean of each window, of the pixels that lie on the image. Shapes as above. */
PS_API void ps_avg_pool_forward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *x, float *y);
PS_API void ps_avg_pool_backward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *dy, float *dx);

/* ---- Activations: element by element; y may be x, dx may be dy ------------------------------------------------- */

/* y = max(x, 0), NaN stays NaN. Backward needs the output only: dx = dy where y > 0, else 0. All [n]. */
PS_API void ps_relu_forward(ps_device *device, size_t n, const float *x, float *y);
PS_API void ps_relu_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx);

/* y = tanh(x); dx = dy (1 - y²). All [n]. */
PS_API void ps_tanh_forward(ps_device *device, size_t n, const float *x, float *y);
PS_API void ps_tanh_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx);

/* y = 1 / (1 + exp(-x)), safe for large x; dx = dy y (1 - y). All [n]. */
PS_API void ps_sigmoid_forward(ps_device *device, size_t n, const float *x, float *y);
PS_API void ps_sigmoid_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx);

/* y = x P(a standard normal number is below x), the exact form of Hendrycks and Gimpel, "Gaussian error linear units",
 * 2016. Backward needs the input: dx = dy (P + x times the density at x). All [n]. */
PS_API void ps_gelu_forward(ps_device *device, size_t n, const float *x, float *y);
PS_API void ps_gelu_backward(ps_device *device, size_t n, const float *x, const float *dy, float *dx);

/* ---- Layer normalization (Ba, Kiros and Hinton, 2016) ---------------------------------------------------------- */

/* y = gamma (x - mean) rstd + beta with each row's mean and rstd = 1 / sqrt(variance + epsilon), the variance being the
 * mean of squares. x, y: [rows, n]; gamma, beta: [n]; mean, rstd: [rows], for the way back. y may be x, which the way
 * back needs. epsilon >= 0; 1e-5 is usual. */
PS_API void ps_layer_norm_forward(ps_device *device, size_t rows, size_t n, const float *x, const float *gamma,
                                  const float *beta, float epsilon, float *y, float *mean, float *rstd);

/* dx: [rows, n], may be dy, may be NULL; dgamma, dbeta: [n]. */
PS_API void ps_layer_norm_backward(ps_device *device, size_t rows, size_t n, const float *x, const float *gamma,
                                   const float *mean, const float *rstd, const float *dy, float *dx, float *dgamma,
                                   float *dbeta);

/* ---- Embedding: rows of a table by their numbers --------------------------------------------------------------- */

/* y[i] = table[ids[i]]. ids: [n], each below vocabulary: one that is not stops the program, as no error can be returned
 * from here; ps_check_ids() finds it while the ids are in host memory. table: [vocabulary, width], y: [n, width]. */
PS_API void ps_embedding_forward(ps_device *device, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                                 const float *table, float *y);

/* dtable, shaped as table: each row the sum of the rows of dy: [n, width] whose id it is, in their order; else 0. */
PS_API void ps_embedding_backward(ps_device *device, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                                  const float *dy, float *dtable);

/* INVALID, with the first of ids[0..n) that is not below vocabulary and where it is. Good for labels, too. */
PS_API enum ps_err ps_check_ids(size_t n, const uint32_t *ids, size_t vocabulary, struct ps_error *error) PS_MUST_USE;

/* ---- Dropout (Srivastava et al., JMLR 2014) -------------------------------------------------------------------- */

/* Each element is 0 with probability rate, else divided by 1 - rate, so that the mean stays and evaluation needs
 * nothing. Which: by seed, counter and the element's index alone (Philox4x32-10), so backward takes the same three
 * again and no mask is kept. Give every layer a seed and every step a counter. 0 <= rate < 1; y may be x, dx may be dy.
 * All [n]. */
PS_API void ps_dropout_forward(ps_device *device, size_t n, float rate, uint64_t seed, uint64_t counter, const float *x,
                               float *y);
PS_API void ps_dropout_backward(ps_device *device, size_t n, float rate, uint64_t seed, uint64_t counter,
                                const float *dy, float *dx);

/* ---- Classification -------------------------------------------------------------------------------------------- */

/* p[r, c] = exp(x[r, c]) / sum over c, safe for large x. x, p: [rows, classes]; p may be x. classes >= 1. */
PS_API void ps_softmax(ps_device *device, size_t rows, size_t classes, const float *x, float *p);

/* Softmax and cross-entropy in one. labels: [rows], each below classes. loss: [rows] = -log softmax(x)[label], per row
 * and unscaled. dx: [rows, classes] = scale (softmax(x) - one at the label), may be x, may be NULL. With scale =
 * 1 / (rows of the whole batch) the gradients of the batch's slices sum to the gradient of the batch's mean loss. */
PS_API void ps_softmax_cross_entropy(ps_device *device, size_t rows, size_t classes, const float *x,
                                     const uint32_t *labels, float scale, float *loss, float *dx);

/* Sigmoid and cross-entropy in one, for n independent yes-or-no questions a row; logistic regression has one. x,
 * targets: [rows, n], targets from 0 to 1. loss: [rows] = sum over n of -t log s - (1 - t) log(1 - s), s = sigmoid(x),
 * computed so that nothing overflows; unscaled. dx: [rows, n] = scale (s - t), may be x, may be NULL. */
PS_API void ps_sigmoid_cross_entropy(ps_device *device, size_t rows, size_t n, const float *x, const float *targets,
                                     float scale, float *loss, float *dx);

/* best[r] = column of the largest value of row r, the first of equals. x: [rows, classes], best: [rows]. */
PS_API void ps_argmax(ps_device *device, size_t rows, size_t classes, const float *x, uint32_t *best);

/* How many of a[0..n) equal b[0..n): predictions against labels. *count is in host memory; waits for the device. */
PS_API enum ps_err ps_count_equal(ps_device *device, size_t n, const uint32_t *a, const uint32_t *b, size_t *count,
                                  struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
