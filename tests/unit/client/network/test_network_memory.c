/* The memory of networks: creation without enough of it leaves nothing behind, and steps take none. The files of them
 * that allocate are compiled into this test with allocations that are counted and can fail. */
#include "tests/unit/client/network/network_kit.h"

static size_t host_allocs, host_fail_at; /* so far; the one that fails, counted from 1 */

static void *
counted_calloc(size_t n, size_t size)
{
    return ++host_allocs == host_fail_at ? NULL : calloc(n, size);
}

static void *
counted_aligned_alloc(size_t alignment, size_t size)
{
    return ++host_allocs == host_fail_at ? NULL : aligned_alloc(alignment, size);
}

#define calloc        counted_calloc
#define aligned_alloc counted_aligned_alloc
#include "client/device/device_staging.c"
#include "client/network/network.c"
#undef calloc
#undef aligned_alloc

static const struct kit_spec specs[] = {
    {.layers = "dense 4, relu, dense 2", .dims = {3}, .rows_max = 5},
    {.layers = "conv 3 3x3 same, tanh, relu, maxpool 2, norm, flatten, dropout 0.5, dense 2",
     .dims = {4, 4, 1},
     .rows_max = 5},
    {.layers = "embedding 9 4, avgpool, gelu, dense 2", .dims = {6}, .loss = PS_LOSS_SIGMOID, .rows_max = 5},
};

/* Every allocation of creation fails once, the device's and the host's: an error each time; the teardown and the leak
 * checker look for what was left. */
START_TEST(creation_without_memory_leaves_nothing_behind)
{
    size_t *fails = _i % 2 == 0 ? &fail_at : &host_fail_at, *allocs = _i % 2 == 0 ? &device_allocs : &host_allocs;
    ps_network *network = NULL;
    struct ps_error error;
    enum ps_err err;

    for (size_t n = 1; network == NULL; n++) {
        *fails = n;
        *allocs = 0;
        if ((err = network_try(&apart, &specs[_i / 2], &network, &error)) == PS_OK)
            ck_assert_uint_eq(*allocs, n - 1);
        else
            ck_assert(err == PS_ERR_NOMEM && error.code == PS_ERR_NOMEM);
    }
    ck_assert_uint_ge(*allocs, _i % 2 == 0 ? 15 : 9);
    ps_network_free(network);
}
END_TEST

START_TEST(a_step_allocates_nothing)
{
    ps_network *network = network_make(&apart, &specs[_i]);
    static const float x[12 * 16] = {1, 2, 3}, targets[12 * 2] = {1};
    static const uint32_t ids[12 * 6] = {8, 1}, labels[12] = {0, 1};
    struct ps_batch batch = {5, x, ids, labels, targets}, many = {12, x, ids, labels, targets};
    size_t host = host_allocs, device = device_allocs;
    struct ps_network_result result;
    uint32_t classes[24];
    float outputs[24];

    ck_assert(host > 0 && device > 0);
    ck_assert_int_eq(ps_network_gradient(network, &batch, 1, 0, &result, NULL), PS_OK);
    ck_assert_int_eq(ps_network_evaluate(network, &many, &result, NULL), PS_OK);
    ck_assert_int_eq(ps_network_predict(network, &many, outputs, NULL), PS_OK);
    ck_assert_int_eq(ps_network_classify(network, &many, classes, NULL), PS_OK);
    ck_assert(host_allocs == host && device_allocs == device);
    ps_network_free(network);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("network_memory");
    TCase *tc = tcase_create("network_memory");

    tcase_add_checked_fixture(tc, network_setup, network_teardown);
    tcase_add_loop_test(tc, creation_without_memory_leaves_nothing_behind, 0, 2 * ARRAY_LEN(specs));
    tcase_add_loop_test(tc, a_step_allocates_nothing, 0, ARRAY_LEN(specs));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
