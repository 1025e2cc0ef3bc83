/* Rows: activations, layer normalization, embeddings, dropout, classification. */
#include "tests/unit/client/device/conformance_kit.h"

#include "common/core/model/philox.h"

/* ---- Activations ---- */

static double
elements_gelu(double x)
{
    return x * 0.5 * erfc(-x * 0.70710678118654752440);
}

static double
elements_sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double
elements_relu(double x)
{
    return x > 0 ? x : 0;
}

static double
relu_slope(double x)
{
    return x > 0;
}

static double
tanh_slope(double x)
{
    return 1 - tanh(x) * tanh(x);
}

static double
sigmoid_slope(double x)
{
    return elements_sigmoid(x) * (1 - elements_sigmoid(x));
}

static double
gelu_slope(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
}

static const struct elements_activation {
    double (*f)(double x), (*slope)(double x);
    void (*forward)(ps_device *d, size_t n, const float *x, float *y);
    void (*backward)(ps_device *d, size_t n, const float *with, const float *dy, float *dx);
    bool with_x; /* backward reads x */
} activations[] = {
    {elements_relu, relu_slope, ps_relu_forward, ps_relu_backward, false},
    {tanh, tanh_slope, ps_tanh_forward, ps_tanh_backward, false},
    {elements_sigmoid, sigmoid_slope, ps_sigmoid_forward, ps_sigmoid_backward, false},
    {elements_gelu, gelu_slope, ps_gelu_forward, ps_gelu_backward, true},
};

/* off: floats that the arrays begin behind a place where a device can load several at once. */
static void
check_activation(struct conformance *c, const struct elements_activation *a, size_t n, size_t off)
{
    static const float edges[] = {0, -0.0f, 1e-30f, -1e-30f, 30, -30, 100, -100};
    float *x = conformance_floats(c, n + off, 6) + off, *dy = conformance_floats(c, n + off, 1) + off, *x_on;
    float *y = nans_on(c, n + off) + off, *dx = nans_on(c, n + off) + off, *dy_on;
    double *want = conformance_host(c, n * sizeof *want), *slope = conformance_host(c, n * sizeof *slope);
    const float *with;

    for (size_t i = 0; i < n; i++) {
        if (n > 20 && i < ARRAY_LEN(edges))
            x[i] = edges[i];
        want[i] = a->f((double)x[i]);
        slope[i] = (double)dy[i] * a->slope((double)x[i]);
    }
    x_on = floats_on(c, n + off, x - off) + off;
    dy_on = floats_on(c, n + off, dy - off) + off;
    with = a->with_x ? x_on : y;
    a->forward(c->device, n, x_on, y);
    conformance_near(c, "y", n, y, want, 1);
    a->backward(c->device, n, with, dy_on, dx);
    conformance_near(c, "dx", n, dx, slope, 1);
    a->backward(c->device, n, with, dy_on, dy_on); /* in place */
    conformance_near(c, "dx in place", n, dy_on, slope, 1);
    a->forward(c->device, n, x_on, x_on);
    conformance_near(c, "y in place", n, x_on, want, 1);
}

static void
row_of_activation(struct conformance *c, const struct elements_activation *a)
{
    static const size_t lengths[] = {1, 7, 64, 65, 10007};

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++)
        for (size_t off = 0; off < 2; off++) {
            check_activation(c, a, lengths[k], off);
            give_back(c);
        }
}

void
conform_relu(struct conformance *c)
{
    row_of_activation(c, &activations[0]);
}

void
conform_tanh(struct conformance *c)
{
    row_of_activation(c, &activations[1]);
}

void
conform_sigmoid(struct conformance *c)
{
    row_of_activation(c, &activations[2]);
}

void
conform_gelu(struct conformance *c)
{
    row_of_activation(c, &activations[3]);
}

void
conform_nan(struct conformance *c)
{
    static const double limits[][2] = {{(double)INFINITY, 0}, {1, -1}, {1, 0}, {(double)INFINITY, 0}};
    static const float x[5] = {NAN, 1, -1, INFINITY, -INFINITY};

    for (size_t k = 0; k < ARRAY_LEN(activations); k++) {
        float *y = floats_on(c, 5, (const float[]){5, 5, 5, 5, 5});
        double (*f)(double) = activations[k].f;
        const float *got;

        activations[k].forward(c->device, 5, floats_on(c, 5, x), y);
        got = conformance_downloaded(c, y, sizeof x);
        if (!isnan(got[0]) || !(fabs((double)got[1] - f(1)) < 1e-5) || !(fabs((double)got[2] - f(-1)) < 1e-5))
            conformance_fail(c, "activation %zu of NaN, 1, -1: %g %g %g", k, (double)got[0], (double)got[1],
                             (double)got[2]);
        if ((double)got[3] != limits[k][0] || !(fabs((double)got[4] - limits[k][1]) < 1e-30))
            conformance_fail(c, "activation %zu of Inf, -Inf: %g %g", k, (double)got[3], (double)got[4]);
    }
}

/* ---- Layer normalization ---- */

static void
check_norm(struct conformance *c, size_t rows, size_t n)
{
    float *x = conformance_floats(c, rows * n, 2), *gamma = conformance_floats(c, n, 1),
          *beta = conformance_floats(c, n, 1), *dy = conformance_floats(c, rows * n, 1);
    float *x_on = floats_on(c, rows * n, x), *gamma_on = floats_on(c, n, gamma), *dy_on = floats_on(c, rows * n, dy);
    float *y = nans_on(c, rows * n), *mean = nans_on(c, rows), *rstd = nans_on(c, rows), *dgamma = nans_on(c, n);
    float *dbeta = nans_on(c, n);
    double *want = conformance_host(c, rows * n * sizeof *want), *dx = conformance_host(c, rows * n * sizeof *dx);
    double *of_gamma = conformance_host(c, n * sizeof *of_gamma), *means = conformance_host(c, rows * sizeof *means);
    double *rstds = conformance_host(c, rows * sizeof *rstds), epsilon = 0.01f;

    for (size_t r = 0; r < rows; r++) {
        double square = 0, g = 0, gh = 0;

        for (size_t i = 0; i < n; i++)
            means[r] += (double)x[r * n + i] / (double)n;
        for (size_t i = 0; i < n; i++)
            square += pow((double)x[r * n + i] - means[r], 2) / (double)n;
        rstds[r] = 1 / sqrt(square + epsilon);
        for (size_t i = 0; i < n; i++) {
            double h = ((double)x[r * n + i] - means[r]) * rstds[r], of = (double)dy[r * n + i] * (double)gamma[i];

            want[r * n + i] = h * (double)gamma[i] + (double)beta[i];
            of_gamma[i] += (double)dy[r * n + i] * h;
            g += of / (double)n;
            gh += of * h / (double)n;
        }
        for (size_t i = 0; i < n; i++) {
            double h = ((double)x[r * n + i] - means[r]) * rstds[r];

            dx[r * n + i] = rstds[r] * ((double)dy[r * n + i] * (double)gamma[i] - g - h * gh);
        }
    }
    ps_layer_norm_forward(c->device, rows, n, x_on, gamma_on, floats_on(c, n, beta), 0.01f, y, mean, rstd);
    conformance_near(c, "y", rows * n, y, want, n + 8);
    conformance_near(c, "mean", rows, mean, means, n);
    conformance_near(c, "rstd", rows, rstd, rstds, n);
    ps_layer_norm_backward(c->device, rows, n, x_on, gamma_on, mean, rstd, dy_on, dy_on, dgamma, dbeta); /* in place */
    conformance_near(c, "dx", rows * n, dy_on, dx, n + 100);
    conformance_near(c, "dgamma", n, dgamma, of_gamma, rows + 20);
    conformance_near(c, "dbeta", n, dbeta, column_sums(c, rows, n, dy), rows);
}

void
conform_norm(struct conformance *c)
{
    static const size_t longer[] = {128, 132, 1020, 1024, 1028, 4096, 4097, 4100}; /* around what lanes keep of a row */

    EACH_SIZE(i)
    {
        check_norm(c, sizes[i], sizes[(i + 2) % SIZES]);
        give_back(c);
    }
    for (size_t i = 0; i < ARRAY_LEN(longer); i++) {
        check_norm(c, 3, longer[i]);
        give_back(c);
    }
}

/* ---- Embedding ---- */

static void
check_embedding(struct conformance *c, size_t n, size_t vocabulary, size_t width)
{
    uint32_t *ids = conformance_numbers(c, n, vocabulary), *ids_on = conformance_uploaded(c, ids, n * sizeof *ids);
    float *table = conformance_floats(c, vocabulary * width, 1), *dy = conformance_floats(c, n * width, 1),
          *want = conformance_host(c, n * width * sizeof *want);
    float *y = nans_on(c, n * width), *dtable = nans_on(c, vocabulary * width);
    double *sums = conformance_host(c, vocabulary * width * sizeof *sums);
    float *in_order = conformance_host(c, vocabulary * width * sizeof *in_order);
    uint32_t *repeats = conformance_host(c, vocabulary * sizeof *repeats), most = 0;

    for (size_t i = 0; i < n * width; i++) {
        want[i] = table[ids[i / width] * width + i % width];
        sums[ids[i / width] * width + i % width] += (double)dy[i];
        in_order[ids[i / width] * width + i % width] += dy[i];
    }
    for (size_t i = 0; i < n; i++)
        most = MAX(most, ++repeats[ids[i]]);
    ps_embedding_forward(c->device, n, vocabulary, width, ids_on, floats_on(c, vocabulary * width, table), y);
    conformance_same(c, "y", n * width * sizeof *y, y, want);
    ps_embedding_backward(c->device, n, vocabulary, width, ids_on, floats_on(c, n * width, dy), dtable);
    conformance_near(c, "dtable", vocabulary * width, dtable, sums, n);
    if (most <= CONFORMANCE_IN_ORDER)
        conformance_same(c, "dtable in order", vocabulary * width * sizeof *in_order, dtable, in_order);
}

void
conform_embedding(struct conformance *c)
{
    static const size_t shapes[][3] = {{1, 1, 1},     {7, 3, 5},    {65, 100, 1},  {700, 11, 9}, {251, 1, 64},
                                       {999, 500, 3}, {256, 1, 12}, {257, 1, 3},   {512, 1, 4},  {513, 1, 1},
                                       {1030, 2, 8},  {2000, 7, 5}, {1100, 40, 16}};

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_embedding(c, shapes[i][0], shapes[i][1], shapes[i][2]);
        give_back(c);
    }
}

/* ---- Dropout ---- */

/* The definition once more, an element at a time: word e of Philox at (e / 4, counter) under the seed's key. */
static float
elements_dropped(uint64_t seed, uint64_t counter, float rate, size_t e, float x)
{
    uint64_t mixed = seed ^ 0x64726f706f757473u, block = e / 4;
    uint32_t words[4];

    philox_4x32(
        (const uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)counter, (uint32_t)(counter >> 32)},
        (const uint32_t[]){(uint32_t)mixed, (uint32_t)(mixed >> 32)}, words);
    return (double)words[e % 4] >= floor((double)rate * 0x1p32) ? x * (1 / (1 - rate)) : 0;
}

void
conform_dropout(struct conformance *c)
{
    static const size_t lengths[] = {1, 2, 3, 4, 5, 63, 64, 65, 10007};
    static const float rates[] = {0, 0.3f, 0.5f, 0.9f};

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        size_t n = lengths[k];
        float rate = rates[k % ARRAY_LEN(rates)], *x = conformance_floats(c, n, 1),
              *want = conformance_host(c, n * sizeof *want);
        float *x_on = floats_on(c, n, x), *y = nans_on(c, n);
        uint64_t seed = conformance_draw(c), counter = conformance_draw(c);

        for (size_t i = 0; i < n; i++)
            want[i] = elements_dropped(seed, counter, rate, i, x[i]);
        ps_dropout_forward(c->device, n, rate, seed, counter, x_on, y);
        conformance_same(c, "y", n * sizeof *y, y, want);
        ps_dropout_backward(c->device, n, rate, seed, counter, x_on, x_on); /* in place */
        conformance_same(c, "dx", n * sizeof *x_on, x_on, want);
        give_back(c);
    }
}

/* ---- Classification ---- */

static void
check_softmax(struct conformance *c, size_t rows, size_t n)
{
    float *x = conformance_floats(c, rows * n, 8), *x_on, *p = nans_on(c, rows * n), *dx = nans_on(c, rows * n);
    float *loss = nans_on(c, rows), *loss_only = nans_on(c, rows);
    uint32_t *labels = conformance_numbers(c, rows, n),
             *labels_on = conformance_uploaded(c, labels, rows * sizeof *labels);
    double *want = conformance_host(c, rows * n * sizeof *want),
           *want_dx = conformance_host(c, rows * n * sizeof *want_dx);
    double *want_loss = conformance_host(c, rows * sizeof *want_loss);

    for (size_t r = 0; r < rows; r++) {
        double most = -INFINITY, sum = 0;

        if (r % 3 == 1)
            x[r * n + r % n] = 1e4f; /* exp() of it would overflow */
        for (size_t i = 0; i < n; i++)
            most = fmax(most, (double)x[r * n + i]);
        for (size_t i = 0; i < n; i++)
            sum += exp((double)x[r * n + i] - most);
        want_loss[r] = log(sum) + most - (double)x[r * n + labels[r]];
        for (size_t i = 0; i < n; i++) {
            want[r * n + i] = exp((double)x[r * n + i] - most) / sum;
            want_dx[r * n + i] = 0.25 * (want[r * n + i] - (i == labels[r]));
        }
    }
    x_on = floats_on(c, rows * n, x);
    ps_softmax(c->device, rows, n, x_on, p);
    conformance_near(c, "p", rows * n, p, want, 4);
    ps_softmax_cross_entropy(c->device, rows, n, x_on, labels_on, 0.25f, loss_only, NULL);
    conformance_near(c, "loss alone", rows, loss_only, want_loss, 10);
    ps_softmax_cross_entropy(c->device, rows, n, x_on, labels_on, 0.25f, loss, dx);
    conformance_near(c, "loss", rows, loss, want_loss, 10);
    conformance_near(c, "dx", rows * n, dx, want_dx, 4);
    ps_softmax_cross_entropy(c->device, rows, n, x_on, labels_on, 0.25f, loss, x_on); /* in place */
    conformance_near(c, "dx in place", rows * n, x_on, want_dx, 4);
}

void
conform_softmax(struct conformance *c)
{
    EACH_SIZE(i)
    EACH_SIZE(j)
    {
        check_softmax(c, sizes[i], sizes[j]);
        give_back(c);
    }
}

static void
check_sigmoid_loss(struct conformance *c, size_t rows, size_t n)
{
    float *x = conformance_floats(c, rows * n, 6), *t = conformance_floats(c, rows * n, 0.5f), *x_on, *t_on,
          *loss = nans_on(c, rows);
    float *loss_only = nans_on(c, rows), *dx = nans_on(c, rows * n);
    double *want = conformance_host(c, rows * n * sizeof *want),
           *want_loss = conformance_host(c, rows * sizeof *want_loss);

    for (size_t i = 0; i < rows * n; i++) {
        double z;

        t[i] += 0.5f;
        x[i] = i % 11 == 5 ? 90 : i % 13 == 6 ? -90 : x[i];
        z = (double)x[i];
        want_loss[i / n] += fmax(z, 0) - z * (double)t[i] + log1p(exp(-fabs(z)));
        want[i] = 0.5 * (elements_sigmoid(z) - (double)t[i]);
    }
    x_on = floats_on(c, rows * n, x);
    t_on = floats_on(c, rows * n, t);
    ps_sigmoid_cross_entropy(c->device, rows, n, x_on, t_on, 0.5f, loss_only, NULL);
    conformance_near(c, "loss alone", rows, loss_only, want_loss, n);
    ps_sigmoid_cross_entropy(c->device, rows, n, x_on, t_on, 0.5f, loss, dx);
    conformance_near(c, "loss", rows, loss, want_loss, n);
    conformance_near(c, "dx", rows * n, dx, want, 1);
    ps_sigmoid_cross_entropy(c->device, rows, n, x_on, t_on, 0.5f, loss, x_on); /* in place */
    conformance_near(c, "dx in place", rows * n, x_on, want, 1);
}

void
conform_sigmoid_loss(struct conformance *c)
{
    EACH_SIZE(i)
    {
        check_sigmoid_loss(c, sizes[i], sizes[(i + 3) % SIZES]);
        give_back(c);
    }
}

static void
check_argmax(struct conformance *c, size_t rows, size_t n)
{
    float *x = conformance_floats(c, rows * n, 1);
    uint32_t *want = conformance_host(c, rows * sizeof *want), *best = marks_on(c, rows);

    for (size_t r = 0; r < rows; r++) {
        float *row = x + r * n;

        for (size_t i = 0; i < n; i++)
            row[i] = roundf(row[i] * 8) / 8; /* many equals, and zeros of both signs */
        if (r % 5 == 1)
            row[conformance_draw(c) % n] = NAN;
        if (r % 5 == 2)
            memset(row, 0xff, n * sizeof *row); /* NaN everywhere */
        if (r % 5 == 3)
            row[conformance_draw(c) % n] = INFINITY;
        for (size_t i = 0; r % 5 == 4 && i < n; i++)
            row[i] = i == n / 2 ? -1e30f : -INFINITY;
        for (size_t i = 1; i < n; i++)
            if (row[i] > row[want[r]])
                want[r] = (uint32_t)i;
    }
    ps_argmax(c->device, rows, n, floats_on(c, rows * n, x), best);
    conformance_same(c, "best", rows * sizeof *best, best, want);
}

void
conform_argmax(struct conformance *c)
{
    EACH_SIZE(i)
    EACH_SIZE(j)
    {
        check_argmax(c, sizes[i], sizes[j]);
        give_back(c);
    }
}

void
conform_count_equal(struct conformance *c)
{
    static const size_t lengths[] = {1, 7, 64, 65, 251, 10007, 200003, 300007};
    struct ps_error e;

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        size_t n = lengths[k], want = 0, got = SIZE_MAX;
        uint32_t *a = conformance_numbers(c, n, 3), *b = conformance_numbers(c, n, 3);

        a[0] = b[0] = k % 2 == 0 ? 7 : 0; /* one at least; and what stands behind the end does not count */
        for (size_t i = 0; i < n; i++)
            want += a[i] == b[i];
        conformance_must(c,
                         ps_count_equal(c->device, n, conformance_uploaded(c, a, n * sizeof *a),
                                        conformance_uploaded(c, b, n * sizeof *b), &got, &e),
                         &e);
        if (got != want)
            conformance_fail(c, "%zu of %zu are equal, it says %zu", want, n, got);
        give_back(c);
    }
}
