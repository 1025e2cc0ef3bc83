/* The public calls of a strategy: what all strategies have in common is done here, the rest is forwarded to its
 * operations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/api/trace_recorder.h"
#include "client/network/network.h"
#include "client/strategy/device_resident.h"

/* ---- Opening and closing ---- */

enum ps_err
ps_strategy_open(const char *name, const struct ps_strategy_options *options, ps_strategy **out, struct ps_error *error)
{
    ps_strategy *s = calloc(1, sizeof *s);
    enum ps_err err;

    *out = NULL;
    if (s == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory for a strategy");
    if ((err = strategy_read_options(s, name, options, error)) != PS_OK) {
        free(s);
        return err;
    }
    variables_init(&s->table, s->options.client.job, 1);
    s->count = s->replicas;
    s->divisor = (float)s->replicas;
    s->round = 1;
    err = strategy_open_replicas(s, error);
    if (err == PS_OK && s->ops->open != NULL)
        err = s->ops->open(s, options->cluster, error);
    if (err != PS_OK) {
        ps_strategy_abandon(s);
        return err;
    }
    trace_recorder_open(s->task);
    s->recorded = true;
    *out = s;
    return PS_OK;
}

static void
strategy_end(ps_strategy *s, bool goodbye)
{
    if (s == NULL)
        return;
    if (s->ops->close != NULL)
        s->ops->close(s, goodbye);
    strategy_free_variables(s);
    strategy_close_replicas(s);
    if (s->recorded)
        trace_recorder_close();
    free(s);
}

void
ps_strategy_close(ps_strategy *strategy)
{
    strategy_end(strategy, true);
}

void
ps_strategy_abandon(ps_strategy *strategy)
{
    strategy_end(strategy, false);
}

/* ---- What it is ---- */

uint32_t
ps_strategy_replicas(const ps_strategy *strategy)
{
    return strategy->replicas;
}

uint32_t
ps_strategy_replicas_all(const ps_strategy *strategy)
{
    return strategy->count;
}

uint32_t
ps_strategy_workers(const ps_strategy *strategy)
{
    return strategy->workers;
}

ps_device *
ps_strategy_device(const ps_strategy *strategy, uint32_t replica)
{
    ps_assert(replica < strategy->replicas);
    return strategy->replica[replica].device;
}

int
ps_strategy_is_chief(const ps_strategy *strategy)
{
    return strategy->chief;
}

const char *
ps_strategy_describe(const ps_strategy *strategy, char *text, size_t size)
{
    int used = snprintf(text, size, "%s", strategy->name);

    if (used < 0 || (size_t)used >= size)
        return text;
    if (strategy->ops->describe != NULL)
        strategy->ops->describe(strategy, text + used, size - (size_t)used);
    else
        snprintf(text + used, size - (size_t)used, ", %u replica%s", strategy->count, strategy->count == 1 ? "" : "s");
    return text;
}

ps_client *
ps_strategy_client(const ps_strategy *strategy)
{
    return strategy->client;
}

ps_var *
ps_strategy_var(const ps_strategy *strategy, size_t i)
{
    return strategy->client_vars != NULL && i < strategy->vars_len ? strategy->client_vars[i] : NULL;
}

void
ps_strategy_stats(const ps_strategy *strategy, struct ps_strategy_stats *out)
{
    struct ps_client_stats pushed;

    *out = strategy->stats;
    if (strategy->client == NULL)
        return;
    ps_client_stats(strategy->client, &pushed);
    out->gradient_sent = pushed.bytes_pushed;
    out->gradient_plain = pushed.gradient_bytes;
}

/* ---- Variables ---- */

enum ps_err
ps_strategy_variable(ps_strategy *strategy, const struct ps_var_spec *spec, struct ps_error *error)
{
    return strategy_add_variable(strategy, spec, error);
}

static enum ps_err
check_networks(const ps_strategy *s, ps_network *const networks[], struct ps_error *e)
{
    if (s->vars_len > 0)
        return ps_fail(e, PS_ERR_INVALID, "the strategy has variables already: a network's are all that it has");
    for (uint32_t k = 0; k < s->replicas; k++) {
        if (ps_network_params(networks[k]) != ps_network_params(networks[0]) ||
            ps_network_elements(networks[k]) != ps_network_elements(networks[0]))
            return ps_fail(e, PS_ERR_INVALID, "the network of replica %u has another shape than that of replica 0", k);
        if (networks[k]->device != s->replica[k].device)
            return ps_fail(e, PS_ERR_INVALID, "the network of replica %u is not on the replica's device", k);
    }
    return PS_OK;
}

static void
parameter_ready(void *replica, size_t i)
{
    ps_replica_ready(replica, i);
}

static enum ps_err
add_parameter(ps_strategy *s, const ps_network *network, size_t i, const char *prefix,
              const struct ps_optimizer *optimizer, struct ps_error *e)
{
    char name[PS_NAME_MAX + 1];
    struct ps_var_spec spec;

    ps_network_var_spec(network, i, &spec);
    if (snprintf(name, sizeof name, "%s%s", prefix != NULL ? prefix : "", spec.name) >= (int)sizeof name)
        return ps_fail(e, PS_ERR_INVALID, "the name %.64s...%s is longer than %d bytes", prefix, spec.name,
                       PS_NAME_MAX);
    spec.name = name;
    spec.optimizer = *optimizer;
    return strategy_add_variable(s, &spec, e);
}

enum ps_err
ps_strategy_networks(ps_strategy *strategy, ps_network *const networks[], const char *prefix,
                     const struct ps_optimizer *optimizer, struct ps_error *error)
{
    enum ps_err err;

    if ((err = check_networks(strategy, networks, error)) != PS_OK ||
        (err = device_resident_new(strategy, error)) != PS_OK)
        return err;
    for (size_t i = 0; i < ps_network_params(networks[0]); i++)
        if ((err = add_parameter(strategy, networks[0], i, prefix, optimizer, error)) != PS_OK)
            return err;
    for (uint32_t k = 0; k < strategy->replicas; k++) {
        strategy->replica[k].network = networks[k];
        ps_network_place(networks[k], strategy->replica[k].copy->values, strategy->replica[k].gradients);
        if (strategy->ops->ready != NULL && strategy->replicas == 1)
            ps_network_on_ready(networks[k], parameter_ready, &strategy->replica[k].seen);
    }
    return strategy->resident != NULL ? device_resident_alloc(strategy, networks, error) : PS_OK;
}

size_t
ps_strategy_variables(const ps_strategy *strategy)
{
    return strategy->vars_len;
}

float *const *
ps_strategy_values(const ps_strategy *strategy, uint32_t replica)
{
    ps_assert(replica < strategy->replicas);
    return strategy->replica[replica].copy->values;
}

float *const *
ps_strategy_gradients(const ps_strategy *strategy, uint32_t replica)
{
    ps_assert(replica < strategy->replicas);
    return strategy->replica[replica].seen.gradients;
}

enum ps_err
ps_strategy_start(ps_strategy *strategy, struct ps_error *error)
{
    enum ps_err err = PS_OK;

    if (strategy->started)
        return ps_fail(error, PS_ERR_INVALID, "the strategy was started before");
    if (strategy->vars_len == 0)
        return ps_fail(error, PS_ERR_INVALID, "a strategy without variables has nothing to train");
    if (strategy->ops->traits & STRATEGY_SLOTS)
        err = strategy_initialize(strategy, error);
    if (err == PS_OK && strategy->ops->start != NULL)
        err = strategy->ops->start(strategy, error);
    strategy->started = err == PS_OK;
    return err;
}

/* ---- Training ---- */

uint64_t
ps_strategy_step(const ps_strategy *strategy)
{
    return strategy->next;
}

uint64_t
ps_strategy_steps_each(const ps_strategy *strategy)
{
    return strategy->steps_each;
}

static enum ps_err
need_start(const ps_strategy *s, struct ps_error *e)
{
    return s->started ? PS_OK : ps_fail(e, PS_ERR_INVALID, "the strategy was not started");
}

static enum ps_err
strategy_resume(ps_strategy *s, struct ps_error *e)
{
    return s->ops->resume != NULL ? s->ops->resume(s, e) : PS_OK;
}

static bool
checkpoint_is_due(const ps_strategy *s)
{
    return s->options.checkpoints != NULL && s->next > 0 && s->next % s->options.checkpoint_steps == 0;
}

static enum ps_err
save_due(ps_strategy *s, struct ps_error *e)
{
    struct ps_checkpoint_options keep = {.keep = s->options.checkpoints_keep};

    s->inherits = false;
    return checkpoint_is_due(s) ? ps_strategy_save(s, s->options.checkpoints, &keep, NULL, e) : PS_OK;
}

/* The work that is due after a completed step. */
static enum ps_err
after_step(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    s->stats.steps++;
    if (s->calls->after != NULL)
        err = s->calls->after(s->calls->arg, &s->done, e);
    return err == PS_OK ? save_due(s, e) : err;
}

/* Another worker was the chief when the last step was done, and is lost, or was replaced by this one, perhaps before it
 * saved that step. */
static enum ps_err
take_over(ps_strategy *s, struct ps_error *e)
{
    bool missing = s->inherits && checkpoint_is_due(s) && !strategy_copy_is_saved(s, s->options.checkpoints);

    s->inherits = false;
    return missing ? save_due(s, e) : PS_OK;
}

enum ps_err
ps_strategy_run(ps_strategy *strategy, uint64_t until, const struct ps_strategy_calls *calls, struct ps_error *error)
{
    ps_strategy *s = strategy;
    enum ps_err err = need_start(s, error), gathered;
    bool done;

    if (err != PS_OK)
        return err;
    if (calls == NULL || calls->step == NULL)
        return ps_fail(error, PS_ERR_INVALID, "a run needs a step function");
    s->calls = calls;
    trace_recorder_hold(true); /* where a step ends is known here */
    trace_recorder_begin();
    if ((err = strategy_resume(s, error)) == PS_OK)
        err = take_over(s, error);
    while (err == PS_OK && s->next < until) {
        done = false;
        if ((err = s->ops->step(s, &done, error)) == PS_OK) {
            err = done ? after_step(s, error) : take_over(s, error);
            if (done)
                trace_recorder_step(s->next - 1);
        }
    }
    trace_recorder_hold(false);
    s->calls = NULL;
    gathered = strategy_gather(s, false, err == PS_OK ? error : NULL);
    return err != PS_OK ? err : gathered;
}

enum ps_err
ps_strategy_refresh(ps_strategy *strategy, struct ps_error *error)
{
    enum ps_err err = need_start(strategy, error);

    if (err == PS_OK && strategy->ops->refresh != NULL)
        err = strategy->ops->refresh(strategy, error);
    return err == PS_OK ? strategy_gather(strategy, false, error) : err;
}

enum ps_err
ps_strategy_meet(ps_strategy *strategy, struct ps_error *error)
{
    enum ps_err err = need_start(strategy, error);

    if (err == PS_OK)
        err = strategy_resume(strategy, error);
    if (err == PS_OK && strategy->ops->meet != NULL)
        err = strategy->ops->meet(strategy, error);
    if (err == PS_OK && strategy->client == NULL) /* all of it is here */
        strategy_totals_are(strategy, strategy->counted);
    return err;
}

/* ---- Checkpoints ---- */

enum ps_err
ps_strategy_save(ps_strategy *strategy, const char *dir, const struct ps_checkpoint_options *options, char **name,
                 struct ps_error *error)
{
    static const struct ps_checkpoint_options usual;
    enum ps_err err = need_start(strategy, error);

    if (name != NULL)
        *name = NULL;
    if (err != PS_OK || !strategy->chief)
        return err;
    if (dir == NULL)
        return ps_fail(error, PS_ERR_INVALID, "where the checkpoint goes is NULL");
    options = options != NULL ? options : &usual;
    if (strategy->ops->save != NULL)
        return strategy->ops->save(strategy, dir, options, name, error);
    return strategy_save_copy(strategy, dir, options, name, error);
}

enum ps_err
ps_strategy_restore(ps_strategy *strategy, const char *path, struct ps_error *error)
{
    enum ps_err err = need_start(strategy, error);

    if (err != PS_OK)
        return err;
    if (path == NULL)
        return ps_fail(error, PS_ERR_INVALID, "the checkpoint's path is NULL");
    if (strategy->client != NULL)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "the variables are on shards, for all workers at once: ps_client_restore() or psctl restore put "
                       "a checkpoint there");
    if ((strategy->ops->traits & STRATEGY_WORKERS) && strategy->next > 0)
        return PS_OK; /* it joined others that were further */
    return strategy_restore_copy(strategy, path, error);
}
