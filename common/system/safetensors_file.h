/* A safetensors file, open for reading: its header in memory, its values on disk, read a piece at a time. Everything
 * here blocks.
 *
 *     struct safetensors_file f;
 *     err = safetensors_file_open("model.safetensors", &f, &e);
 *     ... safetensors_find(&f.head, "w"), safetensors_file_floats(&f, t, 0, n, values, &e) ...
 *     safetensors_file_close(&f); */
#ifndef COMMON_SYSTEM_SAFETENSORS_FILE_H
#define COMMON_SYSTEM_SAFETENSORS_FILE_H

#include "common/core/base/base.h"
#include "common/core/format/safetensors.h"
#include "common/include/psclient/ps_err.h"

#define SAFETENSORS_PIECE (64 * KIB) /* values that are read at once */

struct safetensors_file {
    char *path; /* for sentences */
    int fd;     /* -1: none */
    struct safetensors head;
};

/* PS_ERR_IO, PS_ERR_DATA, PS_ERR_NOMEM. *out is ended by safetensors_file_close(), also after a failure. */
enum ps_err safetensors_file_open(const char *path, struct safetensors_file *out, struct ps_error *e) PS_MUST_USE;
void safetensors_file_close(struct safetensors_file *f);

/* n values of a tensor of the file from its first-th on, at most SAFETENSORS_PIECE; t is of a type that
 * safetensors_is_float(). PS_ERR_IO, PS_ERR_DATA (the file has become shorter). */
enum ps_err safetensors_file_floats(const struct safetensors_file *f, const struct safetensors_tensor *t,
                                    uint64_t first, size_t n, float *out, struct ps_error *e) PS_MUST_USE;

/* How many values a tensor has; of a SAFETENSORS_OTHER, how many bytes. */
uint64_t safetensors_elements(const struct safetensors_tensor *t);

#endif
