/* What belongs to the number: room for sessions, the quorum, memory set aside for gradients. */
#include "server/core/shard/resize.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/core/base/units.h"
#include "common/core/wire/wire.h"
#include "server/core/shard/worker_exit.h"
#include "server/core/shard_state.h"

/* ---- Room ---- */

static uint64_t
resize_gather_bytes(const struct shard *s, const struct job *job)
{
    uint64_t bytes = 0;

    for (const struct variable *v = job->variables; job_is_sync(job) && v != NULL; v = v->hh.next)
        bytes += variable_gather_bytes(s, v);
    return bytes;
}

/* Of the same job with another quorum. */
static uint64_t
resize_gather_bytes_of(const struct shard *s, struct job *job, uint32_t quorum)
{
    uint32_t now = job->quorum;
    uint64_t bytes;

    job->quorum = quorum;
    bytes = resize_gather_bytes(s, job);
    job->quorum = now;
    return bytes;
}

static enum ps_err
resize_room(struct shard *s, struct job *job, uint32_t workers, struct ps_error *e)
{
    uint64_t has = resize_gather_bytes(s, job), needs;
    struct units more;

    needs = resize_gather_bytes_of(s, job, job_quorum_of(job, workers));
    if (s->gather_bytes - has + needs > s->config.gather_bytes_max)
        return limit_refuse(s, LIMIT_GATHER_BYTES, e, "job '%.64s' needs %s more for %u workers", job->name,
                            units_bytes(needs - has, &more), workers);
    if (needs > has && quota_exceeds(s, job->holder, QUOTA_GATHER, needs - has))
        return quota_refuse(s, job->holder, QUOTA_GATHER, e, "job '%.64s' needs %s more for %u workers", job->name,
                            units_bytes(needs - has, &more), workers);
    if (!job_make_room(job, workers))
        return ps_fail(e, PS_ERR_NOMEM, "shard %u has no memory for %u workers of job '%.64s'", s->config.shard,
                       workers, job->name);
    return PS_OK;
}

/* ---- The change ---- */

/* There is room for them. */
static void
resize_take(struct shard *s, struct job *job, uint32_t workers, uint64_t round)
{
    uint64_t has = resize_gather_bytes(s, job);
    uint32_t before = job->workers;
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "job '%.64s' has %u workers from round %" PRIu64 " on, no longer %u", job->name,
             workers, round, before);
    worker_exit_beyond(s, job, workers, text);
    sync_step_end_waiting(s, job, PS_ERR_STEP_FAILED, text);
    if (!job_set_workers(job, workers))
        ps_assert(!"resize_room() passed");
    assign_resized(s, job);
    variable_take_gather_bytes(s, job, has, resize_gather_bytes(s, job));
    actions_log(s, SHARD_LOG_INFO, "workers changed job=%s workers=%u before=%u", job->name, workers, before);
    job_begin_round(s, job, round);
}

/* ---- By a worker ---- */

static const struct session *
resize_live(const struct job *job)
{
    const struct session *x;

    SESSION_EACH (job, x)
        if (x->state == SESSION_LIVE)
            return x;
    return NULL;
}

/* What keeps the number: "worker 3 (host:17) is live". */
static void
resize_why(const struct shard *s, const struct job *job, char *out, size_t size)
{
    const struct session *x = resize_live(job);
    const char *agent = x != NULL && x->agent[0] != '\0' ? x->agent : "a process";

    if (x == NULL)
        snprintf(out, size, "a new round waits for so many");
    else if (x->connection != NULL)
        snprintf(out, size, "worker %u (%.96s) is live", x->task, agent);
    else
        snprintf(out, size, "worker %u (%.96s) was cut off, and may come again for %" PRIu64 " ms", x->task, agent,
                 session_deadline(s, x) - MIN(session_deadline(s, x), s->now_ms));
}

/* "was opened with mode async, 2 workers, not async, 3 workers", or what it has become since. */
static void
resize_difference(const struct job *job, const Psd__Job *options, char *out, size_t size)
{
    Psd__AgePolicy age;
    Psd__Job now = job_now(job, &age);
    char text[192];

    if (job->options->workers != job->workers) {
        snprintf(out, size, "has %u worker%s, no longer the %u that it was opened with, and this one says %u",
                 job->workers, job->workers == 1 ? "" : "s", job->options->workers, options->workers);
        return;
    }
    wire_job_misfits(job->options, &now, options, text, sizeof text);
    snprintf(out, size, "was opened with %s", text);
}

static enum ps_err
resize_refuse(const struct shard *s, const struct job *job, const Psd__Job *options, struct ps_error *e)
{
    char why[200], difference[224];

    resize_why(s, job, why, sizeof why);
    resize_difference(job, options, difference, sizeof difference);
    return ps_fail(e, PS_ERR_MISMATCH, "job '%.64s' %s: %s%s psctl set --job %.64s workers=%u sets it", job->name,
                   difference, why,
                   job->live > 0 ? ". While none is live the first that comes may bring another number, or" : ";",
                   job->name, options->workers);
}

/* Nobody is in the round any more; or nobody was ever in one. A round that a SET has begun has its number. */
static bool
resize_between_rounds(const struct job *job)
{
    return job->live == 0 && (job->finished + job->lapsed > 0 || roster_next(&job->there, 0) == ROSTER_END);
}

/* The worker has been in a round that this shard has lost, or not begun. */
static bool
resize_is_behind(const struct job *job, const Psd__Hello *hello)
{
    return hello->round > job->round;
}

enum ps_err
resize_by_hello(struct shard *s, struct job *job, const Psd__Hello *hello, struct ps_error *e)
{
    uint32_t workers = hello->job->workers;
    bool behind = resize_is_behind(job, hello);
    enum ps_err err;

    if (workers == job->workers)
        return PS_OK;
    if (!behind && (hello->resume || !resize_between_rounds(job)))
        return resize_refuse(s, job, hello->job, e);
    if ((err = resize_room(s, job, workers, e)) != PS_OK)
        return err;
    if (!behind) /* as who begins a round does; who is in one may resume, and has said its names already */
        metric_names_clear(&job->metric_names);
    resize_take(s, job, workers, behind ? hello->round : job->round + 1);
    return PS_OK;
}

/* ---- By a SET ---- */

enum ps_err
resize_check(struct shard *s, struct job *job, uint32_t workers, struct ps_error *e)
{
    char why[256];

    if (workers == 0 || workers == job->workers)
        return PS_OK;
    if (job_quorum_of(job, workers) > workers)
        return ps_fail(e, PS_ERR_INVALID, "job '%.64s' needs gradients of %u workers for a step, which %u cannot give",
                       job->name, job->quorum, workers);
    if (job->live > 0) {
        resize_why(s, job, why, sizeof why);
        return ps_fail(e, PS_ERR_INVALID,
                       "job '%.64s' keeps its %u workers while one of them trains, and %s: let them finish, or end "
                       "them, with psctl evict where they hang",
                       job->name, job->workers, why);
    }
    return resize_room(s, job, workers, e);
}

bool
resize_by_set(struct shard *s, struct job *job, uint32_t workers)
{
    if (workers == 0 || workers == job->workers)
        return false;
    resize_take(s, job, workers, job->round + 1);
    return true;
}
