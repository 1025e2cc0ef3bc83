/* Figures of the loop: requested when a client waits, or the history needs a sample, not more often than
 * HTTP_FIGURES_MS. */
#include "common/core/base/hash.h"
#include "common/system/now.h"
#include "server/http/http_internal.h"

void
http_figures_used(struct http *h, struct http_request *r)
{
    h->uses -= r->uses;
    r->uses = false;
}

/* libmicrohttpd calls the request's handler again, which finds how the wait ended. */
static void
end_wait(struct http *h, struct http_request *r, enum http_outcome outcome)
{
    DL_DELETE(h->waiting, r);
    h->waiting_len--;
    r->outcome = outcome;
    r->uses = outcome == HTTP_GIVEN;
    h->uses += r->uses;
    MHD_resume_connection(r->connection);
}

static void
end_all(struct http *h, enum http_outcome outcome)
{
    struct http_request *r, *next;

    DL_FOREACH_SAFE (h->waiting, r, next)
        end_wait(h, r, outcome);
}

/* Ends the waits that began before the loop was asked. A client that came later may have made a change that the figures
 * do not show. */
static void
end_asked(struct http *h)
{
    struct http_request *r, *next;

    DL_FOREACH_SAFE (h->waiting, r, next)
        if (r->since_us <= h->asked_us)
            end_wait(h, r, HTTP_GIVEN);
}

static void
end_late(struct http *h)
{
    uint64_t now = monotonic_us();
    struct http_request *r, *next;

    DL_FOREACH_SAFE (h->waiting, r, next)
        if (now - r->since_us >= HTTP_LOOP_MS * UINT64_C(1000))
            end_wait(h, r, HTTP_LATE);
}

void
http_figures_end(struct http *h)
{
    end_all(h, HTTP_ALONE);
}

/* The lock is held. */
static bool
http_figures_ask(struct http *h)
{
    if (h->attached && !h->asked) {
        h->asked = true;
        uv_async_send(&h->async);
    }
    return h->asked;
}

static bool
http_figures_are_due(const struct http *h, uint64_t now)
{
    return now >= h->may_ask_us && (h->waiting != NULL || now / 1000 >= history_due(h->history));
}

static void
note_given(struct http *h, uint64_t now)
{
    h->asking = false;
    h->counts.loop_seconds = (double)(now - h->asked_us) / 1e6;
    history_take(h->history, now / 1000, http_unix_seconds(), h->figures);
}

void
http_figures_go_on(struct http *h)
{
    uint64_t now = monotonic_us();
    bool given, attached;

    uv_mutex_lock(&h->lock);
    given = h->asked && h->given;
    if (given)
        h->asked = h->given = false;
    attached = h->attached;
    if (!h->asking && h->uses == 0 && http_figures_are_due(h, now) && http_figures_ask(h)) {
        h->asking = true;
        h->asked_us = now;
        h->may_ask_us = now + HTTP_FIGURES_MS * UINT64_C(1000);
    }
    uv_mutex_unlock(&h->lock);
    h->attends = attached;
    if (given)
        note_given(h, now);
    if (!attached)
        end_all(h, HTTP_ALONE);
    else if (given)
        end_asked(h);
    end_late(h);
}

uint64_t
http_figures_due(const struct http *h)
{
    uint64_t late, sample = h->attends && !h->asking ? history_due(h->history) : UINT64_MAX;

    if (h->waiting == NULL)
        return sample;
    late = h->waiting->since_us + HTTP_LOOP_MS * UINT64_C(1000);
    return MIN((h->asking ? late : MIN(late, h->may_ask_us)) / 1000 + 1, sample);
}

bool
http_figures_come(struct http *h, enum metrics_state *state)
{
    bool attached;

    uv_mutex_lock(&h->lock);
    attached = h->attached;
    *state = h->detached ? METRICS_STOPPING : METRICS_STARTING;
    uv_mutex_unlock(&h->lock);
    return attached;
}

uint64_t
http_figures_stuck_ms(struct http *h)
{
    uint64_t now = monotonic_ms(), beat;

    uv_mutex_lock(&h->lock);
    beat = h->attached ? h->beat_ms : now;
    uv_mutex_unlock(&h->lock);
    return now - MIN(beat, now);
}
