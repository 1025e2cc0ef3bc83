/* What single operations and whole training steps take on a device: gpu_table.py puts them beside PyTorch's.
 *
 *     gpu_figures DEVICE [--short] [--precision NAME] [ROW...]
 *
 * Prints "name<TAB>microseconds" for each row, or those named: the median of seven bursts of calls, each waited for.
 * --short: small shapes and one call, which shows that every row runs. torch_figures.py has the same rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/device/device_optimizer.h"
#include "client/device/device_staging.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "common/system/now.h"

#define BURSTS        7
#define BURST_SECONDS 0.02
#define CALLS_MAX     20000
#define SHORT_SIDE    64 /* by how much fewer rows --short has */

#define FEATURES   784 /* of an image */
#define ELEMENTS   ((size_t)64 << 20)
#define NUMBERS    ((size_t)1 << 20)
#define PARTS      ((size_t)1 << 20) /* floats of what is small: biases, weights, losses */
#define VOCABULARY 100000
#define WIDTH      64
#define COLUMNS    1000000
#define ENTRIES    40 /* of a sparse row */

struct gpu_bench {
    ps_device *d;
    const char *device;
    enum ps_precision precision;
    size_t shrink; /* rows and elements are divided by this */
    char *const *wanted;
    int wanted_count;

    float *x, *y, *z, *g;  /* [elements], of the device */
    float *part[6];        /* [PARTS], of the device */
    uint32_t *id, *other;  /* [NUMBERS], of the device */
    uint64_t *start;       /* of sparse rows */
    float *pinned, *plain; /* [elements], of the host */
    size_t elements;
    uint64_t random;
    struct ps_optimizer optimizer;
    uint64_t version;

    struct ps_conv2d conv; /* the row's shape */
    size_t rows;
    float *workspace;
};

static void
bench_must(enum ps_err err, const struct ps_error *e)
{
    if (err == PS_OK)
        return;
    fprintf(stderr, "gpu_figures: %s\n", e->text);
    exit(1);
}

/* ---- Time ---- */

static int
bench_compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Seconds of one call: so many are made, then all are waited for. */
static double
bench_burst(struct gpu_bench *b, void (*work)(struct gpu_bench *b), size_t calls)
{
    struct ps_error e;
    uint64_t begun = monotonic_ns();

    for (size_t i = 0; i < calls; i++)
        work(b);
    bench_must(ps_device_finish(b->d, &e), &e);
    return 1e-9 * (double)(monotonic_ns() - begun) / (double)calls;
}

static bool
bench_is_wanted(const struct gpu_bench *b, const char *name)
{
    for (int i = 0; i < b->wanted_count; i++)
        if (strcmp(b->wanted[i], name) == 0)
            return true;
    return b->wanted_count == 0;
}

static void
bench_row(struct gpu_bench *b, const char *name, void (*work)(struct gpu_bench *b))
{
    double took[BURSTS];
    size_t calls;

    if (!bench_is_wanted(b, name))
        return;
    (void)bench_burst(b, work, 1); /* libraries are loaded, algorithms chosen */
    calls = b->shrink > 1 ? 1 : (size_t)(BURST_SECONDS / (bench_burst(b, work, 1) + 1e-7)) + 1;
    calls = calls < CALLS_MAX ? calls : CALLS_MAX;
    for (size_t i = 0; i < BURSTS; i++)
        took[i] = bench_burst(b, work, calls);
    qsort(took, BURSTS, sizeof *took, bench_compare);
    printf("%s\t%.2f\n", name, took[BURSTS / 2] * 1e6);
    fflush(stdout);
}

/* ---- Copies: 256 MiB ---- */

static void
bench_copy(struct gpu_bench *b)
{
    ps_device_copy(b->d, b->y, b->x, b->elements * sizeof *b->x);
}

static void
bench_send_pinned(struct gpu_bench *b)
{
    device_send(b->d, b->x, b->pinned, b->elements * sizeof *b->x);
}

static void
bench_fetch_pinned(struct gpu_bench *b)
{
    struct ps_error e;

    bench_must(device_fetch(b->d, b->pinned, b->x, b->elements * sizeof *b->x, &e), &e);
}

static void
bench_send_plain(struct gpu_bench *b)
{
    ps_device_upload(b->d, b->x, b->plain, b->elements * sizeof *b->x);
}

static void
bench_fetch_plain(struct gpu_bench *b)
{
    struct ps_error e;

    bench_must(ps_device_download(b->d, b->plain, b->x, b->elements * sizeof *b->x, &e), &e);
}

static void
bench_copies(struct gpu_bench *b)
{
    bench_row(b, "copy 64 Mi floats", bench_copy);
    bench_row(b, "to the device, pinned 256 MiB", bench_send_pinned);
    bench_row(b, "to the host, pinned 256 MiB", bench_fetch_pinned);
    bench_row(b, "to the device, pageable 256 MiB", bench_send_plain);
    bench_row(b, "to the host, pageable 256 MiB", bench_fetch_plain);
}

/* ---- Elements ---- */

static void
bench_relu(struct gpu_bench *b)
{
    ps_relu_forward(b->d, b->elements, b->x, b->y);
}

static void
bench_gelu(struct gpu_bench *b)
{
    ps_gelu_forward(b->d, b->elements, b->x, b->y);
}

static void
bench_dropout(struct gpu_bench *b)
{
    ps_dropout_forward(b->d, b->elements, 0.25f, 1, 0, b->x, b->y);
}

static void
bench_norm(struct gpu_bench *b)
{
    double norm;
    struct ps_error e;

    bench_must(device_norm(b->d, 20037642 / b->shrink, b->x, &norm, &e), &e);
}

static void
bench_count(struct gpu_bench *b)
{
    size_t count;
    struct ps_error e;

    bench_must(ps_count_equal(b->d, NUMBERS / b->shrink, b->id, b->other, &count, &e), &e);
}

static void
bench_update(struct gpu_bench *b)
{
    struct optimizer_arrays arrays = {.weights = b->x, .slot = {b->y, b->z, NULL}};
    struct device_update u = {{++b->version, 0}, 1, false};
    struct ps_error e;

    bench_must(device_optimizer_apply(b->d, &b->optimizer, &u, b->elements, b->g, &arrays, &e), &e);
}

static void
bench_optimizer(struct gpu_bench *b, const char *name, const char *row)
{
    struct optimizer_arrays arrays = {.weights = b->x, .slot = {b->y, b->z, NULL}};
    struct ps_error e;

    bench_must(ps_optimizer_by_name(name, &b->optimizer, &e), &e);
    bench_must(device_optimizer_start(b->d, &b->optimizer, b->elements, &arrays, &e), &e);
    b->version = 0;
    bench_row(b, row, bench_update);
}

static void
bench_elements(struct gpu_bench *b)
{
    bench_row(b, "relu 64 Mi floats", bench_relu);
    bench_row(b, "gelu 64 Mi floats", bench_gelu);
    bench_row(b, "dropout 64 Mi floats", bench_dropout);
    bench_row(b, "norm of 20 M floats, read back", bench_norm);
    bench_row(b, "count of equal 1 Mi ids, read back", bench_count);
    bench_optimizer(b, "adam", "adam 64 Mi floats");
    bench_optimizer(b, "sgd", "sgd 64 Mi floats");
}

/* ---- Rows ---- */

static void
bench_norm_forward(struct gpu_bench *b)
{
    ps_layer_norm_forward(b->d, 8192 / b->shrink, 4096, b->x, b->part[0], b->part[1], 1e-5f, b->y, b->part[2],
                          b->part[3]);
}

static void
bench_norm_backward(struct gpu_bench *b)
{
    ps_layer_norm_backward(b->d, 8192 / b->shrink, 4096, b->x, b->part[0], b->part[2], b->part[3], b->y, b->z,
                           b->part[4], b->part[5]);
}

static void
bench_bias(struct gpu_bench *b)
{
    ps_bias_backward(b->d, 401408 / b->shrink, 16, b->x, b->part[0]);
}

static void
bench_softmax(struct gpu_bench *b)
{
    ps_softmax_cross_entropy(b->d, 8192 / b->shrink, 1000, b->x, b->other, 1, b->part[0], b->y);
}

static void
bench_embedding(struct gpu_bench *b)
{
    ps_embedding_backward(b->d, b->rows, VOCABULARY / b->shrink, WIDTH, b->id, b->x, b->y);
}

static void
bench_sparse(struct gpu_bench *b)
{
    ps_sparse_backward(b->d, b->rows, COLUMNS, 1, b->start, b->id, b->x, b->z, b->y, b->part[0]);
}

static uint64_t
bench_random(struct gpu_bench *b)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
    return b->random >> 33;
}

/* Draws numbers below a limit. */
static void
bench_draw(struct gpu_bench *b, uint32_t *to, uint32_t below)
{
    uint32_t *drawn = malloc(NUMBERS * sizeof *drawn);
    struct ps_error e;

    if (drawn == NULL)
        exit(1);
    for (size_t i = 0; i < NUMBERS; i++)
        drawn[i] = (uint32_t)(bench_random(b) % below);
    ps_device_upload(b->d, to, drawn, NUMBERS * sizeof *drawn);
    bench_must(ps_device_finish(b->d, &e), &e);
    free(drawn);
}

static void
bench_rows(struct gpu_bench *b)
{
    bench_draw(b, b->other, 1000);
    bench_row(b, "layer_norm forward 8192x4096", bench_norm_forward);
    bench_row(b, "layer_norm backward 8192x4096", bench_norm_backward);
    bench_row(b, "bias gradient 401408x16", bench_bias);
    bench_row(b, "softmax with cross-entropy 8192x1000", bench_softmax);
    bench_draw(b, b->id, (uint32_t)(VOCABULARY / b->shrink));
    b->rows = 32768 / b->shrink;
    bench_row(b, "embedding gradient 32768 ids", bench_embedding);
    b->rows = 262144 / b->shrink;
    bench_row(b, "embedding gradient 262144 ids", bench_embedding);
    bench_draw(b, b->id, 2);
    b->rows = 32768 / b->shrink;
    bench_row(b, "embedding gradient 32768 ids, 2 distinct", bench_embedding);
    bench_draw(b, b->id, COLUMNS);
    b->rows = 4096 / b->shrink;
    bench_row(b, "sparse gradient 163840 entries", bench_sparse);
}

/* ---- Convolutions ---- */

static void
bench_conv_forward(struct gpu_bench *b)
{
    ps_conv2d_forward(b->d, b->rows, &b->conv, b->x, b->part[0], b->part[1], b->y, b->workspace);
}

static void
bench_conv_backward(struct gpu_bench *b)
{
    ps_conv2d_backward(b->d, b->rows, &b->conv, b->x, b->part[0], b->y, b->z, b->part[2], b->part[3], b->workspace);
}

static void
bench_convolutions(struct gpu_bench *b)
{
    static const struct {
        size_t rows, side, in, out, kernel;
    } shapes[] = {
        {512, 28, 1, 16, 3}, {512, 14, 16, 32, 3}, {512, 28, 1, 16, 5}, {512, 14, 16, 32, 5}, {32, 56, 64, 64, 3}};
    char name[96];
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        size_t side = shapes[i].side, kernel = shapes[i].kernel;

        b->conv = (struct ps_conv2d){side, side, shapes[i].in, shapes[i].out, kernel, kernel, 1, 1, PS_PAD_SAME};
        b->rows = b->shrink > 1 ? 2 : shapes[i].rows;
        bench_must(ps_device_alloc(b->d, ps_conv2d_workspace(&b->conv, b->rows) * sizeof(float) + 4,
                                   (void **)&b->workspace, &e),
                   &e);
        snprintf(name, sizeof name, "conv %zux%zux%zu -> %zu, %zux%zu, batch %zu, forward", side, side, shapes[i].in,
                 shapes[i].out, kernel, kernel, shapes[i].rows);
        bench_row(b, name, bench_conv_forward);
        memcpy(strrchr(name, ' ') + 1, "backward", sizeof "backward");
        bench_row(b, name, bench_conv_backward);
        bench_must(ps_device_finish(b->d, &e), &e);
        ps_device_free(b->d, b->workspace);
    }
}

/* ---- Training steps: whole, by a strategy, examples from pinned host memory, the loss read back ---- */

#define STEPS_SKIPPED 10

struct bench_training {
    ps_network *network;
    struct ps_batch batch[2]; /* in memory that the device reads: one is computed while the other one is sent */
    uint64_t *done;           /* when each step was */
    size_t steps;
};

static enum ps_err
bench_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct bench_training *t = arg;
    struct ps_network_result result;
    enum ps_err err = ps_network_prefetch(t->network, &t->batch[(r->step + 1) % 2], e);

    if (err == PS_OK)
        err = ps_replica_gradient(r, &t->batch[r->step % 2], &result, e);
    if (err == PS_OK)
        r->metrics[0] += result.loss;
    return err;
}

static enum ps_err
bench_after(void *arg, const struct ps_step_done *done, struct ps_error *e)
{
    struct bench_training *t = arg;

    (void)done;
    (void)e;
    t->done[t->steps++] = monotonic_ns();
    return PS_OK;
}

static double
bench_median_step(struct bench_training *t)
{
    size_t n = t->steps - 1 - STEPS_SKIPPED;
    double *took = malloc(n * sizeof *took), median;

    if (took == NULL)
        exit(1);
    for (size_t i = 0; i < n; i++)
        took[i] = 1e-9 * (double)(t->done[STEPS_SKIPPED + i + 1] - t->done[STEPS_SKIPPED + i]);
    qsort(took, n, sizeof *took, bench_compare);
    median = took[n / 2];
    free(took);
    return median;
}

static void
bench_batches(struct gpu_bench *b, ps_device *d, struct bench_training *t, size_t rows)
{
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(t->batch); i++) {
        float *x;
        uint32_t *label;

        bench_must(ps_device_alloc_host(d, rows * FEATURES * sizeof *x, (void **)&x, &e), &e);
        bench_must(ps_device_alloc_host(d, rows * sizeof *label, (void **)&label, &e), &e);
        memcpy(x, b->plain, rows * FEATURES * sizeof *x);
        for (size_t r = 0; r < rows; r++)
            label[r] = (uint32_t)(bench_random(b) % 10);
        t->batch[i] = (struct ps_batch){.rows = rows, .x = x, .labels = label};
    }
}

static void
bench_train(struct gpu_bench *b, const char *name, const char *layers, size_t rows, size_t steps)
{
    struct bench_training t = {.done = malloc(steps * sizeof *t.done)};
    struct ps_layer list[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.rank = 3, .dims = {28, 28, 1}, .layer = list, .rows_max = rows, .seed = 1};
    struct ps_strategy_options options = {
        .devices = b->device, .precision = b->precision, .rows = rows, .batch = rows, .metrics = 1};
    struct ps_strategy_calls calls = {.step = bench_step, .after = bench_after, .arg = &t};
    struct ps_optimizer adam;
    ps_strategy *strategy;
    struct ps_error e;

    if (!bench_is_wanted(b, name)) {
        free(t.done);
        return;
    }
    if (t.done == NULL)
        exit(1);
    bench_must(ps_optimizer_by_name("adam", &adam, &e), &e);
    bench_must(ps_network_parse(layers, list, &spec.layers, &e), &e);
    bench_must(ps_strategy_open("one_device", &options, &strategy, &e), &e);
    bench_must(ps_network_new(ps_strategy_device(strategy, 0), &spec, &t.network, &e), &e);
    bench_must(ps_strategy_networks(strategy, &t.network, "", &adam, &e), &e);
    bench_must(ps_strategy_start(strategy, &e), &e);
    bench_batches(b, ps_strategy_device(strategy, 0), &t, rows);
    bench_must(ps_strategy_run(strategy, steps, &calls, &e), &e);
    printf("%s\t%.2f\n", name, bench_median_step(&t) * 1e6);
    fflush(stdout);
    ps_network_free(t.network);
    for (size_t i = 0; i < ARRAY_LEN(t.batch); i++) {
        ps_device_free_host(ps_strategy_device(strategy, 0), (void *)(uintptr_t)t.batch[i].x);
        ps_device_free_host(ps_strategy_device(strategy, 0), (void *)(uintptr_t)t.batch[i].labels);
    }
    ps_strategy_close(strategy);
    free(t.done);
}

static void
bench_steps(struct gpu_bench *b)
{
    static const struct {
        const char *name, *layers;
        size_t rows, steps;
    } rows[] = {
        {"step 784-128-10, batch 96", "dense 128, relu, dense 10", 96, 2000},
        {"step 784-4096-4096-10, batch 1024", "dense 4096, relu, dense 4096, relu, dense 10", 1024, 300},
        {"step 784-4096-4096-10, batch 8192", "dense 4096, relu, dense 4096, relu, dense 10", 8192, 60},
        {"step digits conv 28x28, batch 512",
         "conv 16 3x3 same, relu, maxpool 2, conv 32 3x3 same, relu, maxpool 2, dropout 0.25, dense 10", 512, 400},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (b->shrink == 1)
            bench_train(b, rows[i].name, rows[i].layers, rows[i].rows, rows[i].steps);
        else
            bench_train(b, rows[i].name, i % 3 == 0 ? rows[i].layers : "dense 16, relu, dense 10", 8,
                        STEPS_SKIPPED + 3);
}

/* ---- All of it ---- */

static void
bench_open(struct gpu_bench *b)
{
    float **big[] = {&b->x, &b->y, &b->z, &b->g};
    size_t size = b->elements * sizeof(float);
    uint64_t *start = malloc((4096 + 1) * sizeof *start);
    struct ps_error e;

    bench_must(ps_device_open(b->device, &(struct ps_device_options){.precision = b->precision}, &b->d, &e), &e);
    bench_must(ps_device_alloc_host(b->d, size, (void **)&b->pinned, &e), &e);
    if ((b->plain = malloc(size)) == NULL || start == NULL)
        exit(1);
    for (size_t i = 0; i < b->elements; i++)
        b->plain[i] = (float)(bench_random(b) % 2001) / 1000 - 1;
    for (size_t i = 0; i <= 4096; i++)
        start[i] = i * ENTRIES;
    for (size_t i = 0; i < ARRAY_LEN(big); i++) {
        bench_must(ps_device_alloc(b->d, size, (void **)big[i], &e), &e);
        ps_device_upload(b->d, *big[i], b->plain, size);
    }
    for (size_t i = 0; i < ARRAY_LEN(b->part); i++) {
        bench_must(ps_device_alloc(b->d, PARTS * sizeof(float), (void **)&b->part[i], &e), &e);
        ps_device_upload(b->d, b->part[i], b->plain, PARTS * sizeof(float));
    }
    bench_must(ps_device_alloc(b->d, NUMBERS * sizeof *b->id, (void **)&b->id, &e), &e);
    bench_must(ps_device_alloc(b->d, NUMBERS * sizeof *b->other, (void **)&b->other, &e), &e);
    bench_must(ps_device_alloc(b->d, (4096 + 1) * sizeof *b->start, (void **)&b->start, &e), &e);
    ps_device_upload(b->d, b->start, start, (4096 + 1) * sizeof *b->start);
    bench_must(ps_device_finish(b->d, &e), &e);
    free(start);
}

static void
bench_close(struct gpu_bench *b)
{
    void *of_device[] = {b->x, b->y, b->z, b->g, b->id, b->other, b->start};

    for (size_t i = 0; i < ARRAY_LEN(of_device); i++)
        ps_device_free(b->d, of_device[i]);
    for (size_t i = 0; i < ARRAY_LEN(b->part); i++)
        ps_device_free(b->d, b->part[i]);
    ps_device_free_host(b->d, b->pinned);
    free(b->plain);
    ps_device_close(b->d);
}

static bool
bench_precision(struct gpu_bench *b, const char *name)
{
    for (int i = PS_PRECISION_FLOAT32; i <= PS_PRECISION_BFLOAT16; i++)
        if (strcmp(ps_precision_name((enum ps_precision)i), name) == 0) {
            b->precision = (enum ps_precision)i;
            return true;
        }
    return false;
}

/* Options come before the rows' names. False: they are no options of this program. */
static bool
bench_parse(struct gpu_bench *b, int argc, char **argv)
{
    int i = 2;

    b->shrink = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++)
        if (strcmp(argv[i], "--short") == 0)
            b->shrink = SHORT_SIDE;
        else if (strcmp(argv[i], "--precision") != 0 || ++i == argc || !bench_precision(b, argv[i]))
            return false;
    b->device = argv[1];
    b->elements = ELEMENTS / b->shrink;
    b->wanted = argv + i;
    b->wanted_count = argc - i;
    return argc > 1;
}

int
main(int argc, char **argv)
{
    struct gpu_bench b = {.random = 1};

    if (!bench_parse(&b, argc, argv)) {
        fprintf(stderr, "usage: gpu_figures DEVICE [--short] [--precision float32|tf32|bfloat16] [ROW...]\n");
        return 2;
    }
    bench_open(&b);
    fprintf(stderr, "# %s: %s\n", ps_device_name(b.d), ps_device_describe(b.d));
    if (b.precision == PS_PRECISION_FLOAT32) { /* these multiply nothing */
        bench_copies(&b);
        bench_elements(&b);
        bench_rows(&b);
    }
    bench_convolutions(&b);
    bench_steps(&b);
    bench_close(&b);
    return 0;
}
