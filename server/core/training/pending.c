/* What follows when a sequenced message is resolved: the redo log's record, the answer, steps that waited for it. */
#include "server/core/training/pending.h"

#include <stdlib.h>

#include "server/core/shard_state.h"

/* ---- At once ---- */

void
pending_caught_up(struct shard *s, struct session *session, bool awaited)
{
    if (!awaited || sequence_awaits(session))
        return;
    data_steps_settle(s, session);
    clock_moved(s, session);
    sync_step_review(s, session->job);
}

static void
pending_take(struct shard *s, struct session *session, enum ps_err code, bool push)
{
    bool awaited = sequence_awaits(session);

    sequence_take(s, session, code, push);
    pending_caught_up(s, session, awaited);
}

void
pending_resolve_next(struct shard *s, struct session *session, enum ps_err code)
{
    pending_take(s, session, code, false);
}

void
pending_resolve_next_push(struct shard *s, struct session *session, enum ps_err code)
{
    pending_take(s, session, code, true);
}

/* ---- Later ---- */

/* Codes per block, when they differ. */
static bool
pending_codes_differ(const struct pending *p, uint32_t *codes)
{
    bool differ = false;

    for (uint32_t i = 0; i < p->blocks_len; i++) {
        codes[i] = p->blocks[i].code;
        differ = differ || codes[i] != codes[0];
    }
    return differ;
}

/* Its gradients count, or were left out as the job asks for. */
static bool
pending_is_taken(enum ps_err code)
{
    return code == PS_OK || code == PS_ERR_STALE || code == PS_ERR_LATE;
}

/* A durable push is in the log when some of it is, or need not be; one that did not ask to be durable is there, too,
 * when every update that it is in is, since it shared them with one that did. */
static bool
pending_is_logged(const struct pending *p, enum ps_err code)
{
    if (p->barrier != NULL)
        return false;
    return p->durable ? p->logged || code == PS_OK : p->logged && !p->unlogged;
}

/* The piece that its answer waits for (durable_acks.h). */
static uint64_t
pending_record(struct shard *s, const struct pending *p, enum ps_err code)
{
    if (!pending_is_logged(p, code))
        return DURABLE_ACKS_NONE;
    redo_push(s, p->session, &(struct redo_pushed){.seq = p->seq, .clock = p->clock, .code = code});
    s->stats.pushes_durable += p->durable;
    return p->durable && pending_is_taken(code) ? DURABLE_ACKS_RECORD : DURABLE_ACKS_NONE;
}

static void
pending_answer(struct shard *s, const struct pending *p, uint64_t until, enum ps_err code, const char *text)
{
    struct connection *c = p->session->connection;
    uint64_t held_us;
    uint32_t *codes;
    bool differ;

    if (c == NULL || c->id != p->connection)
        return;               /* a worker that comes back asks again */
    c->turn = s->turn.number; /* should there be no memory for the answer, it must ask again */
    held_us = shard_trace_held(s, p->barrier != NULL ? TIMELINE_HELD_BARRIER : TIMELINE_HELD_GRADIENTS, p->since_ns,
                               p->session->task, p->clock);
    if (p->want_value && pending_is_taken(code)) {
        pull_answer_push(s, c, until, p, held_us);
        return;
    }
    if (until == DURABLE_ACKS_NONE)
        c->acks_held_us = MAX(c->acks_held_us, held_us);
    if (p->blocks_len <= 1 || code == PS_OK) {
        durable_acks_send(s, c, until, p->seq, code, NULL, 0, text);
        return;
    }
    if ((codes = malloc(p->blocks_len * sizeof *codes)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    differ = pending_codes_differ(p, codes);
    durable_acks_send(s, c, until, p->seq, code, differ ? codes : NULL, p->blocks_len, text);
    free(codes);
}

void
pending_resolve(struct shard *s, struct pending *p, enum ps_err code, const char *text)
{
    struct session *session = p->session;

    pending_answer(s, p, pending_record(s, p, code), code, text);
    sequence_resolve(s, p, code);
    data_steps_settle(s, session);
}

void
pending_release(struct shard *s, struct pending *p, const char *text)
{
    enum ps_err odd = PS_OK;

    ps_assert(p->left > 0);
    if (--p->left > 0)
        return;
    for (uint32_t i = 0; i < p->blocks_len && odd == PS_OK; i++)
        odd = (enum ps_err)p->blocks[i].code;
    pending_resolve(s, p, odd, text);
}

void
pending_block_done(struct shard *s, struct pending *p, uint32_t index, enum ps_err code, const char *text)
{
    ps_assert(!p->blocks[index].done);
    p->blocks[index].done = true;
    p->blocks[index].code = (uint32_t)code;
    pending_release(s, p, text);
}
