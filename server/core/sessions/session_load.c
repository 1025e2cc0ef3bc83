/* Sessions as their rows say, then what follows from all of them: where the workers stand, and when leases end. */
#include "server/core/sessions/session_load.h"

#include <endian.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "server/core/sessions/session_row.h"
#include "server/core/shard_state.h"

struct session_load {
    struct shard *s;
    enum ps_err err;
    struct session_key at;
};

static struct job *
session_load_job(const struct shard *s, uint32_t job_id)
{
    return job_id >= 1 && job_id <= s->jobs_len ? s->jobs_by_id[job_id] : NULL;
}

/* Of a dropped job: it is only to be erased. */
static bool
session_load_dropped(const struct session_load *l, size_t key_len)
{
    struct job *job = key_len == sizeof l->at ? session_load_job(l->s, be32toh(l->at.job)) : NULL;
    uint32_t task = be32toh(l->at.task);

    if (job == NULL || !job->dropped || task >= WIRE_WORKERS_MAX || !job_make_room(job, task + 1))
        return false;
    roster_add(&job->there, task);
    return true;
}

static bool
session_load_row_ok(const struct shard *s, const Psd__SessionRow *row, uint32_t job_id, uint32_t task)
{
    const struct job *job = session_load_job(s, job_id);

    return row != NULL && job != NULL && task < WIRE_WORKERS_MAX &&
           (task >= job->room || job->sessions[task] == NULL) && row->state < SESSION_STATES &&
           row->round <= job->round && row->rounds_behind <= row->round && row->n_odd_seq <= SHARD_OUTCOMES_MAX &&
           row->n_odd_seq == row->n_odd_code && row->ahead.len <= WIRE_SURVIVED_MAX &&
           (row->metrics == NULL || row->metrics->n_value <= WIRE_METRICS_MAX);
}

/* The row is older than this life of the data, and so perhaps older than the worker: what lies past last_seq is there,
 * but the worker will give these numbers to other messages. The welcome lists the pushes among them; ticks and barriers
 * come again. In sync the worker stands where it held its place: the tick that was ahead of that comes again, too. */
static void
session_load_older_boot(struct session *session)
{
    const struct job *job = session->job;

    sequence_reboot(session);
    data_steps_forget(session);
    if (job_is_sync(job))
        session->clock = MIN(session->clock, session->held_clock);
    session->clock = MAX(session->clock, job->slowest);
}

static bool
session_load_row(struct shard *s, struct session *session, const Psd__SessionRow *row)
{
    session->incarnation = row->incarnation;
    session->state = (enum session_state)row->state;
    session->lease_ms = row->lease_ms;
    session->clock = row->clock;
    session->held_clock = row->held;
    session->joined_past = row->joined_past;
    session->round = row->round;
    session->known_round = row->round - row->rounds_behind;
    session->late = row->late;
    session->evicted = row->evicted;
    session->defined = row->defined;
    session->dropped = row->dropped;
    session->redo = row->redo;
    session->pushes = row->pushes;
    session->assigned = row->assigned;
    session->steps.at = data_cursor_of(row->cursor);
    session->steps.step = data_cursor_of(row->cursor_step);
    session->steps.ticked = data_cursor_of(row->cursor_ticked);
    session->begin = data_begin_of(row->begins);
    worker_metrics_take(&session->metrics, row->metrics);
    session->boot = row->boot != 0 ? row->boot : s->boot;
    session->last_seq = row->last_seq;
    session->next_seq = row->last_seq + 1;
    session->job->used |= row->last_seq > 0 || row->ahead.len > 0 || row->clock > 0;
    session->last_tick = row->last_tick;
    session->last_barrier = row->last_barrier;
    session->acked_through = row->acked_through;
    session->outcomes_lost_to = row->odd_lost;
    if (!resolved_set_copy(&session->resolved_ahead, row->ahead_from, row->ahead.data, row->ahead.len))
        return false;
    session->outcomes_len = (uint32_t)row->n_odd_seq;
    for (uint32_t i = 0; i < session->outcomes_len; i++)
        session->outcomes[i] = (struct session_outcome){row->odd_seq[i], (enum ps_err)row->odd_code[i]};
    session->from_store = true;
    session->heard_ms = s->now_ms;
    if (session->boot != s->boot)
        session_load_older_boot(session);
    return true;
}

void
session_load_reboot(struct shard *s)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        struct session *x;

        if (s->jobs_by_id[id] == NULL)
            continue;
        SESSION_EACH (s->jobs_by_id[id], x)
            if (x->boot != s->boot)
                session_load_older_boot(x);
    }
}

static bool
session_load_one(void *arg, struct span key, struct span value)
{
    struct session_load *l = arg;
    Psd__SessionRow *row;
    uint32_t job_id, task;
    struct session *session = NULL;
    bool ok;

    memcpy(&l->at, key.data, MIN(sizeof l->at, key.len));
    if (session_load_dropped(l, key.len))
        return true;
    row = psd__session_row__unpack(NULL, value.len, value.data);
    job_id = be32toh(l->at.job);
    task = be32toh(l->at.task);
    ok = key.len == sizeof l->at && session_load_row_ok(l->s, row, job_id, task);
    if (ok && job_make_room(l->s->jobs_by_id[job_id], task + 1) &&
        (session = session_new(l->s, l->s->jobs_by_id[job_id], task)) != NULL) {
        ok = session_load_row(l->s, session, row) && (session->agent = strdup(row->agent)) != NULL &&
             session_set_token(l->s, session, row->token);
    }
    l->err = session != NULL && ok ? PS_OK : ok || session != NULL ? PS_ERR_NOMEM : PS_ERR_IO;
    if (row != NULL)
        psd__session_row__free_unpacked(row, NULL);
    return l->err == PS_OK;
}

enum ps_err
session_load_all(struct shard *s, struct ps_error *e)
{
    struct session_load l = {.s = s};
    enum ps_err err = s->store->ops->each_row(s->store, STORE_SESSIONS, session_load_one, &l);

    if (l.err != PS_OK)
        return ps_fail(e, l.err, "the session of worker %u of job %u cannot be loaded", be32toh(l.at.task),
                       be32toh(l.at.job));
    if (err != PS_OK)
        return ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
    if ((err = data_steps_load(s, e)) != PS_OK)
        return err;
    s->lapse_at = UINT64_MAX;
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        struct job *job = s->jobs_by_id[id];
        const struct session *x;

        if (job == NULL)
            continue;
        clock_load(s, job);
        SESSION_EACH (job, x)
            session_watch(s, x);
    }
    return PS_OK;
}
