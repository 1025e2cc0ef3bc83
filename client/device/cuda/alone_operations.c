/* What operations take: those that are as fast as the device's memory against a copy's speed, and those that a step
 * waits for. */
#include <stdio.h>
#include <stdlib.h>

#include "client/device/cuda/alone.h"
#include "client/device/device_optimizer.h"
#include "common/core/base/base.h"

#define FLOATS    ((size_t)64 << 20) /* of each large array */
#define NORM_ROWS ((size_t)8192)
#define NORM_SIZE ((size_t)4096)
#define WORDS     100000 /* of the table of embeddings, of 64 floats */
#define WIDTH     64
#define IDS       ((size_t)262144)
#define SPARSE    ((size_t)4096) /* rows, of 40 entries each */
#define ENTRIES   ((size_t)40)
#define COLUMNS   1000000

struct operations_bench {
    ps_device *d;
    float *a, *b, *c;                /* of the device, [FLOATS] */
    float *small[4];                 /* [65536] */
    uint32_t *ids, *pairs, *columns; /* [IDS], all different as far as may be; of two; [SPARSE * ENTRIES] */
    uint64_t *start;                 /* [SPARSE + 1] */
    size_t n, m;                     /* of the row that is timed */
};

/* ---- The work of each row ---- */

#define WORK(name, call)                                                                                               \
    static void operations_##name(void *arg)                                                                           \
    {                                                                                                                  \
        struct operations_bench *o = arg;                                                                              \
                                                                                                                       \
        call;                                                                                                          \
    }

WORK(relu, ps_relu_forward(o->d, FLOATS, o->a, o->b))
WORK(relu_backward, ps_relu_backward(o->d, FLOATS, o->a, o->b, o->c))
WORK(tanh, ps_tanh_forward(o->d, FLOATS, o->a, o->b))
WORK(sigmoid, ps_sigmoid_forward(o->d, FLOATS, o->a, o->b))
WORK(gelu, ps_gelu_forward(o->d, FLOATS, o->a, o->b))
WORK(gelu_backward, ps_gelu_backward(o->d, FLOATS, o->a, o->b, o->c))
WORK(dropout, ps_dropout_forward(o->d, FLOATS, 0.25f, 1, 2, o->a, o->b))
WORK(bias, ps_bias_forward(o->d, FLOATS / o->n, o->n, o->a, o->small[0], o->b))
WORK(unaligned, ps_relu_forward(o->d, FLOATS - 1, o->a + 1, o->b + 1))
WORK(norm,
     ps_layer_norm_forward(o->d, o->m, o->n, o->a, o->small[0], o->small[1], 1e-5f, o->b, o->small[2], o->small[3]))
WORK(norm_backward, ps_layer_norm_backward(o->d, o->m, o->n, o->a, o->small[0], o->small[2], o->small[3], o->b, o->c,
                                           o->small[1], o->c + (FLOATS - 65536)))
WORK(bias_backward, ps_bias_backward(o->d, o->m, o->n, o->a, o->b))
WORK(softmax_loss, ps_softmax_cross_entropy(o->d, o->m, o->n, o->a, o->pairs, 1, o->small[2], o->b))
WORK(argmax, ps_argmax(o->d, o->m, o->n, o->a, (uint32_t *)(void *)o->b))
WORK(embedding, ps_embedding_forward(o->d, o->n, WORDS, WIDTH, o->ids, o->a, o->b))
WORK(embedding_backward, ps_embedding_backward(o->d, o->n, WORDS, WIDTH, o->ids, o->a, o->b))
WORK(embedding_pairs, ps_embedding_backward(o->d, o->n, WORDS, WIDTH, o->pairs, o->a, o->b))
WORK(sparse, ps_sparse_forward(o->d, SPARSE, COLUMNS, o->n, o->start, o->columns, o->a, o->b, NULL, o->c))
WORK(sparse_backward,
     ps_sparse_backward(o->d, SPARSE, COLUMNS, o->n, o->start, o->columns, o->a, o->b, o->c, o->small[1]))

static const struct ps_pool2d operations_pool = {28, 28, 16, 2, 2, 2, 2, PS_PAD_VALID};

WORK(max_pool, ps_max_pool_forward(o->d, 512, &operations_pool, o->a, o->b, (uint32_t *)(void *)o->c))
WORK(max_pool_backward,
     ps_max_pool_backward(o->d, 512, &operations_pool, (const uint32_t *)(const void *)o->c, o->a, o->b))

static void
operations_square_sum(void *arg)
{
    struct operations_bench *o = arg;
    struct ps_error e;
    double norm;

    alone_must(device_norm(o->d, o->n, o->a, &norm, &e), &e);
}

static void
operations_count_equal(void *arg)
{
    struct operations_bench *o = arg;
    struct ps_error e;
    size_t count;

    alone_must(ps_count_equal(o->d, o->n, (uint32_t *)(void *)o->a, (uint32_t *)(void *)o->b, &count, &e), &e);
}

static void
operations_wait(void *arg)
{
    struct operations_bench *o = arg;
    struct ps_error e;
    float x;

    ps_relu_forward(o->d, 4, o->a, o->b);
    alone_must(ps_device_download(o->d, &x, o->b, sizeof x, &e), &e);
}

/* ---- The table ---- */

static const struct {
    const char *what;
    void (*work)(void *arg);
    double bytes; /* that it reads and writes, of a float each; 0: its time alone is of interest */
    size_t m, n;
} operations_rows[] = {
    {"relu, 64 Mi", operations_relu, 2.0 * FLOATS, 0, 0},
    {"relu, not aligned", operations_unaligned, 2.0 * FLOATS, 0, 0},
    {"relu backward, 64 Mi", operations_relu_backward, 3.0 * FLOATS, 0, 0},
    {"tanh, 64 Mi", operations_tanh, 2.0 * FLOATS, 0, 0},
    {"sigmoid, 64 Mi", operations_sigmoid, 2.0 * FLOATS, 0, 0},
    {"gelu, 64 Mi", operations_gelu, 2.0 * FLOATS, 0, 0},
    {"gelu backward, 64 Mi", operations_gelu_backward, 3.0 * FLOATS, 0, 0},
    {"dropout, 64 Mi", operations_dropout, 2.0 * FLOATS, 0, 0},
    {"bias, 16384 x 4096", operations_bias, 2.0 * FLOATS, 0, 4096},
    {"bias, 6710886 x 10", operations_bias, 2.0 * FLOATS, 0, 10},
    {"layer norm, 8192 x 4096", operations_norm, 2.0 * NORM_ROWS *NORM_SIZE, NORM_ROWS, NORM_SIZE},
    {"layer norm, 65536 x 64", operations_norm, 2.0 * 65536 * 64, 65536, 64},
    {"layer norm backward, 8192 x 4096", operations_norm_backward, 3.0 * NORM_ROWS *NORM_SIZE, NORM_ROWS, NORM_SIZE},
    {"bias gradient, 8192 x 4096", operations_bias_backward, 1.0 * NORM_ROWS *NORM_SIZE, NORM_ROWS, NORM_SIZE},
    {"bias gradient, 401408 x 16", operations_bias_backward, 1.0 * 401408 * 16, 401408, 16},
    {"bias gradient, 1024 x 10", operations_bias_backward, 0, 1024, 10},
    {"softmax with loss, 8192 x 1000", operations_softmax_loss, 2.0 * 8192 * 1000, 8192, 1000},
    {"argmax, 8192 x 1000", operations_argmax, 1.0 * 8192 * 1000, 8192, 1000},
    {"max pool, 512 x 28 x 28 x 16", operations_max_pool, 0, 0, 0},
    {"max pool backward", operations_max_pool_backward, 0, 0, 0},
    {"embedding, 262144 ids", operations_embedding, 2.0 * WIDTH *IDS, 0, IDS},
    {"embedding gradient, 32768 ids", operations_embedding_backward, 0, 0, 32768},
    {"embedding gradient, 262144 ids", operations_embedding_backward, 0, 0, IDS},
    {"the same, 32768 ids of 2", operations_embedding_pairs, 0, 0, 32768},
    {"sparse, 163840 entries, 1 output", operations_sparse, 0, 0, 1},
    {"sparse gradient, 1 output", operations_sparse_backward, 0, 0, 1},
    {"sparse gradient, 64 outputs", operations_sparse_backward, 0, 0, 64},
    {"norm, 20037642 floats, waits", operations_square_sum, 1.0 * 20037642, 0, 20037642},
    {"norm, 262144 floats, waits", operations_square_sum, 0, 0, 262144},
    {"norm, 101770 floats, waits", operations_square_sum, 0, 0, 101770},
    {"count of equals, 1 Mi, waits", operations_count_equal, 0, 0, (size_t)1 << 20},
    {"count of equals, 96, waits", operations_count_equal, 0, 0, 96},
    {"a kernel and 4 bytes to the host", operations_wait, 0, 0, 0},
};

/* ---- Arrays ---- */

static uint32_t
operations_draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void *
operations_alloc(ps_device *d, size_t size)
{
    struct ps_error e;
    void *memory;

    alone_must(ps_device_alloc(d, size, &memory, &e), &e);
    return memory;
}

/* On the device, [n] below `below`. */
static uint32_t *
operations_numbers(ps_device *d, size_t n, uint32_t below)
{
    uint32_t *host = calloc(n, sizeof *host), *memory = operations_alloc(d, n * sizeof *memory), state = below;

    ps_assert(host != NULL);
    for (size_t i = 0; i < n; i++)
        host[i] = operations_draw(&state) % below;
    ps_device_upload(d, memory, host, n * sizeof *host);
    free(host);
    return memory;
}

static float *
operations_floats(ps_device *d, size_t n)
{
    float *host = calloc(n, sizeof *host), *memory = operations_alloc(d, n * sizeof *memory);
    uint32_t state = 1;

    ps_assert(host != NULL);
    for (size_t i = 0; i < n; i++)
        host[i] = (float)operations_draw(&state) * 0x1p-23f - 1;
    ps_device_upload(d, memory, host, n * sizeof *host);
    free(host);
    return memory;
}

static void
operations_open(struct operations_bench *o)
{
    uint64_t start[SPARSE + 1];

    for (size_t i = 0; i <= SPARSE; i++)
        start[i] = i * ENTRIES;
    o->a = operations_floats(o->d, FLOATS);
    o->b = operations_floats(o->d, FLOATS);
    o->c = operations_alloc(o->d, FLOATS * sizeof(float));
    for (size_t i = 0; i < ARRAY_LEN(o->small); i++)
        o->small[i] = operations_floats(o->d, 65536);
    o->ids = operations_numbers(o->d, IDS, WORDS);
    o->pairs = operations_numbers(o->d, IDS, 2);
    o->columns = operations_numbers(o->d, SPARSE * ENTRIES, COLUMNS);
    o->start = operations_alloc(o->d, sizeof start);
    ps_device_upload(o->d, o->start, start, sizeof start);
}

static void
operations_close(struct operations_bench *o)
{
    void *all[] = {o->a,        o->b,   o->c,     o->small[0], o->small[1], o->small[2],
                   o->small[3], o->ids, o->pairs, o->columns,  o->start};

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        ps_device_free(o->d, all[i]);
}

void
alone_operations(ps_device *d, double copy)
{
    struct operations_bench o = {.d = d};

    operations_open(&o);
    for (size_t i = 0; i < ARRAY_LEN(operations_rows); i++) {
        double took, bytes = sizeof(float) * operations_rows[i].bytes;

        o.n = operations_rows[i].n;
        o.m = operations_rows[i].m;
        took = alone_time(d, operations_rows[i].work, &o);
        printf("%-34s %10.1f us", operations_rows[i].what, took * 1e6);
        if (bytes > 0)
            printf(" %8.1f GB/s %4.0f%% of a copy's", bytes / took * 1e-9, 100 * bytes / took / copy);
        printf("\n");
    }
    operations_close(&o);
}
