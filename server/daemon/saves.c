#include "server/daemon/saves.h"

#include <inttypes.h>

#include "server/daemon/daemon.h"
#include "server/process/log.h"
#include "server/process/sd_notify.h"
#include "server/recovery/start.h"

static void
ask(struct daemon *d)
{
    struct shard_event event = {.kind = SHARD_SAVE};

    daemon_step(d, &event);
}

/* ---- The interval ---- */

static void
on_timer(uv_timer_t *timer)
{
    struct daemon *d = timer->data;

    d->saves.armed = false;
    if (d->saves.stopping) {
        log_line(LOG_LEVEL_WARNING, "the save at the stop was given up: it took longer than --save-on-stop");
        daemon_close(d);
    } else if (!saver_is_busy(d->saves.saver)) {
        d->saves.begun_ms = uv_now(&d->loop); /* one that waits for a restore is asked for again an interval later */
        ask(d);
    }
}

static void
arm(struct daemon *d)
{
    const struct options *o = d->options;
    struct saves *s = &d->saves;
    uint64_t now = uv_now(&d->loop), at = MAX(s->begun_ms + o->save_interval_ms, s->ended_ms + o->save_pause_ms);

    if (s->stopping || d->state == DAEMON_CLOSING)
        return;
    s->armed = o->save_interval_ms != 0 && d->saves.durable && !saver_is_busy(s->saver) && shard_save_due(d->shard);
    if (s->armed)
        uv_timer_start(&s->timer, on_timer, at > now ? at - now : 0, 0);
    else
        uv_timer_stop(&s->timer);
}

void
saves_reload(struct daemon *d)
{
    saver_set_rate(d->saves.saver, d->options->save_rate);
    arm(d);
}

void
saves_housekeeping(struct daemon *d)
{
    const struct saves *s = &d->saves;

    if (s->stopping)
        sd_notify_busy("Saving before the stop");
    if (d->state != DAEMON_SERVING || !s->durable)
        return;
    saver_look(s->saver);
    if (saver_is_busy(s->saver))
        return;
    if (saver_wants_save(s->saver) || shard_save_awaited(d->shard))
        ask(d);
}

const char *
saves_status(const struct daemon *d, char text[SAVES_STATUS_MAX])
{
    struct tm tm;

    *text = '\0';
    if (d->saves.durable && saver_is_busy(d->saves.saver))
        return ", saving";
    if (d->saves.durable && d->saves.saved != 0)
        strftime(text, SAVES_STATUS_MAX, ", saved %H:%M:%S UTC", gmtime_r(&d->saves.saved, &tm));
    return text;
}

/* ---- Turns ---- */

bool
saves_action(struct daemon *d, struct shard_action *a)
{
    struct saves *s = &d->saves;

    switch (a->kind) {
    case SHARD_SAVE_BEGUN:
        s->checkpoint = a->save->checkpoint != NULL;
        if (!s->checkpoint) {
            s->begun_ms = uv_now(&d->loop);
            s->redo = a->save->redo;
        }
        saver_begin(s->saver, a->save);
        return true;
    case SHARD_SAVE_CLOSE:
        saver_close(s->saver);
        return true;
    case SHARD_SAVE_ABANDONED:
        saver_abandon(s->saver);
        s->ended_ms = uv_now(&d->loop);
        return true;
    case SHARD_REDO:
        saver_redo(s->saver, a->number);
        return true;
    default:
        return false;
    }
}

void
saves_turn_ended(struct daemon *d)
{
    saver_turn_ended(d->saves.saver);
    if (d->saves.done)
        daemon_close(d);
    else if (!d->saves.armed && shard_save_due(d->shard))
        arm(d);
}

/* ---- What the saver says ---- */

static void
note_saved(struct saves *s)
{
    s->saved = time(NULL);
    s->newest = (double)s->saved;
    s->newest_redo = s->redo;
}

static void
on_event(void *arg, struct shard_event *event)
{
    struct daemon *d = arg;

    if (d->state == DAEMON_CLOSING)
        return;
    if (event->kind == SHARD_SAVE_ENDED) {
        d->saves.ended_ms = uv_now(&d->loop);
        if (event->error == NULL && !d->saves.checkpoint)
            note_saved(&d->saves);
    }
    daemon_step(d, event);
    if (event->kind == SHARD_SAVE_ENDED)
        d->saves.done = d->saves.stopping && (event->error != NULL || !shard_save_due(d->shard));
    else if (event->kind == SHARD_NOT_DURABLE)
        saves_housekeeping(d);
}

/* ---- Life ---- */

enum ps_err
saves_start(struct daemon *d, struct ps_error *e)
{
    struct start *start = d->start;
    bool durable = start->durable.store != NULL;
    struct saver_config c = {.loop = &d->loop,
                             .shard = d->shard,
                             .live = d->store,
                             .dir = durable ? &start->durable : NULL,
                             .redo_to = start->redo_to,
                             .whole = start->whole,
                             .checkpoint_root = d->options->checkpoint_root,
                             .rate = d->options->save_rate,
                             .event = on_event,
                             .arg = d};
    enum ps_err err;

    d->saves.durable = durable; /* nobody but the saver looks at the directory from now on */
    d->saves.begun_ms = uv_now(&d->loop);
    if (durable && start->durable.durable.manifest.save != 0) {
        d->saves.newest = (double)start->durable.durable.manifest.unix_ms / 1000;
        d->saves.newest_redo = start->durable.durable.manifest.redo;
    }
    if ((err = saver_start(&c, &d->saves.saver, e)) == PS_OK)
        arm(d);
    return err;
}

void
saves_finish(struct daemon *d)
{
    saver_stop(d->saves.saver);
    d->saves.saver = NULL;
}

static bool
is_unsaved(const struct daemon *d)
{
    return shard_save_due(d->shard) || saver_lacks_save(d->saves.saver);
}

bool
saves_at_stop(struct daemon *d)
{
    struct saves *s = &d->saves;

    if (s->stopping)
        return true;
    if (!d->saves.durable || d->options->save_on_stop_ms == 0 || shard_is_half_restored(d->shard) ||
        (!is_unsaved(d) && !saver_is_busy(s->saver)))
        return false;
    log_line(LOG_LEVEL_INFO, "saving before the stop");
    sd_notify_busy("Saving before the stop");
    s->stopping = true;
    saver_set_rate(s->saver, 0);
    uv_timer_start(&s->timer, on_timer, d->options->save_on_stop_ms, 0);
    if (is_unsaved(d))
        ask(d);
    return true;
}
