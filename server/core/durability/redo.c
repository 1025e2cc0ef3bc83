/* The redo log in the live store: pieces written, handed to the disk, erased. Contents of records: redo_record.c. */
#include "server/core/durability/redo.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/model/layout.h"
#include "server/core/journal/redo_record.h"
#include "server/core/shard_state.h"

#define ERASE_ALONG 8 /* pieces erased along with a turn that writes in any case */

/* ---- Life ---- */

struct redo_scan {
    struct shard *s;
    uint64_t first, last; /* pieces that are there; 0: none */
    uint64_t waiting;     /* the first of them that is not on disk */
    uint64_t bytes;
};

static bool
scan_piece(void *arg, const struct store_key *key, struct span value)
{
    struct redo_scan *scan = arg;
    uint64_t number = store_redo_number(key);

    if (key->generation != STORE_GENERATION_REDO)
        return false;
    if (scan->first == 0)
        scan->first = number;
    scan->last = number;
    if (number >= scan->s->config.redo_next) {
        scan->waiting = scan->waiting == 0 ? number : scan->waiting;
        scan->bytes += value.len;
    }
    return true;
}

/* The newest piece number that a session knows of: an erased piece is in no store, and its number is not used again. */
static uint64_t
newest_of_sessions(const struct shard *s)
{
    uint64_t newest = 1;

    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        const struct session *x;

        if (s->jobs_by_id[id] == NULL)
            continue;
        SESSION_EACH (s->jobs_by_id[id], x)
            newest = MAX(newest, x->redo);
    }
    return newest;
}

static bool
mark_add(struct redo *r, uint64_t next, uint64_t bytes)
{
    if (r->marks_first > 0 && r->marks_first == r->marks_len)
        r->marks_first = r->marks_len = 0;
    if (r->marks_len == r->marks_size && r->marks_first > r->marks_size / 2) {
        r->marks_len -= r->marks_first;
        memmove(r->marks, r->marks + r->marks_first, r->marks_len * sizeof *r->marks);
        r->marks_first = 0;
    }
    if (r->marks_len == r->marks_size) {
        size_t size = MAX(2 * r->marks_size, (size_t)64);
        struct redo_mark *bigger = realloc(r->marks, size * sizeof *bigger);

        if (bigger == NULL)
            return false;
        r->marks = bigger;
        r->marks_size = size;
    }
    r->marks[r->marks_len++] = (struct redo_mark){next, bytes};
    r->bytes += bytes;
    return true;
}

enum ps_err
redo_load(struct shard *s, struct ps_error *e)
{
    struct store_key from = store_redo_key(0);
    struct redo_scan scan = {.s = s};
    struct redo *r = &s->redo;
    enum ps_err err = s->store->ops->each_block_from(s->store, &from, scan_piece, &scan);

    if (err != PS_OK)
        return ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
    if ((r->record = calloc(1, sizeof *r->record)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the redo log");
    r->record->pool = &s->pool;
    r->on = s->config.durable;
    r->next = r->committed = MAX(MAX(s->config.redo_next, scan.last + 1), newest_of_sessions(s));
    r->first = r->erased = scan.first != 0 ? scan.first : r->next;
    r->gap = scan.first != 0 ? scan.last + 1 : r->next;
    r->gap_end = r->next;
    r->durable = scan.waiting != 0 ? MAX(s->config.redo_next, 1) : r->next; /* the first of these may be missing */
    r->log_bytes = s->config.redo_bytes + scan.bytes;
    if (scan.waiting == 0)
        return PS_OK;
    if (!mark_add(r, r->next, scan.bytes))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the redo log");
    if (r->on)
        actions_redo(s, r->next);
    actions_hand_out(s);
    return PS_OK;
}

void
redo_finish(struct shard *s)
{
    record_free(s->redo.record);
    free(s->redo.marks);
    s->redo = (struct redo){0};
}

void
redo_pause(struct shard *s)
{
    s->redo.on = false;
}

void
redo_resume(struct shard *s, uint64_t next)
{
    struct redo *r = &s->redo;

    r->on = s->config.durable;
    r->next = MAX(MAX(r->next, next), newest_of_sessions(s));
    r->committed = r->first = r->erased = r->durable = r->next;
}

/* ---- Writing ---- */

/* A record's bytes, taken from the front: metadata, pad, gradients. */
struct redo_source {
    const struct redo_record *record;
    size_t meta_len, at; /* bytes taken before the gradients */
    size_t update, used; /* the gradient that comes next, and how much of it is taken */
};

static void
take_bytes(struct redo_source *from, uint8_t *to, size_t len)
{
    size_t gradients = record_gradients(from->meta_len), n;

    for (; len > 0 && from->at < gradients; to += n, len -= n, from->at += n) {
        if (from->at < from->meta_len) {
            n = MIN(len, from->meta_len - from->at);
            memcpy(to, from->record->meta + from->at, n);
        } else {
            n = MIN(len, gradients - from->at);
            memset(to, 0, n);
        }
    }
    for (; len > 0; to += n, len -= n) {
        const struct redo_gradient *g = &from->record->gradients[from->update];

        n = MIN(len, g->bytes - from->used);
        memcpy(to, (const uint8_t *)g->data + from->used, n);
        from->used += n;
        if (from->used == g->bytes) {
            from->used = 0;
            from->update++;
        }
    }
}

static enum ps_err
write_piece(struct shard *s, struct redo_source *from, struct redo_head *head, uint64_t left)
{
    struct store_key key = store_redo_key(head->number);
    int size_class = record_piece_class(left);
    size_t size = layout_value_size(size_class);
    uint8_t *place;
    enum ps_err err;

    if ((err = s->store->ops->reserve(s->store, &key, size, (void **)&place)) != PS_OK)
        return err;
    head->len = (uint32_t)MIN(left, record_piece_capacity(size_class));
    memcpy(place, head, sizeof *head);
    take_bytes(from, place + sizeof *head, head->len);
    memset(place + sizeof *head + head->len, 0, size - sizeof *head - head->len);
    s->turn.used += size;
    s->redo.turn_bytes += size;
    return PS_OK;
}

static enum ps_err
write_record(struct shard *s)
{
    struct redo *r = &s->redo;
    struct redo_source from = {.record = r->record};
    struct redo_head head = {.record = r->next, .format = record_format(r->record)};
    uint64_t left, pages;
    enum ps_err err;

    if (!record_pack(r->record, &from.meta_len))
        return PS_ERR_NOMEM;
    left = record_gradients(from.meta_len) + r->record->gradient_bytes;
    head.meta_len = (uint32_t)from.meta_len;
    head.payload_len = r->record->gradient_bytes;
    head.pieces = (uint32_t)record_pieces(left, &pages);
    for (; left > 0; left -= head.len, head.piece++) {
        head.number = r->next + head.piece;
        if ((err = write_piece(s, &from, &head, left)) != PS_OK)
            return err;
    }
    r->next += head.pieces;
    return PS_OK;
}

/* A repeat of these pushes, in whatever process, waits for the piece after them. */
static void
note_sessions(struct shard *s)
{
    for (size_t i = 0; i < s->redo.record->pushes_len; i++) {
        const Psd__RedoPush *p = &s->redo.record->pushes[i];
        struct session *session = session_find(s, p->job, p->task);

        if (session == NULL || session->incarnation != p->incarnation)
            continue;
        session->redo = s->redo.next;
        turn_mark_session(s, session);
    }
}

static enum ps_err
finish_record(struct shard *s)
{
    enum ps_err err = write_record(s);

    if (err == PS_OK) {
        note_sessions(s);
        durable_acks_recorded(s, s->redo.next);
        assign_recorded(s, s->redo.next);
    }
    record_clear(s->redo.record);
    return err;
}

void
redo_flush(struct shard *s)
{
    enum ps_err err;

    if (!redo_waits(s) || s->turn.failed != PS_OK)
        return;
    ps_assert(s->turn.begun);
    if ((err = finish_record(s)) != PS_OK)
        turn_fail(s, err);
}

void
redo_event_end(struct shard *s)
{
    if (s->redo.record->updates > 0)
        redo_flush(s);
}

/* ---- The end of a turn ---- */

enum ps_err
redo_turn_end(struct shard *s)
{
    struct redo *r = &s->redo;
    enum ps_err err = redo_waits(s) ? finish_record(s) : PS_OK;

    if (err != PS_OK)
        return err;
    if (r->next > r->committed) {
        if (!mark_add(r, r->next, r->turn_bytes))
            return PS_ERR_NOMEM;
        actions_redo(s, r->next);
    }
    return redo_erase(s, ERASE_ALONG);
}

void
redo_turn_over(struct shard *s, bool committed)
{
    struct redo *r = &s->redo;

    record_clear(r->record);
    if (committed) {
        r->committed = r->next;
        r->log_bytes += r->turn_bytes;
        r->turn_bytes = 0;
        r->first = r->erased;
        redo_give_up(s);
        return;
    }
    while (r->marks_len > r->marks_first && r->marks[r->marks_len - 1].next > r->committed)
        r->bytes -= r->marks[--r->marks_len].bytes;
    r->turn_bytes = 0;
    r->next = r->committed;
    r->erased = r->first;
}
