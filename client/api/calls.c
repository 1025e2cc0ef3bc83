/* The public calls of training: check what the caller gave, hand it to the core, wait. */
#include <stdlib.h>

#include "client/api/client_state.h"
#include "client/api/trace_recorder.h"
#include "client/core/shards/variable.h"

struct core_var **
call_vars(ps_client *c, size_t n, ps_var *const vars[], enum ps_err *err, struct ps_error *e)
{
    struct core_var **room;
    size_t i;

    *err = PS_OK;
    if (n == 0 || vars == NULL) {
        *err = ps_fail(e, PS_ERR_INVALID, "no variables were given");
        return NULL;
    }
    if (n > c->scratch_room) {
        if ((room = realloc(c->scratch, n * sizeof(*room))) == NULL) {
            *err = ps_fail(e, PS_ERR_NOMEM, "no memory for a list of %zu variables", n);
            return NULL;
        }
        c->scratch = room;
        c->scratch_room = n;
    }
    for (i = 0; i < n; i++) {
        if (vars[i] == NULL || vars[i]->client != c) {
            *err = ps_fail(e, PS_ERR_INVALID, "variable %zu is %s", i, vars[i] == NULL ? "NULL" : "another client's");
            return NULL;
        }
        c->scratch[i] = vars[i]->core;
    }
    return c->scratch;
}

enum ps_err
client_check_vars(const ps_client *c, size_t n, ps_var *const vars[], struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if (n == 0 || vars == NULL)
        return ps_fail(e, PS_ERR_INVALID, "no variables were given");
    client_enter(c);
    for (size_t i = 0; i < n && err == PS_OK; i++)
        if (vars[i] == NULL || vars[i]->client != c)
            err = ps_fail(e, PS_ERR_INVALID, "variable %zu is %s", i, vars[i] == NULL ? "NULL" : "another client's");
        else if (!vars[i]->core->declared)
            err = ps_fail(e, PS_ERR_INVALID, "the declaration of '%s' is not done", vars[i]->core->name);
    client_leave(c);
    return err;
}

const struct ps_compress *
client_push_compress(const ps_client *c, const struct ps_push_options *options)
{
    return options != NULL && options->compress != NULL ? options->compress : &c->options.compress;
}

bool
client_clips(size_t n, ps_var *const vars[], const struct ps_push_options *options)
{
    bool clips = false;

    for (size_t i = 0; i < n; i++)
        clips |= vars[i]->core->spec.optimizer.clip.kind == PS_CLIP_GIVEN_NORM;
    return clips && !(options != NULL && options->norm > 0);
}

bool
client_looks_first(const ps_client *c, size_t n, ps_var *const vars[], const struct ps_push_options *options)
{
    return client_push_compress(c, options)->kind != PS_COMPRESS_NONE || client_clips(n, vars, options);
}

uint64_t
client_blocks(const ps_var *var)
{
    return var->core->layout.blocks;
}

uint32_t
client_block_len(const ps_var *var, uint64_t block)
{
    uint64_t first;
    uint32_t len;

    var_block_range(var->core, block, &first, &len);
    return len;
}

int
call_timeout(int timeout_ms)
{
    return timeout_ms != 0 ? timeout_ms : -1;
}

struct ps_op *
call_begin(ps_client *c, const char *what, const void *out, enum ps_err *err, struct ps_error *e)
{
    struct ps_op *handle;

    if ((*err = call_need(c, out, e)) != PS_OK)
        return NULL;
    client_enter(c);
    if ((handle = call_new(c)) == NULL) {
        *err = ps_fail(e, PS_ERR_NOMEM, "no memory to start a %s", what);
        client_leave(c);
    }
    return handle;
}

/* ---- Pull ---- */

enum ps_err
ps_client_pull_start(ps_client *c, size_t n, ps_var *const vars[], float *const out[],
                     const struct ps_pull_options *options, ps_op **op, struct ps_error *error)
{
    struct core_var **list;
    struct ps_op *handle;
    enum ps_err err;

    if ((handle = call_begin(c, "pull", op, &err, error)) == NULL)
        return err;
    if ((list = call_vars(c, n, vars, &err, error)) != NULL)
        err = call_held_started(handle, core_pull(c->core, n, list, out, options, &handle->core, error), op);
    else
        call_free(handle);
    client_leave(c);
    return err;
}

enum ps_err
ps_client_pull(ps_client *c, size_t n, ps_var *const vars[], float *const out[], const struct ps_pull_options *options,
               struct ps_error *error)
{
    enum ps_err err;
    ps_op *op = NULL;

    if ((err = ps_client_pull_start(c, n, vars, out, options, &op, error)) != PS_OK)
        return err;
    return call_finish(op, options != NULL ? call_timeout(options->timeout_ms) : -1, error);
}

/* ---- Push ---- */

static enum ps_err
push_start(ps_client *c, size_t n, ps_var *const vars[], const float *const grads[], float *const out[],
           const struct ps_push_options *options, ps_op **op, struct ps_error *error)
{
    struct core_var **list;
    struct ps_op *handle;
    enum ps_err err;

    if ((handle = call_begin(c, "push", op, &err, error)) == NULL)
        return err;
    if ((list = call_vars(c, n, vars, &err, error)) != NULL)
        err = call_held_started(handle, core_push(c->core, n, list, grads, out, options, &handle->core, error), op);
    else
        call_free(handle);
    client_leave(c);
    return err;
}

enum ps_err
client_push_encoded_start(ps_client *c, size_t n, ps_var *const vars[], const struct client_encoded *encoded,
                          const struct ps_push_options *options, ps_op **op, struct ps_error *error)
{
    struct core_encoded those = {encoded->data, encoded->offset, encoded->note, encoded->arg};
    struct core_var **list;
    struct ps_op *handle;
    enum ps_err err;

    if ((handle = call_begin(c, "push", op, &err, error)) == NULL)
        return err;
    if ((list = call_vars(c, n, vars, &err, error)) != NULL)
        err = call_held_started(handle, core_push_encoded(c->core, n, list, &those, options, &handle->core, error), op);
    else
        call_free(handle);
    client_leave(c);
    return err;
}

enum ps_err
ps_client_push_start(ps_client *c, size_t n, ps_var *const vars[], const float *const grads[],
                     const struct ps_push_options *options, ps_op **op, struct ps_error *error)
{
    return push_start(c, n, vars, grads, NULL, options, op, error);
}

enum ps_err
ps_client_push(ps_client *c, size_t n, ps_var *const vars[], const float *const grads[],
               const struct ps_push_options *options, struct ps_error *error)
{
    enum ps_err err;
    ps_op *op = NULL;

    if ((err = push_start(c, n, vars, grads, NULL, options, &op, error)) != PS_OK)
        return err;
    return call_finish(op, options != NULL ? call_timeout(options->timeout_ms) : -1, error);
}

enum ps_err
ps_client_push_pull_start(ps_client *c, size_t n, ps_var *const vars[], const float *const grads[], float *const out[],
                          const struct ps_push_options *options, ps_op **op, struct ps_error *error)
{
    if (out == NULL)
        return ps_fail(error, PS_ERR_INVALID, "push and pull: there is no buffer for the values");
    return push_start(c, n, vars, grads, out, options, op, error);
}

enum ps_err
ps_client_push_pull(ps_client *c, size_t n, ps_var *const vars[], const float *const grads[], float *const out[],
                    const struct ps_push_options *options, struct ps_error *error)
{
    enum ps_err err;
    ps_op *op = NULL;

    if ((err = ps_client_push_pull_start(c, n, vars, grads, out, options, &op, error)) != PS_OK)
        return err;
    return call_finish(op, options != NULL ? call_timeout(options->timeout_ms) : -1, error);
}

/* ---- Tick, barrier ---- */

static enum ps_err
tick_start(ps_client *c, ps_op **op, struct ps_error *error)
{
    struct ps_op *handle;
    enum ps_err err;

    if ((handle = call_begin(c, "tick", op, &err, error)) == NULL)
        return err;
    err = call_started(handle, core_tick(c->core, &handle->core, error), op);
    client_leave(c);
    return err;
}

/* The client's clock rose when the tick started, whatever the answer is. */
static void
step_over(const ps_client *c)
{
    trace_recorder_tick(ps_client_clock(c) - 1);
}

enum ps_err
ps_client_tick_start(ps_client *c, ps_op **op, struct ps_error *error)
{
    enum ps_err err = tick_start(c, op, error);

    if (err == PS_OK)
        step_over(c);
    return err;
}

enum ps_err
ps_client_tick(ps_client *c, struct ps_error *error)
{
    enum ps_err err;
    ps_op *op = NULL;

    if ((err = tick_start(c, &op, error)) != PS_OK)
        return err;
    err = call_finish(op, -1, error);
    step_over(c);
    return err;
}

enum ps_err
ps_client_barrier_start(ps_client *c, const char *name, ps_op **op, struct ps_error *error)
{
    struct ps_op *handle;
    enum ps_err err;

    if ((handle = call_begin(c, "barrier", op, &err, error)) == NULL)
        return err;
    err = call_started(handle, core_barrier(c->core, name, &handle->core, error), op);
    client_leave(c);
    return err;
}

enum ps_err
ps_client_barrier(ps_client *c, const char *name, int timeout_ms, struct ps_error *error)
{
    enum ps_err err;
    ps_op *op = NULL;

    if ((err = ps_client_barrier_start(c, name, &op, error)) != PS_OK)
        return err;
    return call_finish(op, timeout_ms, error);
}
