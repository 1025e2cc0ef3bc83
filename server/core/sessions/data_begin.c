#include "server/core/sessions/data_begin.h"

#include "server/core/sessions/job.h"
#include "server/core/sessions/session.h"

/* Where no worker gets ahead before all have joined, the slowest clock stands still until this one has: it has missed
 * nothing of what the others did meanwhile. Elsewhere: at the start of a job the first of the others has no cursor, so
 * this does not walk all of them for each. */
static struct data_cursor
data_begin_others(const struct session *session)
{
    struct data_cursor least = {0};
    const struct session *x;

    if (job_begins_together(session->job))
        return least;
    SESSION_EACH (session->job, x) {
        if (x == session || x->state != SESSION_LIVE || x->known_round != session->round)
            continue;
        if (data_cursor_none(x->steps.at))
            return x->steps.at;
        if (data_cursor_none(least) || data_cursor_before(x->steps.at, least))
            least = x->steps.at;
    }
    return least;
}

struct data_begin
data_begin_now(const struct session *session)
{
    return (struct data_begin){.clock = session->clock, .others = data_begin_others(session)};
}

void
data_begin_joined(struct session *session)
{
    session->begin = data_begin_now(session);
}

Psd__Begins *
data_begin_message(const struct data_begin *x, struct data_begin_message *room)
{
    psd__begins__init(&room->begins);
    room->begins.clock = x->clock;
    room->begins.others = data_cursor_message(x->others, &room->others);
    return &room->begins;
}

struct data_begin
data_begin_of(const Psd__Begins *m)
{
    if (m == NULL)
        return (struct data_begin){0};
    return (struct data_begin){.clock = m->clock, .others = data_cursor_of(m->others)};
}
