/* The interface between libpsclient and a device module: one table of functions. A module is a library that is loaded
 * when a device of its kind is asked for, so that one build of libpsclient serves machines with such devices and
 * without. It exports one function, ps_device_module(), and needs nothing of libpsclient; this header needs nothing but
 * libc's.
 *
 * - Version: a table begins with its version and size, for all time. Any other change raises the version; a reader that
 *   finds another one than its own reads no further.
 * - Memory of a device is named by the addresses that alloc() returns; memory not said to be host memory is device
 *   memory. Tensors are float32, row-major, contiguous, at least 4-byte aligned. Sizes are in elements, for memory and
 *   copies in bytes, and fit: the caller has checked shapes, and never calls with nothing to do.
 * - Operations run in the order of their calls and may still run when the call returns. Failures wait for finish() or
 *   the next function that returns a result. After PS_MODULE_FAILED the device can only be closed.
 * - Results of operations are the same bits every time on one kind of hardware.
 * - Threads: one at a time for each device; any thread.
 * - Each operation is specified in ps_device.h, under ps_ and its name. */
#ifndef CLIENT_DEVICE_PS_DEVICE_MODULE_H
#define CLIENT_DEVICE_PS_DEVICE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PS_DEVICE_MODULE_VERSION 6u

enum ps_module_result {
    PS_MODULE_OK = 0,
    PS_MODULE_ABSENT = 1,    /* no driver, no such device, or a library is missing */
    PS_MODULE_NO_MEMORY = 2, /* of the device's, or pinned host memory */
    PS_MODULE_INVALID = 3,   /* ids, labels or columns out of range: what was computed from them is NaN or 0 */
    PS_MODULE_FAILED = 4     /* anything else; see the text */
};

/* Of products of matrices. Their sums are float32, and so is everything else. */
enum ps_module_precision {
    PS_MODULE_FLOAT32 = 0,
    PS_MODULE_TF32 = 1,    /* factors of float32 with the last 13 bits cut off or rounded */
    PS_MODULE_BFLOAT16 = 2 /* factors of 16 bits, rounded to the nearest, ties to even */
};

/* Why, as a sentence for people. */
struct ps_module_text {
    char text[384];
};

struct ps_module_device; /* the module's own */
struct ps_module_gang;
struct ps_module_team;

#define PS_MODULE_TEAM_ID  128 /* bytes */
#define PS_MODULE_IDENTITY 16

/* One axis of windows that slide over images. */
struct ps_module_axis {
    size_t size, window, stride;
    size_t out;    /* windows along it */
    size_t before; /* elements of padding in front of the first */
};

struct ps_module_conv2d {
    struct ps_module_axis y, x;
    size_t in, out; /* channels */
    size_t at_once; /* windows for which the caller's workspace has space; 0: none is needed, a window is a pixel */
};

struct ps_module_pool2d {
    struct ps_module_axis y, x;
    size_t channels;
};

/* One update by an optimizer, all that its rule needs; own: struct <name>_step of
 * common/core/optimizer/rules/<name>.h. */
struct ps_module_step {
    float scale;     /* the gradient is multiplied by this first */
    uint32_t shaped; /* the three below are at work */
    float limit;     /* then brought to [-limit, limit] */
    float l2;        /* times the weight is added to it */
    float decay;     /* share of the weight that is taken off */
    uint32_t slots;  /* arrays besides the weights */
    uint64_t own[6];
};

/* Gradients that are encoded: the kinds of struct ps_compress by their numbers on the wire. */
enum ps_module_code { PS_MODULE_CODE_FLOAT16 = 1, PS_MODULE_CODE_BFLOAT16 = 2, PS_MODULE_CODE_INT8 = 3 };
#define PS_MODULE_INT8_RUN 256 /* elements that share a scale */

#define PS_MODULE_SLOTS_MAX 3

#define PS_MODULE_DEVICE struct ps_module_device *d

/* Operations that compute: OP(name, (parameters)). */
#define PS_MODULE_COMPUTE_OPS(OP)                                                                                      \
    OP(dense_forward, (PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const float *x, const float *w,           \
                       const float *b, float *y))                                                                      \
    OP(dense_backward, (PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const float *x, const float *w,          \
                        const float *dy, float *dx, float *dw, float *db))                                             \
    OP(sparse_forward, (PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const uint64_t *start,                   \
                        const uint32_t *column, const float *value, const float *w, const float *b, float *y))         \
    OP(sparse_backward, (PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const uint64_t *start,                  \
                         const uint32_t *column, const float *value, const float *dy, float *dw, float *db))           \
    OP(bias_forward, (PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *b, float *y))              \
    OP(bias_backward, (PS_MODULE_DEVICE, size_t rows, size_t n, const float *dy, float *db))                           \
    OP(conv2d_forward, (PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x,               \
                        const float *w, const float *b, float *y, float *workspace))                                   \
    OP(conv2d_backward, (PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x,              \
                         const float *w, const float *dy, float *dx, float *dw, float *db, float *workspace))          \
    OP(max_pool_forward,                                                                                               \
       (PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *x, float *y, uint32_t *best))    \
    OP(max_pool_backward, (PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const uint32_t *best,      \
                           const float *dy, float *dx))                                                                \
    OP(avg_pool_forward, (PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *x, float *y))  \
    OP(avg_pool_backward,                                                                                              \
       (PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *dy, float *dx))                  \
    OP(relu_forward, (PS_MODULE_DEVICE, size_t n, const float *x, float *y))                                           \
    OP(relu_backward, (PS_MODULE_DEVICE, size_t n, const float *y, const float *dy, float *dx))                        \
    OP(tanh_forward, (PS_MODULE_DEVICE, size_t n, const float *x, float *y))                                           \
    OP(tanh_backward, (PS_MODULE_DEVICE, size_t n, const float *y, const float *dy, float *dx))                        \
    OP(sigmoid_forward, (PS_MODULE_DEVICE, size_t n, const float *x, float *y))                                        \
    OP(sigmoid_backward, (PS_MODULE_DEVICE, size_t n, const float *y, const float *dy, float *dx))                     \
    OP(gelu_forward, (PS_MODULE_DEVICE, size_t n, const float *x, float *y))                                           \
    OP(gelu_backward, (PS_MODULE_DEVICE, size_t n, const float *x, const float *dy, float *dx))                        \
    OP(layer_norm_forward, (PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *gamma,               \
                            const float *beta, float epsilon, float *y, float *mean, float *rstd))                     \
    OP(layer_norm_backward,                                                                                            \
       (PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *gamma, const float *mean,                \
        const float *rstd, const float *dy, float *dx, float *dgamma, float *dbeta))                                   \
    OP(embedding_forward, (PS_MODULE_DEVICE, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,           \
                           const float *table, float *y))                                                              \
    OP(embedding_backward, (PS_MODULE_DEVICE, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,          \
                            const float *dy, float *dtable))                                                           \
    OP(dropout_forward,                                                                                                \
       (PS_MODULE_DEVICE, size_t n, float rate, uint64_t seed, uint64_t counter, const float *x, float *y))            \
    OP(dropout_backward,                                                                                               \
       (PS_MODULE_DEVICE, size_t n, float rate, uint64_t seed, uint64_t counter, const float *dy, float *dx))          \
    OP(softmax, (PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, float *p))                             \
    OP(softmax_cross_entropy, (PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, const uint32_t *labels,  \
                               float scale, float *loss, float *dx))                                                   \
    OP(sigmoid_cross_entropy, (PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *targets,          \
                               float scale, float *loss, float *dx))                                                   \
    OP(argmax, (PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, uint32_t *best))

struct ps_device_module {
    uint32_t version, size; /* PS_DEVICE_MODULE_VERSION, bytes of this struct */
    const char *built;      /* "CUDA 13.0" */

    /* One entry for each optimizer by its number: sizeof(struct <name>_step). Another list than the caller's means that
     * rules differ. */
    uint32_t optimizers;
    const uint16_t *step_size;

    /* ---- The device ---- */

    int (*count)(struct ps_module_text *why); /* devices of this machine; 0: why there are none */
    enum ps_module_result (*open)(unsigned number, enum ps_module_precision precision, struct ps_module_device **out,
                                  struct ps_module_text *why);
    void (*close)(PS_MODULE_DEVICE);
    void (*describe)(PS_MODULE_DEVICE, char *text, size_t size); /* "NVIDIA H100 80GB HBM3, CUDA 13.0" */

    /* ---- Memory ---- */

    /* Zeroed, 256-byte aligned. NULL: out of memory; or, when copied() then says so, the device has failed. */
    void *(*alloc)(PS_MODULE_DEVICE, size_t size);
    void (*free)(PS_MODULE_DEVICE, void *memory);
    /* Host memory that the device accesses directly ("pinned"): required by the two copies below. Zeroed. */
    void *(*alloc_host)(PS_MODULE_DEVICE, size_t size);
    void (*free_host)(PS_MODULE_DEVICE, void *memory);

    void (*upload)(PS_MODULE_DEVICE, void *to, const void *from_host, size_t size); /* has read its source */
    void (*copy)(PS_MODULE_DEVICE, void *to, const void *from, size_t size);
    void (*zero)(PS_MODULE_DEVICE, void *to, size_t size);
    enum ps_module_result (*download)(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size,
                                      struct ps_module_text *why);

    /* Copies between device memory and memory of alloc_host() on streams of their own. copy_in() does not wait for
     * earlier calls: none of them may use `to`. Later calls wait for it. copy_out() waits for earlier calls; no later
     * call may change `from`. Both are done, and host memory is free again, when finish() has returned; for copy_in()
     * also after a download(), for copy_out() after copied(). */
    void (*copy_in)(PS_MODULE_DEVICE, void *to, const void *from_pinned, size_t size);
    void (*copy_out)(PS_MODULE_DEVICE, void *to_pinned, const void *from, size_t size);
    enum ps_module_result (*copied)(PS_MODULE_DEVICE, struct ps_module_text *why); /* waits for every copy_out() */
    enum ps_module_result (*finish)(PS_MODULE_DEVICE, struct ps_module_text *why);

    /* ---- Operations ---- */

#define PS_MODULE_MEMBER(name, parameters) void(*name) parameters;
    PS_MODULE_COMPUTE_OPS(PS_MODULE_MEMBER)
#undef PS_MODULE_MEMBER

    enum ps_module_result (*count_equal)(PS_MODULE_DEVICE, size_t n, const uint32_t *a, const uint32_t *b,
                                         size_t *count, struct ps_module_text *why);

    /* ---- Optimizers ---- */

    void (*fill)(PS_MODULE_DEVICE, size_t n, float value, float *x);
    /* In place. gradient, weights, slot[0..step->slots): [n]. */
    void (*update)(PS_MODULE_DEVICE, unsigned optimizer, const struct ps_module_step *step, size_t n,
                   const float *gradient, float *weights, float *const slot[PS_MODULE_SLOTS_MAX]);
    /* Whether the gradients of all updates since the last call were finite; waits for them. */
    enum ps_module_result (*updates_finite)(PS_MODULE_DEVICE, int *finite, struct ps_module_text *why);
    /* Sum of squares, in double: of x as it is when its turn comes; end waits for the start that came last. */
    void (*square_sum_start)(PS_MODULE_DEVICE, size_t n, const float *x);
    enum ps_module_result (*square_sum_end)(PS_MODULE_DEVICE, double *sum, struct ps_module_text *why);
    /* How many of a: [n] equal those of b, and the sum of losses: [n], in double. Likewise. */
    void (*tally_start)(PS_MODULE_DEVICE, size_t n, const uint32_t *a, const uint32_t *b, const float *losses);
    enum ps_module_result (*tally_end)(PS_MODULE_DEVICE, size_t *count, double *loss, struct ps_module_text *why);

    /* ---- Gradients that are encoded ---- */

    /* gradient + residual as codec_encode_apart() of libpsclient encodes it, to the same bits; left becomes what the
     * encoding leaves out. It is an encoding of each `block` elements, a multiple of 4, and one of those that are left,
     * which lie one behind the other: 2 n bytes, or for INT8 a float32 scale for each run and n bytes behind them, the
     * last filled up with zeros to 4 bytes. nonfinite: a word of the device's memory that becomes 1 where a gradient is
     * not finite, and else stays. */
    void (*encode)(PS_MODULE_DEVICE, enum ps_module_code code, size_t n, size_t block, const float *gradient,
                   const float *residual, float *left, void *out, uint32_t *nonfinite);

    /* ---- Replicas on several devices, of one process ---- */

    /* PS_MODULE_ABSENT: they lie on several devices and NCCL is missing. */
    enum ps_module_result (*gang_open)(struct ps_module_device *const devices[], size_t n, struct ps_module_gang **out,
                                       struct ps_module_text *why);
    void (*gang_close)(struct ps_module_gang *gang);
    /* tensors[r]: [elements] of devices[r]; all become the sum over r, divided. */
    enum ps_module_result (*gang_sum)(struct ps_module_gang *gang, float *const tensors[], size_t elements,
                                      float divisor, struct ps_module_text *why);
    /* All become tensors[root]. */
    enum ps_module_result (*gang_broadcast)(struct ps_module_gang *gang, float *const tensors[], size_t elements,
                                            size_t root, struct ps_module_text *why);

    /* ---- Devices of several processes, one of each ---- */

    /* Which device it is, the same in every process and nowhere else; zeros: not known. */
    void (*identity)(PS_MODULE_DEVICE, unsigned char identity[PS_MODULE_IDENTITY]);
    /* The id by which they find each other: one of them makes it and sends it to the others. ABSENT: NCCL is missing,
     * or too old. */
    enum ps_module_result (*team_id)(PS_MODULE_DEVICE, unsigned char id[PS_MODULE_TEAM_ID], struct ps_module_text *why);
    /* Three that begin something, one at a time; nothing else is called of the device before team_poll() says done. All
     * ranks begin the same. */
    enum ps_module_result (*team_open)(PS_MODULE_DEVICE, const unsigned char id[PS_MODULE_TEAM_ID], uint32_t ranks,
                                       uint32_t rank, struct ps_module_team **out, struct ps_module_text *why);
    enum ps_module_result (*team_sum)(struct ps_module_team *team, float *tensor, size_t elements, float divisor,
                                      struct ps_module_text *why);
    enum ps_module_result (*team_broadcast)(struct ps_module_team *team, float *tensor, size_t elements, uint32_t root,
                                            struct ps_module_text *why);
    /* Never waits. After a failure there is only team_close(). */
    enum ps_module_result (*team_poll)(struct ps_module_team *team, int *done, struct ps_module_text *why);
    /* Aborts an unfinished operation, whatever the other ranks do: the device is free of it afterwards. */
    void (*team_close)(struct ps_module_team *team);
};

#define PS_DEVICE_MODULE_SYMBOL "ps_device_module"
typedef const struct ps_device_module *ps_device_module_fn(void);

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct ps_device_module *
ps_device_module(void);

#ifdef __cplusplus
}
#endif

#endif
