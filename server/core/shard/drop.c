/* What waits is answered or forgotten first, so that nothing points to a job or a variable when it goes. */
#include "server/core/shard/drop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/pattern.h"
#include "common/core/base/text.h"
#include "common/core/cluster/placement.h"
#include "server/core/durability/drop_erase.h"
#include "server/core/durability/drop_ids.h"
#include "server/core/shard/worker_exit.h"
#include "server/core/shard_state.h"

#define TASKS_NAMED 8 /* live workers in a refusal */

/* ---- What would go ---- */

static bool
drop_names(const Psd__Drop *m, const struct variable *v)
{
    return m->variables[0] == '\0' || pattern_matches(m->variables, v->name);
}

static void
drop_count(const struct shard *s, const struct job *job, const Psd__Drop *m, Psd__Dropped *out)
{
    const struct session *x;

    out->found = true;
    out->workers = job->live;
    SESSION_EACH (job, x)
        out->connected += x->connection != NULL;
    for (const struct variable *v = job->variables; v != NULL; v = v->hh.next) {
        if (!drop_names(m, v))
            continue;
        out->first += placement_shard(v->start, 0, s->config.shards) == s->config.shard;
        out->variables += v->count > 0;
        out->blocks += v->count;
        out->bytes += v->bytes;
    }
}

/* ---- Checking ---- */

/* "worker 0, worker 3" */
static void
drop_live_text(const struct job *job, char *out, size_t size)
{
    struct text t = text_start(out, size);
    const struct session *x;
    uint32_t n = 0;

    SESSION_EACH (job, x) {
        if (x->state != SESSION_LIVE)
            continue;
        if (n == TASKS_NAMED) {
            text_put(&t, " ...");
            break;
        }
        text_put(&t, "%sworker %u", n++ > 0 ? ", " : "", x->task);
    }
}

static enum ps_err
drop_check(struct shard *s, const struct job *job, const Psd__Drop *m, struct ps_error *e)
{
    char live[TASKS_NAMED * 24];

    if (restore_says_no(s, e))
        return e->code;
    if (job->live == 0 || m->force)
        return PS_OK;
    drop_live_text(job, live, sizeof live);
    return ps_fail(
        e, PS_ERR_BUSY,
        "%u worker%s of job '%.64s' %s live on shard %u (%s): end the program, or psctl evict them, or force "
        "it (psctl drop --force)",
        job->live, job->live == 1 ? "" : "s", job->name, job->live == 1 ? "is" : "are", s->config.shard, live);
}

/* ---- A variable ---- */

void
drop_variable(struct shard *s, struct variable *v, const char *text)
{
    struct session *x;

    declare_end(s, v, PS_ERR_DROPPED, text);
    block_unwant(s, v);
    for (uint64_t i = 0; i < v->ready; i++)
        if (v->blocks[i].sync_step != NULL)
            sync_step_free(s, v->blocks[i].sync_step);
    SESSION_EACH (v->job, x)
        data_steps_forget_blocks(s, x, v->first, v->count);
    staged_drop(s, v);
    variable_drop(s, v);
    turn_mark_variable(s, v);
}

/* ---- A job ---- */

/* Their connections end; sessions that have none are answered when they come again. */
static void
drop_close_connections(struct shard *s, struct job *job, const char *text)
{
    struct session *x;

    SESSION_EACH (job, x)
        if (x->connection != NULL)
            connection_refuse(s, x->connection, PS_ERR_DROPPED, "%s", text);
}

/* Their rows are erased by the numbers of task and chunk (drop_erase.c). */
static void
drop_free_sessions(struct shard *s, struct job *job)
{
    struct session *x;

    SESSION_EACH (job, x)
        job->drop_chunks = MAX(job->drop_chunks, x->steps.chunks_len);
    for (uint32_t task = roster_next(&job->there, 0); task != ROSTER_END; task = roster_next(&job->there, task + 1)) {
        turn_unmark_session(s, job->sessions[task]);
        session_free(s, job->sessions[task]);
        job->sessions[task] = NULL;
        s->sessions_len--;
    }
    clock_heap_clear(&job->holding);
    job->live = job->lapsed = job->finished = 0;
}

void
drop_job(struct shard *s, struct job *job, const char *text)
{
    struct variable *v, *next;

    drop_close_connections(s, job, text);
    save_request_end_job(s, job->id, PS_ERR_DROPPED, text);
    pull_end_job(s, job, PS_ERR_DROPPED, text);
    sync_step_free_all(s, job);
    barrier_free_all(s, job);
    assign_free_waiters(job);
    drop_free_sessions(s, job);
    HASH_ITER (hh, job->variables, v, next) {
        declare_end(s, v, PS_ERR_DROPPED, text);
        block_unwant(s, v);
        staged_drop(s, v);
        variable_drop(s, v);
    }
    job_drop(s, job);
    if (!MUTATION(DROP_NOT_KEPT))
        turn_mark_job(s, job);
}

/* ---- Doing ---- */

/* All that a drop writes is in the log as one record of its own. */
static void
drop_to_redo(struct shard *s, const struct job *job, const uint32_t *vars, size_t len)
{
    redo_flush(s);
    if (!MUTATION(DROP_NOT_LOGGED))
        redo_drop(s, job, vars, len);
    redo_flush(s);
}

/* The job's live workers end, some at a time. True: none is left. */
static bool
drop_end_workers(struct shard *s, struct job *job, const char *text)
{
    uint32_t n = 0;
    struct session *x;

    SESSION_EACH (job, x) {
        if (x->state != SESSION_LIVE)
            continue;
        if (n++ == SHARD_DROP_MAX)
            return false;
        worker_exit_drop(s, x, text);
    }
    return true;
}

/* True: there are more than one drop takes. */
static bool
drop_variables(struct shard *s, struct job *job, const Psd__Drop *m, const char *text)
{
    uint32_t vars[SHARD_DROP_MAX];
    struct variable *v, *next;
    size_t n = 0;

    if (!drop_end_workers(s, job, text))
        return true;
    HASH_ITER (hh, job->variables, v, next) {
        if (!drop_names(m, v))
            continue;
        if (n == SHARD_DROP_MAX)
            break;
        vars[n++] = v->id;
        drop_variable(s, v, text);
    }
    pull_end_dropped(s, job, text);
    drop_to_redo(s, job, vars, n);
    return v != NULL;
}

/* Room for the rows that it writes. SHARD_TAKEN and *err: it was refused. */
static enum shard_result
drop_room(struct shard *s, const Psd__Drop *m, enum ps_err *err)
{
    uint64_t rows = m->variables[0] != '\0' ? SHARD_DROP_MAX + 3 : 3;

    static_assert((SHARD_DROP_MAX + 3) * (uint64_t)(STORE_ROW_ROOM + REDO_ROW_MAX) + REDO_JOB_MAX + MIB <=
                      STORE_ROOM_TURN - TURN_ROWS_MAX,
                  "rows of a drop");
    *err = PS_ERR_FULL;
    if (s->unnumbered > 0 && (turn_dirty(s) || redo_waits(s)))
        return SHARD_TURN_FULL;
    if (!drop_number_rows(s))
        return SHARD_TAKEN;
    switch (turn_room(s, rows * STORE_ROW_ROOM + redo_rows_room(rows) + redo_room(s, 0, 0, 0), err)) {
    case TURN_WAIT:
        return SHARD_TURN_FULL;
    case TURN_REFUSED:
        return SHARD_TAKEN;
    case TURN_READY:
        break;
    }
    turn_take_rows(s, rows);
    *err = PS_OK;
    return SHARD_TAKEN;
}

static void
drop_log(struct shard *s, const struct connection *c, const Psd__Drop *m, const Psd__Dropped *did)
{
    actions_log(s, SHARD_LOG_WARNING,
                "dropped job=%s variables=\"%s\" blocks=%" PRIu64 " bytes=%" PRIu64 " workers=%" PRIu64
                " by=\"%s\" peer=%s",
                m->job, m->variables, did->blocks, did->bytes, did->workers, connection_agent(c), c->peer);
}

/* For those that still have what goes. */
static void
drop_text(const Psd__Drop *m, const char *by, char *out, size_t size)
{
    if (m->variables[0] != '\0')
        snprintf(out, size,
                 "variables '%.64s' of job '%.64s' were dropped by %.96s: start the program again to declare them anew",
                 m->variables, m->job, by);
    else
        snprintf(out, size, "job '%.64s' was dropped by %.96s: start the program again to train anew", m->job, by);
}

static void
drop_do(struct shard *s, struct connection *c, uint64_t request, struct job *job, const Psd__Drop *m, Psd__Dropped *did)
{
    char text[PS_ERROR_TEXT_MAX];
    const char *by = connection_agent(c);
    enum ps_err err;

    drop_text(m, by[0] != '\0' ? by : "an observer", text, sizeof text);
    drop_log(s, c, m, did);
    if ((err = drop_ids_put(s)) != PS_OK) {
        turn_fail(s, err);
        return;
    }
    s->drops.save = s->save.number;
    s->drops.no_room = false;
    if (m->variables[0] != '\0') {
        did->more = drop_variables(s, job, m, text);
    } else {
        drop_to_redo(s, job, NULL, 0);
        drop_job(s, job, text);
    }
    drop_erase_wait(s, c, request, did);
}

enum shard_result
drop_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Drop *m)
{
    Psd__Dropped did = PSD__DROPPED__INIT;
    struct ps_error e;
    struct job *job;
    enum ps_err err;

    HASH_FIND(hh, s->jobs, m->job, strlen(m->job), job);
    if (job == NULL && m->check) {
        actions_send(s, c, MSG_DROPPED, request, &did.base);
        return SHARD_TAKEN;
    }
    if (job == NULL) { /* perhaps it was dropped, and is being erased */
        drop_erase_wait(s, c, request, &did);
        return SHARD_TAKEN;
    }
    drop_count(s, job, m, &did);
    if (m->check) {
        actions_send(s, c, MSG_DROPPED, request, &did.base);
        return SHARD_TAKEN;
    }
    if (drop_check(s, job, m, &e) != PS_OK) {
        actions_error(s, c, request, e.code, e.text);
        return SHARD_TAKEN;
    }
    if (drop_room(s, m, &err) == SHARD_TURN_FULL)
        return SHARD_TURN_FULL;
    if (err != PS_OK) {
        (void)ps_fail(&e, err, "shard %u has no room to write down what is dropped: %s", s->config.shard,
                      ps_strerror(err));
        actions_error(s, c, request, e.code, e.text);
        return SHARD_TAKEN;
    }
    drop_do(s, c, request, job, m, &did);
    return SHARD_TAKEN;
}

enum shard_result
drop_job_unused(struct shard *s, struct job *job)
{
    Psd__Drop m = PSD__DROP__INIT;
    enum ps_err err;

    if (drop_room(s, &m, &err) == SHARD_TURN_FULL)
        return SHARD_TURN_FULL;
    if (err != PS_OK)
        return SHARD_TAKEN;
    if ((err = drop_ids_put(s)) != PS_OK) {
        turn_fail(s, err);
        return SHARD_TAKEN;
    }
    actions_log(s, SHARD_LOG_INFO, "dropped, since it was never used and there is no room for another job=%s",
                job->name);
    s->drops.save = s->save.number;
    s->drops.no_room = false;
    drop_to_redo(s, job, NULL, 0);
    drop_job(s, job, "the job was opened and never used, and made room for another");
    return SHARD_TAKEN;
}
