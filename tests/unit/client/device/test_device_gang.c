/* Gangs of replicas: sums and means in place, in the order of the replicas, the same bits in each. */
#include "client/device/device.h"
#include "client/device/device_gang.h"
#include "tests/unit/client/device/device_kit.h"

enum { REPLICAS_MAX = 5 };

static float *tensor[REPLICAS_MAX], *before[REPLICAS_MAX];

static void
make_tensors(size_t replicas, size_t n)
{
    for (size_t r = 0; r < replicas; r++) {
        tensor[r] = random_floats(n + 1);
        tensor[r][n] = 7; /* must stay */
        before[r] = device_take(n * sizeof(float));
        memcpy(before[r], tensor[r], n * sizeof(float));
    }
}

static struct device_gang *
gang_of(size_t replicas)
{
    ps_device *devices[REPLICAS_MAX];
    struct device_gang *gang;

    for (size_t r = 0; r < replicas; r++)
        devices[r] = device;
    ck_assert_int_eq(device_gang_open(devices, replicas, &gang, NULL), PS_OK);
    ck_assert_uint_eq(device_gang_size(gang), replicas);
    return gang;
}

static float
sum_in_order(size_t replicas, size_t i)
{
    volatile float sum = before[0][i];

    for (size_t r = 1; r < replicas; r++)
        sum = sum + before[r][i];
    return sum;
}

START_TEST(every_replica_ends_with_the_sum_in_the_order_of_the_replicas)
{
    static const size_t sizes[] = {1, 7, 64, 4095, 4096, 4097, 10007};
    size_t replicas = 1 + (size_t)_i;
    struct device_gang *gang = gang_of(replicas);

    for (size_t k = 0; k < ARRAY_LEN(sizes); k++)
        for (int mean = 0; mean < 2; mean++) {
            size_t n = sizes[k];

            make_tensors(replicas, n);
            ck_assert_int_eq(device_gang_all_reduce(gang, tensor, n, mean ? DEVICE_GANG_MEAN : DEVICE_GANG_SUM, NULL),
                             PS_OK);
            for (size_t r = 0; r < replicas; r++) {
                for (size_t i = 0; i < n; i++) {
                    float want = sum_in_order(replicas, i) / (mean ? (float)replicas : 1);

                    ck_assert_msg(tensor[r][i] == want, "replica %zu of %zu, element %zu: %a, not %a", r, replicas, i,
                                  (double)tensor[r][i], (double)want);
                }
                ck_assert(tensor[r][n] == 7);
            }
        }
    device_gang_close(gang);
}
END_TEST

START_TEST(every_replica_ends_with_what_one_of_them_had)
{
    size_t replicas = 1 + (size_t)_i, n = 4099;
    struct device_gang *gang = gang_of(replicas);

    for (size_t root = 0; root < replicas; root++) {
        make_tensors(replicas, n);
        ck_assert_int_eq(device_gang_broadcast(gang, tensor, n, root, NULL), PS_OK);
        for (size_t r = 0; r < replicas; r++) {
            assert_same_bits(tensor[r], before[root], n);
            ck_assert(tensor[r][n] == 7);
        }
    }
    device_gang_close(gang);
}
END_TEST

START_TEST(nothing_to_reduce_is_nothing_to_do)
{
    struct device_gang *gang = gang_of(2);

    make_tensors(2, 3);
    ck_assert_int_eq(device_gang_all_reduce(gang, tensor, 0, DEVICE_GANG_SUM, NULL), PS_OK);
    assert_same_bits(tensor[0], before[0], 3);
    assert_same_bits(tensor[1], before[1], 3);
    device_gang_close(gang);
    device_gang_close(NULL);
}
END_TEST

START_TEST(a_gang_that_cannot_be_is_refused_with_the_reason)
{
    struct device_ops without = *device->ops;
    ps_device alone = *device, *mixed[2] = {device, &alone}, *lone[1] = {&alone}, *many[DEVICE_GANG_MAX + 1];
    struct device_gang *gang;
    struct ps_error error;

    without.gang = NULL;
    alone.ops = &without;
    for (size_t r = 0; r <= DEVICE_GANG_MAX; r++)
        many[r] = device;
    ck_assert_int_eq(device_gang_open(mixed, 2, &gang, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "one kind"));
    ck_assert_int_eq(device_gang_open(lone, 1, &gang, &error), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "cpu"));
    ck_assert_int_eq(device_gang_open(mixed, 0, &gang, &error), PS_ERR_INVALID);
    ck_assert_int_eq(device_gang_open(many, DEVICE_GANG_MAX + 1, &gang, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "64"));
    ck_assert_int_eq(device_gang_open(many, DEVICE_GANG_MAX, &gang, &error), PS_OK);
    device_gang_close(gang);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_gang");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, every_replica_ends_with_the_sum_in_the_order_of_the_replicas, 0, REPLICAS_MAX);
    tcase_add_loop_test(tc, every_replica_ends_with_what_one_of_them_had, 0, REPLICAS_MAX);
    tcase_add_test(tc, nothing_to_reduce_is_nothing_to_do);
    tcase_add_test(tc, a_gang_that_cannot_be_is_refused_with_the_reason);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
