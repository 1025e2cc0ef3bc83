/* ps_admin.h: questions to the shards, and changes of a running cluster: what psctl does, or a worker that knows better
 * by now. Part of psclient.h, which has the rules.
 *
 * Parameters:
 *   client      from ps_client_open()
 *   shard       from 0 on, below ps_client_shards()
 *   timeout_ms  milliseconds that the call waits at most; -1: the client's default; 0: do not wait
 *   error       filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for a client and everything that came from it; with options.progress_thread any. */
#ifndef PS_ADMIN_H
#define PS_ADMIN_H

#include <stddef.h>
#include <stdint.h>

#include "ps_client.h"
#include "ps_err.h"
#include "ps_optimizer.h"
#include "ps_variable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Questions --------------------------------------------------------------------------------------------------- */

/* What a shard is asked.
 * Since: 0.1 */
enum ps_query {
    PS_QUERY_STATUS = 0,
    PS_QUERY_VARIABLES = 1,
    PS_QUERY_STATS = 2,
    PS_QUERY_WORKERS = 3,
    PS_QUERY_BLOCKED = 4,
    PS_QUERY_JOBS = 5,
    PS_QUERY_TIMELINE = 7 /* what the shard did lately: "psctl trace" makes pictures of it */
};

/* Ask one shard.
 *
 * Parameters:
 *   query  what
 *   job    of which job; NULL: of all
 *   json   a JSON object, freed with ps_free(); psd.proto's Report names its members. NULL after an error
 * Errors:
 *   PS_ERR_TIMEOUT  the shard did not answer in time
 *   PS_ERR_INVALID  no such shard or query, a name that is not valid, or NULL
 *   PS_ERR_DENIED   the token may not ask that
 *   PS_ERR_NOMEM    no memory
 *   (session)       what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_query(ps_client *client, uint32_t shard, enum ps_query query, const char *job,
                                   int timeout_ms, char **json, struct ps_error *error) PS_MUST_USE;

/* Ask one shard for a long report, page by page.
 *
 * A shard with a million variables has a report of hundreds of megabytes, which it gives in pages so that nothing else
 * waits for it. ps_client_query() puts them together; this hands each over as it comes.
 *
 * - A list is of no one moment: what is there from the first page to the last is in it once; what is declared or goes
 *   meanwhile may be in it or not.
 * - take() must not call anything of this client.
 *
 * Parameters:
 *   query       what
 *   job         of which job; NULL: of all
 *   timeout_ms  for each page; -1: the client's default
 *   take        called with each page, a JSON object as ps_client_query() has it, which is gone when it returns; "more"
 *               is false in the last. What it returns other than PS_OK ends the call, as its error, whose sentence it
 *               writes
 *   arg         passed to take()
 * Errors:
 *   PS_ERR_TIMEOUT   the shard did not answer in time
 *   PS_ERR_INVALID   no such shard or query, a name that is not valid, or NULL
 *   PS_ERR_DENIED    the token may not ask that
 *   PS_ERR_PROTOCOL  the pages do not come to an end
 *   PS_ERR_NOMEM     no memory
 *   (session)        what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_query_pages(ps_client *client, uint32_t shard, enum ps_query query, const char *job,
                                         int timeout_ms,
                                         enum ps_err (*take)(void *arg, const char *json, struct ps_error *error),
                                         void *arg, struct ps_error *error) PS_MUST_USE;

/* Make one round trip to one shard, and measure it.
 *
 * Parameters:
 *   microseconds  what it took
 * Errors:
 *   PS_ERR_TIMEOUT  the shard did not answer in time
 *   PS_ERR_INVALID  no such shard, or NULL
 *   PS_ERR_NOMEM    no memory
 *   (session)       what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_ping(ps_client *client, uint32_t shard, int timeout_ms, double *microseconds,
                                  struct ps_error *error) PS_MUST_USE;

/* ---- Changes ----------------------------------------------------------------------------------------------------- */

/* A parameter of an optimizer and its new value.
 * Since: 0.1 */
struct ps_parameter {
    const char *name; /* a member of struct ps_optimizer: "learning_rate" */
    double value;
};

/* An age policy: how pushes count by their age.
 * Since: 0.1 */
struct ps_age_policy {
    enum ps_age kind;
    double parameter; /* exponential: base in (0, 1); cutoff: largest age that counts */
};

/* What is to change. Values are absolute, so that the same setting twice is the same as once.
 * Since: 0.1 */
struct ps_setting {
    const char *job;                      /* NULL: the client's own */
    const char *variables;                /* names, * for any characters and ? for one; NULL: no variable */
    size_t parameters;                    /* of the optimizers of these variables */
    const struct ps_parameter *parameter; /* [parameters] */
    const struct ps_schedule *schedule;   /* of their optimizers; NULL: as it is */
    const struct ps_clip *clip;           /* the same */
    const struct ps_age_policy *age;      /* of the job; NULL: as it is */
    const uint32_t *bound;                /* of the job, which is ssp; NULL: as it is */
    int from_start;   /* 1: a schedule whose begin is 0 counts from version or clock 0, not from now */
    int force;        /* 1: also when weights would stand still or be destroyed; see below */
    uint32_t workers; /* of the job, from its next round on, while none of them is live; 0: as it is */
};

/* Change a running job on every shard; workers and observers may.
 *
 * Each shard checks the whole setting, then does all of it, in one transaction that survives kill -9: from its next
 * update on. A larger bound lets waiting pulls go at once. A schedule whose begin is 0 begins now: at the version, or
 * the clock, that each variable has. Workers may open and declare later what was opened and declared first, or what has
 * been made of it since; it changes nothing.
 *
 * Another number of workers begins a new round, for which only workers that are opened with this number are taken; it
 * needs that none is live. (The first worker of a new round may bring another number without a setting:
 * ps_client_open().)
 *
 * Without force a setting is refused by which a schedule makes a learning rate 0 at once, because it is over by now (a
 * learning rate of 0 itself is taken: it is how variables are frozen), or in which rate times weight_decay is 1 or
 * more.
 *
 * Not atomic over the shards: one that refuses has changed nothing, the others that hold blocks of the variables, or
 * the job, have changed nevertheless, and the error says which ("changed on shard 0"); calling again is safe. A lost
 * connection is no error before the time-out.
 *
 * Parameters:
 *   setting    what is to change; copied
 *   variables  how many the pattern named; may be NULL
 * Errors:
 *   PS_ERR_INVALID    a parameter that an optimizer of the variables does not have, a value out of its range, a change
 *                     that would need other slots or slots that began otherwise, a bound for a job that is not ssp; a
 *                     number of workers while one of them is live, or below the quorum; what only force sets;
 *                     PS_CLIP_GIVEN_NORM for a variable that was not declared with it, because its workers give no
 *                     norm; NULL
 *   PS_ERR_NOT_FOUND  no such job, or no variable of the job, on any shard, has a name that fits
 *   PS_ERR_LIMIT      the pattern names too many variables at once
 *   PS_ERR_FULL       a shard has no memory for so many changes
 *   PS_ERR_DENIED     the token may not change anything
 *   PS_ERR_TIMEOUT    a shard has not answered: it may have changed, or not; call again
 *   PS_ERR_NOMEM      no memory
 *   (session)         what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_set(ps_client *client, const struct ps_setting *setting, int timeout_ms,
                                 uint64_t *variables, struct ps_error *error) PS_MUST_USE;

/* Stop a shard as SIGTERM does: it answers what is under way, takes no new work, and exits with 0.
 *
 * Returns when the shard has closed the connection. Its clients go on trying to reach the shard; started again on its
 * live directory it goes on where it was. Workers and observers may.
 *
 * Errors:
 *   PS_ERR_TIMEOUT  the shard has not closed the connection in time; it may be stopping, or not: call again
 *   PS_ERR_INVALID  no such shard, or client is NULL
 *   PS_ERR_DENIED   the token may not do this
 *   PS_ERR_NOMEM    no memory
 *   (session)       what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_drain(ps_client *client, uint32_t shard, int timeout_ms,
                                   struct ps_error *error) PS_MUST_USE;

/* What an eviction found.
 * Since: 0.1 */
struct ps_evict_report {
    int found;                   /* the shard knows such a worker, */
    int live;                    /* whose session was live, and is ended now */
    uint64_t clock;              /* where it stood */
    char agent[PS_NAME_MAX + 1]; /* host and process of the worker */
};

/* End a worker's session on one shard now, as if its lease had lapsed. For observers only.
 *
 * Nobody waits for the worker any more, and its pushes up to here count. Its connection ends with FENCED and the
 * reason, and so does whatever its process sends under this incarnation later, also after a restart of the shard.
 * Another process takes the index as ever, or the same one after ps_client_rejoin(); strategies do not rejoin after
 * FENCED, as they do after LEASE_LAPSED. To be rid of a worker ask every shard. Twice is the same as once.
 *
 * Parameters:
 *   job     NULL: the client's own
 *   task    the worker's index
 *   report  what was found; may be NULL
 * Errors:
 *   PS_ERR_INVALID    no such shard, no such index, a job's name that is not valid, a client that is no observer, or
 *                     client is NULL
 *   PS_ERR_DENIED     the token may not do this
 *   PS_ERR_TIMEOUT    the shard did not answer in time
 *   PS_ERR_CANCELLED  ps_client_interrupt()
 *   PS_ERR_NOMEM      no memory
 *   (session)         what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_evict(ps_client *client, uint32_t shard, const char *job, uint32_t task, int timeout_ms,
                                   struct ps_evict_report *report, struct ps_error *error) PS_MUST_USE;

/* What is to be dropped.
 * Since: 0.1 */
struct ps_drop {
    const char *job;       /* NULL: the client's own */
    const char *variables; /* of its variables those with these names, * for any characters and ? for one; NULL: the job
                              with all that belongs to it */
    int force;             /* also while workers are live: their sessions end with PS_ERR_DROPPED */
    int check;             /* change nothing, only say what would go */
};

/* What went, or would go, of one shard.
 * Since: 0.1 */
struct ps_drop_report {
    int found;          /* the shard has such a job, or had it until now */
    uint64_t first;     /* variables whose first block is there: over all shards each counts once */
    uint64_t variables; /* that have a block there, */
    uint64_t blocks;    /* how many blocks these are, */
    uint64_t bytes;     /* and their weights and slots */
    uint64_t workers;   /* that were live, */
    uint64_t connected; /* and of them connected */
    int kept;           /* a save that runs still reads what was dropped: its memory comes back when it has ended */
};

/* Drop a job, or variables of it, on one shard: their values and what belongs to them are no more. For observers only.
 *
 * Returns when their memory is free for others. It survives kill -9, and is in saves and the redo log; a checkpoint
 * that was made before brings the job back when it is restored. A job that is declared under the name afterwards is a
 * new one, and may have other options. Clients that still have the old one get PS_ERR_DROPPED: workers at once, or when
 * their process connects again, and observers when they pull.
 *
 * Not atomic over the shards: ask all of them. Again is the same as once: a shard that has no such job says so (found).
 * More variables than a shard drops at once go in several steps, so a call that fails may have dropped some.
 *
 * Parameters:
 *   drop    what; copied
 *   report  what went; may be NULL
 * Errors:
 *   PS_ERR_BUSY       workers of the job are live, or the shard restores a checkpoint
 *   PS_ERR_INVALID    no such shard, a name that is not valid, a client that is no observer, or NULL
 *   PS_ERR_FULL       the shard has no room to write down what is dropped
 *   PS_ERR_DENIED     the token may not do this
 *   PS_ERR_TIMEOUT    the shard did not answer in time: it has dropped it, or not; call again
 *   PS_ERR_CANCELLED  ps_client_interrupt()
 *   PS_ERR_NOMEM      no memory
 *   (session)         what ended the session; PROTOCOL: the shard's psd is older than this message
 * Since: 0.1 */
PS_API enum ps_err ps_client_drop(ps_client *client, uint32_t shard, const struct ps_drop *drop, int timeout_ms,
                                  struct ps_drop_report *report, struct ps_error *error) PS_MUST_USE;

/* For a handler of signals, or another thread: end the call that the client waits in, with PS_ERR_CANCELLED.
 *
 * So ends every later one that would wait. A checkpoint that was begun is removed, a save or a restore that a shard has
 * begun goes on, and so does an operation that was started. The client may be closed as ever, after the call has
 * returned. ps_interrupt() is for all clients of the process, also for those that are being opened.
 *
 * Threads: any, and handlers of signals: it is async-signal-safe.
 * Since: 0.1 */
PS_API void ps_client_interrupt(ps_client *client);

#ifdef __cplusplus
}
#endif

#endif
