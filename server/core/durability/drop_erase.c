/* One block or row at a time, from the first of the dropped variables, then of the dropped jobs. */
#include "server/core/durability/drop_erase.h"

#include <endian.h>
#include <stdlib.h>

#include "server/core/shard_state.h"

/* ---- Erasing ---- */

/* False: not now. */
static bool
drop_erase_took(struct shard *s, enum ps_err err, bool known)
{
    if (err == PS_OK || (err == PS_ERR_NOT_FOUND && !known))
        return true;
    if (err == PS_ERR_FULL)
        s->drops.no_room = true;
    else
        turn_fail(s, err == PS_ERR_NOT_FOUND ? PS_ERR_IO : err);
    return false;
}

static bool
drop_erase_row(struct shard *s, enum store_table table, uint32_t id)
{
    uint32_t key = htobe32(id);

    return drop_erase_took(s, s->store->ops->row_erase(s->store, table, (struct span){&key, sizeof key}), false);
}

/* The variable's last block that is there, and what a save has left behind of it; before it, what waits for it. */
static bool
drop_erase_block(struct shard *s, struct variable *v)
{
    struct block_ref ref = v->kind->nth(s, v, v->ready - 1);
    struct store_key key = block_key(&ref), other = key;

    if (ref.block->staged != 0 && !MUTATION(DROPPED_STILL_WAITS))
        return drop_erase_took(s, staged_erase_dropped(s, &ref), true);
    other.generation ^= 1;
    if (ref.block->left) {
        if (!drop_erase_took(s, s->store->ops->erase(s->store, &other), true))
            return false;
        save_left(s, &ref, -1);
    }
    if (!drop_erase_took(s, s->store->ops->erase(s->store, &key), true))
        return false;
    v->ready--;
    s->blocks--;
    s->data_bytes -= ref.size;
    return true;
}

static bool
drop_erase_of_variable(struct shard *s, struct variable *v)
{
    if (v->marked) /* its row says that it is dropped, with the end of this turn */
        return false;
    if (v->ready > 0)
        return drop_erase_block(s, v);
    if (!drop_erase_row(s, STORE_VARS, v->id))
        return false;
    variable_remove(s, v);
    return true;
}

/* A worker's cursors, then its session. */
static bool
drop_erase_of_worker(struct shard *s, struct job *job, uint32_t task)
{
    if (job->drop_at < job->drop_chunks) {
        if (!drop_erase_took(s, data_steps_erase(s, job->id, task, job->drop_at), false))
            return false;
        job->drop_at++;
        return true;
    }
    if (!drop_erase_took(s, session_row_erase(s, job->id, task), false))
        return false;
    roster_remove(&job->there, task);
    job->drop_at = 0;
    return true;
}

static bool
drop_erase_of_job(struct shard *s, struct job *job)
{
    uint32_t task = roster_next(&job->there, 0);

    if (job->marked)
        return false;
    if (task != ROSTER_END)
        return drop_erase_of_worker(s, job, task);
    if (!drop_erase_row(s, STORE_JOBS, job->id))
        return false;
    job_remove(s, job);
    return true;
}

static bool
drop_erase_one(struct shard *s)
{
    if (s->drops.variables != NULL)
        return drop_erase_of_variable(s, s->drops.variables);
    return s->drops.jobs != NULL && drop_erase_of_job(s, s->drops.jobs);
}

/* ---- Background work ---- */

/* The saver may read them. */
static bool
drop_erase_save_runs(const struct shard *s)
{
    return s->save.state != SAVE_IDLE || s->save.say_abandoned;
}

bool
drop_erase_busy(const struct shard *s)
{
    return drop_list_left(&s->drops) && !drop_erase_save_runs(s) && !s->drops.no_room;
}

/* As many as the turn has room for: in a store that is nearly full, one. */
static uint64_t
drop_erase_most(const struct shard *s)
{
    return MIN((s->turn.granted - s->turn.used) / STORE_ROW_ROOM, (uint64_t)DROP_ERASE_MAX);
}

bool
drop_erase_work(struct shard *s)
{
    enum ps_err err;
    uint64_t n = 0, most;

    switch (turn_room(s, STORE_ROW_ROOM, &err)) {
    case TURN_WAIT:
        return false;
    case TURN_REFUSED:
        s->drops.no_room = true;
        return true;
    case TURN_READY:
        break;
    }
    for (most = drop_erase_most(s); n < most && drop_erase_one(s); n++)
        turn_take_rows(s, 1);
    s->drops.erased += !drop_list_left(&s->drops);
    return n > 0 || s->drops.no_room || s->turn.failed != PS_OK || !drop_list_left(&s->drops);
}

/* ---- Requests that wait ---- */

struct drop_waiter {
    struct drop_waiter *prev, *next;
    struct connection *connection;
    uint64_t request, since_ms;
    Psd__Dropped answer;
};

void
drop_erase_wait(struct shard *s, struct connection *c, uint64_t request, const Psd__Dropped *answer)
{
    struct drop_waiter *w = malloc(sizeof *w);

    if (w == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    *w = (struct drop_waiter){.connection = c, .request = request, .since_ms = s->now_ms, .answer = *answer};
    DL_APPEND(s->drops.waiters, w);
}

void
drop_erase_answer(struct shard *s)
{
    bool kept = drop_list_left(&s->drops);
    struct drop_waiter *w, *next;

    if (s->drops.waiters == NULL || (kept && !drop_erase_save_runs(s) && !s->drops.no_room))
        return;
    DL_FOREACH_SAFE (s->drops.waiters, w, next) {
        w->answer.kept = kept;
        actions_send(s, w->connection, MSG_DROPPED, w->request, &w->answer.base);
        DL_DELETE(s->drops.waiters, w);
        free(w);
    }
}

bool
drop_erase_end(struct shard *s, struct connection *c, uint64_t request, enum ps_err code)
{
    struct drop_waiter *w, *next;
    bool found = false;

    DL_FOREACH_SAFE (s->drops.waiters, w, next) {
        if (w->connection != c || (request != 0 && w->request != request))
            continue;
        found = true;
        if (code != PS_OK)
            actions_error(s, c, w->request, code, ps_strerror(code));
        DL_DELETE(s->drops.waiters, w);
        free(w);
    }
    return found;
}

bool
drop_erase_each(const struct shard *s, drop_erase_visit visit, void *arg)
{
    const struct drop_waiter *w;

    DL_FOREACH (s->drops.waiters, w)
        if (!visit(arg, w->connection, w->since_ms))
            return false;
    return true;
}

void
drop_erase_finish(struct shard *s)
{
    struct drop_waiter *w, *next;

    DL_FOREACH_SAFE (s->drops.waiters, w, next)
        free(w);
    s->drops.waiters = NULL;
}
