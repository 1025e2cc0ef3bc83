/* The public calls that declare variables, find those of others, and say what they are. */
#include <stdlib.h>

#include "client/api/client_state.h"

#define ATTACH_AT_ONCE 256 /* variables that are asked for and not found yet */

struct ps_var *
client_var(ps_client *c, struct core_var *core)
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
    if (err == PS_OK && (*out = client_var(c, v)) == NULL) {
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

/* Within client_enter(), as the next two. */
static enum ps_err
variable_attach_start(ps_client *c, const char *name, ps_op **op, struct ps_error *e)
{
    struct ps_op *handle = call_new(c);

    if (handle == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to attach to a variable");
    return call_started(handle, core_attach(c->core, name, &handle->core, e), op);
}

static void
variable_attach_free(ps_op *op)
{
    core_op_free(op->client->core, op->core);
    client_perform(op->client);
    call_free(op);
}

static enum ps_err
variable_attach_end(ps_op *op, ps_var **out, struct ps_error *e)
{
    ps_client *c = op->client;
    enum ps_err err;

    if ((err = call_wait(op, client_timeout(c, -1), e)) == PS_OK &&
        (*out = client_var(c, core_op_variable(op->core))) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for variable '%s'", core_var_name(core_op_variable(op->core)));
    variable_attach_free(op);
    return err;
}

/* Within client_enter(). */
static enum ps_err
variable_attach_many(ps_client *c, size_t n, const char *const names[], ps_var *out[], struct ps_error *e)
{
    ps_op *ops[ATTACH_AT_ONCE];
    size_t asked = 0, had = 0;
    enum ps_err err = PS_OK;

    while (err == PS_OK && had < n) {
        if (asked < n && asked - had < ATTACH_AT_ONCE) {
            if ((err = variable_attach_start(c, names[asked], &ops[asked % ATTACH_AT_ONCE], e)) == PS_OK)
                asked++;
        } else {
            err = variable_attach_end(ops[had % ATTACH_AT_ONCE], &out[had], e);
            had++;
        }
    }
    for (; had < asked; had++)
        variable_attach_free(ops[had % ATTACH_AT_ONCE]);
    return err;
}

enum ps_err
ps_client_attach_many(ps_client *c, size_t n, const char *const names[], ps_var *out[], struct ps_error *error)
{
    enum ps_err err;

    if ((err = call_need(c, out, error)) != PS_OK)
        return err;
    if (names == NULL)
        return ps_fail(error, PS_ERR_INVALID, "there are no names of variables");
    client_enter(c);
    err = variable_attach_many(c, n, names, out, error);
    client_leave(c);
    return err;
}

enum ps_err
ps_client_attach(ps_client *c, const char *name, ps_var **out, struct ps_error *error)
{
    return ps_client_attach_many(c, 1, &name, out, error);
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
