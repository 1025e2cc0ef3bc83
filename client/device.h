/* Inside of ps_device.h: what a kind of device provides. One table per kind; device.c chooses it by name and forwards.
 *
 * Adding a kind: a row in device.c's list and a module device_<kind>.c that fills every member. Arguments have been
 * checked when a member is called: sizes within PS_DEVICE_SIZE_MAX, rows and n at least 1. */
#ifndef CLIENT_DEVICE_H
#define CLIENT_DEVICE_H

#include "client/ps_device.h"

struct device_ops {
    int is_host;
    void (*close)(ps_device *d); /* frees d */

    void *(*alloc)(ps_device *d, size_t size); /* zeroed, 64-byte aligned, NULL when out of memory */
    void (*free)(ps_device *d, void *memory);
    void (*upload)(ps_device *d, void *to, const void *from_host, size_t size);
    void (*copy)(ps_device *d, void *to, const void *from, size_t size);
    void (*zero)(ps_device *d, void *to, size_t size);
    enum ps_err (*download)(ps_device *d, void *to_host, const void *from, size_t size, struct ps_error *e);
    enum ps_err (*finish)(ps_device *d, struct ps_error *e);

    void (*dense_forward)(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w,
                          const float *b, float *y);
    void (*dense_backward)(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w,
                           const float *dy, float *dx, float *dw, float *db);
    void (*relu_forward)(ps_device *d, size_t n, const float *x, float *y);
    void (*relu_backward)(ps_device *d, size_t n, const float *y, const float *dy, float *dx);
    void (*tanh_forward)(ps_device *d, size_t n, const float *x, float *y);
    void (*tanh_backward)(ps_device *d, size_t n, const float *y, const float *dy, float *dx);
    void (*softmax)(ps_device *d, size_t rows, size_t classes, const float *x, float *p);
    void (*softmax_cross_entropy)(ps_device *d, size_t rows, size_t classes, const float *x, const uint32_t *labels,
                                  float scale, float *loss, float *dx);
    void (*argmax)(ps_device *d, size_t rows, size_t classes, const float *x, uint32_t *best);
    enum ps_err (*count_equal)(ps_device *d, size_t n, const uint32_t *a, const uint32_t *b, size_t *count,
                               struct ps_error *e);
};

/* Starts the struct of every kind. */
struct ps_device {
    const struct device_ops *ops;
    const char *name;
    int threads;
    char description[128];
};

/* options: filled in, never NULL. Sets *out, with everything but the name. */
enum ps_err device_cpu_open(const struct ps_device_options *options, ps_device **out, struct ps_error *e) PS_MUST_USE;

#endif
