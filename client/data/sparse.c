/* Sparse examples in memory: labels of two classes, scaling, batches of rows. */
#include "client/include/psclient/ps_data.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/data_source.h"
#include "client/data/fingerprint.h"
#include "common/core/base/base.h"

void
ps_sparse_free(struct ps_sparse *sparse)
{
    free(sparse->start);
    free(sparse->column);
    free(sparse->value);
    free(sparse->label);
    free(sparse->source);
    memset(sparse, 0, sizeof *sparse);
}

/* ---- Two classes ---- */

enum ps_err
ps_binary_fit(const struct ps_sparse *sparse, struct ps_binary *out, struct ps_error *error)
{
    float low = sparse->rows > 0 ? sparse->label[0] : 0, high = low;
    char source[DATA_SOURCE_MAX];

    for (uint64_t r = 0; r < sparse->rows; r++) {
        low = MIN(low, sparse->label[r]);
        high = MAX(high, sparse->label[r]);
    }
    if (low == high)
        return ps_fail(error, PS_ERR_DATA, "%sall %llu labels are %g: two classes need two labels",
                       data_source(sparse->source, source), (unsigned long long)sparse->rows, (double)low);
    for (uint64_t r = 0; r < sparse->rows; r++)
        if (sparse->label[r] != low && sparse->label[r] != high)
            return ps_fail(error, PS_ERR_DATA, "%sthere are labels %g, %g and %g: two classes have two labels",
                           data_source(sparse->source, source), (double)low, (double)sparse->label[r], (double)high);
    *out = (struct ps_binary){.negative = low, .positive = high};
    return PS_OK;
}

enum ps_err
ps_binary_targets(const struct ps_sparse *sparse, const struct ps_binary *binary, float *targets,
                  struct ps_error *error)
{
    char source[DATA_SOURCE_MAX];

    for (uint64_t r = 0; r < sparse->rows; r++) {
        if (sparse->label[r] != binary->negative && sparse->label[r] != binary->positive)
            return ps_fail(error, PS_ERR_DATA, "%sexample %llu has the label %g, which is neither %g nor %g",
                           data_source(sparse->source, source), (unsigned long long)r + 1, (double)sparse->label[r],
                           (double)binary->negative, (double)binary->positive);
        targets[r] = sparse->label[r] == binary->positive;
    }
    return PS_OK;
}

/* ---- Scaling ---- */

enum ps_err
ps_sparse_scaling_fit(const struct ps_sparse *sparse, struct ps_scaling *out, struct ps_error *error)
{
    struct ps_scaling s = {.columns = sparse->columns};
    char source[DATA_SOURCE_MAX];

    if ((s.shift = calloc(2 * sparse->columns, sizeof *s.shift)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "%sscaling: out of memory", data_source(sparse->source, source));
    s.factor = s.shift + s.columns;
    for (uint64_t i = 0; i < sparse->entries; i++) {
        float *largest = &s.factor[sparse->column[i]];
        *largest = fmaxf(*largest, fabsf(sparse->value[i]));
    }
    for (uint64_t c = 0; c < s.columns; c++)
        s.factor[c] = s.factor[c] > 0 ? fminf(1 / s.factor[c], FLT_MAX) : 1;
    *out = s;
    return PS_OK;
}

enum ps_err
ps_sparse_scale(struct ps_sparse *sparse, const struct ps_scaling *scaling, struct ps_error *error)
{
    char source[DATA_SOURCE_MAX];

    if (sparse->columns != scaling->columns)
        return ps_fail(error, PS_ERR_INVALID, "%sscaling: made for %llu columns, the examples have %llu",
                       data_source(sparse->source, source), (unsigned long long)scaling->columns,
                       (unsigned long long)sparse->columns);
    for (uint64_t i = 0; i < sparse->entries; i++)
        sparse->value[i] *= scaling->factor[sparse->column[i]];
    return PS_OK;
}

/* ---- Batches ---- */

static int
longer_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x < y) - (x > y);
}

/* Entries of the n longest rows: no batch of n different rows holds more. */
static enum ps_err
longest_rows(const struct ps_sparse *from, size_t n, uint64_t *entries, struct ps_error *e)
{
    uint64_t *lengths = malloc(MAX(from->rows, 1) * sizeof *lengths);

    if (lengths == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "a batch of %zu rows: out of memory", n);
    for (uint64_t r = 0; r < from->rows; r++)
        lengths[r] = from->start[r + 1] - from->start[r];
    qsort(lengths, (size_t)from->rows, sizeof *lengths, longer_first);
    *entries = 0;
    for (uint64_t r = 0; r < MIN(from->rows, (uint64_t)n); r++)
        *entries += lengths[r];
    free(lengths);
    return PS_OK;
}

enum ps_err
ps_sparse_batch_new(const struct ps_sparse *from, size_t rows_max, struct ps_sparse *out, struct ps_error *error)
{
    struct ps_sparse b = {.columns = from->columns};
    uint64_t entries;
    enum ps_err err;

    if ((err = longest_rows(from, rows_max, &entries, error)) != PS_OK)
        return err;
    b.start = calloc(rows_max + 1, sizeof *b.start);
    b.label = calloc(MAX(rows_max, 1), sizeof *b.label);
    b.column = calloc(MAX(entries, 1), sizeof *b.column);
    b.value = calloc(MAX(entries, 1), sizeof *b.value);
    if (b.start == NULL || b.label == NULL || b.column == NULL || b.value == NULL) {
        ps_sparse_free(&b);
        return ps_fail(error, PS_ERR_NOMEM, "a batch of %zu rows: out of memory", rows_max);
    }
    *out = b;
    return PS_OK;
}

void
ps_sparse_gather(const struct ps_sparse *from, size_t n, const uint32_t *index, struct ps_sparse *batch)
{
    uint64_t entries = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t first, len;

        ps_assert(index[i] < from->rows);
        first = from->start[index[i]];
        len = from->start[index[i] + 1] - first;
        batch->start[i] = entries;
        batch->label[i] = from->label[index[i]];
        memcpy(batch->column + entries, from->column + first, len * sizeof *batch->column);
        memcpy(batch->value + entries, from->value + first, len * sizeof *batch->value);
        entries += len;
    }
    batch->start[n] = entries;
    batch->rows = n;
    batch->entries = entries;
}

uint64_t
ps_sparse_fingerprint(const struct ps_sparse *sparse)
{
    uint64_t hash = fingerprint_number(fingerprint_number(0, sparse->rows), sparse->columns);

    hash = fingerprint_add(hash, sparse->start, (sparse->rows + 1) * sizeof *sparse->start);
    hash = fingerprint_add(hash, sparse->column, sparse->entries * sizeof *sparse->column);
    hash = fingerprint_add(hash, sparse->value, sparse->entries * sizeof *sparse->value);
    return fingerprint_add(hash, sparse->label, sparse->rows * sizeof *sparse->label);
}
