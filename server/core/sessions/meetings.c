#include "server/core/sessions/meetings.h"

#include <stdio.h>
#include <string.h>

#include "common/core/wire/meet_message.h"
#include "server/core/shard_state.h"

/* ---- Answers ---- */

/* The same bytes for all but for the request; made anew for each, since a meeting is held once in a long while. */
static void
send_table(struct shard *s, struct connection *c, uint64_t request, const struct meet_table *t)
{
    struct meet_message m;

    meet_message(&m, t);
    actions_send(s, c, MSG_MET, request, &m.met.base);
}

void
meetings_time(struct shard *s)
{
    struct meet_answer answer;

    while (meet_next(&s->meet, s->now_ms, &answer)) {
        struct connection *c = connection_find(s, answer.guest);
        uint64_t request;

        ps_assert(c != NULL && c->meeting_request != 0);
        request = c->meeting_request;
        c->meeting_request = 0;
        c->turn = s->turn.number; /* without this turn's commit it is not told, and has to ask again */
        if (answer.table != NULL)
            send_table(s, c, request, answer.table);
        else
            actions_error(s, c, request, answer.error.code, answer.error.text);
    }
}

/* ---- Questions ---- */

static enum ps_err
come(struct shard *s, const struct connection *c, const Psd__Meet *m, struct ps_error *e)
{
    struct meet_guest guest = meet_message_guest(m, c->id);

    if (s->config.shard != 0)
        return ps_fail(e, PS_ERR_INVALID, "groups meet at shard 0, this is shard %u", s->config.shard);
    if (strcmp(m->cluster, s->cluster) != 0)
        return ps_fail(e, PS_ERR_CLUSTER, "this is shard 0 of cluster '%.128s', worker %u belongs to '%.128s'",
                       s->cluster, m->task, m->cluster);
    if (limit_reached(s, LIMIT_MEETINGS))
        return limit_refuse(s, LIMIT_MEETINGS, e, "no room for worker %u of group '%.64s'", m->task, m->group);
    return meet_come(&s->meet, &guest, s->now_ms, e);
}

void
meetings_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Meet *m)
{
    struct ps_error e;
    enum ps_err err;

    if ((err = come(s, c, m, &e)) != PS_OK) {
        actions_error(s, c, request, err, e.text);
        return;
    }
    c->meeting_request = request;
    meetings_time(s);
}

void
meetings_forget(struct shard *s, struct connection *c)
{
    if (c->meeting_request == 0)
        return;
    meet_leave(&s->meet, c->id);
    c->meeting_request = 0;
}

bool
meetings_cancel(struct shard *s, struct connection *c, uint64_t request)
{
    if (c->meeting_request == 0 || c->meeting_request != request)
        return false;
    meetings_forget(s, c);
    actions_error(s, c, request, PS_ERR_CANCELLED, ps_strerror(PS_ERR_CANCELLED));
    return true;
}

void
meetings_end(struct shard *s)
{
    meet_cancel_all(&s->meet, 0, PS_ERR_DRAINING, ps_strerror(PS_ERR_DRAINING));
    meetings_time(s);
}
