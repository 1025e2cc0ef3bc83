/* Embedding: rows come out as they are, gradients are summed by id, bits do not depend on anything else. */
#include <signal.h>

#include "tests/unit/client/device/device_kit.h"

START_TEST(embedding_looks_up_rows)
{
    static const size_t widths[] = {1, 7, 64, 65};
    enum { VOCABULARY = 11, N = 30 };

    for (size_t k = 0; k < ARRAY_LEN(widths); k++) {
        size_t width = widths[k];
        float *table = random_floats(VOCABULARY * width), *y = nan_floats(N * width);
        uint32_t ids[N];

        for (size_t i = 0; i < N; i++)
            ids[i] = (uint32_t)test_below(&rng, VOCABULARY);
        ps_embedding_forward(device, N, VOCABULARY, width, ids, table, y);
        for (size_t i = 0; i < N; i++)
            assert_same_bits(y + i * width, table + ids[i] * width, width);
    }
}
END_TEST

struct lookup {
    size_t n, width;
    const uint32_t *ids;
    double *table, *y;
    const float *dy;
};

static double
lookup_loss(void *context)
{
    struct lookup *p = context;

    for (size_t i = 0; i < p->n * p->width; i++)
        p->y[i] = p->table[p->ids[i / p->width] * p->width + i % p->width];
    return weighted_sum(p->n * p->width, p->dy, p->y);
}

/* Ids repeat, and some are missing. */
START_TEST(embedding_gradients_agree_with_differences)
{
    enum { VOCABULARY = 9, WIDTH = 5, N = 40 };
    float *table = random_floats(VOCABULARY * WIDTH), *dy = random_floats(N * WIDTH);
    float *dtable = nan_floats(VOCABULARY * WIDTH), *again = nan_floats(VOCABULARY * WIDTH);
    uint32_t ids[N];
    struct lookup p = {N, WIDTH, ids, doubles_of(table, VOCABULARY * WIDTH), device_take(N * WIDTH * sizeof(double)),
                       dy};

    for (size_t i = 0; i < N; i++)
        ids[i] = (uint32_t)test_below(&rng, VOCABULARY - 2) + 1; /* never the first, never the last */
    ps_embedding_backward(device, N, VOCABULARY, WIDTH, ids, dy, dtable);
    assert_gradient(VOCABULARY * WIDTH, p.table, dtable, lookup_loss, &p, N, "dtable");
    assert_zero(dtable, WIDTH);
    assert_zero(dtable + (VOCABULARY - 1) * WIDTH, WIDTH);
    ps_embedding_backward(device, N, VOCABULARY, WIDTH, ids, dy, again);
    assert_same_bits(again, dtable, VOCABULARY * WIDTH);
}
END_TEST

/* In their order, which rounding shows: (2^24 + 1) + 1 is not 2^24 + (1 + 1). */
START_TEST(embedding_gradients_are_summed_in_the_order_of_ids)
{
    static const uint32_t ids[] = {1, 0, 1, 1};
    static const float first[] = {0x1p24f, 3, 1, 1}, last[] = {1, 3, 1, 0x1p24f};
    float dtable[2];

    ps_embedding_backward(device, 4, 2, 1, ids, first, dtable);
    assert_same_bits(dtable, (const float[]){3, 0x1p24f}, 2);
    ps_embedding_backward(device, 4, 2, 1, ids, last, dtable);
    assert_same_bits(dtable, (const float[]){3, 0x1p24f + 2}, 2);
}
END_TEST

START_TEST(embedding_without_ids_has_a_gradient_of_zero)
{
    float *dtable = random_floats(12);

    ps_embedding_forward(device, 0, 4, 3, NULL, dtable, NULL);
    ps_embedding_backward(device, 0, 4, 3, NULL, NULL, dtable);
    assert_zero(dtable, 12);
}
END_TEST

START_TEST(ids_out_of_range_are_found_and_said_where)
{
    static const uint32_t ids[] = {0, 4, 2, 5, 9};
    struct ps_error error;

    ck_assert_int_eq(ps_check_ids(5, ids, 10, &error), PS_OK);
    ck_assert_int_eq(ps_check_ids(3, ids, 5, &error), PS_OK);
    ck_assert_int_eq(ps_check_ids(0, NULL, 0, &error), PS_OK);
    ck_assert_int_eq(ps_check_ids(5, ids, 5, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "id 5 at 3"));
    ck_assert_int_eq(ps_check_ids(5, ids, 0, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "id 0 at 0"));
}
END_TEST

START_TEST(an_id_out_of_range_stops_the_program)
{
    static const uint32_t ids[] = {0, 2};
    float table[6] = {0}, more[6];

    if (_i == 0)
        ps_embedding_forward(device, 2, 2, 3, ids, table, more);
    else
        ps_embedding_backward(device, 2, 2, 3, ids, table, more);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_embedding");
    TCase *tc = tcase_create("cpu");

    tcase_add_checked_fixture(tc, device_setup, device_teardown);
    tcase_add_test(tc, embedding_looks_up_rows);
    tcase_add_test(tc, embedding_gradients_agree_with_differences);
    tcase_add_test(tc, embedding_gradients_are_summed_in_the_order_of_ids);
    tcase_add_test(tc, embedding_without_ids_has_a_gradient_of_zero);
    tcase_add_test(tc, ids_out_of_range_are_found_and_said_where);
    if (tests_fork())
        tcase_add_loop_test_raise_signal(tc, an_id_out_of_range_stops_the_program, SIGABRT, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
