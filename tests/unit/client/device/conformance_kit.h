/* Shared by the rows of the conformance table: memory of the host and of the device that is given back after a row,
 * random values, and comparison with what should come out. */
#ifndef TESTS_UNIT_CLIENT_DEVICE_CONFORMANCE_KIT_H
#define TESTS_UNIT_CLIENT_DEVICE_CONFORMANCE_KIT_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/device/device.h"
#include "common/core/base/base.h"
#include "common/core/codec/half.h"
#include "tests/unit/client/device/conformance.h"

/* Every row: conform_<name>(). */
/* clang-format off */
#define CONFORMANCE_LIST(X) \
    X(copies)              \
    X(staging)             \
    X(dense)               \
    X(bias)                \
    X(sparse)              \
    X(conv2d)              \
    X(conv2d_repeats)      \
    X(repeats)             \
    X(pools)               \
    X(relu)                \
    X(tanh)                \
    X(sigmoid)             \
    X(gelu)                \
    X(nan)                 \
    X(norm)                \
    X(embedding)           \
    X(dropout)             \
    X(softmax)             \
    X(sigmoid_loss)        \
    X(argmax)              \
    X(count_equal)         \
    X(optimizers)          \
    X(nonfinite)           \
    X(norm_started)        \
    X(tally)               \
    X(codecs)              \
    X(gang)
/* clang-format on */

#define CONFORMANCE_ROW(name) void conform_##name(struct conformance *c);
CONFORMANCE_LIST(CONFORMANCE_ROW)
#undef CONFORMANCE_ROW

/* ---- Failing ---- */

__attribute__((format(printf, 2, 3))) static inline void
conformance_fail(struct conformance *c, const char *format, ...)
{
    va_list args;

    if (c->failed)
        return;
    c->failed = true;
    va_start(args, format);
    vsnprintf(c->text, sizeof c->text, format, args);
    va_end(args);
}

static inline void
conformance_must(struct conformance *c, enum ps_err err, const struct ps_error *e)
{
    if (err != PS_OK)
        conformance_fail(c, "%s", e->text);
}

/* ---- Memory: of the host and of the device, given back after the row ---- */

static inline void *
conformance_keep(struct conformance *c, void *memory)
{
    ps_assert(memory != NULL && c->count < ARRAY_LEN(c->taken));
    return c->taken[c->count++] = memory;
}

static inline void *
conformance_host(struct conformance *c, size_t size)
{
    return conformance_keep(c, calloc(1, MAX(size, (size_t)1)));
}

#define DEVICE_MARK ((uintptr_t)1) /* in the list: of the device */

static inline void *
on_device(struct conformance *c, size_t size)
{
    struct ps_error e;
    void *memory = NULL;

    if (ps_device_alloc(c->device, size, &memory, &e) != PS_OK) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    conformance_keep(c, (void *)((uintptr_t)memory | DEVICE_MARK));
    return memory;
}

static inline void
give_back(struct conformance *c)
{
    while (c->count > 0) {
        uintptr_t memory = (uintptr_t)c->taken[--c->count];

        if (memory & DEVICE_MARK)
            ps_device_free(c->device, (void *)(memory & ~DEVICE_MARK));
        else
            free((void *)memory);
    }
}

/* ---- Values ---- */

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static inline uint64_t
conformance_draw(struct conformance *c)
{
    uint64_t z = (c->state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [-most, most). */
static inline float *
conformance_floats(struct conformance *c, size_t n, float most)
{
    float *x = conformance_host(c, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)(conformance_draw(c) >> 11) * 0x1p-52 - 1.0) * most;
    return x;
}

static inline uint32_t *
conformance_numbers(struct conformance *c, size_t n, size_t below)
{
    uint32_t *x = conformance_host(c, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (uint32_t)(conformance_draw(c) % below);
    return x;
}

static inline void *
conformance_uploaded(struct conformance *c, const void *from, size_t size)
{
    void *to = on_device(c, size);

    ps_device_upload(c->device, to, from, size);
    return to;
}

static inline float *
floats_on(struct conformance *c, size_t n, const float *x)
{
    return conformance_uploaded(c, x, n * sizeof *x);
}

/* For results: the previous contents must not matter, and elements that are not written are noticed. */
static inline float *
nans_on(struct conformance *c, size_t n)
{
    float *x = conformance_host(c, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return floats_on(c, n, x);
}

static inline uint32_t *
marks_on(struct conformance *c, size_t n)
{
    uint32_t *x = conformance_host(c, n * sizeof *x);

    memset(x, 0xee, n * sizeof *x);
    return conformance_uploaded(c, x, n * sizeof *x);
}

/* ---- Comparing ---- */

static inline void *
conformance_downloaded(struct conformance *c, const void *from, size_t size)
{
    void *to = conformance_host(c, size);
    struct ps_error e;

    conformance_must(c, ps_device_download(c->device, to, from, size, &e), &e);
    return to;
}

/* Sums of `terms` products of numbers of about 1: what f32 may lose against double. */
static inline void
conformance_near(struct conformance *c, const char *what, size_t n, const float *on, const double *want, size_t terms)
{
    const float *got = conformance_downloaded(c, on, n * sizeof *got);

    for (size_t i = 0; i < n; i++) {
        double allowed = 1e-6 * (double)(terms + 8) * fmax(1, fabs(want[i]));

        if (!(fabs((double)got[i] - want[i]) <= allowed))
            conformance_fail(c, "%s[%zu] of %zu: %.9g, reference %.9g", what, i, n, (double)got[i], want[i]);
    }
}

/* A factor of a product as the device's precision has it, where its bits are promised. */
static inline double
conformance_factor(const struct conformance *c, float x)
{
    return (double)(ps_device_precision(c->device) == PS_PRECISION_BFLOAT16 ? bfloat_to_float(bfloat_from_float(x))
                                                                            : x);
}

/* Sums of `terms` products of such factors. Those of TF32 are off by up to 2^-10 of themselves: towards 0 where bits
 * are cut off, so the sum is off by twice as much, and either way by chance, so that errors grow as the root of their
 * number. */
static inline void
conformance_near_product(struct conformance *c, const char *what, size_t n, const float *on, const double *want,
                         size_t terms)
{
    const float *got;

    if (ps_device_precision(c->device) != PS_PRECISION_TF32) {
        conformance_near(c, what, n, on, want, terms);
        return;
    }
    got = conformance_downloaded(c, on, n * sizeof *got);
    for (size_t i = 0; i < n; i++) {
        double allowed = 0x1p-9 * (fabs(want[i]) + sqrt((double)terms));

        if (!(fabs((double)got[i] - want[i]) <= allowed))
            conformance_fail(c, "%s[%zu] of %zu: %.9g, reference %.9g, in tf32", what, i, n, (double)got[i], want[i]);
    }
}

/* For what is promised to the bit. */
static inline void
conformance_same(struct conformance *c, const char *what, size_t size, const void *on, const void *want)
{
    const unsigned char *got = conformance_downloaded(c, on, size);

    for (size_t i = 0; i < size; i++)
        if (got[i] != ((const unsigned char *)want)[i]) {
            conformance_fail(c, "%s: byte %zu of %zu is %02x, not %02x", what, i, size, got[i],
                             ((const unsigned char *)want)[i]);
            return;
        }
}

static inline double *
column_sums(struct conformance *c, size_t rows, size_t n, const float *x)
{
    double *want = conformance_host(c, n * sizeof *want);

    for (size_t i = 0; i < rows * n; i++)
        want[i % n] += (double)x[i];
    return want;
}

static const size_t sizes[] = {1, 7, 64, 65, 251}; /* odd ones, and around what kernels take at a time */

/* Summands of an id or a column, up to which every device adds them in their order. */
#define CONFORMANCE_IN_ORDER 256

#define SIZES        ARRAY_LEN(sizes)
#define EACH_SIZE(i) for (size_t i = 0; i < SIZES; i++)

#endif
