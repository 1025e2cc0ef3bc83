/* Sparse examples in memory: two classes, scaling, batches of rows. */
#include "client/data/libsvm.h"

#include <float.h>

#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

static struct ps_error error;

static struct ps_sparse
sparse_parse(const char *text)
{
    struct ps_sparse m;
    char *copy = strdup(text);

    ck_assert_msg(libsvm_parse("t", copy, strlen(copy), &(struct ps_libsvm_options){0}, &m, &error) == PS_OK, "%s",
                  error.text);
    free(copy);
    return m;
}

START_TEST(the_larger_of_two_labels_is_positive)
{
    struct ps_sparse m = sparse_parse("2 1:1\n1 1:1\n2 1:1\n");
    struct ps_binary b;
    float targets[3];

    ck_assert_int_eq(ps_binary_fit(&m, &b, &error), PS_OK);
    ck_assert(b.negative == 1 && b.positive == 2);
    ck_assert_int_eq(ps_binary_targets(&m, &b, targets, &error), PS_OK);
    ck_assert(targets[0] == 1 && targets[1] == 0 && targets[2] == 1);
    b.negative = 0;
    ck_assert_int_eq(ps_binary_targets(&m, &b, targets, &error), PS_ERR_DATA);
    ck_assert_ptr_nonnull(strstr(error.text, "example 2 has the label 1, which is neither 0 nor 2"));
    ps_sparse_free(&m);
}
END_TEST

START_TEST(one_label_or_three_are_not_two_classes)
{
    struct ps_sparse one = sparse_parse("1 1:1\n1 1:1\n"), three = sparse_parse("1 1:1\n-1 1:1\n0 1:1\n");
    struct ps_binary b;

    ck_assert_int_eq(ps_binary_fit(&one, &b, &error), PS_ERR_DATA);
    ck_assert_ptr_nonnull(strstr(error.text, "all 2 labels are 1"));
    ck_assert_int_eq(ps_binary_fit(&three, &b, &error), PS_ERR_DATA);
    ck_assert_ptr_nonnull(strstr(error.text, "labels -1, 0 and 1"));
    ps_sparse_free(&one);
    ps_sparse_free(&three);
}
END_TEST

START_TEST(a_batch_holds_the_rows_in_the_order_asked)
{
    struct ps_sparse m = sparse_parse("1 1:1 2:2 3:3\n2\n3 5:5\n4 1:7 4:8\n"), batch;

    ck_assert_int_eq(ps_sparse_batch_new(&m, 3, &batch, &error), PS_OK);
    ck_assert_uint_eq(batch.columns, 5);
    ps_sparse_gather(&m, 3, (uint32_t[]){3, 1, 0}, &batch);
    ck_assert_uint_eq(batch.rows, 3);
    ck_assert_uint_eq(batch.entries, 5);
    for (int r = 0; r <= 3; r++)
        ck_assert_uint_eq(batch.start[r], ((uint64_t[]){0, 2, 2, 5})[r]);
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(batch.column[i], ((uint32_t[]){0, 3, 0, 1, 2})[i]);
        ck_assert(batch.value[i] == ((float[]){7, 8, 1, 2, 3})[i]);
    }
    ck_assert(batch.label[0] == 4 && batch.label[1] == 2 && batch.label[2] == 1);
    ps_sparse_gather(&m, 0, NULL, &batch);
    ck_assert_uint_eq(batch.rows + batch.entries + batch.start[0], 0);
    ps_sparse_free(&batch);
    ps_sparse_free(&m);
}
END_TEST

START_TEST(columns_are_scaled_to_one_and_zeros_stay)
{
    struct ps_sparse m = sparse_parse("1 1:-4 3:2\n0 1:2\n"), small = sparse_parse("1 1:1e-44 2:1\n"),
                     other = sparse_parse("1 1:1\n");
    struct ps_scaling s;

    ck_assert_int_eq(ps_sparse_scaling_fit(&m, &s, &error), PS_OK);
    ck_assert_int_eq(ps_sparse_scale(&m, &s, &error), PS_OK);
    ck_assert_uint_eq(m.entries, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(m.value[i] == ((float[]){-1, 1, .5f})[i]);
    ck_assert_int_eq(ps_sparse_scale(&other, &s, &error), PS_ERR_INVALID);
    ps_scaling_free(&s);
    ck_assert_int_eq(ps_sparse_scaling_fit(&small, &s, &error), PS_OK);
    ck_assert(s.factor[0] <= FLT_MAX && s.factor[1] == 1);
    ps_scaling_free(&s);
    ps_sparse_free(&m);
    ps_sparse_free(&small);
    ps_sparse_free(&other);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("sparse");
    TCase *tc = tcase_create("sparse");

    tcase_add_test(tc, the_larger_of_two_labels_is_positive);
    tcase_add_test(tc, one_label_or_three_are_not_two_classes);
    tcase_add_test(tc, columns_are_scaled_to_one_and_zeros_stay);
    tcase_add_test(tc, a_batch_holds_the_rows_in_the_order_asked);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
