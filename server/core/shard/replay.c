/* One record at a time. A peer's messages were checked when they came; here the log itself may be damaged, so numbers
 * are checked again before they are used. */
#include "server/core/shard/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "server/core/durability/drop_erase.h"
#include "server/core/durability/drop_ids.h"
#include "server/core/durability/identity.h"
#include "server/core/journal/redo_record.h"
#include "server/core/shard/drop.h"
#include "server/core/shard_state.h"
#include "server/core/store/value_sum.h"

#define CLOCK_MAX (UINT64_C(1) << 62) /* as for messages */

struct replay {
    struct redo_head head; /* of the record that is being put together */
    uint64_t next;         /* piece that comes next; 0: any may */
    uint8_t *bytes;        /* of the record, 64-byte aligned */
    size_t len, size;
    uint64_t records;
    bool stale; /* rows were put into the store: what is in memory is older */
};

void
replay_free(struct replay *r)
{
    if (r == NULL)
        return;
    free(r->bytes);
    free(r);
}

static enum ps_err
replay_damaged(const struct replay *r, struct ps_error *e, const char *what)
{
    return ps_fail(e, PS_ERR_IO, "the redo log is damaged: piece %" PRIu64 " %s", r->head.number, what);
}

/* ---- Pieces ---- */

static bool
goes_on(const struct redo_head *record, const struct redo_head *head)
{
    return head->record == record->record && head->piece == record->piece + 1 && head->pieces == record->pieces &&
           head->meta_len == record->meta_len && head->payload_len == record->payload_len;
}

static enum ps_err
check_piece(struct replay *r, struct span piece, struct redo_head *head, struct ps_error *e)
{
    bool within = r->len > 0, is_summed;
    struct store_key key;

    if (piece.len < sizeof *head)
        return ps_fail(e, PS_ERR_IO, "the redo log is damaged: a piece of %zu bytes", piece.len);
    memcpy(head, piece.data, sizeof *head);
    is_summed = (head->format & REDO_SUMMED) != 0;
    head->format &= (uint16_t)~REDO_SUMMED;
    if (head->format < REDO_FORMAT || head->format > REDO_FORMAT_ASSIGNS)
        return ps_fail(e, PS_ERR_VERSION, "piece %" PRIu64 " of the redo log has format %u, this psd knows format %d",
                       head->number, head->format, REDO_FORMAT_ASSIGNS);
    key = store_redo_key(head->number);
    if (is_summed && !value_sum_holds(&key, piece))
        return ps_fail(e, PS_ERR_IO, "the redo log is damaged: piece %" PRIu64 " does not have its checksum",
                       r->next != 0 ? r->next : head->number);
    if (r->next != 0 && head->number != r->next)
        return ps_fail(e, PS_ERR_IO, "the redo log is damaged: piece %" PRIu64 " comes where %" PRIu64 " was expected",
                       head->number, r->next);
    if (head->len == 0 || head->len > piece.len - sizeof *head || head->piece >= head->pieces ||
        head->number != head->record + head->piece || head->number == 0 || head->number >= STORE_REDO_MAX ||
        record_gradients(head->meta_len) + head->payload_len > REPLAY_RECORD_MAX ||
        head->payload_len > REPLAY_RECORD_MAX) {
        r->head = *head;
        return replay_damaged(r, e, "has a head that cannot be");
    }
    if (within ? !goes_on(&r->head, head) : head->piece != 0) {
        r->head = *head;
        return replay_damaged(r, e, "does not go on where the one before it ended");
    }
    return PS_OK;
}

static bool
replay_append(struct replay *r, const void *bytes, size_t len)
{
    size_t size = MAX(r->size, (size_t)(64 * KIB));
    uint8_t *bigger;

    while (size < r->len + len)
        size *= 2;
    if (size > r->size) {
        if ((bigger = aligned_alloc(64, size)) == NULL)
            return false;
        if (r->len > 0)
            memcpy(bigger, r->bytes, r->len);
        free(r->bytes);
        r->bytes = bigger;
        r->size = size;
    }
    memcpy(r->bytes + r->len, bytes, len);
    r->len += len;
    return true;
}

/* ---- Turns ---- */

static enum ps_err
replay_commit(struct shard *s, struct ps_error *e)
{
    enum ps_err err = shard_commit(s);

    return err == PS_OK ? PS_OK : ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
}

/* So much may be written; commits what was, when there is no room for more. */
static enum ps_err
replay_reserve(struct shard *s, uint64_t bytes, struct ps_error *e)
{
    enum ps_err err;

    for (;;)
        switch (turn_room(s, bytes, &err)) {
        case TURN_READY:
            return PS_OK;
        case TURN_WAIT:
            if ((err = replay_commit(s, e)) != PS_OK)
                return err;
            break;
        case TURN_REFUSED:
            return ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
        }
}

/* Load memory again from the store. */
static enum ps_err
replay_reload(struct shard *s, struct ps_error *e)
{
    enum ps_err err;

    if (!s->replay->stale)
        return PS_OK;
    if ((err = replay_commit(s, e)) != PS_OK)
        return err;
    s->replay->stale = false;
    return catalog_reload(s, e) ? PS_OK : e->code;
}

/* ---- Rows ---- */

/* Whether the row of the job still has the slot of this number. */
static bool
row_has_slot(const Psd__JobRow *row, const struct assign_slot *slot)
{
    for (size_t i = 0; row->assigns != NULL && i < row->assigns->n_slot; i++)
        if (row->assigns->slot[i]->number == slot->number)
            return true;
    return false;
}

/* Blocks took these values in the background, or they were given up, and they were erased, which the log does not say:
 * by the time of the next row that has not got their slot any more, all of them had, and when a row has another assign
 * in their slot, they were gone. */
static enum ps_err
end_for_row(struct shard *s, struct job *job, const Psd__JobRow *row, struct ps_error *e)
{
    enum ps_err err;

    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++) {
        struct assign_slot *slot = &job->assigns.slot[i];

        if (slot->state == ASSIGN_FREE || row_has_slot(row, slot))
            continue;
        while (!assign_end_slot(s, job, slot, &err))
            if ((err = replay_commit(s, e)) != PS_OK)
                return err;
        if (err != PS_OK)
            return ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
    }
    return PS_OK;
}

static enum ps_err
before_job_row(struct shard *s, const Psd__RedoRow *m, struct ps_error *e)
{
    uint32_t id = m->table == STORE_JOBS ? row_id((struct span){m->key.data, m->key.len}) : 0;
    Psd__JobRow *row;
    enum ps_err err;

    if (id == 0 || (err = replay_reload(s, e)) != PS_OK)
        return id == 0 ? PS_OK : err;
    if (id > s->jobs_len || s->jobs_by_id[id] == NULL)
        return PS_OK;
    if ((row = psd__job_row__unpack(NULL, m->value.len, m->value.data)) == NULL)
        return replay_damaged(s->replay, e, "has a row that cannot be");
    err = end_for_row(s, s->jobs_by_id[id], row, e);
    psd__job_row__free_unpacked(row, NULL);
    return err;
}

static enum ps_err
put_row(struct shard *s, const Psd__RedoRow *row, struct ps_error *e)
{
    struct span key = {row->key.data, row->key.len}, value = {row->value.data, row->value.len};
    enum ps_err err;

    if (row->table <= STORE_SHARD || row->table >= STORE_TABLES || key.len == 0 || key.len > STORE_ROW_KEY_MAX ||
        value.len > STORE_ROW_MAX)
        return replay_damaged(s->replay, e, "has a row that cannot be");
    if ((err = before_job_row(s, row, e)) != PS_OK)
        return err;
    /* Marked rows are older than this one, and would be written over it. */
    if (s->turn.rows > 0 && (err = replay_commit(s, e)) != PS_OK)
        return err;
    if ((err = replay_reserve(s, STORE_ROW_ROOM, e)) != PS_OK)
        return err;
    turn_take_rows(s, 1);
    s->replay->stale = true;
    err = s->store->ops->row_put(s->store, (enum store_table)row->table, key, value);
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
}

/* ---- Updates ---- */

/* Blocks are made in the background elsewhere; here the block is made at once. */
static enum ps_err
make_blocks(struct shard *s, struct variable *v, struct ps_error *e)
{
    enum ps_err err;

    block_want(s, v);
    while (v->ready < v->count && v->working) {
        if (!block_work(s) || s->turn.failed != PS_OK) {
            if ((err = replay_commit(s, e)) != PS_OK)
                return err;
        }
    }
    return v->ready == v->count
               ? PS_OK
               : ps_fail(e, PS_ERR_FULL, "no room for the blocks of variable '%.64s' of the redo log", v->name);
}

static enum ps_err
find_block(struct shard *s, uint32_t var, uint32_t block, struct block_ref *out, struct ps_error *e)
{
    struct variable *v = variable_find(s, var);
    enum ps_err err;

    if (v == NULL || !block_lies_here(s, v, block))
        return replay_damaged(s->replay, e, "is for a block that is not known");
    if (v->ready < v->count && (err = make_blocks(s, v, e)) != PS_OK)
        return err;
    block_refind(s, var, block, out);
    return PS_OK;
}

/* A value that waits. One whose assign is of no row any more is of no interest. */
static enum ps_err
replay_apply_staged(struct shard *s, const Psd__RedoRecord *m, size_t i, const float *values, size_t *bytes,
                    struct ps_error *e)
{
    struct assign_slot *slot;
    struct block_ref ref;
    enum ps_err err;

    if ((err = find_block(s, m->var[i], m->block[i], &ref, e)) != PS_OK)
        return err;
    if (block_gradient_bytes(&ref) > *bytes)
        return replay_damaged(s->replay, e, "has fewer values than its blocks need");
    *bytes -= block_gradient_bytes(&ref);
    if ((slot = assigns_find(&ref.variable->job->assigns, m->staged[i])) == NULL)
        return PS_OK;
    if ((err = replay_reserve(s, staged_size(&ref), e)) != PS_OK)
        return err;
    turn_mark_job(s, ref.variable->job);
    err = staged_put(s, &ref, slot, m->scale[i], values);
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
}

/* A block takes what it has taken before such an update, or at the clock that this one has brought it to. */
static enum ps_err
replay_settle(struct shard *s, struct block_ref *ref, uint64_t clock, struct ps_error *e)
{
    enum ps_err err = assign_settle_block(s, ref, clock);

    return err == PS_OK ? PS_OK : ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
}

static enum ps_err
replay_apply_update(struct shard *s, const Psd__RedoRecord *m, size_t i, const float *gradient, size_t *bytes,
                    struct ps_error *e)
{
    struct block_ref ref;
    uint64_t clock = m->clock[i];
    enum ps_err err;

    if ((err = find_block(s, m->var[i], m->block[i], &ref, e)) != PS_OK)
        return err;
    if (block_gradient_bytes(&ref) > *bytes)
        return replay_damaged(s->replay, e, "has fewer gradients than its blocks need");
    *bytes -= block_gradient_bytes(&ref);
    if (!isfinite(m->scale[i]) || (job_is_sync(ref.variable->job) ? clock == 0 || clock > CLOCK_MAX : clock != 0) ||
        (ref.variable->def->refuse_nonfinite && ref.variable->kind->magnitude(&ref, gradient) == OPTIMIZER_NONFINITE))
        return replay_damaged(s->replay, e, "has numbers that cannot be");
    if ((err = replay_reserve(s, ref.size, e)) != PS_OK ||
        (err = replay_settle(s, &ref, clock > 0 ? clock - 1 : 0, e)) != PS_OK)
        return err;
    if ((err = turn_touch(s, &ref)) != PS_OK)
        return ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
    err = update_apply_at(s, &ref, &(struct gradient){.values = gradient}, m->scale[i], clock,
                          job_is_sync(ref.variable->job) ? update_when(ref.variable, clock) : m->when_clock);
    if (err == PS_ERR_NOMEM)
        return ps_fail(e, err, "no memory to replay the redo log");
    return replay_settle(s, &ref, clock, e); /* an update that overflows was refused by this psd, and taken by those
                                                before it */
}

static enum ps_err
replay_apply_updates(struct shard *s, const Psd__RedoRecord *m, struct ps_error *e)
{
    const struct redo_head *head = &s->replay->head;
    const uint8_t *gradients = s->replay->bytes + record_gradients(head->meta_len);
    size_t left = head->payload_len;
    enum ps_err err;

    if (m->n_block != m->n_var || m->n_scale != m->n_var || m->n_clock != m->n_var ||
        (m->n_staged != 0 && m->n_staged != m->n_var) || head->payload_len % CUT_VALUE_BYTES != 0)
        return replay_damaged(s->replay, e, "has updates that do not fit together");
    for (size_t i = 0; i < m->n_var; i++) {
        const float *next = (const float *)(const void *)(gradients + head->payload_len - left);

        if (m->n_staged != 0 && m->staged[i] != 0)
            err = replay_apply_staged(s, m, i, next, &left, e);
        else
            err = replay_apply_update(s, m, i, next, &left, e);
        if (err != PS_OK)
            return err;
    }
    return left == 0 ? PS_OK : replay_damaged(s->replay, e, "has more gradients than its blocks need");
}

/* ---- Cursors ---- */

static enum ps_err
replay_apply_count(struct shard *s, const Psd__RedoRecord *m, const Psd__RedoCount *c, struct ps_error *e)
{
    struct session *session = session_find(s, c->job, c->task);
    struct data_cursor_span span = {.from = data_cursor_of(c->from), .end = data_cursor_of(c->cursor)};

    if (session == NULL)
        return replay_damaged(s->replay, e, "is of a worker that is not known");
    if (c->metrics != NULL && c->metrics->n_value > WIRE_METRICS_MAX)
        return replay_damaged(s->replay, e, "has more metrics than a worker may have");
    worker_metrics_take(&session->metrics, c->metrics);
    turn_mark_session(s, session);
    for (size_t i = 0; i < c->n_update; i++) {
        struct block_ref ref;

        if (c->update[i] >= m->n_var)
            return replay_damaged(s->replay, e, "counts what it does not update");
        block_refind(s, m->var[c->update[i]], m->block[c->update[i]], &ref);
        data_steps_count(s, session, &span, &ref);
    }
    return PS_OK;
}

/* ---- Pushes ---- */

static enum ps_err
replay_apply_push(struct shard *s, const Psd__RedoPush *p, struct ps_error *e)
{
    struct session *session = session_find(s, p->job, p->task);

    if (session == NULL || p->clock > CLOCK_MAX || p->code >= PS_ERR_COUNT)
        return replay_damaged(s->replay, e, "is of a worker that is not known");
    if (session->incarnation != p->incarnation || p->seq <= session->last_seq)
        return PS_OK; /* replaced meanwhile, or in the save */
    if (!sequence_replay_push(session, p->seq, p->acked_through, (enum ps_err)p->code))
        return ps_fail(e, PS_ERR_NOMEM, "no memory to replay the redo log");
    session->clock = MAX(session->clock, p->clock);
    session->held_clock = MAX(session->held_clock, p->clock);
    turn_mark_session(s, session);
    return PS_OK;
}

/* ---- Assigns ---- */

static enum ps_err
replay_apply_assigned(struct shard *s, const Psd__RedoAssigned *a, struct ps_error *e)
{
    struct session *session = session_find(s, a->job, a->task);

    if (session == NULL)
        return replay_damaged(s->replay, e, "is of a worker that is not known");
    if (session->incarnation != a->incarnation)
        return PS_OK; /* replaced meanwhile */
    session->assigned = MAX(session->assigned, a->attempt);
    turn_mark_session(s, session);
    return PS_OK;
}

/* ---- Drops ---- */

/* All of it is erased at once: later records may give its ids again. */
static enum ps_err
replay_erase(struct shard *s, struct ps_error *e)
{
    enum ps_err err;

    while (drop_erase_busy(s))
        if (!drop_erase_work(s) && (err = replay_commit(s, e)) != PS_OK)
            return err;
    if ((err = replay_commit(s, e)) != PS_OK)
        return err;
    return s->drops.variables == NULL && s->drops.jobs == NULL
               ? PS_OK
               : ps_fail(e, PS_ERR_FULL, "no room to erase what the redo log says was dropped");
}

static enum ps_err
replay_apply_drop(struct shard *s, const Psd__RedoDrop *d, struct ps_error *e)
{
    struct job *job = d->job >= 1 && d->job <= s->jobs_len ? s->jobs_by_id[d->job] : NULL;
    enum ps_err err;

    if (job == NULL || job->dropped)
        return replay_damaged(s->replay, e, "drops a job that is not known");
    if ((err = replay_reserve(s, 2 * STORE_ROW_ROOM, e)) != PS_OK)
        return err;
    turn_take_rows(s, 2);
    if ((err = drop_ids_put(s)) != PS_OK)
        return ps_fail(e, err, "the store cannot be written: %s", ps_strerror(err));
    for (size_t i = 0; i < d->n_var; i++) {
        struct variable *v = variable_find(s, d->var[i]);

        if (v == NULL || v->job != job)
            return replay_damaged(s->replay, e, "drops a variable that is not known");
        if ((err = replay_reserve(s, STORE_ROW_ROOM, e)) != PS_OK)
            return err;
        turn_take_rows(s, 1);
        drop_variable(s, v, "");
    }
    if (d->n_var == 0)
        drop_job(s, job, "");
    if ((err = replay_commit(s, e)) != PS_OK)
        return err;
    return replay_erase(s, e);
}

static enum ps_err
replay_apply_drops(struct shard *s, const Psd__RedoRecord *m, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if (m->n_drop > 0 && (err = replay_reload(s, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < m->n_drop && err == PS_OK; i++)
        err = replay_apply_drop(s, m->drop[i], e);
    return err;
}

/* ---- Records ---- */

/* What the record brings is of this format. */
static enum ps_err
replay_raise_format(struct shard *s, struct ps_error *e)
{
    enum ps_err err;

    if (s->replay->head.format != REDO_FORMAT_ASSIGNS || s->format >= SHARD_FORMAT_ASSIGNS)
        return PS_OK;
    if ((err = replay_reserve(s, STORE_ROW_ROOM, e)) != PS_OK)
        return err;
    turn_take_rows(s, 1);
    err = identity_raise(s, SHARD_FORMAT_ASSIGNS);
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
}

static enum ps_err
replay_apply_record(struct shard *s, const Psd__RedoRecord *m, struct ps_error *e)
{
    enum ps_err err;

    if ((err = replay_raise_format(s, e)) != PS_OK)
        return err;

    for (size_t i = 0; i < m->n_row; i++)
        if ((err = put_row(s, m->row[i], e)) != PS_OK)
            return err;
    if ((err = replay_apply_drops(s, m, e)) != PS_OK)
        return err;
    if (m->n_var > 0 || m->n_push > 0 || m->n_assigned > 0 || s->replay->head.payload_len > 0)
        if ((err = replay_reload(s, e)) != PS_OK)
            return err;
    if ((err = replay_apply_updates(s, m, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < m->n_count; i++)
        if ((err = replay_apply_count(s, m, m->count[i], e)) != PS_OK)
            return err;
    for (size_t i = 0; i < m->n_push; i++)
        if ((err = replay_apply_push(s, m->push[i], e)) != PS_OK)
            return err;
    for (size_t i = 0; i < m->n_assigned; i++)
        if ((err = replay_apply_assigned(s, m->assigned[i], e)) != PS_OK)
            return err;
    return PS_OK;
}

static enum ps_err
whole_record(struct shard *s, struct ps_error *e)
{
    struct replay *r = s->replay;
    Psd__RedoRecord *m;
    enum ps_err err;

    if (r->len != record_gradients(r->head.meta_len) + r->head.payload_len)
        return replay_damaged(r, e, "ends a record of another length");
    arena_reset(&s->arena);
    m = psd__redo_record__unpack(arena_protobuf(&s->arena), r->head.meta_len, r->bytes);
    if (m == NULL)
        return s->arena.exceeded == PS_ERR_NOMEM ? ps_fail(e, PS_ERR_NOMEM, "no memory to replay the redo log")
                                                 : replay_damaged(r, e, "is of a record that cannot be read");
    err = replay_apply_record(s, m, e);
    r->len = 0;
    r->records++;
    return err;
}

static enum ps_err
replay_begin(struct shard *s, struct ps_error *e)
{
    if (s->replay != NULL)
        return PS_OK;
    if ((s->replay = calloc(1, sizeof *s->replay)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to replay the redo log");
    redo_pause(s);
    return PS_OK;
}

enum ps_err
shard_replay_piece(struct shard *s, struct span piece, struct ps_error *e)
{
    struct redo_head head;
    struct replay *r;
    enum ps_err err;

    if ((err = replay_begin(s, e)) != PS_OK)
        return err;
    r = s->replay;
    if ((err = check_piece(r, piece, &head, e)) != PS_OK)
        return err;
    r->head = head;
    r->next = head.number + 1;
    if (r->len + head.len > REPLAY_RECORD_MAX)
        return replay_damaged(r, e, "belongs to a record that is too long");
    if (!replay_append(r, (const uint8_t *)piece.data + sizeof head, head.len))
        return ps_fail(e, PS_ERR_NOMEM, "no memory to replay the redo log");
    return head.piece + 1 < head.pieces ? PS_OK : whole_record(s, e);
}

enum ps_err
shard_replay_end(struct shard *s, uint64_t *records, struct ps_error *e)
{
    enum ps_err err;

    if ((err = replay_begin(s, e)) != PS_OK)
        return err;
    if (s->replay->len > 0)
        return replay_damaged(s->replay, e, "is the last one, and its record is not whole");
    /* What follows from clocks and counts is found when all is loaded. */
    if ((err = replay_commit(s, e)) != PS_OK)
        return err;
    if (!catalog_reload(s, e))
        return e->code;
    *records = s->replay->records;
    redo_resume(s, s->replay->next);
    replay_free(s->replay);
    s->replay = NULL;
    return PS_OK;
}
