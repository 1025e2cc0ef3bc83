/* Internal to ps_device.h: what a kind of device provides. One table per kind; device.c chooses it by name and
 * forwards.
 *
 * Adding a kind: a row in device.c's list and a module device_<kind>.c that fills every member. Adding an operation: a
 * row in DEVICE_COMPUTE_OPS, its public call in device_ops.c and its function in each kind. Arguments have been checked
 * when a member is called: sizes within PS_DEVICE_SIZE_MAX, shapes that fit, rows and n at least 1. */
#ifndef CLIENT_DEVICE_DEVICE_H
#define CLIENT_DEVICE_DEVICE_H

#include "client/device/device_gang.h"
#include "client/include/psclient/ps_device.h"

/* The operations that compute: the name and the parameters of each, those of ps_<name>() after the device. */
#define DEVICE_COMPUTE_OPS(OP)                                                                                         \
    OP(dense_forward, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *b, float *y)    \
    OP(dense_backward, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *dy, float *dx, \
       float *dw, float *db)                                                                                           \
    OP(sparse_forward, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,              \
       const float *value, const float *w, const float *b, float *y)                                                   \
    OP(sparse_backward, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,             \
       const float *value, const float *dy, float *dw, float *db)                                                      \
    OP(bias_forward, size_t rows, size_t n, const float *x, const float *b, float *y)                                  \
    OP(bias_backward, size_t rows, size_t n, const float *dy, float *db)                                               \
    OP(conv2d_forward, size_t rows, const struct ps_conv2d *c, const float *x, const float *w, const float *b,         \
       float *y, float *workspace)                                                                                     \
    OP(conv2d_backward, size_t rows, const struct ps_conv2d *c, const float *x, const float *w, const float *dy,       \
       float *dx, float *dw, float *db, float *workspace)                                                              \
    OP(max_pool_forward, size_t rows, const struct ps_pool2d *p, const float *x, float *y, uint32_t *best)             \
    OP(max_pool_backward, size_t rows, const struct ps_pool2d *p, const uint32_t *best, const float *dy, float *dx)    \
    OP(avg_pool_forward, size_t rows, const struct ps_pool2d *p, const float *x, float *y)                             \
    OP(avg_pool_backward, size_t rows, const struct ps_pool2d *p, const float *dy, float *dx)                          \
    OP(relu_forward, size_t n, const float *x, float *y)                                                               \
    OP(relu_backward, size_t n, const float *y, const float *dy, float *dx)                                            \
    OP(tanh_forward, size_t n, const float *x, float *y)                                                               \
    OP(tanh_backward, size_t n, const float *y, const float *dy, float *dx)                                            \
    OP(sigmoid_forward, size_t n, const float *x, float *y)                                                            \
    OP(sigmoid_backward, size_t n, const float *y, const float *dy, float *dx)                                         \
    OP(gelu_forward, size_t n, const float *x, float *y)                                                               \
    OP(gelu_backward, size_t n, const float *x, const float *dy, float *dx)                                            \
    OP(layer_norm_forward, size_t rows, size_t n, const float *x, const float *gamma, const float *beta,               \
       float epsilon, float *y, float *mean, float *rstd)                                                              \
    OP(layer_norm_backward, size_t rows, size_t n, const float *x, const float *gamma, const float *mean,              \
       const float *rstd, const float *dy, float *dx, float *dgamma, float *dbeta)                                     \
    OP(embedding_forward, size_t n, size_t vocabulary, size_t width, const uint32_t *ids, const float *table,          \
       float *y)                                                                                                       \
    OP(embedding_backward, size_t n, size_t vocabulary, size_t width, const uint32_t *ids, const float *dy,            \
       float *dtable)                                                                                                  \
    OP(dropout_forward, size_t n, float rate, uint64_t seed, uint64_t counter, const float *x, float *y)               \
    OP(dropout_backward, size_t n, float rate, uint64_t seed, uint64_t counter, const float *dy, float *dx)            \
    OP(softmax, size_t rows, size_t classes, const float *x, float *p)                                                 \
    OP(softmax_cross_entropy, size_t rows, size_t classes, const float *x, const uint32_t *labels, float scale,        \
       float *loss, float *dx)                                                                                         \
    OP(sigmoid_cross_entropy, size_t rows, size_t n, const float *x, const float *targets, float scale, float *loss,   \
       float *dx)                                                                                                      \
    OP(argmax, size_t rows, size_t classes, const float *x, uint32_t *best)

#define DEVICE_OP_MEMBER(name, ...) void (*name)(ps_device * d, __VA_ARGS__);

struct device_codec_kind;
struct device_optimizer_kind;
struct device_team_kind;

struct device_ops {
    int is_host;
    void (*close)(ps_device *d); /* frees d */

    void *(*alloc)(ps_device *d, size_t size); /* zeroed, 64-byte aligned, NULL when out of memory or failed */
    void (*free)(ps_device *d, void *memory);
    void (*upload)(ps_device *d, void *to, const void *from_host, size_t size);
    void (*copy)(ps_device *d, void *to, const void *from, size_t size);
    void (*zero)(ps_device *d, void *to, size_t size);
    enum ps_err (*download)(ps_device *d, void *to_host, const void *from, size_t size, struct ps_error *e);
    enum ps_err (*finish)(ps_device *d, struct ps_error *e);

    DEVICE_COMPUTE_OPS(DEVICE_OP_MEMBER)
    enum ps_err (*count_equal)(ps_device *d, size_t n, const uint32_t *a, const uint32_t *b, size_t *count,
                               struct ps_error *e);

    /* How many of a: [n] equal those of b, and the sum of losses: [n]; end waits for the start that came last. NULL,
     * both, where count_equal() and losses in host memory do as well. */
    void (*tally_start)(ps_device *d, size_t n, const uint32_t *a, const uint32_t *b, const float *losses);
    enum ps_err (*tally_end)(ps_device *d, size_t *count, double *loss, struct ps_error *e);

    const struct device_gang_kind *gang; /* how replicas on such devices reduce; NULL: they cannot */

    /* Host memory that copies beside the operations can use, and these copies: device_staging.h. NULL, all of them,
     * where device memory is host memory. */
    void *(*alloc_host)(ps_device *d, size_t size); /* zeroed, 64-byte aligned; NULL: out of memory */
    void (*free_host)(ps_device *d, void *memory);
    int (*is_staging)(ps_device *d, const void *host, size_t size); /* whether it lies in memory of alloc_host() */
    void (*copy_in)(ps_device *d, void *to, const void *from_staging, size_t size);
    void (*copy_out)(ps_device *d, void *to_staging, const void *from, size_t size);
    enum ps_err (*copied)(ps_device *d, struct ps_error *e);

    const struct device_codec_kind *codec;         /* device_codec.h; NULL: none */
    const struct device_optimizer_kind *optimizer; /* device_optimizer.h */
    const struct device_team_kind *team;           /* device_team.h; NULL: none */
};

/* An allocation has failed: the device's own failure where it has one, which explains it, else NOMEM with this text. */
enum ps_err device_no_memory(ps_device *d, size_t size, const char *of, struct ps_error *e) PS_MUST_USE;

/* Starts the struct of every kind. */
struct ps_device {
    const struct device_ops *ops;
    const char *name;
    int threads;
    enum ps_precision precision;
    char description[160];
};

/* options: filled in, never NULL. Sets *out, with everything but the name. */
enum ps_err device_cpu_open(const struct ps_device_options *options, ps_device **out, struct ps_error *e) PS_MUST_USE;

/* GPU `number` of this machine. options: as above. Sets *out, name and all. */
enum ps_err device_cuda_open(unsigned number, const struct ps_device_options *options, ps_device **out,
                             struct ps_error *e) PS_MUST_USE;

#endif
