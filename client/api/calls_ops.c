/* Operations, as the caller holds them: handles, waiting for one or several, and the queries about them. */
#include <stdlib.h>

#include "client/api/client_state.h"

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
    op->start = op->waited_ms = 0;
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

enum ps_err
call_held_started(struct ps_op *op, enum ps_err err, ps_op **out)
{
    ps_client *c = op->client;

    op->start = ++c->starts;
    if (!client_has_held(c))
        c->held_from = op->start;
    c->holding = !c->progress.runs;
    err = call_started(op, err, out);
    c->holding = false;
    return err;
}

enum ps_err
call_need(const ps_client *c, const void *out, struct ps_error *e)
{
    if (c == NULL || out == NULL)
        return ps_fail(e, PS_ERR_INVALID, "the client, or the pointer for the result, is NULL");
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

    core_op_query_delay(op->client->core, op->core);
}

static bool
may_be_held(const ps_op *op)
{
    return client_has_held(op->client) && op->start >= op->client->held_from;
}

enum ps_err
call_wait(ps_op *op, uint64_t timeout_ms, struct ps_error *e)
{
    struct client_wait w = {.ready = op_ready, .near = op_near, .arg = op, .op = op->core, .at_once = may_be_held(op)};

    bool done = client_wait(op->client, &w, timeout_ms);

    op->waited_ms += w.waited_ms;
    if (done)
        return core_op_result(op->core, e);
    return client_unfinished(op->client, core_op_waiting(op->client->core, op->core, op->waited_ms, e), e);
}

void
client_op_waited(ps_op *op, uint64_t ms)
{
    client_enter(op->client);
    op->waited_ms = ms;
    client_leave(op->client);
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
    if (!core_op_done(op->core) && !op->client->progress.runs)
        client_turn(op->client, false, 0);
    done = core_op_done(op->core);
    client_leave(op->client);
    return done;
}

enum ps_err
call_finish(ps_op *op, int timeout_ms, struct ps_error *e)
{
    enum ps_err err = ps_op_wait(op, timeout_ms, e);

    ps_op_free(op);
    return err;
}

/* ---- Waiting for several ---- */

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

/* The first that is not done; NULL: none. */
static const struct core_op *
first_to_end(const struct any *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->ops[i] != NULL && !core_op_done(a->ops[i]->core))
            return a->ops[i]->core;
    return NULL;
}

/* Of the first that is not done; each of these has been waited for. */
static enum ps_err
any_waiting(ps_client *c, const struct any *a, uint64_t waited_ms, struct ps_error *e)
{
    ps_op *first = NULL;

    for (size_t i = a->n; i-- > 0;)
        if (a->ops[i] != NULL && !core_op_done(a->ops[i]->core)) {
            first = a->ops[i];
            first->waited_ms += waited_ms;
        }
    if (first != NULL)
        return client_unfinished(c, core_op_waiting(c->core, first->core, first->waited_ms, e), e);
    return client_unfinished(c, ps_fail(e, PS_ERR_TIMEOUT, "waited %llu ms", (unsigned long long)waited_ms), e);
}

enum ps_err
ps_op_wait_any(size_t n, ps_op *const ops[], int timeout_ms, size_t *index, struct ps_error *error)
{
    struct any a = {.ops = ops, .n = n};
    struct client_wait w = {.ready = any_ready, .arg = &a};
    ps_client *c = common_client(n, ops);
    enum ps_err err = PS_OK;

    if (c == NULL || index == NULL)
        return ps_fail(error, PS_ERR_INVALID, "waiting needs operations of one client, and a pointer for the index");
    client_enter(c);
    w.op = first_to_end(&a);
    if (client_wait(c, &w, client_timeout(c, timeout_ms)))
        *index = a.first;
    else
        err = any_waiting(c, &a, w.waited_ms, error);
    client_leave(c);
    return err;
}

static bool
all_ready(void *arg)
{
    struct any *a = arg;

    while (a->first < a->n && (a->ops[a->first] == NULL || core_op_done(a->ops[a->first]->core)))
        a->first++; /* what is done stays so */
    return a->first == a->n;
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

static bool
some_may_be_held(const struct any *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->ops[i] != NULL && may_be_held(a->ops[i]))
            return true;
    return false;
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
    bool done;

    if (c == NULL)
        return ps_fail(error, PS_ERR_INVALID, "waiting needs operations, all of one client");
    client_enter(c);
    w.op = first_to_end(&a);
    w.at_once = some_may_be_held(&a);
    done = client_wait(c, &w, client_timeout(c, timeout_ms));
    err = done ? all_result(&a, error) : any_waiting(c, &a, w.waited_ms, error);
    client_leave(c);
    return err;
}

/* ---- Queries about an operation ---- */

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
