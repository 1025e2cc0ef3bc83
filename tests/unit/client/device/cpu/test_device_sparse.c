/* Sparse input: the same as the dense layer on the same rows written out, forward and backward. */
#include <signal.h>

#include "tests/unit/client/device/device_kit.h"

static const struct device_sparse_shape {
    size_t rows, in, out;
    double filled; /* share of entries that are there */
} shapes[] = {{1, 1, 1, 1},     {5, 7, 1, .3}, {64, 65, 1, .05}, {9, 33, 3, .5},
              {3, 100, 16, .1}, {4, 8, 2, 0},  {17, 257, 5, 1}};

struct device_sparse_problem {
    struct device_sparse_shape s;
    uint64_t *start;
    uint32_t *column;
    float *value, *dense; /* x twice */
    float *w, *b, *dy;    /* given */
    float *y, *dw, *db;   /* by the sparse operations */
    float *dense_y, *dense_dw, *dense_db;
};

static void
make_rows(struct device_sparse_problem *p)
{
    const struct device_sparse_shape *s = &p->s;
    uint64_t entries = 0;

    p->start = device_take((s->rows + 1) * sizeof *p->start);
    p->column = device_take(s->rows * s->in * sizeof *p->column);
    p->value = device_take(s->rows * s->in * sizeof *p->value);
    p->dense = device_take(s->rows * s->in * sizeof *p->dense);
    for (size_t r = 0; r < s->rows; r++) {
        for (size_t c = 0; c < s->in; c++) {
            if (test_rand(&rng) % 1000 >= s->filled * 1000)
                continue;
            p->column[entries] = (uint32_t)c;
            p->value[entries] = p->dense[r * s->in + c] = test_float(&rng);
            entries++;
        }
        p->start[r + 1] = entries;
    }
}

static struct device_sparse_problem
sparse_make(const struct device_sparse_shape *s)
{
    struct device_sparse_problem p = {.s = *s};

    make_rows(&p);
    p.w = random_floats(s->in * s->out);
    p.b = random_floats(s->out);
    p.dy = random_floats(s->rows * s->out);
    p.y = nan_floats(s->rows * s->out);
    p.dw = nan_floats(s->in * s->out);
    p.db = nan_floats(s->out);
    p.dense_y = nan_floats(s->rows * s->out);
    p.dense_dw = nan_floats(s->in * s->out);
    p.dense_db = nan_floats(s->out);
    return p;
}

static void
run_sparse(struct device_sparse_problem *p, const float *b, float *db)
{
    const struct device_sparse_shape *s = &p->s;

    ps_sparse_forward(device, s->rows, s->in, s->out, p->start, p->column, p->value, p->w, b, p->y);
    ps_sparse_backward(device, s->rows, s->in, s->out, p->start, p->column, p->value, p->dy, p->dw, db);
}

static void
assert_floats_near(size_t n, const float *got, const float *want, size_t terms, const char *what)
{
    for (size_t i = 0; i < n; i++)
        assert_near((double)got[i], (double)want[i], terms, what, i);
}

START_TEST(sparse_rows_give_what_the_dense_layer_gives)
{
    const struct device_sparse_shape *s = &shapes[_i];
    struct device_sparse_problem p = sparse_make(s);

    run_sparse(&p, p.b, p.db);
    ps_dense_forward(device, s->rows, s->in, s->out, p.dense, p.w, p.b, p.dense_y);
    ps_dense_backward(device, s->rows, s->in, s->out, p.dense, p.w, p.dy, NULL, p.dense_dw, p.dense_db);
    assert_floats_near(s->rows * s->out, p.y, p.dense_y, s->in, "y");
    assert_floats_near(s->in * s->out, p.dw, p.dense_dw, s->rows, "dw");
    assert_floats_near(s->out, p.db, p.dense_db, s->rows, "db");
}
END_TEST

START_TEST(without_a_bias_none_is_added)
{
    const struct device_sparse_shape *s = &shapes[_i];
    struct device_sparse_problem p = sparse_make(s);

    run_sparse(&p, NULL, NULL);
    ps_dense_forward(device, s->rows, s->in, s->out, p.dense, p.w, NULL, p.dense_y);
    assert_floats_near(s->rows * s->out, p.y, p.dense_y, s->in, "y");
    ck_assert(isnan(p.db[0]));
}
END_TEST

START_TEST(the_same_call_gives_the_same_bits)
{
    struct device_sparse_problem p = sparse_make(&shapes[_i]);
    size_t weights = p.s.in * p.s.out, places = p.s.rows * p.s.out;
    float *y = device_take(places * sizeof *y), *dw = device_take(weights * sizeof *dw);

    run_sparse(&p, p.b, p.db);
    memcpy(y, p.y, places * sizeof *y);
    memcpy(dw, p.dw, weights * sizeof *dw);
    run_sparse(&p, p.b, p.db);
    assert_same_bits(y, p.y, places);
    assert_same_bits(dw, p.dw, weights);
}
END_TEST

START_TEST(no_rows_have_gradients_of_zero)
{
    struct device_sparse_problem p = sparse_make(&shapes[3]);

    ps_sparse_forward(device, 0, p.s.in, p.s.out, p.start, p.column, p.value, p.w, p.b, p.y);
    ps_sparse_backward(device, 0, p.s.in, p.s.out, p.start, p.column, p.value, p.dy, p.dw, p.db);
    ck_assert(isnan(p.y[0]));
    assert_zero(p.dw, p.s.in * p.s.out);
    assert_zero(p.db, p.s.out);
}
END_TEST

/* Forward to one output, to several, backward: each would read or write beside the weights. */
START_TEST(a_column_out_of_range_stops_the_program)
{
    static const uint64_t start[] = {0, 2};
    static const uint32_t column[] = {0, 3};
    static const float value[] = {1, 1};
    float w[8] = {0}, y[2] = {0};

    if (_i < 2)
        ps_sparse_forward(device, 1, 3, (size_t)_i + 1, start, column, value, w, NULL, y);
    else
        ps_sparse_backward(device, 1, 3, 1, start, column, value, y, w, NULL);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("device_sparse");
    TCase *tc = tcase_create("device_sparse");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_add_loop_test(tc, sparse_rows_give_what_the_dense_layer_gives, 0, ARRAY_LEN(shapes));
    tcase_add_loop_test(tc, without_a_bias_none_is_added, 0, ARRAY_LEN(shapes));
    tcase_add_loop_test(tc, the_same_call_gives_the_same_bits, 0, ARRAY_LEN(shapes));
    tcase_add_test(tc, no_rows_have_gradients_of_zero);
    if (tests_fork())
        tcase_add_loop_test_raise_signal(tc, a_column_out_of_range_stops_the_program, SIGABRT, 0, 3);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
