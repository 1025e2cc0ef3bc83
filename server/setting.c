/* Two passes over the variables that the pattern names: the first computes what each would be and refuses, the second
 * takes it over. */
#include "setting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/wire.h"
#include "shard_state.h"

/* ---- Checking ---- */

static enum ps_err
check_job(const struct job *job, const Psd__Set *m, struct ps_error *e)
{
    if (m->bound != NULL && job->options->mode != PSD__MODE__SSP)
        return ps_fail(e, PS_ERR_INVALID, "job '%.64s' is not ssp: it has no bound", job->name);
    return PS_OK;
}

static enum ps_err
check(struct shard *s, const Psd__Set *m, struct job **job, uint64_t *named, struct ps_error *e)
{
    enum ps_err err;

    HASH_FIND(hh, s->jobs, m->job, strlen(m->job), *job);
    if (*job == NULL)
        return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no job '%.64s'", s->config.shard, m->job);
    if ((err = check_job(*job, m, e)) != PS_OK)
        return err;
    *named = 0;
    if (m->variables[0] != '\0')
        return ps_fail(e, PS_ERR_UNSUPPORTED, "variables cannot be changed yet");
    return PS_OK;
}

/* ---- Doing ---- */

static void
change_job(struct shard *s, struct job *job, const Psd__Set *m)
{
    if (m->age == NULL && m->bound == NULL)
        return;
    if (m->age != NULL)
        job->age = wire_age(m->age);
    if (m->bound != NULL) {
        job->bound = m->bound->clocks;
        pull_wake(s, job);
    }
    turn_mark_job(s, job);
}

enum shard_result
setting_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Set *m)
{
    Psd__SetDone done = PSD__SET_DONE__INIT;
    struct ps_error e = {0};
    struct job *job;
    uint64_t named;

    if (check(s, m, &job, &named, &e) != PS_OK) {
        actions_error(s, c, request, e.code, e.text);
        return SHARD_TAKEN;
    }
    if (!turn_has_rows(s, named + 1))
        return SHARD_TURN_FULL;
    change_job(s, job, m);
    actions_log(s, SHARD_LOG_INFO, "set job=%s variables=\"%s\" named=%" PRIu64 " by=\"%s\" peer=%s", job->name,
                m->variables, named, connection_agent(c), c->peer);
    actions_send(s, c, MSG_SET_DONE, request, &done.base);
    return SHARD_TAKEN;
}
