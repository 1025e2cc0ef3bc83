/* Sessions: sequences and their outcomes, hellos, leases, and the row of each. */
#include "session.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard_state.h"

#define WINDOW_MIN 16

/* ---- Sequences ---- */

static struct pending **
window_slot(const struct session *session, uint64_t seq)
{
    return &session->window[seq & (session->window_size - 1)];
}

struct pending *
session_pending(const struct session *session, uint64_t seq)
{
    if (session->pending_len == 0 || seq <= session->last_seq || seq >= session->next_seq)
        return NULL;
    return *window_slot(session, seq);
}

struct pending *
session_pending_request(const struct session *session, uint64_t request)
{
    struct pending *p;

    DL_FOREACH (session->pending, p)
        if (p->request == request && session->connection != NULL && p->connection == session->connection->id)
            return p;
    return NULL;
}

enum session_seq
session_classify(const struct session *session, uint64_t seq)
{
    if (seq == session->next_seq)
        return SEQ_NEW;
    if (seq == 0 || seq > session->next_seq)
        return SEQ_GAP;
    return session_pending(session, seq) != NULL ? SEQ_WAITING : SEQ_REPEATED;
}

bool
session_window_full(const struct session *session)
{
    return session->next_seq - session->last_seq > SHARD_UNRESOLVED_MAX;
}

/* Make the ring hold one more sequence than now. */
static bool
window_grow(struct session *session)
{
    uint64_t need = session->next_seq - session->last_seq;
    uint32_t old_size = session->window_size, size = MAX(old_size, (uint32_t)WINDOW_MIN);
    struct pending **old = session->window, **window;

    if (need < old_size)
        return true;
    while (size <= need)
        size *= 2;
    if ((window = calloc(size, sizeof(struct pending *))) == NULL)
        return false;
    for (uint64_t seq = session->last_seq + 1; seq < session->next_seq; seq++)
        window[seq & (size - 1)] = old[seq & (old_size - 1)];
    free(old);
    session->window = window;
    session->window_size = size;
    return true;
}

static void
odd_add(struct session *session, uint64_t seq, enum ps_err code)
{
    uint32_t at = session->odd_len;

    if (session->odd_len == SHARD_ODD_MAX) {
        session->odd_lost = session->odd[0].seq;
        memmove(session->odd, session->odd + 1, (SHARD_ODD_MAX - 1) * sizeof(struct odd));
        at = --session->odd_len;
    }
    /* Out of order now and then: a tick or a late push overtakes one that waits. */
    for (; at > 0 && session->odd[at - 1].seq > seq; at--)
        session->odd[at] = session->odd[at - 1];
    session->odd[at] = (struct odd){seq, code};
    session->odd_len++;
}

static const struct odd *
odd_find(const struct session *session, uint64_t seq)
{
    for (uint32_t i = 0; i < session->odd_len; i++)
        if (session->odd[i].seq == seq)
            return &session->odd[i];
    return NULL;
}

enum ps_err
session_outcome(const struct session *session, uint64_t seq)
{
    const struct odd *odd = odd_find(session, seq);

    if (odd != NULL)
        return odd->code;
    return seq <= session->odd_lost ? PS_ERR_UNKNOWN_OUTCOME : PS_OK;
}

bool
session_resolved_early(const struct session *session, uint64_t seq, enum ps_err *code)
{
    const struct odd *odd = session->from_store ? odd_find(session, seq) : NULL;

    if (odd == NULL)
        return false;
    *code = odd->code;
    return true;
}

void
session_acked(struct shard *s, struct session *session, uint64_t acked_through)
{
    uint32_t known = 0;

    acked_through = MIN(acked_through, session->last_seq);
    if (acked_through <= session->acked_through)
        return;
    session->acked_through = acked_through;
    while (known < session->odd_len && session->odd[known].seq <= acked_through)
        known++;
    if (known == 0)
        return;
    session->odd_len -= known;
    memmove(session->odd, session->odd + known, session->odd_len * sizeof(struct odd));
    turn_mark_session(s, session);
}

/* All that is resolved next to last_seq goes under it. */
static void
advance(struct session *session)
{
    while (session->last_seq + 1 < session->next_seq && *window_slot(session, session->last_seq + 1) == NULL)
        session->last_seq++;
}

static void
resolved(struct shard *s, struct session *session, uint64_t seq, enum ps_err code)
{
    if (code != PS_OK && odd_find(session, seq) == NULL)
        odd_add(session, seq, code);
    advance(session);
    clock_moved(s, session);
    turn_mark_session(s, session);
}

void
session_caught_up(struct shard *s, struct session *session, bool awaited)
{
    if (!awaited || session_awaits(session))
        return;
    clock_moved(s, session);
    gather_review(s, session->job);
}

void
session_take(struct shard *s, struct session *session, enum ps_err code)
{
    uint64_t seq = session->next_seq;
    bool awaited = session_awaits(session);

    if (session->pending_len == 0) { /* the usual case needs no window */
        ps_assert(session->last_seq + 1 == seq);
        session->last_seq = seq;
        session->next_seq++;
    } else if (window_grow(session)) {
        session->next_seq++;
        *window_slot(session, seq) = NULL;
    } else {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    resolved(s, session, seq, code);
    session_caught_up(s, session, awaited);
}

static size_t
pending_size(uint32_t blocks)
{
    return sizeof(struct pending) + blocks * sizeof(struct pending_block);
}

struct pending *
session_take_pending(struct shard *s, struct session *session, uint32_t blocks)
{
    struct pending *p = pool_take(&s->pool, pending_size(blocks));

    if (p == NULL || !window_grow(session)) {
        pool_give(&s->pool, p, pending_size(blocks));
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    *p = (struct pending){.session = session,
                          .seq = session->next_seq++,
                          .clock = session->clock,
                          .since_ms = s->now_ms,
                          .connection = session->connection->id,
                          .blocks_len = blocks,
                          .left = blocks + 1};
    *window_slot(session, p->seq) = p;
    DL_APPEND(session->pending, p);
    session->pending_len++;
    return p;
}

static void
pending_free(struct shard *s, struct pending *p)
{
    DL_DELETE(p->session->pending, p);
    p->session->pending_len--;
    pool_give(&s->pool, p, pending_size(p->blocks_len));
}

/* Codes per block, when they differ. */
static bool
codes_differ(const struct pending *p, uint32_t *codes)
{
    bool differ = false;

    for (uint32_t i = 0; i < p->blocks_len; i++) {
        codes[i] = p->blocks[i].code;
        differ = differ || codes[i] != codes[0];
    }
    return differ;
}

static void
pending_answer(struct shard *s, const struct pending *p, enum ps_err code, const char *text)
{
    struct connection *c = p->session->connection;
    uint32_t *codes;
    bool differ;

    if (c == NULL || c->id != p->connection)
        return; /* who comes back asks again */
    if (p->want_value && (code == PS_OK || code == PS_ERR_STALE || code == PS_ERR_LATE)) {
        pull_answer_push(s, c, p);
        return;
    }
    if (p->blocks_len <= 1 || code == PS_OK) {
        actions_ack(s, c, p->seq, code, NULL, 0, text);
        return;
    }
    if ((codes = malloc(p->blocks_len * sizeof *codes)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    differ = codes_differ(p, codes);
    actions_ack(s, c, p->seq, code, differ ? codes : NULL, p->blocks_len, text);
    free(codes);
}

/* So that a barrier that comes again after a crash is known to be open. last_barrier stands for all up to it; one that
 * opened while an older one is shut is remembered by itself. */
static void
note_opened(struct session *session, uint64_t seq)
{
    const struct pending *p;

    DL_FOREACH (session->pending, p)
        if (p->barrier != NULL && p->seq < seq) {
            odd_add(session, seq, PS_OK);
            return;
        }
    session->last_barrier = MAX(session->last_barrier, seq);
}

void
pending_resolve(struct shard *s, struct pending *p, enum ps_err code, const char *text)
{
    struct session *session = p->session;
    uint64_t seq = p->seq;

    if (p->barrier != NULL)
        note_opened(session, seq);
    pending_answer(s, p, code, text);
    *window_slot(session, seq) = NULL;
    pending_free(s, p);
    resolved(s, session, seq, code);
}

void
pending_release(struct shard *s, struct pending *p, const char *text)
{
    enum ps_err odd = PS_OK;

    ps_assert(p->left > 0);
    if (--p->left > 0)
        return;
    for (uint32_t i = 0; i < p->blocks_len && odd == PS_OK; i++)
        odd = (enum ps_err)p->blocks[i].code;
    pending_resolve(s, p, odd, text);
}

void
pending_block_done(struct shard *s, struct pending *p, uint32_t index, enum ps_err code, const char *text)
{
    ps_assert(!p->blocks[index].done);
    p->blocks[index].done = true;
    p->blocks[index].code = (uint32_t)code;
    pending_release(s, p, text);
}

/* Nobody is there any more to be told: gathers keep the gradients, barriers do not count the arrival. */
static void
forget_pending(struct shard *s, struct session *session)
{
    struct pending *p, *next;

    DL_FOREACH_SAFE (session->pending, p, next) {
        if (p->barrier != NULL)
            barrier_leave(s, p);
        else
            gather_forget(s, p);
        pending_free(s, p);
    }
    free(session->window);
    session->window = NULL;
    session->window_size = 0;
    session->next_seq = session->last_seq + 1;
}

/* ---- Life ---- */

struct session *
session_find(const struct shard *s, uint32_t job_id, uint32_t task)
{
    const struct job *job = job_id <= s->jobs_len ? s->jobs_by_id[job_id] : NULL;

    return job != NULL && task < job->options->workers ? job->sessions[task] : NULL;
}

static uint64_t
lapse_deadline(const struct shard *s, const struct session *session)
{
    return session->heard_ms + (session->connection != NULL ? session->lease_ms : s->config.grace_ms);
}

static void
watch(struct shard *s, const struct session *session)
{
    if (session->state == SESSION_LIVE)
        s->lapse_at = MIN(s->lapse_at, lapse_deadline(s, session));
}

void
session_detach(struct shard *s, struct session *session)
{
    session->connection = NULL;
    session->heard_ms = s->now_ms;
    watch(s, session);
}

/* One worker fewer to wait for. */
static void
leave(struct shard *s, struct session *session, enum session_state state)
{
    struct job *job = session->job;

    ps_assert(session->state == SESSION_LIVE);
    forget_pending(s, session);
    session->state = state;
    if (state == SESSION_LAPSED)
        job->lapsed++;
    else
        job->finished++;
    clock_leave(s, session);
    turn_mark_session(s, session);
    turn_mark_job(s, job);
    barrier_review(s, job);
}

void
session_finish_work(struct shard *s, struct session *session)
{
    actions_log(s, SHARD_LOG_INFO, "worker finished job=%s task=%u clock=%" PRIu64, session->job->name, session->task,
                session->clock);
    leave(s, session, SESSION_FINISHED);
    gather_review(s, session->job);
}

static void
lapse(struct shard *s, struct session *session)
{
    struct job *job = session->job;
    struct connection *c = session->connection;
    uint64_t silent_ms = s->now_ms - session->heard_ms;
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "worker %u of job '%.64s' (%.128s) lapsed at clock %" PRIu64 " after %" PRIu64 " ms %s",
             session->task, job->name, session->agent, session->clock, silent_ms,
             c != NULL ? "of silence" : "without a connection");
    actions_log(s, SHARD_LOG_WARNING, "worker lapsed job=%s task=%u clock=%" PRIu64 " silent_ms=%" PRIu64, job->name,
                session->task, session->clock, silent_ms);
    s->stats.lease_lapses++;
    leave(s, session, SESSION_LAPSED);
    if (job->options->lapse == PSD__LAPSE__FAIL) {
        gather_end_job(s, job, PS_ERR_STEP_FAILED, text);
        pull_end_job(s, job, PS_ERR_STEP_FAILED, text);
    } else if (job_active(job) == 0) {
        gather_end_job(s, job, PS_OK, NULL); /* none but the lost ever knew of them */
    } else {
        gather_review(s, job);
    }
    actions_event(s, job, c, PSD__EVENT_KIND__EVENT_LEASE_LAPSED, session->task, text);
    if (c != NULL)
        connection_refuse(s, c, PS_ERR_LEASE_LAPSED, "%s", text);
}

void
session_time(struct shard *s)
{
    if (s->now_ms < s->lapse_at)
        return;
    s->lapse_at = UINT64_MAX;
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        struct job *job = s->jobs_by_id[id];

        for (uint32_t task = 0; job != NULL && task < job->options->workers; task++) {
            struct session *session = job->sessions[task];

            if (session == NULL || session->state != SESSION_LIVE)
                continue;
            if (s->now_ms >= lapse_deadline(s, session))
                lapse(s, session);
            else
                watch(s, session);
        }
    }
}

/* ---- Hello ---- */

static enum ps_err
taken(const struct session *session, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_TASK_TAKEN, "worker index %u of job '%.64s' is held by %.128s at %.96s", session->task,
                   session->job->name, session->agent[0] != '\0' ? session->agent : "a live process",
                   session->connection->peer);
}

static enum ps_err
fenced(const struct session *session, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_FENCED, "worker %u of job '%.64s' was taken over by %.128s", session->task,
                   session->job->name, session->agent[0] != '\0' ? session->agent : "another process");
}

static enum ps_err
lapsed(const struct session *session, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_LEASE_LAPSED, "the lease of worker %u of job '%.64s' lapsed at clock %" PRIu64,
                   session->task, session->job->name, session->clock);
}

static bool
set_agent(struct session *session, const Psd__Hello *hello)
{
    char *agent = shard_strdup(hello->agent);

    if (agent == NULL)
        return false;
    free(session->agent);
    session->agent = agent;
    session->lease_ms = hello->lease_ms != 0 ? hello->lease_ms : SESSION_LEASE_MS_DEFAULT;
    return true;
}

static void
attach(struct shard *s, struct session *session, struct connection *c)
{
    if (session->connection != NULL)
        connection_close(s, session->connection); /* and detaches it, once the pulls that wait there are forgotten */
    session->connection = c;
    session->heard_ms = s->now_ms;
    watch(s, session);
}

static enum ps_err
resume(struct shard *s, struct session *session, struct connection *c, const Psd__Hello *hello, struct ps_error *e)
{
    if (session->incarnation != hello->incarnation)
        return fenced(session, e);
    if (session->state == SESSION_LAPSED)
        return lapsed(session, e);
    if (session->state == SESSION_FINISHED)
        return ps_fail(e, PS_ERR_FENCED, "worker %u of job '%.64s' said goodbye", session->task, session->job->name);
    if (!set_agent(session, hello))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a session");
    attach(s, session, c);
    session_acked(s, session, hello->acked_through);
    turn_mark_session(s, session);
    return PS_OK;
}

/* A new incarnation begins from nothing, where the slowest worker stands. */
static void
install(struct shard *s, struct session *session, struct connection *c, uint64_t incarnation)
{
    struct job *job = session->job;

    session->incarnation = incarnation;
    session->state = SESSION_LIVE;
    session->last_seq = session->last_tick = session->last_barrier = session->acked_through = 0;
    session->next_seq = 1;
    session->odd_len = 0;
    session->odd_lost = 0;
    session->from_store = false;
    attach(s, session, c);
    session->clock = job->slowest;
    session->joined_past = clock_newest(job);
    clock_join(s, session);
    gather_review(s, job); /* the old incarnation may have held a step up */
    turn_mark_session(s, session);
}

static struct session *
session_new(struct shard *s, struct job *job, uint32_t task)
{
    struct session *session = calloc(1, sizeof *session);

    if (session == NULL)
        return NULL;
    session->job = job;
    session->task = task;
    session->next_seq = 1;
    job->sessions[task] = session;
    job->joined++;
    s->sessions_len++;
    return session;
}

/* The old incarnation loses its place: what it waited for is forgotten, and so is its clock. */
static void
replace(struct shard *s, struct session *session)
{
    struct job *job = session->job;

    forget_pending(s, session);
    switch (session->state) {
    case SESSION_LIVE:
        session->state = SESSION_LAPSED;
        clock_leave(s, session);
        break;
    case SESSION_LAPSED:
        job->lapsed--;
        break;
    case SESSION_FINISHED:
        job->finished--;
        break;
    default:
        ps_assert(false);
    }
}

static enum ps_err
newcomer(struct shard *s, struct job *job, struct connection *c, const Psd__Hello *hello, struct session **out,
         struct ps_error *e)
{
    struct session *session = job->sessions[hello->task];
    bool rejoins = session != NULL;
    char text[PS_ERROR_TEXT_MAX];

    if (rejoins && session->state == SESSION_LIVE && session->connection != NULL)
        return taken(session, e);
    if (!rejoins && s->sessions_len >= SHARD_SESSIONS_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "shard %u keeps at most %u sessions", s->config.shard, SHARD_SESSIONS_MAX);
    if (!rejoins && (session = session_new(s, job, hello->task)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a session");
    if (!set_agent(session, hello)) {
        turn_fail(s, PS_ERR_NOMEM);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a session");
    }
    if (rejoins)
        replace(s, session);
    install(s, session, c, hello->incarnation);
    actions_log(s, SHARD_LOG_INFO, "worker %s job=%s task=%u agent=\"%s\" peer=%s clock=%" PRIu64,
                rejoins ? "rejoined" : "joined", job->name, session->task, session->agent, c->peer, session->clock);
    if (rejoins) {
        snprintf(text, sizeof text, "worker %u of job '%.64s' is back as %.128s", session->task, job->name,
                 session->agent);
        actions_event(s, job, c, PSD__EVENT_KIND__EVENT_REJOINED, session->task, text);
    }
    *out = session;
    return PS_OK;
}

enum ps_err
session_hello(struct shard *s, struct job *job, struct connection *c, const Psd__Hello *hello, struct session **out,
              struct ps_error *e)
{
    struct session *session = job->sessions[hello->task];

    *out = session;
    if (session == NULL && hello->resume)
        return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no session of worker %u of job '%.64s'", s->config.shard,
                       hello->task, job->name);
    /* The same incarnation with a new hello did not get its welcome. */
    if (hello->resume || (session != NULL && session->incarnation == hello->incarnation))
        return resume(s, session, c, hello, e);
    return newcomer(s, job, c, hello, out, e);
}

/* ---- Rows ---- */

struct session_key {
    uint32_t job, task; /* big-endian */
};

enum ps_err
session_put(struct shard *s, const struct session *session)
{
    struct session_key key = {htobe32(session->job->id), htobe32(session->task)};
    Psd__SessionRow row = PSD__SESSION_ROW__INIT;
    uint64_t seqs[SHARD_ODD_MAX];
    uint32_t codes[SHARD_ODD_MAX];
    uint8_t bytes[2 * KIB];
    size_t len;

    for (uint32_t i = 0; i < session->odd_len; i++) {
        seqs[i] = session->odd[i].seq;
        codes[i] = (uint32_t)session->odd[i].code;
    }
    row.incarnation = session->incarnation;
    row.state = session->state;
    row.lease_ms = session->lease_ms;
    row.clock = session->clock;
    row.last_seq = session->last_seq;
    row.last_tick = session->last_tick;
    row.last_barrier = session->last_barrier;
    row.acked_through = session->acked_through;
    row.n_odd_seq = row.n_odd_code = session->odd_len;
    row.odd_seq = seqs;
    row.odd_code = codes;
    row.odd_lost = session->odd_lost;
    row.agent = session->agent;
    row.held = session->held;
    row.joined_past = session->joined_past;
    len = psd__session_row__get_packed_size(&row);
    ps_assert(len <= sizeof bytes);
    psd__session_row__pack(&row, bytes);
    return s->store->ops->row_put(s->store, STORE_SESSIONS, (struct span){&key, sizeof key}, (struct span){bytes, len});
}

struct load {
    struct shard *s;
    enum ps_err err;
    struct session_key at;
};

static bool
row_ok(const struct shard *s, const Psd__SessionRow *row, uint32_t job_id, uint32_t task)
{
    const struct job *job = job_id >= 1 && job_id <= s->jobs_len ? s->jobs_by_id[job_id] : NULL;

    return row != NULL && job != NULL && task < job->options->workers && job->sessions[task] == NULL &&
           row->state < SESSION_STATES && row->n_odd_seq <= SHARD_ODD_MAX && row->n_odd_seq == row->n_odd_code;
}

static void
from_row(struct shard *s, struct session *session, const Psd__SessionRow *row)
{
    session->incarnation = row->incarnation;
    session->state = (enum session_state)row->state;
    session->lease_ms = row->lease_ms;
    session->clock = row->clock;
    session->held = row->held;
    session->joined_past = row->joined_past;
    session->last_seq = row->last_seq;
    session->next_seq = row->last_seq + 1;
    session->last_tick = row->last_tick;
    session->last_barrier = row->last_barrier;
    session->acked_through = row->acked_through;
    session->odd_lost = row->odd_lost;
    session->odd_len = (uint32_t)row->n_odd_seq;
    for (uint32_t i = 0; i < session->odd_len; i++)
        session->odd[i] = (struct odd){row->odd_seq[i], (enum ps_err)row->odd_code[i]};
    session->from_store = true;
    session->heard_ms = s->now_ms;
}

static bool
load_session(void *arg, struct span key, struct span value)
{
    struct load *l = arg;
    Psd__SessionRow *row = psd__session_row__unpack(NULL, value.len, value.data);
    uint32_t job_id, task;
    struct session *session = NULL;
    bool ok;

    memcpy(&l->at, key.data, MIN(sizeof l->at, key.len));
    job_id = be32toh(l->at.job);
    task = be32toh(l->at.task);
    ok = key.len == sizeof l->at && row_ok(l->s, row, job_id, task);
    if (ok && (session = session_new(l->s, l->s->jobs_by_id[job_id], task)) != NULL) {
        from_row(l->s, session, row);
        ok = (session->agent = shard_strdup(row->agent)) != NULL;
    }
    l->err = session != NULL && ok ? PS_OK : ok || session != NULL ? PS_ERR_NOMEM : PS_ERR_IO;
    if (row != NULL)
        psd__session_row__free_unpacked(row, NULL);
    return l->err == PS_OK;
}

enum ps_err
session_load(struct shard *s, struct ps_error *e)
{
    struct load l = {.s = s};
    enum ps_err err = s->store->ops->each_row(s->store, STORE_SESSIONS, load_session, &l);

    if (l.err != PS_OK)
        return ps_fail(e, l.err, "the session of worker %u of job %u cannot be loaded", be32toh(l.at.task),
                       be32toh(l.at.job));
    if (err != PS_OK)
        return ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
    s->lapse_at = UINT64_MAX;
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        struct job *job = s->jobs_by_id[id];

        if (job == NULL)
            continue;
        clock_load(s, job);
        for (uint32_t task = 0; task < job->options->workers; task++)
            if (job->sessions[task] != NULL)
                watch(s, job->sessions[task]);
    }
    return PS_OK;
}

void
session_free(struct shard *s, struct session *session)
{
    struct pending *p, *next;

    if (session == NULL)
        return;
    DL_FOREACH_SAFE (session->pending, p, next)
        pending_free(s, p);
    free(session->window);
    free(session->agent);
    free(session);
}
