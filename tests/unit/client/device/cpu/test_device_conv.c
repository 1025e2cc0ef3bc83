/* Convolution and bias: against the sum over a window as the formula has it, in double, at odd shapes, strides and both
 * paddings; gradients against differences; figures by hand for where TensorFlow pads. */
#include <signal.h>

#include "tests/unit/client/device/device_kit.h"

/* ---- Reference ---- */

/* TensorFlow's definition of SAME, as documented: by the remainder of size and stride. */
static ptrdiff_t
reference_padding(size_t size, size_t window, size_t stride, enum ps_padding padding)
{
    size_t needed = size % stride == 0 ? stride : size % stride;

    if (padding == PS_PAD_VALID || window <= needed)
        return 0;
    return (ptrdiff_t)((window - needed) / 2);
}

static size_t
reference_size(size_t size, size_t window, size_t stride, enum ps_padding padding)
{
    double places = padding == PS_PAD_SAME ? (double)size : (double)(size - window + 1);

    return (size_t)ceil(places / (double)stride);
}

struct device_conv_problem {
    struct ps_conv2d c;
    size_t rows, height, width; /* of the output */
    float *x, *w, *b, *dy, *y, *dx, *dw, *db, *workspace;
    double *rx, *rw, *rb, *ry; /* the same for the reference */
};

/* One output: the window begins at (top, left) of row r, which may be off the image. */
static double
reference_place(const struct device_conv_problem *p, size_t r, ptrdiff_t top, ptrdiff_t left, size_t o)
{
    const struct ps_conv2d *c = &p->c;
    double sum = p->rb[o];

    for (size_t i = 0; i < c->kernel_height; i++)
        for (size_t k = 0; k < c->kernel_width; k++) {
            ptrdiff_t y = top + (ptrdiff_t)i, x = left + (ptrdiff_t)k;

            if (y < 0 || x < 0 || y >= (ptrdiff_t)c->height || x >= (ptrdiff_t)c->width)
                continue;
            for (size_t in = 0; in < c->in; in++)
                sum += p->rx[((r * c->height + (size_t)y) * c->width + (size_t)x) * c->in + in] *
                       p->rw[((i * c->kernel_width + k) * c->in + in) * c->out + o];
        }
    return sum;
}

static void
reference_forward(struct device_conv_problem *p)
{
    const struct ps_conv2d *c = &p->c;
    ptrdiff_t above = reference_padding(c->height, c->kernel_height, c->stride_height, c->padding);
    ptrdiff_t left = reference_padding(c->width, c->kernel_width, c->stride_width, c->padding);
    double *y = p->ry;

    for (size_t r = 0; r < p->rows; r++)
        for (size_t i = 0; i < p->height; i++)
            for (size_t k = 0; k < p->width; k++)
                for (size_t o = 0; o < c->out; o++)
                    *y++ = reference_place(p, r, (ptrdiff_t)(i * c->stride_height) - above,
                                           (ptrdiff_t)(k * c->stride_width) - left, o);
}

static double
reference_loss(void *context)
{
    struct device_conv_problem *p = context;

    reference_forward(p);
    return weighted_sum(p->rows * p->height * p->width * p->c.out, p->dy, p->ry);
}

/* ---- Against it ---- */

static size_t
device_conv_inputs(const struct ps_conv2d *c)
{
    return c->height * c->width * c->in;
}

static size_t
device_conv_weights(const struct ps_conv2d *c)
{
    return c->kernel_height * c->kernel_width * c->in * c->out;
}

static size_t
device_conv_outputs(const struct device_conv_problem *p)
{
    return p->height * p->width * p->c.out;
}

static struct device_conv_problem
make_problem(const struct ps_conv2d *c, size_t rows)
{
    struct device_conv_problem p = {.c = *c, .rows = rows};

    ck_assert_int_eq(ps_conv2d_check(c, NULL), PS_OK);
    p.height = reference_size(c->height, c->kernel_height, c->stride_height, c->padding);
    p.width = reference_size(c->width, c->kernel_width, c->stride_width, c->padding);
    p.x = random_floats(rows * device_conv_inputs(c));
    p.w = random_floats(device_conv_weights(c));
    p.b = random_floats(c->out);
    p.dy = random_floats(rows * device_conv_outputs(&p));
    p.y = nan_floats(rows * device_conv_outputs(&p));
    p.dx = nan_floats(rows * device_conv_inputs(c));
    p.dw = nan_floats(device_conv_weights(c));
    p.db = nan_floats(c->out);
    p.workspace = nan_floats(ps_conv2d_workspace(c, rows));
    p.rx = doubles_of(p.x, rows * device_conv_inputs(c));
    p.rw = doubles_of(p.w, device_conv_weights(c));
    p.rb = doubles_of(p.b, c->out);
    p.ry = device_take(rows * device_conv_outputs(&p) * sizeof *p.ry);
    return p;
}

static void
device_conv_run(struct device_conv_problem *p)
{
    ps_conv2d_forward(device, p->rows, &p->c, p->x, p->w, p->b, p->y, p->workspace);
    ps_conv2d_backward(device, p->rows, &p->c, p->x, p->w, p->dy, p->dx, p->dw, p->db, p->workspace);
}

static void
check_against_reference(const struct ps_conv2d *c, size_t rows)
{
    struct device_conv_problem p = make_problem(c, rows);
    size_t height, width, patch = c->kernel_height * c->kernel_width * c->in;

    ps_conv2d_output(c, &height, &width);
    ck_assert_uint_eq(height, p.height);
    ck_assert_uint_eq(width, p.width);
    device_conv_run(&p);
    reference_forward(&p);
    assert_all_near(rows * device_conv_outputs(&p), p.y, p.ry, patch, "y");
    assert_gradient(rows * device_conv_inputs(c), p.rx, p.dx, reference_loss, &p, patch * c->out, "dx");
    assert_gradient(device_conv_weights(c), p.rw, p.dw, reference_loss, &p, rows * height * width, "dw");
    assert_gradient(c->out, p.rb, p.db, reference_loss, &p, rows * height * width, "db");
}

/* height, width, in, out, kernel, strides: larger than the image, smaller than the stride, one, even, odd, across. */
static const struct ps_conv2d shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0}, {5, 4, 2, 3, 3, 2, 1, 1, 0},   {7, 7, 1, 4, 3, 3, 2, 2, 0},
    {6, 9, 3, 2, 4, 5, 2, 3, 0}, {8, 5, 5, 7, 1, 1, 1, 1, 0},   {8, 5, 2, 3, 1, 1, 2, 3, 0},
    {9, 4, 2, 2, 2, 2, 3, 4, 0}, {3, 11, 1, 1, 3, 11, 5, 1, 0}, {2, 3, 2, 2, 5, 7, 1, 1, 1},
    {2, 3, 2, 2, 5, 7, 2, 2, 1}, {1, 9, 3, 1, 1, 4, 1, 2, 0},   {10, 10, 1, 1, 2, 2, 7, 7, 0},
};

START_TEST(conv_is_the_sum_over_windows_and_gradients_are_its_differences)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct ps_conv2d c = shapes[i];

        if (c.padding == PS_PAD_VALID)
            check_against_reference(&c, 1 + i % 3);
        c.padding = PS_PAD_SAME;
        check_against_reference(&c, 1 + i % 3);
    }
}
END_TEST

/* More patches than the workspace holds: it is filled several times, in the middle of rows and lines. */
START_TEST(conv_of_a_large_batch_goes_through_the_workspace_in_parts)
{
    struct ps_conv2d c = {9, 7, 60, 2, 3, 3, 1, 1, PS_PAD_SAME};
    struct device_conv_problem p = make_problem(&c, 9);
    size_t terms = 9 * 9 * 7;

    ck_assert_uint_lt(2 * ps_conv2d_workspace(&c, 9), terms * 3 * 3 * 60);
    ck_assert_uint_eq(ps_conv2d_workspace(&c, 1), 9 * 7 * 3 * 3 * 60);
    ck_assert_uint_eq(ps_conv2d_workspace(&c, 9), ps_conv2d_workspace(&c, 1000000));
    device_conv_run(&p);
    reference_forward(&p);
    assert_all_near(9 * device_conv_outputs(&p), p.y, p.ry, 3 * 3 * 60, "y");
    assert_gradient(9 * device_conv_inputs(&c), p.rx, p.dx, reference_loss, &p, 3 * 3 * 2, "dx");
    assert_gradient(device_conv_weights(&c), p.rw, p.dw, reference_loss, &p, terms, "dw");
    assert_gradient(c.out, p.rb, p.db, reference_loss, &p, terms, "db");
}
END_TEST

START_TEST(a_kernel_of_one_needs_no_workspace_unless_it_strides)
{
    struct ps_conv2d c = {4, 4, 3, 2, 1, 1, 1, 1, PS_PAD_SAME};

    ck_assert_uint_eq(ps_conv2d_workspace(&c, 10), 0);
    c.stride_width = 2;
    ck_assert_uint_eq(ps_conv2d_workspace(&c, 10), 10 * 4 * 2 * 3);
    ck_assert_uint_eq(ps_conv2d_workspace(&c, 0), 0);
}
END_TEST

/* ---- By hand ---- */

static void
check_figures(const struct ps_conv2d *c, const float *x, const float *w, const float *y, size_t n)
{
    float *got = nan_floats(n), *workspace = nan_floats(ps_conv2d_workspace(c, 1));

    ps_conv2d_forward(device, 1, c, x, w, NULL, got, workspace);
    assert_same_bits(got, y, n);
}

START_TEST(conv_gives_the_figures_computed_by_hand)
{
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w[] = {1, 2, 3, 4};
    struct ps_conv2d c = {3, 3, 1, 1, 2, 2, 1, 1, PS_PAD_VALID};

    check_figures(&c, x, w, (const float[]){37, 47, 67, 77}, 4);
    c.padding = PS_PAD_SAME; /* the one odd pixel: below and at the right */
    check_figures(&c, x, w, (const float[]){37, 47, 21, 67, 77, 33, 23, 26, 9}, 9);
}
END_TEST

/* With a stride of 2 an even width needs one pixel, and it is at the right: a symmetric padding would give 210, 432. */
START_TEST(same_pads_at_the_far_end_first)
{
    struct ps_conv2d c = {1, 4, 1, 1, 1, 3, 1, 2, PS_PAD_SAME};

    check_figures(&c, (const float[]){1, 2, 3, 4}, (const float[]){1, 10, 100}, (const float[]){321, 43}, 2);
}
END_TEST

/* ---- Rules of all operations ---- */

START_TEST(conv_without_rows_has_gradients_of_zero)
{
    struct ps_conv2d c = {3, 3, 2, 4, 2, 2, 1, 1, PS_PAD_SAME};
    float *dw = random_floats(device_conv_weights(&c)), *db = random_floats(c.out), untouched = 5;

    ps_conv2d_forward(device, 0, &c, NULL, dw, db, &untouched, NULL);
    ps_conv2d_backward(device, 0, &c, NULL, dw, NULL, &untouched, dw, db, NULL);
    ck_assert(untouched == 5);
    assert_zero(dw, device_conv_weights(&c));
    assert_zero(db, c.out);
    ps_conv2d_backward(device, 0, &c, NULL, dw, NULL, NULL, dw, NULL, NULL);
}
END_TEST

START_TEST(conv_leaves_out_what_is_not_asked_for)
{
    struct ps_conv2d c = {5, 6, 3, 4, 3, 3, 2, 1, PS_PAD_SAME};
    struct device_conv_problem p = make_problem(&c, 3);
    float *dw = nan_floats(device_conv_weights(&c)), *y = nan_floats(3 * device_conv_outputs(&p)),
          *zeros = device_take(c.out * sizeof *zeros);

    device_conv_run(&p);
    ps_conv2d_backward(device, p.rows, &c, p.x, p.w, p.dy, NULL, dw, NULL, p.workspace);
    assert_same_bits(dw, p.dw, device_conv_weights(&c));
    ps_conv2d_forward(device, p.rows, &c, p.x, p.w, NULL, y, p.workspace);
    ps_conv2d_forward(device, p.rows, &c, p.x, p.w, zeros, p.y, p.workspace);
    assert_all_near(3 * device_conv_outputs(&p), y, doubles_of(p.y, 3 * device_conv_outputs(&p)), 1, "y");
}
END_TEST

START_TEST(conv_gives_the_same_bits_every_time)
{
    struct ps_conv2d c = {9, 9, 20, 5, 3, 3, 1, 1, PS_PAD_SAME}, other = {5, 5, 3, 3, 2, 2, 1, 1, PS_PAD_VALID};
    struct device_conv_problem p = make_problem(&c, 20), between = make_problem(&other, 4);
    float *y = nan_floats(20 * device_conv_outputs(&p)), *dx = nan_floats(20 * device_conv_inputs(&c)),
          *dw = nan_floats(device_conv_weights(&c));
    float *db = nan_floats(c.out), *moved = random_floats(20 * device_conv_inputs(&c) + 1);

    device_threads(1 + _i);
    device_conv_run(&p);
    memcpy(moved + 1, p.x, 20 * device_conv_inputs(&c) * sizeof *moved); /* 4-byte aligned only */
    for (int i = 0; i < 3; i++) {
        device_conv_run(&between);
        ps_conv2d_forward(device, 20, &c, moved + 1, p.w, p.b, y, p.workspace);
        ps_conv2d_backward(device, 20, &c, moved + 1, p.w, p.dy, dx, dw, db, p.workspace);
        assert_same_bits(y, p.y, 20 * device_conv_outputs(&p));
        assert_same_bits(dx, p.dx, 20 * device_conv_inputs(&c));
        assert_same_bits(dw, p.dw, device_conv_weights(&c));
        assert_same_bits(db, p.db, c.out);
    }
}
END_TEST

/* ---- Shapes ---- */

START_TEST(shapes_that_cannot_be_are_refused_with_the_reason)
{
    static const struct {
        struct ps_conv2d c;
        enum ps_err err;
        const char *says;
    } bad[] = {
        {{0, 3, 1, 1, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "height 0"},
        {{3, 0, 1, 1, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "width 0"},
        {{3, 3, 0, 1, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "input of 3 x 3 x 0"},
        {{3, 3, 1, 0, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "output of 3 x 3 x 0"},
        {{3, 3, 1, 1, 0, 1, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "window 0"},
        {{3, 3, 1, 1, 1, 1, 1, 0, PS_PAD_SAME}, PS_ERR_INVALID, "stride 0"},
        {{3, 3, 1, 1, 1, 1, 1, 1, (enum ps_padding)2}, PS_ERR_INVALID, "padding 2"},
        {{3, 9, 1, 1, 4, 1, 1, 1, PS_PAD_VALID}, PS_ERR_INVALID, "window of 4 does not fit into a height of 3"},
        {{9, 3, 1, 1, 1, 4, 1, 1, PS_PAD_VALID}, PS_ERR_INVALID, "window of 4 does not fit into a width of 3"},
        {{65536, 32768, 1, 1, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_LIMIT, "an input of 65536 x 32768 x 1"},
        {{1, 2, (size_t)1 << 31, 1, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_LIMIT, "an input of 1 x 2"},
        {{2, 2, 1024, 1, 2048, 1024, 1, 1, PS_PAD_SAME}, PS_ERR_LIMIT, "a kernel of 2048 x 1024 x 1024"},
        {{2, 2, 1, SIZE_MAX, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_LIMIT, "an output of 2 x 2"},
        {{SIZE_MAX, 2, 1, 1, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "height"},
    };
    struct ps_error error;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(ps_conv2d_check(&bad[i].c, &error), bad[i].err);
        ck_assert_msg(strstr(error.text, bad[i].says) != NULL, "%zu: %s", i, error.text);
    }
}
END_TEST

START_TEST(a_shape_that_was_not_checked_stops_the_program)
{
    struct ps_conv2d c = {3, 3, 1, 1, 4, 4, 1, 1, PS_PAD_VALID};
    float nothing = 0;

    ps_conv2d_forward(device, 1, &c, &nothing, &nothing, NULL, &nothing, &nothing);
}
END_TEST

/* ---- Bias ---- */

START_TEST(bias_is_added_to_every_row_and_its_gradient_is_the_sum_of_rows)
{
    static const size_t columns[] = {1, 7, 64, 65, 251}, rows[] = {1, 3, 256, 257, 1000};

    for (size_t k = 0; k < ARRAY_LEN(columns); k++) {
        size_t n = columns[k], m = rows[k];
        float *x = random_floats(m * n), *b = random_floats(n), *y = nan_floats(m * n), *db = nan_floats(n);

        ps_bias_forward(device, m, n, x, b, y);
        ps_bias_backward(device, m, n, x, db);
        for (size_t i = 0; i < m * n; i++)
            ck_assert(y[i] == x[i] + b[i % n]);
        for (size_t c = 0; c < n; c++) {
            double sum = 0;

            for (size_t r = 0; r < m; r++)
                sum += (double)x[r * n + c];
            assert_near((double)db[c], sum, m / 64, "db", c);
        }
        ps_bias_forward(device, m, n, x, b, x);
        assert_same_bits(x, y, m * n);
        ps_bias_backward(device, 0, n, NULL, db);
        assert_zero(db, n);
        ps_bias_forward(device, 0, n, NULL, b, NULL);
    }
}
END_TEST

/* Adding up one by one would be off by 1e-4 here: the sum grows past what an f32 adds to exactly. */
START_TEST(a_bias_of_a_large_image_loses_little)
{
    size_t rows = 300000;
    float *dy = random_floats(rows), db;
    double sum = 0;

    for (size_t i = 0; i < rows; i++) {
        dy[i] = dy[i] * 0.1f + 1.1f;
        sum += (double)dy[i];
    }
    ps_bias_backward(device, rows, 1, dy, &db);
    ck_assert_msg(fabs((double)db / sum - 1) < 2e-6, "%.9g, reference %.9g", (double)db, sum);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_conv");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, conv_is_the_sum_over_windows_and_gradients_are_its_differences);
    tcase_add_test(tc, conv_of_a_large_batch_goes_through_the_workspace_in_parts);
    tcase_add_test(tc, a_kernel_of_one_needs_no_workspace_unless_it_strides);
    tcase_add_test(tc, conv_gives_the_figures_computed_by_hand);
    tcase_add_test(tc, same_pads_at_the_far_end_first);
    tcase_add_test(tc, conv_without_rows_has_gradients_of_zero);
    tcase_add_test(tc, conv_leaves_out_what_is_not_asked_for);
    tcase_add_loop_test(tc, conv_gives_the_same_bits_every_time, 0, 2); /* with one thread and with two */
    tcase_add_test(tc, shapes_that_cannot_be_are_refused_with_the_reason);
    if (tests_fork())
        tcase_add_test_raise_signal(tc, a_shape_that_was_not_checked_stops_the_program, SIGABRT);
    tcase_add_test(tc, bias_is_added_to_every_row_and_its_gradient_is_the_sum_of_rows);
    tcase_add_test(tc, a_bias_of_a_large_image_loses_little);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
