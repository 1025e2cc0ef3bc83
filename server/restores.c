#include "restores.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon.h"
#include "hash.h"
#include "log.h"
#include "restore_open.h"

struct restore_wanted {
    struct shard_action asked; /* its texts are ours */
    struct restore_wanted *prev, *next;
};

static void
wanted_free(struct restore_wanted *w)
{
    free(w->asked.text);
    free(w->asked.job);
    free(w);
}

/* A source of this checkpoint for the shard. */
static enum ps_err
open_source(const char *dir, const char *job, const char *root, bool checksums, struct shard_restore **out,
            struct ps_error *e)
{
    uint64_t boot;

    if (getrandom(&boot, sizeof boot, 0) != sizeof boot)
        return ps_fail(e, PS_ERR_IO, "cannot get random bytes: %s", strerror(errno));
    return restore_open(dir, job, root, checksums, boot, out, e);
}

/* ---- Asked by a peer ---- */

void
restores_action(struct daemon *d, struct shard_action *a)
{
    struct restore_wanted *w = malloc(sizeof *w);

    if (w == NULL) { /* who asked waits until its time is over */
        log_line(LOG_LEVEL_ERROR, "no memory to restore dir=\"%s\"", a->text);
        free(a->text);
        free(a->job);
        return;
    }
    w->asked = *a;
    DL_APPEND(d->restores.wanted, w);
}

static void
answer(struct daemon *d, const struct restore_wanted *w)
{
    struct shard_event event = {.kind = SHARD_RESTORE, .conn = w->asked.conn, .number = w->asked.number};
    struct ps_error e = {0};

    /* Who asks has held the files against their checksums: that takes longer than others may be kept waiting here. */
    if (open_source(w->asked.text, w->asked.job, d->options->checkpoint_root, false, &event.restore, &e) != PS_OK)
        event.error = &e;
    else
        event.restore->check = w->asked.check;
    daemon_step(d, &event);
}

void
restores_turn_ended(struct daemon *d)
{
    struct restore_wanted *w;

    while ((w = d->restores.wanted) != NULL) {
        DL_DELETE(d->restores.wanted, w);
        answer(d, w);
        wanted_free(w);
    }
}

/* ---- At the start ---- */

static enum ps_err
give(struct daemon *d, const char *dir, const char *job, struct ps_error *e)
{
    struct shard_event event = {.kind = SHARD_RESTORE};
    enum ps_err err;

    log_line(LOG_LEVEL_INFO, "checking checkpoint dir=\"%s\"", dir);
    if ((err = open_source(dir, job, NULL, true, &event.restore, e)) != PS_OK)
        return err;
    daemon_step(d, &event);
    return shard_is_restoring(d->shard, e) ? PS_OK : e->code;
}

/* --restore: the directory itself, so that a start that goes on with it finds the same one behind `latest`. */
static enum ps_err
give_option(struct daemon *d, struct ps_error *e)
{
    char *dir = realpath(d->options->restore, NULL);
    enum ps_err err;

    if (dir == NULL)
        return ps_fail(e, PS_ERR_IO, "--restore: cannot open %.300s: %s", d->options->restore, strerror(errno));
    err = give(d, dir, "", e);
    free(dir);
    return err;
}

enum ps_err
restores_start(struct daemon *d, struct ps_error *e)
{
    const char *dir, *job;

    if (d->options->restore != NULL && (shard_is_empty(d->shard) || shard_restore_unfinished(d->shard, &dir, &job)))
        return give_option(d, e);
    if (d->options->restore != NULL && !shard_is_restoring(d->shard, NULL))
        return ps_fail(e, PS_ERR_BUSY,
                       "--restore is for an empty shard, and this one has data: leave it out to go on with them, or "
                       "use psctl restore");
    if (shard_restore_unfinished(d->shard, &dir, &job))
        return give(d, dir, job, e);
    return PS_OK;
}

void
restores_finish(struct daemon *d)
{
    struct restore_wanted *w, *next;

    DL_FOREACH_SAFE (d->restores.wanted, w, next)
        wanted_free(w);
    d->restores.wanted = NULL;
}
