/* The public calls on variables and operations: check what the caller gave, hand it to the core, wait. */
#include <stdlib.h>
#include <string.h>

#include "client/client_state.h"

/* ---- Handles ---- */

struct ps_op *
call_new(ps_client *c)
{
    struct ps_op *op = c->free_ops;

    if (op != NULL)
        c->free_ops = op->next;
    else if ((op = malloc(sizeof(*op))) == NULL)
        return NULL;
    op->client = c;
    op->core = NULL;
    op->prev = NULL;
    op->next = c->ops;
    if (c->ops != NULL)
        c->ops->prev = op;
    c->ops = op;
    return op;
}

void
call_free(struct ps_op *op)
{
    ps_client *c = op->client;

    if (op->prev != NULL)
        op->prev->next = op->next;
    else
        c->ops = op->next;
    if (op->next != NULL)
        op->next->prev = op->prev;
    op->next = c->free_ops;
    c->free_ops = op;
}

enum ps_err
call_started(struct ps_op *op, enum ps_err err, ps_op **out)
{
    client_perform(op->client);
    if (err != PS_OK)
        call_free(op);
    else
        *out = op;
    return err;
}

/* The core's variables of a call; NULL with *err set. */
static struct core_var **
core_vars(ps_client *c, size_t n, ps_var *const vars[], enum ps_err *err, struct ps_error *e)
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
call_need(const ps_client *c, const void *out, struct ps_error *e)
{
    if (c == NULL || out == NULL)
        return ps_fail(e, PS_ERR_INVALID, "the client, or the place for the result, is NULL");
    return PS_OK;
}

/* ---- Waiting ---- */

static bool
op_ready(void *arg)
{
    return core_op_done(((struct ps_op *)arg)->core);
}

static void
op_near(void *arg)
{
    struct ps_op *op = arg;

    core_op_ask_why(op->client->core, op->core);
}

enum ps_err
call_wait(ps_op *op, uint64_t timeout_ms, struct ps_error *e)
{
    struct client_wait w = {.ready = op_ready, .near = op_near, .arg = op};

    if (client_wait(op->client, &w, timeout_ms))
        return core_op_result(op->core, e);
    return core_op_waiting(op->client->core, op->core, timeout_ms, e);
}

/* Options of blocking forms: 0 stands for the client's default, which a wait calls -1. */
static int
timeout_or_default(int timeout_ms)
{
    return timeout_ms != 0 ? timeout_ms : -1;
}

/* The blocking form: wait for a started operation and free it. */
static enum ps_err
finish(ps_op *op, int timeout_ms, struct ps_error *e)
{
    enum ps_err err = ps_op_wait(op, timeout_ms, e);

    ps_op_free(op);
    return err;
}

enum ps_err
ps_op_wait(ps_op *op, int timeout_ms, struct ps_error *error)
{
    enum ps_err err;

    if (op == NULL)
        return ps_fail(error, PS_ERR_INVALID, "there is no operation to wait for");
    client_enter(op->client);
    err = call_wait(op, client_timeout(op->client, timeout_ms), error);
    client_leave(op->client);
    return err;
}

int
ps_op_test(ps_op *op)
{
    bool done;

    if (op == NULL)
        return 1;
    client_enter(op->client);
    if (!core_op_done(op->core) && !op->client->threaded)
        client_turn(op->client, false, 0);
    done = core_op_done(op->core);
    client_leave(op->client);
    return done;
}

struct any {
    ps_op *const *ops;
    size_t n, first;
};

static bool
any_ready(void *arg)
{
    struct any *a = arg;

    for (a->first = 0; a->first < a->n; a->first++)
        if (a->ops[a->first] != NULL && core_op_done(a->ops[a->first]->core))
            return true;
    return false;
}

/* The client of a list; NULL: none, or not one. */
static ps_client *
common_client(size_t n, ps_op *const ops[])
{
    ps_client *c = NULL;
    size_t i;

    for (i = 0; ops != NULL && i < n; i++) {
        if (ops[i] == NULL)
            continue;
        if (c != NULL && ops[i]->client != c)
            return NULL;
        c = ops[i]->client;
    }
    return c;
}

/* Of the first that is not done. */
static enum ps_err
any_waiting(ps_client *c, const struct any *a, uint64_t waited_ms, struct ps_error *e)
{
    size_t i;

    for (i = 0; i < a->n; i++)
        if (a->ops[i] != NULL && !core_op_done(a->ops[i]->core))
            return core_op_waiting(c->core, a->ops[i]->core, waited_ms, e);
    return ps_fail(e, PS_ERR_TIMEOUT, "waited %llu ms", (unsigned long long)waited_ms);
}

enum ps_err
ps_op_wait_any(size_t n, ps_op *const ops[], int timeout_ms, size_t *index, struct ps_error *error)
{
    struct any a = {.ops = ops, .n = n};
    struct client_wait w = {.ready = any_ready, .arg = &a};
    ps_client *c = common_client(n, ops);
    enum ps_err err = PS_OK;
    uint64_t ms;

    if (c == NULL || index == NULL)
        return ps_fail(error, PS_ERR_INVALID, "waiting needs operations of one client, and a place for the index");
    client_enter(c);
    ms = client_timeout(c, timeout_ms);
    if (client_wait(c, &w, ms))
        *index = a.first;
    else
        err = any_waiting(c, &a, ms, error);
    client_leave(c);
    return err;
}

static bool
all_ready(void *arg)
{
    const struct any *a = arg;
    size_t i;

    for (i = 0; i < a->n; i++)
        if (a->ops[i] != NULL && !core_op_done(a->ops[i]->core))
            return false;
    return true;
}

static void
all_near(void *arg)
{
    const struct any *a = arg;
    size_t i;

    for (i = 0; i < a->n; i++)
        if (a->ops[i] != NULL && !core_op_done(a->ops[i]->core)) {
            op_near(a->ops[i]);
            return;
        }
}

static enum ps_err
all_result(const struct any *a, struct ps_error *e)
{
    enum ps_err err;
    size_t i;

    for (i = 0; i < a->n; i++)
        if (a->ops[i] != NULL && (err = core_op_result(a->ops[i]->core, e)) != PS_OK)
            return err;
    return PS_OK;
}

enum ps_err
ps_op_wait_all(size_t n, ps_op *const ops[], int timeout_ms, struct ps_error *error)
{
    struct any a = {.ops = ops, .n = n};
    struct client_wait w = {.ready = all_ready, .near = all_near, .arg = &a};
    ps_client *c = common_client(n, ops);
    enum ps_err err;
    uint64_t ms;

    if (c == NULL)
        return ps_fail(error, PS_ERR_INVALID, "waiting needs operations, all of one client");
    client_enter(c);
    ms = client_timeout(c, timeout_ms);
    err = client_wait(c, &w, ms) ? all_result(&a, error) : any_waiting(c, &a, ms, error);
    client_leave(c);
    return err;
}

/* ---- What one may ask an operation ---- */

void
ps_op_cancel(ps_op *op)
{
    if (op == NULL)
        return;
    client_enter(op->client);
    core_op_cancel(op->client->core, op->core);
    client_perform(op->client);
    client_leave(op->client);
}

enum ps_err
ps_op_result(const ps_op *op, struct ps_error *error)
{
    enum ps_err err;

    if (op == NULL)
        return ps_fail(error, PS_ERR_INVALID, "there is no operation");
    client_enter(op->client);
    err = core_op_result(op->core, error);
    client_leave(op->client);
    return err;
}

uint64_t
ps_op_blocks_transferred(const ps_op *op)
{
    uint64_t blocks;

    if (op == NULL)
        return 0;
    client_enter(op->client);
    blocks = core_op_blocks(op->core);
    client_leave(op->client);
    return blocks;
}

void
ps_op_free(ps_op *op)
{
    ps_client *c;

    if (op == NULL)
        return;
    c = op->client;
    client_enter(c);
    core_op_free(c->core, op->core);
    client_perform(c);
    call_free(op);
    client_leave(c);
}

/* ---- Variables ---- */

static struct ps_var *
var_handle(ps_client *c, struct core_var *core)
{
    struct ps_var *v;

    for (v = c->vars; v != NULL; v = v->next)
        if (v->core == core)
            return v;
    if ((v = malloc(sizeof(*v))) == NULL)
        return NULL;
    *v = (struct ps_var){.client = c, .core = core, .next = c->vars};
    c->vars = v;
    return v;
}

/* Within client_enter(). */
static enum ps_err
declare(ps_client *c, const struct ps_var_spec *spec, ps_var **out, ps_op **op, struct ps_error *e)
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
    err = declare(c, spec, out, op, error);
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
    return finish(op, -1, error);
}

/* Within client_enter(). */
static enum ps_err
attach(ps_client *c, const char *name, ps_var **out, struct ps_error *e)
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
    err = attach(c, name, out, error);
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

/* ---- Pull ---- */

enum ps_err
ps_client_pull_start(ps_client *c, size_t n, ps_var *const vars[], float *const out[],
                     const struct ps_pull_options *options, ps_op **op, struct ps_error *error)
{
    struct core_var **list;
    struct ps_op *handle;
    enum ps_err err;

    if ((err = call_need(c, op, error)) != PS_OK)
        return err;
    client_enter(c);
    if ((list = core_vars(c, n, vars, &err, error)) != NULL) {
        if ((handle = call_new(c)) == NULL)
            err = ps_fail(error, PS_ERR_NOMEM, "no memory to start a pull");
        else
            err = call_started(handle, core_pull(c->core, n, list, out, options, &handle->core, error), op);
    }
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
    return finish(op, options != NULL ? timeout_or_default(options->timeout_ms) : -1, error);
}

/* ---- Push ---- */

static enum ps_err
push_start(ps_client *c, size_t n, ps_var *const vars[], const float *const grads[], float *const out[],
           const struct ps_push_options *options, ps_op **op, struct ps_error *error)
{
    struct core_var **list;
    struct ps_op *handle;
    enum ps_err err;

    if ((err = call_need(c, op, error)) != PS_OK)
        return err;
    client_enter(c);
    if ((list = core_vars(c, n, vars, &err, error)) != NULL) {
        if ((handle = call_new(c)) == NULL)
            err = ps_fail(error, PS_ERR_NOMEM, "no memory to start a push");
        else
            err = call_started(handle, core_push(c->core, n, list, grads, out, options, &handle->core, error), op);
    }
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
    return finish(op, options != NULL ? timeout_or_default(options->timeout_ms) : -1, error);
}

enum ps_err
ps_client_push_pull_start(ps_client *c, size_t n, ps_var *const vars[], const float *const grads[], float *const out[],
                          const struct ps_push_options *options, ps_op **op, struct ps_error *error)
{
    if (out == NULL)
        return ps_fail(error, PS_ERR_INVALID, "push and pull: there is no place for the values");
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
    return finish(op, options != NULL ? timeout_or_default(options->timeout_ms) : -1, error);
}

/* ---- Tick, barrier ---- */

enum ps_err
ps_client_tick_start(ps_client *c, ps_op **op, struct ps_error *error)
{
    struct ps_op *handle;
    enum ps_err err;

    if ((err = call_need(c, op, error)) != PS_OK)
        return err;
    client_enter(c);
    if ((handle = call_new(c)) == NULL)
        err = ps_fail(error, PS_ERR_NOMEM, "no memory to start a tick");
    else
        err = call_started(handle, core_tick(c->core, &handle->core, error), op);
    client_leave(c);
    return err;
}

enum ps_err
ps_client_tick(ps_client *c, struct ps_error *error)
{
    enum ps_err err;
    ps_op *op = NULL;

    if ((err = ps_client_tick_start(c, &op, error)) != PS_OK)
        return err;
    return finish(op, -1, error);
}

enum ps_err
ps_client_barrier_start(ps_client *c, const char *name, ps_op **op, struct ps_error *error)
{
    struct ps_op *handle;
    enum ps_err err;

    if ((err = call_need(c, op, error)) != PS_OK)
        return err;
    client_enter(c);
    if ((handle = call_new(c)) == NULL)
        err = ps_fail(error, PS_ERR_NOMEM, "no memory to start a barrier");
    else
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
    return finish(op, timeout_ms, error);
}
