/* When saves are made: on the interval, when something has changed; at once, when only a full save makes pushes durable
 * again, or admits workers after a restore; and when psd stops.
 *
 *     begin     interval since the last begin, and pause since its end, are over
 *     at a stop no peer is connected any more; what has changed is saved, within --save-on-stop
 *
 * The saver (saver.h) carries them out; this is its part in the daemon. */
#ifndef SERVER_DAEMON_SAVE_SCHEDULE_H
#define SERVER_DAEMON_SAVE_SCHEDULE_H

#include <time.h>

#include <uv.h>

#include "common/core/base/base.h"
#include "server/saver/saver.h"

struct daemon;
struct shard_action;

struct save_schedule {
    struct saver *saver;
    uv_timer_t timer;            /* the next save; at a stop, the timeout of --save-on-stop */
    bool durable;                /* there is a directory to save to */
    bool armed;                  /* it runs for the next save */
    bool stopping;               /* psd ends when what has changed is saved */
    bool done;                   /* it is, or cannot be */
    bool checkpoint;             /* the save that runs is a checkpoint */
    uint64_t begun_ms, ended_ms; /* of the newest one */
    time_t saved;                /* when the newest of this process was complete; 0: none was */
    double newest;               /* the same of any process, in Unix time; 0: none is known */
    uint64_t redo, newest_redo;  /* pieces before this one are in the one that runs; in the newest */
};

/* Start the saver. Saves are made when there is a durable directory. */
enum ps_err save_schedule_start(struct daemon *d, struct ps_error *e) PS_MUST_USE;
void save_schedule_finish(struct daemon *d); /* blocks: saver_stop() */

/* In the daemon's turn: each action that is a save's (true: it was one), and after the last action. */
bool save_schedule_action(struct daemon *d, struct shard_action *a);
void save_schedule_turn_ended(struct daemon *d);

/* The options have changed. */
void save_schedule_reload(struct daemon *d);

/* Once a second. */
void save_schedule_housekeeping(struct daemon *d);

/* ", saved 12:30:05 UTC", for people; "" without a durable directory. */
#define SAVE_SCHEDULE_STATUS_MAX 32
const char *save_schedule_status(const struct daemon *d, char text[SAVE_SCHEDULE_STATUS_MAX]);

/* The shard has stopped. True: a save is made first, daemon_close() follows when it has ended or timed out. */
bool save_schedule_at_stop(struct daemon *d);

#endif
