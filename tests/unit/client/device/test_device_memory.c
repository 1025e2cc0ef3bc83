/* Operations take no memory: everything they need is given to them. Every allocation of the process, of OpenBLAS too,
 * is counted while each operation runs once more. */
#include "tests/unit/client/device/device_kit.h"
#include "tests/unit/kits/counted_memory.h"

enum { ROWS = 40, SIDE = 12, IN = 8, OUT = 16, PIXELS = SIDE * SIDE, N = PIXELS * IN, WIDE = PIXELS * OUT };

static const struct ps_conv2d conv = {SIDE, SIDE, IN, OUT, 3, 3, 1, 1, PS_PAD_SAME};
static const struct ps_pool2d pool = {SIDE, SIDE, IN, 3, 3, 2, 2, PS_PAD_SAME};

struct buffers {
    float *x, *dx, *wide, *w, *dw, *b, *db, *mean, *rstd, *loss, *workspace;
    uint32_t *best, *ids;
    uint64_t *start; /* of sparse rows, of one entry each */
};

/* Every operation, with buffers large enough for all. Check's assertions take memory: none in here. */
static enum ps_err
run_all(const struct buffers *t)
{
    size_t count;

    ps_dense_forward(device, ROWS, N, OUT, t->x, t->w, t->b, t->wide);
    ps_dense_backward(device, ROWS, N, OUT, t->x, t->w, t->wide, t->dx, t->dw, t->db);
    ps_bias_forward(device, ROWS, N, t->x, t->b, t->wide);
    ps_bias_backward(device, ROWS, N, t->wide, t->db);
    ps_conv2d_forward(device, ROWS, &conv, t->x, t->w, t->b, t->wide, t->workspace);
    ps_conv2d_backward(device, ROWS, &conv, t->x, t->w, t->wide, t->dx, t->dw, t->db, t->workspace);
    ps_max_pool_forward(device, ROWS, &pool, t->x, t->wide, t->best);
    ps_max_pool_backward(device, ROWS, &pool, t->best, t->wide, t->dx);
    ps_avg_pool_forward(device, ROWS, &pool, t->x, t->wide);
    ps_avg_pool_backward(device, ROWS, &pool, t->wide, t->dx);
    ps_relu_forward(device, ROWS * N, t->x, t->wide);
    ps_relu_backward(device, ROWS * N, t->wide, t->x, t->dx);
    ps_tanh_forward(device, ROWS * N, t->x, t->wide);
    ps_tanh_backward(device, ROWS * N, t->wide, t->x, t->dx);
    ps_sigmoid_forward(device, ROWS * N, t->x, t->wide);
    ps_sigmoid_backward(device, ROWS * N, t->wide, t->x, t->dx);
    ps_gelu_forward(device, ROWS * N, t->x, t->wide);
    ps_gelu_backward(device, ROWS * N, t->x, t->wide, t->dx);
    ps_layer_norm_forward(device, ROWS, N, t->x, t->w, t->b, 1e-5f, t->wide, t->mean, t->rstd);
    ps_layer_norm_backward(device, ROWS, N, t->x, t->w, t->mean, t->rstd, t->wide, t->dx, t->dw, t->db);
    ps_embedding_forward(device, ROWS, N, OUT, t->ids, t->w, t->wide);
    ps_embedding_backward(device, ROWS, N, OUT, t->ids, t->wide, t->dw);
    ps_sparse_forward(device, ROWS, N, OUT, t->start, t->ids, t->x, t->w, t->b, t->wide);
    ps_sparse_backward(device, ROWS, N, OUT, t->start, t->ids, t->x, t->wide, t->dw, t->db);
    ps_dropout_forward(device, ROWS * N, 0.5f, 1, 2, t->x, t->wide);
    ps_dropout_backward(device, ROWS * N, 0.5f, 1, 2, t->wide, t->dx);
    ps_softmax(device, ROWS, N, t->x, t->wide);
    ps_softmax_cross_entropy(device, ROWS, N, t->x, t->ids, 1, t->loss, t->dx);
    ps_sigmoid_cross_entropy(device, ROWS, N, t->x, t->wide, 1, t->loss, t->dx);
    ps_argmax(device, ROWS, N, t->x, t->best);
    if (ps_count_equal(device, ROWS, t->ids, t->best, &count, NULL) != PS_OK)
        return PS_ERR_INTERNAL;
    return ps_device_finish(device, NULL);
}

static struct buffers
make_buffers(void)
{
    struct buffers t = {
        .x = random_floats(ROWS * N),
        .dx = nan_floats(ROWS * N),
        .wide = nan_floats(ROWS * WIDE),
        .w = random_floats(N * OUT),
        .dw = nan_floats(N * OUT),
        .b = random_floats(N),
        .db = nan_floats(N),
        .mean = nan_floats(ROWS),
        .rstd = nan_floats(ROWS),
        .loss = nan_floats(ROWS),
        .workspace = nan_floats(ps_conv2d_workspace(&conv, ROWS)),
        .best = device_take(ROWS * N * sizeof(uint32_t)),
        .ids = device_take(ROWS * sizeof(uint32_t)),
        .start = device_take((ROWS + 1) * sizeof(uint64_t)),
    };

    for (size_t i = 0; i < ROWS; i++)
        t.ids[i] = (uint32_t)test_below(&rng, N), t.start[i + 1] = i + 1;
    return t;
}

/* The allocations while every operation runs. Once is not counted: then OpenBLAS takes memory that it keeps. */
struct count {
    size_t taken, given;
};

static struct count
count_all(int threads)
{
    struct buffers t = make_buffers();
    struct count before, after;
    enum ps_err err;

    device_threads(threads);
    ck_assert_int_eq(run_all(&t), PS_OK);
    before = (struct count){taken, given};
    err = run_all(&t);
    after = (struct count){taken, given};
    ck_assert_int_eq(err, PS_OK);
    return (struct count){after.taken - before.taken, after.given - before.given};
}

START_TEST(operations_take_no_memory)
{
    struct count count = count_all(1);

    ck_assert_uint_eq(count.taken, 0);
    ck_assert_uint_eq(count.given, 0);
}
END_TEST

/* OpenBLAS may take the list of its threads' work from the allocator, for as long as a product runs. */
START_TEST(operations_on_several_threads_keep_no_memory)
{
    struct count count = count_all(2);

    ck_assert_uint_eq(count.taken, count.given);
}
END_TEST

START_TEST(allocations_are_counted)
{
#ifdef SANITIZED
    fprintf(stderr, "# a sanitizer has the allocator: nothing is counted\n");
#else
    size_t before = taken, between, after;
    void *volatile something = malloc(1);

    between = given;
    free(something);
    after = given;
    ck_assert_uint_gt(taken, before);
    ck_assert_uint_eq(after, between + 1);
#endif
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_memory");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, operations_take_no_memory);
    tcase_add_test(tc, operations_on_several_threads_keep_no_memory);
    tcase_add_test(tc, allocations_are_counted);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
