/* Common to strategies whose variables are on shards: where a worker's training goes on, one exchange with the shards,
 * joining again after a lapsed lease, and the end.
 *
 * Each push says where its data ends, and the shards keep that with the updates: a worker that was killed and started
 * again, or whose lease lapsed, goes on after the last step that counted, so that every row counts once an epoch. A
 * worker's clock rises once for each exchange, after s->round steps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/api/client_internal.h"
#include "client/api/step_barrier.h"
#include "client/include/psclient/ps_tensors.h"
#include "client/strategy/device_resident.h"
#include "client/strategy/training_definition.h"
#include "common/system/now.h"

#define CHECK_MS    500 /* for the others, at a meeting, before looking whether one of them is ahead */
#define LET_PASS_MS 5   /* the same while one of them is */

/* ---- Where this worker is ---- */

/* A cursor counts batches: steps / each epochs and a position in the next one. */
static struct ps_cursor
cursor_of(const ps_strategy *s, uint64_t step)
{
    return (struct ps_cursor){.epoch = step / s->steps_each, .position = step % s->steps_each};
}

/* After the last step of this worker index that counted on all shards; where none did, a process begins as the first of
 * its index did, which was where the others were. */
static uint64_t
next_step(ps_strategy *s)
{
    struct ps_cursor first = cursor_of(s, ps_client_start_clock(s->client) * s->round), at;

    ps_client_start_cursor(s->client, &first, &at);
    return at.epoch * s->steps_each + at.position;
}

static enum ps_err
shard_exchange_pull(ps_strategy *s, int now, struct ps_error *e)
{
    struct ps_pull_options options = {.now = now};
    enum ps_err err;

    if (s->tensors == NULL)
        err = ps_client_pull(s->client, s->vars_len, s->client_vars, s->copy[0].values, &options, e);
    else if ((err = ps_tensors_pull(s->tensors, device_resident_values(s), &options, e)) == PS_OK)
        err = device_resident_pulled(s, e);
    if (err == PS_OK && !now)
        s->behind = false;
    return err;
}

/* The others went on without this worker: join again where the slowest of them is, with the data that is next. */
static enum ps_err
shard_exchange_join_again(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err = ps_client_rejoin(s->client, -1, e);

    s->stats.rejoins++;
    if (err != PS_OK)
        return err;
    s->next = next_step(s);
    return shard_exchange_pull(s, 0, e);
}

/* A lease may lapse again while it joins: its computing took too long, or the machine slept. */
enum ps_err
shard_exchange_rejoin(ps_strategy *s, enum ps_err err, struct ps_error *e)
{
    while (err == PS_ERR_LEASE_LAPSED)
        err = shard_exchange_join_again(s, e);
    return err;
}

/* ---- Opening, starting ---- */

enum ps_err
shard_exchange_open(ps_strategy *s, const ps_cluster *cluster, struct ps_error *e)
{
    s->index = s->task * s->replicas;
    s->count = s->workers * s->replicas;
    return ps_client_open(cluster, &s->options.client, &s->client, e);
}

/* Variables that stay on devices come and go through the host's copy of them. */
static enum ps_err
make_tensors(ps_strategy *s, struct ps_error *e)
{
    struct ps_tensors_options options = {.values = s->copy[0].values};

    if (s->resident == NULL)
        return PS_OK;
    return ps_tensors_new(s->client, s->replica[0].device, s->vars_len, s->client_vars, &options, &s->tensors, e);
}

/* A worker's replicas lie one behind the other among all, as if each worker had as many. */
void
shard_exchange_define(const ps_strategy *s, struct training_definition *d)
{
    training_definition_number(d, "replicas", s->replicas);
}

enum ps_err
shard_exchange_start(ps_strategy *s, const struct ps_optimizer *optimizer, struct ps_error *e)
{
    enum ps_err err = training_definition_tell(s, e);

    if (err != PS_OK)
        return err;
    if ((s->client_vars = calloc(s->vars_len, sizeof *s->client_vars)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a list of %zu variables", s->vars_len);
    for (size_t i = 0; i < s->vars_len && err == PS_OK; i++) {
        struct ps_var_spec spec = s->vars[i]->spec;

        if (optimizer != NULL)
            spec.optimizer = *optimizer;
        err = ps_client_declare(s->client, &spec, &s->client_vars[i], e);
    }
    if (err != PS_OK || (err = make_tensors(s, e)) != PS_OK)
        return err;
    s->next = next_step(s);
    return shard_exchange_rejoin(s, shard_exchange_pull(s, 0, e), e);
}

void
shard_exchange_close(ps_strategy *s, bool goodbye)
{
    ps_tensors_free(s->tensors);
    if (goodbye)
        ps_client_close(s->client);
    else
        ps_client_abandon(s->client); /* the others need not wait for an answer to a goodbye */
    free(s->client_vars);
}

/* ---- A step ---- */

/* An exchange is three operations, and the tick cannot be taken back: once it is sent the step is over, whatever the
 * result of its push, and its data is skipped. So a push that is refused ends the exchange with that error, but only
 * after the tick and the pull; where these do not complete in time, or at all, the values are fetched when training
 * goes on. */
static enum ps_err
first_of(enum ps_err before, enum ps_err err)
{
    return before != PS_OK ? before : err;
}

/* Where an error's text goes: only the first one is kept. */
static struct ps_error *
text_after(enum ps_err before, struct ps_error *e)
{
    return before == PS_OK ? e : NULL;
}

/* Wait for one of the three, if it was started; not where an earlier one has taken all the time. */
static enum ps_err
wait_op(ps_op *op, enum ps_err before, struct ps_error *e)
{
    if (op == NULL || before == PS_ERR_TIMEOUT)
        return before;
    return first_of(before, ps_op_wait(op, -1, text_after(before, e)));
}

/* The tick carries what was counted. It is sent only if the push was started, or refused here for its gradient, as a
 * shard would have done it. */
static enum ps_err
start_tick(ps_strategy *s, enum ps_err before, ps_op **tick, struct ps_error *e)
{
    enum ps_err err;

    if (before != PS_OK && before != PS_ERR_NONFINITE)
        return before;
    e = text_after(before, e);
    if ((err = ps_client_set_metrics(s->client, strategy_totals_len(s), s->counted, e)) != PS_OK ||
        (err = ps_client_tick_start(s->client, tick, e)) != PS_OK)
        return first_of(before, err);
    strategy_count_none(s);
    s->behind = true;
    return before;
}

/* A push that the age policy or the quorum drops is no error: that is what they are for. */
static enum ps_err
count_drop(ps_strategy *s, enum ps_err err)
{
    if (err != PS_ERR_STALE && err != PS_ERR_LATE)
        return err;
    s->stats.dropped++;
    return PS_OK;
}

/* A shard takes the three in this order, so the pull holds this worker's own update. */
static enum ps_err
exchange_host(ps_strategy *s, const struct ps_push_options *options, bool *over, struct ps_error *e)
{
    ps_op *push = NULL, *tick = NULL, *next = NULL;
    enum ps_err err;

    err = ps_client_push_start(s->client, s->vars_len, s->client_vars, (const float *const *)s->replica[0].gradients,
                               options, &push, e);
    err = start_tick(s, err, &tick, e);
    if (tick != NULL)
        err = first_of(err, ps_client_pull_start(s->client, s->vars_len, s->client_vars, s->copy[0].values, NULL, &next,
                                                 text_after(err, e)));
    err = count_drop(s, wait_op(push, err, e));
    err = wait_op(tick, err, e);
    err = wait_op(next, err, e);
    *over = tick != NULL;
    if (next != NULL && ps_op_result(next, NULL) == PS_OK)
        s->behind = false;
    ps_op_free(push);
    ps_op_free(tick);
    ps_op_free(next);
    return err;
}

/* Values reach the device in this wait. */
static enum ps_err
wait_pulled(ps_strategy *s, enum ps_err before, struct ps_error *e)
{
    enum ps_err err;

    if (!ps_tensors_pulling(s->tensors) || before == PS_ERR_TIMEOUT)
        return before;
    e = text_after(before, e);
    if ((err = ps_tensors_pull_wait(s->tensors, -1, e)) == PS_OK && (err = device_resident_pulled(s, e)) == PS_OK)
        s->behind = false;
    return first_of(before, err);
}

/* The same out of and into the first replica's device. */
static enum ps_err
exchange_device(ps_strategy *s, const struct ps_push_options *options, bool *over, struct ps_error *e)
{
    ps_op *tick = NULL;
    enum ps_err err;

    err = ps_tensors_push_start(s->tensors, device_resident_gradients(s), options, e);
    err = start_tick(s, err, &tick, e);
    if (tick != NULL)
        err = first_of(err, ps_tensors_pull_start(s->tensors, device_resident_values(s), NULL, text_after(err, e)));
    if (err == PS_OK)
        err = count_drop(s, ps_tensors_push_wait(s->tensors, -1, e));
    err = wait_op(tick, err, e);
    err = wait_pulled(s, err, e);
    *over = tick != NULL;
    ps_op_free(tick);
    ps_tensors_push_cancel(s->tensors);
    ps_tensors_pull_cancel(s->tensors);
    return err;
}

/* After a lapse the training goes on at another step (shard_exchange_join_again()). */
enum ps_err
shard_exchange_step(ps_strategy *s, uint64_t ends_at, bool *over, struct ps_error *e)
{
    struct ps_cursor ends = cursor_of(s, ends_at);
    struct ps_push_options options = {.cursor = &ends};
    enum ps_err err = s->tensors != NULL ? exchange_device(s, &options, over, e) : exchange_host(s, &options, over, e);

    s->stats.given_over += err != PS_OK && err != PS_ERR_LEASE_LAPSED && *over;
    return err;
}

enum ps_err
shard_exchange_resume(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err;

    if (!s->behind)
        return PS_OK;
    err = shard_exchange_rejoin(s, shard_exchange_pull(s, 0, e), e);
    s->stats.resumed += err == PS_OK;
    return err;
}

/* One that fails is copied, and reported, with the push. */
void
shard_exchange_ready(ps_strategy *s, size_t i)
{
    if (s->tensors != NULL && ps_tensors_ready(s->tensors, i, device_resident_gradients(s)[i], NULL) != PS_OK)
        ps_tensors_forget(s->tensors);
}

enum ps_err
shard_exchange_refresh(ps_strategy *s, struct ps_error *e)
{
    return shard_exchange_pull(s, 1, e);
}

/* ---- Meeting ---- */

/* A worker is ahead of this one's clock, and none behind it: a worker that rejoined at the clock of the others and does
 * the steps it had missed goes beyond the clock at which they ended. They tick as it does, so that ssp and sync let it
 * proceed. For a worker that is merely late they must not: one that ticked then without a gradient would be missing in
 * the others' next step. */
static enum ps_err
let_pass(ps_strategy *s, bool *ticked, struct ps_error *e)
{
    struct step_barrier_clocks others;
    enum ps_err err = step_barrier_clocks(s->client, &others, e);
    uint64_t here = ps_client_clock(s->client);

    *ticked = err == PS_OK && others.slowest >= here && others.fastest > here;
    return *ticked ? ps_client_tick(s->client, e) : err;
}

/* Wait until all have arrived; in ssp and sync, tick meanwhile for those that are ahead. */
static enum ps_err
shard_exchange_await(ps_strategy *s, ps_op *op, struct ps_error *e)
{
    int timeout_ms = s->options.client.timeout_ms, pause_ms = MIN(CHECK_MS, timeout_ms);
    uint64_t begun = monotonic_ms(), until = begun + (uint64_t)timeout_ms, now;
    bool passed = false, ticked;
    enum ps_err err;

    if (s->options.client.mode == PS_ASYNC)
        return ps_op_wait(op, timeout_ms, e);
    err = ps_op_wait(op, pause_ms, e);
    while (err == PS_ERR_TIMEOUT && monotonic_ms() < until) {
        if ((err = let_pass(s, &ticked, e)) != PS_OK)
            continue;
        passed |= ticked;
        pause_ms = ticked ? LET_PASS_MS : MIN(2 * pause_ms, CHECK_MS);
        now = MIN(monotonic_ms(), until);
        client_op_waited(op, now - begun);
        err = ps_op_wait(op, (int)MIN((uint64_t)pause_ms, until - now), e);
    }
    return err == PS_OK && passed ? shard_exchange_pull(s, 1, e)
                                  : err; /* there are newer values than those of this worker's end */
}

/* Which meeting this is: after how many steps, and how many of this worker there were after as many. A process that
 * replaced another, and has done no step yet, cannot know that: it may call for meetings that the other has completed,
 * and passes the first one each time. */
static uint32_t
has_met_before(ps_strategy *s)
{
    bool replays = s->stats.steps == 0 && s->next != 0;

    if (s->met.step != s->next || replays)
        s->met = (struct strategy_met){.step = s->next};
    return s->met.times;
}

static uint64_t
shard_exchange_reconnects(const ps_strategy *s)
{
    struct ps_client_stats stats;

    ps_client_stats(s->client, &stats);
    return stats.reconnects;
}

/* Enter a meeting, and wait for the others. */
static enum ps_err
shard_exchange_barrier(ps_strategy *s, const struct ps_cursor *at, uint32_t again, struct ps_error *e)
{
    char name[64];
    enum ps_err err;
    ps_op *op;

    snprintf(name, sizeof name, "after %" PRIu64 " steps", s->next);
    if (again > 0)
        snprintf(name, sizeof name, "after %" PRIu64 " steps, again %" PRIu32, s->next, again);
    if ((err = step_barrier_start(s->client, name, at, again, &op, e)) != PS_OK)
        return err;
    err = shard_exchange_await(s, op, e);
    ps_op_free(op);
    return err;
}

/* Where shard 0 was restarted before it was asked for the sums, this worker enters again. */
static enum ps_err
shard_exchange_meet_sums(ps_strategy *s, struct ps_error *e)
{
    struct ps_cursor at = cursor_of(s, s->next);
    uint32_t again = has_met_before(s);
    double totals[STRATEGY_TOTALS_MAX];
    bool known = false;
    uint64_t before;
    enum ps_err err;

    do {
        before = shard_exchange_reconnects(s);
        if ((err = shard_exchange_barrier(s, &at, again, e)) == PS_OK)
            err = step_barrier_sums(s->client, &at, again, strategy_totals_len(s), totals, &known, e);
    } while (err == PS_OK && !known && shard_exchange_reconnects(s) != before);
    if (err != PS_OK)
        return err;
    strategy_totals_are(s, totals);
    s->met.times++;
    return PS_OK;
}

/* A worker whose lease lapses meanwhile meets the others where it rejoins. */
enum ps_err
shard_exchange_meet(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err;

    while ((err = shard_exchange_meet_sums(s, e)) == PS_ERR_LEASE_LAPSED)
        if ((err = shard_exchange_rejoin(s, err, e)) != PS_OK)
            return err;
    return err;
}

/* ---- What it is ---- */

enum ps_err
shard_exchange_save(ps_strategy *s, const char *dir, const struct ps_checkpoint_options *options, char **name,
                    struct ps_error *e)
{
    struct ps_checkpoint_options at = *options;

    /* Of this worker's clock, which its next step cannot pass; by default it would be of a later one. */
    if (!at.at_clock && s->options.client.mode != PS_ASYNC) {
        at.at_clock = 1;
        at.clock = ps_client_clock(s->client);
    }
    return ps_client_checkpoint(s->client, dir, &at, -1, name, e);
}
