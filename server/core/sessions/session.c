/* Sessions: made and freed, which connection they have, and until when their leases last. */
#include "server/core/sessions/session.h"

#include <stdlib.h>

#include "server/core/shard_state.h"

struct session *
session_new(struct shard *s, struct job *job, uint32_t task)
{
    struct session *session = calloc(1, sizeof *session);

    if (session == NULL)
        return NULL;
    session->job = job;
    session->task = task;
    session->next_seq = 1;
    job->sessions[task] = session;
    roster_add(&job->there, task);
    s->sessions_len++;
    return session;
}

static void
session_unhold(struct session *session)
{
    quota_subtract(session->holder, QUOTA_SESSIONS, session->holder != NULL);
    quota_release(session->holder);
    session->holder = NULL;
}

void
session_free(struct shard *s, struct session *session)
{
    if (session == NULL)
        return;
    sequence_finish(s, session);
    data_steps_finish(session);
    free(session->agent);
    session_unhold(session);
    free(session);
}

bool
session_set_token(struct shard *s, struct session *session, const char *name)
{
    struct quota_holder *holder;

    if (!quota_hold(s, name, &holder))
        return false;
    quota_add(holder, QUOTA_SESSIONS, 1);
    session_unhold(session);
    session->holder = holder;
    return true;
}

/* ---- Lease ---- */

uint64_t
session_deadline(const struct shard *s, const struct session *session)
{
    return session->heard_ms + (session->connection != NULL ? session->lease_ms : s->config.grace_ms);
}

void
session_watch(struct shard *s, const struct session *session)
{
    if (session->state == SESSION_LIVE)
        s->lapse_at = MIN(s->lapse_at, session_deadline(s, session));
}

void
session_attach(struct shard *s, struct session *session, struct connection *c)
{
    if (session->connection != NULL)
        connection_close(s, session->connection); /* and detaches it, once the pulls that wait there are forgotten */
    session->connection = c;
    session->heard_ms = s->now_ms;
    session_watch(s, session);
}

void
session_detach(struct shard *s, struct session *session)
{
    session->connection = NULL;
    session->heard_ms = s->now_ms;
    session_watch(s, session);
}
