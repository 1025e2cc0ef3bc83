/* The writes of a turn: how much, and where. Blocks are written as events come; rows are linked in lists of the
 * marked. */
#include "server/core/turn/turn.h"

#include <string.h>

#include "server/core/shard_state.h"

/* Rows of cursors that one session may have to write in a turn. */
static uint64_t
turn_cursor_rows(const struct shard *s)
{
    return s->cursors_used ? s->ordinals.end / DATA_CURSOR_CHUNK + 1 : 0;
}

/* One event may mark the rows of all workers: what it resolves is the end of a step. */
static uint64_t
rows_room(const struct shard *s)
{
    uint64_t rows = s->turn.rows + s->sessions_len * (1 + turn_cursor_rows(s)) + s->jobs_len;

    return MIN(MAX(rows * STORE_ROW_ROOM, TURN_ROWS_MIN), TURN_ROWS_MAX);
}

enum ps_err
turn_begin(struct shard *s, uint64_t room, bool needed)
{
    enum ps_err err;

    do
        err = s->store->ops->begin(s->store, room);
    while (err == PS_ERR_FULL && s->upcalls->store_full(s, needed));
    return err;
}

enum turn_room
turn_room(struct shard *s, uint64_t bytes, enum ps_err *err)
{
    struct turn *t = &s->turn;
    uint64_t rows = rows_room(s);
    uint64_t most = MAX(bytes, STORE_ROOM_TURN - rows);

    ps_assert(bytes + rows <= STORE_ROOM_MAX);
    if (t->begun)
        return t->used + bytes <= t->granted ? TURN_READY : TURN_WAIT;
    /* The event writes no block, so it needs no transaction yet: for rows alone the commit begins one. */
    if (bytes == 0)
        return TURN_READY;
    *err = PS_ERR_FULL;
    if (t->full)
        return TURN_REFUSED;
    *err = turn_begin(s, most + rows, bytes == most);
    if (*err == PS_ERR_FULL && bytes < most) {
        /* Nearly full: one event at a time may still fit into what earlier ones gave back. */
        most = bytes;
        *err = turn_begin(s, most + rows, true);
    }
    t->full = *err == PS_ERR_FULL;
    if (*err != PS_OK)
        return TURN_REFUSED;
    t->begun = true;
    t->granted = most;
    return TURN_READY;
}

static enum ps_err
turn_reserve(struct shard *s, struct block_ref *ref)
{
    struct store_key key = block_key(ref);
    void *place;
    enum ps_err err;

    ps_assert(s->turn.begun);
    err = s->store->ops->reserve(s->store, &key, ref->size, &place);
    if (err == PS_ERR_FULL)
        return err;
    if (err != PS_OK) {
        turn_fail(s, err);
        return err;
    }
    s->turn.used += ref->size;
    s->turn.wrote = true;
    ref->place = place;
    ref->fresh = true;
    ref->block->turn = s->turn.number;
    ref->block->place = place;
    return PS_OK;
}

/* The save that runs has not passed the block: its new value goes under the other key. Without room for both the save
 * has to yield. */
static enum ps_err
turn_move(struct shard *s, struct block_ref *ref)
{
    enum ps_err err;

    ref->block->generation ^= 1;
    if ((err = turn_reserve(s, ref)) == PS_OK) {
        ref->moved = true;
        save_left(s, ref, 1);
        return PS_OK;
    }
    ref->block->generation ^= 1;
    if (err != PS_ERR_FULL)
        return err;
    s->upcalls->turn_full(s);
    return turn_reserve(s, ref);
}

enum ps_err
turn_touch(struct shard *s, struct block_ref *ref)
{
    struct store_key key = block_key(ref);
    struct span value;
    enum ps_err err;

    ref->fresh = ref->moved = false;
    if (ref->block->turn == s->turn.number) {
        ref->old = ref->place = ref->block->place;
        return PS_OK;
    }
    if ((err = s->store->ops->get(s->store, &key, &value)) != PS_OK) {
        /* The catalog says that it is there. */
        turn_fail(s, err == PS_ERR_NOT_FOUND ? PS_ERR_IO : err);
        return s->turn.failed;
    }
    ref->old = value.data;
    if (MUTATION(UPDATED_IN_PLACE)) {
        ref->place = (uint8_t *)(uintptr_t)value.data;
        return PS_OK;
    }
    if (s->save.state == SAVE_RUNNING && save_keeps(s, ref))
        return turn_move(s, ref);
    return turn_reserve(s, ref);
}

void
turn_unmove(struct shard *s, struct block_ref *ref)
{
    struct store_key key = block_key(ref);
    enum ps_err err;

    if (!ref->moved)
        return;
    if ((err = s->store->ops->erase(s->store, &key)) != PS_OK)
        turn_fail(s, err);
    ref->block->generation ^= 1;
    ref->block->turn = 0;
    save_left(s, ref, -1);
    ref->moved = ref->fresh = false;
}

void
turn_untouch(struct shard *s, struct block_ref *ref)
{
    turn_unmove(s, ref);
    if (ref->fresh)
        memcpy(ref->place, ref->old, ref->size);
    ref->fresh = false;
}

enum ps_err
turn_create(struct shard *s, struct block_ref *ref)
{
    return turn_reserve(s, ref);
}

void
turn_take_rows(struct shard *s, uint64_t n)
{
    ps_assert(s->turn.begun);
    s->turn.used += n * STORE_ROW_ROOM;
}

void
turn_mark_session(struct shard *s, struct session *session)
{
    if (session->marked)
        return;
    session->marked = true;
    LL_PREPEND2(s->turn.sessions, session, marked_next);
    s->turn.rows++;
}

void
turn_unmark_session(struct shard *s, struct session *session)
{
    if (!session->marked)
        return;
    session->marked = false;
    LL_DELETE2(s->turn.sessions, session, marked_next);
    s->turn.rows--;
}

void
turn_mark_variable(struct shard *s, struct variable *v)
{
    if (v->marked)
        return;
    v->marked = true;
    LL_PREPEND2(s->turn.variables, v, marked_next);
    s->turn.rows++;
}

void
turn_mark_job(struct shard *s, struct job *job)
{
    if (job->marked)
        return;
    job->marked = true;
    LL_PREPEND2(s->turn.jobs, job, marked_next);
    s->turn.rows++;
}

void
turn_wake_pulls(struct shard *s, struct job *job)
{
    job->sweep = true;
    s->sweep = true;
}

void
turn_fail(struct shard *s, enum ps_err why)
{
    ps_assert(why != PS_OK);
    if (s->turn.failed == PS_OK)
        s->turn.failed = why;
}

bool
turn_dirty(const struct shard *s)
{
    return s->turn.begun || s->turn.rows > 0 || s->turn.failed != PS_OK;
}

void
turn_next(struct shard *s)
{
    struct turn *t = &s->turn;

    ps_assert(!t->begun);
    for (struct job *j = t->jobs; j != NULL; j = j->marked_next)
        j->marked = false;
    for (struct variable *v = t->variables; v != NULL; v = v->marked_next)
        v->marked = false;
    for (struct session *x = t->sessions; x != NULL; x = x->marked_next)
        x->marked = false;
    *t = (struct turn){.number = t->number + 1};
    s->stats.turns++;
}
