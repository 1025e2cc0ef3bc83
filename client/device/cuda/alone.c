/* The CUDA module on a machine with a GPU and little else: build.sh compiles this with the parts of libpsclient that
 * use devices.
 *
 *     alone cuda test       every row of the conformance table, in each precision, in TAP
 *     alone cuda figures    copies, optimizers, operations and training steps, in time and against the device's memory
 *
 * Exit status: 0, 1 when a row failed, 77 when there is no such device here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/device/cuda/alone.h"
#include "client/device/device.h"
#include "client/device/device_optimizer.h"
#include "client/device/device_staging.h"
#include "common/core/base/base.h"
#include "common/system/now.h"
#include "tests/unit/client/device/conformance.h"

#define ABSENT 77

void
alone_must(enum ps_err err, const struct ps_error *e)
{
    if (err == PS_OK)
        return;
    fprintf(stderr, "alone: %s\n", e->text);
    exit(1);
}

/* ---- Testing ---- */

/* Returns how many rows failed. number: of the tests so far. */
static size_t
test_rows(ps_device *d, size_t *number)
{
    const char *seed = getenv("PSD_TEST_SEED");
    struct conformance c = {.device = d, .seed = seed != NULL ? strtoull(seed, NULL, 0) : 20260101};
    size_t failed = 0;

    for (size_t i = 0; i < conformance_rows(); i++) {
        bool good = conformance_run(&c, i);

        printf("%s %zu - %s in %s\n", good ? "ok" : "not ok", ++*number, conformance_name(i),
               ps_precision_name(ps_device_precision(d)));
        if (!good)
            printf("# %s\n", c.text);
        failed += !good;
        fflush(stdout);
    }
    return failed;
}

/* A device that has one precision alone is tested in that. */
static int
alone_test(ps_device *d, const char *name)
{
    size_t failed, number = 0;

    failed = test_rows(d, &number);
    for (int p = PS_PRECISION_FLOAT32 + 1; ps_precision_name((enum ps_precision)p) != NULL; p++) {
        struct ps_device_options options = {.precision = (enum ps_precision)p};
        struct ps_error e;
        enum ps_err err = ps_device_open(name, &options, &d, &e);

        if (err == PS_ERR_UNSUPPORTED) {
            printf("# %s\n", e.text);
            continue;
        }
        alone_must(err, &e);
        failed += test_rows(d, &number);
        ps_device_close(d);
    }
    printf("1..%zu\n", number);
    return failed > 0;
}

/* ---- Measuring ---- */

struct alone_bench {
    ps_device *d;
    size_t n, size;        /* elements, and their bytes */
    float *a, *b, *c, *g;  /* of the device */
    float *pinned, *plain; /* of the host */
    const struct ps_optimizer *optimizer;
    uint64_t version;
};

static double
alone_seconds(void)
{
    return 1e-9 * (double)monotonic_ns();
}

#define TIMES  5    /* of which the middle one counts */
#define TIME_S 0.02 /* of each */

static int
alone_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
time_of_calls(ps_device *d, size_t calls, void (*work)(void *arg), void *arg)
{
    struct ps_error e;
    double start;

    alone_must(ps_device_finish(d, &e), &e);
    start = alone_seconds();
    for (size_t i = 0; i < calls; i++)
        work(arg);
    alone_must(ps_device_finish(d, &e), &e);
    return (alone_seconds() - start) / (double)calls;
}

double
alone_time(ps_device *d, void (*work)(void *arg), void *arg)
{
    double took[TIMES], once;
    size_t calls;

    (void)time_of_calls(d, 2, work, arg); /* loads what it needs */
    once = time_of_calls(d, 2, work, arg);
    calls = once < TIME_S ? (size_t)(TIME_S / once) + 1 : 1;
    for (size_t i = 0; i < TIMES; i++)
        took[i] = time_of_calls(d, calls, work, arg);
    qsort(took, TIMES, sizeof *took, alone_order);
    return took[TIMES / 2];
}

static void
send_pinned(void *arg)
{
    struct alone_bench *b = arg;
    device_send(b->d, b->a, b->pinned, b->size);
}

static void
fetch_pinned(void *arg)
{
    struct alone_bench *b = arg;
    struct ps_error e;

    alone_must(device_fetch(b->d, b->pinned, b->a, b->size, &e), &e);
}

static void
send_plain(void *arg)
{
    struct alone_bench *b = arg;
    ps_device_upload(b->d, b->a, b->plain, b->size);
}

static void
fetch_plain(void *arg)
{
    struct alone_bench *b = arg;
    struct ps_error e;

    alone_must(ps_device_download(b->d, b->plain, b->a, b->size, &e), &e);
}

static void
both_ways(void *arg)
{
    struct alone_bench *b = arg;
    struct ps_error e;

    device_send(b->d, b->a, b->pinned, b->size);
    alone_must(device_fetch(b->d, b->pinned + b->n, b->b, b->size, &e), &e);
}

static void
copy_inside(void *arg)
{
    struct alone_bench *b = arg;
    ps_device_copy(b->d, b->b, b->a, b->size);
}

static void
bench_update(void *arg)
{
    struct alone_bench *b = arg;
    struct optimizer_arrays arrays = {.weights = b->a, .slot = {b->b, b->c, NULL}};
    struct device_update u = {{++b->version, 0}, 1, false};
    struct ps_error e;

    alone_must(device_optimizer_apply(b->d, b->optimizer, &u, b->n, b->g, &arrays, &e), &e);
}

#define SIDE 4096

static void
bench_product(void *arg)
{
    struct alone_bench *b = arg;
    ps_dense_forward(b->d, SIDE, SIDE, SIDE, b->a, b->b, NULL, b->c);
}

static void
show_copies(struct alone_bench *b)
{
    static const struct {
        const char *what;
        void (*work)(void *arg);
        double times;
    } rows[] = {{"host to device, pinned", send_pinned, 1},
                {"device to host, pinned", fetch_pinned, 1},
                {"both ways at once, pinned", both_ways, 2},
                {"host to device, pageable", send_plain, 1},
                {"device to host, pageable", fetch_plain, 1}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        printf("%-32s %8.2f GB/s\n", rows[i].what,
               rows[i].times * (double)b->size / alone_time(b->d, rows[i].work, b) * 1e-9);
}

static void
show_against(const char *what, double bytes, double took, double memory)
{
    printf("%-32s %8.1f GB/s  %3.0f%% of a copy's\n", what, bytes / took * 1e-9, 100 * bytes / took / memory);
}

/* Returns bytes a second of a copy. */
static double
show_kernels(struct alone_bench *b)
{
    double memory = 2 * (double)b->size / alone_time(b->d, copy_inside, b);

    printf("%-32s %8.1f GB/s\n", "copy inside the device", memory * 1e-9);
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++) {
        const char *name = ps_optimizer_name((enum ps_optimizer_kind)kind);
        struct optimizer_arrays arrays = {.weights = b->a, .slot = {b->b, b->c, NULL}};
        struct ps_optimizer o;
        struct ps_error e;

        alone_must(ps_optimizer_by_name(name, &o, &e), &e);
        alone_must(device_optimizer_start(b->d, &o, b->n, &arrays, &e), &e);
        b->optimizer = &o;
        b->version = 0;
        show_against(name, (3 + 2 * (double)optimizer_slots(&o)) * (double)b->size, alone_time(b->d, bench_update, b),
                     memory);
    }
    printf("%-32s %8.2f TFLOP/s\n", "product of 4096 x 4096 x 4096",
           2.0 * SIDE * SIDE * SIDE / alone_time(b->d, bench_product, b) * 1e-12);
    return memory;
}

static int
alone_figures(ps_device *d)
{
    struct alone_bench b = {.d = d, .n = (size_t)64 << 20};
    float **of_device[] = {&b.a, &b.b, &b.c, &b.g};
    struct ps_error e;
    double memory;

    b.size = b.n * sizeof(float);
    for (size_t i = 0; i < ARRAY_LEN(of_device); i++)
        alone_must(ps_device_alloc(d, b.size, (void **)of_device[i], &e), &e);
    alone_must(ps_device_alloc_host(d, 2 * b.size, (void **)&b.pinned, &e), &e);
    if ((b.plain = malloc(b.size)) == NULL)
        return 1;
    memset(b.plain, 1, b.size);
    ps_device_upload(d, b.g, b.plain, b.size);
    show_copies(&b);
    memory = show_kernels(&b);
    for (size_t i = 0; i < ARRAY_LEN(of_device); i++)
        ps_device_free(d, *of_device[i]);
    ps_device_free_host(d, b.pinned);
    free(b.plain);
    alone_operations(d, memory);
    alone_steps(d);
    return 0;
}

int
main(int argc, char **argv)
{
    struct ps_error e;
    ps_device *d;
    enum ps_err err;
    int result;

    if (argc != 3 || (strcmp(argv[2], "test") != 0 && strcmp(argv[2], "figures") != 0)) {
        fprintf(stderr, "usage: alone DEVICE test|figures\n");
        return 2;
    }
    if ((err = ps_device_open(argv[1], NULL, &d, &e)) != PS_OK) {
        printf("1..0 # SKIP %s\n", e.text);
        return err == PS_ERR_UNSUPPORTED ? ABSENT : 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what is known is seen, also when the rest fails */
    printf("# %s: %s\n", ps_device_name(d), ps_device_describe(d));
    result = strcmp(argv[2], "test") == 0 ? alone_test(d, argv[1]) : alone_figures(d);
    ps_device_close(d);
    return result;
}
