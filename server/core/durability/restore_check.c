/* Whether a checkpoint fits here: the job and variables that are there are the same, and those that are not have room.
 * Variables that would be made are made in heap memory, measured and thrown away. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/units.h"
#include "common/core/format/checkpoint.h"
#include "common/core/wire/wire.h"
#include "server/core/durability/restore.h"
#include "server/core/shard_state.h"
#include "server/core/turn/mismatch.h"

const char *
restore_job_name(const struct shard_restore *r)
{
    return r->job[0] != '\0' ? r->job : r->manifest->declared->name;
}

/* Bytes that variables need which are not there. */
struct need {
    uint64_t bytes, gather_bytes;
    uint32_t variables;
};

/* Either may have been opened, or declared, with settings that the other has by a SET; and neither's number of workers
 * says anything of the values. */
static bool
restore_check_job_fits(const struct job *there, const struct checkpoint *m)
{
    Psd__AgePolicy age;
    Psd__Job now = job_now(there, &age), declared = *m->declared, then = *m->now;
    bool full = declared.quorum == declared.workers;

    declared.name = (char *)(uintptr_t)there->name; /* a restore may give it another */
    declared.workers = then.workers = now.workers;
    declared.quorum = then.quorum = full ? now.workers : declared.quorum;
    return wire_job_fits(&now, there->options, &declared) || wire_job_fits(&declared, &then, &now);
}

static bool
restore_check_variable_fits(const struct variable *there, const struct checkpoint_variable *v)
{
    struct wire_optimizer room;
    Psd__Declare now = *there->def->declare;

    now.optimizer = wire_optimizer_message(&there->def->optimizer, &room);
    return wire_declare_fits(there->def->declare, &now, v->declared) ||
           wire_declare_fits(v->declared, v->now, there->def->declare);
}

static enum ps_err
check_job(struct shard *s, const struct shard_restore *r, struct job **job, struct ps_error *e)
{
    char text[PS_ERROR_TEXT_MAX];
    const char *name = restore_job_name(r);

    HASH_FIND(hh, s->jobs, name, strlen(name), *job);
    if (*job == NULL && (limit_reached(s, LIMIT_JOBS) || job_next_id(s) == 0))
        return limit_refuse(s, LIMIT_JOBS, e, "no room for job '%.64s'", name);
    if (*job == NULL || restore_check_job_fits(*job, r->manifest))
        return PS_OK;
    wire_job_differences((*job)->options, r->manifest->declared, text, sizeof text);
    return mismatch_refuse(e, name, NULL, "is there with", text);
}

/* The variable as it would be here, of a job that is to live as long; measured. NULL: no memory. */
static struct variable *
restore_check_variable_new(struct shard *s, const struct shard_restore *r, const struct checkpoint_variable *v,
                           const struct job *there, struct job *job)
{
    *job = (struct job){.options = r->manifest->declared,
                        .name = restore_job_name(r),
                        .quorum = there != NULL ? there->quorum : r->manifest->now->quorum};
    return variable_new(s, job, v->declared, 0);
}

static void
restore_check_count_blocks(const struct variable *v, struct restore_plan *plan)
{
    plan->variables += v->count > 0;
    plan->blocks += v->count;
    plan->bytes += v->bytes;
}

static enum ps_err
check_variable(struct shard *s, const struct shard_restore *r, const struct job *job,
               const struct checkpoint_variable *v, struct need *need, struct restore_plan *plan, struct ps_error *e)
{
    struct variable *there = NULL, *imagined;
    struct job of;
    char text[PS_ERROR_TEXT_MAX];

    if (job != NULL)
        HASH_FIND(hh, job->variables, v->declared->name, strlen(v->declared->name), there);
    if (there != NULL && restore_check_variable_fits(there, v)) {
        restore_check_count_blocks(there, plan);
        return PS_OK;
    }
    if (there != NULL) {
        wire_declare_differences(there->def->declare, v->declared, text, sizeof text);
        return mismatch_refuse(e, job->name, there->name, "is there with", text);
    }
    if ((imagined = restore_check_variable_new(s, r, v, job, &of)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "shard %u has no memory for variable '%.64s'", s->config.shard,
                       v->declared->name);
    restore_check_count_blocks(imagined, plan);
    need->bytes += imagined->bytes;
    need->gather_bytes += imagined->count > 0 ? variable_gather_bytes(s, imagined) : 0;
    need->variables += imagined->count > 0;
    variable_free(imagined);
    return PS_OK;
}

static enum ps_err
check_room(struct shard *s, const struct need *need, struct ps_error *e)
{
    uint64_t free_bytes = declare_free_bytes(s);
    struct units a, b;

    if (need->variables > s->config.variables_max - MIN(s->variables_len, s->config.variables_max))
        return limit_refuse(s, LIMIT_VARIABLES, e, "no room for %u variables more", need->variables);
    if (need->variables > s->config.variable_ids_max + 1 - MAX(s->variables.next, 1u))
        return ps_fail(e, PS_ERR_LIMIT, "shard %u has no ids left for %u variables more", s->config.shard,
                       need->variables);
    if (need->bytes > free_bytes)
        return ps_fail(e, PS_ERR_FULL, "the checkpoint needs %s on shard %u, which has %s for new variables",
                       units_bytes(need->bytes, &a), s->config.shard, units_bytes(free_bytes, &b));
    if (s->gather_bytes + need->gather_bytes > s->config.gather_bytes_max)
        return limit_refuse(s, LIMIT_GATHER_BYTES, e, "the checkpoint needs %s more",
                            units_bytes(need->gather_bytes, &a));
    return PS_OK;
}

enum ps_err
restore_check(struct shard *s, const struct shard_restore *r, struct restore_plan *plan, struct ps_error *e)
{
    struct need need = {0};
    struct job *job;
    enum ps_err err;

    *plan = (struct restore_plan){0};
    if ((err = check_job(s, r, &job, e)) != PS_OK)
        return err;
    for (size_t i = 0; err == PS_OK && i < r->manifest->variables_len; i++)
        err = check_variable(s, r, job, &r->manifest->variables[i], &need, plan, e);
    return err == PS_OK ? check_room(s, &need, e) : err;
}
