/* Every operation of the table, as a sequence of kernels. Written once like these: a file that includes this has
 * defined, for a struct ps_module_device with the members precision, scratch ([scratch_floats], device memory that the
 * next operation may overwrite), halves ([halves_max] of 16 bits, the same, where the precision is bfloat16), and flags
 * ([FLAGS]) and answers (sums.h), in memory that kernels and the host both access,
 *
 *     RUN_ELEMENTS(d, name, n, ...)        kernel name for elements 0 to n - 1; then the members of struct <name>_args
 *     RUN_ROWS(d, name, n, ...)            the same for rows
 *     run_product(d, a_transposed, ...)    as cpu_product(), client/device/cpu/device_cpu.h; in the precision TF32 on
 *                                          factors that are rounded to it
 *     run_halves_product(d, ...)           product_operations.h
 *     run_convolution(d, ...)              convolution_operations.h
 *     run_zero(d, to, size)                bytes
 *     run_sort(d, n, numbers, number, place, sorted, places, rest)
 *                                          sorted: [n] of number, each at most `numbers`, and places of place, equal
 *                                          numbers in their order; rest: memory of SORT_WORDS * n + SORT_MORE words
 *     SORT_MORE                            words
 *     run_read(d, to_host, from, size)     waits; false after a failure
 *     run_wait(d)                          the same, for what kernels have written into answers
 *
 * so that module.cu runs them on a GPU and the tests in plain loops. */
#ifndef CLIENT_DEVICE_CUDA_OPERATIONS_H
#define CLIENT_DEVICE_CUDA_OPERATIONS_H

#include "client/device/cuda/convolution_operations.h"
#include "client/device/cuda/elements.h"
#include "client/device/cuda/encodings.h"
#include "client/device/cuda/patches.h"
#include "client/device/cuda/pieces.h"
#include "client/device/cuda/product_operations.h"
#include "client/device/cuda/row_kernels.h"
#include "client/device/cuda/sums.h"

/* ---- Sums of columns ---- */

#define COLUMN_RUN   64             /* rows, at least: a longer sum at once loses more precision */
#define COLUMN_WHOLE ((size_t)1024) /* up to so many rows and columns one kernel adds up all */

#ifndef COLUMN_QUADS
#define COLUMN_QUADS ((size_t)1 << 18) /* sums of runs from which on a thread makes four */
#endif

/* part: [runs, n], with space for as much behind it. Its sums, by levels. */
static void
sum_runs(PS_MODULE_DEVICE, size_t runs, size_t n, float *part, float *sum)
{
    while (runs > 2 * COLUMN_RUN) {
        float *next = part + runs * n;
        size_t fewer = (runs - 1) / COLUMN_RUN + 1;

        RUN_ELEMENTS(d, column_part, fewer * n, runs, n, COLUMN_RUN, part, NULL, NULL, NULL, next, NULL);
        runs = fewer;
        part = next;
    }
    RUN_ELEMENTS(d, column_sum, n, runs, n, part, sum);
}

/* How many runs the rows are cut into, none of them empty, when `arrays` of a float for each run and column, and what
 * sum_runs() needs behind, are in the scratch memory. */
static size_t
column_runs(PS_MODULE_DEVICE, size_t rows, size_t n, size_t arrays, size_t *run)
{
    size_t most = d->scratch_floats / (arrays + 1) / n, runs = (rows - 1) / COLUMN_RUN + 1;

    if (most == 0)
        most = 1;
    *run = (rows - 1) / (runs < most ? runs : most) + 1;
    return (rows - 1) / *run + 1;
}

/* The sums of runs: part, and plain where it is not NULL, are [runs, n]. By quads where enough threads are left. */
static void
part_columns(PS_MODULE_DEVICE, size_t runs, size_t run, size_t rows, size_t n, const float *dy, const float *x,
             const float *mean, const float *rstd, float *part, float *plain)
{
    uintptr_t all = (uintptr_t)dy | (uintptr_t)x | (uintptr_t)part | (uintptr_t)plain;

    if (n % 4 == 0 && all % sizeof(struct quad) == 0 && runs * n >= COLUMN_QUADS)
        RUN_ELEMENTS(d, column_part_quads, runs * n / 4, rows, n, run, dy, x, mean, rstd, part, plain);
    else
        RUN_ELEMENTS(d, column_part, runs * n, rows, n, run, dy, x, mean, rstd, part, plain);
}

/* sum: [n] of dy: [rows, n]. */
static void
sum_columns(PS_MODULE_DEVICE, size_t rows, size_t n, const float *dy, float *sum)
{
    size_t run, runs = column_runs(d, rows, n, 1, &run);

    if (runs > 1 && rows <= COLUMN_WHOLE && n <= COLUMN_WHOLE) {
        RUN_ROWS(d, column_whole, n, rows, n, dy, sum);
        return;
    }
    part_columns(d, runs, run, rows, n, dy, NULL, NULL, NULL, runs > 1 ? d->scratch : sum, NULL);
    if (runs > 1)
        sum_runs(d, runs, n, d->scratch, sum);
}

/* dgamma: [n] of dy times the normalized x, and dbeta of dy, in one pass. */
static void
sum_normalized(PS_MODULE_DEVICE, size_t rows, size_t n, const float *dy, const float *x, const float *mean,
               const float *rstd, float *dgamma, float *dbeta)
{
    size_t run, runs = column_runs(d, rows, n, 2, &run);
    float *of_beta = d->scratch + runs * n;

    if (runs == 1) {
        part_columns(d, 1, run, rows, n, dy, x, mean, rstd, dgamma, dbeta);
        return;
    }
    part_columns(d, runs, run, rows, n, dy, x, mean, rstd, d->scratch, of_beta);
    sum_runs(d, runs, n, of_beta, dbeta); /* first: the levels of the other may overwrite it */
    sum_runs(d, runs, n, d->scratch, dgamma);
}

static void
op_bias_forward(PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *b, float *y)
{
    RUN_ELEMENTS(d, bias_forward, QUADS(rows * n), rows * n, n, x, b, y);
}

static void
op_bias_backward(PS_MODULE_DEVICE, size_t rows, size_t n, const float *dy, float *db)
{
    sum_columns(d, rows, n, dy, db);
}

/* ---- Dense ---- */

static void
op_dense_forward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *b,
                 float *y)
{
    if (b != NULL)
        RUN_ELEMENTS(d, fill_rows, QUADS(rows * out), rows * out, out, b, y);
    products_multiply(d, 0, 0, rows, out, in, x, w, b != NULL ? 1 : 0, y);
}

static void
op_dense_backward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *dy,
                  float *dx, float *dw, float *db)
{
    products_backward(d, rows, in, out, x, w, dy, dx, dw);
    if (db != NULL)
        op_bias_backward(d, rows, out, dy, db);
}

/* ---- Convolution ---- */

#define PATCH_FLOATS_MAX ((size_t)INT32_MAX) /* at a time: a BLAS counts in int, and 32 bits are fast to divide */

/* Where patches lie: in the scratch memory when it holds more of them than the caller's workspace. */
struct patches {
    size_t floats;  /* of one */
    size_t at_once; /* 0: x is the matrix of patches */
    float *memory;
};

static struct patches
patches_of(PS_MODULE_DEVICE, const struct ps_module_conv2d *c, float *workspace)
{
    struct patches p = {c->y.window * c->x.window * c->in, c->at_once, workspace};
    size_t most = PATCH_FLOATS_MAX / p.floats, own = d->scratch_floats / p.floats;

    if (c->at_once != 0 && own > c->at_once) {
        p.at_once = own;
        p.memory = d->scratch;
    }
    if (p.at_once > most)
        p.at_once = most;
    return p;
}

/* Whether four channels are moved at once between images and patches. */
static int
patches_by_fours(const struct ps_module_conv2d *c, const void *images, const void *memory)
{
    return c->in % 4 == 0 && ((uintptr_t)images | (uintptr_t)memory) % 16 == 0;
}

/* How many of `left` windows come next. */
static size_t
some_windows(const struct patches *p, size_t left)
{
    size_t most = p->at_once != 0 ? p->at_once : PATCH_FLOATS_MAX / p->floats;

    return left < most ? left : most;
}

/* Where the patches of n windows from number `first` on are. */
static const float *
patches_at(PS_MODULE_DEVICE, const struct ps_module_conv2d *c, const struct patches *p, size_t first, size_t n,
           const float *x)
{
    size_t windows = c->y.out * c->x.out;

    if (p->at_once == 0)
        return x + first * c->in;
    if (patches_by_fours(c, x, p->memory))
        RUN_ELEMENTS(d, gather4, n * p->floats / 4, *c, first / windows, first % windows, n, x, p->memory);
    else
        RUN_ELEMENTS(d, gather, n * p->floats, *c, first / windows, first % windows, n, x, p->memory);
    return p->memory;
}

static void
op_conv2d_forward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x, const float *w,
                  const float *b, float *y, float *workspace)
{
    struct patches p = patches_of(d, c, workspace);
    size_t windows = rows * c->y.out * c->x.out, n;

    if (convolution_forward(d, rows, c, x, w, b, y))
        return;
    for (size_t first = 0; first < windows; first += n) {
        n = some_windows(&p, windows - first);
        op_dense_forward(d, n, p.floats, c->out, patches_at(d, c, &p, first, n, x), w, b, y + first * c->out);
    }
}

/* dx of n windows; the memory of patches is free for their gradients. */
static void
input_gradient(PS_MODULE_DEVICE, const struct ps_module_conv2d *c, const struct patches *p, size_t first, size_t n,
               const float *w, const float *dy, float *dx)
{
    size_t windows = c->y.out * c->x.out, image = first / windows, last = (first + n - 1) / windows;
    size_t elements = (last - image + 1) * c->y.size * c->x.size * c->in;
    float *to = p->at_once == 0 ? dx + first * c->in : p->memory;

    products_multiply(d, 0, 1, n, p->floats, c->out, dy + first * c->out, w, 0, to);
    if (p->at_once == 0)
        return;
    if (patches_by_fours(c, dx, to))
        RUN_ELEMENTS(d, scatter4, elements / 4, *c, image, first % windows, n, to, dx);
    else
        RUN_ELEMENTS(d, scatter, elements, *c, image, first % windows, n, to, dx);
}

/* What a library does not do. dx, dw: NULL where it did. */
static void
patches_backward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x, const float *w,
                 const float *dy, float *dx, float *dw, float *workspace)
{
    struct patches p = patches_of(d, c, workspace);
    size_t windows = rows * c->y.out * c->x.out, n;

    if (dx != NULL)
        run_zero(d, dx, rows * c->y.size * c->x.size * c->in * sizeof *dx);
    for (size_t first = 0; first < windows; first += n) {
        n = some_windows(&p, windows - first);
        if (dw != NULL)
            products_multiply(d, 1, 0, p.floats, c->out, n, patches_at(d, c, &p, first, n, x), dy + first * c->out,
                              first > 0, dw);
        if (dx != NULL)
            input_gradient(d, c, &p, first, n, w, dy, dx);
    }
}

static void
op_conv2d_backward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x, const float *w,
                   const float *dy, float *dx, float *dw, float *db, float *workspace)
{
    size_t windows = rows * c->y.out * c->x.out;

    if (convolution_filter(d, rows, c, x, dy, dw))
        dw = NULL;
    if (dx != NULL && convolution_data(d, rows, c, w, dy, dx))
        dx = NULL;
    if (dw != NULL || dx != NULL)
        patches_backward(d, rows, c, x, w, dy, dx, dw, workspace);
    if (db != NULL)
        op_bias_backward(d, windows, c->out, dy, db);
}

/* ---- Pools ---- */

static void
op_max_pool_forward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *x, float *y,
                    uint32_t *best)
{
    RUN_ELEMENTS(d, max_pool_forward, rows * p->y.out * p->x.out * QUADS(p->channels), *p, x, NULL, y, NULL, best);
}

static void
op_max_pool_backward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const uint32_t *best,
                     const float *dy, float *dx)
{
    RUN_ELEMENTS(d, max_pool_backward, rows * p->y.size * p->x.size * QUADS(p->channels), *p, NULL, dy, NULL, dx,
                 (uint32_t *)best);
}

static void
op_avg_pool_forward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *x, float *y)
{
    RUN_ELEMENTS(d, avg_pool_forward, rows * p->y.out * p->x.out * QUADS(p->channels), *p, x, NULL, y, NULL, NULL);
}

static void
op_avg_pool_backward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *dy, float *dx)
{
    RUN_ELEMENTS(d, avg_pool_backward, rows * p->y.size * p->x.size * QUADS(p->channels), *p, NULL, dy, NULL, dx, NULL);
}

/* ---- Activations ---- */

#define ACTIVATION(name, what)                                                                                         \
    static void op_##name##_forward(PS_MODULE_DEVICE, size_t n, const float *x, float *y)                              \
    {                                                                                                                  \
        RUN_ELEMENTS(d, name##_forward, QUADS(n), n, x, y);                                                            \
    }                                                                                                                  \
    static void op_##name##_backward(PS_MODULE_DEVICE, size_t n, const float *what, const float *dy, float *dx)        \
    {                                                                                                                  \
        RUN_ELEMENTS(d, name##_backward, QUADS(n), n, what, dy, dx);                                                   \
    }
ACTIVATION(relu, y)
ACTIVATION(tanh, y)
ACTIVATION(sigmoid, y)
ACTIVATION(gelu, x)
#undef ACTIVATION

/* ---- Layer normalization ---- */

/* How many quads of a row of n a lane keeps, for rows that begin where those of `all` do, addresses in one; 0: none. */
static size_t
norm_keeps(size_t n, uintptr_t all)
{
    if (n % 4 != 0 || all % sizeof(struct quad) != 0 || n > NORM_KEEPS(32))
        return 0;
    return n <= NORM_KEEPS(1) ? 1 : n <= NORM_KEEPS(8) ? 8 : 32;
}

#define RUN_NORM(d, name, keeps, rows, ...)                                                                            \
    do {                                                                                                               \
        size_t keeps_ = (keeps);                                                                                       \
                                                                                                                       \
        if (keeps_ == 1)                                                                                               \
            RUN_ROWS(d, name##_1, rows, __VA_ARGS__);                                                                  \
        else if (keeps_ == 8)                                                                                          \
            RUN_ROWS(d, name##_8, rows, __VA_ARGS__);                                                                  \
        else if (keeps_ == 32)                                                                                         \
            RUN_ROWS(d, name##_32, rows, __VA_ARGS__);                                                                 \
        else                                                                                                           \
            RUN_ROWS(d, name##_any, rows, __VA_ARGS__);                                                                \
    } while (0)

static void
op_layer_norm_forward(PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *gamma, const float *beta,
                      float epsilon, float *y, float *mean, float *rstd)
{
    uintptr_t all = (uintptr_t)x | (uintptr_t)gamma | (uintptr_t)beta | (uintptr_t)y;

    RUN_NORM(d, norm_forward, norm_keeps(n, all), rows, n, x, gamma, beta, epsilon, y, mean, rstd);
}

static void
op_layer_norm_backward(PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *gamma, const float *mean,
                       const float *rstd, const float *dy, float *dx, float *dgamma, float *dbeta)
{
    uintptr_t all = (uintptr_t)x | (uintptr_t)gamma | (uintptr_t)dy | (uintptr_t)dx;

    sum_normalized(d, rows, n, dy, x, mean, rstd, dgamma, dbeta);
    if (dx != NULL) /* last: dx may be dy */
        RUN_NORM(d, norm_backward, norm_keeps(n, all), rows, n, x, gamma, mean, rstd, dy, dx);
}

/* ---- Embeddings and sparse rows: sums over the places of equal numbers ---- */

#define SORT_WORDS  ((size_t)3)  /* that run_sort() needs for each number, besides SORT_MORE */
#define PIECES_MORE ((size_t)32) /* words: what arrays are rounded up by */

/* How many of `left` places come next: as many as the scratch memory has space for. */
static size_t
pieces_at_once(PS_MODULE_DEVICE, size_t columns, size_t left)
{
    size_t words = d->scratch_floats - SORT_MORE - PIECES_MORE, each = 5 + SORT_WORDS, most;

    if (left <= PIECE && left * each < words) /* none is long: there are no windows */
        return left;
    most = words / (each * PIECE + 2 * columns + 1) * PIECE;
    if (most < PIECE)
        most = words / each < PIECE ? words / each : PIECE;
    return left < most ? left : most;
}

/* The sorted places of n numbers, and their pieces, in the scratch memory: arrays that begin at 16 bytes. */
static struct place_pieces
make_pieces(PS_MODULE_DEVICE, size_t n, size_t numbers, size_t columns, const uint32_t *of)
{
    size_t windows = n > PIECE ? PIECE_WINDOWS(n) : 0, step = 4 * QUADS(n), starts = 4 * QUADS(windows);
    uint32_t *number = (uint32_t *)(void *)d->scratch, *place = number + step, *sorted = place + step;
    uint32_t *places = sorted + step, *piece = places + step, *start = piece + step;
    float *sum = (float *)(void *)(start + starts), *rest = sum + 2 * windows * columns;
    struct place_pieces p = {n, sorted, places, piece, start, sum};

    RUN_ELEMENTS(d, number_places, n, numbers, of, number, place, d->flags);
    run_sort(d, n, numbers, number, place, sorted, places, rest);
    if (windows > 0)
        run_zero(d, start, windows * sizeof *start);
    RUN_ELEMENTS(d, cut_pieces, n, numbers, p);
    return p;
}

/* The sums of long segments, where there may be any. to: [numbers, columns]. */
static void
join_pieces(PS_MODULE_DEVICE, const struct place_pieces *p, size_t columns, float *to)
{
    if (p->n > PIECE)
        RUN_ELEMENTS(d, join_pieces, PIECE_WINDOWS(p->n) * QUADS(columns), *p, columns, to);
}

static void
op_embedding_forward(PS_MODULE_DEVICE, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                     const float *table, float *y)
{
    RUN_ELEMENTS(d, embedding_forward, n * QUADS(width), vocabulary, width, ids, table, y, d->flags);
}

static void
op_embedding_backward(PS_MODULE_DEVICE, size_t n, size_t vocabulary, size_t width, const uint32_t *ids, const float *dy,
                      float *dtable)
{
    size_t run;

    run_zero(d, dtable, vocabulary * width * sizeof *dtable);
    for (size_t first = 0; first < n; first += run) {
        struct place_pieces p;

        run = pieces_at_once(d, width, n - first);
        p = make_pieces(d, run, vocabulary, width, ids + first);
        RUN_ELEMENTS(d, embedding_backward, run * QUADS(width), p, width, dy + first * width, dtable);
        join_pieces(d, &p, width, dtable);
    }
}

static void
op_sparse_forward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,
                  const float *value, const float *w, const float *b, float *y)
{
    RUN_ELEMENTS(d, sparse_forward, rows * out, in, out, start, column, value, w, b, y, d->flags);
}

static void
op_sparse_backward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,
                   const float *value, const float *dy, float *dw, float *db)
{
    uint64_t entries;
    size_t run;

    run_zero(d, dw, in * out * sizeof *dw);
    if (!run_read(d, &entries, start + rows, sizeof entries)) /* only the device knows how many there are */
        return;
    for (uint64_t first = 0; first < entries; first += run) {
        struct place_pieces p;

        run = pieces_at_once(d, out, (size_t)(entries - first));
        p = make_pieces(d, run, in, out, column + first);
        RUN_ELEMENTS(d, sparse_backward, run * QUADS(out), p, rows, out, first, start, value, dy, dw);
        join_pieces(d, &p, out, dw);
    }
    if (db != NULL)
        op_bias_backward(d, rows, out, dy, db);
}

/* ---- Dropout ---- */

static void
op_dropout_forward(PS_MODULE_DEVICE, size_t n, float rate, uint64_t seed, uint64_t counter, const float *x, float *y)
{
    RUN_ELEMENTS(d, dropout, QUADS(n), n, dropout_below(rate), 1 / (1 - rate), seed, counter, x, y);
}

static void
op_dropout_backward(PS_MODULE_DEVICE, size_t n, float rate, uint64_t seed, uint64_t counter, const float *dy, float *dx)
{
    op_dropout_forward(d, n, rate, seed, counter, dy, dx);
}

/* ---- Classification ---- */

static void
op_softmax(PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, float *p)
{
    RUN_ROWS(d, softmax, rows, classes, x, p);
}

static void
op_softmax_cross_entropy(PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, const uint32_t *labels,
                         float scale, float *loss, float *dx)
{
    RUN_ROWS(d, softmax_loss, rows, classes, x, labels, scale, loss, dx, d->flags);
}

static void
op_sigmoid_cross_entropy(PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *targets, float scale,
                         float *loss, float *dx)
{
    RUN_ROWS(d, sigmoid_loss, rows, n, x, targets, scale, loss, dx);
}

static void
op_argmax(PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, uint32_t *best)
{
    RUN_ROWS(d, argmax, rows, classes, x, best);
}

/* ---- Sums over everything, by levels ---- */

#define SUM_PARTS ((size_t)8192) /* of the first level, at most: warps that use all of a GPU's memory's speed */

/* Parts of the first level, of 4 quads a lane at least; those of all levels, of 8 bytes each, fit the scratch memory.
 */
static size_t
sum_parts(PS_MODULE_DEVICE, size_t n)
{
    size_t parts = (QUADS(n) - 1) / (4 * LANES) + 1, most = d->scratch_floats / 4;

    if (most > SUM_PARTS)
        most = SUM_PARTS;
    return parts < most ? parts : most;
}

/* RUN_ROWS(name) until one part is left, which goes to `to`, memory that the host reads. */
#define SUM_LEVELS(d, name, parts, part, to)                                                                           \
    do {                                                                                                               \
        size_t left_ = (parts), fewer_;                                                                                \
                                                                                                                       \
        for (; left_ > 1; (part) += left_, left_ = fewer_) {                                                           \
            fewer_ = (left_ - 1) / SUM_RUN + 1;                                                                        \
            RUN_ROWS(d, name, fewer_, left_, part, fewer_ > 1 ? (part) + left_ : (to));                                \
        }                                                                                                              \
    } while (0)

/* False after a failure. */
static int
count_equal(PS_MODULE_DEVICE, size_t n, const uint32_t *a, const uint32_t *b, uint64_t *count)
{
    size_t parts = sum_parts(d, n);
    uint64_t *part = (uint64_t *)(void *)d->scratch, *to = &d->answers->equal;

    RUN_ROWS(d, equal_parts, parts, n, parts, a, b, parts > 1 ? part : to);
    SUM_LEVELS(d, equal_sum, parts, part, to);
    if (!run_wait(d))
        return 0;
    *count = *to;
    return 1;
}

static void
op_square_sum_start(PS_MODULE_DEVICE, size_t n, const float *x)
{
    size_t parts = sum_parts(d, n);
    double *part = (double *)(void *)d->scratch, *to = &d->answers->squares;

    RUN_ROWS(d, square_parts, parts, n, parts, x, parts > 1 ? part : to);
    SUM_LEVELS(d, square_sum, parts, part, to);
}

static int
square_sum_end(PS_MODULE_DEVICE, double *sum)
{
    if (!run_wait(d))
        return 0;
    *sum = d->answers->squares;
    return 1;
}

#define TALLY_EACH ((size_t)16) /* rows for each lane, at least */

static void
op_tally_start(PS_MODULE_DEVICE, size_t n, const uint32_t *a, const uint32_t *b, const float *losses)
{
    size_t parts = (n - 1) / (LANES * TALLY_EACH) + 1, most = d->scratch_floats / 8;
    struct sum_tally *part = (struct sum_tally *)(void *)d->scratch, *to = &d->answers->tally;

    if (most > SUM_PARTS)
        most = SUM_PARTS;
    if (parts > most)
        parts = most;
    RUN_ROWS(d, tally_parts, parts, n, parts, a, b, losses, parts > 1 ? part : to);
    SUM_LEVELS(d, tally_sum, parts, part, to);
}

static int
tally_end(PS_MODULE_DEVICE, struct sum_tally *sum)
{
    if (!run_wait(d))
        return 0;
    *sum = d->answers->tally;
    return 1;
}

/* ---- Gradients that are encoded ---- */

static size_t
int8_size(size_t n)
{
    return int8_runs(n) * sizeof(float) + n;
}

/* Encodings of 16 bits lie one behind the other as if they were one: a block is of an even number of elements. The last
 * four bytes, where some are no element's, are 0 at first. */
static void
op_encode(PS_MODULE_DEVICE, enum ps_module_code code, size_t n, size_t block, const float *gradient,
          const float *residual, float *left, void *out, uint32_t *nonfinite)
{
    size_t whole = (n - 1) / block, last = n - whole * block;
    size_t size = code == PS_MODULE_CODE_INT8 ? whole * int8_size(block) + int8_size(last) : n * sizeof(uint16_t);

    if (size % 4 != 0)
        run_zero(d, (char *)out + size / 4 * 4, 4);
    switch (code) {
    case PS_MODULE_CODE_FLOAT16:
        RUN_ELEMENTS(d, float16_encode, n, gradient, residual, left, (uint16_t *)out, nonfinite);
        break;
    case PS_MODULE_CODE_BFLOAT16:
        RUN_ELEMENTS(d, bfloat16_encode, n, gradient, residual, left, (uint16_t *)out, nonfinite);
        break;
    case PS_MODULE_CODE_INT8:
        RUN_ROWS(d, int8_encode, whole * int8_runs(block) + int8_runs(last), n, block, int8_runs(block),
                 int8_size(block), gradient, residual, left, (char *)out, nonfinite);
        break;
    }
}

static void
op_fill(PS_MODULE_DEVICE, size_t n, float value, float *x)
{
    RUN_ELEMENTS(d, fill, QUADS(n), n, value, x);
}

/* The rules are many, so another file may compile them. */
void run_update(PS_MODULE_DEVICE, unsigned optimizer, const struct ps_module_step *step, size_t n,
                const float *gradient, float *weights, float *const slot[PS_MODULE_SLOTS_MAX]);

#endif
