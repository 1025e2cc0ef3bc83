/* Readers of data without memory: every allocation on their way fails once, those inside of zlib too. Each time there
 * is an error, and nothing is left behind. */
#include "tests/unit/kits/counted_memory.h"

#include "client/include/psclient/ps_data.h"
#include "common/core/base/base.h"
#include "tests/unit/client/data/data_files.h"

static struct ps_error error;
static char csv_path[256], svm_path[256], images_path[256], labels_path[256];

static void
write_files(void)
{
    static const char csv[] = "a,b,c\n1,2,0\n3,4,1\n", svm[] = "+1 1:1 3:2\n-1 2:1\n+1\n";
    static const unsigned char images[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};

    data_dir_make();
    snprintf(csv_path, sizeof csv_path, "%s", write_plain("t.csv", csv, strlen(csv)));
    snprintf(svm_path, sizeof svm_path, "%s", write_gzip("t.svm.gz", svm, strlen(svm)));
    snprintf(images_path, sizeof images_path, "%s", write_gzip("images.gz", images, sizeof images));
    snprintf(labels_path, sizeof labels_path, "%s", write_plain("labels", labels, sizeof labels));
}

static enum ps_err
read_csv(void)
{
    struct ps_csv csv = {0};
    enum ps_err err = ps_csv_read(csv_path, NULL, &csv, &error);

    ps_csv_free(&csv);
    return err;
}

static enum ps_err
read_table_and_scale(void)
{
    struct ps_dataset d = {0};
    struct ps_scaling s = {0};
    enum ps_err err = ps_dataset_read_csv(csv_path, NULL, 2, &d, &error);

    if (err == PS_OK && (err = ps_scaling_fit(&d, PS_SCALE_STANDARD, &s, &error)) == PS_OK)
        err = ps_dataset_scale(&d, &s, &error);
    ps_scaling_free(&s);
    ps_dataset_free(&d);
    return err;
}

static enum ps_err
read_images_and_deal(void)
{
    struct ps_dataset d = {0};
    ps_sampler *sampler = NULL;
    enum ps_err err = ps_dataset_read_idx(images_path, labels_path, &d, &error);

    if (err == PS_OK && (err = ps_sampler_new(d.rows, 1, 1, 0, 1, &sampler, &error)) == PS_OK)
        (void)ps_sampler_slice(sampler, 1, 0);
    ps_sampler_free(sampler);
    ps_dataset_free(&d);
    return err;
}

static enum ps_err
read_sparse_and_gather(void)
{
    struct ps_sparse m = {0}, batch = {0};
    struct ps_scaling s = {0};
    enum ps_err err = ps_libsvm_read(svm_path, NULL, &m, &error);

    if (err == PS_OK && (err = ps_sparse_scaling_fit(&m, &s, &error)) == PS_OK)
        err = ps_sparse_scale(&m, &s, &error);
    if (err == PS_OK && (err = ps_sparse_batch_new(&m, 2, &batch, &error)) == PS_OK)
        ps_sparse_gather(&m, 2, (uint32_t[]){0, 2}, &batch);
    ps_sparse_free(&batch);
    ps_scaling_free(&s);
    ps_sparse_free(&m);
    return err;
}

static const struct {
    enum ps_err (*run)(void);
    size_t least; /* allocations there are */
} readers[] = {{read_csv, 7}, {read_table_and_scale, 8}, {read_images_and_deal, 10}, {read_sparse_and_gather, 12}};

/* Giving back surplus memory may fail without harm, so a failure is not always an error. */
START_TEST(without_memory_there_is_an_error_and_nothing_left)
{
    ck_assert_int_eq(readers[_i].run(), PS_OK); /* memory that libraries keep is allocated by now */
#ifndef SANITIZED
    size_t errors = 0, n = 0, not_yet, held;
    enum ps_err err;

    do { /* Check's assertions take memory: none before the counters are read */
        held = taken - given;
        fail_in = ++n;
        err = readers[_i].run();
        not_yet = fail_in;
        fail_in = 0;
        held = taken - given - held;
        errors += err != PS_OK;
        ck_assert_msg(err == PS_OK || (err == PS_ERR_NOMEM && error.code == PS_ERR_NOMEM), "allocation %zu: %s", n,
                      error.text);
        ck_assert_msg(held == 0, "allocation %zu failed, %zu are left", n, held);
    } while (not_yet == 0);
    ck_assert_int_eq(err, PS_OK);
    ck_assert_uint_ge(errors, readers[_i].least);
#endif
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("data_memory");
    TCase *tc = tcase_create("data_memory");

    tcase_add_checked_fixture(tc, write_files, data_dir_remove);
    tcase_add_loop_test(tc, without_memory_there_is_an_error_and_nothing_left, 0, ARRAY_LEN(readers));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
