/* The state machine of restores. Every condition that it waits for is checked again in background work. */
#include "server/core/durability/restore.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/format/checkpoint.h"
#include "server/core/sessions/session_load.h"
#include "server/core/shard_state.h"

/* ---- Beginning and ending ---- */

static void
let_go(struct restore *r)
{
    if (r->source != NULL)
        r->source->close(r->source);
    free(r->ids);
    free(r->value);
    r->source = NULL;
    r->ids = NULL;
    r->value = NULL;
}

static void
restore_forget(struct restore *r)
{
    let_go(r);
    free(r->dir);
    free(r->job);
    *r = (struct restore){.state = RESTORE_NONE};
}

void
restore_finish(struct shard *s)
{
    restore_forget(&s->restore);
}

/* To the connection that asked, if it is still there. */
static void
answer_error(struct shard *s, uint64_t conn, uint64_t request, const struct ps_error *e)
{
    struct connection *c = conn != 0 ? connection_find(s, conn) : NULL;

    if (c != NULL)
        actions_error(s, c, request, e->code, e->text);
}

static void
answer_done(struct shard *s, uint64_t conn, uint64_t request, const struct restore_plan *did)
{
    struct connection *c = conn != 0 ? connection_find(s, conn) : NULL;
    Psd__RestoreDone m = PSD__RESTORE_DONE__INIT;

    m.variables = did->variables;
    m.blocks = did->blocks;
    m.bytes = did->bytes;
    if (c != NULL)
        actions_send(s, c, MSG_RESTORE_DONE, request, &m.base);
}

/* The restore stays as it is, until a client asks again or a process starts. */
static void
restore_stop(struct shard *s, const struct ps_error *why)
{
    struct restore *r = &s->restore;

    actions_log(s, SHARD_LOG_ERROR, "restore stopped dir=\"%s\" code=%s reason=\"%s\"", r->dir, ps_err_name(why->code),
                why->text);
    answer_error(s, r->conn, r->request, why);
    let_go(r);
    r->conn = 0;
    r->failure = *why;
    r->state = RESTORE_UNFINISHED;
}

enum ps_err
restore_load(struct shard *s, struct ps_error *e)
{
    struct restore *r = &s->restore;
    struct restore_record found;
    enum ps_err err = restore_rows_load(s, &found);

    if (err != PS_OK)
        return ps_fail(e, err, "whether the store was being restored cannot be read: %s", ps_strerror(err));
    if (found.dir == NULL)
        return PS_OK;
    r->dir = found.dir;
    r->job = found.job;
    r->by = found.by;
    r->state = found.filled ? RESTORE_SAVING : RESTORE_UNFINISHED;
    r->half = !found.filled;
    r->save = s->save.number + 1;
    (void)ps_fail(&r->failure, PS_ERR_BUSY, "the process that restored it ended");
    return PS_OK;
}

/* ---- Requests ---- */

static bool
restore_is_same(const struct restore *r, const char *dir, const char *job)
{
    return strcmp(r->dir, dir) == 0 && strcmp(r->job, job) == 0;
}

static bool
under_way(const struct restore *r)
{
    return r->state != RESTORE_NONE && r->state != RESTORE_UNFINISHED;
}

/* A client that asks again, after its connection was lost, waits for the same end. */
void
restore_ask(struct shard *s, struct connection *c, uint64_t request, const Psd__Restore *m)
{
    struct restore *r = &s->restore;

    if (!under_way(r)) {
        actions_restore(s, c, request, m);
    } else if (!m->check && restore_is_same(r, m->dir, m->job)) {
        r->conn = c->id;
        r->request = request;
    } else {
        actions_error(s, c, request, PS_ERR_BUSY, "the shard restores another checkpoint");
    }
}

static enum ps_err
take_over(struct restore *r, struct shard_restore *source, struct ps_error *e)
{
    char *dir = strdup(source->dir), *job = strdup(source->job);
    bool half;

    if (dir == NULL || job == NULL) {
        free(dir);
        free(job);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a restore");
    }
    half = r->half;
    restore_forget(r);
    r->half = half;
    r->dir = dir;
    r->job = job;
    r->by = source->by;
    r->source = source;
    r->state = RESTORE_WAITING;
    return PS_OK;
}

/* True: the source is the state machine's from now on. */
static bool
restore_take_source(struct shard *s, const struct shard_event *event, struct ps_error *e)
{
    struct shard_restore *source = event->restore;
    struct restore *r = &s->restore;
    struct restore_plan plan;

    if (s->draining) {
        (void)ps_fail(e, PS_ERR_DRAINING, "shard %u is shutting down", s->config.shard);
    } else if (under_way(r)) {
        (void)ps_fail(e, PS_ERR_BUSY, "the shard restores another checkpoint");
    } else if (restore_check(s, source, &plan, e) != PS_OK) {
        return false;
    } else if (source->check) {
        e->code = PS_OK;
        answer_done(s, event->conn, event->number, &plan);
    } else if (take_over(r, source, e) == PS_OK) {
        r->conn = event->conn;
        r->request = event->number;
        r->blocks = plan.blocks;
        r->bytes = plan.bytes;
        r->variables = plan.variables;
        actions_log(s, SHARD_LOG_INFO, "restore begins dir=\"%s\" job=%s blocks=%" PRIu64 " bytes=%" PRIu64, r->dir,
                    restore_job_name(source), plan.blocks, plan.bytes);
        return true;
    }
    return false;
}

void
restore_take(struct shard *s, const struct shard_event *event)
{
    struct ps_error e = {0};

    if (event->error != NULL) {
        answer_error(s, event->conn, event->number, event->error);
        return;
    }
    if (event->conn != 0 && connection_find(s, event->conn) == NULL) { /* it closed while the files were read */
        event->restore->close(event->restore);
        return;
    }
    if (restore_take_source(s, event, &e))
        return;
    if (e.code != PS_OK) {
        if (!under_way(&s->restore))
            s->restore.failure = e;
        actions_log(s, SHARD_LOG_ERROR, "restore refused dir=\"%s\" code=%s reason=\"%s\"", event->restore->dir,
                    ps_err_name(e.code), e.text);
        answer_error(s, event->conn, event->number, &e);
    }
    event->restore->close(event->restore);
}

/* ---- All connections end ---- */

static bool
saves_are_over(const struct shard *s)
{
    return s->save.state == SAVE_IDLE && !s->save.say_abandoned && s->save.left == 0;
}

static void
close_all(struct shard *s)
{
    struct connection *c, *next;
    struct ps_error e = {0};

    (void)restore_says_no(s, &e);
    HASH_ITER (hh, s->connections, c, next) {
        if (c->id != s->restore.conn && c->state != CONN_CLOSING)
            connection_refuse(s, c, e.code, "%s", e.text);
    }
    s->restore.state = RESTORE_CLOSED;
}

/* ---- Rows ---- */

/* Some of the rows may be there, or none: then nothing has happened. */
static void
give_up(struct shard *s, const struct ps_error *why)
{
    struct restore *r = &s->restore;
    struct restore_record found;
    struct ps_error e;

    restore_stop(s, why);
    (void)catalog_reload(s, &e);
    if (restore_rows_load(s, &found) != PS_OK || found.dir != NULL) {
        free(found.dir);
        free(found.job);
        return;
    }
    restore_forget(r);
    r->failure = *why;
}

static void
restore_begin(struct shard *s)
{
    struct restore *r = &s->restore;
    struct connection *c = r->conn != 0 ? connection_find(s, r->conn) : NULL;
    struct ps_error e = {0};

    if (c != NULL)
        connection_forget(s, c); /* its other requests are of the old data */
    r->half = true;
    if (restore_rows_begin(s, r->source, &e) != PS_OK) {
        give_up(s, &e);
        return;
    }
    r->value = malloc(layout_value_size(LAYOUT_CLASSES - 1));
    if (!catalog_reload(s, &e) || r->value == NULL || !restore_find(s)) {
        (void)ps_fail(&e, PS_ERR_NOMEM, "shard %u has no memory for a restore", s->config.shard);
        restore_stop(s, &e);
        return;
    }
    r->state = RESTORE_FILLING;
}

/* ---- On disk ---- */

static bool
is_saved(const struct shard *s)
{
    return !s->config.durable || s->save.complete >= s->restore.save;
}

bool
shard_save_awaited(const struct shard *s)
{
    return s->restore.state == RESTORE_SAVING && !is_saved(s);
}

static bool
end_saving(struct shard *s)
{
    enum ps_err err = PS_OK;

    if (turn_room(s, STORE_ROW_ROOM, &err) == TURN_WAIT)
        return false;
    if (err == PS_OK) {
        turn_take_rows(s, 1);
        err = restore_rows_end(s);
    }
    if (err != PS_OK)
        turn_fail(s, err);
    s->restore.saved = err == PS_OK;
    return true;
}

/* ---- Background work ---- */

bool
restore_busy(const struct shard *s)
{
    const struct restore *r = &s->restore;

    switch (r->state) {
    case RESTORE_WAITING:
        return saves_are_over(s);
    case RESTORE_CLOSED:
        return true;
    case RESTORE_FILLING:
        return !r->filled;
    case RESTORE_SAVING:
        return is_saved(s) && !r->saved;
    default:
        return false;
    }
}

static bool
restore_work_filling(struct shard *s)
{
    struct ps_error e = {0};
    bool done = restore_fill(s, &e);

    if (e.code != PS_OK)
        restore_stop(s, &e);
    return done;
}

bool
restore_work(struct shard *s)
{
    switch (s->restore.state) {
    case RESTORE_WAITING:
        close_all(s);
        return true;
    case RESTORE_CLOSED: /* rows are written between turns */
        if (turn_dirty(s) || redo_waits(s))
            return false;
        restore_begin(s);
        return true;
    case RESTORE_FILLING:
        return restore_work_filling(s);
    default:
        return end_saving(s);
    }
}

static void
restore_filled(struct shard *s)
{
    struct restore *r = &s->restore;

    s->boot = r->source->boot;
    session_load_reboot(s);
    actions_log(s, SHARD_LOG_INFO, "restore filled dir=\"%s\" blocks=%" PRIu64 " bytes=%" PRIu64, r->dir, r->blocks,
                r->bytes);
    let_go(r);
    r->half = false;
    r->state = RESTORE_SAVING;
    r->save = s->save.number + 1;
    s->save.changed = true;
    if (s->config.durable)
        save_request_save(s, NULL, 0, false);
}

static void
restore_saved(struct shard *s)
{
    struct restore *r = &s->restore;
    struct restore_plan did = {.variables = r->variables, .blocks = r->blocks, .bytes = r->bytes};

    actions_log(s, SHARD_LOG_INFO, "restore done dir=\"%s\"", r->dir);
    answer_done(s, r->conn, r->request, &did);
    restore_forget(r);
}

void
restore_turn_over(struct shard *s, bool committed)
{
    struct restore *r = &s->restore;
    bool is_filled = r->filled, is_saved_now = r->saved;

    r->filled = r->saved = false;
    if (committed && is_filled)
        restore_filled(s);
    else if (committed && is_saved_now)
        restore_saved(s);
}

void
restore_reloaded(struct shard *s)
{
    struct ps_error e = {0};

    if (s->restore.state != RESTORE_FILLING || s->broken || restore_find(s))
        return;
    (void)ps_fail(&e, PS_ERR_NOMEM, "shard %u has no memory for a restore", s->config.shard);
    restore_stop(s, &e);
}
