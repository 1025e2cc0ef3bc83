/* Every device against one table of operations: the CPU, the kernels of client/device/cuda as the fake module runs
 * them, and a GPU where one is. And the table itself: it notices when a device computes nothing, or a little wrong. */
#include <math.h>

#include "client/device/device.h"
#include "common/core/base/base.h"
#include "tests/unit/client/device/conformance.h"
#include "tests/unit/client/device/fake_device.h"

static ps_device *
open_cpu(void)
{
    struct ps_device_options options = {.threads = 1};
    ps_device *d;

    ck_assert_int_eq(ps_device_open("cpu", &options, &d, NULL), PS_OK);
    return d;
}

static void
conformance_conforms(ps_device *d, size_t row)
{
    struct conformance c = {.device = d, .seed = test_seed()};

    if (!conformance_run(&c, row))
        ck_abort_msg("%s on %s (%s): %s", conformance_name(row), ps_device_name(d), ps_device_describe(d), c.text);
    ps_device_close(d);
}

static size_t
conformance_row(const char *name)
{
    size_t row = 0;

    while (strcmp(conformance_name(row), name) != 0)
        row++;
    return row;
}

START_TEST(the_cpu_conforms)
{
    conformance_conforms(open_cpu(), (size_t)_i);
}
END_TEST

START_TEST(the_kernels_of_the_cuda_module_conform)
{
    conformance_conforms(open_fake("cuda"), (size_t)_i);
}
END_TEST

START_TEST(the_kernels_conform_where_memory_is_enough_for_more_at_once)
{
    conformance_conforms(open_fake("cuda:1"), (size_t)_i);
}
END_TEST

START_TEST(the_kernels_of_the_cuda_module_conform_in_tf32)
{
    conformance_conforms(open_fake_in(PS_PRECISION_TF32), (size_t)_i);
}
END_TEST

START_TEST(the_kernels_of_the_cuda_module_conform_in_bfloat16)
{
    conformance_conforms(open_fake_in(PS_PRECISION_BFLOAT16), (size_t)_i);
}
END_TEST

/* Device 1 of the fake module has a library for convolutions. */
START_TEST(convolutions_by_a_library_conform)
{
    conformance_conforms(open_fake_number("cuda:1", (enum ps_precision)_i), conformance_row("conv2d"));
}
END_TEST

/* 1 + 2^-10 and 1 + 2^-12 take more digits than the precisions keep. */
START_TEST(products_are_in_the_precision_that_was_asked_for)
{
    static const float factors[] = {1 + 0x1p-10f, 1 + 0x1p-12f};
    static const float want[][2] = {[PS_PRECISION_FLOAT32] = {1 + 0x1p-10f, 1 + 0x1p-12f},
                                    [PS_PRECISION_TF32] = {1 + 0x1p-10f, 1},
                                    [PS_PRECISION_BFLOAT16] = {1, 1}};
    ps_device *d = open_fake_in((enum ps_precision)_i);
    void *x, *one, *y;
    float got;

    ck_assert_int_eq((int)ps_device_precision(d), _i);
    ck_assert_int_eq(ps_device_alloc(d, sizeof got, &x, NULL), PS_OK);
    ck_assert_int_eq(ps_device_alloc(d, sizeof got, &one, NULL), PS_OK);
    ck_assert_int_eq(ps_device_alloc(d, sizeof got, &y, NULL), PS_OK);
    ps_device_upload(d, one, &(float){1}, sizeof(float));
    for (size_t i = 0; i < ARRAY_LEN(factors); i++) {
        ps_device_upload(d, x, &factors[i], sizeof factors[i]);
        ps_dense_forward(d, 1, 1, 1, x, one, NULL, y);
        ck_assert_int_eq(ps_device_download(d, &got, y, sizeof got, NULL), PS_OK);
        ck_assert_msg(got == want[_i][i], "%.9g is %.9g", (double)factors[i], (double)got);
    }
    ps_device_free(d, x);
    ps_device_free(d, one);
    ps_device_free(d, y);
    ps_device_close(d);
}
END_TEST

/* ---- A GPU ---- */

/* Whether there is one; prints a note when there is none. */
static bool
has_gpu(bool say)
{
    struct ps_error error;
    ps_device *d;

    if (ps_device_open("cuda", NULL, &d, &error) == PS_OK) {
        ps_device_close(d);
        return true;
    }
    ck_assert_int_eq(error.code, PS_ERR_UNSUPPORTED);
    if (say)
        fprintf(stderr, "# skipped: a GPU is not tested here: %s\n", error.text);
    return false;
}

START_TEST(a_gpu_conforms_where_there_is_one)
{
    ps_device *d;

    if (!has_gpu(_i == 0))
        return;
    ck_assert_int_eq(ps_device_open("cuda", NULL, &d, NULL), PS_OK);
    conformance_conforms(d, (size_t)_i);
}
END_TEST

/* ---- The table ---- */

static struct device_ops ops;
static size_t download_at, downloads;
static enum ps_err (*true_download)(ps_device *d, void *to, const void *from, size_t size, struct ps_error *e);

/* The download_at-th result is off in one element. Results that are not float32 change in their bits. */
static enum ps_err
conformance_slip(ps_device *d, void *to, const void *from, size_t size, struct ps_error *e)
{
    enum ps_err err = true_download(d, to, from, size, e);
    float x;

    if (downloads++ != download_at)
        return err;
    if (size % sizeof x == 0)
        memcpy(&x, (char *)to + size / 8 * 4, sizeof x);
    if (size % sizeof x != 0 || !isfinite(x)) {
        ((unsigned char *)to)[size / 2] ^= 1;
        return err;
    }
    x += 0.02f * (1 + fabsf(x));
    memcpy((char *)to + size / 8 * 4, &x, sizeof x);
    return err;
}

static bool
slips_pass(struct conformance *c, size_t row, size_t at)
{
    download_at = at;
    downloads = 0;
    return conformance_run(c, row);
}

START_TEST(the_table_notices_every_result_that_is_a_little_off)
{
    struct conformance c = {.device = open_cpu(), .seed = test_seed()};
    size_t results, step;

    ops = *c.device->ops;
    true_download = ops.download;
    ops.download = conformance_slip;
    c.device->ops = &ops;
    ck_assert(slips_pass(&c, (size_t)_i, SIZE_MAX));
    results = downloads;
    step = results > 6 ? results / 6 : 1; /* of many, some */
    for (size_t at = 0; at < results; at += step)
        ck_assert_msg(!slips_pass(&c, (size_t)_i, at), "%s: result %zu of %zu may be off", conformance_name((size_t)_i),
                      at, results);
    ps_device_close(c.device);
}
END_TEST

/* Operations that do nothing. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOTHING(name, ...)                                                                                             \
    static void nothing_##name(ps_device *d, __VA_ARGS__)                                                              \
    {                                                                                                                  \
    }
DEVICE_COMPUTE_OPS(NOTHING)

static enum ps_err
nothing_all_reduce(void *state, size_t n, float *const tensors[], size_t elements, enum device_gang_op op,
                   struct ps_error *e)
{
    return PS_OK;
}

static enum ps_err
nothing_broadcast(void *state, size_t n, float *const tensors[], size_t elements, size_t root, struct ps_error *e)
{
    return PS_OK;
}
#pragma GCC diagnostic pop

#define BREAK(name, ...)                                                                                               \
    static void break_##name(void)                                                                                     \
    {                                                                                                                  \
        ops.name = nothing_##name;                                                                                     \
    }
DEVICE_COMPUTE_OPS(BREAK)

static struct device_gang_kind gang;

static void
break_gang_sum(void)
{
    gang = *ops.gang;
    gang.all_reduce = nothing_all_reduce;
    ops.gang = &gang;
}

static void
break_gang_broadcast(void)
{
    gang = *ops.gang;
    gang.broadcast = nothing_broadcast;
    ops.gang = &gang;
}

#define BROKEN(name, ...) {#name, break_##name},
static const struct {
    const char *name;
    void (*without)(void);
} operations[] = {DEVICE_COMPUTE_OPS(BROKEN){"gang sum", break_gang_sum}, {"gang broadcast", break_gang_broadcast}};

START_TEST(the_table_notices_every_operation_that_does_nothing)
{
    struct conformance c = {.device = open_cpu(), .seed = test_seed()};
    bool noticed = false;

    ops = *c.device->ops;
    operations[_i].without();
    c.device->ops = &ops;
    for (size_t row = 0; row < conformance_rows() && !noticed; row++)
        noticed = !conformance_run(&c, row);
    ck_assert_msg(noticed, "nobody misses %s", operations[_i].name);
    ps_device_close(c.device);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("conformance");
    TCase *tc = tcase_create("devices");
    int rows = (int)conformance_rows();

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_cpu_conforms, 0, rows);
    tcase_add_loop_test(tc, the_kernels_of_the_cuda_module_conform, 0, rows);
    tcase_add_loop_test(tc, the_kernels_conform_where_memory_is_enough_for_more_at_once, 0, rows);
    tcase_add_loop_test(tc, the_kernels_of_the_cuda_module_conform_in_tf32, 0, rows);
    tcase_add_loop_test(tc, the_kernels_of_the_cuda_module_conform_in_bfloat16, 0, rows);
    tcase_add_loop_test(tc, convolutions_by_a_library_conform, 0, PS_PRECISION_BFLOAT16 + 1);
    tcase_add_loop_test(tc, products_are_in_the_precision_that_was_asked_for, 0, PS_PRECISION_BFLOAT16 + 1);
    tcase_add_loop_test(tc, a_gpu_conforms_where_there_is_one, 0, rows);
    tcase_add_loop_test(tc, the_table_notices_every_result_that_is_a_little_off, 0, rows);
    tcase_add_loop_test(tc, the_table_notices_every_operation_that_does_nothing, 0, (int)ARRAY_LEN(operations));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
