/* Sessions: what the shard remembers of one worker: its incarnation, lease and clock, and which of its sequenced
 * messages are resolved. The machine is drawn in shard.h.
 *
 * Here: the session itself. hello.h admits workers, worker_exit.h ends them, sequence.h counts their messages exactly
 * once, clock.h says where they stand, session_row.h keeps it all in the store. */
#ifndef SERVER_CORE_SESSIONS_SESSION_H
#define SERVER_CORE_SESSIONS_SESSION_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/sessions/data_begin.h"
#include "server/core/sessions/data_steps.h"
#include "server/core/sessions/job.h"
#include "server/core/turn/shard_types.h"
#include "server/core/turn/traffic.h"
#include "server/core/workers/resolved_set.h"
#include "server/core/workers/worker_metrics.h"

struct connection;
struct pending;
struct quota_holder;

enum session_state { SESSION_LIVE, SESSION_LAPSED, SESSION_FINISHED, SESSION_STATES };

/* An outcome other than OK, or a barrier that opened ahead of an older one. */
struct session_outcome {
    uint64_t seq;
    enum ps_err code;
};

struct session {
    struct job *job;
    uint32_t task;
    enum session_state state;
    uint64_t incarnation;
    char *agent;
    struct quota_holder *holder; /* the token that its connection proved when it was installed; NULL: none */
    uint32_t lease_ms;
    struct connection *connection; /* or NULL */
    uint64_t heard_ms;             /* of the last frame; without a connection: when it was lost */

    /* Where it stands: clock.h. */
    uint64_t clock, held_clock, joined_past;
    uint32_t rank;        /* clock_heap.h's */
    uint64_t round;       /* that it is in */
    uint64_t known_round; /* the same, or the one before: its worker does not know yet that it was taken along */
    bool late;            /* it joined when another had finished that round */
    bool evicted;         /* it lapsed by an eviction: its old incarnation is FENCED */
    bool defined;         /* it has said what it trains, as its job's definition has it */
    bool dropped;         /* it lapsed because variables of its job were dropped: its old incarnation is DROPPED */

    /* Its messages: sequence.h. */
    uint64_t last_seq, next_seq, last_tick, last_barrier, acked_through;
    struct session_outcome outcomes[SHARD_OUTCOMES_MAX]; /* in rising order of seq */
    uint32_t outcomes_len;
    uint64_t outcomes_lost_to;          /* outcomes up to here were pushed out of outcomes[] */
    struct resolved_set resolved_ahead; /* pushes past last_seq that are resolved */
    uint64_t boot;                      /* of the data when its sequences were given their numbers */
    bool from_store;         /* began before this process: messages may come again that the store knows nothing of */
    struct pending *pending; /* all, in order of arrival */
    uint32_t pending_len;
    struct pending **window; /* ring by seq, for last_seq < seq < next_seq; NULL: resolved */
    uint32_t window_size;    /* 0 or a power of two */

    /* Durable pushes: redo.h. */
    uint64_t redo;   /* the redo log's piece after its newest push that is in there */
    uint64_t pushes; /* of this incarnation that are resolved; not those that were rolled back */

    uint64_t assigned; /* shard 0: this incarnation's newest attempt at an assign that is done: training/assign.h */

    struct traffic stats;      /* of its task, over all incarnations */
    uint64_t waited_ms[WAITS]; /* the same, in waits that are over */
    uint64_t lapses;           /* the same */

    struct data_steps steps;       /* of its task: data_steps.h */
    struct data_begin begin;       /* the same: data_begin.h */
    struct worker_metrics metrics; /* the same: worker_metrics.h */

    bool marked;
    struct session *marked_next;
};

/* The token of this name, "": none, owns it from now on. False: no memory, nothing has changed. */
bool session_set_token(struct shard *s, struct session *session, const char *name);

/* NULL when there is none. */
struct session *session_find(const struct shard *s, uint32_t job_id, uint32_t task);

/* The first of a job's sessions whose task is this one or a later one. NULL: there is none. */
static inline struct session *
session_from(const struct job *job, uint32_t task)
{
    task = roster_next(&job->there, task);
    return task != ROSTER_END ? job->sessions[task] : NULL;
}

/* All of a job, in order of tasks. */
#define SESSION_EACH(job, x) for ((x) = session_from(job, 0); (x) != NULL; (x) = session_from(job, (x)->task + 1))

/* It is live, or went in the job's newest round; else its worker has not joined that one yet. */
static inline bool
session_counts(const struct session *session)
{
    return session->state == SESSION_LIVE || session->round == session->job->round;
}

/* The first of its task: neither live nor attached yet. NULL when out of memory. */
struct session *session_new(struct shard *s, struct job *job, uint32_t task);
void session_free(struct shard *s, struct session *session);

/* It speaks on this connection from now on; an older one is closed. */
void session_attach(struct shard *s, struct session *session, struct connection *c);

/* Its connection is gone; the grace begins. */
void session_detach(struct shard *s, struct session *session);

/* When it lapses, if nothing is heard of it; and see to it that worker_exit_time() comes no later than that. */
uint64_t session_deadline(const struct shard *s, const struct session *session);
void session_watch(struct shard *s, const struct session *session);

#endif
