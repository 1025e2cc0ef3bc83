/* The loop's side: orders go to the thread under the lock, its reports become events. Each report is a state, not a
 * message, so that nothing is lost or piles up when the loop is slow: blocks read, pieces on disk, an end. */
#include "server/saver/saver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/system/now.h"
#include "common/system/thread.h"
#include "server/process/log.h"
#include "server/saver/saver_state.h"

void
saver_job_free(struct saver_job *job)
{
    if (job == NULL)
        return;
    shard_save_free(job->save);
    free(job);
}

static void
saver_wake(struct saver *s)
{
    uv_cond_signal(&s->wake);
    uv_mutex_unlock(&s->lock);
}

/* ---- Reports of the thread ---- */

static void
tell_end(struct saver *s, struct saver_job *job)
{
    struct shard_event event = {.kind = SHARD_SAVE_ENDED, .bytes = job->written, .count = job->left_out};

    if (job->error.code != PS_OK)
        event.error = &job->error;
    else if (job->save->verify)
        event.verified = &job->verified;
    s->job = NULL;
    s->config.event(s->config.arg, &event);
    saver_job_free(job);
}

/* An event may end a turn, and with it the save that it is about: the job is checked again after each. */
static void
tell_job(struct saver *s)
{
    struct shard_event event = {.kind = SHARD_SAVE_PASSED};
    struct saver_job *job = s->job;
    bool ended;

    if (job == NULL)
        return;
    uv_mutex_lock(&s->lock);
    event.count = job->read - job->passed;
    ended = job->ended;
    uv_mutex_unlock(&s->lock);
    if (event.count > 0 && !(ended && job->error.code != PS_OK)) {
        job->passed += event.count; /* before the event: another job may be in its place after it, in its memory even */
        s->config.event(s->config.arg, &event);
        if (s->job != job)
            return;
    }
    if (ended)
        tell_end(s, job);
}

static void
tell_unbegun(struct saver *s)
{
    struct ps_error e;
    struct shard_event event = {.kind = SHARD_SAVE_ENDED, .error = &e};
    struct shard_save *save = s->unbegun;

    if (save == NULL)
        return;
    (void)ps_fail(&e, PS_ERR_NOMEM, "no memory to begin a save");
    s->unbegun = NULL;
    s->config.event(s->config.arg, &event);
    shard_save_free(save);
}

static void
report_durable_error(struct saver *s, enum durable_state side, const struct ps_error *why)
{
    struct shard_event event = {.kind = SHARD_NOT_DURABLE, .error = why};

    if (side == s->reported_state && why->code == s->reported_code)
        return;
    s->reported_state = side;
    s->reported_code = why->code;
    log_line(LOG_LEVEL_WARNING, "pushes cannot be made durable: %s", why->text);
    s->config.event(s->config.arg, &event);
}

static void
tell_aside(struct saver *s, uint32_t aside)
{
    if (aside == s->reported_aside)
        return;
    s->reported_aside = aside;
    log_line(
        LOG_LEVEL_ERROR,
        "the durable file cannot be trusted any more: it was set aside, and a new one is begun file=%s/data.mdb.bad-%u",
        s->config.dir->path, aside);
}

static void
tell_lost(struct saver *s, uint32_t lost)
{
    if (lost == s->reported_lost)
        return;
    s->reported_lost = lost;
    log_line(LOG_LEVEL_ERROR, "the durable directory was removed or replaced: it is made again durable_dir=%s",
             s->config.dir->path);
}

static void
tell_durable(struct saver *s, uint64_t to)
{
    struct shard_event event = {.kind = SHARD_DURABLE, .number = to};

    if (s->reported_state == DURABLE_OK && to <= s->reported_to)
        return;
    if (s->reported_state != DURABLE_OK)
        log_line(LOG_LEVEL_INFO, "pushes can be made durable again");
    s->reported_state = DURABLE_OK;
    s->reported_to = to;
    s->config.event(s->config.arg, &event);
}

static void
on_async(uv_async_t *async)
{
    struct saver *s = async->data;
    struct ps_error why;
    enum durable_state side;
    uint32_t aside, lost;
    uint64_t to;

    tell_unbegun(s);
    tell_job(s);
    uv_mutex_lock(&s->lock);
    side = s->durable_state;
    why = s->durable_error;
    to = s->durable_to;
    aside = s->aside;
    lost = s->lost;
    uv_mutex_unlock(&s->lock);
    tell_lost(s, lost);
    tell_aside(s, aside);
    if (side == DURABLE_OK)
        tell_durable(s, to);
    else if (side != DURABLE_NONE)
        report_durable_error(s, side, &why);
}

/* ---- Actions of the shard ---- */

void
saver_begin(struct saver *s, struct shard_save *save)
{
    struct saver_job *job = calloc(1, sizeof *job);

    ps_assert(s->job == NULL && s->unbegun == NULL);
    if (job == NULL) {
        s->unbegun = save; /* reported later: in the middle of a turn no event may be stepped */
        uv_async_send(&s->async);
        return;
    }
    job->save = save;
    job->unix_ms = unix_ms();
    s->job = job;
    uv_mutex_lock(&s->lock);
    ps_assert(s->incoming == NULL);
    s->incoming = job;
    saver_wake(s);
}

void
saver_abandon(struct saver *s)
{
    struct saver_job *job = s->job;
    bool mine;

    shard_save_free(s->unbegun);
    s->unbegun = NULL;
    if (job == NULL)
        return;
    s->job = NULL;
    uv_mutex_lock(&s->lock);
    mine = job->ended || s->incoming == job;
    job->abandoned = true;
    if (s->incoming == job)
        s->incoming = NULL;
    saver_wake(s);
    if (mine)
        saver_job_free(job);
}

void
saver_redo(struct saver *s, uint64_t number)
{
    uv_mutex_lock(&s->lock);
    s->redo_to = MAX(s->redo_to, number);
    saver_wake(s);
}

/* Half of what the thread may have ahead, when it has less than that. */
static void
saver_fill_ring(struct saver *s, struct saver_job *job)
{
    size_t n, at;

    uv_mutex_lock(&s->lock);
    n = job->len;
    uv_mutex_unlock(&s->lock);
    if (n > SAVER_AHEAD / 2)
        return;
    n = shard_save_next(s->config.shard, SIZE_MAX, s->batch, ARRAY_LEN(s->batch));
    uv_mutex_lock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        at = (job->first + job->len++) % SAVER_AHEAD;
        job->ring[at] = s->batch[i];
    }
    job->all = n == 0;
    saver_wake(s);
}

void
saver_turn_ended(struct saver *s)
{
    if (s->job != NULL && !s->job->all)
        saver_fill_ring(s, s->job);
}

void
saver_close(struct saver *s)
{
    if (s->job == NULL)
        return;
    uv_mutex_lock(&s->lock);
    s->job->closing = true;
    saver_wake(s);
}

void
saver_set_rate(struct saver *s, uint64_t rate)
{
    uv_mutex_lock(&s->lock);
    s->rate = rate;
    saver_wake(s);
}

void
saver_look(struct saver *s)
{
    uv_mutex_lock(&s->lock);
    s->look = s->config.dir != NULL;
    saver_wake(s);
}

bool
saver_is_busy(const struct saver *s)
{
    return s->job != NULL || s->unbegun != NULL;
}

static enum durable_state
side_of(struct saver *s)
{
    enum durable_state side;

    uv_mutex_lock(&s->lock);
    side = s->durable_state;
    uv_mutex_unlock(&s->lock);
    return side;
}

bool
saver_wants_save(struct saver *s)
{
    return !saver_is_busy(s) && side_of(s) == DURABLE_NEEDS_SAVE;
}

bool
saver_lacks_save(struct saver *s)
{
    enum durable_state side = side_of(s);

    return side == DURABLE_NEEDS_SAVE || side == DURABLE_LOST;
}

/* ---- Life ---- */

static void
saver_init(struct saver *s, const struct saver_config *c)
{
    s->config = *c;
    s->rate = c->rate;
    s->redo_to = c->redo_to;
    if (c->dir == NULL)
        return;
    s->cut = true;
    s->reported_state = DURABLE_OK;
    s->aside = s->reported_aside = c->dir->aside;
    s->durable_state = c->needs_full_save ? DURABLE_NEEDS_SAVE : DURABLE_OK;
    s->redo_next = s->durable_to = s->reported_to = c->dir->durable.redo_next;
    if (c->needs_full_save)
        (void)ps_fail(&s->durable_error, PS_ERR_IO, "the durable directory %s waits for a full save", c->dir->path);
}

static void
on_async_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void
saver_finish(struct saver *s)
{
    s->config.live->ops->reader_close(s->reader);
    uv_cond_destroy(&s->wake);
    uv_mutex_destroy(&s->lock);
    uv_close((uv_handle_t *)&s->async, on_async_closed);
}

enum ps_err
saver_start(const struct saver_config *c, struct saver **out, struct ps_error *e)
{
    struct saver *s = calloc(1, sizeof *s);
    enum ps_err err;

    if (s == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the saver");
    saver_init(s, c);
    if ((err = c->live->ops->reader_open(c->live, &s->reader)) != PS_OK) {
        free(s);
        return ps_fail(e, err, "the saver cannot read the live store: %s", ps_strerror(err));
    }
    ps_assert(uv_mutex_init(&s->lock) == 0 && uv_cond_init(&s->wake) == 0 &&
              uv_async_init(c->loop, &s->async, on_async) == 0);
    s->async.data = s;
    uv_unref((uv_handle_t *)&s->async); /* it keeps no loop from ending */
    if (thread_start(&s->thread, saver_thread, s) != 0) {
        saver_finish(s);
        return ps_fail(e, PS_ERR_NOMEM, "the saver's thread cannot be started");
    }
    uv_async_send(&s->async); /* a durable side that is not DURABLE_OK is reported at once */
    *out = s;
    return PS_OK;
}

void
saver_stop(struct saver *s)
{
    if (s == NULL)
        return;
    saver_abandon(s);
    uv_mutex_lock(&s->lock);
    s->stopping = true;
    saver_wake(s);
    pthread_join(s->thread, NULL);
    saver_finish(s);
}
