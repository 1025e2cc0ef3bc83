/* Two passes over the variables that the pattern names: the first computes what each would be and refuses, the second
 * takes it over. */
#include "server/core/shard/setting.h"

#include <inttypes.h>
#include <string.h>

#include "common/core/base/pattern.h"
#include "common/core/cluster/placement.h"
#include "common/core/model/schedule.h"
#include "common/core/wire/wire.h"
#include "server/core/shard/resize.h"
#include "server/core/shard_state.h"

/* ---- Checking ---- */

static enum ps_err
check_job(const struct job *job, const Psd__Set *m, struct ps_error *e)
{
    if (m->bound != NULL && job->options->mode != PSD__MODE__SSP)
        return ps_fail(e, PS_ERR_INVALID, "job '%.64s' is not ssp: it has no bound", job->name);
    return PS_OK;
}

/* Blocks are as their slots began; and those still to be made must begin as the others did. */
static enum ps_err
check_start(const struct variable *v, const struct ps_optimizer *next, struct ps_error *e)
{
    if (next->initial_accumulator == v->def->optimizer.initial_accumulator)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID, "its slots have begun with an initial_accumulator of %g",
                   v->def->optimizer.initial_accumulator);
}

/* Clients give the norm of their gradients for variables that were declared so, and for no others. */
static enum ps_err
check_given_norm(const struct variable *v, const struct ps_optimizer *next, struct ps_error *e)
{
    if (next->clip.kind != PS_CLIP_GIVEN_NORM || wire_clip(v->def->declare->optimizer->clip).kind == PS_CLIP_GIVEN_NORM)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID,
                   "it was not declared to clip by a given norm, so its workers give none; declare it so, with a limit "
                   "that clips nothing, to have the choice");
}

/* The version or clock that the next update of a variable counts from: of its first block here, for the others differ
 * from it by pushes that are under way. */
static uint64_t
setting_now(const struct variable *v, enum ps_schedule_by by)
{
    const struct block *first = v->count > 0 ? &v->blocks[0] : NULL;

    if (by == PS_BY_VERSION || job_is_sync(v->job))
        return first == NULL ? 0 : by == PS_BY_VERSION ? first->version : first->clock;
    return v->job->slowest;
}

static bool
sets_rate(const Psd__Set *m)
{
    for (size_t i = 0; i < m->n_parameter; i++)
        if (strcmp(m->parameter[i]->name, "learning_rate") == 0)
            return true;
    return m->schedule != NULL;
}

/* A rate of 0 that is asked for is meant; one that a schedule makes of another is not. */
static enum ps_err
check_rate(const struct variable *v, const Psd__Set *m, const struct ps_optimizer *next, struct ps_error *e)
{
    const struct ps_schedule *schedule = &next->schedule;
    uint64_t now = setting_now(v, schedule->by);
    double rate = schedule_rate(schedule, next->learning_rate, now);

    if (!m->careful || v->count == 0)
        return PS_OK;
    if (sets_rate(m) && (float)rate == 0 && (float)next->learning_rate > 0)
        return ps_fail(e, PS_ERR_INVALID,
                       "at %s %" PRIu64 ", where it is, the schedule makes its learning rate 0: begin=now lets the "
                       "schedule begin there, schedule=constant ends it, force sets it as it is",
                       schedule->by == PS_BY_VERSION ? "version" : "clock", now);
    if (optimizer_uses(next->kind, PARAMETER_weight_decay) && rate * next->weight_decay >= 1)
        return ps_fail(e, PS_ERR_INVALID,
                       "a learning rate of %g with a weight_decay of %g takes each weight to 0 or past it in one "
                       "update; force sets it as it is",
                       rate, next->weight_decay);
    return PS_OK;
}

/* The variable's optimizer after the change. *e names neither the variable nor the job. */
static enum ps_err
setting_changed(const struct variable *v, const Psd__Set *m, struct ps_optimizer *next, struct ps_error *e)
{
    enum ps_err err;

    *next = v->def->optimizer;
    for (size_t i = 0; i < m->n_parameter; i++)
        if ((err = ps_optimizer_set(next, m->parameter[i]->name, m->parameter[i]->value, e)) != PS_OK)
            return err;
    if (m->schedule != NULL)
        next->schedule = wire_schedule(m->schedule);
    if (m->begin_now && schedule_moves(&next->schedule))
        next->schedule.begin = setting_now(v, next->schedule.by);
    if (m->clip != NULL)
        next->clip = wire_clip(m->clip);
    if ((err = optimizer_check(next, e)) != PS_OK)
        return err;
    if (optimizer_slots(next) != optimizer_slots(&v->def->optimizer))
        return ps_fail(e, PS_ERR_INVALID, "its blocks have %u slots and would need %u",
                       optimizer_slots(&v->def->optimizer), optimizer_slots(next));
    if ((err = check_start(v, next, e)) != PS_OK || (err = check_rate(v, m, next, e)) != PS_OK)
        return err;
    return check_given_norm(v, next, e);
}

/* Count the variables that the pattern names, and check that the set may be applied to all of them. */
static enum ps_err
check_variables(const struct job *job, const Psd__Set *m, uint64_t *named, struct ps_error *e)
{
    struct ps_optimizer next;
    struct ps_error why;

    *named = 0;
    for (const struct variable *v = job->variables; v != NULL; v = v->hh.next) {
        if (!pattern_matches(m->variables, v->name))
            continue;
        if (setting_changed(v, m, &next, &why) != PS_OK)
            return ps_fail(e, PS_ERR_INVALID, "variable '%.64s': %.360s", v->name, why.text);
        ++*named;
    }
    if (*named > SHARD_SET_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "'%.64s' names %" PRIu64 " variables, one set changes at most %d", m->variables,
                       *named, SHARD_SET_MAX);
    return PS_OK;
}

static enum ps_err
setting_check(struct shard *s, const Psd__Set *m, struct job **job, uint64_t *named, struct ps_error *e)
{
    enum ps_err err;

    HASH_FIND(hh, s->jobs, m->job, strlen(m->job), *job);
    if (*job == NULL)
        return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no job '%.64s'", s->config.shard, m->job);
    if ((err = check_job(*job, m, e)) != PS_OK || (err = resize_check(s, *job, m->workers, e)) != PS_OK)
        return err;
    return check_variables(*job, m, named, e);
}

/* ---- Doing ---- */

static void
change_job(struct shard *s, struct job *job, const Psd__Set *m)
{
    bool resized = resize_by_set(s, job, m->workers);

    if (m->age == NULL && m->bound == NULL && !resized)
        return;
    if (m->age != NULL)
        job->age = wire_age(m->age);
    if (m->bound != NULL) {
        job->bound = m->bound->clocks;
        turn_wake_pulls(s, job);
    }
    if (!MUTATION(BOUND_NOT_KEPT))
        turn_mark_job(s, job);
    job_to_redo(s, job);
}

/* Counts those whose first block is here: over all shards each variable counts once. */
static uint64_t
change_variables(struct shard *s, const struct job *job, const Psd__Set *m)
{
    uint64_t first = 0;
    struct ps_error e;

    for (struct variable *v = job->variables; v != NULL; v = v->hh.next) {
        struct ps_optimizer next;

        if (!pattern_matches(m->variables, v->name))
            continue;
        if (setting_changed(v, m, &next, &e) != PS_OK)
            ps_assert(!"check() passed");
        if (!variable_set_optimizer(s, v, &next)) {
            turn_fail(s, PS_ERR_NOMEM);
            return first;
        }
        if (!MUTATION(RATE_NOT_KEPT))
            turn_mark_variable(s, v);
        variable_to_redo(s, v);
        first += placement_shard(v->start, 0, s->config.shards) == s->config.shard;
    }
    return first;
}

/* The store had no room for a set: that is its answer; the peer learns of other errors by asking again. */
static void
setting_refuse(struct shard *s, struct connection *c, uint64_t request, uint64_t named, enum ps_err err)
{
    struct ps_error e;

    ps_fail(&e, err, "shard %u has no room to change %" PRIu64 " variables at once: %s", s->config.shard, named,
            ps_strerror(err));
    if (err == PS_ERR_FULL)
        actions_error(s, c, request, err, e.text);
    else
        connection_refuse(s, c, err, "%s", e.text);
}

enum shard_result
setting_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Set *m)
{
    Psd__SetDone done = PSD__SET_DONE__INIT;
    struct ps_error e = {0};
    struct job *job;
    uint64_t named;
    enum ps_err err;

    static_assert((SHARD_SET_MAX + 1) * (uint64_t)(STORE_ROW_ROOM + REDO_ROW_MAX) + 4 * KIB + REDO_JOB_MAX +
                          TURN_ROWS_MAX <=
                      STORE_ROOM_MAX,
                  "rows of a set");
    if (setting_check(s, m, &job, &named, &e) != PS_OK) {
        actions_error(s, c, request, e.code, e.text);
        return SHARD_TAKEN;
    }
    switch (turn_room(s, (named + 1) * STORE_ROW_ROOM + redo_rows_room(named + 1), &err)) {
    case TURN_WAIT:
        return SHARD_TURN_FULL;
    case TURN_REFUSED:
        setting_refuse(s, c, request, named, err);
        return SHARD_TAKEN;
    case TURN_READY:
        break;
    }
    turn_take_rows(s, named + 1);
    change_job(s, job, m);
    done.variables = change_variables(s, job, m);
    redo_flush(s);
    done.changed = named > 0 || m->age != NULL || m->bound != NULL || m->workers != 0;
    actions_log(s, SHARD_LOG_INFO, "set job=%s variables=\"%s\" named=%" PRIu64 " by=\"%s\" peer=%s", job->name,
                m->variables, named, connection_agent(c), c->peer);
    actions_send(s, c, MSG_SET_DONE, request, &done.base);
    return SHARD_TAKEN;
}
