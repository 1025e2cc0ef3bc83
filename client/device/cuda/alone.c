/* The CUDA module on a machine with a GPU and little else: build.sh compiles this with the parts of libpsclient that
 * use devices.
 *
 *     alone cuda test       every row of the conformance table, in TAP
 *     alone cuda figures    copies, optimizers, a product, and a training step, in time and against the device's memory
 *
 * Exit status: 0, 1 when a row failed, 77 when there is no such device here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/device/device.h"
#include "client/device/device_optimizer.h"
#include "client/device/device_staging.h"
#include "common/core/base/base.h"
#include "common/system/now.h"
#include "tests/unit/client/device/conformance.h"

#ifdef WITH_CPU
#include "client/include/psclient/ps_network.h"

/* The only function of the rest of libpsclient that networks need. */
enum ps_err
ps_client_declare(ps_client *client, const struct ps_var_spec *spec, ps_var **out, struct ps_error *error)
{
    (void)client;
    (void)spec;
    (void)out;
    return ps_fail(error, PS_ERR_UNSUPPORTED, "there are no shards here");
}
#else
enum ps_err
device_cpu_open(const struct ps_device_options *options, ps_device **out, struct ps_error *e)
{
    (void)options;
    (void)out;
    return ps_fail(e, PS_ERR_UNSUPPORTED, "device cpu: built without OpenBLAS");
}
#endif

#define ABSENT 77

static void
alone_must(enum ps_err err, const struct ps_error *e)
{
    if (err == PS_OK)
        return;
    fprintf(stderr, "alone: %s\n", e->text);
    exit(1);
}

/* ---- Testing ---- */

static int
alone_test(ps_device *d)
{
    const char *seed = getenv("PSD_TEST_SEED");
    struct conformance c = {.device = d, .seed = seed != NULL ? strtoull(seed, NULL, 0) : 20260101};
    size_t failed = 0;

    printf("1..%zu\n", conformance_rows());
    for (size_t i = 0; i < conformance_rows(); i++) {
        bool good = conformance_run(&c, i);

        printf("%s %zu - %s\n", good ? "ok" : "not ok", i + 1, conformance_name(i));
        if (!good)
            printf("# %s\n", c.text);
        failed += !good;
        fflush(stdout);
    }
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

/* Of one call, among as many as half a second has; all are waited for together. */
static double
time_of(struct alone_bench *b, void (*work)(struct alone_bench *b))
{
    struct ps_error e;
    double start, took;

    for (size_t calls = 1;; calls *= 2) {
        alone_must(ps_device_finish(b->d, &e), &e);
        start = alone_seconds();
        for (size_t i = 0; i < calls; i++)
            work(b);
        alone_must(ps_device_finish(b->d, &e), &e);
        took = alone_seconds() - start;
        if (took > 0.5 || calls > 1000000)
            return took / (double)calls;
    }
}

static void
send_pinned(struct alone_bench *b)
{
    device_send(b->d, b->a, b->pinned, b->size);
}

static void
fetch_pinned(struct alone_bench *b)
{
    struct ps_error e;

    alone_must(device_fetch(b->d, b->pinned, b->a, b->size, &e), &e);
}

static void
send_plain(struct alone_bench *b)
{
    ps_device_upload(b->d, b->a, b->plain, b->size);
}

static void
fetch_plain(struct alone_bench *b)
{
    struct ps_error e;

    alone_must(ps_device_download(b->d, b->plain, b->a, b->size, &e), &e);
}

static void
both_ways(struct alone_bench *b)
{
    struct ps_error e;

    device_send(b->d, b->a, b->pinned, b->size);
    alone_must(device_fetch(b->d, b->pinned + b->n, b->b, b->size, &e), &e);
}

static void
copy_inside(struct alone_bench *b)
{
    ps_device_copy(b->d, b->b, b->a, b->size);
}

static void
bench_update(struct alone_bench *b)
{
    struct optimizer_arrays arrays = {.weights = b->a, .slot = {b->b, b->c, NULL}};
    struct device_update u = {{++b->version, 0}, 1, false};
    struct ps_error e;

    alone_must(device_optimizer_apply(b->d, b->optimizer, &u, b->n, b->g, &arrays, &e), &e);
}

static void
bench_relu(struct alone_bench *b)
{
    ps_relu_forward(b->d, b->n, b->a, b->b);
}

#define SIDE 4096

static void
bench_product(struct alone_bench *b)
{
    ps_dense_forward(b->d, SIDE, SIDE, SIDE, b->a, b->b, NULL, b->c);
}

static void
show_copies(struct alone_bench *b)
{
    static const struct {
        const char *what;
        void (*work)(struct alone_bench *b);
        double times;
    } rows[] = {{"host to device, pinned", send_pinned, 1},
                {"device to host, pinned", fetch_pinned, 1},
                {"both ways at once, pinned", both_ways, 2},
                {"host to device, pageable", send_plain, 1},
                {"device to host, pageable", fetch_plain, 1}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        printf("%-32s %8.2f GB/s\n", rows[i].what, rows[i].times * (double)b->size / time_of(b, rows[i].work) * 1e-9);
}

static void
show_against(const char *what, double bytes, double took, double memory)
{
    printf("%-32s %8.1f GB/s  %3.0f%% of a copy's\n", what, bytes / took * 1e-9, 100 * bytes / took / memory);
}

static void
show_kernels(struct alone_bench *b)
{
    double memory = 2 * (double)b->size / time_of(b, copy_inside);

    printf("%-32s %8.1f GB/s\n", "copy inside the device", memory * 1e-9);
    show_against("relu", 2 * (double)b->size, time_of(b, bench_relu), memory);
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++) {
        const char *name = ps_optimizer_name((enum ps_optimizer_kind)kind);
        struct optimizer_arrays arrays = {.weights = b->a, .slot = {b->b, b->c, NULL}};
        struct ps_optimizer o;
        struct ps_error e;

        alone_must(ps_optimizer_by_name(name, &o, &e), &e);
        alone_must(device_optimizer_start(b->d, &o, b->n, &arrays, &e), &e);
        b->optimizer = &o;
        b->version = 0;
        show_against(name, (3 + 2 * (double)optimizer_slots(&o)) * (double)b->size, time_of(b, bench_update), memory);
    }
    printf("%-32s %8.2f TFLOP/s\n", "product of 4096 x 4096 x 4096",
           2.0 * SIDE * SIDE * SIDE / time_of(b, bench_product) * 1e-12);
}

/* ---- A training step ---- */

#ifdef WITH_CPU
static double
step_time(ps_device *d, const char *layers, size_t rows)
{
    struct ps_layer list[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.rank = 3, .dims = {28, 28, 1}, .layer = list, .rows_max = rows, .seed = 1};
    float *x = calloc(rows * 784, sizeof *x);
    uint32_t *labels = calloc(rows, sizeof *labels);
    struct ps_batch batch = {.rows = rows, .x = x, .labels = labels};
    ps_network *network;
    struct ps_error e;
    double start = 0;
    int steps = 0;

    alone_must(ps_network_parse(layers, list, &spec.layers, &e), &e);
    alone_must(ps_network_new(d, &spec, &network, &e), &e);
    ps_network_initialize(network);
    for (size_t i = 0; i < rows * 784; i++)
        x[i] = (float)(i * 2654435761u % 256) / 255;
    for (; steps <= 20 || alone_seconds() - start < 1; steps++) {
        if (steps == 3) /* the first ones load and compile */
            start = alone_seconds();
        alone_must(ps_network_gradient(network, &batch, 1.0f / (float)rows, 0, NULL, &e), &e);
    }
    start = (alone_seconds() - start) / (steps - 3);
    ps_network_free(network);
    free(x);
    free(labels);
    return start;
}

static void
show_steps(ps_device *d)
{
    static const struct {
        const char *what, *layers;
    } networks[] = {{"mlp", "dense 128, relu, dense 10"},
                    {"conv", "conv 16 5x5 same, relu, maxpool 2, conv 32 5x5 same, relu, maxpool 2, dense 10"}};
    struct ps_error e;
    ps_device *cpu;

    alone_must(ps_device_open("cpu", NULL, &cpu, &e), &e);
    printf("cpu: %s\n", ps_device_describe(cpu));
    for (size_t i = 0; i < ARRAY_LEN(networks); i++)
        for (size_t rows = 32; rows <= 2048; rows *= 8) {
            double there = step_time(d, networks[i].layers, rows), here = step_time(cpu, networks[i].layers, rows);

            printf("step of %-4s, %4zu images %16.1f us on the GPU %10.1f us on the CPU %7.1f times\n",
                   networks[i].what, rows, there * 1e6, here * 1e6, here / there);
        }
    ps_device_close(cpu);
}
#else
static void
show_steps(ps_device *d)
{
    (void)d;
    printf("no training step is timed: built without OpenBLAS, and so without the CPU to compare with\n");
}
#endif

static int
alone_figures(ps_device *d)
{
    struct alone_bench b = {.d = d, .n = (size_t)64 << 20};
    float **of_device[] = {&b.a, &b.b, &b.c, &b.g};
    struct ps_error e;

    b.size = b.n * sizeof(float);
    for (size_t i = 0; i < ARRAY_LEN(of_device); i++)
        alone_must(ps_device_alloc(d, b.size, (void **)of_device[i], &e), &e);
    alone_must(device_staging_alloc(d, 2 * b.size, (void **)&b.pinned, &e), &e);
    if ((b.plain = malloc(b.size)) == NULL)
        return 1;
    memset(b.plain, 1, b.size);
    ps_device_upload(d, b.g, b.plain, b.size);
    show_copies(&b);
    show_kernels(&b);
    for (size_t i = 0; i < ARRAY_LEN(of_device); i++)
        ps_device_free(d, *of_device[i]);
    device_staging_free(d, b.pinned);
    free(b.plain);
    show_steps(d);
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
    printf("# %s: %s\n", ps_device_name(d), ps_device_describe(d));
    result = strcmp(argv[2], "test") == 0 ? alone_test(d) : alone_figures(d);
    ps_device_close(d);
    return result;
}
