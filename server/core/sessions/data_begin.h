/* Where the data of a worker index begins in a round: what the first of its processes found when it joined. A process
 * that takes its place before all shards have counted a step of it begins there, too, wherever the others have come to
 * meanwhile. */
#ifndef SERVER_CORE_SESSIONS_DATA_BEGIN_H
#define SERVER_CORE_SESSIONS_DATA_BEGIN_H

#include "common/core/base/base.h"
#include "server/core/workers/data_cursor.h"

struct session;

struct data_begin {
    uint64_t clock;            /* that it joined at */
    struct data_cursor others; /* the least cursor of the live workers of the round; none: there were no others, one of
                                  them had none, or the job waits for all to join (job_begins_together()) */
};

/* If the session joined its round now. */
struct data_begin data_begin_now(const struct session *session);

/* It joins it, at its clock, for the first time. */
void data_begin_joined(struct session *session);

/* The message, and the parts that it points to. */
struct data_begin_message {
    Psd__Begins begins;
    Psd__Cursor others;
};
Psd__Begins *data_begin_message(const struct data_begin *x, struct data_begin_message *room);
struct data_begin data_begin_of(const Psd__Begins *m); /* NULL: zeros */

#endif
