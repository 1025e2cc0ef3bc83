/* What an import makes of a safetensors file's tensors: which of them become which variables of a job. Pure: everything
 * that the header can have wrong for this job is found here, before anything is changed. */
#ifndef CLIENT_CORE_SHARDS_IMPORT_PLAN_H
#define CLIENT_CORE_SHARDS_IMPORT_PLAN_H

#include "common/core/format/checkpoint.h"
#include "common/core/format/safetensors.h"
#include "common/include/psclient/ps_optimizer.h"

struct import_choice {
    const char *pattern;       /* of the tensors' names, see pattern.h; NULL: all */
    const char *const *except; /* [except_len] patterns of those that are left out */
    size_t except_len;
    const struct ps_optimizer *declare; /* of variables that are not there; NULL: all must be */
    const Psd__Job *job;                /* to be made when it is not there; NULL: it must be */
};

/* is: the job as the shards know it and all its variables, or a zeroed one when none of them does. *out, a zeroed one:
 * the job with the variables that are imported, which start over; ended by checkpoint_finish(), also after a failure.
 * *declared: how many of them are new. file: for sentences.
 *
 * PS_ERR_NOT_FOUND: no tensor has a name that fits, a variable is not there, nor the job; PS_ERR_SHAPE: the variable
 * has another; PS_ERR_UNSUPPORTED: values that are no F32, F16 or BF16; PS_ERR_INVALID: nothing that a worker could
 * declare (a name, a dimension of 0, or an optimizer); PS_ERR_NOMEM, PS_ERR_LIMIT. */
enum ps_err import_plan(const char *file, const struct safetensors *tensors, const struct checkpoint *is,
                        const struct import_choice *choice, struct checkpoint *out, uint64_t *declared,
                        struct ps_error *e) PS_MUST_USE;

#endif
