/* The record is one that grows (redo_record.h) until it is written; what cannot be added to it fails the turn. */
#include "server/core/journal/redo_append.h"

#include "server/core/journal/redo_record.h"
#include "server/core/shard_state.h"

/* ---- Whether there is room ---- */

uint64_t
redo_room(const struct shard *s, uint64_t blocks, uint64_t pushes, uint64_t gradient_bytes)
{
    uint64_t pages;

    record_pieces(record_gradients(record_meta_max(s->redo.record, blocks, pushes)) + gradient_bytes +
                      s->redo.record->gradient_bytes,
                  &pages);
    return pages * LAYOUT_PAGE;
}

bool
redo_has_room(const struct shard *s, uint64_t room)
{
    return s->redo.bytes + s->redo.turn_bytes + room <= s->config.redo_bytes_max;
}

enum ps_err
redo_check(struct shard *s, uint64_t room, struct ps_error *e)
{
    const struct redo *r = &s->redo;
    if (!r->on)
        return ps_fail(e, PS_ERR_UNSUPPORTED,
                       "shard %u has no durable directory: it takes no durable pushes; psd --durable-dir gives it one",
                       s->config.shard);
    if (redo_failed(s))
        return ps_fail(e, r->failure.code, "shard %u takes no durable pushes now: %.400s", s->config.shard,
                       r->failure.text);
    if (!redo_has_room(s, room))
        return limit_refuse(s, LIMIT_REDO_BACKLOG, e, "no room for a durable push");
    return PS_OK;
}

bool
redo_failed(const struct shard *s)
{
    return s->redo.failure.code != PS_OK;
}

bool
redo_waits(const struct shard *s)
{
    return !record_empty(s->redo.record);
}

/* ---- Changes ---- */

void
redo_update(struct shard *s, const struct block_ref *ref, float scale, uint64_t when, const float *gradient, bool owned)
{
    struct redo_gradient g = {.data = gradient, .bytes = block_gradient_bytes(ref), .owned = owned};

    if (!record_add_update(s->redo.record, ref->variable->id, ref->number, scale, ref->block->clock, &g)) {
        if (owned)
            pool_give(&s->pool, (void *)(uintptr_t)gradient, g.bytes);
        turn_fail(s, PS_ERR_NOMEM);
    }
    if (!job_is_sync(ref->variable->job))
        s->redo.record->when_clock = when;
}

void
redo_staged(struct shard *s, const struct block_ref *ref, uint64_t number, float rate, const float *values)
{
    struct redo_gradient g = {.data = values, .bytes = block_gradient_bytes(ref)};

    if (!record_add_staged(s->redo.record, ref->variable->id, ref->number, rate, number, &g))
        turn_fail(s, PS_ERR_NOMEM);
}

void
redo_push(struct shard *s, const struct session *session, const struct redo_pushed *push)
{
    Psd__RedoPush m = PSD__REDO_PUSH__INIT;

    m.job = session->job->id;
    m.task = session->task;
    m.incarnation = session->incarnation;
    m.seq = push->seq;
    m.code = (uint32_t)push->code;
    m.clock = push->clock;
    m.acked_through = session->acked_through;
    if (!record_add_push(s->redo.record, &m))
        turn_fail(s, PS_ERR_NOMEM);
}

void
redo_assigned(struct shard *s, const struct session *session)
{
    Psd__RedoAssigned m = PSD__REDO_ASSIGNED__INIT;

    m.job = session->job->id;
    m.task = session->task;
    m.incarnation = session->incarnation;
    m.attempt = session->assigned;
    if (s->redo.on && !record_add_assigned(s->redo.record, &m))
        turn_fail(s, PS_ERR_NOMEM);
}

void
redo_count(struct shard *s, struct session *session, const struct data_cursor_span *span)
{
    struct worker_metrics *metrics = &session->metrics;

    if (s->turn.failed != PS_OK || data_cursor_none(span->end)) /* there may be no update that it counts for */
        return;
    if (!record_add_count(s->redo.record, session->job->id, session->task, span,
                          metrics->logged || MUTATION(SUMS_NOT_LOGGED) ? NULL : metrics)) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    metrics->logged = true;
}

void
redo_drop(struct shard *s, const struct job *job, const uint32_t *vars, size_t len)
{
    if (s->redo.on && !record_add_drop(s->redo.record, job->id, vars, len))
        turn_fail(s, PS_ERR_NOMEM);
}

enum ps_err
redo_row(struct shard *s, enum store_table table, struct span key, struct span value)
{
    if (!record_add_row(s->redo.record, table, key, value))
        turn_fail(s, PS_ERR_NOMEM);
    return PS_OK;
}
