/* Pools: against the formula over each window, in double, at odd shapes, strides and both paddings; gradients against
 * differences; figures by hand. */
#include "tests/unit/client/device/device_kit.h"

/* ---- Reference ---- */

struct device_pool_problem {
    struct ps_pool2d p;
    bool largest;
    size_t rows, height, width; /* of the output */
    float *x, *dy, *y, *dx;
    uint32_t *best;
    double *rx, *ry;
};

/* First pixel of window number `at`, which may be before the image. */
static ptrdiff_t
reference_start(size_t size, size_t window, size_t stride, enum ps_padding padding, size_t at)
{
    size_t needed = size % stride == 0 ? stride : size % stride;
    size_t before = padding == PS_PAD_SAME && window > needed ? (window - needed) / 2 : 0;

    return (ptrdiff_t)(at * stride) - (ptrdiff_t)before;
}

static double
reference_place(const struct device_pool_problem *q, size_t r, ptrdiff_t top, ptrdiff_t left, size_t channel)
{
    const struct ps_pool2d *p = &q->p;
    double sum = 0, most = -INFINITY;
    size_t count = 0;

    for (ptrdiff_t y = top; y < top + (ptrdiff_t)p->window_height; y++)
        for (ptrdiff_t x = left; x < left + (ptrdiff_t)p->window_width; x++) {
            if (y < 0 || x < 0 || y >= (ptrdiff_t)p->height || x >= (ptrdiff_t)p->width)
                continue;
            double value = q->rx[((r * p->height + (size_t)y) * p->width + (size_t)x) * p->channels + channel];
            sum += value;
            most = fmax(most, value);
            count++;
        }
    return q->largest ? most : sum / (double)count;
}

static void
reference_forward(struct device_pool_problem *q)
{
    const struct ps_pool2d *p = &q->p;
    double *y = q->ry;

    for (size_t r = 0; r < q->rows; r++)
        for (size_t i = 0; i < q->height; i++)
            for (size_t k = 0; k < q->width; k++)
                for (size_t c = 0; c < p->channels; c++)
                    *y++ = reference_place(
                        q, r, reference_start(p->height, p->window_height, p->stride_height, p->padding, i),
                        reference_start(p->width, p->window_width, p->stride_width, p->padding, k), c);
}

static size_t
device_pool_inputs(const struct device_pool_problem *q)
{
    return q->rows * q->p.height * q->p.width * q->p.channels;
}

static size_t
device_pool_outputs(const struct device_pool_problem *q)
{
    return q->rows * q->height * q->width * q->p.channels;
}

static double
reference_loss(void *context)
{
    struct device_pool_problem *q = context;

    reference_forward(q);
    return weighted_sum(device_pool_outputs(q), q->dy, q->ry);
}

/* ---- Against it ---- */

/* No two elements of x are nearer than 1 / their number: the largest stays the largest when one moves a little. */
static void
spread_apart(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = 2 * (float)i / (float)n - 1;
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = (size_t)test_below(&rng, i + 1);
        float kept = x[i];

        x[i] = x[j];
        x[j] = kept;
    }
}

static struct device_pool_problem
make_problem(const struct ps_pool2d *p, size_t rows, bool largest)
{
    struct device_pool_problem q = {.p = *p, .rows = rows, .largest = largest};

    ck_assert_int_eq(ps_pool2d_check(p, NULL), PS_OK);
    ps_pool2d_output(p, &q.height, &q.width);
    q.x = random_floats(device_pool_inputs(&q));
    spread_apart(q.x, device_pool_inputs(&q));
    q.dy = random_floats(device_pool_outputs(&q));
    q.y = nan_floats(device_pool_outputs(&q));
    q.dx = nan_floats(device_pool_inputs(&q));
    q.best = device_take(device_pool_outputs(&q) * sizeof *q.best);
    memset(q.best, 0xff, device_pool_outputs(&q) * sizeof *q.best);
    q.rx = doubles_of(q.x, device_pool_inputs(&q));
    q.ry = device_take(device_pool_outputs(&q) * sizeof *q.ry);
    return q;
}

static void
device_pool_run(struct device_pool_problem *q)
{
    if (q->largest) {
        ps_max_pool_forward(device, q->rows, &q->p, q->x, q->y, q->best);
        ps_max_pool_backward(device, q->rows, &q->p, q->best, q->dy, q->dx);
    } else {
        ps_avg_pool_forward(device, q->rows, &q->p, q->x, q->y);
        ps_avg_pool_backward(device, q->rows, &q->p, q->dy, q->dx);
    }
}

static void
check_against_reference(const struct ps_pool2d *p, size_t rows, bool largest)
{
    struct device_pool_problem q = make_problem(p, rows, largest);
    size_t window = p->window_height * p->window_width, per_row = device_pool_outputs(&q) / rows;

    device_pool_run(&q);
    reference_forward(&q);
    assert_all_near(device_pool_outputs(&q), q.y, q.ry, window, "y");
    assert_gradient(device_pool_inputs(&q), q.rx, q.dx, reference_loss, &q, window, "dx");
    for (size_t i = 0; largest && i < device_pool_outputs(&q); i++)
        ck_assert(q.y[i] == q.x[i / per_row * (device_pool_inputs(&q) / rows) + q.best[i]]);
}

static const struct ps_pool2d shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 0}, {4, 4, 3, 2, 2, 2, 2, 0}, {5, 7, 2, 3, 2, 2, 1, 0}, {7, 7, 17, 3, 3, 2, 2, 0},
    {9, 5, 4, 2, 2, 3, 4, 0}, {6, 6, 1, 6, 6, 1, 1, 0}, {2, 3, 5, 5, 7, 1, 2, 1}, {8, 8, 16, 1, 1, 1, 1, 0},
};

static void
check_shapes(bool largest)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct ps_pool2d p = shapes[i];

        if (p.padding == PS_PAD_VALID)
            check_against_reference(&p, 1 + i % 3, largest);
        p.padding = PS_PAD_SAME;
        check_against_reference(&p, 1 + i % 3, largest);
    }
}

START_TEST(max_pool_is_the_largest_and_its_gradient_goes_there)
{
    check_shapes(true);
}
END_TEST

START_TEST(avg_pool_is_the_mean_and_its_gradient_is_shared)
{
    check_shapes(false);
}
END_TEST

/* ---- By hand ---- */

START_TEST(max_pool_gives_the_figures_computed_by_hand)
{
    static const float x[] = {1, -2, 3, -4, 5, -6, 7, -8, 9}, dy[] = {1, 10, 100, 1000};
    struct ps_pool2d p = {3, 3, 1, 2, 2, 1, 1, PS_PAD_VALID};
    float y[4], dx[9];
    uint32_t best[4];

    ps_max_pool_forward(device, 1, &p, x, y, best);
    assert_same_bits(y, (const float[]){5, 5, 7, 9}, 4);
    ck_assert_int_eq(memcmp(best, (const uint32_t[]){4, 4, 6, 8}, sizeof best), 0);
    ps_max_pool_backward(device, 1, &p, best, dy, dx);
    assert_same_bits(dx, (const float[]){0, 0, 0, 0, 11, 0, 100, 0, 1000}, 9);
}
END_TEST

/* Padding is not counted: four, two, two and one pixel. */
START_TEST(avg_pool_gives_the_figures_computed_by_hand)
{
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, dy[] = {4, 2, 6, 5};
    struct ps_pool2d p = {3, 3, 1, 2, 2, 2, 2, PS_PAD_SAME};
    float y[4], dx[9];

    ps_avg_pool_forward(device, 1, &p, x, y);
    assert_same_bits(y, (const float[]){3, 4.5f, 7.5f, 9}, 4);
    ps_avg_pool_backward(device, 1, &p, dy, dx);
    assert_same_bits(dx, (const float[]){1, 1, 1, 1, 1, 1, 3, 3, 5}, 9);
}
END_TEST

START_TEST(max_pool_takes_the_first_of_equals_and_does_not_hide_nan)
{
    static const float x[] = {-1, 4, /**/ 2, NAN, /**/ 2, -INFINITY, /**/ 1, 7}; /* two channels */
    struct ps_pool2d p = {2, 2, 2, 2, 2, 1, 1, PS_PAD_VALID};
    uint32_t best[2];
    float y[2];

    ps_max_pool_forward(device, 1, &p, x, y, best);
    ck_assert(y[0] == 2 && isnan(y[1]));
    ck_assert_uint_eq(best[0], 2);
    ck_assert_uint_eq(best[1], 3);
}
END_TEST

/* ---- Rules of all operations ---- */

START_TEST(pools_give_the_same_bits_every_time_and_nothing_without_rows)
{
    struct ps_pool2d p = {9, 7, 5, 3, 2, 2, 1, PS_PAD_SAME};

    for (int largest = 0; largest < 2; largest++) {
        struct device_pool_problem q = make_problem(&p, 4, largest), again = q;
        float untouched = 5;

        device_pool_run(&q);
        again.y = nan_floats(device_pool_outputs(&q));
        again.dx = nan_floats(device_pool_inputs(&q));
        device_pool_run(&again);
        assert_same_bits(again.y, q.y, device_pool_outputs(&q));
        assert_same_bits(again.dx, q.dx, device_pool_inputs(&q));
        again.rows = 0;
        again.y = again.dx = &untouched;
        device_pool_run(&again);
        ck_assert(untouched == 5);
    }
}
END_TEST

START_TEST(pools_that_cannot_be_are_refused_with_the_reason)
{
    static const struct {
        struct ps_pool2d p;
        enum ps_err err;
        const char *says;
    } bad[] = {
        {{0, 3, 1, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "height 0"},
        {{3, 3, 0, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "3 x 3 x 0"},
        {{3, 3, 1, 1, 0, 1, 1, PS_PAD_SAME}, PS_ERR_INVALID, "window 0"},
        {{3, 3, 1, 1, 1, 0, 1, PS_PAD_SAME}, PS_ERR_INVALID, "stride 0"},
        {{3, 3, 1, 1, 1, 1, 1, (enum ps_padding)2}, PS_ERR_INVALID, "padding 2"},
        {{3, 3, 1, 1, 4, 1, 1, PS_PAD_VALID}, PS_ERR_INVALID, "window of 4 does not fit into a width of 3"},
        {{65536, 32768, 1, 1, 1, 1, 1, PS_PAD_SAME}, PS_ERR_LIMIT, "an input of 65536 x 32768 x 1"},
    };
    struct ps_error error;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(ps_pool2d_check(&bad[i].p, &error), bad[i].err);
        ck_assert_msg(strstr(error.text, bad[i].says) != NULL, "%zu: %s", i, error.text);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_pool");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, max_pool_is_the_largest_and_its_gradient_goes_there);
    tcase_add_test(tc, avg_pool_is_the_mean_and_its_gradient_is_shared);
    tcase_add_test(tc, max_pool_gives_the_figures_computed_by_hand);
    tcase_add_test(tc, avg_pool_gives_the_figures_computed_by_hand);
    tcase_add_test(tc, max_pool_takes_the_first_of_equals_and_does_not_hide_nan);
    tcase_add_test(tc, pools_give_the_same_bits_every_time_and_nothing_without_rows);
    tcase_add_test(tc, pools_that_cannot_be_are_refused_with_the_reason);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
