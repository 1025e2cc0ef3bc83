/* Chunks are found by ordinal and made when the first bit in them is set. */
#include "server/core/sessions/cursor.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "server/core/shard/shard_state.h"

static bool
equal(struct cursor a, struct cursor b)
{
    return a.epoch == b.epoch && a.position == b.position;
}

static struct cursor
later(struct cursor a, struct cursor b)
{
    return cursor_before(a, b) ? b : a;
}

struct cursor
cursor_of(const Psd__Cursor *m)
{
    return m != NULL ? (struct cursor){m->epoch, m->position} : (struct cursor){0};
}

Psd__Cursor *
cursor_message(struct cursor c, Psd__Cursor *room)
{
    psd__cursor__init(room);
    room->epoch = c.epoch;
    room->position = c.position;
    return cursor_none(c) ? NULL : room;
}

struct cursor_span
cursor_span(const Psd__Push *m)
{
    return (struct cursor_span){cursor_of(m->cursor_from), cursor_of(m->cursor), m->cursor_from != NULL};
}

bool
cursor_span_equal(const struct cursor_span *a, const struct cursor_span *b)
{
    return equal(a->from, b->from) && equal(a->end, b->end) && a->begins == b->begins;
}

/* ---- Steps ---- */

enum ps_err
cursor_check(const struct session *session, const struct cursor_span *span, struct ps_error *e)
{
    const struct cursors *x = &session->cursors;
    struct cursor newest = later(x->at, x->step), end = span->end;

    if (!cursor_before(x->at, end) || equal(end, x->step))
        return PS_OK;
    if (cursor_before(newest, end) && (!span->begins || !cursor_before(span->from, newest)))
        return PS_OK;
    /* One that gives no beginning begins where the last one ended. */
    return ps_fail(e, PS_ERR_INVALID,
                   "worker %u's step up to %" PRIu64 ":%" PRIu64 " begins before %" PRIu64 ":%" PRIu64
                   ", which some blocks have counted, and does not end there: it must be cut as before",
                   session->task, end.epoch, end.position, newest.epoch, newest.position);
}

/* Sync: a push of an older step waits. */
static bool
older_waits(const struct session *session, struct cursor end)
{
    const struct pending *p;

    DL_FOREACH (session->pending, p)
        if (!cursor_none(p->span.end) && cursor_before(p->span.end, end))
            return true;
    return false;
}

void
cursor_tick(struct session *session, struct cursor end)
{
    struct cursors *x = &session->cursors;
    const struct pending *p;

    if (!cursor_before(x->at, end))
        return;
    DL_FOREACH (session->pending, p)
        if (!cursor_none(p->span.end))
            return;
    x->at = end;
    if (!cursor_before(end, x->step))
        x->step = (struct cursor){0};
}

/* The step that bits are of from now on. False: it is none of which bits are kept. */
static bool
enter(struct session *session, const struct cursor_span *span)
{
    struct cursors *x = &session->cursors;

    if (equal(x->step, span->end))
        return true;
    if (!cursor_before(later(x->at, x->step), span->end) || older_waits(session, span->end))
        return false;
    x->at = later(later(x->at, x->step), span->from);
    x->step = span->end;
    return true;
}

/* ---- Bits ---- */

static uint64_t
ordinal(const struct block_ref *ref)
{
    return ref->variable->first + (uint64_t)(ref->block - ref->variable->blocks);
}

static struct cursor_chunk *
chunk_find(const struct cursors *x, uint64_t ordinal)
{
    uint64_t i = ordinal / CURSOR_CHUNK;

    return i < x->chunks_len ? x->chunks[i] : NULL;
}

static struct cursor_chunk *
chunk_make(struct cursors *x, uint64_t i)
{
    if (i >= x->chunks_len) {
        uint32_t len = (uint32_t)i + 1;
        struct cursor_chunk **bigger = realloc(x->chunks, len * sizeof(struct cursor_chunk *));

        if (bigger == NULL)
            return NULL;
        memset(bigger + x->chunks_len, 0, (len - x->chunks_len) * sizeof(struct cursor_chunk *));
        x->chunks = bigger;
        x->chunks_len = len;
    }
    if (x->chunks[i] == NULL)
        x->chunks[i] = calloc(1, sizeof *x->chunks[i]);
    return x->chunks[i];
}

bool
cursor_counted(const struct session *session, struct cursor end, const struct block_ref *ref)
{
    const struct cursors *x = &session->cursors;
    const struct cursor_chunk *chunk;
    uint64_t bit = ordinal(ref) % CURSOR_CHUNK;

    if (cursor_none(end) || PLANTED(COUNTED_AGAIN))
        return false;
    if (!cursor_before(x->at, end))
        return true;
    chunk = equal(end, x->step) ? chunk_find(x, ordinal(ref)) : NULL;
    return chunk != NULL && equal(chunk->step, end) && (chunk->bits[bit / 8] >> bit % 8 & 1) != 0;
}

static void
mark(struct shard *s, struct session *session, struct cursor_chunk *chunk)
{
    turn_mark_session(s, session);
    if (chunk->dirty)
        return;
    chunk->dirty = true;
    session->cursors.dirty++;
}

void
cursor_count(struct shard *s, struct session *session, const struct cursor_span *span, const struct block_ref *ref)
{
    struct cursor_chunk *chunk;
    uint64_t bit = ordinal(ref) % CURSOR_CHUNK;

    if (cursor_none(span->end) || !enter(session, span))
        return;
    if ((chunk = chunk_make(&session->cursors, ordinal(ref) / CURSOR_CHUNK)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    if (!equal(chunk->step, span->end)) {
        memset(chunk->bits, 0, sizeof chunk->bits);
        chunk->step = span->end;
    }
    s->cursors_used = true;
    chunk->bits[bit / 8] |= (uint8_t)(1u << bit % 8);
    mark(s, session, chunk);
}

/* The same numbers come again, so no bits may be left. */
void
cursor_reset(struct shard *s, struct session *session)
{
    struct cursors *x = &session->cursors;

    x->at = x->step = (struct cursor){0};
    for (uint32_t i = 0; i < x->chunks_len; i++) {
        if (x->chunks[i] == NULL || cursor_none(x->chunks[i]->step))
            continue;
        x->chunks[i]->step = (struct cursor){0};
        mark(s, session, x->chunks[i]);
    }
}

/* ---- Rows ---- */

struct cursor_key {
    uint32_t job, task, chunk; /* big-endian */
};

static enum ps_err
put_chunk(struct shard *s, const struct session *session, uint32_t number)
{
    const struct cursor_chunk *chunk = session->cursors.chunks[number];
    struct cursor_key key = {htobe32(session->job->id), htobe32(session->task), htobe32(number)};
    Psd__CursorRow row = PSD__CURSOR_ROW__INIT;
    Psd__Cursor step;
    uint8_t bytes[sizeof chunk->bits + 64];
    size_t len = cursor_none(chunk->step) ? 0 : sizeof chunk->bits;

    row.step = cursor_message(chunk->step, &step);
    while (len > 0 && chunk->bits[len - 1] == 0)
        len--;
    row.blocks = (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)chunk->bits};
    len = psd__cursor_row__get_packed_size(&row);
    ps_assert(len <= sizeof bytes);
    psd__cursor_row__pack(&row, bytes);
    return s->store->ops->row_put(s->store, STORE_CURSORS, (struct span){&key, sizeof key}, (struct span){bytes, len});
}

enum ps_err
cursor_put(struct shard *s, struct session *session)
{
    struct cursors *x = &session->cursors;

    for (uint32_t i = 0; x->dirty > 0 && i < x->chunks_len; i++) {
        enum ps_err err;

        if (x->chunks[i] == NULL || !x->chunks[i]->dirty)
            continue;
        if (!PLANTED(BITS_NOT_KEPT) && (err = put_chunk(s, session, i)) != PS_OK)
            return err;
        x->chunks[i]->dirty = false;
        x->dirty--;
    }
    return PS_OK;
}

/* Bits of another step mean nothing, and less when its numbers come again: such a row is written anew. */
static void
take_row(struct cursors *x, struct cursor_chunk *chunk, const Psd__CursorRow *row)
{
    struct cursor step = cursor_of(row->step);

    if (equal(step, x->step) && row->blocks.len > 0) {
        chunk->step = step;
        memcpy(chunk->bits, row->blocks.data, row->blocks.len);
    } else if (!cursor_none(step)) {
        chunk->dirty = true;
        x->dirty++;
    }
}

static bool
load_chunk(void *arg, struct span key, struct span value)
{
    struct row_load *l = arg;
    struct cursor_key at = {0};
    Psd__CursorRow *row = psd__cursor_row__unpack(NULL, value.len, value.data);
    struct session *session;
    struct cursor_chunk *chunk;
    enum ps_err err = PS_ERR_IO;

    memcpy(&at, key.data, MIN(sizeof at, key.len));
    session = session_find(l->s, be32toh(at.job), be32toh(at.task));
    if (row == NULL || key.len != sizeof at || session == NULL || row->blocks.len > CURSOR_CHUNK / 8 ||
        be32toh(at.chunk) > l->s->ordinals / CURSOR_CHUNK)
        goto out;
    err = PS_ERR_NOMEM;
    if ((chunk = chunk_make(&session->cursors, be32toh(at.chunk))) == NULL)
        goto out;
    l->s->cursors_used = true;
    err = PS_OK;
    take_row(&session->cursors, chunk, row);
out:
    if (row != NULL)
        psd__cursor_row__free_unpacked(row, NULL);
    return err == PS_OK || row_load_stop(l, err, "cursors of job", be32toh(at.job));
}

enum ps_err
cursor_load(struct shard *s, struct ps_error *e)
{
    struct row_load l = {.s = s, .e = e};
    enum ps_err err = s->store->ops->each_row(s->store, STORE_CURSORS, load_chunk, &l);

    if (l.err != PS_OK)
        return l.err;
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
}

void
cursor_finish(struct session *session)
{
    struct cursors *x = &session->cursors;

    for (uint32_t i = 0; i < x->chunks_len; i++)
        free(x->chunks[i]);
    free(x->chunks);
    *x = (struct cursors){0};
}
