/* The CPU device: opening, memory, and the way to OpenBLAS. The one file that includes cblas.h. The operations are in
 * device_cpu_*.c. */
#include "client/device/cpu/device_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "client/device/cpu/device_cpu_blas.h"
#include "client/device/device_optimizer.h"
#include "common/core/base/base.h"
#include "common/system/cgroup.h"

#define CPU_ALIGN 64

static void
cpu_close(ps_device *d)
{
    free(d);
}

/* ---- Memory ---- */

static void *
cpu_alloc(ps_device *d, size_t size)
{
    void *memory;

    (void)d;
    if (size > PTRDIFF_MAX - CPU_ALIGN)
        return NULL;
    size = size == 0 ? CPU_ALIGN : round_up(size, CPU_ALIGN);
    if ((memory = aligned_alloc(CPU_ALIGN, size)) != NULL)
        memset(memory, 0, size);
    return memory;
}

static void
cpu_free(ps_device *d, void *memory)
{
    (void)d;
    free(memory);
}

static void
cpu_copy(ps_device *d, void *to, const void *from, size_t size)
{
    (void)d;
    memcpy(to, from, size);
}

static void
cpu_zero(ps_device *d, void *to, size_t size)
{
    (void)d;
    memset(to, 0, size);
}

static enum ps_err
cpu_download(ps_device *d, void *to_host, const void *from, size_t size, struct ps_error *e)
{
    (void)e;
    cpu_copy(d, to_host, from, size);
    return PS_OK;
}

static enum ps_err
cpu_finish(ps_device *d, struct ps_error *e)
{
    (void)d;
    (void)e;
    return PS_OK;
}

static enum ps_err
cpu_count_equal(ps_device *d, size_t n, const uint32_t *a, const uint32_t *b, size_t *count, struct ps_error *e)
{
    size_t equal = 0;

    (void)d;
    (void)e;
    for (size_t i = 0; i < n; i++)
        equal += a[i] == b[i];
    *count = equal;
    return PS_OK;
}

void
cpu_product(bool a_transposed, bool b_transposed, size_t m, size_t n, size_t k, const float *a, const float *b,
            float keep, float *c)
{
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)k, 1, a, (blasint)(a_transposed ? m : k), b,
                (blasint)(b_transposed ? k : n), keep, c, (blasint)n);
}

#define CPU_OP_ENTRY(name, ...) .name = cpu_##name,

static const struct device_ops cpu_ops = {
    .is_host = 1,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .download = cpu_download,
    .finish = cpu_finish,
    DEVICE_COMPUTE_OPS(CPU_OP_ENTRY).count_equal = cpu_count_equal,
    .gang = &device_gang_cpu,
    .optimizer = &device_optimizer_cpu,
};

/* ---- Opening ---- */

/* OpenBLAS reads the same variable, but only when the process starts: another open may have set it differently
 * since. */
static int
threads_wanted(const struct ps_device_options *options)
{
    const char *text = getenv("OPENBLAS_NUM_THREADS");

    if (options->threads > 0)
        return options->threads;
    if (text != NULL && atoi(text) > 0)
        return atoi(text);
    return MAX(1, (int)cgroup_cores() / options->workers);
}

/* "OpenBLAS 0.3.21 ...": the first two words; and what is wrong with its kernels. */
static void
cpu_describe(ps_device *d)
{
    const char *config = openblas_get_config();
    size_t first = strcspn(config, " ");
    size_t words = config[first] == ' ' ? first + 1 + strcspn(config + first + 1, " ") : first;

    snprintf(d->description, sizeof d->description, "%.*s %s, %d thread%s%s", (int)words, config,
             openblas_get_corename(), d->threads, d->threads == 1 ? "" : "s",
             device_cpu_blas_advice(openblas_get_corename(), isa_choose(NULL), getenv("OPENBLAS_CORETYPE") != NULL));
}

enum ps_err
device_cpu_open(const struct ps_device_options *options, ps_device **out, struct ps_error *e)
{
    int threads = threads_wanted(options);
    ps_device *d;

    if (options->precision != PS_PRECISION_FLOAT32)
        return ps_fail(e, PS_ERR_UNSUPPORTED,
                       "device cpu: it multiplies in float32; %s is for GPUs, and would only be slower here",
                       ps_precision_name(options->precision));
    if ((d = calloc(1, sizeof *d)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "device cpu: out of memory");
    openblas_set_num_threads(threads);
    d->ops = &cpu_ops;
    d->threads = openblas_get_num_threads();
    cpu_describe(d);
    *out = d;
    return PS_OK;
}
