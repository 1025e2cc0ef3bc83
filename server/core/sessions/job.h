/* Jobs: which workers belong together, and by which rules. A job is made by its first hello and stays until it is
 * dropped; one that was never used makes room where there is none (drop_unused.h). */
#ifndef SERVER_CORE_SESSIONS_JOB_H
#define SERVER_CORE_SESSIONS_JOB_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/core/model/age.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/sessions/clock_heap.h"
#include "server/core/store/store.h"
#include "server/core/turn/row.h"
#include "server/core/workers/assign_slots.h"
#include "server/core/workers/barrier_opened.h"
#include "server/core/workers/definition_fields.h"
#include "server/core/workers/metric_names.h"
#include "server/core/workers/roster.h"

struct quota_holder;
struct shard;
struct session;
struct variable;
struct pull;
struct sync_step;
struct barrier;
struct assign_waiter;

struct job {
    uint32_t id;       /* counts from 1 */
    Psd__Job *options; /* as the first hello had them */
    const char *name;
    struct quota_holder *holder; /* the token that opened it; NULL: none */
    struct age_policy age;       /* this and the next as SET left them */
    uint32_t bound;
    uint32_t workers, quorum;  /* these as well, or a later round's hello */
    uint32_t room;             /* the most workers that it has had: later ones need no less */
    struct session **sessions; /* [room], NULL: never joined */
    struct roster there;       /* tasks that have joined: SESSION_EACH() */
    uint64_t round;            /* the newest that a worker has begun: clock.h */
    char *restored;            /* name of the checkpoint that its data began with, */
    uint64_t restored_boot;    /* and the boot of the data since then; NULL, 0: with none */
    uint64_t restored_by;      /* what psd's --restore said when it began; 0: it was not given */
    uint32_t live;             /* in any round */
    uint32_t lapsed, finished; /* of this round */
    uint64_t slowest;          /* clock of the slowest live worker; never goes back */
    struct clock_heap holding; /* the live workers, by where they are held */
    struct variable *variables;
    uint64_t firsts;     /* of these, those whose first block is here: over all shards each counts once */
    uint64_t blocks;     /* of them, that are there, */
    uint64_t data_bytes; /* and the bytes of their values */
    struct pull *pulls;  /* parked: pulls_len of them */
    uint64_t pulls_len;
    bool sweep; /* some of them may be ready */
    struct sync_step *sync_steps;
    struct barrier *barriers;
    struct barrier_opened barrier_opened; /* of those */
    struct metric_names metric_names;
    struct definition_fields definition; /* of shard 0 */
    bool used;                           /* a worker has pushed, ticked or been at a barrier */
    bool dropped;         /* it has no name in s->jobs any more, no sessions and no variables (drop_list.h) */
    uint32_t drop_chunks; /* dropped: rows of cursors that each worker of `there` may have, */
    uint32_t drop_at;     /* and that were erased of the first of them */
    struct job *dropped_prev, *dropped_next;
    struct assigns assigns;
    struct assign_waiter *assign_waiters; /* that have not begun */
    bool marked;
    struct job *marked_next;
    UT_hash_handle hh; /* by name */
};

static inline bool
job_is_sync(const struct job *job)
{
    return job->options->mode == PSD__MODE__SYNC;
}

/* Every step needs all workers. */
static inline bool
job_is_full_sync(const struct job *job)
{
    return job_is_sync(job) && job->quorum == job->workers;
}

/* No worker gets ahead before all workers of the round are there. */
static inline bool
job_begins_together(const struct job *job)
{
    return job_is_full_sync(job) || job->options->mode == PSD__MODE__SSP;
}

static inline bool
job_all_joined(const struct job *job)
{
    return job->live + job->lapsed + job->finished == job->workers;
}

/* Its options as a SET left them; borrowed from the job and *age. */
Psd__Job job_now(const struct job *job, Psd__AgePolicy *age);

/* "ssp(bound 4), 3 workers, lapse shrink, age none", as a SET left it. */
void job_options_text(const struct job *job, char *out, size_t size);

/* The quorum that goes with so many workers: all of them where it was opened so, else the same. */
uint32_t job_quorum_of(const struct job *job, uint32_t workers);

/* So many may have sessions, if not more already. False: no memory. */
bool job_make_room(struct job *job, uint32_t workers) PS_MUST_USE;

/* It has so many from now on. False: no memory, and it is as before. */
bool job_set_workers(struct job *job, uint32_t workers) PS_MUST_USE;

/* The session of a worker that is there, or was in this round. NULL: it has not joined yet. */
const struct session *job_joined(const struct job *job, uint32_t task);

/* A worker begins this round. If it is the first one to, all that were gone have not joined yet; a live one that is
 * late takes part. */
void job_begin_round(struct shard *s, struct job *job, uint64_t round);

/* The worker is in this round from now on, or was taken along into it and knows it now: its data begins anew. */
void job_enter_round(struct shard *s, struct session *session, uint64_t round);

/* Sums of the metrics (worker_metrics.h) of the sessions of its newest round, in the order of tasks, so that the same
 * values have the same sum; a worker that has sent fewer adds nothing to the others. sums: [WIRE_METRICS_MAX]. Returns
 * how many there are. */
uint32_t job_metrics_sum(const struct job *job, double *sums);

/* Workers that a step or a barrier may still count on: joined or not, but neither lapsed nor finished. */
static inline uint32_t
job_active(const struct job *job)
{
    return job->workers - job->lapsed - job->finished;
}

/* It is dropped, with its variables: from now on it is one of s->drops. Its sessions are gone. */
void job_drop(struct shard *s, struct job *job);

/* It is erased: out of the table of ids, and freed. */
void job_remove(struct shard *s, struct job *job);

/* The id of the next job that is made; 0: none is free. */
uint32_t job_next_id(const struct shard *s);

/* The job of this name with these options, made when it is new, for the token of this name ("": none); it may have
 * another number of workers (resize.h). PS_ERR_MISMATCH, PS_ERR_LIMIT, PS_ERR_INVALID, PS_ERR_NOMEM. */
enum ps_err job_open(struct shard *s, const Psd__Job *options, const char *token, struct job **out,
                     struct ps_error *e) PS_MUST_USE;

/* Its row: written at the end of the turn, and into the redo log, when there is one, where it changes by other means
 * than pushes; loaded by catalog.c (each_row's callback; arg is a struct row_load). */
enum ps_err job_put(struct shard *s, const struct job *job, row_sink sink) PS_MUST_USE;
void job_to_redo(struct shard *s, const struct job *job);
bool job_load(void *arg, struct span key, struct span value);

void job_free(struct job *job); /* accepts NULL; variables, sessions and waiting requests are the caller's */

#endif
