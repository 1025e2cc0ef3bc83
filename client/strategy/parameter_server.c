/* parameter_server: the variables are on shards, and this worker's replicas read one copy of them.
 *
 *     pull the values
 *     until the last step:
 *         compute; the sum of this worker's gradients is one push
 *         push, tick and pull the next values: three operations in flight at once, one round trip
 *
 * When an update happens, and what a pull waits for, is the mode's business (async, ssp, sync), which the shards mind.
 * In sync they sum the pushes in the order of the workers and divide by their number: the loss is scaled accordingly.
 *
 * Each push says where its step's data ends, and the shards keep that with the updates: a worker that was killed and
 * started again, or whose lease lapsed, goes on after the last step that counted, so that every row counts once an
 * epoch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/strategy/strategy.h"

#define USUAL_WAIT_MS 500 /* for the others, at the end, before looking whether one of them is behind */
#define LET_PASS_MS   5   /* between two ticks that let it come up */

/* ---- Where this worker is ---- */

/* A cursor counts batches: steps / each epochs and a position in the next one. */
static struct ps_cursor
cursor_of(const ps_strategy *s, uint64_t step)
{
    return (struct ps_cursor){.epoch = step / s->steps_each, .position = step % s->steps_each};
}

/* After the last step of this worker index that counted; one that was never heard of goes on where the others are. */
static uint64_t
next_step(const ps_strategy *s)
{
    struct ps_cursor at;

    ps_client_cursor(s->client, &at);
    return at.epoch == 0 && at.position == 0 ? ps_client_clock(s->client) : at.epoch * s->steps_each + at.position;
}

static enum ps_err
pull(ps_strategy *s, int now, struct ps_error *e)
{
    struct ps_pull_options options = {.now = now};

    return ps_client_pull(s->client, s->vars_len, s->client_vars, s->copy[0].values, &options, e);
}

/* The others went on without this worker: join again where the slowest of them is, with the data that is next. */
static enum ps_err
rejoin(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err = ps_client_rejoin(s->client, -1, e);

    s->stats.rejoins++;
    if (err != PS_OK)
        return err;
    s->next = next_step(s);
    return pull(s, 0, e);
}

/* A lease may lapse again while it joins: its computing took too long, or the machine slept. */
static enum ps_err
rejoin_after(ps_strategy *s, enum ps_err err, struct ps_error *e)
{
    while (err == PS_ERR_LEASE_LAPSED)
        err = rejoin(s, e);
    return err;
}

/* ---- Opening, starting ---- */

static enum ps_err
server_open(ps_strategy *s, const ps_cluster *cluster, struct ps_error *e)
{
    s->index = s->task * s->replicas;
    s->count = s->workers * s->replicas;
    s->divisor = (float)s->workers;
    return ps_client_open(cluster, &s->options.client, &s->client, e);
}

static enum ps_err
server_start(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if ((s->client_vars = calloc(s->vars_len, sizeof *s->client_vars)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a list of %zu variables", s->vars_len);
    for (size_t i = 0; i < s->vars_len && err == PS_OK; i++)
        err = ps_client_declare(s->client, &s->vars[i]->spec, &s->client_vars[i], e);
    if (err != PS_OK)
        return err;
    s->next = next_step(s);
    return rejoin_after(s, pull(s, 0, e), e);
}

static void
server_close(ps_strategy *s, bool goodbye)
{
    if (goodbye)
        ps_client_close(s->client);
    else
        ps_client_abandon(s->client); /* the others need not wait for an answer to a goodbye */
    free(s->client_vars);
}

/* ---- A step ---- */

/* Wait for one of the three, and free it. */
static enum ps_err
finish_op(ps_op *op, enum ps_err before, struct ps_error *e)
{
    enum ps_err err = before;

    if (before == PS_OK)
        err = ps_op_wait(op, -1, e);
    ps_op_free(op);
    return err;
}

/* A shard takes the three in this order, so the pull holds this worker's own update. */
static enum ps_err
exchange(ps_strategy *s, struct ps_error *e)
{
    struct ps_cursor ends = cursor_of(s, s->next + 1);
    struct ps_push_options options = {.cursor = &ends};
    ps_op *push = NULL, *tick = NULL, *next = NULL;
    enum ps_err err;

    err = ps_client_push_start(s->client, s->vars_len, s->client_vars, (const float *const *)s->replica[0].gradients,
                               &options, &push, e);
    if (err == PS_OK)
        err = ps_client_tick_start(s->client, &tick, e);
    if (err == PS_OK)
        err = ps_client_pull_start(s->client, s->vars_len, s->client_vars, s->copy[0].values, NULL, &next, e);
    err = finish_op(push, err, e);
    if (err == PS_ERR_STALE || err == PS_ERR_LATE) {
        s->stats.dropped++; /* what the age policy or the quorum is there for */
        err = PS_OK;
    }
    err = finish_op(tick, err, e);
    return finish_op(next, err, e);
}

static enum ps_err
server_step(ps_strategy *s, bool *done, struct ps_error *e)
{
    enum ps_err err;

    if ((err = strategy_compute(s, e)) != PS_OK)
        return err;
    if ((err = exchange(s, e)) != PS_OK)
        return rejoin_after(s, err, e);
    s->next++;
    *done = true;
    return PS_OK;
}

static enum ps_err
server_refresh(ps_strategy *s, struct ps_error *e)
{
    return pull(s, 1, e);
}

/* ---- The end ---- */

static double
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Nobody is behind this worker's clock, and yet somebody is not here: who came again and does what it had missed goes
 * beyond where the others have ended. So that ssp and sync let it, they tick as it does. */
static enum ps_err
let_pass(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err = pull(s, 1, e);

    if (err != PS_OK || ps_client_slowest_clock(s->client) < ps_client_clock(s->client))
        return err;
    return ps_client_tick(s->client, e);
}

static enum ps_err
meet(ps_strategy *s, struct ps_error *e)
{
    int timeout_ms = s->options.client.timeout_ms;
    double until = now_ms() + timeout_ms;
    enum ps_err err;
    ps_op *op;

    if (s->options.client.mode == PS_ASYNC)
        return ps_client_barrier(s->client, "trained", timeout_ms, e);
    if ((err = ps_client_barrier_start(s->client, "trained", &op, e)) != PS_OK)
        return err;
    err = ps_op_wait(op, MIN(USUAL_WAIT_MS, timeout_ms), e);
    while (err == PS_ERR_TIMEOUT && now_ms() < until)
        if ((err = let_pass(s, e)) == PS_OK)
            err = ps_op_wait(op, LET_PASS_MS, e);
    ps_op_free(op);
    return err;
}

static enum ps_err
server_meet(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err;

    while ((err = meet(s, e)) == PS_ERR_LEASE_LAPSED)
        if ((err = rejoin_after(s, err, e)) != PS_OK)
            return err;
    return err;
}

/* ---- What it is ---- */

static enum ps_err
server_save(ps_strategy *s, const char *dir, const struct ps_checkpoint_options *options, char **name,
            struct ps_error *e)
{
    struct ps_checkpoint_options at = *options;

    /* Of the clock that this worker has, which its next step cannot pass; without a wish it would be of a later one. */
    if (!at.at_clock && s->options.client.mode != PS_ASYNC) {
        at.at_clock = 1;
        at.clock = ps_client_clock(s->client);
    }
    return ps_client_checkpoint(s->client, dir, &at, -1, name, e);
}

static void
server_describe(const ps_strategy *s, char *text, size_t size)
{
    const struct ps_client_options *o = &s->options.client;
    uint32_t quorum = o->quorum == 0 ? s->workers : o->quorum;

    if (o->mode == PS_SSP)
        snprintf(text, size, " ssp(%u)", o->bound);
    else if (o->mode == PS_SYNC)
        snprintf(text, size, " sync(%u of %u)", quorum, s->workers);
    else
        snprintf(text, size, " async");
}

const struct strategy_ops strategy_parameter_server = {
    .traits = STRATEGY_THREADS | STRATEGY_WORKERS | STRATEGY_SHARDS,
    .open = server_open,
    .start = server_start,
    .step = server_step,
    .refresh = server_refresh,
    .meet = server_meet,
    .save = server_save,
    .describe = server_describe,
    .close = server_close,
};
