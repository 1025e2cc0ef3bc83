/* Checks the definition of a variable: its name, shape, initializer and optimizer. */
#include <stdio.h>
#include <string.h>

#include "common/core/wire/wire_check.h"
#include "common/core/wire/wire_rules.h"

enum ps_err
wire_check_variable_name(const char *name, struct ps_error *e)
{
    if (strcmp(name, WIRE_NAME_RESERVED) != 0)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID,
                   "a variable cannot have the name '%s', which safetensors files use for something else: it could "
                   "have no checkpoint",
                   name);
}

static enum ps_err
check_shape(const Psd__Declare *d, struct ps_error *e)
{
    uint64_t elements;

    switch (wire_elements(d->dims, d->n_dims, &elements)) {
    case PS_OK:
        return PS_OK;
    case PS_ERR_INVALID:
        return ps_fail(e, PS_ERR_INVALID, "declare.dims of '%s' has a dimension of 0", d->name);
    default:
        return ps_fail(e, PS_ERR_LIMIT, "declare.dims of '%s': the limits are %d dimensions and %llu elements", d->name,
                       WIRE_RANK_MAX, WIRE_ELEMENTS_MAX);
    }
}

enum ps_err
wire_elements(const uint64_t *dims, size_t rank, uint64_t *elements)
{
    uint64_t product = 1;

    if (rank > WIRE_RANK_MAX)
        return PS_ERR_LIMIT;
    for (size_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return PS_ERR_INVALID;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] > WIRE_ELEMENTS_MAX / product)
            return PS_ERR_LIMIT;
        product *= dims[i];
    }
    *elements = product;
    return PS_OK;
}

static enum ps_err
check_initializer(const Psd__Initializer *i, struct ps_error *e)
{
    struct initializer init;

    TRY(rule_known(e, "declare.init.kind", (int)i->kind, INIT_KIND_MAX));
    TRY(rule_number(e, "declare.init.a", i->a));
    TRY(rule_number(e, "declare.init.b", i->b));
    init = wire_initializer(i);
    return initializer_check(&init, e);
}

/* Parameters that the kind does not use are ignored, but must be finite numbers. */
static enum ps_err
check_optimizer(const Psd__Optimizer *o, struct ps_error *e)
{
    struct ps_optimizer optimizer;
    char field[64];

    TRY(rule_known(e, "declare.optimizer.kind", (int)o->kind, PS_OPTIMIZER_KINDS));
    for (enum optimizer_parameter p = 0; p < OPTIMIZER_PARAMETERS; p++) {
        snprintf(field, sizeof field, "declare.optimizer.%s", optimizer_parameter_name(p));
        TRY(rule_number(e, field, wire_optimizer_parameter(o, p)));
    }
    if (o->schedule != NULL)
        TRY(rule_schedule(o->schedule, e));
    if (o->clip != NULL)
        TRY(rule_clip(o->clip, e));
    optimizer = wire_optimizer(o);
    return optimizer_check(&optimizer, e);
}

static enum ps_err
check_declare(Psd__Declare *d, struct arena *arena, struct ps_error *e)
{
    TRY(rule_name(e, "declare.name", d->name, 1, WIRE_NAME_MAX));
    TRY(wire_check_variable_name(d->name, e));
    TRY(check_shape(d, e));
    TRY(rule_known(e, "declare.nonfinite", (int)d->nonfinite, PSD__NON_FINITE__ALLOW + 1));
    FILL(arena, d->init, psd__initializer__init);
    FILL(arena, d->optimizer, psd__optimizer__init);
    TRY(check_initializer(d->init, e));
    return check_optimizer(d->optimizer, e);
}

enum ps_err
wire_check_declare(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    return check_declare(msg->u.declare, arena, e);
}

enum ps_err
wire_check_attach(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(rule_name(e, "attach.job", msg->u.attach->job, 1, WIRE_NAME_MAX));
    return rule_name(e, "attach.name", msg->u.attach->name, 1, WIRE_NAME_MAX);
}

/* The definition is there when it answers an attach. */
enum ps_err
wire_check_declared(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Declare *d = msg->u.declared->declare;

    return d != NULL ? check_declare(d, arena, e) : PS_OK;
}
