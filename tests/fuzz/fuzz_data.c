/* Files of training data: IDX, CSV, LIBSVM, any of them gzipped.
 *
 * The first byte chooses the reader and its options, the rest is the file: handed to the parser in memory of exactly
 * its length, or, through a file in memory, to the functions that programs call. What is accepted is walked from end to
 * end and used. */
#include "tests/fuzz/bytes.h"

#include <math.h>

#include "client/data/csv.h"
#include "client/data/idx.h"
#include "client/data/libsvm.h"
#include "client/data/read_file.h"

static void
check_refusal(enum ps_err err, const struct ps_error *e)
{
    ps_assert(err == e->code && e->text[0] != '\0');
}

/* ---- What was read ---- */

static void
use_idx(struct ps_idx *idx)
{
    uint64_t elements = 1;
    double sum = 0;

    ps_assert(idx->rank <= PS_IDX_RANK_MAX && ps_idx_type_name(idx->type) != NULL);
    for (uint32_t i = 0; i < idx->rank; i++)
        elements *= idx->dims[i];
    ps_assert(elements == idx->elements);
    for (uint64_t i = 0; i < elements; i++)
        sum += ps_idx_value(idx, i);
    (void)sum;
    ps_idx_free(idx);
}

static void
use_csv(struct ps_csv *csv)
{
    ps_assert(csv->columns >= 1);
    for (uint64_t i = 0; i < csv->rows * csv->columns; i++)
        ps_assert(isfinite(csv->values[i]));
    for (uint64_t i = 0; csv->names != NULL && i < csv->columns; i++)
        ps_assert(strlen(csv->names[i]) < 1000000);
    ps_csv_free(csv);
}

static void
use_batch(const struct ps_sparse *s)
{
    struct ps_sparse batch;
    uint32_t index[3] = {0, (uint32_t)(s->rows - 1), (uint32_t)(s->rows / 2)};
    struct ps_error e = {0};

    if (s->rows == 0)
        return;
    ps_assert(ps_sparse_batch_new(s, 3, &batch, &e) == PS_OK);
    if (s->rows >= 3)
        ps_sparse_gather(s, 3, index, &batch);
    else
        ps_sparse_gather(s, 1, index, &batch);
    ps_sparse_free(&batch);
}

static void
use_scaling(struct ps_sparse *s)
{
    struct ps_scaling scaling = {0};
    struct ps_error e = {0};

    if (s->columns > 100000) /* a number in the file says how many: memory for each of them is not what is tested */
        return;
    if (ps_sparse_scaling_fit(s, &scaling, &e) != PS_OK)
        return;
    ps_assert(ps_sparse_scale(s, &scaling, &e) == PS_OK);
    for (uint64_t i = 0; i < s->entries; i++)
        ps_assert(fabsf(s->value[i]) <= 1.0001f);
    ps_scaling_free(&scaling);
}

static void
use_sparse(struct ps_sparse *s)
{
    struct ps_binary binary;
    struct ps_error e = {0};
    float *targets = calloc(s->rows + 1, sizeof *targets);

    ps_assert(targets != NULL && s->start[0] == 0 && s->start[s->rows] == s->entries);
    for (uint64_t r = 0; r < s->rows; r++) {
        ps_assert(s->start[r] <= s->start[r + 1] && isfinite(s->label[r]));
        for (uint64_t i = s->start[r]; i < s->start[r + 1]; i++) {
            ps_assert(s->column[i] < s->columns && isfinite(s->value[i]));
            ps_assert(i == s->start[r] || s->column[i - 1] < s->column[i]);
        }
    }
    if (ps_binary_fit(s, &binary, &e) == PS_OK)
        ps_assert(ps_binary_targets(s, &binary, targets, &e) == PS_OK);
    use_batch(s);
    use_scaling(s);
    free(targets);
    ps_sparse_free(s);
}

static void
use_dataset(struct ps_dataset *d)
{
    static const enum ps_scale kinds[] = {PS_SCALE_NONE, PS_SCALE_UNIT, PS_SCALE_STANDARD};
    struct ps_error e = {0};

    ps_assert(d->rows >= 1 && d->columns >= 1);
    for (uint64_t i = 0; i < d->rows; i++)
        ps_assert(d->labels == NULL || d->labels[i] < d->classes);
    for (uint64_t i = 0; i < d->rows * d->columns; i++)
        ps_assert(isfinite(d->features[i]));
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct ps_scaling scaling = {0};

        if (ps_scaling_fit(d, kinds[i], &scaling, &e) != PS_OK)
            continue;
        ps_assert(ps_dataset_scale(d, &scaling, &e) == PS_OK);
        ps_scaling_free(&scaling);
    }
    ps_dataset_free(d);
}

/* ---- The readers ---- */

static void
fuzz_data_idx(struct fuzz_bytes *b)
{
    size_t len = b->left;
    void *bytes = malloc(len + (len == 0)); /* taken whatever the result */
    struct ps_idx out = {0};
    struct ps_error e = {0};
    enum ps_err err;

    ps_assert(bytes != NULL);
    memcpy(bytes, b->at, len);
    if ((err = idx_parse("file", bytes, len, &out, &e)) == PS_OK)
        use_idx(&out);
    else
        check_refusal(err, &e);
}

static struct ps_csv_options
csv_options(struct fuzz_bytes *b)
{
    static const char delimiters[] = {0, ',', ';', '\t', ' '};

    unsigned delimiter = bytes_below(b, 3 * sizeof delimiters);

    return (struct ps_csv_options){.delimiter = delimiters[delimiter % sizeof delimiters],
                                   .decimal = "\0,."[delimiter / sizeof delimiters],
                                   .header = (enum ps_csv_header)bytes_below(b, 3)};
}

static void
fuzz_data_csv(struct fuzz_bytes *b)
{
    struct ps_csv_options options = csv_options(b);
    size_t len = b->left;
    char *text = bytes_text(b, len);
    struct ps_csv out = {0};
    struct ps_error e = {0};
    enum ps_err err;

    if ((err = csv_parse("file", text, len, &options, &out, &e)) == PS_OK)
        use_csv(&out);
    else
        check_refusal(err, &e);
    free(text);
}

static struct ps_libsvm_options
libsvm_options(struct fuzz_bytes *b)
{
    unsigned base = bytes_below(b, 6);

    return (struct ps_libsvm_options){
        .base = (enum ps_libsvm_base)(base % 3), .columns_max = base / 3 * 50, .columns = bytes_below(b, 20)};
}

static void
fuzz_data_libsvm(struct fuzz_bytes *b)
{
    struct ps_libsvm_options options = libsvm_options(b);
    size_t len = b->left;
    char *text = bytes_text(b, len);
    struct ps_sparse out = {0};
    struct ps_error e = {0};
    enum ps_err err;

    if ((err = libsvm_parse("file", text, len, &options, &out, &e)) == PS_OK)
        use_sparse(&out);
    else
        check_refusal(err, &e);
    free(text);
}

/* Gzip or not, as it comes. */
static void
whole_file(struct fuzz_bytes *b)
{
    char path[BYTES_PATH_MAX];
    int fd = bytes_file(b, path);
    struct ps_error e = {0};
    enum ps_err err;
    size_t len;
    char *out;

    if ((err = read_file(path, &out, &len, &e)) == PS_OK) {
        ps_assert(out[len] == '\0');
        free(out);
    } else {
        check_refusal(err, &e);
    }
    close(fd);
}

static void
dataset_of_images(struct fuzz_bytes *b)
{
    bool labels = bytes_below(b, 2) != 0;
    char path[BYTES_PATH_MAX];
    int fd = bytes_file(b, path);
    struct ps_dataset d = {0};
    struct ps_error e = {0};
    enum ps_err err;

    if ((err = ps_dataset_read_idx(path, labels ? path : NULL, &d, &e)) == PS_OK)
        use_dataset(&d);
    else
        check_refusal(err, &e);
    close(fd);
}

static void
dataset_of_table(struct fuzz_bytes *b)
{
    struct ps_csv_options options = csv_options(b);
    long label = (long)bytes_below(b, 6) - 1;
    char path[BYTES_PATH_MAX];
    int fd = bytes_file(b, path);
    struct ps_dataset d = {0};
    struct ps_error e = {0};
    enum ps_err err;

    if ((err = ps_dataset_read_csv(path, &options, label, &d, &e)) == PS_OK)
        use_dataset(&d);
    else
        check_refusal(err, &e);
    close(fd);
}

static void
sparse_file(struct fuzz_bytes *b)
{
    struct ps_libsvm_options options = libsvm_options(b);
    char path[BYTES_PATH_MAX];
    int fd = bytes_file(b, path);
    struct ps_sparse out = {0};
    struct ps_error e = {0};
    enum ps_err err;

    if ((err = ps_libsvm_read(path, &options, &out, &e)) == PS_OK)
        use_sparse(&out);
    else
        check_refusal(err, &e);
    close(fd);
}

/* The text twice, as two parts of one data set: both have the same columns, and as many. */
static void
sparse_parts(struct fuzz_bytes *b)
{
    struct ps_libsvm_options options = libsvm_options(b);
    char path[BYTES_PATH_MAX];
    int fd = bytes_file(b, path);
    const char *const paths[] = {path, path};
    struct ps_sparse out[2] = {{0}};
    struct ps_error e = {0};
    enum ps_err err;

    if ((err = ps_libsvm_read_parts(2, paths, &options, out, &e)) == PS_OK) {
        ps_assert(out[0].columns == out[1].columns && out[0].entries == out[1].entries);
        use_sparse(&out[0]);
        use_sparse(&out[1]);
    } else {
        check_refusal(err, &e);
    }
    close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(struct fuzz_bytes *) = {fuzz_data_idx, fuzz_data_csv,     fuzz_data_libsvm,
                                                           whole_file,    dataset_of_images, dataset_of_table,
                                                           sparse_file,   sparse_parts};
    struct fuzz_bytes b = {data, size};

    readers[bytes_below(&b, ARRAY_LEN(readers))](&b);
    return 0;
}
