/* Chunks are found by ordinal and made when the first bit in them is set. */
#include "server/core/sessions/data_steps.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "server/core/shard_state.h"

static struct data_cursor
data_steps_later(struct data_cursor a, struct data_cursor b)
{
    return data_cursor_before(a, b) ? b : a;
}

/* ---- Steps ---- */

enum ps_err
data_steps_check(const struct session *session, const struct data_cursor_span *span, struct ps_error *e)
{
    const struct data_steps *x = &session->steps;
    struct data_cursor newest = data_steps_later(x->at, x->step), end = span->end;

    if (!data_cursor_before(x->at, end) || data_cursor_equal(end, x->step))
        return PS_OK;
    if (data_cursor_before(newest, end) && (!span->begins || !data_cursor_before(span->from, newest)))
        return PS_OK;
    /* One that gives no beginning begins where the last one ended. */
    return ps_fail(e, PS_ERR_INVALID,
                   "worker %u's step up to %" PRIu64 ":%" PRIu64 " begins before %" PRIu64 ":%" PRIu64
                   ", which some blocks have counted, and does not end there: it must be cut as before",
                   session->task, end.epoch, end.position, newest.epoch, newest.position);
}

/* Sync: a push of an older step waits. */
static bool
data_steps_older_waits(const struct session *session, struct data_cursor end)
{
    const struct pending *p;

    DL_FOREACH (session->pending, p)
        if (!data_cursor_none(p->span.end) && data_cursor_before(p->span.end, end))
            return true;
    return false;
}

/* Sync: a push of a step up to this one waits, or did before a restart and has not come again. */
static bool
data_steps_waits(const struct session *session, struct data_cursor end)
{
    const struct pending *p;

    if (sequence_awaits(session))
        return true;
    DL_FOREACH (session->pending, p)
        if (!data_cursor_none(p->span.end) && !data_cursor_before(end, p->span.end))
            return true;
    return false;
}

static void
data_steps_move(struct data_steps *x, struct data_cursor end)
{
    x->ticked = (struct data_cursor){0};
    if (!data_cursor_before(x->at, end))
        return;
    x->at = end;
    if (!data_cursor_before(end, x->step))
        x->step = (struct data_cursor){0};
}

void
data_steps_tick(struct session *session, struct data_cursor end)
{
    struct data_steps *x = &session->steps;

    if (!data_cursor_before(x->at, end))
        return;
    if (data_steps_waits(session, end))
        x->ticked = end;
    else
        data_steps_move(x, end);
}

void
data_steps_settle(struct shard *s, struct session *session)
{
    struct data_steps *x = &session->steps;

    if (data_cursor_none(x->ticked) || data_steps_waits(session, x->ticked))
        return;
    data_steps_move(x, x->ticked);
    turn_mark_session(s, session);
}

void
data_steps_forget(struct session *session)
{
    session->steps.ticked = (struct data_cursor){0};
}

/* The step that bits are of from now on. False: it is none of which bits are kept. */
static bool
data_steps_enter(struct session *session, const struct data_cursor_span *span)
{
    struct data_steps *x = &session->steps;

    if (data_cursor_equal(x->step, span->end))
        return true;
    if (!data_cursor_before(data_steps_later(x->at, x->step), span->end) || data_steps_older_waits(session, span->end))
        return false;
    x->at = data_steps_later(data_steps_later(x->at, x->step), span->from);
    x->step = span->end;
    return true;
}

/* ---- Bits ---- */

static uint64_t
data_steps_ordinal(const struct block_ref *ref)
{
    return ref->variable->first + (uint64_t)(ref->block - ref->variable->blocks);
}

static struct data_steps_chunk *
data_steps_chunk_find(const struct data_steps *x, uint64_t ordinal)
{
    uint64_t i = ordinal / DATA_CURSOR_CHUNK;

    return i < x->chunks_len ? x->chunks[i] : NULL;
}

static struct data_steps_chunk *
data_steps_chunk_make(struct data_steps *x, uint64_t i)
{
    if (i >= x->chunks_len) {
        uint32_t len = (uint32_t)i + 1;
        struct data_steps_chunk **bigger = realloc(x->chunks, len * sizeof(struct data_steps_chunk *));

        if (bigger == NULL)
            return NULL;
        memset(bigger + x->chunks_len, 0, (len - x->chunks_len) * sizeof(struct data_steps_chunk *));
        x->chunks = bigger;
        x->chunks_len = len;
    }
    if (x->chunks[i] == NULL)
        x->chunks[i] = calloc(1, sizeof *x->chunks[i]);
    return x->chunks[i];
}

bool
data_steps_counted(const struct session *session, struct data_cursor end, const struct block_ref *ref)
{
    const struct data_steps *x = &session->steps;
    const struct data_steps_chunk *chunk;
    uint64_t bit = data_steps_ordinal(ref) % DATA_CURSOR_CHUNK;

    if (data_cursor_none(end) || MUTATION(COUNTED_AGAIN))
        return false;
    if (!data_cursor_before(x->at, end))
        return true;
    chunk = data_cursor_equal(end, x->step) ? data_steps_chunk_find(x, data_steps_ordinal(ref)) : NULL;
    return chunk != NULL && data_cursor_equal(chunk->step, end) && (chunk->bits[bit / 8] >> bit % 8 & 1) != 0;
}

static void
data_steps_mark(struct shard *s, struct session *session, struct data_steps_chunk *chunk)
{
    turn_mark_session(s, session);
    if (chunk->dirty)
        return;
    chunk->dirty = true;
    session->steps.dirty++;
}

void
data_steps_count(struct shard *s, struct session *session, const struct data_cursor_span *span,
                 const struct block_ref *ref)
{
    struct data_steps_chunk *chunk;
    uint64_t bit = data_steps_ordinal(ref) % DATA_CURSOR_CHUNK;

    if (data_cursor_none(span->end) || !data_steps_enter(session, span))
        return;
    if ((chunk = data_steps_chunk_make(&session->steps, data_steps_ordinal(ref) / DATA_CURSOR_CHUNK)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    if (!data_cursor_equal(chunk->step, span->end)) {
        memset(chunk->bits, 0, sizeof chunk->bits);
        chunk->step = span->end;
    }
    s->cursors_used = true;
    chunk->bits[bit / 8] |= (uint8_t)(1u << bit % 8);
    data_steps_mark(s, session, chunk);
}

/* The same numbers come again, so no bits may be left. */
void
data_steps_reset(struct shard *s, struct session *session)
{
    struct data_steps *x = &session->steps;

    x->at = x->step = x->ticked = (struct data_cursor){0};
    for (uint32_t i = 0; i < x->chunks_len; i++) {
        if (x->chunks[i] == NULL || data_cursor_none(x->chunks[i]->step))
            continue;
        x->chunks[i]->step = (struct data_cursor){0};
        data_steps_mark(s, session, x->chunks[i]);
    }
}

/* Blocks of these ordinals are no more; others may have the numbers. */
void
data_steps_forget_blocks(struct shard *s, struct session *session, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct data_steps_chunk *chunk = data_steps_chunk_find(&session->steps, first + i);
        uint64_t bit = (first + i) % DATA_CURSOR_CHUNK;

        if (chunk == NULL || (chunk->bits[bit / 8] >> bit % 8 & 1) == 0)
            continue;
        chunk->bits[bit / 8] &= (uint8_t) ~(1u << bit % 8);
        data_steps_mark(s, session, chunk);
    }
}

/* ---- Rows ---- */

static enum ps_err
data_steps_put_chunk(struct shard *s, const struct session *session, uint32_t number)
{
    const struct data_steps_chunk *chunk = session->steps.chunks[number];
    struct data_steps_key key = {htobe32(session->job->id), htobe32(session->task), htobe32(number)};
    Psd__CursorRow row = PSD__CURSOR_ROW__INIT;
    Psd__Cursor step;
    uint8_t bytes[sizeof chunk->bits + 64];
    size_t len = data_cursor_none(chunk->step) ? 0 : sizeof chunk->bits;

    row.step = data_cursor_message(chunk->step, &step);
    while (len > 0 && chunk->bits[len - 1] == 0)
        len--;
    row.blocks = (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)chunk->bits};
    len = psd__cursor_row__get_packed_size(&row);
    ps_assert(len <= sizeof bytes);
    psd__cursor_row__pack(&row, bytes);
    return s->store->ops->row_put(s->store, STORE_CURSORS, (struct span){&key, sizeof key}, (struct span){bytes, len});
}

enum ps_err
data_steps_put(struct shard *s, struct session *session)
{
    struct data_steps *x = &session->steps;

    for (uint32_t i = 0; x->dirty > 0 && i < x->chunks_len; i++) {
        enum ps_err err;

        if (x->chunks[i] == NULL || !x->chunks[i]->dirty)
            continue;
        if (!MUTATION(BITS_NOT_KEPT) && (err = data_steps_put_chunk(s, session, i)) != PS_OK)
            return err;
        x->chunks[i]->dirty = false;
        x->dirty--;
    }
    return PS_OK;
}

enum ps_err
data_steps_erase(struct shard *s, uint32_t job_id, uint32_t task, uint32_t chunk)
{
    struct data_steps_key key = {htobe32(job_id), htobe32(task), htobe32(chunk)};

    return s->store->ops->row_erase(s->store, STORE_CURSORS, (struct span){&key, sizeof key});
}

/* Bits of another step mean nothing, and mislead when its numbers come again: such a row is written again. */
static void
data_steps_take_row(struct data_steps *x, struct data_steps_chunk *chunk, const Psd__CursorRow *row)
{
    struct data_cursor step = data_cursor_of(row->step);

    if (data_cursor_equal(step, x->step) && row->blocks.len > 0) {
        chunk->step = step;
        memcpy(chunk->bits, row->blocks.data, row->blocks.len);
    } else if (!data_cursor_none(step)) {
        chunk->dirty = true;
        x->dirty++;
    }
}

/* It is of a dropped job, and to be erased. */
static bool
data_steps_is_dropped(const struct shard *s, const struct data_steps_key *at, size_t key_len)
{
    uint32_t id = be32toh(at->job);
    struct job *job = key_len == sizeof *at && id >= 1 && id <= s->jobs_len ? s->jobs_by_id[id] : NULL;

    if (job == NULL || !job->dropped)
        return false;
    job->drop_chunks = MAX(job->drop_chunks, be32toh(at->chunk) + 1);
    return true;
}

static bool
data_steps_load_chunk(void *arg, struct span key, struct span value)
{
    struct row_load *l = arg;
    struct data_steps_key at = {0};
    Psd__CursorRow *row = psd__cursor_row__unpack(NULL, value.len, value.data);
    struct session *session;
    struct data_steps_chunk *chunk;
    enum ps_err err = PS_ERR_IO;

    memcpy(&at, key.data, MIN(sizeof at, key.len));
    session = session_find(l->s, be32toh(at.job), be32toh(at.task));
    if (data_steps_is_dropped(l->s, &at, key.len)) {
        err = PS_OK;
        goto out;
    }
    if (row == NULL || key.len != sizeof at || session == NULL || row->blocks.len > DATA_CURSOR_CHUNK / 8)
        goto out;
    err = PS_OK;
    if (be32toh(at.chunk) > l->s->ordinals.end / DATA_CURSOR_CHUNK)
        goto out; /* of variables that were dropped: it has no bits */
    err = PS_ERR_NOMEM;
    if ((chunk = data_steps_chunk_make(&session->steps, be32toh(at.chunk))) == NULL)
        goto out;
    l->s->cursors_used = true;
    err = PS_OK;
    data_steps_take_row(&session->steps, chunk, row);
out:
    if (row != NULL)
        psd__cursor_row__free_unpacked(row, NULL);
    return err == PS_OK || row_load_stop(l, err, "cursors of job", be32toh(at.job));
}

enum ps_err
data_steps_load(struct shard *s, struct ps_error *e)
{
    struct row_load l = {.s = s, .e = e};
    enum ps_err err = s->store->ops->each_row(s->store, STORE_CURSORS, data_steps_load_chunk, &l);

    if (l.err != PS_OK)
        return l.err;
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
}

void
data_steps_finish(struct session *session)
{
    struct data_steps *x = &session->steps;

    for (uint32_t i = 0; i < x->chunks_len; i++)
        free(x->chunks[i]);
    free(x->chunks);
    *x = (struct data_steps){0};
}
