/* Sigmoid and cross-entropy: against the two logarithms in double, gradient against differences, figures by hand, and
 * where the logarithms themselves would fail. */
#include "tests/unit/client/device/device_kit.h"

struct questions {
    size_t rows, n;
    float scale;
    double *x;
    const float *targets;
};

static double
reference_row(const struct questions *q, size_t r)
{
    double sum = 0;

    for (size_t i = r * q->n; i < (r + 1) * q->n; i++) {
        double s = 1 / (1 + exp(-q->x[i])), t = (double)q->targets[i];

        sum -= t * log(s) + (1 - t) * log(1 - s);
    }
    return sum;
}

static double
reference_loss(void *context)
{
    struct questions *q = context;
    double sum = 0;

    for (size_t r = 0; r < q->rows; r++)
        sum += (double)q->scale * reference_row(q, r);
    return sum;
}

static void
check_sigmoid_cross_entropy(size_t rows, size_t n)
{
    float *x = random_floats(rows * n), *targets = random_floats(rows * n), *dx = nan_floats(rows * n);
    float *loss = nan_floats(rows), *loss_only = nan_floats(rows);
    struct questions q = {rows, n, 0.25f, NULL, targets};

    for (size_t i = 0; i < rows * n; i++) {
        x[i] *= 6;
        targets[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : targets[i] / 2 + 0.5f;
    }
    q.x = doubles_of(x, rows * n);
    ps_sigmoid_cross_entropy(device, rows, n, x, targets, 0.25f, loss, dx);
    ps_sigmoid_cross_entropy(device, rows, n, x, targets, 0.25f, loss_only, NULL);
    assert_same_bits(loss, loss_only, rows);
    for (size_t r = 0; r < rows; r++)
        assert_near((double)loss[r], reference_row(&q, r), 1, "loss", r);
    assert_gradient(rows * n, q.x, dx, reference_loss, &q, 1, "dx");
    ps_sigmoid_cross_entropy(device, rows, n, x, targets, 0.25f, loss, x); /* in place */
    assert_same_bits(x, dx, rows * n);
}

START_TEST(sigmoid_cross_entropy_agrees_with_double_and_its_gradient_with_differences)
{
    static const size_t columns[] = {1, 2, 16, 17, 251}, rows[] = {65, 7, 1, 3, 4};

    for (size_t k = 0; k < ARRAY_LEN(columns); k++)
        check_sigmoid_cross_entropy(rows[k], columns[k]);
}
END_TEST

START_TEST(sigmoid_cross_entropy_gives_the_figures_computed_by_hand)
{
    float x[4] = {0, 0, 1, -1}, targets[4] = {1, 0.25f, 1, 1}, loss[2], dx[4];

    ps_sigmoid_cross_entropy(device, 2, 2, x, targets, 2, loss, dx);
    assert_all_near(2, loss, (const double[]){1.3862943611, 0.3132616875 + 1.3132616875}, 1, "loss"); /* 2 ln 2 */
    assert_all_near(4, dx, (const double[]){-1, 0.5, -0.5378828427, -1.4621171573}, 1, "dx");
}
END_TEST

START_TEST(sigmoid_cross_entropy_stands_large_values_and_does_not_hide_nan)
{
    float x[7] = {1000, 1000, -1000, -1000, 1e38f, -1e38f, NAN}, targets[7] = {1, 0, 1, 0, 1, 0, 1}, loss[7], dx[7];

    ps_sigmoid_cross_entropy(device, 7, 1, x, targets, 1, loss, dx);
    assert_same_bits(loss, (const float[]){0, 1000, 1000, 0, 0, 0}, 6);
    assert_same_bits(dx, (const float[]){0, 1, -1, 0, 0, 0}, 6);
    ck_assert(isnan(loss[6]) && isnan(dx[6]));
    ps_sigmoid_cross_entropy(device, 0, 3, NULL, NULL, 1, NULL, NULL);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_loss");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, sigmoid_cross_entropy_agrees_with_double_and_its_gradient_with_differences);
    tcase_add_test(tc, sigmoid_cross_entropy_gives_the_figures_computed_by_hand);
    tcase_add_test(tc, sigmoid_cross_entropy_stands_large_values_and_does_not_hide_nan);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
