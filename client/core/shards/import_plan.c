#include "client/core/shards/import_plan.h"

#include <stdio.h>
#include <string.h>

#include "common/core/base/nearest.h"
#include "common/core/base/pattern.h"
#include "common/core/wire/wire.h"

#define NAME_SHOWN 64
#define SHAPE_MAX  200

static const char *
shape_text(size_t rank, const uint64_t *dims, char out[SHAPE_MAX])
{
    size_t at = (size_t)snprintf(out, SHAPE_MAX, "[");

    for (size_t i = 0; i < rank; i++)
        at += (size_t)snprintf(out + at, SHAPE_MAX - at, "%s%llu", i > 0 ? ", " : "", (unsigned long long)dims[i]);
    snprintf(out + at, SHAPE_MAX - at, "]");
    return out;
}

static enum ps_err
plan_job(const struct checkpoint *is, const struct import_choice *choice, struct checkpoint *out, struct ps_error *e)
{
    if (is->declared != NULL)
        return checkpoint_set_job(out, is->declared, is->now, e);
    if (choice->job == NULL)
        return ps_fail(e, PS_ERR_NOT_FOUND, "the cluster does not have the job, and nothing says how to make it");
    return checkpoint_set_job(out, choice->job, choice->job, e);
}

/* What is there takes the values; its optimizer stays as SET left it. */
static enum ps_err
plan_existing(const char *file, const struct safetensors_tensor *t, const struct checkpoint_variable *v,
              struct checkpoint *out, struct ps_error *e)
{
    char is[SHAPE_MAX], want[SHAPE_MAX];

    if (t->rank != v->declared->n_dims ||
        (t->rank > 0 && memcmp(t->dims, v->declared->dims, t->rank * sizeof *t->dims) != 0))
        return ps_fail(e, PS_ERR_SHAPE, "%s: tensor '%.*s' has the shape %s, the variable %s", file, NAME_SHOWN,
                       t->name, shape_text(t->rank, t->dims, is),
                       shape_text(v->declared->n_dims, v->declared->dims, want));
    return checkpoint_add(out, v->declared, v->now, e);
}

static enum ps_err
plan_new(const char *file, const struct safetensors_tensor *t, const struct ps_optimizer *optimizer,
         struct checkpoint *out, struct ps_error *e)
{
    Psd__Declare declare = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    struct wire_optimizer room;
    char text[PS_ERROR_TEXT_MAX];
    enum ps_err err;

    declare.name = t->name;
    declare.n_dims = t->rank;
    declare.dims = (uint64_t *)t->dims;
    declare.init = &init;
    declare.optimizer = wire_optimizer_message(optimizer, &room);
    if ((err = checkpoint_add(out, &declare, &declare, e)) == PS_OK || e == NULL)
        return err;
    snprintf(text, sizeof text, "%.100s: tensor '%.*s' cannot be declared: %.250s", file, NAME_SHOWN, t->name, e->text);
    memcpy(e->text, text, sizeof text);
    return err;
}

static enum ps_err
plan_tensor(const char *file, const struct safetensors_tensor *t, const struct checkpoint *is,
            const struct import_choice *choice, struct checkpoint *out, uint64_t *declared, struct ps_error *e)
{
    const struct checkpoint_variable *there = checkpoint_find(is, t->name);

    if (!safetensors_is_float(t->type))
        return ps_fail(e, PS_ERR_UNSUPPORTED,
                       "%s: tensor '%.*s' is of %.16s: F32, F16 and BF16 become variables (except leaves others out)",
                       file, NAME_SHOWN, t->name, safetensors_dtype(t));
    if (there != NULL)
        return plan_existing(file, t, there, out, e);
    if (choice->declare == NULL)
        return ps_fail(e, PS_ERR_NOT_FOUND, "%s: tensor '%.*s': the job has no such variable", file, NAME_SHOWN,
                       t->name);
    (*declared)++;
    return plan_new(file, t, choice->declare, out, e);
}

static bool
is_wanted(const struct import_choice *choice, const char *name)
{
    for (size_t i = 0; i < choice->except_len; i++)
        if (pattern_matches(choice->except[i], name))
            return false;
    return choice->pattern == NULL || pattern_matches(choice->pattern, name);
}

/* The tensor that a pattern without any in the file may have meant. */
static const char *
tensor_meant(const struct safetensors *tensors, const char *pattern, char out[NEAREST_TEXT_MAX])
{
    struct nearest nearest = nearest_to(pattern);

    for (size_t i = 0; i < tensors->len; i++)
        nearest_offer(&nearest, tensors->tensors[i].name);
    return nearest_text(&nearest, "", out);
}

enum ps_err
import_plan(const char *file, const struct safetensors *tensors, const struct checkpoint *is,
            const struct import_choice *choice, struct checkpoint *out, uint64_t *declared, struct ps_error *e)
{
    enum ps_err err = plan_job(is, choice, out, e);
    const char *pattern = choice->pattern != NULL ? choice->pattern : "*";
    char meant[NEAREST_TEXT_MAX];

    *declared = 0;
    for (size_t i = 0; err == PS_OK && i < tensors->len; i++)
        if (is_wanted(choice, tensors->tensors[i].name))
            err = plan_tensor(file, &tensors->tensors[i], is, choice, out, declared, e);
    if (err == PS_OK && out->variables_len == 0)
        return ps_fail(e, PS_ERR_NOT_FOUND, "%s: it has no tensor that \"%.128s\" names%s%s", file, pattern,
                       choice->except_len > 0 ? " and that is not left out" : "",
                       choice->except_len > 0 ? "" : tensor_meant(tensors, pattern, meant));
    return err;
}
