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
 *
 * Parameters:
 *   device  where it is computed, from ps_device_open()
 *   rows    examples; may be 0
 *   n       elements, of each row where there are rows
 *   error   filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for each device. */
#ifndef PS_DEVICE_H
#define PS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "ps_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most rows or columns of a matrix: what a BLAS takes.
 * Since: 0.1 */
#define PS_DEVICE_SIZE_MAX 2147483647

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

/* A device.
 * Since: 0.1 */
typedef struct ps_device ps_device;

/* In what a device multiplies: the products of dense layers and convolutions.
 *
 * Their sums are float32, and so are all tensors and every other operation, optimizers among them. A factor is rounded
 * for the product alone.
 *
 *     FLOAT32   as it is.
 *     TF32      10 binary digits behind the point instead of 23: a relative error of at most 2^-10. Float32's range.
 *     BFLOAT16  7 digits, to the nearest, ties to even: at most 2^-8 with float32's range, and half the bytes.
 *
 * On each device the same inputs give the same bits in each precision; those of different precisions differ.
 *
 * Since: 0.1 */
enum ps_precision { PS_PRECISION_FLOAT32 = 0, PS_PRECISION_TF32 = 1, PS_PRECISION_BFLOAT16 = 2 };

/* The name of a precision.
 *
 * Parameters:
 *   precision  as in struct ps_device_options
 * Returns: "float32", "tf32", "bfloat16"; NULL for any other number. Static.
 * Threads: any.
 * Since: 0.1 */
PS_API const char *ps_precision_name(enum ps_precision precision);

/* How a device is opened. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_device_options {
    int threads; /* that compute; 0: OPENBLAS_NUM_THREADS when set, else this process's cores / workers */
    int workers; /* worker processes that share this machine; 0: 1 */
    enum ps_precision precision; /* of products. "cpu" has FLOAT32 alone, GPUs since Ampere (compute capability 8.0)
                                    have all */
};

/* Open a device by name.
 *
 * "cpu" (OpenBLAS); "cuda" or "cuda:0", the first NVIDIA GPU, "cuda:1", the second one, and so on (cuBLAS;
 * libpsclient-cuda.so is loaded for it). The number of threads belongs to the process, not the device: the last open of
 * "cpu" decides for all.
 *
 * Parameters:
 *   name     of the device
 *   options  NULL: all defaults
 *   out      the device, which the caller ends with ps_device_close()
 * Errors:
 *   PS_ERR_UNSUPPORTED  the name is known, but not on this machine: says whether the module, the driver or the GPU is
 *                       missing; or this device does not multiply in that precision
 *   PS_ERR_INVALID      the name is not known: lists the names; a number of the options is negative; there is no such
 *                       precision
 *   PS_ERR_IO           the device failed
 *   PS_ERR_NOMEM        no memory
 * Threads: one at a time; not while another thread changes the environment.
 * Since: 0.1 */
PS_API enum ps_err ps_device_open(const char *name, const struct ps_device_options *options, ps_device **out,
                                  struct ps_error *error) PS_MUST_USE;

/* Close a device. Waits for what runs. Memory of the device is freed before, by its owner.
 *
 * Parameters:
 *   device  or NULL
 * Since: 0.1 */
PS_API void ps_device_close(ps_device *device);

/* What a device is.
 *
 * Returns:
 *   ps_device_name()       "cpu"; owned by the device
 *   ps_device_describe()   "OpenBLAS 0.3.21 SkylakeX, 2 threads", and what to do where OpenBLAS does not know this
 *                          processor and computes as on an old one; owned by the device
 *   ps_device_threads()    threads that compute
 *   ps_device_is_host()    nonzero: device memory is host memory
 *   ps_device_precision()  in what it multiplies
 * Since: 0.1 */
PS_API const char *ps_device_name(const ps_device *device);
PS_API const char *ps_device_describe(const ps_device *device);
PS_API int ps_device_threads(const ps_device *device);
PS_API int ps_device_is_host(const ps_device *device);
PS_API enum ps_precision ps_device_precision(const ps_device *device);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Allocate memory of the device.
 *
 * Parameters:
 *   size  bytes
 *   out   the memory, zeroed, 64-byte aligned, which the caller frees with ps_device_free()
 * Errors:
 *   PS_ERR_NOMEM  no memory: says how much was asked
 *   PS_ERR_IO     the device failed
 * Since: 0.1 */
PS_API enum ps_err ps_device_alloc(ps_device *device, size_t size, void **out, struct ps_error *error) PS_MUST_USE;

/* Free memory of the device.
 *
 * Parameters:
 *   memory  or NULL
 * Since: 0.1 */
PS_API void ps_device_free(ps_device *device, void *memory);

/* Allocate host memory that the device accesses directly ("pinned"), where it has memory of its own.
 *
 * Copies of it are several times as fast as those of other host memory, and go on while the device computes: batches
 * (ps_network_prefetch()), and tensors of ps_tensors.h and ps_device_group.h. It cannot be swapped out, so it is for
 * what is copied again and again. Where device memory is host memory it is memory like any other.
 *
 * Parameters:
 *   size  bytes
 *   out   the memory, zeroed, 64-byte aligned, which the caller frees with ps_device_free_host() before the device is
 *         closed
 * Errors:
 *   PS_ERR_NOMEM  no memory, or the system lets no more be pinned: says how much was asked
 * Since: 0.1 */
PS_API enum ps_err ps_device_alloc_host(ps_device *device, size_t size, void **out, struct ps_error *error) PS_MUST_USE;

/* Free memory of ps_device_alloc_host().
 *
 * Parameters:
 *   memory  or NULL
 * Since: 0.1 */
PS_API void ps_device_free_host(ps_device *device, void *memory);

/* Copy host memory to the device, or memory of the device within it. The areas do not overlap.
 *
 * An upload has read its source when it returns.
 *
 * Parameters:
 *   to         [size] bytes of device memory
 *   from_host  [size] bytes of host memory
 *   from       [size] bytes of device memory
 *   size       bytes
 * Since: 0.1 */
PS_API void ps_device_upload(ps_device *device, void *to, const void *from_host, size_t size);
PS_API void ps_device_copy(ps_device *device, void *to, const void *from, size_t size);

/* Copy memory of the device to the host. It is complete when it returns.
 *
 * Parameters:
 *   to_host  [size] bytes of host memory
 *   from     [size] bytes of device memory
 *   size     bytes
 * Errors:
 *   PS_ERR_IO  the device failed, in this or in an operation before
 * Since: 0.1 */
PS_API enum ps_err ps_device_download(ps_device *device, void *to_host, const void *from, size_t size,
                                      struct ps_error *error) PS_MUST_USE;

/* Wait until all operations are done.
 *
 * Errors:
 *   PS_ERR_IO  the first failure among them
 * Since: 0.1 */
PS_API enum ps_err ps_device_finish(ps_device *device, struct ps_error *error) PS_MUST_USE;

/* ---- Dense layer: y = x w + b ------------------------------------------------------------------------------------ */

/* The outputs of a dense layer.
 *
 * Parameters:
 *   in   inputs of a row
 *   out  outputs of a row
 *   x    [rows, in]
 *   w    [in, out]
 *   b    [out], or NULL
 *   y    [rows, out], written
 * Since: 0.1 */
PS_API void ps_dense_forward(ps_device *device, size_t rows, size_t in, size_t out, const float *x, const float *w,
                             const float *b, float *y);

/* The gradients of a dense layer, from dy, the gradient with respect to y.
 *
 * Parameters:
 *   in   inputs of a row
 *   out  outputs of a row
 *   x    [rows, in]
 *   w    [in, out]
 *   dy   [rows, out]
 *   dx   [rows, in] = dy wᵀ, written, or NULL
 *   dw   [in, out] = xᵀ dy, written
 *   db   [out] = column sums of dy, written, or NULL
 * Since: 0.1 */
PS_API void ps_dense_backward(ps_device *device, size_t rows, size_t in, size_t out, const float *x, const float *w,
                              const float *dy, float *dx, float *dw, float *db);

/* ---- Sparse input: y = x w + b, where most of x is 0 ------------------------------------------------------------- */

/* The outputs of a dense layer whose input is given by its entries.
 *
 * The entries of row r are number start[r] to start[r + 1] - 1 (struct ps_sparse of ps_data.h has all three lists).
 *
 * Parameters:
 *   in      columns of x
 *   out     outputs of a row
 *   start   [rows + 1]
 *   column  [entries], each below in: one that is not stops the program
 *   value   [entries]: what stands there
 *   w       [in, out]
 *   b       [out], or NULL
 *   y       [rows, out], written
 * Since: 0.1 */
PS_API void ps_sparse_forward(ps_device *device, size_t rows, size_t in, size_t out, const uint64_t *start,
                              const uint32_t *column, const float *value, const float *w, const float *b, float *y);

/* The gradients of a dense layer whose input is given by its entries.
 *
 * A row of dw is the sum over its column's entries, in their order. On a GPU a column with more than 256 of them is
 * added up in pieces of 256, counted from its first, and then the pieces in their order: the same bits every time, but
 * not the CPU's.
 *
 * Parameters:
 *   in      columns of x
 *   out     outputs of a row
 *   start   [rows + 1]
 *   column  [entries], each below in
 *   value   [entries]
 *   dy      [rows, out]
 *   dw      [in, out], written whole, 0 where no row has an entry
 *   db      [out], written, or NULL
 * Since: 0.1 */
PS_API void ps_sparse_backward(ps_device *device, size_t rows, size_t in, size_t out, const uint64_t *start,
                               const uint32_t *column, const float *value, const float *dy, float *dw, float *db);

/* ---- Bias: y = x + b --------------------------------------------------------------------------------------------- */

/* Add a bias to each row, and its gradient. dx is dy itself.
 *
 * Parameters:
 *   x   [rows, n]
 *   b   [n]
 *   y   [rows, n], written; may be x
 *   dy  [rows, n]
 *   db  [n] = column sums of dy, written
 * Since: 0.1 */
PS_API void ps_bias_forward(ps_device *device, size_t rows, size_t n, const float *x, const float *b, float *y);
PS_API void ps_bias_backward(ps_device *device, size_t rows, size_t n, const float *dy, float *db);

/* ---- Windows over images ----------------------------------------------------------------------------------------- */

/* How windows lie at the edges of an image.
 *
 * An image is [height, width, channels]: the channels of a pixel lie beside each other (NHWC). Windows start every
 * stride pixels. VALID: where they lie on the image; SAME: as often as strides begin on it, so that a stride of 1 keeps
 * the size, on an image padded at both ends of each axis as evenly as can be, the odd pixel at the far end. Layouts and
 * padding are TensorFlow's, so that weights mean the same here and there.
 *
 * Since: 0.1 */
enum ps_padding { PS_PAD_VALID = 0, PS_PAD_SAME = 1 };

/* The shape of a convolution.
 * Since: 0.1 */
struct ps_conv2d {
    size_t height, width, in; /* of the input; in: channels */
    size_t out;               /* channels of the output */
    size_t kernel_height, kernel_width;
    size_t stride_height, stride_width;
    enum ps_padding padding;
};

/* Check the shape of a convolution before it is used: one that fails here stops the program anywhere else.
 *
 * Parameters:
 *   c  the shape
 * Errors:
 *   PS_ERR_INVALID  a size is 0, no such padding, a window that does not fit without padding
 *   PS_ERR_LIMIT    an image, a kernel of one output, or an output past PS_DEVICE_SIZE_MAX elements
 * Threads: any.
 * Since: 0.1 */
PS_API enum ps_err ps_conv2d_check(const struct ps_conv2d *c, struct ps_error *error) PS_MUST_USE;

/* The size of a convolution's output.
 *
 * Parameters:
 *   c       a shape that ps_conv2d_check() accepts
 *   height  filled
 *   width   filled
 * Threads: any.
 * Since: 0.1 */
PS_API void ps_conv2d_output(const struct ps_conv2d *c, size_t *height, size_t *width);

/* Memory that a convolution needs while it runs; what it held does not matter.
 *
 * Parameters:
 *   c     a shape that ps_conv2d_check() accepts
 *   rows  most rows
 * Returns: a number of float32. It grows with the rows up to a size that fits a cache, half a MiB or 256 windows, and
 *   may be 0.
 * Threads: any.
 * Since: 0.1 */
PS_API size_t ps_conv2d_workspace(const struct ps_conv2d *c, size_t rows);

/* The outputs of a convolution: y = x * w + b, the cross-correlation that networks call convolution; 0 beyond the
 * edges.
 *
 * Parameters:
 *   c          the shape
 *   x          [rows, height, width, in]
 *   w          [kernel_height, kernel_width, in, out]
 *   b          [out], or NULL
 *   y          [rows, output height, output width, out], written; not x
 *   workspace  [ps_conv2d_workspace()], NULL where that is 0
 * Since: 0.1 */
PS_API void ps_conv2d_forward(ps_device *device, size_t rows, const struct ps_conv2d *c, const float *x, const float *w,
                              const float *b, float *y, float *workspace);

/* The gradients of a convolution, from dy, the gradient with respect to y.
 *
 * Parameters:
 *   c          the shape
 *   x          [rows, height, width, in]
 *   w          [kernel_height, kernel_width, in, out]
 *   dy         [rows, output height, output width, out]
 *   dx         as x, written, or NULL; not x or dy
 *   dw         as w, written
 *   db         [out], written, or NULL
 *   workspace  [ps_conv2d_workspace()], NULL where that is 0
 * Since: 0.1 */
PS_API void ps_conv2d_backward(ps_device *device, size_t rows, const struct ps_conv2d *c, const float *x,
                               const float *w, const float *dy, float *dx, float *dw, float *db, float *workspace);

/* The shape of a pooling.
 * Since: 0.1 */
struct ps_pool2d {
    size_t height, width, channels;
    size_t window_height, window_width;
    size_t stride_height, stride_width;
    enum ps_padding padding;
};

/* Check the shape of a pooling before it is used: one that fails here stops the program anywhere else.
 *
 * Parameters:
 *   p  the shape
 * Errors:
 *   PS_ERR_INVALID  a size is 0, no such padding, a window that does not fit without padding
 *   PS_ERR_LIMIT    an image or an output past PS_DEVICE_SIZE_MAX elements
 * Threads: any.
 * Since: 0.1 */
PS_API enum ps_err ps_pool2d_check(const struct ps_pool2d *p, struct ps_error *error) PS_MUST_USE;

/* The size of a pooling's output.
 *
 * Parameters:
 *   p       a shape that ps_pool2d_check() accepts
 *   height  filled
 *   width   filled
 * Threads: any.
 * Since: 0.1 */
PS_API void ps_pool2d_output(const struct ps_pool2d *p, size_t *height, size_t *width);

/* The largest of each window, for each channel, and its gradient. NaN is the largest of all.
 *
 * Backward adds each element of dy to dx where the largest was; other elements of dx are 0.
 *
 * Parameters:
 *   p     the shape
 *   x     [rows, height, width, channels]
 *   y     [rows, output height, output width, channels], written
 *   best  as y: where in its row of x each was, the first of equals; written by forward, read by backward
 *   dy    as y
 *   dx    as x, written; not dy
 * Since: 0.1 */
PS_API void ps_max_pool_forward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *x, float *y,
                                uint32_t *best);
PS_API void ps_max_pool_backward(ps_device *device, size_t rows, const struct ps_pool2d *p, const uint32_t *best,
                                 const float *dy, float *dx);

/* The mean of each window, of the pixels that lie on the image, and its gradient.
 *
 * Parameters:
 *   p   the shape
 *   x   [rows, height, width, channels]
 *   y   [rows, output height, output width, channels], written
 *   dy  as y
 *   dx  as x, written; not dy
 * Since: 0.1 */
PS_API void ps_avg_pool_forward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *x, float *y);
PS_API void ps_avg_pool_backward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *dy, float *dx);

/* ---- Activations: element by element ----------------------------------------------------------------------------- */

/* y = max(x, 0), NaN stays NaN; dx = dy where y > 0, else 0.
 *
 * Parameters:
 *   x   [n]
 *   y   [n], written by forward, may be x; read by backward
 *   dy  [n]
 *   dx  [n], written; may be dy
 * Since: 0.1 */
PS_API void ps_relu_forward(ps_device *device, size_t n, const float *x, float *y);
PS_API void ps_relu_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx);

/* y = tanh(x); dx = dy (1 - y²).
 *
 * Parameters:
 *   x   [n]
 *   y   [n], written by forward, may be x; read by backward
 *   dy  [n]
 *   dx  [n], written; may be dy
 * Since: 0.1 */
PS_API void ps_tanh_forward(ps_device *device, size_t n, const float *x, float *y);
PS_API void ps_tanh_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx);

/* y = 1 / (1 + exp(-x)), safe for large x; dx = dy y (1 - y).
 *
 * Parameters:
 *   x   [n]
 *   y   [n], written by forward, may be x; read by backward
 *   dy  [n]
 *   dx  [n], written; may be dy
 * Since: 0.1 */
PS_API void ps_sigmoid_forward(ps_device *device, size_t n, const float *x, float *y);
PS_API void ps_sigmoid_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx);

/* y = x P(a standard normal number is below x); dx = dy (P + x times the density at x).
 *
 * The exact form of Hendrycks and Gimpel, "Gaussian error linear units", 2016. Backward needs the input.
 *
 * Parameters:
 *   x   [n]
 *   y   [n], written; may be x
 *   dy  [n]
 *   dx  [n], written; may be dy
 * Since: 0.1 */
PS_API void ps_gelu_forward(ps_device *device, size_t n, const float *x, float *y);
PS_API void ps_gelu_backward(ps_device *device, size_t n, const float *x, const float *dy, float *dx);

/* ---- Layer normalization (Ba, Kiros and Hinton, 2016) ------------------------------------------------------------ */

/* y = gamma (x - mean) rstd + beta with each row's mean and rstd = 1 / sqrt(variance + epsilon).
 *
 * The variance is the mean of squares.
 *
 * Parameters:
 *   x        [rows, n]
 *   gamma    [n]
 *   beta     [n]
 *   epsilon  at least 0; 1e-5 is usual
 *   y        [rows, n], written; may be x, which the way back needs
 *   mean     [rows], written, for the way back
 *   rstd     [rows], written, for the way back
 * Since: 0.1 */
PS_API void ps_layer_norm_forward(ps_device *device, size_t rows, size_t n, const float *x, const float *gamma,
                                  const float *beta, float epsilon, float *y, float *mean, float *rstd);

/* The gradients of a layer normalization.
 *
 * Parameters:
 *   x       [rows, n]
 *   gamma   [n]
 *   mean    [rows], from ps_layer_norm_forward()
 *   rstd    [rows], from ps_layer_norm_forward()
 *   dy      [rows, n]
 *   dx      [rows, n], written; may be dy, or NULL
 *   dgamma  [n], written
 *   dbeta   [n], written
 * Since: 0.1 */
PS_API void ps_layer_norm_backward(ps_device *device, size_t rows, size_t n, const float *x, const float *gamma,
                                   const float *mean, const float *rstd, const float *dy, float *dx, float *dgamma,
                                   float *dbeta);

/* ---- Embedding: rows of a table by their numbers ----------------------------------------------------------------- */

/* y[i] = table[ids[i]].
 *
 * An id that is not below vocabulary stops the program, as no error can be returned from here; ps_check_ids() finds it
 * while the ids are in host memory.
 *
 * Parameters:
 *   n           ids
 *   vocabulary  rows of the table
 *   width       elements of a row
 *   ids         [n], each below vocabulary
 *   table       [vocabulary, width]
 *   y           [n, width], written
 * Since: 0.1 */
PS_API void ps_embedding_forward(ps_device *device, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                                 const float *table, float *y);

/* The gradient of a table: each row the sum of the rows of dy whose id it is, in their order; else 0.
 *
 * On a GPU an id that comes more than 256 times is added up in pieces of 256, counted from its first place, and then
 * the pieces in their order: the same bits every time, but not the CPU's. (More than 2 million ids at once, or fewer of
 * very wide rows, are added up in several lists, one after the other, with pieces of their own.)
 *
 * Parameters:
 *   n           ids
 *   vocabulary  rows of the table
 *   width       elements of a row
 *   ids         [n], each below vocabulary
 *   dy          [n, width]
 *   dtable      [vocabulary, width], written
 * Since: 0.1 */
PS_API void ps_embedding_backward(ps_device *device, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                                  const float *dy, float *dtable);

/* Check that ids are below a vocabulary. Good for labels, too.
 *
 * Parameters:
 *   n           ids
 *   ids         [n], host memory
 *   vocabulary  what each is to be below
 * Errors:
 *   PS_ERR_INVALID  one is not: the first, and where it is
 * Threads: any.
 * Since: 0.1 */
PS_API enum ps_err ps_check_ids(size_t n, const uint32_t *ids, size_t vocabulary, struct ps_error *error) PS_MUST_USE;

/* ---- Dropout (Srivastava et al., JMLR 2014) ---------------------------------------------------------------------- */

/* Each element is 0 with probability rate, else divided by 1 - rate, so that the mean stays and evaluation needs
 * nothing.
 *
 * Which: by seed, counter and the element's index alone (Philox4x32-10), so backward takes the same three again and no
 * mask is kept. Give every layer a seed and every step a counter.
 *
 * Parameters:
 *   rate     at least 0, below 1
 *   seed     of the layer
 *   counter  of the step
 *   x        [n]
 *   y        [n], written; may be x
 *   dy       [n]
 *   dx       [n], written; may be dy
 * Since: 0.1 */
PS_API void ps_dropout_forward(ps_device *device, size_t n, float rate, uint64_t seed, uint64_t counter, const float *x,
                               float *y);
PS_API void ps_dropout_backward(ps_device *device, size_t n, float rate, uint64_t seed, uint64_t counter,
                                const float *dy, float *dx);

/* ---- Classification ---------------------------------------------------------------------------------------------- */

/* p[r, c] = exp(x[r, c]) / sum over c, safe for large x.
 *
 * Parameters:
 *   classes  at least 1
 *   x        [rows, classes]
 *   p        [rows, classes], written; may be x
 * Since: 0.1 */
PS_API void ps_softmax(ps_device *device, size_t rows, size_t classes, const float *x, float *p);

/* Softmax and cross-entropy in one.
 *
 * With scale = 1 / (rows of the whole batch) the gradients of the batch's slices sum to the gradient of the batch's
 * mean loss.
 *
 * Parameters:
 *   classes  at least 1
 *   x        [rows, classes]
 *   labels   [rows], each below classes
 *   scale    of the gradient
 *   loss     [rows] = -log softmax(x)[label], per row and unscaled, written
 *   dx       [rows, classes] = scale (softmax(x) - one at the label), written; may be x, or NULL
 * Since: 0.1 */
PS_API void ps_softmax_cross_entropy(ps_device *device, size_t rows, size_t classes, const float *x,
                                     const uint32_t *labels, float scale, float *loss, float *dx);

/* Sigmoid and cross-entropy in one, for n independent yes-or-no questions a row; logistic regression has one.
 *
 * Computed so that nothing overflows.
 *
 * Parameters:
 *   x        [rows, n]
 *   targets  [rows, n], from 0 to 1
 *   scale    of the gradient
 *   loss     [rows] = sum over n of -t log s - (1 - t) log(1 - s), s = sigmoid(x); unscaled, written
 *   dx       [rows, n] = scale (s - t), written; may be x, or NULL
 * Since: 0.1 */
PS_API void ps_sigmoid_cross_entropy(ps_device *device, size_t rows, size_t n, const float *x, const float *targets,
                                     float scale, float *loss, float *dx);

/* The column of the largest value of each row.
 *
 * Parameters:
 *   classes  at least 1
 *   x        [rows, classes]
 *   best     [rows], written: the first of equals
 * Since: 0.1 */
PS_API void ps_argmax(ps_device *device, size_t rows, size_t classes, const float *x, uint32_t *best);

/* How many of a equal those of b: predictions against labels. Waits for the device.
 *
 * Parameters:
 *   a      [n]
 *   b      [n]
 *   count  the number, in host memory
 * Errors:
 *   PS_ERR_IO  the device failed, in this or in an operation before
 * Since: 0.1 */
PS_API enum ps_err ps_count_equal(ps_device *device, size_t n, const uint32_t *a, const uint32_t *b, size_t *count,
                                  struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
