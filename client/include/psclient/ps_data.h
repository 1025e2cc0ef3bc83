/* ps_data.h: training data for workers. Readers for IDX, CSV and LIBSVM files, datasets, and a sampler that deals every
 * batch of every epoch out to the workers.
 *
 *     struct ps_dataset train, held_out;
 *     struct ps_scaling scaling;
 *     ps_sampler *sampler;
 *     ps_dataset_load_idx("data/digits", PS_TRAIN, &train, &error);
 *     ps_dataset_load_idx("data/digits", PS_HELD_OUT, &held_out, &error);
 *     ps_dataset_check_alike(&train, &held_out, &error);
 *     ps_scaling_fit(&train, PS_SCALE_UNIT, &scaling, &error);
 *     ps_dataset_scale(&train, &scaling, &error);
 *     ps_sampler_new(train.rows, batch, workers, task, seed, &sampler, &error);
 *     for (epoch ...)
 *         for (step = 0; step < ps_sampler_steps(sampler); step++) {
 *             struct ps_slice slice = ps_sampler_slice(sampler, epoch, step);
 *             ps_dataset_gather(&train, slice.count, slice.index, x, labels);
 *             ... gradient of the loss, scaled by ps_slice_scale_mean(&slice, workers) ...
 *         }
 *
 * Rules that hold everywhere:
 *
 * - Files may be gzipped or plain; the first two bytes tell. All of a file is checked when it is read.
 * - A bad file is PS_ERR_DATA with its name and the place: "train-images-idx3-ubyte: byte 4: ..." or "table.csv:12:3:
 *   ..." (line and column, both from 1; the column counts fields). A file that cannot be read is PS_ERR_IO.
 * - Nothing keeps a file open, or a hidden state; memory is freed by the _free function of its struct, which accepts
 *   zeroed and freed ones.
 *
 * Parameters:
 *   path   of a file, gzipped or plain
 *   n      rows
 *   index  [n] numbers of rows, each below the number of rows that are there
 *   out    filled when the call succeeds
 *   error  filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Errors file:
 *   PS_ERR_DATA   the file is not valid: its name and the place
 *   PS_ERR_IO     the file cannot be read
 *   PS_ERR_NOMEM  no memory
 * Threads: any number may read an object (its fields, and functions that take it as const) while none changes it; else
 *   one at a time for each object. Different objects are independent. */
#ifndef PS_DATA_H
#define PS_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "ps_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- IDX: one array in a file (the format of MNIST) -------------------------------------------------------------- */

/* Most dimensions of an IDX file.
 * Since: 0.1 */
#define PS_IDX_RANK_MAX 255

/* What an element of an IDX file is. Numbers are those of the format.
 * Since: 0.1 */
enum ps_idx_type {
    PS_IDX_U8 = 0x08,
    PS_IDX_I8 = 0x09,
    PS_IDX_I16 = 0x0b,
    PS_IDX_I32 = 0x0c,
    PS_IDX_F32 = 0x0d,
    PS_IDX_F64 = 0x0e
};

/* An IDX file's array. Freed with ps_idx_free().
 * Since: 0.1 */
struct ps_idx {
    enum ps_idx_type type;
    uint32_t rank; /* 0: a single element */
    uint64_t dims[PS_IDX_RANK_MAX];
    uint64_t elements;
    void *data; /* [elements] of the type, row-major, in this machine's byte order; owned */
};

/* Read an IDX file. Its header must describe exactly the bytes that follow it.
 *
 * Errors:
 *   (file)  the file
 * Since: 0.1 */
PS_API enum ps_err ps_idx_read(const char *path, struct ps_idx *out, struct ps_error *error) PS_MUST_USE;

/* Free an array.
 *
 * Parameters:
 *   idx  zeroed afterwards
 * Since: 0.1 */
PS_API void ps_idx_free(struct ps_idx *idx);

/* The name of an element type.
 *
 * Parameters:
 *   type  a number of enum ps_idx_type
 * Returns: "u8", "f32"; NULL for a number that is not known. Static.
 * Threads: any.
 * Since: 0.1 */
PS_API const char *ps_idx_type_name(int type);

/* An element as a number.
 *
 * Parameters:
 *   idx  an array
 *   i    below its elements
 * Returns: the number.
 * Since: 0.1 */
PS_API double ps_idx_value(const struct ps_idx *idx, uint64_t i);

/* ---- CSV: a table of numbers ------------------------------------------------------------------------------------- */

/* Whether a table's first line is names.
 * Since: 0.1 */
enum ps_csv_header {
    PS_CSV_HEADER_DETECT =
        0, /* the first line is names when none of its fields is a number; refused when only some are,
              and when it counts columns, 0,1,2,3 and so on, as pandas names those without names */
    PS_CSV_HEADER_NO = 1,
    PS_CSV_HEADER_YES = 2
};

/* How a table is written. Zeroed: found out from its first lines.
 * Since: 0.1 */
struct ps_csv_options {
    char delimiter; /* ' ': any blanks; 0: the first of tab, semicolon, comma, bar and blanks that divides the first two
                       lines alike, and the second one into values; quoted text is passed over */
    enum ps_csv_header header;
    char decimal; /* '.' or ','; 0: a point, or a comma that is neither the delimiter nor before a group of three digits
                     when it first occurs; a table with both is refused */
};

/* A table of numbers. Freed with ps_csv_free().
 * Since: 0.1 */
struct ps_csv {
    uint64_t rows, columns;
    double *values; /* [rows, columns], owned */
    char **names;   /* [columns], owned; NULL when there is no header */
};

/* Read a table.
 *
 * Numbers as strtod() takes them in the C locale, hexadecimal ones excepted; NaN, Inf, missing values, thousands apart
 * and units are refused. Fields may have blanks around them and stand in double quotes, within which a line may end.
 * Lines end in LF, CRLF or CR. Passed over: a byte order mark, Excel's first line "sep=;" (which says the delimiter),
 * lines that are empty or delimiters alone, and comments, lines that begin with #. A comment above the first row that
 * has as many fields is names. Every line has as many fields as the first, or one delimiter more behind them.
 *
 * Parameters:
 *   options  NULL: all defaults
 * Errors:
 *   (file)  the file
 * Since: 0.1 */
PS_API enum ps_err ps_csv_read(const char *path, const struct ps_csv_options *options, struct ps_csv *out,
                               struct ps_error *error) PS_MUST_USE;

/* Free a table.
 *
 * Parameters:
 *   csv  zeroed afterwards
 * Since: 0.1 */
PS_API void ps_csv_free(struct ps_csv *csv);

/* ---- LIBSVM: sparse examples ------------------------------------------------------------------------------------- */

/* Rows of which most columns are 0, each with a label: the entries of row r are start[r] to start[r + 1] - 1. Freed
 * with ps_sparse_free().
 *
 * Since: 0.1 */
struct ps_sparse {
    uint64_t rows, columns, entries;
    uint64_t *start;  /* [rows + 1], start[0] is 0 */
    uint32_t *column; /* [entries], below columns, ascending within a row */
    float *value;     /* [entries], finite */
    float *label;     /* [rows], as written: +1, -1, 7, 0.5 */
    char *source;     /* the file that they are from, for errors; owned; NULL: none */
};

/* What the first column is called.
 * Since: 0.1 */
enum ps_libsvm_base {
    PS_LIBSVM_FROM_1 = 0,
    PS_LIBSVM_FROM_0 = 1,
    PS_LIBSVM_DETECT = 2 /* 0 when a file that is read names a column 0, else 1. Files of one data set are read
                            together: ps_libsvm_read_parts() */
};

/* How a LIBSVM file is read. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_libsvm_options {
    enum ps_libsvm_base base;
    uint64_t columns;     /* 0: as many as the largest index needs; else a larger index is refused */
    uint64_t columns_max; /* when columns is 0: an index that needs more is refused where it stands; 0: no limit but
                             PS_SPARSE_COLUMNS_MAX. What a model costs grows with its columns, however few are used */
};

/* Most columns of sparse examples.
 * Since: 0.1 */
#define PS_SPARSE_COLUMNS_MAX 2147483647

/* Read sparse examples: lines "label index:value index:value ... # comment", as LIBSVM and SVMlight write them.
 *
 * Numbers have a decimal point; indices ascend; blanks may stand around a colon. Lines end in LF, CRLF or CR; empty
 * lines and a byte order mark are passed over. "qid:" and several labels are refused. An error names file, line and
 * character ("a9a:12:30: ...").
 *
 * Parameters:
 *   options  NULL: all defaults
 * Errors:
 *   PS_ERR_INVALID  options.columns or columns_max is more than PS_SPARSE_COLUMNS_MAX
 *   (file)          the file
 * Since: 0.1 */
PS_API enum ps_err ps_libsvm_read(const char *path, const struct ps_libsvm_options *options, struct ps_sparse *out,
                                  struct ps_error *error) PS_MUST_USE;

/* Read the files of one data set together, so that a column is the same one in all of them.
 *
 * What the first column is called, and how many there are, is found over all files: of what is trained on and of what
 * is held out, say.
 *
 * Parameters:
 *   n        files, at least 1
 *   paths    [n] paths, each as of ps_libsvm_read()
 *   options  of all of them; NULL: all defaults
 *   out      [n], filled when the call succeeds
 * Errors:
 *   ps_libsvm_read()  what it has; PS_ERR_INVALID also for no file
 * Since: 0.1 */
PS_API enum ps_err ps_libsvm_read_parts(size_t n, const char *const *paths, const struct ps_libsvm_options *options,
                                        struct ps_sparse *out, struct ps_error *error) PS_MUST_USE;

/* Free examples.
 *
 * Parameters:
 *   sparse  zeroed afterwards
 * Since: 0.1 */
PS_API void ps_sparse_free(struct ps_sparse *sparse);

/* The two values that labels of two classes take, {-1, +1}, {0, 1} or {1, 2}: the larger is the class that a model says
 * the probability of.
 *
 * Since: 0.1 */
struct ps_binary {
    float negative, positive;
};

/* Find the two values of the labels.
 *
 * Parameters:
 *   sparse  examples
 * Errors:
 *   PS_ERR_DATA  all labels are the same, or there is a third: says which
 * Since: 0.1 */
PS_API enum ps_err ps_binary_fit(const struct ps_sparse *sparse, struct ps_binary *out,
                                 struct ps_error *error) PS_MUST_USE;

/* Labels as targets.
 *
 * Parameters:
 *   sparse   examples
 *   binary   from ps_binary_fit()
 *   targets  [rows], filled: 1 where the label is positive, 0 where it is negative
 * Errors:
 *   PS_ERR_DATA  a label that is neither: says in which row
 * Since: 0.1 */
PS_API enum ps_err ps_binary_targets(const struct ps_sparse *sparse, const struct ps_binary *binary, float *targets,
                                     struct ps_error *error) PS_MUST_USE;

struct ps_scaling;

/* Find a scaling of sparse columns, each divided by its largest absolute value, so that what is 0 stays 0.
 *
 * Parameters:
 *   sparse  the training part
 *   out     the scaling, which the caller frees with ps_scaling_free()
 * Errors:
 *   PS_ERR_NOMEM  no memory
 * Since: 0.1 */
PS_API enum ps_err ps_sparse_scaling_fit(const struct ps_sparse *sparse, struct ps_scaling *out,
                                         struct ps_error *error) PS_MUST_USE;

/* Scale sparse examples, in place.
 *
 * Parameters:
 *   sparse   the examples
 *   scaling  from ps_sparse_scaling_fit()
 * Errors:
 *   PS_ERR_INVALID  the numbers of columns differ
 * Since: 0.1 */
PS_API enum ps_err ps_sparse_scale(struct ps_sparse *sparse, const struct ps_scaling *scaling,
                                   struct ps_error *error) PS_MUST_USE;

/* Make a batch: some rows of a larger ps_sparse, in memory of its own that fits any rows_max of them.
 *
 * Parameters:
 *   from      where the rows come from
 *   rows_max  most rows of the batch
 *   out       the batch, which the caller frees with ps_sparse_free()
 * Errors:
 *   PS_ERR_NOMEM  no memory
 * Since: 0.1 */
PS_API enum ps_err ps_sparse_batch_new(const struct ps_sparse *from, size_t rows_max, struct ps_sparse *out,
                                       struct ps_error *error) PS_MUST_USE;

/* Copy rows into a batch; allocates nothing.
 *
 * Parameters:
 *   from   where the rows come from, as of ps_sparse_batch_new()
 *   n      rows, at most the batch's rows_max
 *   index  [n] numbers of rows, each below from->rows; no row twice
 *   batch  filled
 * Since: 0.1 */
PS_API void ps_sparse_gather(const struct ps_sparse *from, size_t n, const uint32_t *index, struct ps_sparse *batch);

/* A number that tells sets of examples apart: workers of a job compare it, so that one with other data is found
 * (ps_client_define()).
 *
 * A hash of all rows, their order and labels; the same on every machine.
 *
 * Parameters:
 *   sparse  as it is now: scaled values have another number
 * Returns: the number.
 * Since: 0.1 */
PS_API uint64_t ps_sparse_fingerprint(const struct ps_sparse *sparse);

/* ---- Dataset: features and labels -------------------------------------------------------------------------------- */

/* Examples: features and labels. Freed with ps_dataset_free().
 * Since: 0.1 */
struct ps_dataset {
    uint64_t rows;    /* examples */
    uint64_t columns; /* features of each */
    uint32_t classes; /* 1 + the largest label; 0 when there are no labels */
    float *features;  /* [rows, columns], 64-byte aligned, owned */
    uint32_t *labels; /* [rows], owned; NULL when there are none */
    uint32_t rank;    /* shape of one example: 8×8 images are rank 2; a network that convolves wants {8, 8, 1} */
    uint64_t dims[8]; /* their product is columns */
    char **names;     /* [columns], owned: of a table's columns; NULL: not known */
    char *source;     /* the file that they are from, for errors; owned; NULL: none */
};

/* Which part of a directory's data.
 * Since: 0.1 */
enum ps_part { PS_TRAIN = 0, PS_HELD_OUT = 1 };

/* Read a directory with files named as MNIST's are.
 *
 *     <part>-images-idx3-ubyte    <part>-labels-idx1-ubyte
 *
 * part is "train" or "t10k", each file optionally with ".gz" or with '.' for the last '-' before "idx"; directories of
 * these names are passed over. Images have any rank from 1 on and any type, the first dimension counts examples; there
 * are as many labels, whole numbers from 0 to 65,535.
 *
 * Parameters:
 *   directory  the directory
 *   part       which part
 * Errors:
 *   (file)  a file, or there is none
 * Since: 0.1 */
PS_API enum ps_err ps_dataset_load_idx(const char *directory, enum ps_part part, struct ps_dataset *out,
                                       struct ps_error *error) PS_MUST_USE;

/* Read images and labels from two files, as ps_dataset_load_idx() does.
 *
 * Parameters:
 *   images_path  the images
 *   labels_path  the labels; NULL: there are none
 * Errors:
 *   (file)  a file
 * Since: 0.1 */
PS_API enum ps_err ps_dataset_read_idx(const char *images_path, const char *labels_path, struct ps_dataset *out,
                                       struct ps_error *error) PS_MUST_USE;

/* ps_dataset_read_csv(): all columns are features.
 * Since: 0.1 */
#define PS_CSV_NO_LABEL (-1L)

/* Read a table as a dataset.
 *
 * Parameters:
 *   options       NULL: all defaults
 *   label_column  from 0: the column of the labels, whole numbers from 0 to 65,535; PS_CSV_NO_LABEL: all columns are
 *                 features
 * Errors:
 *   PS_ERR_INVALID  there is no such column
 *   (file)          the file
 * Since: 0.1 */
PS_API enum ps_err ps_dataset_read_csv(const char *path, const struct ps_csv_options *options, long label_column,
                                       struct ps_dataset *out, struct ps_error *error) PS_MUST_USE;

/* Check that what is trained on one part can be measured with another.
 *
 * Their examples have one shape and, where both parts have names, features of the same names in the same order.
 *
 * Parameters:
 *   train     what is trained on
 *   held_out  what is measured with
 * Errors:
 *   PS_ERR_DATA  they differ: says in what, and names the held-out file
 * Since: 0.1 */
PS_API enum ps_err ps_dataset_check_alike(const struct ps_dataset *train, const struct ps_dataset *held_out,
                                          struct ps_error *error) PS_MUST_USE;

/* Free a dataset.
 *
 * Parameters:
 *   dataset  zeroed afterwards
 * Since: 0.1 */
PS_API void ps_dataset_free(struct ps_dataset *dataset);

/* A number that tells datasets apart, as ps_sparse_fingerprint() does for sparse examples: of shape, features and
 * labels.
 *
 * Parameters:
 *   dataset  as it is now: scaled features have another number
 * Returns: the number.
 * Since: 0.1 */
PS_API uint64_t ps_dataset_fingerprint(const struct ps_dataset *dataset);

/* Copy rows of a dataset.
 *
 * Parameters:
 *   dataset  where the rows come from
 *   x        [n, columns], filled, or NULL
 *   labels   [n], filled, or NULL
 * Since: 0.1 */
PS_API void ps_dataset_gather(const struct ps_dataset *dataset, size_t n, const uint32_t *index, float *x,
                              uint32_t *labels);

/* ---- Scaling ----------------------------------------------------------------------------------------------------- */

/* How features are scaled.
 * Since: 0.1 */
enum ps_scale {
    PS_SCALE_NONE = 0,
    PS_SCALE_UNIT = 1,    /* all features divided by the largest absolute value among them */
    PS_SCALE_STANDARD = 2 /* each feature to mean 0 and variance 1; a constant one to 0 */
};

/* A scaling: x becomes (x - shift) factor. Fitted on the training part, applied to every part. Factors are finite: what
 * is subnormal stays small. Freed with ps_scaling_free().
 *
 * Since: 0.1 */
struct ps_scaling {
    uint64_t columns;
    float *shift, *factor; /* [columns], owned (one allocation, at shift) */
};

/* Find a scaling of a dataset's features.
 *
 * Parameters:
 *   dataset  the training part
 *   kind     how
 *   out      the scaling, which the caller frees with ps_scaling_free()
 * Errors:
 *   PS_ERR_INVALID  no such kind
 *   PS_ERR_NOMEM    no memory
 * Since: 0.1 */
PS_API enum ps_err ps_scaling_fit(const struct ps_dataset *dataset, enum ps_scale kind, struct ps_scaling *out,
                                  struct ps_error *error) PS_MUST_USE;

/* Free a scaling.
 *
 * Parameters:
 *   scaling  zeroed afterwards
 * Since: 0.1 */
PS_API void ps_scaling_free(struct ps_scaling *scaling);

/* Scale a dataset, in place.
 *
 * Parameters:
 *   dataset  the examples
 *   scaling  from ps_scaling_fit()
 * Errors:
 *   PS_ERR_INVALID  the numbers of columns differ
 * Since: 0.1 */
PS_API enum ps_err ps_dataset_scale(struct ps_dataset *dataset, const struct ps_scaling *scaling,
                                    struct ps_error *error) PS_MUST_USE;

/* ---- Sampler: which rows a worker computes in a step ------------------------------------------------------------- */

/* Rows [first, first + count) of n belong to worker `task` of `workers`: consecutive, and within one of even.
 *
 * Parameters:
 *   n        rows in all
 *   workers  number of workers, at least 1
 *   task     one of them, from 0 on
 *   first    filled: its first row
 *   count    filled: its rows
 * Threads: any.
 * Since: 0.1 */
PS_API void ps_shard_range(uint64_t n, uint32_t workers, uint32_t task, uint64_t *first, uint64_t *count);

/* The order of rows in every epoch, and a worker's share of each batch.
 * Since: 0.1 */
typedef struct ps_sampler ps_sampler;

/* A worker's slice of one global batch. Valid until the sampler has been asked for two other epochs.
 * Since: 0.1 */
struct ps_slice {
    const uint32_t *index; /* [count] rows of the dataset */
    size_t count;          /* batch / workers, one more or less; may be 0 in the last batch of an epoch */
    size_t global;         /* rows of the whole batch over all workers */
};

/* Make a sampler.
 *
 * Every epoch is a new order of the rows, the same on every worker: a Fisher-Yates shuffle with Philox4x32-10, keyed by
 * the seed, counted by the epoch. The order is cut into global batches, and each of those into one slice per worker
 * (ps_shard_range()). The last batch of an epoch holds what is left: every row is seen once per epoch.
 *
 * Parameters:
 *   rows     rows of the dataset, 1 to 2^32 - 1
 *   batch    rows of a global batch, at least 1
 *   workers  number of workers, at least 1
 *   task     this worker, below workers
 *   seed     the same on every worker
 *   out      the sampler, which the caller frees with ps_sampler_free()
 * Errors:
 *   PS_ERR_INVALID  no rows, no batch, no workers, or task >= workers
 *   PS_ERR_LIMIT    more than 2^32 - 1 rows
 *   PS_ERR_NOMEM    no memory
 * Since: 0.1 */
PS_API enum ps_err ps_sampler_new(uint64_t rows, size_t batch, uint32_t workers, uint32_t task, uint64_t seed,
                                  ps_sampler **out, struct ps_error *error) PS_MUST_USE;

/* Free a sampler.
 *
 * Parameters:
 *   sampler  or NULL
 * Since: 0.1 */
PS_API void ps_sampler_free(ps_sampler *sampler);

/* The sizes of a sampler.
 *
 * Parameters:
 *   sampler  from ps_sampler_new()
 * Returns:
 *   ps_sampler_steps()      batches in an epoch, the last one counted
 *   ps_sampler_slice_max()  most rows that a slice of this worker holds
 * Since: 0.1 */
PS_API uint64_t ps_sampler_steps(const ps_sampler *sampler);
PS_API size_t ps_sampler_slice_max(const ps_sampler *sampler);

/* The slice of this worker in a step of an epoch.
 *
 * Asking for another epoch than the last two shuffles (15 to 45 ns a row), otherwise it costs nothing. What a slice
 * holds depends on the seed, epoch and step alone: the replicas of a strategy may share a sampler, also while some ask
 * for the next epoch already.
 *
 * Parameters:
 *   sampler  from ps_sampler_new()
 *   epoch    from 0 on
 *   step     below ps_sampler_steps()
 * Returns: the slice; its rows belong to the sampler.
 * Threads: any.
 * Since: 0.1 */
PS_API struct ps_slice ps_sampler_slice(ps_sampler *sampler, uint64_t epoch, uint64_t step);

/* Factors for the loss of a row, so that the workers' gradients make the gradient of the global batch's mean loss.
 *
 * Equal over the workers, so an uneven last batch weighs every row the same.
 *
 * Parameters:
 *   slice    from ps_sampler_slice()
 *   workers  number of workers
 * Returns:
 *   ps_slice_scale_sum()   when the workers' gradients are added up: 1 / global
 *   ps_slice_scale_mean()  when their mean is taken, as psd does in sync: workers / global. It is also what a single
 *                          push should have in async and ssp: about the mean over its own slice
 * Threads: any.
 * Since: 0.1 */
PS_API float ps_slice_scale_sum(const struct ps_slice *slice);
PS_API float ps_slice_scale_mean(const struct ps_slice *slice, uint32_t workers);

#ifdef __cplusplus
}
#endif

#endif
