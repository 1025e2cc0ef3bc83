/* Rows: memory and copies; dense layers, biases, sparse rows. */
#include "tests/unit/client/device/conformance_kit.h"

#include "client/device/device_staging.h"

/* ---- Memory and copies ---- */

void
conform_copies(struct conformance *c)
{
    /* The last goes through buffers, in several pieces, where there are any. */
    const size_t lengths[] = {1, 63, 64, 4097, ps_device_is_host(c->device) ? 100003 : 9437189};

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        size_t n = lengths[k];
        uint8_t *bytes = conformance_host(c, n), *zeros = conformance_host(c, n);
        void *a, *b = on_device(c, n);

        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(i * 31 + i / 255 + k);
        conformance_same(c, "new memory", n, b, zeros);
        a = conformance_uploaded(c, bytes, n);
        memset(bytes, 0xab, n); /* the upload has read it */
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(i * 31 + i / 255 + k);
        conformance_same(c, "uploaded", n, a, bytes);
        ps_device_copy(c->device, b, a, n);
        conformance_same(c, "copied", n, b, bytes);
        c->device->ops->zero(c->device, a, n);
        conformance_same(c, "zeroed", n, a, zeros);
    }
}

void
conform_staging(struct conformance *c)
{
    struct ps_error e;

    EACH_SIZE(i)
    {
        size_t n = sizes[i] * 1000 + i, size = n * sizeof(float);
        float *x = conformance_floats(c, n, 1), *on = on_device(c, size), *y = nans_on(c, n), *there, *back;

        conformance_must(c, ps_device_alloc_host(c->device, size, (void **)&there, &e), &e);
        conformance_must(c, ps_device_alloc_host(c->device, size, (void **)&back, &e), &e);
        memcpy(there, x, size);
        device_send(c->device, on, there, size);
        ps_relu_forward(c->device, n, on, y);
        conformance_must(c, device_fetch(c->device, back, y, size, &e), &e);
        ps_relu_forward(c->device, n, on, on);
        conformance_must(c, device_fetched(c->device, &e), &e);
        for (size_t k = 0; k < n; k++)
            if (back[k] != (x[k] < 0 ? 0 : x[k]))
                conformance_fail(c, "fetched[%zu] of %zu: %g", k, n, (double)back[k]);
        conformance_must(c, ps_device_finish(c->device, &e), &e);
        conformance_same(c, "again", size, on, back);
        ps_device_free_host(c->device, there);
        ps_device_free_host(c->device, back);
    }
}

/* ---- Dense, sparse, bias ---- */

typedef double products_factor(const struct conformance *c, float x);

/* c: [m, n] = a b + start, by strides, of factors as `factor` makes them. */
static double *
products_of(struct conformance *c, products_factor *factor, size_t m, size_t n, size_t k, const float *a, size_t a_row,
            size_t a_column, const float *b, size_t b_row, size_t b_column, const float *start)
{
    double *want = conformance_host(c, m * n * sizeof *want);

    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = start != NULL ? (double)start[j] : 0;

            for (size_t t = 0; t < k; t++)
                sum += factor(c, a[i * a_row + t * a_column]) * factor(c, b[t * b_row + j * b_column]);
            want[i * n + j] = sum;
        }
    return want;
}

/* In the device's precision. */
static double *
products_product(struct conformance *c, size_t m, size_t n, size_t k, const float *a, size_t a_row, size_t a_column,
                 const float *b, size_t b_row, size_t b_column, const float *start)
{
    return products_of(c, conformance_factor, m, n, k, a, a_row, a_column, b, b_row, b_column, start);
}

static double
products_exactly(const struct conformance *c, float x)
{
    (void)c;
    return (double)x;
}

/* In float32, whatever the device's precision is. */
static double *
products_sparse(struct conformance *c, size_t m, size_t n, size_t k, const float *a, size_t a_row, size_t a_column,
                const float *b, size_t b_row, size_t b_column, const float *start)
{
    return products_of(c, products_exactly, m, n, k, a, a_row, a_column, b, b_row, b_column, start);
}

static void
check_dense(struct conformance *c, size_t rows, size_t in, size_t out, bool with_bias)
{
    float *x = conformance_floats(c, rows * in, 1), *w = conformance_floats(c, in * out, 1),
          *b = conformance_floats(c, out, 1);
    float *dy = conformance_floats(c, rows * out, 1), *y = nans_on(c, rows * out), *dx = nans_on(c, rows * in);
    float *dw = nans_on(c, in * out), *db = nans_on(c, out);
    float *x_on = floats_on(c, rows * in, x), *w_on = floats_on(c, in * out, w), *dy_on = floats_on(c, rows * out, dy);

    ps_dense_forward(c->device, rows, in, out, x_on, w_on, with_bias ? floats_on(c, out, b) : NULL, y);
    conformance_near_product(c, "y", rows * out, y,
                             products_product(c, rows, out, in, x, in, 1, w, out, 1, with_bias ? b : NULL), in);
    ps_dense_backward(c->device, rows, in, out, x_on, w_on, dy_on, with_bias ? dx : NULL, dw, with_bias ? db : NULL);
    conformance_near_product(c, "dw", in * out, dw, products_product(c, in, out, rows, x, 1, in, dy, out, 1, NULL),
                             rows);
    if (!with_bias)
        return;
    conformance_near_product(c, "dx", rows * in, dx, products_product(c, rows, in, out, dy, out, 1, w, 1, out, NULL),
                             out);
    conformance_near(c, "db", out, db, column_sums(c, rows, out, dy), rows);
}

void
conform_dense(struct conformance *c)
{
    EACH_SIZE(i)
    EACH_SIZE(j)
    {
        check_dense(c, sizes[i], sizes[j], sizes[(i + j) % SIZES], (i + j) % 2 == 0);
        give_back(c);
    }
}

/* ---- Twice the same ---- */

static void
check_repeats(struct conformance *c, size_t rows, size_t in, size_t out)
{
    float *x = floats_on(c, rows * in, conformance_floats(c, rows * in, 1));
    float *w = floats_on(c, in * out, conformance_floats(c, in * out, 1));
    float *dy = floats_on(c, rows * out, conformance_floats(c, rows * out, 1));
    float *y[2], *dx[2], *dw[2];

    for (int i = 0; i < 2; i++) {
        y[i] = nans_on(c, rows * out);
        dx[i] = nans_on(c, rows * in);
        dw[i] = nans_on(c, in * out);
        ps_dense_forward(c->device, rows, in, out, x, w, NULL, y[i]);
        ps_dense_backward(c->device, rows, in, out, x, w, dy, dx[i], dw[i], NULL);
    }
    conformance_same(c, "y again", rows * out * sizeof(float), y[1],
                     conformance_downloaded(c, y[0], rows * out * sizeof(float)));
    conformance_same(c, "dx again", rows * in * sizeof(float), dx[1],
                     conformance_downloaded(c, dx[0], rows * in * sizeof(float)));
    conformance_same(c, "dw again", in * out * sizeof(float), dw[1],
                     conformance_downloaded(c, dw[0], in * out * sizeof(float)));
}

/* The same inputs have the same bits every time, in every precision; the large ones are what a GPU cuts among its
 * processors. */
void
conform_repeats(struct conformance *c)
{
    size_t large = ps_device_is_host(c->device) ? 64 : 250;

    check_repeats(c, 1, 7, 3);
    check_repeats(c, large, large + 2, 10);
    check_repeats(c, 10, large * 4, large / 2);
    give_back(c);
}

void
conform_bias(struct conformance *c)
{
    EACH_SIZE(i)
    EACH_SIZE(j)
    {
        size_t rows = sizes[i] * (i == j ? 17 : 1) * (j == 0 ? 41 : 1), n = sizes[j]; /* up to sums in levels */
        float *x = conformance_floats(c, rows * n, 1), *b = conformance_floats(c, n, 1), *y = floats_on(c, rows * n, x),
              *db = nans_on(c, n);
        double *want = conformance_host(c, rows * n * sizeof *want);

        for (size_t k = 0; k < rows * n; k++)
            want[k] = (double)x[k] + (double)b[k % n];
        ps_bias_backward(c->device, rows, n, y, db);
        conformance_near(c, "db", n, db, column_sums(c, rows, n, x), rows / 8);
        ps_bias_forward(c->device, rows, n, y, floats_on(c, n, b), y); /* in place */
        conformance_near(c, "y", rows * n, y, want, 1);
        give_back(c);
    }
}

static void
check_sparse(struct conformance *c, size_t rows, size_t in, size_t out, unsigned percent)
{
    uint64_t *start = conformance_host(c, (rows + 1) * sizeof *start), entries = 0;
    uint32_t *column = conformance_host(c, rows * in * sizeof *column);
    float *value = conformance_host(c, rows * in * sizeof *value), *x = conformance_host(c, rows * in * sizeof *x);
    float *w = conformance_floats(c, in * out, 1), *b = conformance_floats(c, out, 1),
          *dy = conformance_floats(c, rows * out, 1);
    float *y = nans_on(c, rows * out), *dw = nans_on(c, in * out), *db = nans_on(c, out);
    float *in_order = conformance_host(c, in * out * sizeof *in_order);
    void *start_on, *column_on, *value_on;

    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < in; k++)
            if (conformance_draw(c) % 100 < percent) {
                column[entries] = (uint32_t)k;
                value[entries++] = x[r * in + k] = (float)(conformance_draw(c) % 1000) / 500 - 1;
                for (size_t o = 0; o < out; o++)
                    in_order[k * out + o] += x[r * in + k] * dy[r * out + o];
            }
        start[r + 1] = entries;
    }
    start_on = conformance_uploaded(c, start, (rows + 1) * sizeof *start);
    column_on = conformance_uploaded(c, column, rows * in * sizeof *column);
    value_on = conformance_uploaded(c, value, rows * in * sizeof *value);
    ps_sparse_forward(c->device, rows, in, out, start_on, column_on, value_on, floats_on(c, in * out, w),
                      percent % 2 == 0 ? floats_on(c, out, b) : NULL, y);
    conformance_near(c, "y", rows * out, y,
                     products_sparse(c, rows, out, in, x, in, 1, w, out, 1, percent % 2 == 0 ? b : NULL), in);
    ps_sparse_backward(c->device, rows, in, out, start_on, column_on, value_on, floats_on(c, rows * out, dy), dw, db);
    conformance_near(c, "dw", in * out, dw, products_sparse(c, in, out, rows, x, 1, in, dy, out, 1, NULL), rows);
    if (rows <= CONFORMANCE_IN_ORDER)
        conformance_same(c, "dw in order", in * out * sizeof *in_order, dw, in_order);
    conformance_near(c, "db", out, db, column_sums(c, rows, out, dy), rows);
}

void
conform_sparse(struct conformance *c)
{
    static const struct {
        size_t rows, in, out;
        unsigned percent;
    } shapes[] = {{1, 1, 1, 100}, {5, 7, 1, 30},    {64, 65, 1, 5},  {9, 33, 3, 51},  {3, 100, 16, 10},
                  {4, 8, 2, 0},   {17, 257, 5, 99}, {600, 3, 6, 95}, {1500, 2, 1, 60}};

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_sparse(c, shapes[i].rows, shapes[i].in, shapes[i].out, shapes[i].percent);
        give_back(c);
    }
}
