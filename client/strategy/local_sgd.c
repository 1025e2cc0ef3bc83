/* local_sgd: the variables are on shards, and every worker trains alone for some steps before they synchronize there.
 *
 *     pull the values, and keep them as the base
 *     until the last step:
 *         `steps` times: compute, update the values here, with the variables' own optimizers
 *         push base - values as if it were a gradient, tick, and pull the next values, which are the next base
 *
 * The shards work in sync: they take the mean of the differences, in the order of the workers, and the outer optimizer
 * makes one update of it: SGD with rate 1 is the mean of the workers' weights (Stich, "Local SGD Converges Fast and
 * Communicates Little", ICLR 2019; McMahan et al., AISTATS 2017), Nesterov's momentum is DiLoCo (Douillard et al.,
 * arXiv:2311.08105, algorithm 1). A tick is a round: with a quorum the shards do not wait for the slowest differences.
 *
 * The slots of a worker's own optimizers stay where they are, from round to round (DiLoCo keeps them so); they are in
 * no checkpoint, and a process that replaces another begins with new ones. A round that the end cuts short is pushed
 * when the workers meet. Where an exchange fails, its round is over, as a step of parameter_server is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/strategy/device_resident.h"
#include "client/strategy/training_definition.h"
#include "common/core/optimizer/optimizer.h"

#define STEPS_USUAL 16

struct local {
    struct ps_optimizer outer;
    float **base;   /* [variables]: the values that the round began with; NULL: they are on the device */
    uint64_t began; /* step with which it did */
};

/* ---- Opening, starting ---- */

/* DiLoCo's: Nesterov's momentum of 0.9 and a rate of 0.7. */
static void
usual_outer(struct ps_optimizer *o)
{
    enum ps_err err = ps_optimizer_by_name("nesterov", o, NULL);

    ps_assert(err == PS_OK);
    o->learning_rate = 0.7;
    o->momentum = 0.9;
}

static enum ps_err
local_open(ps_strategy *s, const ps_cluster *cluster, struct ps_error *e)
{
    const struct ps_local_sgd *o = &s->options.local;
    struct local *own = calloc(1, sizeof *own);
    struct ps_error why;

    if ((s->own = own) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a strategy");
    own->outer = o->outer;
    if (o->outer.kind == PS_SGD && o->outer.learning_rate == 0)
        usual_outer(&own->outer);
    if (optimizer_check(&own->outer, &why) != PS_OK)
        return ps_fail(e, PS_ERR_INVALID, "local_sgd's outer %s", why.text);
    s->round = o->steps != 0 ? o->steps : STEPS_USUAL;
    s->divisor = (float)(s->workers * s->replicas);
    s->options.client.mode = PS_SYNC;
    return shard_exchange_open(s, cluster, e);
}

static void
local_close(ps_strategy *s, bool goodbye)
{
    struct local *own = s->own;

    shard_exchange_close(s, goodbye);
    for (size_t i = 0; own != NULL && own->base != NULL && i < s->vars_len; i++)
        free(own->base[i]);
    if (own != NULL)
        free(own->base);
    free(own);
}

/* From the values that are here. */
static void
begin_round(ps_strategy *s)
{
    struct local *own = s->own;

    if (s->resident != NULL)
        device_resident_set_base(s);
    for (size_t i = 0; s->resident == NULL && i < s->vars_len; i++)
        memcpy(own->base[i], s->copy[0].values[i], s->vars[i]->elements * sizeof(float));
    own->began = s->next;
    strategy_count_none(s);
}

static enum ps_err
add_base(ps_strategy *s, struct ps_error *e)
{
    struct local *own = s->own;

    if (s->resident != NULL)
        return device_resident_add_base(s, e);
    if ((own->base = calloc(s->vars_len, sizeof *own->base)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a list of %zu variables", s->vars_len);
    for (size_t i = 0; i < s->vars_len; i++)
        if ((own->base[i] = malloc(s->vars[i]->elements * sizeof(float))) == NULL)
            return ps_fail(e, PS_ERR_NOMEM, "no memory for a second copy of variable '%s'", s->vars[i]->name);
    return PS_OK;
}

/* The variables' optimizers are those that work here; the shards know the outer one alone. */
static void
local_define(const ps_strategy *s, struct training_definition *d)
{
    shard_exchange_define(s, d);
    training_definition_number(d, "local steps", s->round);
}

static enum ps_err
local_start(ps_strategy *s, struct ps_error *e)
{
    struct local *own = s->own;
    enum ps_err err;

    if ((err = add_base(s, e)) != PS_OK)
        return err;
    if ((err = shard_exchange_start(s, &own->outer, e)) == PS_OK)
        begin_round(s);
    return err;
}

/* ---- A step ---- */

/* The distance of this worker from the base, as a gradient: the outer optimizer steps against it. */
static enum ps_err
local_difference(ps_strategy *s, struct ps_error *e)
{
    const struct local *own = s->own;

    if (s->resident != NULL)
        return device_resident_difference(s, e);
    for (size_t i = 0; i < s->vars_len; i++) {
        const float *base = own->base[i], *values = s->copy[0].values[i];
        float *to = s->replica[0].gradients[i];

        for (uint64_t k = 0; k < s->vars[i]->elements; k++)
            to[k] = base[k] - values[k];
    }
    return PS_OK;
}

/* After a lapsed lease the round is lost, and the next one begins where this worker's data goes on. A round whose
 * difference the shards refuse is lost, too: values that diverged here are replaced by those of the shards. */
static enum ps_err
local_exchange(ps_strategy *s, struct ps_error *e)
{
    bool over = false;
    enum ps_err err;

    if ((err = local_difference(s, e)) != PS_OK)
        return err;
    err = shard_exchange_rejoin(s, shard_exchange_step(s, s->next, &over, e), e);
    if (err == PS_OK || (over && !s->behind))
        begin_round(s);
    return err;
}

/* The next round begins with the values that did not arrive when the last one ended. */
static enum ps_err
local_resume(ps_strategy *s, struct ps_error *e)
{
    bool behind = s->behind;
    enum ps_err err = shard_exchange_resume(s, e);

    if (err == PS_OK && behind)
        begin_round(s);
    return err;
}

static enum ps_err
local_step(ps_strategy *s, bool *done, struct ps_error *e)
{
    const struct local *own = s->own;
    enum ps_err err;

    if ((err = strategy_compute(s, e)) != PS_OK || (err = strategy_update(s, 1 / (float)s->replicas, e)) != PS_OK)
        return err;
    strategy_count_step(s);
    s->next++;
    *done = true;
    return s->next - own->began < s->round ? PS_OK : local_exchange(s, e);
}

/* ---- Between steps ---- */

/* In the middle of a round the newest values are this worker's own. */
static enum ps_err
local_refresh(ps_strategy *s, struct ps_error *e)
{
    const struct local *own = s->own;
    enum ps_err err = PS_OK;

    if (s->next == own->began && (err = shard_exchange_refresh(s, e)) == PS_OK)
        begin_round(s);
    return err;
}

static enum ps_err
local_meet(ps_strategy *s, struct ps_error *e)
{
    const struct local *own = s->own;
    enum ps_err err;

    if (s->next != own->began && (err = local_exchange(s, e)) != PS_OK)
        return err;
    if ((err = shard_exchange_meet(s, e)) == PS_OK)
        begin_round(s); /* values were pulled while it waited */
    return err;
}

static void
local_describe(const ps_strategy *s, char *text, size_t size)
{
    const struct local *own = s->own;
    uint32_t quorum = s->options.client.quorum;

    snprintf(text, size, " sync(%u of %u), rounds of %u step%s, outer %s", quorum == 0 ? s->workers : quorum,
             s->workers, s->round, s->round == 1 ? "" : "s", ps_optimizer_name(own->outer.kind));
}

const struct strategy_ops strategy_local_sgd = {
    .traits = STRATEGY_THREADS | STRATEGY_SLOTS | STRATEGY_WORKERS | STRATEGY_SHARDS,
    .open = local_open,
    .start = local_start,
    .define = local_define,
    .step = local_step,
    .resume = local_resume,
    .refresh = local_refresh,
    .meet = local_meet,
    .save = shard_exchange_save,
    .describe = local_describe,
    .close = local_close,
};
