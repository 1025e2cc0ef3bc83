/* Check that the store and the sync step budget have room, make the variable, mark its row; its blocks follow in
 * block_work(). Bytes that are promised to declared variables count as taken, so that two declares cannot both get the
 * last room. */
#include "server/core/model/declare.h"

#include <inttypes.h>
#include <string.h>

#include "common/core/base/units.h"
#include "common/core/wire/wire.h"
#include "server/core/shard_state.h"
#include "server/core/turn/mismatch.h"

/* Kept free when variables are declared: an eighth of the store, which it keeps itself, what a turn needs, and some for
 * rows and trees. */
static uint64_t
declare_headroom(uint64_t max_bytes)
{
    return max_bytes / 8 + STORE_ROOM_TURN + 4 * MIB;
}

uint64_t
declare_free_bytes(struct shard *s)
{
    struct store_usage usage;
    uint64_t taken;

    s->store->ops->usage(s->store, &usage);
    taken = usage.used_bytes + s->promised_bytes + declare_headroom(usage.max_bytes);
    return usage.max_bytes - MIN(taken, usage.max_bytes);
}

static enum ps_err
declare_check_quota(struct shard *s, const struct variable *v, uint64_t gather_bytes, struct ps_error *e)
{
    const uint64_t more[QUOTAS] = {[QUOTA_VARIABLES] = 1, [QUOTA_BYTES] = v->bytes, [QUOTA_GATHER] = gather_bytes};
    const struct quota_holder *holder = v->job->holder;
    struct units bytes, gather;

    for (enum quota q = 0; q < QUOTAS; q++)
        if (more[q] > 0 && quota_exceeds(s, holder, q, more[q]))
            return quota_refuse(s, holder, q, e, "no room for variable '%.64s' (%s, %s for gradients that wait)",
                                v->name, units_bytes(v->bytes, &bytes), units_bytes(gather_bytes, &gather));
    return PS_OK;
}

static enum ps_err
check_room(struct shard *s, const struct variable *v, struct ps_error *e)
{
    struct store_usage usage;
    struct units needs, used, all, kept;
    uint64_t taken, gather_bytes;

    s->store->ops->usage(s->store, &usage);
    taken = usage.used_bytes - MIN(usage.used_bytes, s->save.left_bytes) + s->promised_bytes;
    if (v->def->numbers > UINT32_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "variable '%.64s' has %" PRIu64 " blocks, the limit is %u", v->name,
                       v->def->numbers, UINT32_MAX);
    if (taken + v->bytes + declare_headroom(usage.max_bytes) > usage.max_bytes)
        return ps_fail(e, PS_ERR_FULL, "variable '%.64s' needs %s on shard %u, which uses %s of %s and keeps %s free",
                       v->name, units_bytes(v->bytes, &needs), s->config.shard, units_bytes(taken, &used),
                       units_bytes(usage.max_bytes, &all), units_bytes(declare_headroom(usage.max_bytes), &kept));
    gather_bytes = variable_gather_bytes(s, v);
    if (s->gather_bytes + gather_bytes > s->config.gather_bytes_max)
        return limit_refuse(s, LIMIT_GATHER_BYTES, e, "variable '%.64s' needs %s more", v->name,
                            units_bytes(gather_bytes, &needs));
    return declare_check_quota(s, v, gather_bytes, e);
}

/* An id that was given before is safe to give again when no block of before is left under it, on disk either: two saves
 * have begun since anything was dropped, and are complete, so that each of the durable store's two generations was
 * written without it; and none runs, which would take the new variable for one of its instant. */
static enum ps_err
declare_next_id(struct shard *s, const Psd__Declare *declare, uint32_t *id, struct ps_error *e)
{
    uint32_t max = s->config.variable_ids_max;
    bool again;

    *id = variable_table_next_id(&s->variables, max, &again);
    if (*id != 0 &&
        (!again || (s->save.state == SAVE_IDLE && (!s->config.durable || s->save.complete >= s->drops.save + 2))))
        return PS_OK;
    return ps_fail(e, PS_ERR_LIMIT,
                   "no id for variable '%.64s': shard %u has given all of its %u, and gives those of dropped variables "
                   "again when two saves are complete, and none runs (psctl save)",
                   declare->name, s->config.shard, max);
}

static enum ps_err
declare_create(struct shard *s, struct job *job, const Psd__Declare *declare, struct variable **out, struct ps_error *e)
{
    struct variable *v;
    enum ps_err err;
    uint32_t id;

    if (limit_reached(s, LIMIT_VARIABLES))
        return limit_refuse(s, LIMIT_VARIABLES, e, "no room for variable '%.64s'", declare->name);
    if ((err = declare_next_id(s, declare, &id, e)) != PS_OK)
        return err;
    if ((v = variable_new(s, job, declare, id)) == NULL)
        goto nomem;
    if ((err = check_room(s, v, e)) != PS_OK) {
        variable_free(v);
        return err;
    }
    if (!variable_add(s, v))
        goto nomem;
    turn_mark_variable(s, v);
    variable_to_redo(s, v);
    actions_log(s, SHARD_LOG_DEBUG, "variable declared job=%s variable=%s id=%u blocks=%" PRIu64 " bytes=%" PRIu64,
                job->name, v->name, v->id, v->count, v->bytes);
    *out = v;
    return PS_OK;
nomem:
    return ps_fail(e, PS_ERR_NOMEM, "shard %u has no memory for variable '%.64s'", s->config.shard, declare->name);
}

/* The definition as a SET left it; borrowed from the variable and *room. */
static Psd__Declare
declare_now(const struct variable *v, struct wire_optimizer *room)
{
    Psd__Declare now = *v->def->declare;

    now.optimizer = wire_optimizer_message(&v->def->optimizer, room);
    return now;
}

/* A program may have been written before a SET, or after it. */
static bool
declare_fits(const struct variable *v, const Psd__Declare *declare)
{
    struct wire_optimizer room;
    Psd__Declare now = declare_now(v, &room);

    return wire_declare_fits(v->def->declare, &now, declare);
}

static enum ps_err
declare_mismatch(const struct variable *v, const Psd__Declare *declare, struct ps_error *e)
{
    char text[PS_ERROR_TEXT_MAX];
    struct wire_optimizer room;
    Psd__Declare now = declare_now(v, &room);

    wire_declare_misfits(v->def->declare, &now, declare, text, sizeof text);
    return mismatch_refuse(e, v->job->name, v->name, "was declared with", text);
}

void
declare_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Declare *declare)
{
    struct declare_waiter who = {.connection = c, .request = request, .gives = declare->gives};
    struct job *job = c->session->job;
    struct ps_error e = {0};
    struct variable *v;
    enum ps_err err = PS_OK;

    HASH_FIND(hh, job->variables, declare->name, strlen(declare->name), v);
    if (v == NULL) {
        who.created = true;
        err = declare_create(s, job, declare, &v, &e);
    } else if (!declare_fits(v, declare)) {
        err = declare_mismatch(v, declare, &e);
    }
    if (err != PS_OK) {
        actions_error(s, c, request, err, e.text);
    } else if (v->ready == v->count && (who.gives || !v->awaits)) {
        declare_send(s, v, &who);
    } else {
        block_want(s, v);
        declare_wait(s, v, &who);
    }
}

/* The variable of an attach. A worker sees those of its own job only. */
static enum ps_err
declare_find(struct shard *s, const struct connection *c, const Psd__Attach *attach, struct variable **out,
             struct ps_error *e)
{
    struct variable *v = NULL;
    struct job *job;

    if (c->session != NULL && strcmp(c->session->job->name, attach->job) != 0)
        return ps_fail(e, PS_ERR_INVALID, "a worker of job '%.64s' cannot attach to a variable of job '%.64s'",
                       c->session->job->name, attach->job);
    HASH_FIND(hh, s->jobs, attach->job, strlen(attach->job), job);
    if (job == NULL)
        return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no job '%.64s'", s->config.shard, attach->job);
    HASH_FIND(hh, job->variables, attach->name, strlen(attach->name), v);
    if (v == NULL)
        return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no variable '%.64s' in job '%.64s'", s->config.shard,
                       attach->name, attach->job);
    *out = v;
    return v->ready == v->count || v->working /* first values may be missing */
               ? PS_OK
               : ps_fail(e, PS_ERR_NOT_FOUND,
                         "shard %u has %" PRIu64 " of %" PRIu64
                         " blocks of variable '%.64s': the others could not be made when it was declared",
                         s->config.shard, v->ready, v->count, v->name);
}

void
declare_attach(struct shard *s, struct connection *c, uint64_t request, const Psd__Attach *attach)
{
    struct declare_waiter who = {.connection = c, .request = request, .attach = true};
    struct ps_error e = {0};
    struct variable *v;
    enum ps_err err;

    if ((err = declare_find(s, c, attach, &v, &e)) != PS_OK)
        actions_error(s, c, request, err, e.text);
    else if (v->ready == v->count && !v->awaits)
        declare_send(s, v, &who);
    else
        declare_wait(s, v, &who);
}
