/* The CPU device: every operation against a plain reference in double precision, at awkward sizes; backward passes also
 * against numeric differentiation of the forward reference. */
#include <sched.h>

#include "client/device/cpu/device_cpu_blas.h"
#include "tests/unit/client/device/device_kit.h"

static const size_t sizes[] = {1, 7, 64, 65, 251};

/* ---- Dense ---- */

static double
reference_dense(size_t r, size_t c, size_t in, size_t out, const float *x, const float *w, const float *b)
{
    double sum = b != NULL ? (double)b[c] : 0;

    for (size_t i = 0; i < in; i++)
        sum += (double)x[r * in + i] * (double)w[i * out + c];
    return sum;
}

static void
check_dense_forward(size_t rows, size_t in, size_t out, bool with_bias)
{
    float *x = random_floats(rows * in), *w = random_floats(in * out), *b = random_floats(out);
    float *y = random_floats(rows * out);

    for (size_t i = 0; i < rows * out; i++)
        y[i] = NAN; /* the previous contents must not matter */
    ps_dense_forward(device, rows, in, out, x, w, with_bias ? b : NULL, y);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < out; c++)
            assert_near((double)y[r * out + c], reference_dense(r, c, in, out, x, w, with_bias ? b : NULL), in, "y",
                        r * out + c);
}

START_TEST(dense_forward_is_x_w_plus_b)
{
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (size_t j = 0; j < ARRAY_LEN(sizes); j++) {
            check_dense_forward(sizes[i], sizes[j], sizes[(i + j) % ARRAY_LEN(sizes)], true);
            check_dense_forward(sizes[j], sizes[(i + j) % ARRAY_LEN(sizes)], sizes[i], false);
        }
}
END_TEST

static void
check_dense_backward(size_t rows, size_t in, size_t out)
{
    float *x = random_floats(rows * in), *w = random_floats(in * out), *dy = random_floats(rows * out);
    float *dx = random_floats(rows * in), *dw = random_floats(in * out), *db = random_floats(out);
    double want;

    dx[0] = dw[0] = db[0] = NAN;
    ps_dense_backward(device, rows, in, out, x, w, dy, dx, dw, db);
    for (size_t i = 0; i < in; i++)
        for (size_t c = 0; c < out; c++) {
            want = 0;
            for (size_t r = 0; r < rows; r++)
                want += (double)x[r * in + i] * (double)dy[r * out + c];
            assert_near((double)dw[i * out + c], want, rows, "dw", i * out + c);
        }
    for (size_t c = 0; c < out; c++) {
        want = 0;
        for (size_t r = 0; r < rows; r++)
            want += (double)dy[r * out + c];
        assert_near((double)db[c], want, rows, "db", c);
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < in; i++) {
            want = 0;
            for (size_t c = 0; c < out; c++)
                want += (double)dy[r * out + c] * (double)w[i * out + c];
            assert_near((double)dx[r * in + i], want, out, "dx", r * in + i);
        }
}

START_TEST(dense_backward_is_the_transposed_products)
{
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (size_t j = 0; j < ARRAY_LEN(sizes); j++)
            check_dense_backward(sizes[i], sizes[j], sizes[(i + j) % ARRAY_LEN(sizes)]);
}
END_TEST

/* Loss = sum(dy * y): its derivatives by x, w and b, numerically and in double, are what backward returns. */
START_TEST(dense_backward_agrees_with_numeric_differentiation)
{
    enum { ROWS = 3, IN = 5, OUT = 4 };
    float *x = random_floats(ROWS * IN), *w = random_floats(IN * OUT), *b = random_floats(OUT);
    float *dy = random_floats(ROWS * OUT), *dx = random_floats(ROWS * IN), *dw = random_floats(IN * OUT);
    float *db = random_floats(OUT);
    struct {
        float *values, *gradient;
        size_t n;
    } by[] = {{x, dx, ROWS * IN}, {w, dw, IN * OUT}, {b, db, OUT}};

    ps_dense_backward(device, ROWS, IN, OUT, x, w, dy, dx, dw, db);
    for (size_t k = 0; k < ARRAY_LEN(by); k++)
        for (size_t i = 0; i < by[k].n; i++) {
            float kept = by[k].values[i], step = 0x1p-7f; /* linear in each: any step is exact but for rounding */
            double loss[2] = {0, 0};

            for (int side = 0; side < 2; side++) {
                by[k].values[i] = kept + (side == 0 ? -step : step);
                for (size_t r = 0; r < ROWS; r++)
                    for (size_t c = 0; c < OUT; c++)
                        loss[side] += (double)dy[r * OUT + c] * reference_dense(r, c, IN, OUT, x, w, b);
            }
            by[k].values[i] = kept;
            assert_near((double)by[k].gradient[i], (loss[1] - loss[0]) / (2 * (double)step), 100, "gradient", i);
        }
}
END_TEST

START_TEST(dense_without_rows_has_gradients_of_zero)
{
    float *dw = random_floats(6), *db = random_floats(3), untouched = 5;

    ps_dense_forward(device, 0, 2, 3, NULL, dw, db, &untouched);
    ps_dense_backward(device, 0, 2, 3, NULL, dw, NULL, NULL, dw, db);
    ck_assert(untouched == 5);
    for (size_t i = 0; i < 6; i++)
        ck_assert(dw[i] == 0);
    for (size_t i = 0; i < 3; i++)
        ck_assert(db[i] == 0);
}
END_TEST

/* Contents left by another computation, the buffers' addresses, repetition: none of these may change a bit. */
START_TEST(dense_gives_the_same_bits_every_time)
{
    enum { ROWS = 37, IN = 64, OUT = 129 };
    float *x = random_floats(ROWS * IN), *w = random_floats(IN * OUT), *dy = random_floats(ROWS * OUT);
    float *moved = random_floats(ROWS * IN + 1), *first = random_floats(IN * OUT), *again = random_floats(IN * OUT);
    float *y = random_floats(ROWS * OUT), *y_again = random_floats(ROWS * OUT);

    memcpy(moved + 1, x, ROWS * IN * sizeof *x); /* 4-byte aligned only */
    ps_dense_forward(device, ROWS, IN, OUT, x, w, NULL, y);
    ps_dense_backward(device, ROWS, IN, OUT, x, w, dy, NULL, first, NULL);
    for (int i = 0; i < 20; i++) {
        check_dense_forward(1 + (size_t)test_below(&rng, 50), 33, 20, true);
        ps_dense_forward(device, ROWS, IN, OUT, moved + 1, w, NULL, y_again);
        ps_dense_backward(device, ROWS, IN, OUT, moved + 1, w, dy, NULL, again, NULL);
        ck_assert_int_eq(memcmp(first, again, IN * OUT * sizeof *first), 0);
        ck_assert_int_eq(memcmp(y, y_again, ROWS * OUT * sizeof *y), 0);
    }
}
END_TEST

/* ---- Activations ---- */

static const size_t lengths[] = {1, 7, 64, 65, 10007};

START_TEST(relu_keeps_what_is_positive_and_passes_its_gradient)
{
    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        size_t n = lengths[k];
        float *x = random_floats(n), *y = random_floats(n), *dy = random_floats(n), *dx = random_floats(n);

        x[0] = k % 2 == 0 ? 0.0f : -0.0f;
        ps_relu_forward(device, n, x, y);
        ps_relu_backward(device, n, y, dy, dx);
        for (size_t i = 0; i < n; i++) {
            ck_assert(y[i] == (x[i] > 0 ? x[i] : 0));
            ck_assert(dx[i] == (x[i] > 0 ? dy[i] : 0));
        }
        ps_relu_forward(device, n, x, x); /* in place */
        ps_relu_backward(device, n, x, dy, dy);
        ck_assert_int_eq(memcmp(x, y, n * sizeof *x), 0);
        ck_assert_int_eq(memcmp(dx, dy, n * sizeof *x), 0);
    }
}
END_TEST

START_TEST(relu_does_not_hide_nan)
{
    float x[3] = {NAN, 1, -1}, y[3];

    ps_relu_forward(device, 3, x, y);
    ck_assert(isnan(y[0]) && y[1] == 1 && y[2] == 0);
}
END_TEST

START_TEST(tanh_agrees_with_double_and_its_gradient_with_differences)
{
    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        size_t n = lengths[k];
        float *x = random_floats(n), *y = random_floats(n), *dy = random_floats(n), *dx = random_floats(n);

        for (size_t i = 0; i < n; i++)
            x[i] *= 4;
        ps_tanh_forward(device, n, x, y);
        ps_tanh_backward(device, n, y, dy, dx);
        for (size_t i = 0; i < n; i++) {
            double h = 1e-5, slope = (tanh((double)x[i] + h) - tanh((double)x[i] - h)) / (2 * h);

            assert_near((double)y[i], tanh((double)x[i]), 1, "y", i);
            assert_near((double)dx[i], (double)dy[i] * slope, 1, "dx", i);
        }
    }
}
END_TEST

/* ---- Classification ---- */

/* -log softmax(x)[label] in double. */
static double
reference_loss(size_t classes, const double *x, uint32_t label)
{
    double max = x[0], sum = 0;

    for (size_t c = 0; c < classes; c++)
        max = fmax(max, x[c]);
    for (size_t c = 0; c < classes; c++)
        sum += exp(x[c] - max);
    return log(sum) + max - x[label];
}

static void
check_cross_entropy(size_t rows, size_t classes)
{
    float *x = random_floats(rows * classes), *p = random_floats(rows * classes), *dx = random_floats(rows * classes);
    float *loss = random_floats(rows), *loss_only = random_floats(rows), scale = 0.25f;
    uint32_t *labels = calloc(rows, sizeof *labels);
    double row[512], h = 1e-5, side[2];

    for (size_t i = 0; i < rows * classes; i++)
        x[i] *= 5;
    for (size_t r = 0; r < rows; r++)
        labels[r] = (uint32_t)test_below(&rng, classes);
    ps_softmax(device, rows, classes, x, p);
    ps_softmax_cross_entropy(device, rows, classes, x, labels, scale, loss, dx);
    ps_softmax_cross_entropy(device, rows, classes, x, labels, scale, loss_only, NULL);
    ck_assert_int_eq(memcmp(loss, loss_only, rows * sizeof *loss), 0);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < classes; c++)
            row[c] = (double)x[r * classes + c];
        assert_near((double)loss[r], reference_loss(classes, row, labels[r]), 10, "loss", r);
        for (size_t c = 0; c < classes; c++) {
            for (int i = 0; i < 2; i++) {
                row[c] = (double)x[r * classes + c] + (i == 0 ? -h : h);
                side[i] = reference_loss(classes, row, labels[r]);
            }
            row[c] = (double)x[r * classes + c];
            assert_near((double)dx[r * classes + c], (double)scale * (side[1] - side[0]) / (2 * h), 1, "dx", c);
            assert_near((double)p[r * classes + c], exp(-reference_loss(classes, row, (uint32_t)c)), 1, "p", c);
        }
    }
    ps_softmax_cross_entropy(device, rows, classes, x, labels, scale, loss, x); /* in place */
    ck_assert_int_eq(memcmp(x, dx, rows * classes * sizeof *x), 0);
    free(labels);
}

START_TEST(cross_entropy_agrees_with_double_and_its_gradient_with_differences)
{
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (size_t j = 0; j < ARRAY_LEN(sizes); j++)
            check_cross_entropy(sizes[i], sizes[j]);
}
END_TEST

START_TEST(softmax_stands_large_values)
{
    float x[6] = {1e4f, 0, -1e4f, -1e30f, -2e30f, -1e30f}, p[6], loss[2];
    uint32_t labels[2] = {0, 1};

    ps_softmax(device, 2, 3, x, p);
    ck_assert(p[0] == 1 && p[1] == 0 && p[2] == 0);
    ck_assert(p[3] == 0.5f && p[4] == 0 && p[5] == 0.5f);
    ps_softmax_cross_entropy(device, 2, 3, x, labels, 1, loss, NULL);
    ck_assert(loss[0] == 0 && isfinite(loss[1]) && loss[1] > 9e29f);
}
END_TEST

START_TEST(a_nan_in_the_outputs_reaches_loss_and_gradient)
{
    float x[3] = {1, NAN, 2}, dx[3], loss;
    uint32_t label = 0;

    ps_softmax_cross_entropy(device, 1, 3, x, &label, 1, &loss, dx);
    ck_assert(isnan(loss) && isnan(dx[0]) && isnan(dx[1]) && isnan(dx[2]));
}
END_TEST

START_TEST(argmax_takes_the_first_of_equals)
{
    float x[] = {0, 3, 3, 1, -5, -1, -1, -7};
    uint32_t best[2] = {9, 9}, labels[2] = {1, 2};
    size_t count;

    ps_argmax(device, 2, 4, x, best);
    ck_assert_uint_eq(best[0], 1);
    ck_assert_uint_eq(best[1], 1);
    ck_assert_int_eq(ps_count_equal(device, 2, best, labels, &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(ps_count_equal(device, 0, NULL, NULL, &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 0);
}
END_TEST

/* ---- Memory and opening ---- */

START_TEST(memory_is_zeroed_aligned_and_copied)
{
    float source[33], back[33];
    void *a, *b;

    for (size_t i = 0; i < 33; i++)
        source[i] = (float)i;
    ck_assert_int_eq(ps_device_alloc(device, sizeof source, &a, NULL), PS_OK);
    ck_assert_int_eq(ps_device_alloc(device, sizeof source, &b, NULL), PS_OK);
    ck_assert_uint_eq((uintptr_t)a % 64, 0);
    for (size_t i = 0; i < 33; i++)
        ck_assert(((float *)a)[i] == 0);
    ps_device_upload(device, a, source, sizeof source);
    ps_device_copy(device, b, a, sizeof source);
    ck_assert_int_eq(ps_device_download(device, back, b, sizeof back, NULL), PS_OK);
    ck_assert_int_eq(memcmp(source, back, sizeof back), 0);
    ck_assert_int_eq(ps_device_finish(device, NULL), PS_OK);
    ps_device_free(device, a);
    ps_device_free(device, b);
    ps_device_free(device, NULL);
}
END_TEST

START_TEST(too_much_memory_is_an_error_that_says_how_much)
{
    struct ps_error error;
    void *out = NULL;

    ck_assert_int_eq(ps_device_alloc(device, SIZE_MAX - 3, &out, &error), PS_ERR_NOMEM);
    ck_assert_ptr_nonnull(strstr(error.text, "18446744073709551612"));
}
END_TEST

START_TEST(cuda_without_its_module_is_refused)
{
    struct ps_error error;
    ps_device *out = NULL;

    setenv("PSD_CUDA_MODULE", "/nonexistent/module.so", 1);
    ck_assert_int_eq(ps_device_open("cuda", NULL, &out, &error), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "cuda"));
    ck_assert_ptr_null(out);
}
END_TEST

START_TEST(an_unknown_device_lists_those_there_are)
{
    struct ps_error error;
    struct ps_device_options negative = {.threads = -1};
    ps_device *out = NULL;

    ck_assert_int_eq(ps_device_open("tpu", NULL, &out, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "\"tpu\""));
    ck_assert_ptr_nonnull(strstr(error.text, "cpu, cuda"));
    ck_assert_int_eq(ps_device_open(NULL, NULL, &out, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_device_open("cpu", &negative, &out, &error), PS_ERR_INVALID);
}
END_TEST

static int
threads_of(int threads, int workers)
{
    struct ps_device_options options = {.threads = threads, .workers = workers};
    ps_device *d;
    int got;

    ck_assert_int_eq(ps_device_open("cpu", &options, &d, NULL), PS_OK);
    got = ps_device_threads(d);
    ps_device_close(d);
    return got;
}

START_TEST(threads_are_cores_over_workers_unless_told)
{
    cpu_set_t set;
    int cores;

    unsetenv("OPENBLAS_NUM_THREADS");
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    cores = CPU_COUNT(&set);
    ck_assert_int_eq(threads_of(0, 1), cores);
    ck_assert_int_eq(threads_of(0, 2), MAX(1, cores / 2));
    ck_assert_int_eq(threads_of(0, 1000), 1);
    ck_assert_int_eq(threads_of(2, 1000), 2);
    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* whatever was set before */
    ck_assert_int_eq(threads_of(0, 1), 1);
    setenv("OPENBLAS_NUM_THREADS", "2", 1);
    ck_assert_int_eq(threads_of(0, 1000), 2);
}
END_TEST

START_TEST(the_description_names_library_and_threads)
{
    ck_assert_str_eq(ps_device_name(device), "cpu");
    ck_assert_ptr_nonnull(strstr(ps_device_describe(device), "OpenBLAS"));
    ck_assert_ptr_nonnull(strstr(ps_device_describe(device), "1 thread"));
    ck_assert_int_ne(ps_device_is_host(device), 0);
    ps_device_close(NULL);
}
END_TEST

/* Debian 12's OpenBLAS takes new Xeons for a Prescott. */
START_TEST(kernels_of_an_old_processor_are_named_with_what_to_do)
{
    static const char *const old[] = {"Prescott", "prescott", "Generic", "Nehalem"}, *const fit[] = {"SkylakeX",
                                                                                                     "Cooperlake",
                                                                                                     "Haswell",
                                                                                                     "Zen",
                                                                                                     "SapphireRapids",
                                                                                                     "NEOVERSEN1"};
    struct ps_device_options options = {.threads = 1};
    ps_device *d;

    for (size_t i = 0; i < ARRAY_LEN(old); i++) {
        ck_assert(strstr(device_cpu_blas_advice(old[i], ISA_AVX512, false), "OPENBLAS_CORETYPE=SkylakeX") != NULL);
        ck_assert(strstr(device_cpu_blas_advice(old[i], ISA_AVX2, false), "OPENBLAS_CORETYPE=Haswell") != NULL);
        ck_assert_str_eq(device_cpu_blas_advice(old[i], ISA_PLAIN, false), ""); /* it is one */
        ck_assert_str_eq(device_cpu_blas_advice(old[i], ISA_AVX512, true), "");
    }
    for (size_t i = 0; i < ARRAY_LEN(fit); i++)
        ck_assert_str_eq(device_cpu_blas_advice(fit[i], ISA_AVX512, false), "");
    ck_assert_int_eq(ps_device_open("cpu", &options, &d, NULL), PS_OK);
    ck_assert_uint_lt(strlen(ps_device_describe(d)) + strlen(device_cpu_blas_advice("Prescott", ISA_AVX512, false)),
                      127);
    ps_device_close(d);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, kernels_of_an_old_processor_are_named_with_what_to_do);
    tcase_add_test(tc, dense_forward_is_x_w_plus_b);
    tcase_add_test(tc, dense_backward_is_the_transposed_products);
    tcase_add_test(tc, dense_backward_agrees_with_numeric_differentiation);
    tcase_add_test(tc, dense_without_rows_has_gradients_of_zero);
    tcase_add_test(tc, dense_gives_the_same_bits_every_time);
    tcase_add_test(tc, relu_keeps_what_is_positive_and_passes_its_gradient);
    tcase_add_test(tc, relu_does_not_hide_nan);
    tcase_add_test(tc, tanh_agrees_with_double_and_its_gradient_with_differences);
    tcase_add_test(tc, cross_entropy_agrees_with_double_and_its_gradient_with_differences);
    tcase_add_test(tc, softmax_stands_large_values);
    tcase_add_test(tc, a_nan_in_the_outputs_reaches_loss_and_gradient);
    tcase_add_test(tc, argmax_takes_the_first_of_equals);
    tcase_add_test(tc, memory_is_zeroed_aligned_and_copied);
    tcase_add_test(tc, too_much_memory_is_an_error_that_says_how_much);
    tcase_add_test(tc, cuda_without_its_module_is_refused);
    tcase_add_test(tc, an_unknown_device_lists_those_there_are);
    tcase_add_test(tc, threads_are_cores_over_workers_unless_told);
    tcase_add_test(tc, the_description_names_library_and_threads);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
