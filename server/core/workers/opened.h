/* The furthest barrier of a job that has opened, of those that have a place (Barrier.place): where in the data its
 * workers met, and what their metrics came to at that moment. It is kept with the job, in the transaction in which the
 * barrier opens, so that who comes there later, in the place of one that was lost, is let in and told the same; a new
 * round (clock.h) begins without.
 *
 * It is in saves, and not in the redo log. That holds durable pushes, and the metrics of the steps before them; those
 * of the last step before the barrier are not among them. So after a power loss the job's data and metrics are of
 * before the barrier, and with it who does the missing steps again would pass without the others. They meet again
 * instead; a worker that was let go, and finds here that nothing has opened, comes again as well
 * (client/api/meeting.h). What that cannot mend: where the others have heard the sums before the power was lost, and
 * done further steps, those steps are in what the one that comes again hears. */
#ifndef SERVER_OPENED_H
#define SERVER_OPENED_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "proto/psd.pb-c.h"
#include "server/core/workers/cursor.h"

struct place {
    struct cursor at;
    uint32_t again; /* barriers there before it */
};

struct opened {
    bool any;
    struct place place;
    double sum[WIRE_METRICS_MAX]; /* [len] */
    uint32_t len;
};

struct place place_of(const Psd__Place *m);
bool place_before(const struct place *a, const struct place *b);

/* As a row says; NULL: none. False: it says what cannot be. */
bool opened_take(struct opened *o, const Psd__Opened *said);

/* As a message, which borrows from o; NULL when there is none. */
struct opened_room {
    Psd__Opened message;
    Psd__Place place;
    Psd__Cursor at;
};
Psd__Opened *opened_message(const struct opened *o, struct opened_room *room);

#endif
