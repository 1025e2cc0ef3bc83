/* Sequences: every push, tick, barrier and skip of a worker counts exactly once, however often it is sent. The worker
 * numbers them from 1 and sends them in that order. All up to last_seq are resolved; between there and next_seq some
 * may be (a tick overtakes a push that waits for its step). A message that comes again is answered as the first time:
 * OK, or the outcome other than OK that is remembered until the worker acknowledges it.
 *
 *        1 ... last_seq | last_seq + 1 ... next_seq - 1 | next_seq
 *          resolved          resolved or pending           expected
 *
 *        sequence_classify():  SEQ_NEW ──► sequence_take(): resolved at once
 *                                 └──────► sequence_take_pending() ──► sequence_resolve()
 *                              SEQ_WAITING ──► answer there instead     SEQ_REPEATED ──► sequence_outcome()
 *
 * The fields are in struct session. Only last_seq, which pushes were resolved ahead of it (resolved_set.h), outcomes
 * other than OK, and the last tick and barrier outlive the process (session_row.h); what was pending comes again
 * (clock.h says what holds until it does). */
#ifndef SERVER_CORE_SESSIONS_SEQUENCE_H
#define SERVER_CORE_SESSIONS_SEQUENCE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/sessions/session.h"

struct shard;
struct barrier;

/* One block of a push that waits, and what became of it. */
struct pending_block {
    uint32_t var, block;
    uint32_t code;
    bool done;
};

/* A sequenced message that was taken and is not resolved. */
struct pending {
    struct session *session;
    uint64_t seq, clock, since_ms, since_ns;
    uint64_t connection, request; /* where to answer */
    bool want_value;
    bool durable;                                /* answered when it is on disk */
    struct data_cursor_span span;                /* of its data; none: it gives none */
    bool logged, unlogged;                       /* updates that it is in are in the redo log; some are not */
    struct barrier *barrier;                     /* what it waits in, or NULL: it is a push */
    struct pending *prev, *next;                 /* in its session */
    struct pending *arrived_prev, *arrived_next; /* in its barrier */
    uint32_t blocks_len;
    uint32_t left; /* blocks not done, and one for the caller that took it */
    struct pending_block blocks[];
};

enum session_seq { SEQ_NEW, SEQ_REPEATED, SEQ_WAITING, SEQ_GAP };
enum session_seq sequence_classify(const struct session *session, uint64_t seq);

/* The remembered outcome of a resolved sequence: PS_OK, another one, or PS_ERR_UNKNOWN_OUTCOME. */
enum ps_err sequence_outcome(const struct session *session, uint64_t seq);

/* Before a crash this message was already resolved, ahead of older ones; *code says how. */
bool sequence_resolved_early(const struct shard *s, const struct session *session, uint64_t seq, enum ps_err *code);

/* Take the next sequence and resolve it at once (pending.h says what follows). push: it is one, or a skip that stands
 * for one, and is counted. */
void sequence_take(struct shard *s, struct session *session, enum ps_err code, bool push);

/* The redo log says that this push was resolved, past last_seq, by a worker that knew all outcomes up to acked_through.
 * False: out of memory. */
bool sequence_replay_push(struct session *session, uint64_t seq, uint64_t acked_through, enum ps_err code) PS_MUST_USE;

/* The session's row is of an older boot of the data. */
void sequence_reboot(struct session *session);

/* The outcomes other than OK of survivors: of sequences past last_seq. Returns how many, the first in *first. */
uint32_t sequence_survivors_outcomes(const struct session *session, const struct session_outcome **first);

/* Take it and leave it pending, with room for so many blocks; it is not resolved before pending_release(). NULL when
 * out of memory: the turn has failed. */
struct pending *sequence_take_pending(struct shard *s, struct session *session, uint32_t blocks);

/* It is resolved and answered (pending_resolve()): remember that, and free it. */
void sequence_resolve(struct shard *s, struct pending *p, enum ps_err code);

/* Whether one more may wait. */
bool sequence_window_full(const struct session *session);

/* The worker sent past its window: send the error, and close. */
void sequence_break(struct shard *s, struct connection *c);

struct pending *sequence_pending(const struct session *session, uint64_t seq);
struct pending *sequence_pending_request(const struct session *session, uint64_t request);

/* A tick was resolved before older messages, then the shard was restarted: those have not all come again yet. clock.h
 * describes what that holds. */
static inline bool
sequence_awaits(const struct session *session)
{
    return session->next_seq <= session->last_tick;
}

/* The worker knows all outcomes up to here. */
void sequence_acked(struct shard *s, struct session *session, uint64_t acked_through);

/* The worker is gone: forget its pending messages, which are in no barrier and no sync step any more. */
void sequence_forget(struct shard *s, struct session *session);

/* A new incarnation numbers from 1; the old one's pending messages were forgotten. */
void sequence_begin(struct session *session);

/* Free the pending messages and the ring, when the shard itself goes. */
void sequence_finish(struct shard *s, struct session *session);

#endif
