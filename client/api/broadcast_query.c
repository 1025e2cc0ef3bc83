#include "client/api/broadcast_query.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/system/now.h"

/* ---- Time ---- */

struct call_deadline
call_deadline_of(ps_client *c, int timeout_ms)
{
    uint64_t ms = client_timeout(c, timeout_ms);

    return (struct call_deadline){.client = c, .timeout_ms = ms, .deadline = monotonic_ms() + ms};
}

/* The callback of struct checkpoint_patience. */
static enum ps_err
patience_left(void *arg, const char *file, struct ps_error *e)
{
    const struct call_deadline *l = arg;

    if (client_is_interrupted(l->client))
        return ps_fail(e, PS_ERR_CANCELLED, "interrupted at the checksum of %s", file);
    if (monotonic_ms() >= l->deadline)
        return ps_fail(e, PS_ERR_TIMEOUT, "%" PRIu64 " ms were over at the checksum of %s", l->timeout_ms, file);
    return PS_OK;
}

struct checkpoint_patience
call_deadline_for_checksums(struct call_deadline *l)
{
    return (struct checkpoint_patience){patience_left, l};
}

void
ps_client_interrupt(ps_client *c)
{
    c->interrupted = true;
    uv_async_send(&c->woken);
}

/* ---- Shards ---- */

static enum ps_err
ask_start(const struct broadcast_query *a, uint32_t shard, struct ps_op **op, struct ps_error *e)
{
    struct core *core = a->limit->client->core;

    if ((*op = admin_query_new(a->limit->client, e)) == NULL)
        return PS_ERR_NOMEM;
    return call_started(*op, core_ask(core, shard, a->type, a->message, &(*op)->core, e), op);
}

static bool
is_answered(void *arg)
{
    const struct ps_op *op = arg;

    return core_op_done(op->core);
}

static enum ps_err
ask_end(const struct broadcast_query *a, uint32_t shard, struct ps_op *op, struct ps_error *e)
{
    struct client_wait w = {.ready = is_answered, .arg = op, .op = op->core};
    uint64_t now = monotonic_ms();
    uint64_t begun = a->limit->deadline - a->limit->timeout_ms;
    bool answered = client_wait(op->client, &w, a->limit->deadline - MIN(now, a->limit->deadline));
    enum ps_err err;

    if (client_is_interrupted(op->client))
        return ps_fail(e, PS_ERR_CANCELLED, "interrupted while it waited for shard %u", shard);
    if (!answered)
        return core_op_waiting(op->client->core, op->core, MAX(now, begun) - begun + w.waited_ms, e);
    err = core_op_result(op->core, e);
    return err == PS_OK ? a->take(a->arg, shard, core_op_answer(op->core), e) : err;
}

enum ps_err
broadcast_query_run(const struct broadcast_query *a, uint32_t first, uint32_t n, struct ps_error *e)
{
    struct ps_op **ops = calloc(n, sizeof(struct ps_op *));
    ps_client *c = a->limit->client;
    enum ps_err err = ops != NULL ? PS_OK : ps_fail(e, PS_ERR_NOMEM, "no memory to ask %u shards", n);
    uint32_t started = 0;

    client_enter(c);
    while (err == PS_OK && started < n)
        if ((err = ask_start(a, first + started, &ops[started], e)) == PS_OK)
            started++;
    for (uint32_t i = 0; err == PS_OK && i < started; i++)
        err = ask_end(a, first + i, ops[i], e);
    for (uint32_t i = 0; i < started; i++)
        admin_query_free(ops[i]);
    client_leave(c);
    free(ops);
    return err;
}

enum ps_err
broadcast_query_unreadable(uint32_t shard, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_PROTOCOL, "shard %u answered with something that cannot be read", shard);
}

/* ---- Shard 0's report of the job ---- */

struct job_query {
    const char *name;
    broadcast_query_take_job take;
    void *arg;
};

static enum ps_err
take_report(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    const struct job_query *asked = arg;
    Psd__Report *m = psd__report__unpack(NULL, answer.len, answer.data);
    enum ps_err err = PS_OK;

    if (m == NULL)
        return broadcast_query_unreadable(shard, e);
    if (m->n_job == 0)
        err = ps_fail(e, PS_ERR_NOT_FOUND, "shard %u does not know the job '%s'", shard, asked->name);
    else
        asked->take(asked->arg, m->job[0]);
    psd__report__free_unpacked(m, NULL);
    return err;
}

enum ps_err
broadcast_query_job(ps_client *c, broadcast_query_take_job take, void *arg, int timeout_ms, struct ps_error *e)
{
    struct job_query asked = {c->options.job, take, arg};
    Psd__Query message = PSD__QUERY__INIT;
    struct call_deadline limit = call_deadline_of(c, timeout_ms);
    struct broadcast_query a = {
        .limit = &limit, .type = MSG_QUERY, .message = &message.base, .take = take_report, .arg = &asked};

    message.kind = PSD__QUERY_KIND__JOBS;
    message.job = (char *)c->options.job;
    return broadcast_query_run(&a, 0, 1, e);
}
