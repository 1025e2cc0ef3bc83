/* Sessions: what the shard remembers of one worker, its incarnation, clock, lease, and which of its sequenced messages
 * are resolved. The machine is drawn in shard.h.
 *
 * Sequences: the worker numbers its pushes, ticks, barriers and skips from 1. All up to last_seq are resolved; between
 * there and next_seq some may be (a tick overtakes a push that waits for its step). A message that comes again is
 * answered as the first time: OK, or the odd outcome that is remembered until the worker says that it knows it.
 *
 *        1 ... last_seq | last_seq + 1 ... next_seq - 1 | next_seq
 *          resolved          resolved or pending           expected
 */
#ifndef SERVER_SESSION_H
#define SERVER_SESSION_H

#include "common/base.h"
#include "common/ps_err.h"
#include "proto/psd.pb-c.h"
#include "proto/store.pb-c.h"
#include "shard.h"

struct barrier;
struct connection;
struct job;

enum session_state { SESSION_LIVE, SESSION_LAPSED, SESSION_FINISHED, SESSION_STATES };

#define SESSION_LEASE_MS_DEFAULT 300000

/* One block of a push that waits, and what became of it. */
struct pending_block {
    uint32_t var, block;
    uint32_t code;
    bool done;
};

/* A sequenced message that was taken and is not resolved. */
struct pending {
    struct session *session;
    uint64_t seq, clock, since_ms;
    uint64_t connection, request; /* where to answer */
    bool want_value;
    struct barrier *barrier;                     /* what it waits in, or NULL: it is a push */
    struct pending *prev, *next;                 /* in its session */
    struct pending *arrived_prev, *arrived_next; /* in its barrier */
    uint32_t blocks_len;
    uint32_t left; /* blocks not done, and one for who took it */
    struct pending_block blocks[];
};

/* An outcome other than OK, or a barrier that opened ahead of an older one. */
struct odd {
    uint64_t seq;
    enum ps_err code;
};

struct session {
    struct job *job;
    uint32_t task;
    enum session_state state;
    uint64_t incarnation;
    char *agent;
    uint32_t lease_ms;
    struct connection *connection; /* or NULL */
    uint64_t heard_ms;             /* of the last frame; without a connection: when it was lost */
    uint64_t clock;
    uint64_t held;        /* sync: clock up to which all its pushes are resolved; else the same as clock (clock.h) */
    uint64_t joined_past; /* sync: when it joined, some block had done all steps before this one */
    uint64_t last_seq, next_seq, last_tick, last_barrier, acked_through;
    struct odd odd[SHARD_ODD_MAX]; /* in rising order of seq */
    uint32_t odd_len;
    uint64_t odd_lost;       /* outcomes up to here were pushed out of odd[] */
    bool from_store;         /* began before this process: messages may come again that the store knows nothing of */
    struct pending *pending; /* all, in order of arrival */
    uint32_t pending_len;
    struct pending **window; /* ring by seq, for last_seq < seq < next_seq; NULL: resolved */
    uint32_t window_size;    /* 0 or a power of two */
    bool marked;
    struct session *marked_next;
};

enum session_seq { SEQ_NEW, SEQ_REPEATED, SEQ_WAITING, SEQ_GAP };
enum session_seq session_classify(const struct session *session, uint64_t seq);

/* The remembered outcome of a resolved sequence: PS_OK, an odd one, or PS_ERR_UNKNOWN_OUTCOME. */
enum ps_err session_outcome(const struct session *session, uint64_t seq);

/* Before a crash this message was already resolved, ahead of older ones; *code says how. */
bool session_resolved_early(const struct session *session, uint64_t seq, enum ps_err *code);

/* Take the next sequence and resolve it at once. */
void session_take(struct shard *s, struct session *session, enum ps_err code);

/* Take it and leave it pending, with room for so many blocks; it is not resolved before pending_release(). NULL when
 * out of memory: the turn has failed. */
struct pending *session_take_pending(struct shard *s, struct session *session, uint32_t blocks);
void pending_release(struct shard *s, struct pending *p, const char *text);

/* A tick was resolved before older messages, then the shard was restarted: those have not all come again yet. */
static inline bool
session_awaits(const struct session *session)
{
    return session->next_seq <= session->last_tick;
}

/* It awaited messages before this one was taken, whose effects are all done now; that may have been the last. */
void session_caught_up(struct shard *s, struct session *session, bool awaited);

/* Whether one more may wait. */
bool session_window_full(const struct session *session);

struct pending *session_pending(const struct session *session, uint64_t seq);
struct pending *session_pending_request(const struct session *session, uint64_t request);

/* It is resolved: remember, answer where it asked, and free it. */
void pending_resolve(struct shard *s, struct pending *p, enum ps_err code, const char *text);

/* One block of a push is done; the last one resolves it. */
void pending_block_done(struct shard *s, struct pending *p, uint32_t index, enum ps_err code, const char *text);

/* The worker knows all outcomes up to here. */
void session_acked(struct shard *s, struct session *session, uint64_t acked_through);

/* A hello of a worker, once cluster and job are known to be right. Attaches the connection or says why not. */
enum ps_err session_hello(struct shard *s, struct job *job, struct connection *c, const Psd__Hello *hello,
                          struct session **out, struct ps_error *e) PS_MUST_USE;

/* NULL when there is none. */
struct session *session_find(const struct shard *s, uint32_t job_id, uint32_t task);

/* Its connection is gone; the grace begins. */
void session_detach(struct shard *s, struct session *session);

/* The worker said goodbye: its clock holds nobody back. */
void session_finish_work(struct shard *s, struct session *session);

/* Lapse what is due, and find out when the next one will be. */
void session_time(struct shard *s);

enum ps_err session_load(struct shard *s, struct ps_error *e) PS_MUST_USE;
enum ps_err session_put(struct shard *s, const struct session *session) PS_MUST_USE;
void session_free(struct shard *s, struct session *session);

#endif
