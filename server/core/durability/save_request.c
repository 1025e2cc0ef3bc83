/* The queue of requests, and whether one is due. */
#include "server/core/durability/save_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"

/* ---- Asking ---- */

static void
save_request_refuse(struct shard *s, struct connection *c, uint64_t request, enum ps_err code, const char *text)
{
    if (c != NULL)
        actions_error(s, c, request, code, text);
}

static void
save_request_add(struct shard *s, const struct save_request *asked, const char *dir)
{
    size_t dir_size = strlen(dir) + 1;
    struct save_request *r;
    struct ps_error e;

    if (s->restore.state == RESTORE_UNFINISHED && restore_says_no(s, &e)) {
        save_request_refuse(s, asked->connection, asked->request, e.code, e.text);
    } else if (limit_reached(s, LIMIT_SAVES)) {
        limit_refuse(s, LIMIT_SAVES, &e, "no room for another one to wait");
        save_request_refuse(s, asked->connection, asked->request, e.code, e.text);
    } else if ((r = malloc(sizeof *r + dir_size)) == NULL) {
        save_request_refuse(s, asked->connection, asked->request, PS_ERR_NOMEM, "no memory for a save");
    } else {
        *r = *asked;
        r->since_ms = s->now_ms;
        memcpy(r->dir, dir, dir_size);
        DL_APPEND(s->save.waiting, r);
        s->save.no_room = s->drops.no_room = false; /* what is left to be erased is in its way */
    }
}

void
save_request_save(struct shard *s, struct connection *c, uint64_t request, bool verify)
{
    struct save_request asked = {.connection = c, .request = request, .verify = verify};
    const struct save_request *r;

    if (!s->config.durable) {
        save_request_refuse(s, c, request, PS_ERR_UNSUPPORTED,
                            "this shard has no durable directory to save to: psd --durable-dir gives it one");
        return;
    }
    if (c == NULL)
        DL_FOREACH (s->save.waiting, r)
            if (r->job_id == 0)
                return;
    save_request_add(s, &asked, "");
}

void
save_request_checkpoint(struct shard *s, struct connection *c, uint64_t request, const Psd__Checkpoint *m)
{
    struct save_request asked = {
        .connection = c, .request = request, .at_clock = m->at_clock, .clock = m->clock, .at = SAVE_PLACE_FIRST};
    char text[PS_ERROR_TEXT_MAX];
    const struct job *job;

    HASH_FIND(hh, s->jobs, m->job, strlen(m->job), job);
    if (job == NULL) {
        snprintf(text, sizeof text, "shard %u knows no job '%.64s'", s->config.shard, m->job);
        save_request_refuse(s, c, request, PS_ERR_NOT_FOUND, text);
        return;
    }
    asked.job_id = job->id;
    save_request_add(s, &asked, m->dir);
}

/* ---- The next one ---- */

static void
save_request_take(struct shard *s, struct save_request **list, struct save_request *r)
{
    DL_DELETE(s->save.waiting, r);
    DL_APPEND(*list, r);
}

struct save_request *
save_request_next(struct shard *s)
{
    struct save_request *list = NULL, *r, *next;

    DL_FOREACH (s->save.waiting, r)
        if (r->at_clock && save_gate_ready(s, r))
            break;
    if (r == NULL)
        DL_FOREACH (s->save.waiting, r)
            if (save_gate_ready(s, r))
                break;
    if (r == NULL)
        return NULL;
    if (r->job_id != 0) {
        save_request_take(s, &list, r);
        return list;
    }
    DL_FOREACH_SAFE (s->save.waiting, r, next)
        if (r->job_id == 0)
            save_request_take(s, &list, r);
    return list;
}

void
save_request_reload(struct shard *s)
{
    struct save_request *r;

    DL_FOREACH (s->save.waiting, r)
        r->at = SAVE_PLACE_FIRST;
}

/* ---- Answers ---- */

void
save_request_free(struct save_request *list)
{
    struct save_request *r, *next;

    DL_FOREACH_SAFE (list, r, next)
        free(r);
}

/* NULL: no worker, or the store could not be read again. */
static struct session *
save_request_session(const struct shard *s, const struct connection *c)
{
    return c->job_id != 0 ? session_find(s, c->job_id, c->task) : NULL;
}

static void
count_wait(struct shard *s, const struct save_request *r)
{
    if (r->connection != NULL)
        (void)traffic_waited(s, save_request_session(s, r->connection), r->job_id != 0 ? WAIT_CHECKPOINT : WAIT_SAVE,
                             r->since_ms);
}

void
save_request_done(struct shard *s, struct save_request *list, enum msg_type type, const ProtobufCMessage *m)
{
    const struct save_request *r;

    DL_FOREACH (list, r) {
        if (r->connection != NULL)
            actions_send(s, r->connection, type, r->request, m);
        count_wait(s, r);
    }
    save_request_free(list);
}

void
save_request_failed(struct shard *s, struct save_request *list, enum ps_err code, const char *text)
{
    const struct save_request *r;

    DL_FOREACH (list, r) {
        save_request_refuse(s, r->connection, r->request, code, text);
        count_wait(s, r);
    }
    save_request_free(list);
}

void
save_request_end_job(struct shard *s, uint32_t job_id, enum ps_err code, const char *text)
{
    struct save_request *r, *next, *list = NULL;

    DL_FOREACH_SAFE (s->save.waiting, r, next)
        if (r->job_id == job_id)
            save_request_take(s, &list, r);
    save_request_failed(s, list, code, text);
}

static bool
is_of(const struct save_request *r, const struct connection *c, uint64_t request)
{
    return r->connection == c && (request == 0 || r->request == request);
}

bool
save_request_end(struct shard *s, struct connection *c, uint64_t request, enum ps_err code)
{
    struct save_request *r, *next;
    bool found = false;

    DL_FOREACH_SAFE (s->save.waiting, r, next) {
        if (!is_of(r, c, request))
            continue;
        found = true;
        if (code != PS_OK)
            actions_error(s, c, r->request, code, ps_strerror(code));
        count_wait(s, r);
        DL_DELETE(s->save.waiting, r);
        free(r);
    }
    DL_FOREACH (s->save.answering, r) {
        if (!is_of(r, c, request))
            continue;
        found = true;
        if (code != PS_OK)
            actions_error(s, c, r->request, code, ps_strerror(code));
        count_wait(s, r);
        r->connection = NULL;
    }
    return found;
}
