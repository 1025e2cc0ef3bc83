/* The perceptron: gradients against numeric differentiation of a reference in double, the same bits for a slice in
 * whatever process, learning; each also on a device whose memory is not the host's. */
#include "client/ps_mlp.h"

#include <math.h>
#include <string.h>

#include "client/device.h"
#include "client/ps_data.h"
#include "common/base.h"
#include "tests/unit/check_main.h"

/* ---- A device with memory of its own: the CPU's operations, all its pointers checked to be its own ---- */

enum { AREAS_MAX = 256 };
static struct {
    char *start;
    size_t size;
} areas[AREAS_MAX];
static size_t uploads, downloads;
static ps_device *cpu;
static struct device_ops apart_ops;
static ps_device apart;

static bool
is_device_memory(const void *p)
{
    for (size_t i = 0; i < AREAS_MAX; i++)
        if (areas[i].start != NULL && (const char *)p >= areas[i].start &&
            (const char *)p < areas[i].start + areas[i].size)
            return true;
    return false;
}

static void *
apart_alloc(ps_device *d, size_t size)
{
    for (size_t i = 0; i < AREAS_MAX; i++)
        if (areas[i].start == NULL) {
            areas[i].size = size;
            return areas[i].start = cpu->ops->alloc(d, size);
        }
    return NULL;
}

static void
apart_free(ps_device *d, void *memory)
{
    for (size_t i = 0; i < AREAS_MAX; i++)
        if (areas[i].start == memory)
            areas[i].start = NULL;
    cpu->ops->free(d, memory);
}

static void
apart_upload(ps_device *d, void *to, const void *from, size_t size)
{
    ck_assert(is_device_memory(to) && !is_device_memory(from));
    uploads++;
    cpu->ops->upload(d, to, from, size);
}

static enum ps_err
apart_download(ps_device *d, void *to, const void *from, size_t size, struct ps_error *e)
{
    ck_assert(!is_device_memory(to) && is_device_memory(from));
    downloads++;
    return cpu->ops->download(d, to, from, size, e);
}

static void
apart_dense_forward(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *b,
                    float *y)
{
    ck_assert(is_device_memory(x) && is_device_memory(w) && is_device_memory(b) && is_device_memory(y));
    cpu->ops->dense_forward(d, rows, in, out, x, w, b, y);
}

static void
apart_dense_backward(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *dy,
                     float *dx, float *dw, float *db)
{
    ck_assert(is_device_memory(x) && is_device_memory(w) && is_device_memory(dy) && is_device_memory(dw) &&
              is_device_memory(db) && (dx == NULL || is_device_memory(dx)));
    cpu->ops->dense_backward(d, rows, in, out, x, w, dy, dx, dw, db);
}

static void
setup(void)
{
    struct ps_device_options options = {.threads = 1};

    ck_assert_int_eq(ps_device_open("cpu", &options, &cpu, NULL), PS_OK);
    apart_ops = *cpu->ops;
    apart_ops.is_host = 0;
    apart_ops.alloc = apart_alloc;
    apart_ops.free = apart_free;
    apart_ops.upload = apart_upload;
    apart_ops.download = apart_download;
    apart_ops.dense_forward = apart_dense_forward;
    apart_ops.dense_backward = apart_dense_backward;
    apart = *cpu;
    apart.ops = &apart_ops;
}

static void
teardown(void)
{
    for (size_t i = 0; i < AREAS_MAX; i++)
        ck_assert_ptr_null(areas[i].start);
    ps_device_close(cpu);
}

/* ---- The reference: the same network in double, straight from its definition ---- */

struct network {
    size_t sizes[PS_MLP_SIZES_MAX], count;
    enum ps_activation act;
    double *value[2 * PS_MLP_SIZES_MAX];
};

static double
reference_loss(const struct network *n, const double *x, uint32_t label)
{
    double a[2][64] = {{0}}, max = -INFINITY, sum = 0;
    size_t layers = n->count - 1;

    memcpy(a[0], x, n->sizes[0] * sizeof *x);
    for (size_t l = 0; l < layers; l++)
        for (size_t o = 0; o < n->sizes[l + 1]; o++) {
            double y = n->value[2 * l + 1][o];

            for (size_t i = 0; i < n->sizes[l]; i++)
                y += a[l % 2][i] * n->value[2 * l][i * n->sizes[l + 1] + o];
            if (l + 1 < layers)
                y = n->act == PS_RELU ? fmax(y, 0) : tanh(y);
            a[(l + 1) % 2][o] = y;
        }
    for (size_t c = 0; c < n->sizes[layers]; c++)
        max = fmax(max, a[layers % 2][c]);
    for (size_t c = 0; c < n->sizes[layers]; c++)
        sum += exp(a[layers % 2][c] - max);
    return log(sum) + max - a[layers % 2][label];
}

static double
reference_batch_loss(const struct network *n, size_t rows, const float *x, const uint32_t *labels)
{
    double row[64], loss = 0;

    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < n->sizes[0]; i++)
            row[i] = (double)x[r * n->sizes[0] + i];
        loss += reference_loss(n, row, labels[r]);
    }
    return loss;
}

static void
check_gradient(ps_device *device, const size_t *sizes, size_t count, enum ps_activation act, size_t rows)
{
    struct test_rng rng = {test_seed()};
    struct network n = {.count = count, .act = act};
    struct ps_var_spec spec;
    struct ps_mlp_result result;
    float x[64 * 16], scale = 0.125f;
    uint32_t labels[64];
    double loss, side[2], h = 1e-6, kept;
    ps_mlp *mlp;

    memcpy(n.sizes, sizes, count * sizeof *sizes);
    ck_assert_int_eq(ps_mlp_new(device, sizes, count, act, rows + 3, &mlp, NULL), PS_OK);
    ps_mlp_initialize(mlp, 3);
    ck_assert_uint_eq(ps_mlp_params(mlp), 2 * (count - 1));
    for (size_t i = 0; i < ps_mlp_params(mlp); i++) {
        size_t elements = 1;

        ps_mlp_var_spec(mlp, i, 3, &spec);
        for (uint32_t k = 0; k < spec.rank; k++)
            elements *= spec.dims[k];
        n.value[i] = calloc(elements, sizeof(double));
        for (size_t k = 0; k < elements; k++) {
            ps_mlp_values(mlp)[i][k] += 0.1f * test_float(&rng); /* biases too */
            n.value[i][k] = (double)ps_mlp_values(mlp)[i][k];
        }
    }
    for (size_t i = 0; i < rows * sizes[0]; i++)
        x[i] = test_float(&rng);
    for (size_t r = 0; r < rows; r++)
        labels[r] = (uint32_t)test_below(&rng, sizes[count - 1]);
    ck_assert_int_eq(ps_mlp_gradient(mlp, rows, x, labels, scale, &result, NULL), PS_OK);
    loss = reference_batch_loss(&n, rows, x, labels);
    ck_assert_double_eq_tol(result.loss, loss, 1e-5 * (1 + loss));
    ck_assert_uint_eq(result.rows, rows);
    for (size_t i = 0; i < ps_mlp_params(mlp); i++) {
        size_t elements = i % 2 == 0 ? sizes[i / 2] * sizes[i / 2 + 1] : sizes[i / 2 + 1];

        for (size_t k = 0; k < elements; k++) {
            kept = n.value[i][k];
            for (int s = 0; s < 2; s++) {
                n.value[i][k] = kept + (s == 0 ? -h : h);
                side[s] = reference_batch_loss(&n, rows, x, labels);
            }
            n.value[i][k] = kept;
            ck_assert_double_eq_tol((double)ps_mlp_gradients(mlp)[i][k], (double)scale * (side[1] - side[0]) / (2 * h),
                                    2e-5);
        }
    }
    for (size_t i = 0; i < ps_mlp_params(mlp); i++)
        free(n.value[i]);
    ps_mlp_free(mlp);
}

START_TEST(gradients_agree_with_numeric_differentiation)
{
    ps_device *device = _i == 0 ? cpu : &apart;

    check_gradient(device, (size_t[]){5, 3}, 2, PS_RELU, 4);
    check_gradient(device, (size_t[]){7, 9, 4}, 3, PS_RELU, 11);
    check_gradient(device, (size_t[]){7, 9, 4}, 3, PS_TANH, 11);
    check_gradient(device, (size_t[]){3, 8, 5, 6, 2}, 5, PS_TANH, 7);
    check_gradient(device, (size_t[]){4, 6, 13, 3}, 4, PS_RELU, 1);
    check_gradient(device, (size_t[]){1, 1, 1}, 3, PS_TANH, 2);
}
END_TEST

/* ---- Slices ---- */

static size_t
param_elements(const ps_mlp *mlp, size_t i)
{
    struct ps_var_spec spec;
    size_t elements = 1;

    ps_mlp_var_spec(mlp, i, 0, &spec);
    for (uint32_t k = 0; k < spec.rank; k++)
        elements *= spec.dims[k];
    return elements;
}

/* Computes a slice in a fresh network, as a worker that only ever sees its own slices. */
static void
slice_alone(size_t rows, const float *x, const uint32_t *labels, float scale, float *out)
{
    size_t sizes[] = {20, 33, 6};
    ps_mlp *mlp;

    ck_assert_int_eq(ps_mlp_new(cpu, sizes, 3, PS_RELU, 40, &mlp, NULL), PS_OK);
    ps_mlp_initialize(mlp, 9);
    ck_assert_int_eq(ps_mlp_gradient(mlp, rows, x, labels, scale, NULL, NULL), PS_OK);
    for (size_t i = 0; i < ps_mlp_params(mlp); i++) {
        memcpy(out, ps_mlp_gradients(mlp)[i], param_elements(mlp, i) * sizeof *out);
        out += param_elements(mlp, i);
    }
    ps_mlp_free(mlp);
}

START_TEST(slices_in_one_process_have_the_bits_of_slices_in_many)
{
    enum { SLICES = 3, ROWS = 40, ELEMENTS = 20 * 33 + 33 + 33 * 6 + 6 };
    static const size_t first[SLICES + 1] = {0, 14, 27, 40};
    static float x[ROWS * 20], alone[ELEMENTS];
    struct test_rng rng = {test_seed()};
    uint32_t labels[ROWS];
    size_t sizes[] = {20, 33, 6};
    ps_mlp *mlp;

    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = test_float(&rng);
    for (size_t i = 0; i < ROWS; i++)
        labels[i] = (uint32_t)test_below(&rng, 6);
    ck_assert_int_eq(ps_mlp_new(_i == 0 ? cpu : &apart, sizes, 3, PS_RELU, ROWS, &mlp, NULL), PS_OK);
    ps_mlp_initialize(mlp, 9);
    ck_assert_uint_eq(ps_mlp_elements(mlp), ELEMENTS);
    for (size_t s = 0; s < SLICES; s++) {
        const float *at = alone;
        size_t rows = first[s + 1] - first[s];

        slice_alone(rows, x + first[s] * 20, labels + first[s], 3.0f / ROWS, alone);
        ck_assert_int_eq(ps_mlp_gradient(mlp, rows, x + first[s] * 20, labels + first[s], 3.0f / ROWS, NULL, NULL),
                         PS_OK);
        for (size_t i = 0; i < ps_mlp_params(mlp); at += param_elements(mlp, i++))
            ck_assert_int_eq(memcmp(at, ps_mlp_gradients(mlp)[i], param_elements(mlp, i) * sizeof *at), 0);
    }
    ps_mlp_free(mlp);
}
END_TEST

START_TEST(a_slice_without_rows_has_a_gradient_of_zero)
{
    size_t sizes[] = {4, 5, 3};
    float x[4] = {1, 2, 3, 4};
    uint32_t label = 2;
    struct ps_mlp_result result = {.rows = 9};
    ps_mlp *mlp;

    ck_assert_int_eq(ps_mlp_new(_i == 0 ? cpu : &apart, sizes, 3, PS_RELU, 2, &mlp, NULL), PS_OK);
    ps_mlp_initialize(mlp, 1);
    ck_assert_int_eq(ps_mlp_gradient(mlp, 1, x, &label, 1, NULL, NULL), PS_OK);
    ck_assert(ps_mlp_gradients(mlp)[3][2] != 0);
    ck_assert_int_eq(ps_mlp_gradient(mlp, 0, NULL, NULL, 1, &result, NULL), PS_OK);
    ck_assert(result.rows == 0 && result.loss == 0 && result.correct == 0);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < param_elements(mlp, i); k++)
            ck_assert(ps_mlp_gradients(mlp)[i][k] == 0);
    ps_mlp_free(mlp);
}
END_TEST

/* ---- Learning ---- */

static void
descend(ps_mlp *mlp, float rate)
{
    for (size_t i = 0; i < ps_mlp_params(mlp); i++)
        for (size_t k = 0; k < param_elements(mlp, i); k++)
            ps_mlp_values(mlp)[i][k] -= rate * ps_mlp_gradients(mlp)[i][k];
}

/* Random points with random labels: only a network whose every part works learns them by heart. */
START_TEST(it_learns_a_tiny_set_by_heart)
{
    enum { ROWS = 24 };
    size_t sizes[] = {6, 48, 5};
    float x[ROWS * 6];
    uint32_t labels[ROWS], predicted[ROWS];
    struct test_rng rng = {test_seed()};
    struct ps_mlp_result result;
    ps_mlp *mlp;

    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = test_float(&rng);
    for (size_t i = 0; i < ROWS; i++)
        labels[i] = (uint32_t)test_below(&rng, 5);
    ck_assert_int_eq(ps_mlp_new(_i < 2 ? cpu : &apart, sizes, 3, _i % 2 == 0 ? PS_RELU : PS_TANH, ROWS, &mlp, NULL),
                     PS_OK);
    ps_mlp_initialize(mlp, 1);
    for (int step = 0; step < 4000; step++) {
        ck_assert_int_eq(ps_mlp_gradient(mlp, ROWS, x, labels, 1.0f / ROWS, &result, NULL), PS_OK);
        descend(mlp, 0.3f);
    }
    ck_assert_int_eq(ps_mlp_evaluate(mlp, ROWS, x, labels, &result, NULL), PS_OK);
    ck_assert_uint_eq(result.correct, ROWS);
    ck_assert_double_lt(result.loss / ROWS, 0.1);
    ck_assert_int_eq(ps_mlp_predict(mlp, ROWS, x, predicted, NULL), PS_OK);
    ck_assert_int_eq(memcmp(predicted, labels, sizeof labels), 0);
    ps_mlp_free(mlp);
}
END_TEST

START_TEST(it_reads_the_shipped_digits)
{
    const char *source = getenv("PSD_SOURCE_DIR");
    size_t sizes[] = {64, 64, 10};
    struct ps_dataset train, held_out;
    struct ps_scaling scaling;
    struct ps_mlp_result result;
    float *x = calloc(50 * 64, sizeof *x);
    uint32_t labels[50];
    char directory[512];
    ps_sampler *sampler;
    ps_mlp *mlp;

    snprintf(directory, sizeof directory, "%s/client/examples/data/digits", source != NULL ? source : ".");
    ck_assert_int_eq(ps_dataset_load_idx(directory, PS_TRAIN, &train, NULL), PS_OK);
    ck_assert_int_eq(ps_dataset_load_idx(directory, PS_HELD_OUT, &held_out, NULL), PS_OK);
    ck_assert_int_eq(ps_scaling_fit(&train, PS_SCALE_UNIT, &scaling, NULL), PS_OK);
    ck_assert_int_eq(ps_dataset_scale(&train, &scaling, NULL), PS_OK);
    ck_assert_int_eq(ps_dataset_scale(&held_out, &scaling, NULL), PS_OK);
    ck_assert_int_eq(ps_sampler_new(train.rows, 50, 1, 0, 1, &sampler, NULL), PS_OK);
    ck_assert_int_eq(ps_mlp_new(cpu, sizes, 3, PS_RELU, 50, &mlp, NULL), PS_OK);
    ps_mlp_initialize(mlp, 1);
    for (uint64_t epoch = 0; epoch < 30; epoch++)
        for (uint64_t step = 0; step < ps_sampler_steps(sampler); step++) {
            struct ps_slice slice = ps_sampler_slice(sampler, epoch, step);

            ps_dataset_gather(&train, slice.count, slice.index, x, labels);
            ck_assert_int_eq(ps_mlp_gradient(mlp, slice.count, x, labels, ps_slice_scale_sum(&slice), &result, NULL),
                             PS_OK);
            descend(mlp, 0.2f);
        }
    /* rows_max is 50: 300 rows are evaluated in parts */
    ck_assert_int_eq(ps_mlp_evaluate(mlp, 300, held_out.features, held_out.labels, &result, NULL), PS_OK);
    ck_assert_uint_eq(result.rows, 300);
    ck_assert_msg(result.correct >= 285, "%zu of 300 held-out digits", result.correct);
    ps_mlp_free(mlp);
    ps_sampler_free(sampler);
    ps_dataset_free(&train);
    ps_dataset_free(&held_out);
    ps_scaling_free(&scaling);
    free(x);
}
END_TEST

/* ---- Parameters and errors ---- */

START_TEST(parameters_are_named_shaped_and_initialized_by_layer)
{
    size_t sizes[] = {64, 128, 32, 10};
    struct ps_var_spec spec;
    double square = 0, bound = sqrt(6.0 / 64);
    float largest = 0;
    ps_mlp *mlp;

    ck_assert_int_eq(ps_mlp_new(cpu, sizes, 4, PS_RELU, 1, &mlp, NULL), PS_OK);
    ps_mlp_var_spec(mlp, 0, 7, &spec);
    ck_assert_str_eq(spec.name, "dense0/weights");
    ck_assert(spec.rank == 2 && spec.dims[0] == 64 && spec.dims[1] == 128);
    ck_assert(spec.init.kind == PS_INIT_HE_UNIFORM && spec.init.seed == 7);
    ps_mlp_var_spec(mlp, 4, 7, &spec);
    ck_assert_str_eq(spec.name, "dense2/weights");
    ck_assert(spec.init.kind == PS_INIT_GLOROT_UNIFORM && spec.init.seed == 9);
    ps_mlp_var_spec(mlp, 5, 7, &spec);
    ck_assert_str_eq(spec.name, "dense2/bias");
    ck_assert(spec.rank == 1 && spec.dims[0] == 10 && spec.init.kind == PS_INIT_ZEROS);
    ps_mlp_initialize(mlp, 7);
    for (size_t i = 0; i < 64 * 128; i++) {
        largest = fmaxf(largest, fabsf(ps_mlp_values(mlp)[0][i]));
        square += (double)ps_mlp_values(mlp)[0][i] * (double)ps_mlp_values(mlp)[0][i];
    }
    ck_assert_double_le((double)largest, bound * (1 + 1e-6));
    ck_assert_double_eq_tol(square / (64 * 128), bound * bound / 3, 0.05 * bound * bound / 3);
    ck_assert(ps_mlp_values(mlp)[1][0] == 0);
    ps_mlp_free(mlp);
}
END_TEST

START_TEST(impossible_networks_are_refused)
{
    struct ps_error error;
    size_t one[] = {4}, zero[] = {4, 0, 2}, huge[] = {4, (size_t)1 << 31, 2}, large[] = {2147483647, 2147483647};
    ps_mlp *mlp = NULL;

    ck_assert_int_eq(ps_mlp_new(cpu, one, 1, PS_RELU, 1, &mlp, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_mlp_new(cpu, zero, 3, PS_RELU, 1, &mlp, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "size 1"));
    ck_assert_int_eq(ps_mlp_new(cpu, huge, 3, PS_RELU, 1, &mlp, &error), PS_ERR_LIMIT);
    ck_assert_int_eq(ps_mlp_new(cpu, large, 2, PS_RELU, 1, &mlp, &error), PS_ERR_NOMEM);
    ck_assert_int_eq(ps_mlp_new(cpu, huge, 2, PS_RELU, 0, &mlp, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_mlp_new(cpu, (size_t[]){2, 2}, 2, (enum ps_activation)9, 1, &mlp, &error), PS_ERR_INVALID);
    ck_assert_ptr_null(mlp);
    ps_mlp_free(NULL);
}
END_TEST

START_TEST(a_label_that_is_no_class_is_refused)
{
    struct ps_error error;
    struct ps_mlp_result result;
    float x[8] = {0};
    uint32_t labels[2] = {1, 3};
    ps_mlp *mlp;

    ck_assert_int_eq(ps_mlp_new(cpu, (size_t[]){2, 3}, 2, PS_RELU, 2, &mlp, &error), PS_OK);
    ck_assert_int_eq(ps_mlp_gradient(mlp, 2, x, labels, 1, NULL, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "label 3 of row 1"));
    ck_assert_int_eq(ps_mlp_evaluate(mlp, 2, x, labels, &result, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_mlp_gradient(mlp, 3, x, labels, 1, NULL, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "3 rows"));
    ps_mlp_free(mlp);
}
END_TEST

/* Every allocation of creation fails once: an error each time, nothing left behind (the teardown looks). */
static size_t fail_at;

static void *
failing_alloc(ps_device *d, size_t size)
{
    return fail_at-- == 0 ? NULL : apart_alloc(d, size);
}

START_TEST(creation_without_memory_leaves_nothing_behind)
{
    struct ps_error error;
    ps_mlp *mlp;
    size_t n = 0;

    apart_ops.alloc = failing_alloc;
    for (;; n++) {
        fail_at = n;
        if (ps_mlp_new(&apart, (size_t[]){3, 4, 2}, 3, PS_RELU, 5, &mlp, &error) == PS_OK)
            break;
        ck_assert_int_eq(error.code, PS_ERR_NOMEM);
    }
    ps_mlp_free(mlp);
    ck_assert_uint_eq(n, 8 + 3 + 2 + 3);
}
END_TEST

START_TEST(a_device_apart_is_fed_by_uploads_and_downloads)
{
    float x[4] = {1, 2, 3, 4};
    uint32_t labels[2] = {0, 1};
    ps_mlp *mlp;

    ck_assert_int_eq(ps_mlp_new(&apart, (size_t[]){2, 3, 2}, 3, PS_RELU, 2, &mlp, NULL), PS_OK);
    ck_assert_int_eq(ps_mlp_gradient(mlp, 2, x, labels, 1, NULL, NULL), PS_OK);
    ck_assert_uint_eq(uploads, 4 + 2);   /* parameters; rows and labels */
    ck_assert_uint_eq(downloads, 4 + 1); /* gradients; losses */
    ps_mlp_free(mlp);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("mlp");
    TCase *tc = tcase_create("mlp");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, gradients_agree_with_numeric_differentiation, 0, 2);
    tcase_add_loop_test(tc, slices_in_one_process_have_the_bits_of_slices_in_many, 0, 2);
    tcase_add_loop_test(tc, a_slice_without_rows_has_a_gradient_of_zero, 0, 2);
    tcase_add_loop_test(tc, it_learns_a_tiny_set_by_heart, 0, 3);
    tcase_add_test(tc, it_reads_the_shipped_digits);
    tcase_add_test(tc, parameters_are_named_shaped_and_initialized_by_layer);
    tcase_add_test(tc, impossible_networks_are_refused);
    tcase_add_test(tc, a_label_that_is_no_class_is_refused);
    tcase_add_test(tc, creation_without_memory_leaves_nothing_behind);
    tcase_add_test(tc, a_device_apart_is_fed_by_uploads_and_downloads);
    suite_add_tcase(suite, tc);
    return suite;
}

/* What ps_mlp_declare() would need of a client; this test has none. */
enum ps_err
ps_client_declare(ps_client *client, const struct ps_var_spec *spec, ps_var **out, struct ps_error *error)
{
    (void)client;
    (void)out;
    return ps_fail(error, PS_ERR_INTERNAL, "no client in this test for %s", spec->name);
}

CHECK_MAIN(make_suite)
