#include "server/daemon/save_schedule.h"

#include <inttypes.h>

#include "server/daemon/daemon.h"
#include "server/process/log.h"
#include "server/process/sd_notify.h"
#include "server/recovery/open_stores.h"

static void
save_schedule_ask(struct daemon *d)
{
    struct shard_event event = {.kind = SHARD_SAVE};

    daemon_step(d, &event);
}

/* ---- The interval ---- */

static void
on_timer(uv_timer_t *timer)
{
    struct daemon *d = timer->data;

    d->save_schedule.armed = false;
    if (d->save_schedule.stopping) {
        log_line(LOG_LEVEL_WARNING, "the save at the stop was given up: it took longer than --save-on-stop");
        daemon_close(d);
    } else if (!saver_is_busy(d->save_schedule.saver)) {
        d->save_schedule.begun_ms =
            uv_now(&d->loop); /* a save that waits for a restore is requested again an interval later */
        save_schedule_ask(d);
    }
}

static void
save_schedule_arm(struct daemon *d)
{
    const struct options *o = d->options;
    struct save_schedule *s = &d->save_schedule;
    uint64_t now = uv_now(&d->loop), at = MAX(s->begun_ms + o->save_interval_ms, s->ended_ms + o->save_pause_ms);

    if (s->stopping || d->state == DAEMON_CLOSING)
        return;
    s->armed =
        o->save_interval_ms != 0 && d->save_schedule.durable && !saver_is_busy(s->saver) && shard_save_due(d->shard);
    if (s->armed)
        uv_timer_start(&s->timer, on_timer, at > now ? at - now : 0, 0);
    else
        uv_timer_stop(&s->timer);
}

void
save_schedule_reload(struct daemon *d)
{
    saver_set_rate(d->save_schedule.saver, d->options->save_rate);
    save_schedule_arm(d);
}

void
save_schedule_housekeeping(struct daemon *d)
{
    const struct save_schedule *s = &d->save_schedule;

    if (s->stopping)
        sd_notify_busy("Saving before the stop");
    if (d->state != DAEMON_SERVING || !s->durable)
        return;
    saver_look(s->saver);
    if (saver_is_busy(s->saver))
        return;
    if (saver_wants_save(s->saver) || shard_save_awaited(d->shard))
        save_schedule_ask(d);
}

const char *
save_schedule_status(const struct daemon *d, char text[SAVE_SCHEDULE_STATUS_MAX])
{
    struct tm tm;

    *text = '\0';
    if (d->save_schedule.durable && saver_is_busy(d->save_schedule.saver))
        return ", saving";
    if (d->save_schedule.durable && d->save_schedule.saved != 0)
        strftime(text, SAVE_SCHEDULE_STATUS_MAX, ", saved %H:%M:%S UTC", gmtime_r(&d->save_schedule.saved, &tm));
    return text;
}

/* ---- Turns ---- */

bool
save_schedule_action(struct daemon *d, struct shard_action *a)
{
    struct save_schedule *s = &d->save_schedule;

    switch (a->kind) {
    case SHARD_SAVE_INSTANT: /* the core keeps what is of it */
        return true;
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
save_schedule_turn_ended(struct daemon *d)
{
    saver_turn_ended(d->save_schedule.saver);
    if (d->save_schedule.done)
        daemon_close(d);
    else if (!d->save_schedule.armed && shard_save_due(d->shard))
        save_schedule_arm(d);
}

/* ---- Reports of the saver ---- */

static void
note_saved(struct save_schedule *s)
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
        d->save_schedule.ended_ms = uv_now(&d->loop);
        if (event->error == NULL && !d->save_schedule.checkpoint)
            note_saved(&d->save_schedule);
    }
    daemon_step(d, event);
    if (event->kind == SHARD_SAVE_ENDED)
        d->save_schedule.done = d->save_schedule.stopping && (event->error != NULL || !shard_save_due(d->shard));
    else if (event->kind == SHARD_NOT_DURABLE)
        save_schedule_housekeeping(d);
}

/* ---- Life ---- */

enum ps_err
save_schedule_start(struct daemon *d, struct ps_error *e)
{
    struct open_stores *start = d->stores;
    bool durable = start->durable.store != NULL;
    struct saver_config c = {.loop = &d->loop,
                             .shard = d->shard,
                             .live = d->store,
                             .dir = durable ? &start->durable : NULL,
                             .redo_to = start->redo_to,
                             .needs_full_save = start->needs_full_save,
                             .checkpoint_root = d->options->checkpoint_root,
                             .rate = d->options->save_rate,
                             .event = on_event,
                             .arg = d};
    enum ps_err err;

    d->save_schedule.durable = durable; /* only the saver uses the directory from now on */
    d->save_schedule.begun_ms = uv_now(&d->loop);
    if (durable && start->durable.durable.manifest.save != 0) {
        d->save_schedule.newest = (double)start->durable.durable.manifest.unix_ms / 1000;
        d->save_schedule.newest_redo = start->durable.durable.manifest.redo;
    }
    if ((err = saver_start(&c, &d->save_schedule.saver, e)) == PS_OK)
        save_schedule_arm(d);
    return err;
}

void
save_schedule_finish(struct daemon *d)
{
    saver_stop(d->save_schedule.saver);
    d->save_schedule.saver = NULL;
}

static bool
is_unsaved(const struct daemon *d)
{
    return shard_save_due(d->shard) || saver_lacks_save(d->save_schedule.saver);
}

bool
save_schedule_at_stop(struct daemon *d)
{
    struct save_schedule *s = &d->save_schedule;

    if (s->stopping)
        return true;
    if (!d->save_schedule.durable || d->options->save_on_stop_ms == 0 || shard_is_half_restored(d->shard) ||
        (!is_unsaved(d) && !saver_is_busy(s->saver)))
        return false;
    log_line(LOG_LEVEL_INFO, "saving before the stop");
    sd_notify_busy("Saving before the stop");
    s->stopping = true;
    saver_set_rate(s->saver, 0);
    uv_timer_start(&s->timer, on_timer, d->options->save_on_stop_ms, 0);
    if (is_unsaved(d))
        save_schedule_ask(d);
    return true;
}
