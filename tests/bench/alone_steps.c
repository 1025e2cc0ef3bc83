/* What training steps take: of a network whose values are on the host, beside the CPU; and of one that stays on the
 * device with its optimizer, as a strategy of one device trains it. */
#include <stdio.h>
#include <stdlib.h>

#include "client/device/cuda/alone.h"
#include "client/device/device.h"
#include "client/device/device_optimizer.h"
#include "client/network/network.h"
#include "common/core/base/base.h"
#include "common/system/now.h"

#define PIXELS      784
#define STEP_S      0.5 /* that steps are measured for */
#define PARAMS_MAX  32
#define STEP_FLOATS 64 /* what a device aligns arrays to */

/* The only function of the rest of libpsclient that networks need. */
enum ps_err
ps_client_declare(ps_client *client, const struct ps_var_spec *spec, ps_var **out, struct ps_error *error)
{
    (void)client;
    (void)spec;
    (void)out;
    return ps_fail(error, PS_ERR_UNSUPPORTED, "there are no shards here");
}

#ifndef WITH_CPU
enum ps_err
device_cpu_open(const struct ps_device_options *options, ps_device **out, struct ps_error *e)
{
    (void)options;
    (void)out;
    return ps_fail(e, PS_ERR_UNSUPPORTED, "device cpu: built without OpenBLAS");
}
#endif

struct steps_bench {
    ps_device *d;
    ps_network *network;
    struct ps_batch batch;
    struct ps_optimizer adam;
    float *memory, *gradients; /* all of it; [elements] */
    struct optimizer_arrays arrays;
    size_t elements;
    uint64_t step;
};

static void
steps_open(struct steps_bench *b, ps_device *d, const char *layers, size_t rows)
{
    struct ps_layer list[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.rank = 3, .dims = {28, 28, 1}, .layer = list, .rows_max = rows, .seed = 1};
    float *x = calloc(rows * PIXELS, sizeof *x);
    uint32_t *labels = calloc(rows, sizeof *labels);
    struct ps_error e;

    ps_assert(x != NULL && labels != NULL);
    *b = (struct steps_bench){.d = d, .batch = {.rows = rows, .x = x, .labels = labels}};
    alone_must(ps_network_parse(layers, list, &spec.layers, &e), &e);
    alone_must(ps_network_new(d, &spec, &b->network, &e), &e);
    ps_network_initialize(b->network);
    for (size_t i = 0; i < rows * PIXELS; i++)
        x[i] = (float)(i * 2654435761u % 256) / 255;
    for (size_t i = 0; i < rows; i++)
        labels[i] = (uint32_t)(i % 10);
}

static void
steps_close(struct steps_bench *b)
{
    ps_network_free(b->network);
    ps_device_free(b->d, b->memory);
    free((void *)b->batch.x);
    free((void *)b->batch.labels);
}

static void
gradient_step(void *arg)
{
    struct steps_bench *b = arg;
    struct ps_error e;

    alone_must(ps_network_gradient(b->network, &b->batch, 1.0f / (float)b->batch.rows, b->step++, NULL, &e), &e);
}

/* Of one step, at most STEP_S and two steps more: on the CPU a step may take long. */
static double
time_of_step(struct steps_bench *b, void (*step)(void *arg))
{
    double start;
    int steps = 0;

    step(b); /* loads and compiles */
    step(b);
    start = 1e-9 * (double)monotonic_ns();
    do {
        step(b);
        steps++;
    } while (1e-9 * (double)monotonic_ns() - start < STEP_S);
    return (1e-9 * (double)monotonic_ns() - start) / steps;
}

static double
gradient_time(ps_device *d, const char *layers, size_t rows)
{
    struct steps_bench b;
    double took;

    steps_open(&b, d, layers, rows);
    took = time_of_step(&b, gradient_step);
    steps_close(&b);
    return took;
}

/* ---- On the device, with Adam, as client/strategy/device_resident.c does a step of one replica ---- */

static void
resident_step(void *arg)
{
    struct steps_bench *b = arg;
    struct device_update u = {.when = {.version = ++b->step}, .scale = 1};
    struct ps_network_result result;
    struct ps_error e;
    double norm;

    alone_must(ps_network_gradient(b->network, &b->batch, 1.0f / (float)b->batch.rows, b->step, &result, &e), &e);
    alone_must(device_norm(b->d, b->elements, b->gradients, &norm, &e), &e);
    alone_must(device_optimizer_apply(b->d, &b->adam, &u, b->elements, b->gradients, &b->arrays, &e), &e);
}

/* Values, gradients and two slots, one behind the other. */
static void
steps_reside(struct steps_bench *b)
{
    float *value[PARAMS_MAX], *gradient[PARAMS_MAX];
    struct ps_error e;
    void *memory;
    size_t at = 0;

    alone_must(ps_optimizer_by_name("adam", &b->adam, &e), &e);
    ps_assert(b->network->params <= PARAMS_MAX);
    for (size_t i = 0; i < b->network->params; i++)
        b->elements += round_up(b->network->param[i]->elements, STEP_FLOATS);
    alone_must(ps_device_alloc(b->d, 4 * b->elements * sizeof(float), &memory, &e), &e);
    b->memory = memory;
    b->gradients = b->memory + b->elements;
    b->arrays = (struct optimizer_arrays){.weights = b->memory,
                                          .slot = {b->gradients + b->elements, b->gradients + 2 * b->elements, NULL}};
    alone_must(device_optimizer_start(b->d, &b->adam, b->elements, &b->arrays, &e), &e);
    for (size_t i = 0; i < b->network->params; i++) {
        const struct layer_param *p = b->network->param[i];

        value[i] = b->memory + at;
        gradient[i] = b->gradients + at;
        ps_device_upload(b->d, value[i], p->host_value, p->elements * sizeof(float));
        at += round_up(p->elements, STEP_FLOATS);
    }
    network_reside(b->network, value, gradient);
    network_expect_norm(b->network, b->elements, b->gradients);
}

static double
resident_time(ps_device *d, const char *layers, size_t rows)
{
    struct steps_bench b;
    double took;

    steps_open(&b, d, layers, rows);
    steps_reside(&b);
    took = time_of_step(&b, resident_step);
    steps_close(&b);
    return took;
}

void
alone_steps(ps_device *d)
{
    static const struct {
        const char *what, *layers;
        size_t rows;
    } networks[] = {
        {"784-128-10", "dense 128, relu, dense 10", 96},
        {"784-4096-4096-10", "dense 4096, relu, dense 4096, relu, dense 10", 1024},
        {"convolutions 3x3",
         "conv 16 3x3 same, relu, maxpool 2, conv 32 3x3 same, relu, maxpool 2, dropout 0.25, dense 10", 512},
        {"convolutions 5x5", "conv 16 5x5 same, relu, maxpool 2, conv 32 5x5 same, relu, maxpool 2, dense 10", 32},
    };
    struct ps_error e;
    ps_device *cpu;

    for (size_t i = 0; i < ARRAY_LEN(networks); i++)
        printf("step of %-17s %4zu images, Adam on the device %9.1f us\n", networks[i].what, networks[i].rows,
               resident_time(d, networks[i].layers, networks[i].rows) * 1e6);
    if (ps_device_open("cpu", NULL, &cpu, &e) != PS_OK) {
        printf("# no CPU to compare with: %s\n", e.text);
        return;
    }
    printf("# cpu: %s\n", ps_device_describe(cpu));
    for (size_t i = 0; i < ARRAY_LEN(networks); i++) {
        double there = gradient_time(d, networks[i].layers, networks[i].rows),
               here = gradient_time(cpu, networks[i].layers, networks[i].rows);

        printf("gradient of %-17s %4zu images %9.1f us, on the CPU %10.1f us, %.1f times\n", networks[i].what,
               networks[i].rows, there * 1e6, here * 1e6, here / there);
    }
    ps_device_close(cpu);
}
