/* A session's sequences. The messages that wait are kept twice: in order of arrival, and in a ring by sequence, so that
 * last_seq can follow what is resolved. Nearly all are resolved as they come, and then there is no ring. */
#include "server/core/sessions/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"

#define WINDOW_MIN 16

/* ---- Which one it is ---- */

static struct pending **
window_slot(const struct session *session, uint64_t seq)
{
    return &session->window[seq & (session->window_size - 1)];
}

struct pending *
sequence_pending(const struct session *session, uint64_t seq)
{
    if (session->pending_len == 0 || seq <= session->last_seq || seq >= session->next_seq)
        return NULL;
    return *window_slot(session, seq);
}

struct pending *
sequence_pending_request(const struct session *session, uint64_t request)
{
    struct pending *p;

    DL_FOREACH (session->pending, p)
        if (p->request == request && session->connection != NULL && p->connection == session->connection->id)
            return p;
    return NULL;
}

enum session_seq
sequence_classify(const struct session *session, uint64_t seq)
{
    if (seq == session->next_seq)
        return SEQ_NEW;
    if (seq == 0 || seq > session->next_seq)
        return SEQ_GAP;
    return sequence_pending(session, seq) != NULL ? SEQ_WAITING : SEQ_REPEATED;
}

bool
sequence_window_full(const struct session *session)
{
    return session->next_seq - session->last_seq > SHARD_UNRESOLVED_MAX;
}

void
sequence_break(struct shard *s, struct connection *c)
{
    struct ps_error e;

    limit_refuse(s, LIMIT_UNRESOLVED, &e, "worker %u sent more than its answers allow", c->session->task);
    connection_break(s, c, e.code, "%s", e.text);
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
outcome_add(struct session *session, uint64_t seq, enum ps_err code)
{
    uint32_t at = session->outcomes_len;

    if (session->outcomes_len == SHARD_OUTCOMES_MAX) {
        session->outcomes_lost_to = session->outcomes[0].seq;
        memmove(session->outcomes, session->outcomes + 1, (SHARD_OUTCOMES_MAX - 1) * sizeof(struct session_outcome));
        at = --session->outcomes_len;
    }
    /* Out of order now and then: a tick or a late push overtakes one that waits. */
    for (; at > 0 && session->outcomes[at - 1].seq > seq; at--)
        session->outcomes[at] = session->outcomes[at - 1];
    session->outcomes[at] = (struct session_outcome){seq, code};
    session->outcomes_len++;
}

static const struct session_outcome *
outcome_find(const struct session *session, uint64_t seq)
{
    for (uint32_t i = 0; i < session->outcomes_len; i++)
        if (session->outcomes[i].seq == seq)
            return &session->outcomes[i];
    return NULL;
}

enum ps_err
sequence_outcome(const struct session *session, uint64_t seq)
{
    const struct session_outcome *odd = outcome_find(session, seq);

    if (odd != NULL)
        return odd->code;
    return seq <= session->outcomes_lost_to ? PS_ERR_UNKNOWN_OUTCOME : PS_OK;
}

/* Outcomes known past last_seq have the numbers of the session's boot. */
bool
sequence_resolved_early(const struct shard *s, const struct session *session, uint64_t seq, enum ps_err *code)
{
    if (!session->from_store || session->boot != s->boot ||
        (!resolved_set_has(&session->resolved_ahead, seq) && outcome_find(session, seq) == NULL))
        return false;
    *code = sequence_outcome(session, seq);
    return true;
}

void
sequence_acked(struct shard *s, struct session *session, uint64_t acked_through)
{
    uint32_t known = 0;

    acked_through = MIN(acked_through, session->last_seq);
    if (acked_through <= session->acked_through)
        return;
    session->acked_through = acked_through;
    while (known < session->outcomes_len && session->outcomes[known].seq <= acked_through)
        known++;
    if (known == 0)
        return;
    session->outcomes_len -= known;
    memmove(session->outcomes, session->outcomes + known, session->outcomes_len * sizeof(struct session_outcome));
    turn_mark_session(s, session);
}

/* Raise last_seq over all resolved sequences next to it. */
static void
sequence_advance(struct session *session)
{
    const struct resolved_set *x = &session->resolved_ahead;

    while (session->last_seq + 1 < session->next_seq && *window_slot(session, session->last_seq + 1) == NULL)
        session->last_seq++;
    if (x->len > 0 && session->last_seq >= x->from + 8ull * x->len)
        resolved_set_forget(&session->resolved_ahead);
}

/* A push is resolved. */
static void
sequence_count(struct shard *s, struct session *session, uint64_t seq)
{
    session->pushes++;
    if (seq > session->last_seq + 1 && !resolved_set_add(&session->resolved_ahead, seq, session->last_seq + 1))
        turn_fail(s, PS_ERR_NOMEM);
}

/* ---- Boots ---- */

/* Numbers past last_seq will be those of other messages. keep_pushes: as long as the worker has not given the
 * survivors' numbers to any. */
static void
forget_outcomes_past(struct session *session, bool keep_pushes)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < session->outcomes_len; i++) {
        uint64_t seq = session->outcomes[i].seq;

        if (seq <= session->last_seq || (keep_pushes && resolved_set_has(&session->resolved_ahead, seq)))
            session->outcomes[n++] = session->outcomes[i];
    }
    session->outcomes_len = n;
}

void
sequence_reboot(struct session *session)
{
    forget_outcomes_past(session, true);
    session->last_tick = MIN(session->last_tick, session->last_seq);
    session->last_barrier = MIN(session->last_barrier, session->last_seq);
}

/* The worker has numbered its messages by this boot's welcome: the survivors' numbers mean nothing any more. The redo
 * log records this, since pushes that follow there go by the new numbers. */
static void
enter_boot(struct shard *s, struct session *session)
{
    session->boot = s->boot;
    resolved_set_forget(&session->resolved_ahead);
    forget_outcomes_past(session, false);
    session->outcomes_lost_to = MIN(session->outcomes_lost_to, session->last_seq);
    turn_mark_session(s, session);
    session_row_to_redo(s, session);
}

/* Outcomes that the worker had received need not be remembered. */
static void
forget_known_outcomes(struct session *session, uint64_t known)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < session->outcomes_len; i++)
        if (session->outcomes[i].seq <= session->last_seq || session->outcomes[i].seq > known)
            session->outcomes[n++] = session->outcomes[i];
    session->outcomes_len = n;
}

bool
sequence_replay_push(struct session *session, uint64_t seq, uint64_t acked_through, enum ps_err code)
{
    session->pushes++;
    forget_known_outcomes(session, acked_through);
    if (code != PS_OK)
        outcome_add(session, seq, code);
    return resolved_set_add(&session->resolved_ahead, seq, MAX(session->last_seq, acked_through) + 1);
}

uint32_t
sequence_survivors_outcomes(const struct session *session, const struct session_outcome **first)
{
    uint32_t at = 0;

    while (at < session->outcomes_len && session->outcomes[at].seq <= session->last_seq)
        at++;
    *first = session->outcomes + at;
    return session->outcomes_len - at;
}

/* ---- Taking ---- */

static void
sequence_resolved(struct shard *s, struct session *session, uint64_t seq, enum ps_err code)
{
    if (code != PS_OK && outcome_find(session, seq) == NULL)
        outcome_add(session, seq, code);
    sequence_advance(session);
    clock_moved(s, session);
    if (!MUTATION(SEQUENCE_NOT_KEPT))
        turn_mark_session(s, session);
}

void
sequence_take(struct shard *s, struct session *session, enum ps_err code, bool push)
{
    uint64_t seq = session->next_seq;

    session->job->used = true;
    if (session->boot != s->boot)
        enter_boot(s, session);
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
    if (push)
        sequence_count(s, session, seq);
    sequence_resolved(s, session, seq, code);
}

static size_t
pending_size(uint32_t blocks)
{
    return sizeof(struct pending) + blocks * sizeof(struct pending_block);
}

struct pending *
sequence_take_pending(struct shard *s, struct session *session, uint32_t blocks)
{
    struct pending *p = pool_take(&s->pool, pending_size(blocks));

    if (session->boot != s->boot)
        enter_boot(s, session);
    if (p == NULL || !window_grow(session)) {
        pool_give(&s->pool, p, pending_size(blocks));
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    *p = (struct pending){.session = session,
                          .seq = session->next_seq++,
                          .clock = session->clock,
                          .since_ms = s->now_ms,
                          .since_ns = s->now_ns,
                          .connection = session->connection->id,
                          .blocks_len = blocks,
                          .left = blocks + 1};
    *window_slot(session, p->seq) = p;
    DL_APPEND(session->pending, p);
    session->pending_len++;
    return p;
}

static void
count_wait(struct shard *s, const struct pending *p)
{
    enum wait reason = p->blocks_len > 0 ? WAIT_GRADIENTS : WAIT_BARRIER;
    struct traffic_wait w = traffic_waited(s, p->session, reason, p->since_ms);

    for (uint32_t i = 0; i < p->blocks_len && w.ms > 0; i++)
        traffic_waited_for(s, &w, p->blocks[i].var);
}

static void
pending_free(struct shard *s, struct pending *p)
{
    count_wait(s, p);
    DL_DELETE(p->session->pending, p);
    p->session->pending_len--;
    pool_give(&s->pool, p, pending_size(p->blocks_len));
}

/* So that a barrier that comes again after a crash is known to be open. last_barrier stands for all up to it; one that
 * opened while an older one is shut is remembered by itself. */
static void
note_opened(struct session *session, uint64_t seq)
{
    const struct pending *p;

    DL_FOREACH (session->pending, p)
        if (p->barrier != NULL && p->seq < seq) {
            outcome_add(session, seq, PS_OK);
            return;
        }
    session->last_barrier = MAX(session->last_barrier, seq);
}

void
sequence_resolve(struct shard *s, struct pending *p, enum ps_err code)
{
    struct session *session = p->session;
    uint64_t seq = p->seq;

    if (p->barrier != NULL)
        note_opened(session, seq);
    *window_slot(session, seq) = NULL;
    if (p->blocks_len > 0)
        sequence_count(s, session, seq);
    pending_free(s, p);
    sequence_resolved(s, session, seq, code);
}

void
sequence_forget(struct shard *s, struct session *session)
{
    struct pending *p, *next;

    DL_FOREACH_SAFE (session->pending, p, next)
        pending_free(s, p);
    free(session->window);
    session->window = NULL;
    session->window_size = 0;
    session->next_seq = session->last_seq + 1;
    resolved_set_forget(&session->resolved_ahead);
    forget_outcomes_past(session, false);
}

void
sequence_begin(struct session *session)
{
    ps_assert(session->pending == NULL && session->window == NULL);
    session->last_seq = session->last_tick = session->last_barrier = session->acked_through = 0;
    session->next_seq = 1;
    session->outcomes_len = 0;
    session->outcomes_lost_to = 0;
    resolved_set_forget(&session->resolved_ahead);
    session->from_store = false;
}

void
sequence_finish(struct shard *s, struct session *session)
{
    struct pending *p, *next;

    DL_FOREACH_SAFE (session->pending, p, next)
        pending_free(s, p);
    free(session->window);
    resolved_set_forget(&session->resolved_ahead);
}
