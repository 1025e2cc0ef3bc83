/* The public calls that give variables values (ps_assign.h). */
#include <stdlib.h>
#include <string.h>

#include "client/api/client_state.h"

static int
assign_timeout(const struct ps_assign_options *options)
{
    return options != NULL ? call_timeout(options->timeout_ms) : -1;
}

enum ps_err
ps_client_assign_start(ps_client *c, size_t n, ps_var *const vars[], const float *const values[],
                       const struct ps_assign_options *options, ps_op **op, struct ps_error *error)
{
    struct core_var **list;
    struct ps_op *handle;
    enum ps_err err;

    if ((handle = call_begin(c, "assign", op, &err, error)) == NULL)
        return err;
    if ((list = call_vars(c, n, vars, &err, error)) != NULL)
        err = call_started(handle, core_assign(c->core, n, list, values, options, &handle->core, error), op);
    else
        call_free(handle);
    client_leave(c);
    return err;
}

enum ps_err
ps_client_assign(ps_client *c, size_t n, ps_var *const vars[], const float *const values[],
                 const struct ps_assign_options *options, uint64_t *clock, struct ps_error *error)
{
    enum ps_err err;
    ps_op *op = NULL;

    if ((err = ps_client_assign_start(c, n, vars, values, options, &op, error)) != PS_OK)
        return err;
    err = ps_op_wait(op, assign_timeout(options), error);
    if (clock != NULL)
        *clock = ps_op_assign_clock(op);
    ps_op_free(op);
    return err;
}

uint64_t
ps_op_assign_clock(const ps_op *op)
{
    uint64_t clock;

    client_enter(op->client);
    clock = core_op_assign_clock(op->core);
    client_leave(op->client);
    return clock;
}

/* ---- First values ---- */

/* What is started; within client_enter(). list: [n], filled. */
static enum ps_err
assign_declare_start(ps_client *c, size_t n, const struct ps_var_spec specs[], const float *const values[],
                     const struct ps_assign_options *options, struct core_var **list, ps_var *vars[], int given[],
                     ps_op **op, struct ps_error *e)
{
    struct ps_op *handle = call_new(c);
    enum ps_err err;

    if (handle == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a declaration");
    err = core_declare_values(c->core, n, specs, values, options, list, given, &handle->core, e);
    for (size_t i = 0; i < n && err == PS_OK; i++)
        if ((vars[i] = client_var(c, list[i])) == NULL) {
            core_op_free(c->core, handle->core);
            err = ps_fail(e, PS_ERR_NOMEM, "no memory for variable '%s'", specs[i].name);
        }
    return call_started(handle, err, op);
}

enum ps_err
ps_client_declare_values(ps_client *c, size_t n, const struct ps_var_spec specs[], const float *const values[],
                         const struct ps_assign_options *options, ps_var *vars[], int given[], struct ps_error *error)
{
    struct core_var **list;
    ps_op *op = NULL;
    enum ps_err err;

    if ((err = call_need(c, vars, error)) != PS_OK)
        return err;
    if ((list = calloc(n + 1, sizeof(struct core_var *))) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory for a list of %zu variables", n);
    client_enter(c);
    err = assign_declare_start(c, n, specs, values, options, list, vars, given, &op, error);
    client_leave(c);
    free(list);
    if (err != PS_OK)
        return err;
    return call_finish(op, assign_timeout(options), error);
}
