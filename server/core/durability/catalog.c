/* Load order: jobs, variables, sessions, blocks, values of assigns that wait for these, so that each finds the object
 * that it belongs to. */
#include "server/core/durability/catalog.h"

#include <stdlib.h>

#include "server/core/durability/drop_ids.h"
#include "server/core/sessions/session_load.h"
#include "server/core/sessions/traffic_kept.h"
#include "server/core/shard_state.h"

/* Jobs and variables. */
static enum ps_err
catalog_load_rows(struct shard *s, struct ps_error *e)
{
    struct row_load l = {.s = s, .e = e};
    enum ps_err err;

    if (s->jobs_by_id == NULL && (s->jobs_by_id = calloc(SHARD_JOBS_MAX + 1, sizeof(struct job *))) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for jobs");
    if ((err = drop_ids_load(s)) != PS_OK)
        return ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
    if ((err = s->store->ops->each_row(s->store, STORE_JOBS, job_load, &l)) != PS_OK || l.err != PS_OK)
        goto out;
    err = s->store->ops->each_row(s->store, STORE_VARS, variable_load, &l);
out:
    if (l.err != PS_OK)
        return l.err;
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
}

static enum ps_err
catalog_load_blocks(struct shard *s, struct ps_error *e)
{
    struct row_load l = {.s = s, .e = e};
    struct variable *v;
    enum ps_err err = s->store->ops->each_head(s->store, block_load, &l);

    if (l.err != PS_OK)
        return l.err;
    if (err != PS_OK)
        return ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
    VARIABLE_EACH (s, v) {
        if (!v->kind->loaded(v)) {
            row_load_stop(&l, PS_ERR_IO, "the blocks of variable", v->id);
            return l.err;
        }
        block_want(s, v);
    }
    return PS_OK;
}

enum ps_err
catalog_load(struct shard *s, struct ps_error *e)
{
    enum ps_err err;

    if ((err = catalog_load_rows(s, e)) != PS_OK || (err = session_load_all(s, e)) != PS_OK)
        return err;
    drop_number_rows(s);
    if ((err = catalog_load_blocks(s, e)) != PS_OK)
        return err;
    return staged_load(s, e);
}

/* A job with all that belongs to it: its waiting requests, its sessions. Its variables are freed by number. */
static void
catalog_free_job(struct shard *s, struct job *job)
{
    struct variable *v, *next;

    HASH_ITER (hh, job->variables, v, next)
        HASH_DEL(job->variables, v);
    if (job->dropped)
        DL_DELETE2(s->drops.jobs, job, dropped_prev, dropped_next);
    else
        HASH_DEL(s->jobs, job);
    pull_end_job(s, job, PS_OK, NULL);
    sync_step_free_all(s, job);
    barrier_free_all(s, job);
    assign_free_waiters(job);
    for (uint32_t i = roster_next(&job->there, 0); i != ROSTER_END; i = roster_next(&job->there, i + 1))
        session_free(s, job->sessions[i]);
    job_free(job);
}

static void
catalog_free_variables(struct shard *s)
{
    struct variable *v, *next;

    for (v = variable_table_from(&s->variables, 1); v != NULL; v = next) {
        next = variable_table_from(&s->variables, v->id + 1);
        variable_free(v);
    }
    variable_table_finish(&s->variables);
    ordinals_finish(&s->ordinals);
    s->work = s->drops.variables = NULL;
    s->variables_len = 0;
    s->unnumbered = 0;
}

void
catalog_free(struct shard *s)
{
    struct job *job, *next;

    HASH_ITER (hh, s->jobs, job, next)
        catalog_free_job(s, job);
    DL_FOREACH_SAFE2 (s->drops.jobs, job, next, dropped_next)
        catalog_free_job(s, job);
    catalog_free_variables(s);
    ps_assert(s->holders == NULL);
    free(s->jobs_by_id);
    s->jobs_by_id = NULL;
    s->jobs_len = s->jobs_next = 0;
    s->data_bytes = s->promised_bytes = s->blocks = s->gather_bytes = s->sessions_len = s->barriers_len = 0;
    save_unload(s);
}

bool
catalog_reload(struct shard *s, struct ps_error *e)
{
    struct traffic_kept kept;

    traffic_kept_take(s, &kept);
    catalog_free(s);
    s->sweep = false;
    s->lapse_at = UINT64_MAX;
    s->broken = catalog_load(s, e) != PS_OK;
    if (s->broken)
        catalog_free(s);
    save_loaded(s, !s->broken);
    traffic_kept_give_back(s, &kept);
    return !s->broken;
}
