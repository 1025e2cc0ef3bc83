/* The public calls that declare variables, find those of others, and say what they are. */
#include <stdlib.h>

#include "client/api/client_state.h"

static struct ps_var *
var_handle(ps_client *c, struct core_var *core)
{
    void **handle = core_var_handle(core);
    struct ps_var *v = *handle;

    if (v != NULL || (v = malloc(sizeof(*v))) == NULL)
        return v;
    *v = (struct ps_var){.client = c, .core = core, .next = c->vars};
    c->vars = *handle = v;
    return v;
}

/* Within client_enter(). */
static enum ps_err
variable_declare_start(ps_client *c, const struct ps_var_spec *spec, ps_var **out, ps_op **op, struct ps_error *e)
{
    struct ps_op *handle = call_new(c);
    struct core_var *v;
    enum ps_err err;

    if (handle == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a declaration");
    err = core_declare(c->core, spec, &v, &handle->core, e);
    if (err == PS_OK && (*out = var_handle(c, v)) == NULL) {
        core_op_free(c->core, handle->core);
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for variable '%s'", spec->name);
    }
    return call_started(handle, err, op);
}

enum ps_err
ps_client_declare_start(ps_client *c, const struct ps_var_spec *spec, ps_var **out, ps_op **op, struct ps_error *error)
{
    enum ps_err err;

    if ((err = call_need(c, out, error)) != PS_OK || (err = call_need(c, op, error)) != PS_OK)
        return err;
    client_enter(c);
    err = variable_declare_start(c, spec, out, op, error);
    client_leave(c);
    return err;
}

enum ps_err
ps_client_declare(ps_client *c, const struct ps_var_spec *spec, ps_var **out, struct ps_error *error)
{
    enum ps_err err;
    ps_op *op = NULL;

    if ((err = ps_client_declare_start(c, spec, out, &op, error)) != PS_OK)
        return err;
    return call_finish(op, -1, error);
}

/* Within client_enter(). */
static enum ps_err
variable_attach(ps_client *c, const char *name, ps_var **out, struct ps_error *e)
{
    struct ps_op *op = call_new(c);
    enum ps_err err;

    if (op == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to attach to a variable");
    if ((err = call_started(op, core_attach(c->core, name, &op->core, e), &op)) != PS_OK)
        return err;
    if ((err = call_wait(op, client_timeout(c, -1), e)) == PS_OK &&
        (*out = var_handle(c, core_op_variable(op->core))) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for variable '%s'", name);
    core_op_free(c->core, op->core);
    client_perform(c);
    call_free(op);
    return err;
}

enum ps_err
ps_client_attach(ps_client *c, const char *name, ps_var **out, struct ps_error *error)
{
    enum ps_err err;

    if ((err = call_need(c, out, error)) != PS_OK)
        return err;
    client_enter(c);
    err = variable_attach(c, name, out, error);
    client_leave(c);
    return err;
}

const char *
ps_var_name(const ps_var *var)
{
    return core_var_name(var->core);
}

uint64_t
ps_var_elements(const ps_var *var)
{
    return core_var_elements(var->core);
}

uint32_t
ps_var_rank(const ps_var *var)
{
    return core_var_rank(var->core);
}

uint64_t
ps_var_dim(const ps_var *var, uint32_t i)
{
    return core_var_dim(var->core, i);
}

uint64_t
ps_var_blocks(const ps_var *var)
{
    return core_var_blocks(var->core);
}

void
ps_var_versions(const ps_var *var, uint64_t *lowest, uint64_t *highest)
{
    client_enter(var->client);
    core_var_versions(var->core, lowest, highest);
    client_leave(var->client);
}
