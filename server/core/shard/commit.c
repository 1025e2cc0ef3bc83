/* The changes of a turn are written: blocks are in the transaction already, records of the redo log and rows follow. */
#include "server/core/shard/commit.h"

#include "server/core/durability/drop_erase.h"
#include "server/core/durability/identity.h"
#include "server/core/shard/drain.h"
#include "server/core/shard_state.h"

/* ---- Into the store ---- */

/* Begin a turn that has only rows to write. */
static enum ps_err
commit_begin(struct shard *s)
{
    uint64_t room = MIN(64 * KIB + s->turn.rows * STORE_ROW_ROOM, STORE_ROOM_TURN);
    uint64_t redo = redo_waits(s) ? redo_room(s, 0, 0, 0) : 0;
    enum ps_err err = turn_begin(s, MIN(room + redo, STORE_ROOM_MAX), true);

    s->turn.begun = err == PS_OK;
    return err;
}

static enum ps_err
commit_put_rows(struct shard *s)
{
    struct turn *t = &s->turn;
    enum ps_err err = PS_OK;

    for (struct job *j = t->jobs; j != NULL && err == PS_OK; j = j->marked_next)
        err = job_put(s, j, row_to_store);
    for (struct variable *v = t->variables; v != NULL && err == PS_OK; v = v->marked_next)
        err = variable_put(s, v, row_to_store);
    for (struct session *x = t->sessions; x != NULL && err == PS_OK; x = x->marked_next)
        if ((err = session_row_put(s, x, row_to_store)) == PS_OK)
            err = data_steps_put(s, x);
    return err;
}

/* Write what waits for it and commit. On error nothing of the turn is in the store and heap state is ahead of it. */
static enum ps_err
commit_store(struct shard *s)
{
    struct turn *t = &s->turn;
    enum ps_err err;

    if (!turn_dirty(s) && !redo_waits(s))
        return PS_OK;
    if ((err = t->failed) == PS_OK && !t->begun)
        err = commit_begin(s);
    if (err == PS_OK)
        err = redo_turn_end(s);
    if (err == PS_OK)
        err = commit_put_rows(s);
    if (err != PS_OK) {
        if (t->begun)
            s->store->ops->abort(s->store);
        t->begun = false;
        return err;
    }
    t->begun = false; /* commit ends it either way */
    if ((err = s->store->ops->commit(s->store)) != PS_OK)
        return err;
    s->stats.commits++;
    save_committed(s, t->wrote || t->rows > 0);
    s->drops.no_room = s->drops.no_room && !t->wrote && t->rows == 0;
    assign_turn_over(s);
    return PS_OK;
}

/* ---- A turn that failed ---- */

bool
shard_reload(struct shard *s, struct ps_error *e)
{
    bool ok = catalog_reload(s, e);

    identity_reload(s);
    restore_reloaded(s);
    return ok;
}

static bool
commit_something_waits(const struct connection *c)
{
    return c->parked_len > 0 || c->declares_len > 0 || c->assigns_len > 0 ||
           (c->session != NULL && c->session->pending_len > 0);
}

/* Close those that took part in the turn, or had something waiting. */
static void
commit_end_connections(struct shard *s)
{
    struct connection *c, *next;

    if (s->unopened != 0)
        actions_close(s, s->unopened);
    s->unopened = 0;
    HASH_ITER (hh, s->connections, c, next) {
        if (c->turn != s->turn.number && !commit_something_waits(c))
            continue;
        connection_forget(s, c);
        actions_close(s, c->id);
        connection_end(s, c);
    }
}

/* Sessions that were loaded again get back the connections that stay: by the numbers of job and task, and only if the
 * incarnation is still the same. */
static void
commit_reattach(struct shard *s)
{
    struct connection *c, *next;

    HASH_ITER (hh, s->connections, c, next) {
        struct session *session;

        if (c->state != CONN_WORKER)
            continue;
        session = session_find(s, c->job_id, c->task);
        if (session == NULL || session->state != SESSION_LIVE || session->incarnation != c->incarnation) {
            c->session = NULL;
            connection_close(s, c);
            continue;
        }
        c->session = session;
        session->connection = c;
        session->heard_ms = s->now_ms;
    }
}

/* Nothing of the turn happened. A worker that took part learns this from its closed connection, and asks again. */
static void
commit_undo(struct shard *s, enum ps_err why)
{
    struct ps_error e;

    actions_drop(s);
    actions_log(s, SHARD_LOG_ERROR, "commit failed code=%s reason=\"%s\"", ps_err_name(why), ps_strerror(why));
    commit_end_connections(s);
    redo_turn_over(s, false);
    restore_turn_over(s, false);
    save_staged_turn_over(s, false);
    turn_next(s);
    if (!MUTATION(NOT_RELOADED) && !shard_reload(s, &e))
        actions_log(s, SHARD_LOG_ERROR, "store cannot be read code=%s reason=\"%s\"", ps_err_name(e.code), e.text);
    commit_reattach(s);
    s->stopped = false; /* its action is dropped, draining goes on */
    if (s->draining)
        actions_draining(s);
    drain_stop_if_idle(s);
    save_turn_ended(s);
    actions_hand_out(s);
}

/* ---- The end of a turn ---- */

enum ps_err
shard_commit(struct shard *s)
{
    enum ps_err err;

    pull_sweep(s);
    drop_erase_answer(s);
    actions_flush(s);
    if (MUTATION(ACK_BEFORE_COMMIT))
        actions_hand_out(s);
    if ((err = commit_store(s)) != PS_OK) {
        commit_undo(s, err);
        return err;
    }
    redo_turn_over(s, true);
    restore_turn_over(s, true);
    save_staged_turn_over(s, true);
    turn_next(s);
    save_turn_ended(s);
    actions_hand_out(s);
    return PS_OK;
}
