/* Datasets: examples as rows of f32 and their labels, out of IDX arrays, MNIST's directories or CSV tables; scaling. */
#include "client/include/psclient/ps_data.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data/data_source.h"
#include "client/data/fingerprint.h"
#include "common/core/base/base.h"

#define LABEL_MAX 65535
#define SHAPE_MAX 176 /* eight numbers of 20 digits */

static enum ps_err
dataset_alloc(const char *name, uint64_t rows, uint64_t columns, bool labelled, struct ps_dataset *out,
              struct ps_error *e)
{
    struct ps_dataset d = {.rows = rows, .columns = columns};
    uint64_t bytes;

    if (rows == 0 || columns == 0)
        return ps_fail(e, PS_ERR_DATA, "%s: holds no examples (%llu rows of %llu features)", name,
                       (unsigned long long)rows, (unsigned long long)columns);
    if (__builtin_mul_overflow(rows, columns, &bytes) || __builtin_mul_overflow(bytes, sizeof(float), &bytes) ||
        bytes > SIZE_MAX - 64)
        return ps_fail(e, PS_ERR_NOMEM, "%s: %llu rows of %llu features do not fit in memory", name,
                       (unsigned long long)rows, (unsigned long long)columns);
    d.features = aligned_alloc(64, round_up(bytes, 64));
    d.labels = labelled ? malloc(rows * sizeof *d.labels) : NULL;
    d.source = strdup(name);
    if (d.features == NULL || (labelled && d.labels == NULL) || d.source == NULL) {
        ps_dataset_free(&d);
        return ps_fail(e, PS_ERR_NOMEM, "%s: no %llu bytes of memory", name, (unsigned long long)bytes);
    }
    *out = d;
    return PS_OK;
}

void
ps_dataset_free(struct ps_dataset *dataset)
{
    if (dataset->names != NULL)
        for (uint64_t c = 0; c < dataset->columns; c++)
            free(dataset->names[c]);
    free(dataset->names);
    free(dataset->features);
    free(dataset->labels);
    free(dataset->source);
    memset(dataset, 0, sizeof *dataset);
}

/* Sets label i and raises classes. */
static bool
dataset_label(struct ps_dataset *d, uint64_t i, double value)
{
    if (!(value >= 0 && value <= LABEL_MAX) || value != floor(value))
        return false;
    d->labels[i] = (uint32_t)value;
    d->classes = MAX(d->classes, d->labels[i] + 1);
    return true;
}

/* ---- IDX ---- */

static enum ps_err
from_images(const char *path, const struct ps_idx *images, bool labelled, struct ps_dataset *out, struct ps_error *e)
{
    uint64_t rows, columns = 1;
    enum ps_err err;
    float value;

    if (images->rank == 0 || images->rank - 1 > ARRAY_LEN(out->dims))
        return ps_fail(e, PS_ERR_DATA, "%s: byte 3: rank %u; examples are the first of 1 to %zu dimensions", path,
                       images->rank, ARRAY_LEN(out->dims) + 1);
    rows = images->dims[0];
    if (rows > 0)
        columns = images->elements / rows;
    if ((err = dataset_alloc(path, rows, columns, labelled, out, e)) != PS_OK)
        return err;
    out->rank = images->rank - 1;
    memcpy(out->dims, images->dims + 1, out->rank * sizeof *out->dims);
    for (uint64_t i = 0; i < images->elements; i++) {
        value = (float)ps_idx_value(images, i);
        if (!isfinite(value))
            return ps_fail(e, PS_ERR_DATA, "%s: element %llu (example %llu) is NaN, Inf or too large", path,
                           (unsigned long long)i, (unsigned long long)(i / columns));
        out->features[i] = value;
    }
    return PS_OK;
}

static enum ps_err
add_labels(const char *path, const struct ps_idx *labels, const char *images_path, struct ps_dataset *d,
           struct ps_error *e)
{
    if (labels->elements != d->rows || (labels->rank > 0 && labels->dims[0] != d->rows))
        return ps_fail(e, PS_ERR_DATA, "%s: byte 4: %llu labels, but %s holds %llu examples", path,
                       (unsigned long long)labels->elements, images_path, (unsigned long long)d->rows);
    for (uint64_t i = 0; i < d->rows; i++)
        if (!dataset_label(d, i, ps_idx_value(labels, i)))
            return ps_fail(e, PS_ERR_DATA, "%s: label %llu is %g, not a whole number from 0 to %d", path,
                           (unsigned long long)i, ps_idx_value(labels, i), LABEL_MAX);
    return PS_OK;
}

enum ps_err
ps_dataset_read_idx(const char *images_path, const char *labels_path, struct ps_dataset *out, struct ps_error *error)
{
    struct ps_idx images = {0}, labels = {0};
    struct ps_dataset d = {0};
    enum ps_err err;

    if ((err = ps_idx_read(images_path, &images, error)) != PS_OK)
        return err;
    if (labels_path != NULL && (err = ps_idx_read(labels_path, &labels, error)) != PS_OK)
        goto out;
    if ((err = from_images(images_path, &images, labels_path != NULL, &d, error)) != PS_OK)
        goto out;
    if (labels_path != NULL)
        err = add_labels(labels_path, &labels, images_path, &d, error);
out:
    ps_idx_free(&images);
    ps_idx_free(&labels);
    if (err == PS_OK)
        *out = d;
    else
        ps_dataset_free(&d);
    return err;
}

/* A folder may have the name of the file that was packed into it. */
static bool
is_file(const char *path, bool *folder)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return false;
    *folder |= S_ISDIR(st.st_mode);
    return !S_ISDIR(st.st_mode);
}

/* The first of the four names that is a file: "train-images-idx3-ubyte", "train-images.idx3-ubyte", each or with ".gz".
 */
static enum ps_err
find_file(const char *directory, const char *part, const char *what, char path[PATH_MAX], struct ps_error *e)
{
    char rank = strcmp(what, "images") == 0 ? '3' : '1';
    bool folder = false;

    for (int form = 0; form < 4; form++) {
        if (snprintf(path, PATH_MAX, "%s/%s-%s%cidx%c-ubyte%s", directory, part, what, form < 2 ? '-' : '.', rank,
                     form % 2 == 0 ? "" : ".gz") >= PATH_MAX)
            return ps_fail(e, PS_ERR_IO, "%.64s...: the path is too long", directory);
        if (is_file(path, &folder))
            return PS_OK;
    }
    return ps_fail(e, PS_ERR_IO, "%s: no file %s-%s-idx%c-ubyte there, nor with .gz%s", directory, part, what, rank,
                   folder ? "; what has that name is a directory" : "");
}

enum ps_err
ps_dataset_load_idx(const char *directory, enum ps_part part, struct ps_dataset *out, struct ps_error *error)
{
    char images[PATH_MAX], labels[PATH_MAX];
    const char *name = part == PS_TRAIN ? "train" : "t10k";
    enum ps_err err;

    if ((err = find_file(directory, name, "images", images, error)) != PS_OK)
        return err;
    if ((err = find_file(directory, name, "labels", labels, error)) != PS_OK)
        return err;
    return ps_dataset_read_idx(images, labels, out, error);
}

/* ---- CSV ---- */

static enum ps_err
from_table(const char *path, const struct ps_csv *csv, long label_column, struct ps_dataset *d, struct ps_error *e)
{
    for (uint64_t r = 0; r < csv->rows; r++) {
        const double *row = csv->values + r * csv->columns;
        float *to = d->features + r * d->columns;

        for (uint64_t c = 0; c < csv->columns; c++) {
            if ((long)c == label_column) {
                if (!dataset_label(d, r, row[c]))
                    return ps_fail(e, PS_ERR_DATA, "%s: row %llu: label %g is not a whole number from 0 to %d", path,
                                   (unsigned long long)r + 1, row[c], LABEL_MAX);
                continue;
            }
            if (!isfinite((float)row[c]))
                return ps_fail(e, PS_ERR_DATA, "%s: row %llu, column %llu: %g is too large", path,
                               (unsigned long long)r + 1, (unsigned long long)c + 1, row[c]);
            *to++ = (float)row[c];
        }
    }
    return PS_OK;
}

/* The table's names move to the features, that of the labels goes. */
static enum ps_err
take_names(struct ps_csv *csv, long label_column, struct ps_dataset *d, struct ps_error *e)
{
    size_t to = 0;

    if (csv->names == NULL)
        return PS_OK;
    if ((d->names = calloc(d->columns, sizeof *d->names)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the names of %llu columns", (unsigned long long)d->columns);
    for (uint64_t c = 0; c < csv->columns; c++)
        if ((long)c != label_column) {
            d->names[to++] = csv->names[c];
            csv->names[c] = NULL;
        }
    return PS_OK;
}

enum ps_err
ps_dataset_read_csv(const char *path, const struct ps_csv_options *options, long label_column, struct ps_dataset *out,
                    struct ps_error *error)
{
    struct ps_csv csv = {0};
    struct ps_dataset d = {0};
    bool labelled = label_column != PS_CSV_NO_LABEL;
    enum ps_err err;

    if ((err = ps_csv_read(path, options, &csv, error)) != PS_OK)
        return err;
    if (labelled && (label_column < 0 || (uint64_t)label_column >= csv.columns))
        err = ps_fail(error, PS_ERR_INVALID, "%s: there is no column %ld for the labels: columns are 0 to %llu", path,
                      label_column, (unsigned long long)csv.columns - 1);
    if (err == PS_OK)
        err = dataset_alloc(path, csv.rows, csv.columns - labelled, labelled, &d, error);
    if (err == PS_OK)
        err = from_table(path, &csv, label_column, &d, error);
    if (err == PS_OK)
        err = take_names(&csv, label_column, &d, error);
    ps_csv_free(&csv);
    if (err != PS_OK) {
        ps_dataset_free(&d);
        return err;
    }
    d.rank = 1;
    d.dims[0] = d.columns;
    *out = d;
    return PS_OK;
}

/* ---- Two parts ---- */

/* "8x8", or "one number" for an example without dimensions. */
static const char *
shape_text(const struct ps_dataset *d, char text[SHAPE_MAX])
{
    int used = snprintf(text, SHAPE_MAX, "%s", d->rank == 0 ? "one number" : "");

    for (uint32_t i = 0; i < d->rank; i++)
        used +=
            snprintf(text + used, SHAPE_MAX - (size_t)used, "%s%llu", i > 0 ? "x" : "", (unsigned long long)d->dims[i]);
    return text;
}

enum ps_err
ps_dataset_check_alike(const struct ps_dataset *train, const struct ps_dataset *held_out, struct ps_error *error)
{
    char a[SHAPE_MAX], b[SHAPE_MAX], source[DATA_SOURCE_MAX];

    if (train->rank != held_out->rank || memcmp(train->dims, held_out->dims, train->rank * sizeof *train->dims) != 0)
        return ps_fail(error, PS_ERR_DATA, "%sexamples to train on are %s, held-out ones %s",
                       data_source(held_out->source, source), shape_text(train, a), shape_text(held_out, b));
    for (uint64_t c = 0; train->names != NULL && held_out->names != NULL && c < train->columns; c++)
        if (strcmp(train->names[c], held_out->names[c]) != 0)
            return ps_fail(error, PS_ERR_DATA,
                           "%sfeature %llu of the examples to train on is \"%.64s\", of held-out ones \"%.64s\"",
                           data_source(held_out->source, source), (unsigned long long)c + 1, train->names[c],
                           held_out->names[c]);
    return PS_OK;
}

/* ---- Use ---- */

void
ps_dataset_gather(const struct ps_dataset *dataset, size_t n, const uint32_t *index, float *x, uint32_t *labels)
{
    size_t columns = (size_t)dataset->columns;

    ps_assert(labels == NULL || dataset->labels != NULL);
    for (size_t i = 0; i < n; i++) {
        ps_assert(index[i] < dataset->rows);
        if (x != NULL)
            memcpy(x + i * columns, dataset->features + index[i] * columns, columns * sizeof *x);
        if (labels != NULL)
            labels[i] = dataset->labels[index[i]];
    }
}

/* Mean and deviation of a feature, in double and two passes: the same on every worker. */
static void
fit_standard(const struct ps_dataset *d, uint64_t column, struct ps_scaling *s)
{
    double mean = 0, square = 0, difference;

    for (uint64_t r = 0; r < d->rows; r++)
        mean += (double)d->features[r * d->columns + column];
    mean /= (double)d->rows;
    for (uint64_t r = 0; r < d->rows; r++) {
        difference = (double)d->features[r * d->columns + column] - mean;
        square += difference * difference;
    }
    s->shift[column] = (float)mean;
    s->factor[column] = square > 0 ? (float)fmin(1 / sqrt(square / (double)d->rows), FLT_MAX) : 0;
}

static float
largest_magnitude(const struct ps_dataset *d)
{
    float largest = 0;

    for (uint64_t i = 0; i < d->rows * d->columns; i++)
        largest = fmaxf(largest, fabsf(d->features[i]));
    return largest;
}

enum ps_err
ps_scaling_fit(const struct ps_dataset *dataset, enum ps_scale kind, struct ps_scaling *out, struct ps_error *error)
{
    struct ps_scaling s = {.columns = dataset->columns};
    float largest = kind == PS_SCALE_UNIT ? largest_magnitude(dataset) : 1;

    if (kind != PS_SCALE_NONE && kind != PS_SCALE_UNIT && kind != PS_SCALE_STANDARD)
        return ps_fail(error, PS_ERR_INVALID, "there is no scaling %d", (int)kind);
    if ((s.shift = calloc(2 * dataset->columns, sizeof *s.shift)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "scaling: out of memory");
    s.factor = s.shift + s.columns;
    for (uint64_t c = 0; c < s.columns; c++) {
        s.factor[c] = largest > 0 ? fminf(1 / largest, FLT_MAX) : 1;
        if (kind == PS_SCALE_STANDARD)
            fit_standard(dataset, c, &s);
    }
    *out = s;
    return PS_OK;
}

void
ps_scaling_free(struct ps_scaling *scaling)
{
    free(scaling->shift);
    memset(scaling, 0, sizeof *scaling);
}

enum ps_err
ps_dataset_scale(struct ps_dataset *dataset, const struct ps_scaling *scaling, struct ps_error *error)
{
    char source[DATA_SOURCE_MAX];

    if (dataset->columns != scaling->columns)
        return ps_fail(error, PS_ERR_INVALID, "%sscaling: made for %llu features, the dataset has %llu",
                       data_source(dataset->source, source), (unsigned long long)scaling->columns,
                       (unsigned long long)dataset->columns);
    for (uint64_t r = 0; r < dataset->rows; r++)
        for (uint64_t c = 0; c < dataset->columns; c++) {
            float *x = &dataset->features[r * dataset->columns + c];
            *x = (*x - scaling->shift[c]) * scaling->factor[c];
        }
    return PS_OK;
}

uint64_t
ps_dataset_fingerprint(const struct ps_dataset *dataset)
{
    uint64_t hash = fingerprint_number(0, dataset->rows);

    hash = fingerprint_add(hash, dataset->dims, dataset->rank * sizeof dataset->dims[0]);
    hash = fingerprint_add(hash, dataset->features, dataset->rows * dataset->columns * sizeof *dataset->features);
    return fingerprint_add(hash, dataset->labels,
                           dataset->labels != NULL ? dataset->rows * sizeof *dataset->labels : 0);
}
