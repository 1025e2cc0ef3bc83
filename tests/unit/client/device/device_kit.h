/* Shared by the tests of the CPU device: a device for each test, memory that goes with it, comparison with references
 * in double precision, and numeric differentiation of these.
 *
 * A reference is a function of doubles, written as plainly as its formula. The device's forward pass is held against
 * it, and the device's gradients against its central differences, so no derivative is derived twice by the same hand.
 */
#ifndef TESTS_UNIT_CLIENT_DEVICE_DEVICE_KIT_H
#define TESTS_UNIT_CLIENT_DEVICE_DEVICE_KIT_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "client/include/psclient/ps_device.h"
#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

static ps_device *device;
static struct test_rng rng;

/* Everything that a test took, freed by teardown. */
static void *kit_taken[4096];
static size_t kit_count;

static inline void
device_setup(void)
{
    struct ps_device_options options = {.threads = 1};

    rng.state = test_seed();
    ck_assert_int_eq(ps_device_open("cpu", &options, &device, NULL), PS_OK);
}

/* The same device with another number of threads. */
static inline void
device_threads(int threads)
{
    struct ps_device_options options = {.threads = threads};

    ps_device_close(device);
    ck_assert_int_eq(ps_device_open("cpu", &options, &device, NULL), PS_OK);
}

static inline void
device_teardown(void)
{
    while (kit_count > 0)
        ps_device_free(device, kit_taken[--kit_count]);
    ps_device_close(device);
}

/* A test that ends the program needs a process of its own. */
static inline bool
tests_fork(void)
{
    const char *text = getenv("CK_FORK");

    return text == NULL || strcmp(text, "no") != 0;
}

static inline void *
device_take(size_t size)
{
    ck_assert_uint_lt(kit_count, ARRAY_LEN(kit_taken));
    ck_assert_int_eq(ps_device_alloc(device, size, &kit_taken[kit_count], NULL), PS_OK);
    return kit_taken[kit_count++];
}

/* In [-1, 1). */
static inline float *
random_floats(size_t n)
{
    float *x = device_take(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = test_float(&rng);
    return x;
}

/* For outputs: the previous contents must not matter. */
static inline float *
nan_floats(size_t n)
{
    float *x = device_take(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

static inline double *
doubles_of(const float *x, size_t n)
{
    double *d = device_take(n * sizeof *d);

    for (size_t i = 0; i < n; i++)
        d[i] = (double)x[i];
    return d;
}

/* Sums of `terms` products of numbers of about 1: what f32 may lose against double. */
static inline void
assert_near(double got, double want, size_t terms, const char *what, size_t at)
{
    double allowed = 1e-6 * (double)(terms + 8) * fmax(1, fabs(want));

    ck_assert_msg(fabs(got - want) <= allowed, "%s[%zu]: %.9g, reference %.9g", what, at, got, want);
}

static inline void
assert_all_near(size_t n, const float *got, const double *want, size_t terms, const char *what)
{
    for (size_t i = 0; i < n; i++)
        assert_near((double)got[i], want[i], terms, what, i);
}

static inline void
assert_same_bits(const float *a, const float *b, size_t n)
{
    ck_assert_int_eq(memcmp(a, b, n * sizeof *a), 0);
}

static inline void
assert_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert(x[i] == 0);
}

/* The loss whose gradient a backward pass computes: sum of dy y. */
static inline double
weighted_sum(size_t n, const float *dy, const double *y)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)dy[i] * y[i];
    return sum;
}

/* d loss / d values[i] for all i against gradient[i]. loss() computes from the values that are pointed to. Past 100
 * elements, 100 of them by chance. */
static inline void
assert_gradient(size_t n, double *values, const float *gradient, double (*loss)(void *context), void *context,
                size_t terms, const char *what)
{
    const double h = 1e-5;

    for (size_t k = 0; k < MIN(n, 100); k++) {
        size_t i = n <= 100 ? k : (size_t)test_below(&rng, n);
        double kept = values[i], below, above;

        values[i] = kept - h;
        below = loss(context);
        values[i] = kept + h;
        above = loss(context);
        values[i] = kept;
        assert_near((double)gradient[i], (above - below) / (2 * h), terms, what, i);
    }
}

#endif
