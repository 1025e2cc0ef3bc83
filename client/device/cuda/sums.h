/* Kernels of sums over many numbers, in levels: each adds up runs, of a fixed length, of what the level before left, so
 * that every level has work for many threads and the order is the same every time. */
#ifndef CLIENT_DEVICE_CUDA_SUMS_H
#define CLIENT_DEVICE_CUDA_SUMS_H

#include "client/device/cuda/elements.h"

#define SUM_RUN ((size_t)512)

struct sum_tally {
    uint64_t equal;
    double loss;
};

/* Where last levels leave what the host reads when it has waited. */
struct sum_answers {
    uint64_t equal;
    double squares;
    struct sum_tally tally;
};

/* ---- Columns: a sum over rows is made of sums over runs of rows ---- */

/* Element i is column i % n of run i / n. dy: [rows, n]; part: [runs, n]. With x, the sums are of dy times the
 * normalized x: layer norm's gamma; plain: [runs, n] of dy as it is besides, its beta. */
struct column_part_args {
    size_t rows, n, run;
    const float *dy;
    const float *x, *mean, *rstd; /* x NULL: 1 */
    float *part, *plain;          /* plain may be NULL */
};

KERNEL_ELEMENT(column_part)
{
    size_t number = i, column = split(&number, k->n), first = number * k->run;
    size_t end = k->rows - first < k->run ? k->rows : first + k->run;
    const float *dy = k->dy + column;
    float sum = 0, plain = 0;

    if (k->x == NULL) {
        for (size_t r = first; r < end; r++)
            sum += dy[r * k->n];
    } else {
        for (size_t r = first; r < end; r++) {
            float g = dy[r * k->n];

            sum += g * ((k->x[r * k->n + column] - k->mean[r]) * k->rstd[r]);
            plain += g;
        }
    }
    k->part[i] = sum;
    if (k->plain != NULL)
        k->plain[i] = plain;
}

/* The same for quad i % (n / 4) of run i / (n / 4), where rows are whole quads that may be loaded at once. */
#define column_part_quads_args column_part_args

EVERYWHERE struct quad
column_quad(const float *x, size_t at)
{
    return *(const struct quad *)(const void *)(x + at);
}

KERNEL_ELEMENT(column_part_quads)
{
    size_t number = i, column = 4 * split(&number, k->n / 4), first = number * k->run;
    size_t end = k->rows - first < k->run ? k->rows : first + k->run, to = number * k->n + column;
    struct quad sum = {{0}}, plain = {{0}};

    if (k->x == NULL) {
        for (size_t r = first; r < end; r++) {
            struct quad dy = column_quad(k->dy, r * k->n + column);

            EACH_OF_QUAD
            {
                sum.of[e] += dy.of[e];
            }
        }
    } else {
        for (size_t r = first; r < end; r++) {
            struct quad dy = column_quad(k->dy, r * k->n + column), x = column_quad(k->x, r * k->n + column);
            float mean = k->mean[r], rstd = k->rstd[r];

            EACH_OF_QUAD
            {
                sum.of[e] += dy.of[e] * ((x.of[e] - mean) * rstd);
                plain.of[e] += dy.of[e];
            }
        }
    }
    *(struct quad *)(void *)(k->part + to) = sum;
    if (k->plain != NULL)
        *(struct quad *)(void *)(k->plain + to) = plain;
}

/* sum: [n], of the runs' parts. */
struct column_sum_args {
    size_t runs, n;
    const float *part;
    float *sum;
};

KERNEL_ELEMENT(column_sum)
{
    double sum = 0;

    for (size_t r = 0; r < k->runs; r++)
        sum += (double)k->part[r * k->n + i];
    k->sum[i] = (float)sum;
}

/* All of it at once, where there are few rows: row i is column i of x: [rows, n]. */
struct column_whole_args {
    size_t rows, n;
    const float *x;
    float *sum;
};

KERNEL_ROW(column_whole)
{
    LANES_HAVE(float, of_lane);
    float sum;

    EACH_LANE
    {
        for (size_t r = lane; r < k->rows; r += LANES)
            LANE(of_lane) += k->x[r * k->n + i];
    }
    sum = lanes_sum(of_lane);
    EACH_LANE
    {
        if (lane == 0)
            k->sum[i] = sum;
    }
}

/* Of the levels after a first one, row i is the sum of run i of SUM_RUN parts. */
#define SUM_OF_RUNS(name, type, sum_lanes)                                                                             \
    struct name##_args {                                                                                               \
        size_t parts;                                                                                                  \
        const type *part;                                                                                              \
        type *sum;                                                                                                     \
    };                                                                                                                 \
                                                                                                                       \
    KERNEL_ROW(name)                                                                                                   \
    {                                                                                                                  \
        size_t first = i * SUM_RUN, end = k->parts - first < SUM_RUN ? k->parts : first + SUM_RUN;                     \
        LANES_HAVE(type, of_lane);                                                                                     \
        type sum;                                                                                                      \
                                                                                                                       \
        EACH_LANE                                                                                                      \
        {                                                                                                              \
            for (size_t c = first + lane; c < end; c += LANES)                                                         \
                LANE(of_lane) += k->part[c];                                                                           \
        }                                                                                                              \
        sum = sum_lanes(of_lane);                                                                                      \
        EACH_LANE                                                                                                      \
        {                                                                                                              \
            if (lane == 0)                                                                                             \
                k->sum[i] = sum;                                                                                       \
        }                                                                                                              \
    }

/* ---- Over everything: row i of a first level adds up quads i * LANES + lane, (i + parts) * LANES + lane ... ---- */

struct equal_parts_args {
    size_t n, parts;
    const uint32_t *a, *b;
    uint64_t *part;
};

EVERYWHERE uint64_t
quads_equal(const uint32_t *a, const uint32_t *b, size_t i, size_t n)
{
    struct quad_words of_a = quad_words_load(a, i, n), of_b = quad_words_load(b, i, n);
    uint64_t count = 0;

    EACH_OF_QUAD
    {
        count += 4 * i + e < n && of_a.of[e] == of_b.of[e];
    }
    return count;
}

KERNEL_ROW(equal_parts)
{
    LANES_HAVE(uint64_t, of_lane);
    uint64_t sum;

    EACH_LANE
    {
        for (size_t at = i * LANES + lane; at < QUADS(k->n); at += k->parts * LANES)
            LANE(of_lane) += quads_equal(k->a, k->b, at, k->n);
    }
    sum = lanes_sum_count(of_lane);
    EACH_LANE
    {
        if (lane == 0)
            k->part[i] = sum;
    }
}

SUM_OF_RUNS(equal_sum, uint64_t, lanes_sum_count)

struct square_parts_args {
    size_t n, parts;
    const float *x;
    double *part;
};

KERNEL_ROW(square_parts)
{
    LANES_HAVE(double, of_lane);
    double sum;

    EACH_LANE
    {
        for (size_t at = i * LANES + lane; at < QUADS(k->n); at += k->parts * LANES) {
            struct quad q = quad_load(k->x, at, k->n);

            EACH_OF_QUAD
            {
                LANE(of_lane) += (double)q.of[e] * (double)q.of[e];
            }
        }
    }
    sum = lanes_sum_double(of_lane);
    EACH_LANE
    {
        if (lane == 0)
            k->part[i] = sum;
    }
}

SUM_OF_RUNS(square_sum, double, lanes_sum_double)

/* ---- A batch's result: how many of a equal those of b, and the sum of losses, at once ---- */

struct tally_parts_args {
    size_t n, parts;
    const uint32_t *a, *b;
    const float *losses;
    struct sum_tally *part;
};

KERNEL_ROW(tally_parts)
{
    LANES_HAVE(uint64_t, equal_of);
    LANES_HAVE(double, loss_of);
    uint64_t equal;
    double loss;

    EACH_LANE
    {
        for (size_t at = i * LANES + lane; at < k->n; at += k->parts * LANES) {
            LANE(equal_of) += k->a[at] == k->b[at];
            LANE(loss_of) += (double)k->losses[at];
        }
    }
    equal = lanes_sum_count(equal_of);
    loss = lanes_sum_double(loss_of);
    EACH_LANE
    {
        if (lane == 0) {
            k->part[i].equal = equal;
            k->part[i].loss = loss;
        }
    }
}

struct tally_sum_args {
    size_t parts;
    const struct sum_tally *part;
    struct sum_tally *sum;
};

KERNEL_ROW(tally_sum)
{
    size_t first = i * SUM_RUN, end = k->parts - first < SUM_RUN ? k->parts : first + SUM_RUN;
    LANES_HAVE(uint64_t, equal_of);
    LANES_HAVE(double, loss_of);
    uint64_t equal;
    double loss;

    EACH_LANE
    {
        for (size_t c = first + lane; c < end; c += LANES) {
            LANE(equal_of) += k->part[c].equal;
            LANE(loss_of) += k->part[c].loss;
        }
    }
    equal = lanes_sum_count(equal_of);
    loss = lanes_sum_double(loss_of);
    EACH_LANE
    {
        if (lane == 0) {
            k->sum[i].equal = equal;
            k->sum[i].loss = loss;
        }
    }
}

#endif
