#include "server/daemon/restore_requests.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/core/base/hash.h"
#include "server/daemon/daemon.h"
#include "server/process/log.h"
#include "server/process/sd_notify.h"
#include "server/recovery/open_stores.h"
#include "server/recovery/restore_open.h"

#define TELL_NS UINT64_C(1000000000)

/* One request: it waits, or is verified on the thread. */
struct restore_request {
    struct shard_action asked; /* its texts are owned */
    struct restore_request *prev, *next;
    struct daemon *daemon;
    uv_work_t work;
    atomic_bool given_up; /* no connection waits for the result */
    struct shard_restore *source;
    struct checkpoint_stamps stamps;
    uint64_t began_ns;
    struct ps_error error;
};

static void
restore_request_free(struct restore_request *w)
{
    if (w->source != NULL)
        w->source->close(w->source);
    free(w->asked.text);
    free(w->asked.job);
    free(w);
}

/* Opens this checkpoint as a source for the shard. */
static enum ps_err
open_source(const char *dir, const char *job, const char *root, struct shard_restore **out, struct ps_error *e)
{
    uint64_t boot;

    if (getrandom(&boot, sizeof boot, 0) != sizeof boot)
        return ps_fail(e, PS_ERR_IO, "cannot get random bytes: %s", strerror(errno));
    return restore_open(dir, job, root, boot, out, e);
}

/* ---- Requests of peers ---- */

void
restore_requests_action(struct daemon *d, struct shard_action *a)
{
    struct restore_request *w = calloc(1, sizeof *w);

    if (w == NULL) { /* the client waits until its own timeout */
        log_line(LOG_LEVEL_ERROR, "no memory to restore dir=\"%s\"", a->text);
        free(a->text);
        free(a->job);
        return;
    }
    w->asked = *a;
    w->daemon = d;
    w->work.data = w;
    if (d->restore_requests.waiting == RESTORE_REQUESTS_MAX) {
        (void)ps_fail(&w->error, PS_ERR_LIMIT, "a shard verifies one checkpoint at a time, and %d questions wait",
                      RESTORE_REQUESTS_MAX);
        DL_APPEND(d->restore_requests.refused, w);
        return;
    }
    d->restore_requests.waiting++;
    DL_APPEND(d->restore_requests.wanted, w);
}

/* Ends a request: the shard has the source then. */
static void
restore_requests_answer(struct restore_request *w)
{
    struct shard_event event = {.kind = SHARD_RESTORE, .conn = w->asked.conn, .number = w->asked.number};
    struct daemon *d = w->daemon;

    if (w->error.code != PS_OK) {
        event.error = &w->error;
    } else {
        event.restore = w->source;
        event.restore->check = w->asked.check;
        w->source = NULL;
    }
    daemon_step(d, &event);
    restore_request_free(w);
}

/* On the thread: whether to continue. */
static enum ps_err
still_wanted(void *arg, const char *file, struct ps_error *e)
{
    struct restore_request *w = arg;

    if (!atomic_load(&w->given_up))
        return PS_OK;
    return ps_fail(e, PS_ERR_CANCELLED, "%s: the client that asked is gone", file);
}

static void
restore_requests_verify(uv_work_t *work)
{
    struct restore_request *w = work->data;
    const struct checkpoint_patience patience = {still_wanted, w};

    if (restore_verify(w->source, &patience, &w->error) == PS_OK)
        w->error.code = PS_OK;
}

static void
verify_done(uv_work_t *work, int status)
{
    struct restore_request *w = work->data;
    struct daemon *d = w->daemon;

    (void)status; /* it is never cancelled in libuv */
    d->restore_requests.verifying = NULL;
    if (atomic_load(&w->given_up)) {
        restore_request_free(w);
        restore_requests_turn_ended(d);
        return;
    }
    log_line(w->error.code == PS_OK ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "checkpoint %s dir=\"%s\" seconds=%.1f%s%s%s",
             w->error.code == PS_OK ? "verified" : "refused", w->asked.text, (double)(uv_hrtime() - w->began_ns) / 1e9,
             w->error.code == PS_OK ? "" : " reason=\"", w->error.text, w->error.code == PS_OK ? "" : "\"");
    if (w->error.code == PS_OK)
        d->restore_requests.verified = w->stamps;
    restore_requests_answer(w);
    restore_requests_turn_ended(d);
}

/* These same files were compared with their checksums, in the client's own verification or for an earlier request. */
static bool
is_verified(const struct daemon *d, const struct restore_request *w)
{
    return memcmp(&w->stamps, w->asked.verified, sizeof w->stamps) == 0 ||
           memcmp(&w->stamps, &d->restore_requests.verified, sizeof w->stamps) == 0;
}

/* The request is the next one: hand it to the thread, or answer. */
static void
restore_requests_take(struct daemon *d, struct restore_request *w)
{
    if (open_source(w->asked.text, w->asked.job, d->options->checkpoint_root, &w->source, &w->error) != PS_OK ||
        restore_stamps(w->source, &w->stamps, &w->error) != PS_OK || is_verified(d, w)) {
        restore_requests_answer(w);
        return;
    }
    log_line(LOG_LEVEL_INFO, "verifying checkpoint dir=\"%s\"", w->asked.text);
    w->began_ns = uv_hrtime();
    if (uv_queue_work(&d->loop, &w->work, restore_requests_verify, verify_done) == 0) {
        d->restore_requests.verifying = w;
        return;
    }
    (void)ps_fail(&w->error, PS_ERR_NOMEM, "no thread to verify %s", w->asked.text);
    restore_requests_answer(w);
}

void
restore_requests_turn_ended(struct daemon *d)
{
    struct restore_requests *r = &d->restore_requests;
    struct restore_request *w;

    while ((w = r->refused) != NULL) {
        DL_DELETE(r->refused, w);
        restore_requests_answer(w);
    }
    while (d->state != DAEMON_CLOSING && r->verifying == NULL && (w = r->wanted) != NULL) {
        DL_DELETE(r->wanted, w);
        r->waiting--;
        restore_requests_take(d, w);
    }
}

static void
restore_requests_forget(struct restore_request **list, uint64_t conn)
{
    struct restore_request *w, *next;

    DL_FOREACH_SAFE (*list, w, next)
        if (conn == 0 || w->asked.conn == conn) {
            DL_DELETE(*list, w);
            restore_request_free(w);
        }
}

/* 0: all of them. */
static void
give_up(struct daemon *d, uint64_t conn)
{
    struct restore_requests *r = &d->restore_requests;
    struct restore_request *w;

    if (r->verifying != NULL && (conn == 0 || r->verifying->asked.conn == conn))
        atomic_store(&r->verifying->given_up, true);
    restore_requests_forget(&r->refused, conn);
    restore_requests_forget(&r->wanted, conn);
    DL_COUNT(r->wanted, w, r->waiting);
}

void
restore_requests_gone(struct daemon *d, uint64_t conn)
{
    give_up(d, conn);
}

void
restore_requests_stop(struct daemon *d)
{
    give_up(d, 0);
}

/* ---- At the start ---- */

/* Reports to systemd that a long verification is no hang; TERM or INT ends it. */
static enum ps_err
tell_alive(void *arg, const char *file, struct ps_error *e)
{
    uint64_t *reported_ns = arg, now = uv_hrtime();

    (void)file;
    if (now - *reported_ns >= TELL_NS) {
        *reported_ns = now;
        sd_notify_busy("verifying a checkpoint");
    }
    return open_stores_stopped(e);
}

static enum ps_err
restore_requests_hand_over(struct daemon *d, const char *dir, const char *job, uint64_t by, struct ps_error *e)
{
    struct shard_event event = {.kind = SHARD_RESTORE};
    uint64_t reported_ns = 0;
    const struct checkpoint_patience patience = {tell_alive, &reported_ns};
    enum ps_err err;

    log_line(LOG_LEVEL_INFO, "verifying checkpoint dir=\"%s\"", dir);
    if ((err = open_source(dir, job, NULL, &event.restore, e)) != PS_OK)
        return err;
    event.restore->by = by;
    if ((err = restore_verify(event.restore, &patience, e)) != PS_OK) {
        event.restore->close(event.restore);
        return err;
    }
    daemon_step(d, &event);
    return shard_is_restoring(d->shard, e) ? PS_OK : e->code;
}

/* --restore: the real path, so that a start that continues it finds the same directory, wherever `latest` points. */
static enum ps_err
give_option(struct daemon *d, uint64_t by, struct ps_error *e)
{
    char *dir = realpath(d->options->restore, NULL);
    enum ps_err err;

    if (dir == NULL)
        return ps_fail(e, PS_ERR_IO, "--restore: cannot open %.300s: %s", d->options->restore, strerror(errno));
    err = restore_requests_hand_over(d, dir, "", by, e);
    free(dir);
    return err;
}

/* The command line of a service stays as it is: a later start finds what the first one has restored, and all updates
 * since. The checkpoint may be gone by then. */
static bool
is_done(const struct daemon *d, uint64_t by)
{
    char *dir = realpath(d->options->restore, NULL);
    const char *path = dir != NULL ? dir : d->options->restore, *slash = strrchr(path, '/');
    bool done = shard_was_restored_by(d->shard, by, slash != NULL ? slash + 1 : path);

    free(dir);
    return done;
}

static enum ps_err
start_with_option(struct daemon *d, uint64_t by, bool unfinished, struct ps_error *e)
{
    if (shard_is_empty(d->shard) || unfinished)
        return give_option(d, by, e);
    if (shard_is_restoring(d->shard, NULL))
        return PS_OK;
    return ps_fail(e, PS_ERR_BUSY,
                   "--restore is for an empty shard, and this one has data that did not begin with %.300s: leave it "
                   "out to go on with them, or use psctl restore",
                   d->options->restore);
}

enum ps_err
restore_requests_start(struct daemon *d, struct ps_error *e)
{
    const char *dir, *job;
    bool unfinished = shard_restore_unfinished(d->shard, &dir, &job);
    uint64_t by = d->options->restore != NULL ? shard_restore_by(d->options->restore) : 0;

    if (by != 0 && !is_done(d, by))
        return start_with_option(d, by, unfinished, e);
    if (by != 0)
        log_line(LOG_LEVEL_INFO, "--restore was done by an earlier start: going on from there dir=\"%s\"",
                 d->options->restore);
    return unfinished ? restore_requests_hand_over(d, dir, job, 0, e) : PS_OK;
}
