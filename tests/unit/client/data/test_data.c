/* Datasets, scaling, and the sampler that deals batches out to workers; the shipped digits by count and checksum. */
#include "client/include/psclient/ps_data.h"

#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include "common/core/base/base.h"
#include "common/core/model/philox.h"
#include "tests/unit/client/data/data_files.h"

/* The tests run from the source directory, or a variable names it. */
static const char *
digits_directory(void)
{
    static char path[512];
    const char *source = getenv("PSD_SOURCE_DIR");

    snprintf(path, sizeof path, "%s/client/examples/data/digits", source != NULL ? source : ".");
    return path;
}

static struct ps_error error;

/* ---- The digits that the repository ships ---- */

static void
assert_checksum(const char *name, long bytes, unsigned long crc)
{
    char path[1024];
    unsigned char buffer[100000];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", digits_directory(), name);
    file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s cannot be opened", path);
    ck_assert_int_eq((long)fread(buffer, 1, sizeof buffer, file), bytes);
    fclose(file);
    ck_assert_msg(crc32(0, buffer, (unsigned)bytes) == crc, "%s: checksum", name);
}

START_TEST(the_shipped_digits_are_those_that_were_written)
{
    assert_checksum("train-images-idx3-ubyte", 95824, 0x8685634b);
    assert_checksum("train-labels-idx1-ubyte", 1505, 0xc2bf8cce);
    assert_checksum("t10k-images-idx3-ubyte", 19216, 0x66e083b6);
    assert_checksum("t10k-labels-idx1-ubyte", 308, 0x23715529);
}
END_TEST

START_TEST(the_shipped_digits_load)
{
    static const struct {
        enum ps_part part;
        uint64_t rows;
        uint32_t of_class[10];
    } want[] = {{PS_TRAIN, 1497, {146, 154, 152, 152, 151, 151, 150, 146, 146, 149}},
                {PS_HELD_OUT, 300, {32, 28, 25, 31, 30, 31, 31, 33, 28, 31}}};
    struct ps_dataset d;

    for (size_t k = 0; k < ARRAY_LEN(want); k++) {
        uint32_t of_class[10] = {0};

        ck_assert_int_eq(ps_dataset_load_idx(digits_directory(), want[k].part, &d, &error), PS_OK);
        ck_assert_uint_eq(d.rows, want[k].rows);
        ck_assert_uint_eq(d.columns, 64);
        ck_assert_uint_eq(d.classes, 10);
        ck_assert(d.rank == 2 && d.dims[0] == 8 && d.dims[1] == 8);
        for (uint64_t i = 0; i < d.rows; i++)
            of_class[d.labels[i]]++;
        ck_assert_int_eq(memcmp(of_class, want[k].of_class, sizeof of_class), 0);
        for (uint64_t i = 0; i < d.rows * d.columns; i++)
            ck_assert(d.features[i] >= 0 && d.features[i] <= 16 && d.features[i] == floorf(d.features[i]));
        ps_dataset_free(&d);
    }
}
END_TEST

/* ---- Directories and files ---- */

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 40};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 3, 1};

START_TEST(all_four_forms_of_the_names_are_found)
{
    static const char *const forms[] = {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz",
                                        "train-images.idx3-ubyte", "train-images.idx3-ubyte.gz"};
    struct ps_dataset d;

    write_gzip("train-labels-idx1-ubyte.gz", labels, sizeof labels);
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const char *path =
            i % 2 == 0 ? write_plain(forms[i], images, sizeof images) : write_gzip(forms[i], images, sizeof images);
        ck_assert_int_eq(ps_dataset_load_idx(data_dir, PS_TRAIN, &d, &error), PS_OK);
        ck_assert(d.rows == 2 && d.columns == 2 && d.classes == 4);
        ck_assert(d.features[0] == 10 && d.features[3] == 40 && d.labels[0] == 3 && d.labels[1] == 1);
        ps_dataset_free(&d);
        ps_dataset_free(&d);
        unlink(path);
    }
    ck_assert_int_ne(ps_dataset_load_idx(data_dir, PS_TRAIN, &d, &error), PS_OK);
    assert_error(error, PS_ERR_IO, "no file train-images-idx3-ubyte there");
    ck_assert_int_ne(ps_dataset_load_idx("/nonexistent", PS_HELD_OUT, &d, &error), PS_OK);
    assert_error(error, PS_ERR_IO, "/nonexistent: no file t10k-images");
}
END_TEST

/* Archives unpack to a folder of the file's name, and the file beside it or in it. */
START_TEST(a_directory_of_the_wanted_name_is_passed_over)
{
    struct ps_dataset d;
    const char *folder = data_path("train-images-idx3-ubyte");

    ck_assert_int_eq(mkdir(folder, 0755), 0);
    write_plain("train-labels.idx1-ubyte", labels, sizeof labels);
    ck_assert_int_ne(ps_dataset_load_idx(data_dir, PS_TRAIN, &d, &error), PS_OK);
    assert_error(error, PS_ERR_IO,
                 "no file train-images-idx3-ubyte there, nor with .gz; what has that name is a directory");
    write_plain("train-images.idx3-ubyte", images, sizeof images);
    ck_assert_msg(ps_dataset_load_idx(data_dir, PS_TRAIN, &d, &error) == PS_OK, "%s", error.text);
    ck_assert(d.rows == 2 && d.features[3] == 40);
    ps_dataset_free(&d);
    rmdir(data_path("train-images-idx3-ubyte"));
}
END_TEST

static void
read_table(const char *name, const char *text, struct ps_dataset *out)
{
    ck_assert_msg(ps_dataset_read_csv(write_plain(name, text, strlen(text)), NULL, 1, out, &error) == PS_OK, "%s",
                  error.text);
}

START_TEST(parts_that_differ_are_not_measured_with_each_other)
{
    struct ps_dataset square = {.columns = 16, .rank = 2, .dims = {4, 4}};
    struct ps_dataset flat = {.columns = 16, .rank = 2, .dims = {2, 8}}, row = {.columns = 16, .rank = 1, .dims = {16}};
    struct ps_dataset train, same, turned, plain;

    ck_assert_int_eq(ps_dataset_check_alike(&square, &square, &error), PS_OK);
    ck_assert_int_eq(ps_dataset_check_alike(&square, &flat, &error), PS_ERR_DATA);
    ck_assert_str_eq(error.text, "examples to train on are 4x4, held-out ones 2x8");
    ck_assert_int_eq(ps_dataset_check_alike(&square, &row, &error), PS_ERR_DATA);
    ck_assert_str_eq(error.text, "examples to train on are 4x4, held-out ones 16");
    read_table("a.csv", "a,class,b\n1,2,3\n", &train);
    read_table("b.csv", "a,class,b\n4,0,5\n", &same);
    read_table("c.csv", "b,class,a\n3,2,1\n", &turned);
    read_table("d.csv", "1,2,3\n", &plain);
    ck_assert_str_eq(train.names[1], "b");
    ck_assert_int_eq(ps_dataset_check_alike(&train, &same, &error), PS_OK);
    ck_assert_int_eq(ps_dataset_check_alike(&train, &plain, &error), PS_OK);
    ck_assert_int_eq(ps_dataset_check_alike(&train, &turned, &error), PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "c.csv: feature 1 of the examples to train on is \"a\", of held-out ones \"b\"");
    ps_dataset_free(&train);
    ps_dataset_free(&same);
    ps_dataset_free(&turned);
    ps_dataset_free(&plain);
}
END_TEST

static void
assert_refused(const void *image_bytes, size_t image_len, const void *label_bytes, size_t label_len, const char *what)
{
    const char *image_path = write_plain("images", image_bytes, image_len);
    const char *label_path = write_plain("labels", label_bytes, label_len);
    struct ps_dataset d;

    ck_assert_msg(ps_dataset_read_idx(image_path, label_path, &d, &error) != PS_OK, "accepted; not: %s", what);
    assert_error(error, PS_ERR_DATA, what);
}

START_TEST(labels_must_match_the_images)
{
    static const unsigned char three[] = {0, 0, 8, 1, 0, 0, 0, 3, 3, 1, 2};
    static const unsigned char pairs[] = {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 2, 3, 1};
    static const unsigned char negative[] = {0, 0, 9, 1, 0, 0, 0, 2, 3, 0xff};
    static const unsigned char half[] = {0, 0, 0xd, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0x3f, 0, 0, 0};
    static const unsigned char none[] = {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 2}, no_labels[] = {0, 0, 8, 1, 0, 0, 0, 0};
    static const unsigned char scalar[] = {0, 0, 8, 0, 7};
    static const unsigned char nan_image[] = {0, 0, 0xd, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0x7f, 0xc0, 0, 0};

    assert_refused(images, sizeof images, three, sizeof three, "labels: byte 4: 3 labels, but ");
    assert_refused(images, sizeof images, pairs, sizeof pairs, "labels: byte 4: 2 labels");
    assert_refused(images, sizeof images, negative, sizeof negative, "label 1 is -1, not a whole number");
    assert_refused(images, sizeof images, half, sizeof half, "label 1 is 0.5, not a whole number");
    assert_refused(none, sizeof none, no_labels, sizeof no_labels, "images: holds no examples");
    assert_refused(scalar, sizeof scalar, labels, sizeof labels, "images: byte 3: rank 0");
    assert_refused(nan_image, sizeof nan_image, labels, sizeof labels, "images: element 1 (example 1) is NaN");
}
END_TEST

START_TEST(a_table_becomes_features_and_labels)
{
    const char *path = write_plain("t.csv", "a,class,b\n1,2,3\n4,0,6\n", 22);
    struct ps_dataset d;

    ck_assert_int_eq(ps_dataset_read_csv(path, NULL, 1, &d, &error), PS_OK);
    ck_assert(d.rows == 2 && d.columns == 2 && d.classes == 3 && d.rank == 1 && d.dims[0] == 2);
    ck_assert(d.features[0] == 1 && d.features[1] == 3 && d.features[2] == 4 && d.features[3] == 6);
    ck_assert(d.labels[0] == 2 && d.labels[1] == 0);
    ps_dataset_free(&d);
    ck_assert_int_eq(ps_dataset_read_csv(path, NULL, PS_CSV_NO_LABEL, &d, &error), PS_OK);
    ck_assert(d.columns == 3 && d.classes == 0 && d.labels == NULL && d.features[5] == 6);
    ps_dataset_free(&d);
    ck_assert_int_ne(ps_dataset_read_csv(path, NULL, 3, &d, &error), PS_OK);
    assert_error(error, PS_ERR_INVALID, "there is no column 3");
    ck_assert_int_ne(ps_dataset_read_csv(path, NULL, -7, &d, &error), PS_OK);
    path = write_plain("u.csv", "1,2\n4,0.5\n", 10);
    ck_assert_int_ne(ps_dataset_read_csv(path, NULL, 1, &d, &error), PS_OK);
    assert_error(error, PS_ERR_DATA, "u.csv: row 2: label 0.5");
    path = write_plain("v.csv", "1,2\n1e300,0\n", 12);
    ck_assert_int_ne(ps_dataset_read_csv(path, NULL, 1, &d, &error), PS_OK);
    assert_error(error, PS_ERR_DATA, "v.csv: row 2, column 1: 1e+300 is too large");
}
END_TEST

/* ---- Scaling ---- */

/* One over a subnormal number is infinite, and infinity times 0 is NaN. */
START_TEST(subnormal_features_are_scaled_to_finite_numbers)
{
    static const enum ps_scale kinds[] = {PS_SCALE_UNIT, PS_SCALE_STANDARD};
    struct ps_dataset d;
    struct ps_scaling s;

    ck_assert_int_eq(ps_dataset_read_csv(write_plain("s.csv", "0\n1e-44\n", 8), NULL, PS_CSV_NO_LABEL, &d, &error),
                     PS_OK);
    ck_assert(d.features[1] > 0);
    ck_assert_int_eq(ps_scaling_fit(&d, kinds[_i], &s, &error), PS_OK);
    ck_assert_int_eq(ps_dataset_scale(&d, &s, &error), PS_OK);
    ck_assert_msg(isfinite(d.features[0]) && isfinite(d.features[1]), "%g, %g", (double)d.features[0],
                  (double)d.features[1]);
    ck_assert(d.features[1] > d.features[0]);
    ps_scaling_free(&s);
    ps_dataset_free(&d);
}
END_TEST

START_TEST(scaling_is_fitted_once_and_applied_to_all)
{
    struct ps_dataset d, other;
    struct ps_scaling s;
    const char *path = write_plain("s.csv", "1,5\n3,5\n-8,5\n", 13);

    ck_assert_int_eq(ps_dataset_read_csv(path, NULL, PS_CSV_NO_LABEL, &d, &error), PS_OK);
    ck_assert_int_eq(ps_scaling_fit(&d, PS_SCALE_UNIT, &s, &error), PS_OK);
    ck_assert_int_eq(ps_dataset_scale(&d, &s, &error), PS_OK);
    ck_assert(d.features[0] == 0.125f && d.features[4] == -1 && d.features[1] == 0.625f);
    ps_scaling_free(&s);
    ck_assert_int_eq(ps_scaling_fit(&d, PS_SCALE_STANDARD, &s, &error), PS_OK);
    ck_assert_int_eq(ps_dataset_scale(&d, &s, &error), PS_OK);
    ck_assert_float_eq_tol(d.features[0] + d.features[2] + d.features[4], 0, 1e-6f);
    ck_assert_float_eq_tol(
        (d.features[0] * d.features[0] + d.features[2] * d.features[2] + d.features[4] * d.features[4]) / 3, 1, 1e-6f);
    ck_assert(d.features[1] == 0 && d.features[3] == 0); /* constant */
    path = write_plain("o.csv", "1,2,3\n", 6);
    ck_assert_int_eq(ps_dataset_read_csv(path, NULL, PS_CSV_NO_LABEL, &other, &error), PS_OK);
    ck_assert_int_ne(ps_dataset_scale(&other, &s, &error), PS_OK);
    assert_error(error, PS_ERR_INVALID, "made for 2 features, the dataset has 3");
    ps_scaling_free(&s);
    ck_assert_int_eq(ps_scaling_fit(&other, PS_SCALE_NONE, &s, &error), PS_OK);
    ck_assert_int_eq(ps_dataset_scale(&other, &s, &error), PS_OK);
    ck_assert(other.features[0] == 1 && other.features[2] == 3);
    ps_scaling_free(&s);
    ps_scaling_free(&s);
    ck_assert_int_ne(ps_scaling_fit(&other, (enum ps_scale)9, &s, &error), PS_OK);
    ps_dataset_free(&d);
    ps_dataset_free(&other);
}
END_TEST

START_TEST(gather_copies_the_rows_that_are_asked)
{
    float features[] = {1, 2, 3, 4, 5, 6}, x[4];
    uint32_t kept[] = {7, 8, 9}, got[2];
    struct ps_dataset d = {.rows = 3, .columns = 2, .features = features, .labels = kept, .classes = 10};

    ps_dataset_gather(&d, 2, (uint32_t[]){2, 0}, x, got);
    ck_assert(x[0] == 5 && x[1] == 6 && x[2] == 1 && x[3] == 2 && got[0] == 9 && got[1] == 7);
    ps_dataset_gather(&d, 1, (uint32_t[]){1}, NULL, got);
    ck_assert_uint_eq(got[0], 8);
}
END_TEST

/* ---- Sampler ---- */

START_TEST(shard_ranges_are_even_and_leave_nothing_out)
{
    uint64_t first, count;

    for (uint64_t n = 0; n < 40; n++)
        for (uint32_t workers = 1; workers < 12; workers++) {
            uint64_t next = 0;

            for (uint32_t task = 0; task < workers; task++) {
                ps_shard_range(n, workers, task, &first, &count);
                ck_assert_uint_eq(first, next);
                ck_assert(count == n / workers || count == n / workers + 1);
                next = first + count;
            }
            ck_assert_uint_eq(next, n);
        }
}
END_TEST

/* All workers of an epoch together: every row once, each slice as promised, all agreeing on the global batch. */
static void
check_epoch(uint64_t rows, size_t batch, uint32_t workers, uint64_t seed, uint64_t epoch)
{
    unsigned *seen = calloc(rows, sizeof *seen);
    uint64_t steps = (rows + batch - 1) / batch;

    for (uint32_t task = 0; task < workers; task++) {
        ps_sampler *s;

        ck_assert_int_eq(ps_sampler_new(rows, batch, workers, task, seed, &s, NULL), PS_OK);
        ck_assert_uint_eq(ps_sampler_steps(s), steps);
        for (uint64_t step = 0; step < steps; step++) {
            struct ps_slice slice = ps_sampler_slice(s, epoch, step);

            ck_assert_uint_eq(slice.global, MIN(batch, rows - step * batch));
            ck_assert_uint_le(slice.count, ps_sampler_slice_max(s));
            ck_assert(slice.count == slice.global / workers || slice.count == slice.global / workers + 1);
            for (size_t i = 0; i < slice.count; i++)
                seen[slice.index[i]]++;
        }
        ps_sampler_free(s);
    }
    for (uint64_t i = 0; i < rows; i++)
        ck_assert_uint_eq(seen[i], 1);
    free(seen);
}

START_TEST(workers_see_every_row_once_an_epoch)
{
    struct test_rng rng = {test_seed()};

    for (int i = 0; i < 300; i++)
        check_epoch(1 + test_below(&rng, 300), 1 + (size_t)test_below(&rng, 70), 1 + (uint32_t)test_below(&rng, 9),
                    test_rand(&rng), test_rand(&rng));
    check_epoch(1497, 96, 3, 1, 0);
}
END_TEST

/* The slices of n workers, put one after the other, are the batch of one worker. */
START_TEST(the_order_does_not_depend_on_the_workers)
{
    ps_sampler *one, *third;
    struct ps_slice whole, part;
    size_t at;

    ck_assert_int_eq(ps_sampler_new(100, 32, 1, 0, 5, &one, NULL), PS_OK);
    for (uint64_t step = 0; step < 4; step++) {
        whole = ps_sampler_slice(one, 3, step);
        at = 0;
        for (uint32_t task = 0; task < 3; task++) {
            ck_assert_int_eq(ps_sampler_new(100, 32, 3, task, 5, &third, NULL), PS_OK);
            part = ps_sampler_slice(third, 3, step);
            ck_assert_int_eq(memcmp(part.index, whole.index + at, part.count * sizeof *part.index), 0);
            at += part.count;
            ps_sampler_free(third);
        }
        ck_assert_uint_eq(at, whole.count);
    }
    ps_sampler_free(one);
}
END_TEST

START_TEST(epochs_and_seeds_give_other_orders_and_come_back)
{
    uint32_t first[50];
    ps_sampler *s, *other;

    ck_assert_int_eq(ps_sampler_new(50, 50, 1, 0, 1, &s, NULL), PS_OK);
    ck_assert_int_eq(ps_sampler_new(50, 50, 1, 0, 2, &other, NULL), PS_OK);
    memcpy(first, ps_sampler_slice(s, 0, 0).index, sizeof first);
    ck_assert_int_ne(memcmp(first, ps_sampler_slice(s, 1, 0).index, sizeof first), 0);
    ck_assert_int_ne(memcmp(first, ps_sampler_slice(s, (uint64_t)1 << 32, 0).index, sizeof first), 0);
    ck_assert_int_ne(memcmp(first, ps_sampler_slice(other, 0, 0).index, sizeof first), 0);
    ck_assert_int_eq(memcmp(first, ps_sampler_slice(s, 0, 0).index, sizeof first), 0);
    ps_sampler_free(s);
    ps_sampler_free(other);
}
END_TEST

/* A thread may hold a slice while another has gone on to the next epoch; the third one takes the oldest's place. */
START_TEST(a_slice_stays_while_another_epoch_is_asked_for)
{
    uint32_t first[50];
    struct ps_slice slice, next;
    ps_sampler *s;

    ck_assert_int_eq(ps_sampler_new(50, 50, 1, 0, 1, &s, NULL), PS_OK);
    slice = ps_sampler_slice(s, 0, 0);
    memcpy(first, slice.index, sizeof first);
    for (uint64_t epoch = 1; epoch < 6; epoch++) {
        next = ps_sampler_slice(s, epoch, 0);
        ck_assert_msg(memcmp(first, slice.index, sizeof first) == 0, "epoch %llu was overwritten by the next one",
                      (unsigned long long)epoch - 1);
        ck_assert_int_ne(memcmp(first, next.index, sizeof first), 0);
        ck_assert_ptr_eq(ps_sampler_slice(s, epoch - 1, 0).index, slice.index);
        slice = ps_sampler_slice(s, epoch, 0);
        memcpy(first, slice.index, sizeof first);
    }
    ps_sampler_free(s);
}
END_TEST

enum { SHARING = 4, SHARED_ROWS = 60000, SHARED_BATCH = 20000, SHARED_EPOCHS = 8 };

struct sampler_user {
    ps_sampler *shared;
    pthread_barrier_t *step; /* as between the steps of a strategy */
    uint64_t wrong;
};

static void *
sampler_use(void *arg)
{
    struct sampler_user *u = arg;
    ps_sampler *own;

    if (ps_sampler_new(SHARED_ROWS, SHARED_BATCH, 1, 0, 9, &own, NULL) != PS_OK)
        abort();
    for (uint64_t epoch = 0; epoch < SHARED_EPOCHS; epoch++)
        for (uint64_t step = 0; step < ps_sampler_steps(own); step++) {
            struct ps_slice want = ps_sampler_slice(own, epoch, step), is;

            pthread_barrier_wait(u->step);
            is = ps_sampler_slice(u->shared, epoch, step);
            u->wrong += is.count != want.count;
            u->wrong += memcmp(is.index, want.index, want.count * sizeof *want.index) != 0;
        }
    ps_sampler_free(own);
    return NULL;
}

START_TEST(threads_that_share_a_sampler_see_the_orders_of_their_own)
{
    pthread_barrier_t step;
    pthread_t thread[SHARING];
    struct sampler_user user[SHARING];
    ps_sampler *shared;

    pthread_barrier_init(&step, NULL, SHARING);
    ck_assert_int_eq(ps_sampler_new(SHARED_ROWS, SHARED_BATCH, 1, 0, 9, &shared, NULL), PS_OK);
    for (size_t i = 0; i < SHARING; i++) {
        user[i] = (struct sampler_user){.shared = shared, .step = &step};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, sampler_use, &user[i]), 0);
    }
    for (size_t i = 0; i < SHARING; i++) {
        pthread_join(thread[i], NULL);
        ck_assert_msg(user[i].wrong == 0, "thread %zu was given %llu other slices", i,
                      (unsigned long long)user[i].wrong);
    }
    ps_sampler_free(shared);
    pthread_barrier_destroy(&step);
}
END_TEST

/* The permutation as its definition says, written out: other implementations can be checked against it. */
START_TEST(the_order_is_fisher_yates_with_philox)
{
    enum { N = 9 };
    const uint64_t seed = 0x123456789abcdef0, epoch = 0x100000002;
    uint32_t order[N], words[4], key[2] = {0x9abcdef0, 0x12345678};
    ps_sampler *s;

    for (uint32_t i = 0; i < N; i++)
        order[i] = i;
    for (uint32_t i = N - 1, draw = 0; i > 0; i--, draw++) {
        uint32_t counter[4] = {draw / 2, 0, 2, 1}, j, kept;
        uint64_t x;

        philox_4x32(counter, key, words);
        x = words[draw % 2 * 2] | (uint64_t)words[draw % 2 * 2 + 1] << 32;
        j = (uint32_t)(((unsigned __int128)x * (i + 1)) >> 64);
        kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    ck_assert_int_eq(ps_sampler_new(N, N, 1, 0, seed, &s, NULL), PS_OK);
    ck_assert_int_eq(memcmp(order, ps_sampler_slice(s, epoch, 0).index, sizeof order), 0);
    ps_sampler_free(s);
}
END_TEST

/* Each of the 24 orders of 4 rows as often as the others: chi-squared with 23 degrees of freedom, 99.99 % below 57. */
START_TEST(orders_are_equally_frequent)
{
    unsigned count[256] = {0};
    double square = 0, expected;
    ps_sampler *s;
    const int epochs = 24000;

    ck_assert_int_eq(ps_sampler_new(4, 4, 1, 0, 77, &s, NULL), PS_OK);
    for (int epoch = 0; epoch < epochs; epoch++) {
        const uint32_t *o = ps_sampler_slice(s, (uint64_t)epoch, 0).index;
        count[o[0] | o[1] << 2 | o[2] << 4 | o[3] << 6]++;
    }
    expected = epochs / 24.0;
    for (size_t i = 0; i < 256; i++)
        if (count[i] > 0)
            square += (count[i] - expected) * (count[i] - expected) / expected;
    ck_assert_msg(square < 57, "chi-squared %g", square);
    ps_sampler_free(s);
}
END_TEST

START_TEST(slices_are_scaled_by_the_global_batch)
{
    struct ps_slice slice = {.global = 32};

    ck_assert(ps_slice_scale_sum(&slice) == 0.03125f);
    ck_assert(ps_slice_scale_mean(&slice, 4) == 0.125f);
}
END_TEST

/* Whatever changes of the examples changes it, and nothing else. */
START_TEST(a_fingerprint_tells_data_apart)
{
    float x[7 * 3] = {0}, y[3 * 7] = {0};
    uint32_t labels[7] = {0};
    struct ps_dataset d = {.rows = 7, .columns = 3, .features = x, .labels = labels, .rank = 1, .dims = {3}}, other = d;
    uint64_t start[3] = {0, 2, 3};
    uint32_t column[3] = {0, 4, 1};
    float value[3] = {1, 2, 3}, label[2] = {1, -1};
    struct ps_sparse s = {
        .rows = 2, .columns = 5, .entries = 3, .start = start, .column = column, .value = value, .label = label};
    uint64_t was = ps_dataset_fingerprint(&d), sparse = ps_sparse_fingerprint(&s);

    other.features = y;
    ck_assert_uint_eq(ps_dataset_fingerprint(&other), was);
    for (size_t i = 0; i < ARRAY_LEN(x); i++) {
        x[i] = 0.5f;
        ck_assert_uint_ne(ps_dataset_fingerprint(&d), was);
        x[i] = 0;
    }
    labels[6] = 1;
    ck_assert_uint_ne(ps_dataset_fingerprint(&d), was);
    labels[6] = 0;
    ck_assert_uint_eq(ps_dataset_fingerprint(&d), was);
    other.rows = 6;
    ck_assert_uint_ne(ps_dataset_fingerprint(&other), was);
    other = (struct ps_dataset){.rows = 3, .columns = 7, .features = y, .labels = labels, .rank = 1, .dims = {7}};
    ck_assert_uint_ne(ps_dataset_fingerprint(&other), was);
    other = d;
    other.labels = NULL;
    ck_assert_uint_ne(ps_dataset_fingerprint(&other), was);

    column[1] = 3;
    ck_assert_uint_ne(ps_sparse_fingerprint(&s), sparse);
    column[1] = 4;
    value[2] = 4;
    ck_assert_uint_ne(ps_sparse_fingerprint(&s), sparse);
    value[2] = 3;
    label[0] = 2;
    ck_assert_uint_ne(ps_sparse_fingerprint(&s), sparse);
    label[0] = 1;
    start[1] = 1;
    ck_assert_uint_ne(ps_sparse_fingerprint(&s), sparse);
    start[1] = 2;
    s.columns = 6;
    ck_assert_uint_ne(ps_sparse_fingerprint(&s), sparse);
    s.columns = 5;
    ck_assert_uint_eq(ps_sparse_fingerprint(&s), sparse);
    ck_assert_uint_eq(sparse, UINT64_C(0x64edb03308c6801b)); /* workers of several versions compare it */
}
END_TEST

START_TEST(impossible_samplers_are_refused)
{
    ps_sampler *s;

    ck_assert_int_eq(ps_sampler_new(0, 1, 1, 0, 0, &s, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_sampler_new(1, 0, 1, 0, 0, &s, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_sampler_new(1, 1, 2, 2, 0, &s, &error), PS_ERR_INVALID);
    assert_error(error, PS_ERR_INVALID, "worker 2 of 2");
    ck_assert_int_eq(ps_sampler_new((uint64_t)1 << 32, 1, 1, 0, 0, &s, &error), PS_ERR_LIMIT);
    ps_sampler_free(NULL);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("data");
    TCase *files = tcase_create("files"), *sampler = tcase_create("sampler");

    tcase_add_checked_fixture(files, data_dir_make, data_dir_remove);
    tcase_add_test(files, the_shipped_digits_are_those_that_were_written);
    tcase_add_test(files, the_shipped_digits_load);
    tcase_add_test(files, all_four_forms_of_the_names_are_found);
    tcase_add_test(files, a_directory_of_the_wanted_name_is_passed_over);
    tcase_add_test(files, parts_that_differ_are_not_measured_with_each_other);
    tcase_add_test(files, labels_must_match_the_images);
    tcase_add_test(files, a_table_becomes_features_and_labels);
    tcase_add_test(files, scaling_is_fitted_once_and_applied_to_all);
    tcase_add_loop_test(files, subnormal_features_are_scaled_to_finite_numbers, 0, 2);
    tcase_add_test(files, a_fingerprint_tells_data_apart);
    tcase_add_test(files, gather_copies_the_rows_that_are_asked);
    suite_add_tcase(suite, files);
    tcase_add_test(sampler, shard_ranges_are_even_and_leave_nothing_out);
    tcase_add_test(sampler, workers_see_every_row_once_an_epoch);
    tcase_add_test(sampler, the_order_does_not_depend_on_the_workers);
    tcase_add_test(sampler, epochs_and_seeds_give_other_orders_and_come_back);
    tcase_add_test(sampler, a_slice_stays_while_another_epoch_is_asked_for);
    tcase_add_test(sampler, threads_that_share_a_sampler_see_the_orders_of_their_own);
    tcase_add_test(sampler, the_order_is_fisher_yates_with_philox);
    tcase_add_test(sampler, orders_are_equally_frequent);
    tcase_add_test(sampler, slices_are_scaled_by_the_global_batch);
    tcase_add_test(sampler, impossible_samplers_are_refused);
    suite_add_tcase(suite, sampler);
    return suite;
}

CHECK_MAIN(make_suite)
