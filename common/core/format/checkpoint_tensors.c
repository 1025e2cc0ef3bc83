/* Which tensors a checkpoint's files have, what they are called and where they begin. */
#include "common/core/format/checkpoint.h"

#include <stdio.h>
#include <string.h>

#define NAME_SHOWN 64

const char *
checkpoint_file_name(enum checkpoint_file file)
{
    static const char *const names[CHECKPOINT_FILES] = {
        [CHECKPOINT_WEIGHTS] = "weights.safetensors", [CHECKPOINT_SLOTS] = "slots.safetensors"};

    ps_assert((unsigned)file < CHECKPOINT_FILES);
    return names[file];
}

/* "dense/w#version" */
static const char *
tensor_name(const char *variable, const char *what, char out[SAFETENSORS_NAME_MAX + 1])
{
    snprintf(out, SAFETENSORS_NAME_MAX + 1, "%s#%s", variable, what);
    return out;
}

static const char *
slot_name(const char *variable, uint32_t slot, char out[SAFETENSORS_NAME_MAX + 1])
{
    char number[12];

    snprintf(number, sizeof number, "%u", slot);
    return tensor_name(variable, number, out);
}

static enum ps_err
add_slots(const struct checkpoint_variable *v, struct safetensors *s, struct ps_error *e)
{
    char name[SAFETENSORS_NAME_MAX + 1];
    enum ps_err err = PS_OK;

    for (uint32_t i = 0; err == PS_OK && i < v->layout.slots; i++)
        err = safetensors_add(s, slot_name(v->declared->name, i, name), SAFETENSORS_F32, (uint32_t)v->declared->n_dims,
                              v->declared->dims, e);
    return err;
}

static enum ps_err
add_counts(const struct checkpoint_variable *v, struct safetensors *s, struct ps_error *e)
{
    char name[SAFETENSORS_NAME_MAX + 1];
    enum ps_err err;

    if ((err = safetensors_add(s, tensor_name(v->declared->name, "version", name), SAFETENSORS_I64, 1,
                               &v->layout.blocks, e)) != PS_OK)
        return err;
    return safetensors_add(s, tensor_name(v->declared->name, "clock", name), SAFETENSORS_I64, 1, &v->layout.blocks, e);
}

static enum ps_err
add_weights(const struct checkpoint_variable *v, struct safetensors *s, struct ps_error *e)
{
    return safetensors_add(s, v->declared->name, SAFETENSORS_F32, (uint32_t)v->declared->n_dims, v->declared->dims, e);
}

enum ps_err
checkpoint_tensors(const struct checkpoint *c, enum checkpoint_file file, struct safetensors *s, struct ps_error *e)
{
    enum ps_err (*const rounds[CHECKPOINT_FILES][2])(const struct checkpoint_variable *, struct safetensors *,
                                                     struct ps_error *) = {
        [CHECKPOINT_WEIGHTS] = {add_weights}, [CHECKPOINT_SLOTS] = {add_counts, add_slots}, /* the larger type first:
                                                                                               then all are aligned */
    };
    enum ps_err err = PS_OK;

    s->head_max = SAFETENSORS_HEAD_OWN_MAX;
    for (int round = 0; round < 2 && rounds[file][round] != NULL; round++)
        for (size_t i = 0; err == PS_OK && i < c->variables_len; i++)
            err = rounds[file][round](&c->variables[i], s, e);
    return err;
}

static enum ps_err
check_tensor(const char *file, const struct safetensors_tensor *want, const struct safetensors *in, struct ps_error *e)
{
    const struct safetensors_tensor *is = safetensors_find(in, want->name);

    if (is == NULL)
        return ps_fail(e, PS_ERR_DATA, "%s: tensor '%.*s' is missing", file, NAME_SHOWN, want->name);
    if (is->type != want->type || is->rank != want->rank ||
        memcmp(is->dims, want->dims, want->rank * sizeof *want->dims) != 0)
        return ps_fail(e, PS_ERR_DATA, "%s: tensor '%.*s' has another shape than the manifest says", file, NAME_SHOWN,
                       want->name);
    return PS_OK;
}

enum ps_err
checkpoint_check_tensors(const struct checkpoint *c, const struct safetensors files[CHECKPOINT_FILES],
                         struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++) {
        const char *name = checkpoint_file_name((enum checkpoint_file)f);
        struct safetensors want = {0};

        err = checkpoint_tensors(c, (enum checkpoint_file)f, &want, e);
        for (size_t i = 0; err == PS_OK && i < want.len; i++)
            err = check_tensor(name, &want.tensors[i], &files[f], e);
        if (err == PS_OK && want.len != files[f].len)
            err =
                ps_fail(e, PS_ERR_DATA, "%s: it has %zu tensors, the manifest says %zu", name, files[f].len, want.len);
        safetensors_finish(&want);
    }
    return err;
}

/* The place of a tensor with so many values of this type. */
static bool
tensor_place(const struct safetensors *s, const char *name, enum safetensors_type type, uint64_t values,
             uint64_t *place)
{
    const struct safetensors_tensor *t = safetensors_find(s, name);

    if (t == NULL || t->type != type || t->bytes != values * safetensors_type_bytes(type))
        return false;
    *place = t->begin;
    return true;
}

bool
checkpoint_places(const struct safetensors files[CHECKPOINT_FILES], const char *name, const struct layout *layout,
                  struct checkpoint_places *out)
{
    const struct safetensors *slots = &files[CHECKPOINT_SLOTS];
    char tensor[SAFETENSORS_NAME_MAX + 1];

    for (uint32_t i = 0; i < layout->slots; i++)
        if (!tensor_place(slots, slot_name(name, i, tensor), SAFETENSORS_F32, layout->elements, &out->slot[i]))
            return false;
    return tensor_place(&files[CHECKPOINT_WEIGHTS], name, SAFETENSORS_F32, layout->elements, &out->weights) &&
           tensor_place(slots, tensor_name(name, "version", tensor), SAFETENSORS_I64, layout->blocks, &out->version) &&
           tensor_place(slots, tensor_name(name, "clock", tensor), SAFETENSORS_I64, layout->blocks, &out->clock);
}
