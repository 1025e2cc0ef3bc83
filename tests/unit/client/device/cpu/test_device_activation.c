/* Sigmoid, GELU and layer normalization against references in double, their gradients against differences, figures by
 * hand, and large numbers. */
#include "tests/unit/client/device/device_kit.h"

static const size_t lengths[] = {1, 7, 64, 65, 10007};

/* ---- Element by element ---- */

typedef void forward_fn(ps_device *, size_t n, const float *x, float *y);
typedef void backward_fn(ps_device *, size_t n, const float *saved, const float *dy, float *dx);

struct device_activation_activation {
    double (*reference)(double x);
    forward_fn *forward;
    backward_fn *backward;
    bool by_output; /* backward wants y, not x */
};

static double
reference_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double
reference_gelu(double x)
{
    return x * (1 + erf(x / sqrt(2))) / 2;
}

static const struct device_activation_activation sigmoid = {reference_sigmoid, ps_sigmoid_forward, ps_sigmoid_backward,
                                                            true};
static const struct device_activation_activation gelu = {reference_gelu, ps_gelu_forward, ps_gelu_backward, false};

static void
check_activation(const struct device_activation_activation *a, size_t n)
{
    float *x = random_floats(n), *y = nan_floats(n), *dy = random_floats(n), *dx = nan_floats(n);
    float *saved = a->by_output ? y : x;
    const double h = 1e-5;

    for (size_t i = 0; i < n; i++)
        x[i] *= 5;
    a->forward(device, n, x, y);
    a->backward(device, n, saved, dy, dx);
    for (size_t i = 0; i < n; i++) {
        double slope = (a->reference((double)x[i] + h) - a->reference((double)x[i] - h)) / (2 * h);

        assert_near((double)y[i], a->reference((double)x[i]), 1, "y", i);
        assert_near((double)dx[i], (double)dy[i] * slope, 1, "dx", i);
    }
    a->backward(device, n, saved, dy, dy); /* in place */
    assert_same_bits(dy, dx, n);
    a->forward(device, n, x, x);
    assert_same_bits(x, y, n);
}

START_TEST(sigmoid_agrees_with_double_and_its_gradient_with_differences)
{
    for (size_t k = 0; k < ARRAY_LEN(lengths); k++)
        check_activation(&sigmoid, lengths[k]);
}
END_TEST

START_TEST(gelu_agrees_with_double_and_its_gradient_with_differences)
{
    for (size_t k = 0; k < ARRAY_LEN(lengths); k++)
        check_activation(&gelu, lengths[k]);
}
END_TEST

/* Wherever an element lies in its tensor, its result is the same: a slice has the bits of the whole. */
START_TEST(activations_give_each_element_the_same_bits_wherever_it_lies)
{
    const struct device_activation_activation *all[] = {&sigmoid, &gelu};
    size_t n = 101;
    float *x = random_floats(n), *y = nan_floats(n), *dx = nan_floats(n), one_y, one_dx;

    for (size_t k = 0; k < ARRAY_LEN(all); k++) {
        all[k]->forward(device, n, x, y);
        all[k]->backward(device, n, all[k]->by_output ? y : x, x, dx);
        for (size_t i = 0; i < n; i++) {
            all[k]->forward(device, 1, x + i, &one_y);
            all[k]->backward(device, 1, all[k]->by_output ? &one_y : x + i, x + i, &one_dx);
            ck_assert(one_y == y[i] && one_dx == dx[i]);
        }
        all[k]->forward(device, 0, NULL, NULL);
        all[k]->backward(device, 0, NULL, NULL, NULL);
    }
}
END_TEST

/* Hendrycks and Gimpel's figure at 1 is the normal distribution's, 0.841345, as every table has it. */
START_TEST(activations_give_the_figures_computed_by_hand)
{
    float x[3] = {0, 1, -1}, y[3], dx[3], ones[3] = {1, 1, 1};

    ps_sigmoid_forward(device, 3, x, y);
    ps_sigmoid_backward(device, 3, y, ones, dx);
    assert_all_near(3, y, (const double[]){0.5, 0.7310585786, 0.2689414214}, 1, "sigmoid");
    assert_all_near(3, dx, (const double[]){0.25, 0.1966119332, 0.1966119332}, 1, "its slope");
    ps_gelu_forward(device, 3, x, y);
    ps_gelu_backward(device, 3, x, ones, dx);
    assert_all_near(3, y, (const double[]){0, 0.8413447461, -0.1586552539}, 1, "gelu");
    assert_all_near(3, dx, (const double[]){0.5, 1.0833154706, -0.0833154706}, 1, "its slope");
}
END_TEST

START_TEST(activations_stand_large_values_and_do_not_hide_nan)
{
    float x[] = {100, -100, 1e30f, -1e30f, FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN}, y[9], dx[9], ones[9];

    for (size_t i = 0; i < 9; i++)
        ones[i] = 1;
    ps_sigmoid_forward(device, 9, x, y);
    ps_sigmoid_backward(device, 9, y, ones, dx);
    for (size_t i = 0; i < 8; i++) {
        ck_assert(y[i] == (x[i] > 0 ? 1 : y[i]) && y[i] >= 0 && y[i] <= 1e-40f + (x[i] > 0));
        ck_assert(dx[i] >= 0 && dx[i] <= 1e-40f);
    }
    ck_assert(isnan(y[8]) && isnan(dx[8]));
    ps_gelu_forward(device, 9, x, y);
    ps_gelu_backward(device, 9, x, ones, dx);
    for (size_t i = 0; i < 8; i++) {
        ck_assert(y[i] == (x[i] > 0 ? x[i] : 0));
        ck_assert(dx[i] == (x[i] > 0 ? 1 : 0));
    }
    ck_assert(isnan(y[8]) && isnan(dx[8]));
}
END_TEST

/* ---- Layer normalization ---- */

struct norm {
    size_t rows, n;
    double epsilon;
    double *x, *gamma, *beta, *y;
    const float *dy;
};

static void
reference_norm(const struct norm *p)
{
    for (size_t r = 0; r < p->rows; r++) {
        const double *x = p->x + r * p->n;
        double mean = 0, square = 0;

        for (size_t i = 0; i < p->n; i++)
            mean += x[i] / (double)p->n;
        for (size_t i = 0; i < p->n; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)p->n;
        for (size_t i = 0; i < p->n; i++)
            p->y[r * p->n + i] = p->gamma[i] * (x[i] - mean) / sqrt(square + p->epsilon) + p->beta[i];
    }
}

static double
norm_loss(void *context)
{
    struct norm *p = context;

    reference_norm(p);
    return weighted_sum(p->rows * p->n, p->dy, p->y);
}

static void
check_norm(size_t rows, size_t n, float epsilon)
{
    float *x = random_floats(rows * n), *gamma = random_floats(n), *beta = random_floats(n);
    float *y = nan_floats(rows * n), *mean = nan_floats(rows), *rstd = nan_floats(rows);
    float *dy = random_floats(rows * n), *dx = nan_floats(rows * n), *dgamma = nan_floats(n), *dbeta = nan_floats(n);
    struct norm p = {rows,
                     n,
                     (double)epsilon,
                     doubles_of(x, rows * n),
                     doubles_of(gamma, n),
                     doubles_of(beta, n),
                     device_take(rows * n * sizeof(double)),
                     dy};

    ps_layer_norm_forward(device, rows, n, x, gamma, beta, epsilon, y, mean, rstd);
    ps_layer_norm_backward(device, rows, n, x, gamma, mean, rstd, dy, dx, dgamma, dbeta);
    reference_norm(&p);
    assert_all_near(rows * n, y, p.y, 10, "y");
    assert_gradient(rows * n, p.x, dx, norm_loss, &p, 30, "dx");
    assert_gradient(n, p.gamma, dgamma, norm_loss, &p, rows, "dgamma");
    assert_gradient(n, p.beta, dbeta, norm_loss, &p, rows, "dbeta");
    ps_layer_norm_backward(device, rows, n, x, gamma, mean, rstd, dy, NULL, dgamma, dbeta);
    ps_layer_norm_backward(device, rows, n, x, gamma, mean, rstd, dy, dy, dgamma, dbeta); /* in place, and again */
    assert_same_bits(dy, dx, rows * n);
    ps_layer_norm_forward(device, rows, n, x, gamma, beta, epsilon, x, mean, rstd);
    assert_same_bits(x, y, rows * n);
}

START_TEST(layer_norm_agrees_with_double_and_its_gradients_with_differences)
{
    static const size_t columns[] = {2, 7, 16, 65, 300}, rows[] = {1, 3, 65, 2, 4};

    for (size_t k = 0; k < ARRAY_LEN(columns); k++)
        check_norm(rows[k], columns[k], 1e-2f);
}
END_TEST

/* Mean 2, deviations -1, 1, 1, -1: the variance is 1. */
START_TEST(layer_norm_gives_the_figures_computed_by_hand)
{
    float x[4] = {1, 3, 3, 1}, gamma[4] = {1, 2, 3, 4}, beta[4] = {0, 0, 1, 1}, y[4], mean, rstd, dx[4], dgamma[4];
    float dbeta[4], dy[4] = {4, 0, 0, 0};

    ps_layer_norm_forward(device, 1, 4, x, gamma, beta, 0, y, &mean, &rstd);
    ck_assert(mean == 2 && rstd == 1);
    assert_same_bits(y, (const float[]){-1, 2, 4, -3}, 4);
    ps_layer_norm_backward(device, 1, 4, x, gamma, &mean, &rstd, dy, dx, dgamma, dbeta);
    assert_same_bits(dx, (const float[]){2, 0, 0, -2}, 4); /* g - 1 + h, g = 4, 0, 0, 0 */
    ck_assert(dgamma[0] == -4 && dgamma[1] == 0 && dgamma[2] == 0 && dgamma[3] == 0);
    assert_same_bits(dbeta, dy, 4);
}
END_TEST

/* 10^4 and small steps: a variance computed as the mean square minus the square of the mean would be noise. */
START_TEST(layer_norm_sees_small_steps_of_large_numbers)
{
    float x[64], ones[64], zeros[64] = {0}, y[64], mean, rstd;

    for (size_t i = 0; i < 64; i++) {
        x[i] = 10000 + (i % 2 == 0 ? 0.0625f : -0.0625f);
        ones[i] = 1;
    }
    ps_layer_norm_forward(device, 1, 64, x, ones, zeros, 0, y, &mean, &rstd);
    ck_assert(mean == 10000 && rstd == 16);
    for (size_t i = 0; i < 64; i++)
        ck_assert(y[i] == (i % 2 == 0 ? 1 : -1));
}
END_TEST

START_TEST(layer_norm_without_rows_has_gradients_of_zero)
{
    float *dgamma = random_floats(3), *dbeta = random_floats(3);

    ps_layer_norm_forward(device, 0, 3, NULL, NULL, NULL, 1e-5f, NULL, NULL, NULL);
    ps_layer_norm_backward(device, 0, 3, NULL, NULL, NULL, NULL, NULL, NULL, dgamma, dbeta);
    assert_zero(dgamma, 3);
    assert_zero(dbeta, 3);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_activation");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, sigmoid_agrees_with_double_and_its_gradient_with_differences);
    tcase_add_test(tc, gelu_agrees_with_double_and_its_gradient_with_differences);
    tcase_add_test(tc, activations_give_each_element_the_same_bits_wherever_it_lies);
    tcase_add_test(tc, activations_give_the_figures_computed_by_hand);
    tcase_add_test(tc, activations_stand_large_values_and_do_not_hide_nan);
    tcase_add_test(tc, layer_norm_agrees_with_double_and_its_gradients_with_differences);
    tcase_add_test(tc, layer_norm_gives_the_figures_computed_by_hand);
    tcase_add_test(tc, layer_norm_sees_small_steps_of_large_numbers);
    tcase_add_test(tc, layer_norm_without_rows_has_gradients_of_zero);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
