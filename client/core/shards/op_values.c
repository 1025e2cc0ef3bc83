/* Starting what gives variables values: assigns, and declarations with first values. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/core/shards/op.h"
#include "client/core/shards/shard_link.h"

#define OP_VALUES_DTYPE    "F32" /* the only one, as safetensors has it */
#define OP_VALUES_DIMS_MAX (3 + PS_RANK_MAX * 21)

/* ---- Checks ---- */

/* Every shard takes them. */
static enum ps_err
op_values_check_shards(const struct core *c, struct ps_error *e)
{
    for (uint32_t i = 0; i < c->config.shards; i++)
        if (!c->links[i].assigns) {
            core_error_set(c, &c->links[i], e, PS_ERR_UNSUPPORTED,
                           "shard %u at %s is of a release that takes no values from workers", i, c->addresses[i]);
            return PS_ERR_UNSUPPORTED;
        }
    return PS_OK;
}

static enum ps_err
op_values_check_options(const struct ps_assign_options *options, struct ps_error *e)
{
    unsigned known = PS_ASSIGN_RESET_SLOTS | PS_ASSIGN_NEXT_STEP | PS_ASSIGN_DURABLE | PS_ASSIGN_ALLOW_NONFINITE;

    if (options != NULL && (options->flags & ~known) != 0)
        return ps_fail(e, PS_ERR_INVALID, "assign: flags 0x%x are not known", options->flags);
    return PS_OK;
}

/* "[20,10]" */
static const char *
op_values_dims(char out[OP_VALUES_DIMS_MAX], uint32_t rank, const uint64_t *dims)
{
    int at = snprintf(out, OP_VALUES_DIMS_MAX, "[");

    for (uint32_t i = 0; i < MIN(rank, PS_RANK_MAX); i++)
        at += snprintf(out + at, OP_VALUES_DIMS_MAX - (size_t)at, "%s%" PRIu64, i > 0 ? "," : "", dims[i]);
    snprintf(out + at, OP_VALUES_DIMS_MAX - (size_t)at, "]");
    return out;
}

/* What the caller says that a buffer holds is what the variable is. */
static enum ps_err
op_values_check_shape(const struct core_var *v, const struct ps_shape *shape, struct ps_error *e)
{
    char have[OP_VALUES_DIMS_MAX], want[OP_VALUES_DIMS_MAX];

    if (shape->dtype != NULL && strcmp(shape->dtype, OP_VALUES_DTYPE) != 0)
        return ps_fail(e, PS_ERR_MISMATCH,
                       "values for variable '%.64s' are of type %.32s, and variables are " OP_VALUES_DTYPE, v->name,
                       shape->dtype);
    if (shape->rank == v->spec.rank && memcmp(shape->dims, v->spec.dims, shape->rank * sizeof *shape->dims) == 0)
        return PS_OK;
    return ps_fail(e, PS_ERR_MISMATCH, "values for variable '%.64s' have shape %s, and the variable has %s", v->name,
                   op_values_dims(have, shape->rank, shape->dims), op_values_dims(want, v->spec.rank, v->spec.dims));
}

static enum ps_err
op_values_check_shapes(size_t n, struct core_var *const vars[], const float *const values[],
                       const struct ps_assign_options *options, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if (options == NULL || options->shapes == NULL)
        return PS_OK;
    for (size_t i = 0; i < n && err == PS_OK; i++)
        if (values[i] != NULL)
            err = op_values_check_shape(vars[i], &options->shapes[i], e);
    return err;
}

/* Each variable is there once: which of its values was meant otherwise. */
static enum ps_err
op_values_check_once(size_t n, struct core_var *const vars[], struct ps_error *e)
{
    struct core_var *twice = NULL;

    for (size_t i = 0; i < n; i++) {
        if (vars[i]->listed)
            twice = vars[i];
        vars[i]->listed = true;
    }
    for (size_t i = 0; i < n; i++)
        vars[i]->listed = false;
    if (twice != NULL)
        return ps_fail(e, PS_ERR_INVALID, "assign: variable '%s' is there twice", twice->name);
    return PS_OK;
}

/* ---- Starting ---- */

/* The variables are in it already. */
static void
op_values_fill(struct core *c, struct core_op *op, size_t n, const float *const values[],
               const struct ps_assign_options *options)
{
    unsigned flags = options != NULL ? options->flags : 0;

    op->n = n;
    memcpy(op->grads, values, n * sizeof *values);
    op->durable = c->config.durable || (flags & PS_ASSIGN_DURABLE) != 0;
    op->assign.reset_slots = (flags & PS_ASSIGN_RESET_SLOTS) != 0;
    op->assign.next_step = (flags & PS_ASSIGN_NEXT_STEP) != 0;
    op->assign.nonfinite = (flags & PS_ASSIGN_ALLOW_NONFINITE) != 0;
    for (uint32_t i = 0; i < c->config.shards; i++)
        (void)op_add_lane(op, i);
}

enum ps_err
core_assign(struct core *c, size_t n, struct core_var *const vars[], const float *const values[],
            const struct ps_assign_options *options, struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_train(c, e)) != PS_OK ||
        (err = op_check_vars("assign", n, vars, (const void *const *)values, e)) != PS_OK ||
        (err = op_values_check_options(options, e)) != PS_OK || (err = op_values_check_once(n, vars, e)) != PS_OK ||
        (err = op_values_check_shapes(n, vars, values, options, e)) != PS_OK ||
        (err = op_values_check_shards(c, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_ASSIGN)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start an assign");
    if (op_reserve(op, n, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "assign");
    memcpy(op->vars, vars, n * sizeof *vars);
    op_values_fill(c, op, n, values, options);
    *op_out = op;
    op_assign_start(c, op);
    return PS_OK;
}

static enum ps_err
op_values_check_spec(const struct ps_var_spec *spec, const float *values, size_t i, struct ps_error *e)
{
    if ((uintptr_t)values % sizeof *values != 0)
        return ps_fail(e, PS_ERR_INVALID, "declaration %zu: the values are not 4-byte aligned", i);
    if (values != NULL && spec->init.kind != PS_INIT_GIVEN)
        return ps_fail(e, PS_ERR_INVALID,
                       "declaration %zu has first values, and an initializer as well: init.kind must be PS_INIT_GIVEN",
                       i);
    return PS_OK;
}

/* The table's variables of these definitions. */
static enum ps_err
op_values_find(struct core *c, size_t n, const struct ps_var_spec specs[], const float *const values[],
               struct core_var *vars[], struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if (n == 0 || specs == NULL || values == NULL || vars == NULL)
        return ps_fail(e, PS_ERR_INVALID, "declarations with values need at least one variable, and its values");
    for (size_t i = 0; i < n && err == PS_OK; i++)
        if ((err = op_values_check_spec(&specs[i], values[i], i, e)) == PS_OK)
            err = variables_declare(&c->vars, &specs[i], &vars[i], e);
    return err;
}

enum ps_err
core_declare_values(struct core *c, size_t n, const struct ps_var_spec specs[], const float *const values[],
                    const struct ps_assign_options *options, struct core_var *vars[], int given[],
                    struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_train(c, e)) != PS_OK || (err = op_values_check_options(options, e)) != PS_OK ||
        (err = op_values_check_shards(c, e)) != PS_OK ||
        (err = op_values_find(c, n, specs, values, vars, e)) != PS_OK ||
        (err = op_values_check_once(n, vars, e)) != PS_OK ||
        (err = op_values_check_shapes(n, vars, values, options, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_ASSIGN)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a declaration");
    if (op_reserve(op, n, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "declaration");
    memcpy(op->vars, vars, n * sizeof *vars);
    op->assign.first = true;
    op->assign.given = given;
    for (size_t i = 0; i < n; i++)
        vars[i]->declaring++;
    op_values_fill(c, op, n, values, options);
    *op_out = op;
    op_assign_start(c, op);
    return PS_OK;
}

uint64_t
core_op_assign_clock(const struct core_op *op)
{
    return op->kind == OP_ASSIGN ? op->assign.clock : 0;
}
