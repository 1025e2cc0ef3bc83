/* The public calls that query and change shards rather than train: queries, pings, sets, drains, saves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/api/broadcast_query.h"
#include "client/api/report.h"
#include "client/api/report_pages.h"
#include "common/core/wire/wire_text.h"

struct ps_op *
admin_query_new(ps_client *c, struct ps_error *e)
{
    struct ps_op *op = call_new(c);

    if (op == NULL)
        ps_fail(e, PS_ERR_NOMEM, "no memory to ask");
    return op;
}

void
admin_query_free(struct ps_op *op)
{
    ps_client *c = op->client;

    core_op_free(c->core, op->core);
    client_perform(c);
    call_free(op);
}

/* ---- Queries ---- */

static enum ps_err
admin_take_page(void *arg, Psd__Report *page, struct ps_error *e)
{
    struct json_report **report = arg;
    enum ps_err err = report_add(report, page);

    return err == PS_OK ? PS_OK : ps_fail(e, err, "no memory for the report");
}

enum ps_err
ps_client_query(ps_client *c, uint32_t shard, enum ps_query query, const char *job, int timeout_ms, char **json,
                struct ps_error *error)
{
    struct json_report *report = NULL;
    const struct report_pages pages = {
        .shard = shard, .query = query, .job = job, .timeout_ms = timeout_ms, .take = admin_take_page, .arg = &report};
    enum ps_err err;

    if ((err = call_need(c, json, error)) != PS_OK)
        return err;
    *json = NULL;
    if ((err = report_pages_run(c, &pages, error)) == PS_OK && (*json = report_text(report)) == NULL)
        err = ps_fail(error, PS_ERR_NOMEM, "no memory for the report");
    report_free(report);
    return err;
}

struct admin_pages {
    enum ps_err (*take)(void *arg, const char *json, struct ps_error *e);
    void *arg;
};

static enum ps_err
admin_hand_page(void *arg, Psd__Report *page, struct ps_error *e)
{
    const struct admin_pages *pages = arg;
    json_t *json = report_message(&page->base);
    char *text = json_dumps(json, JSON_COMPACT | JSON_PRESERVE_ORDER);
    enum ps_err err =
        text != NULL ? pages->take(pages->arg, text, e) : ps_fail(e, PS_ERR_NOMEM, "no memory for a report");

    free(text);
    json_decref(json);
    return err;
}

enum ps_err
ps_client_query_pages(ps_client *c, uint32_t shard, enum ps_query query, const char *job, int timeout_ms,
                      enum ps_err (*take)(void *arg, const char *json, struct ps_error *error), void *arg,
                      struct ps_error *error)
{
    struct admin_pages to = {take, arg};
    const struct report_pages pages = {.shard = shard,
                                       .query = query,
                                       .job = job,
                                       .timeout_ms = timeout_ms,
                                       .of_each_page = true,
                                       .take = admin_hand_page,
                                       .arg = &to};
    enum ps_err err;

    if ((err = call_need(c, (const void *)(uintptr_t)take, error)) != PS_OK)
        return err;
    return report_pages_run(c, &pages, error);
}

enum ps_err
ps_client_ping(ps_client *c, uint32_t shard, int timeout_ms, double *microseconds, struct ps_error *error)
{
    struct ps_op *op;
    uint64_t start;
    enum ps_err err;

    if ((err = call_need(c, microseconds, error)) != PS_OK)
        return err;
    client_enter(c);
    start = uv_hrtime();
    err = PS_ERR_NOMEM;
    if ((op = admin_query_new(c, error)) != NULL)
        err = call_started(op, core_ping(c->core, shard, &op->core, error), &op);
    if (err == PS_OK) {
        err = call_wait(op, client_timeout(c, timeout_ms), error);
        *microseconds = (double)(uv_hrtime() - start) / 1000;
        admin_query_free(op);
    }
    client_leave(c);
    return err;
}

/* ---- Changes ---- */

enum ps_err
ps_client_set(ps_client *c, const struct ps_setting *setting, int timeout_ms, uint64_t *variables,
              struct ps_error *error)
{
    struct ps_op *op;
    enum ps_err err;

    if ((err = call_need(c, setting, error)) != PS_OK)
        return err;
    client_enter(c);
    err = PS_ERR_NOMEM;
    if ((op = admin_query_new(c, error)) != NULL)
        err = call_started(op, core_set(c->core, setting, &op->core, error), &op);
    if (err == PS_OK) {
        err = call_wait(op, client_timeout(c, timeout_ms), error);
        if (variables != NULL)
            *variables = core_op_variables(op->core);
        admin_query_free(op);
    }
    client_leave(c);
    return err;
}

enum ps_err
ps_client_drain(ps_client *c, uint32_t shard, int timeout_ms, struct ps_error *error)
{
    struct ps_op *op;
    enum ps_err err;

    if ((err = call_need(c, c, error)) != PS_OK)
        return err;
    client_enter(c);
    err = PS_ERR_NOMEM;
    if ((op = admin_query_new(c, error)) != NULL)
        err = call_started(op, core_drain(c->core, shard, &op->core, error), &op);
    if (err == PS_OK) {
        err = call_wait(op, client_timeout(c, timeout_ms), error);
        admin_query_free(op);
    }
    client_leave(c);
    return err;
}

/* ---- Evictions ---- */

static enum ps_err
take_evicted(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    Psd__Evicted *m = psd__evicted__unpack(NULL, answer.len, answer.data);
    struct ps_evict_report *out = arg;

    if (m == NULL)
        return broadcast_query_unreadable(shard, e);
    *out = (struct ps_evict_report){.found = m->found, .live = m->live, .clock = m->clock};
    snprintf(out->agent, sizeof out->agent, "%s", m->agent);
    psd__evicted__free_unpacked(m, NULL);
    return PS_OK;
}

/* Reports what the shard would refuse, before it is asked. */
static enum ps_err
check_evict(const char *job, uint32_t task, struct ps_error *e)
{
    enum ps_err err = wire_name_check("job", job, e);

    if (err == PS_OK && task >= WIRE_WORKERS_MAX)
        err = ps_fail(e, PS_ERR_INVALID, "worker %u: a job has at most %u workers", task, WIRE_WORKERS_MAX);
    return err;
}

enum ps_err
ps_client_evict(ps_client *c, uint32_t shard, const char *job, uint32_t task, int timeout_ms,
                struct ps_evict_report *report, struct ps_error *error)
{
    Psd__Evict message = PSD__EVICT__INIT;
    struct ps_evict_report room;
    struct call_deadline limit;
    struct broadcast_query a = {.limit = &limit,
                                .type = MSG_EVICT,
                                .message = &message.base,
                                .take = take_evicted,
                                .arg = report != NULL ? report : &room};
    enum ps_err err;

    if ((err = call_need(c, c, error)) != PS_OK)
        return err;
    job = job != NULL ? job : c->options.job;
    if ((err = check_evict(job, task, error)) != PS_OK)
        return err;
    message.job = (char *)job;
    message.task = task;
    limit = call_deadline_of(c, timeout_ms);
    return broadcast_query_run(&a, shard, 1, error);
}

/* ---- Drops ---- */

/* Of one message; a drop may take several. */
struct drop_answer {
    struct ps_drop_report report;
    bool more;
};

static enum ps_err
take_dropped(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    Psd__Dropped *m = psd__dropped__unpack(NULL, answer.len, answer.data);
    struct drop_answer *out = arg;

    if (m == NULL)
        return broadcast_query_unreadable(shard, e);
    *out = (struct drop_answer){.report = {.found = m->found,
                                           .first = m->first,
                                           .variables = m->variables,
                                           .blocks = m->blocks,
                                           .bytes = m->bytes,
                                           .workers = m->workers,
                                           .connected = m->connected,
                                           .kept = m->kept},
                                .more = m->more};
    psd__dropped__free_unpacked(m, NULL);
    return PS_OK;
}

static enum ps_err
check_drop(const Psd__Drop *m, struct ps_error *e)
{
    enum ps_err err = wire_name_check("job", m->job, e);

    return err == PS_OK && m->variables[0] != '\0' ? wire_name_check("variables", m->variables, e) : err;
}

/* The first answer counts all that there was. */
static enum ps_err
drop_run(const struct broadcast_query *a, uint32_t shard, struct drop_answer *last, struct ps_drop_report *report,
         struct ps_error *e)
{
    enum ps_err err;

    if ((err = broadcast_query_run(a, shard, 1, e)) != PS_OK)
        return err;
    *report = last->report;
    while (last->more)
        if ((err = broadcast_query_run(a, shard, 1, e)) != PS_OK)
            return err;
    report->kept = last->report.kept;
    return PS_OK;
}

enum ps_err
ps_client_drop(ps_client *c, uint32_t shard, const struct ps_drop *drop, int timeout_ms, struct ps_drop_report *report,
               struct ps_error *error)
{
    Psd__Drop message = PSD__DROP__INIT;
    struct ps_drop_report room;
    struct drop_answer last = {0};
    struct call_deadline limit;
    struct broadcast_query a = {
        .limit = &limit, .type = MSG_DROP, .message = &message.base, .take = take_dropped, .arg = &last};
    enum ps_err err;

    if ((err = call_need(c, drop, error)) != PS_OK)
        return err;
    message.job = (char *)(drop->job != NULL ? drop->job : c->options.job);
    message.variables = (char *)(drop->variables != NULL ? drop->variables : "");
    message.force = drop->force != 0;
    message.check = drop->check != 0;
    if ((err = check_drop(&message, error)) != PS_OK)
        return err;
    limit = call_deadline_of(c, timeout_ms);
    return drop_run(&a, shard, &last, report != NULL ? report : &room, error);
}

/* ---- Saves ---- */

static enum ps_err
take_saved(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    Psd__SaveDone *m = psd__save_done__unpack(NULL, answer.len, answer.data);
    struct ps_save_report *out = arg;

    if (m == NULL)
        return broadcast_query_unreadable(shard, e);
    *out = (struct ps_save_report){.save = m->save, .blocks = m->blocks, .bytes = m->bytes, .ms = m->ms};
    psd__save_done__free_unpacked(m, NULL);
    return PS_OK;
}

/* query: with what takes its answer. */
static enum ps_err
admin_save(ps_client *c, uint32_t shard, bool verify, int timeout_ms, struct broadcast_query query, struct ps_error *e)
{
    Psd__Save message = PSD__SAVE__INIT;
    struct call_deadline limit = call_deadline_of(c, timeout_ms);

    message.verify = verify;
    query.limit = &limit;
    query.type = MSG_SAVE;
    query.message = &message.base;
    return broadcast_query_run(&query, shard, 1, e);
}

enum ps_err
ps_client_save(ps_client *c, uint32_t shard, int timeout_ms, struct ps_save_report *report, struct ps_error *error)
{
    struct ps_save_report room;
    struct broadcast_query query = {.take = take_saved, .arg = report != NULL ? report : &room};
    enum ps_err err = call_need(c, c, error);

    return err == PS_OK ? admin_save(c, shard, false, timeout_ms, query, error) : err;
}

static enum ps_err
take_verified(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    Psd__SaveDone *m = psd__save_done__unpack(NULL, answer.len, answer.data);
    struct ps_verify_report *out = arg;
    enum ps_err err = PS_OK;

    if (m == NULL)
        return broadcast_query_unreadable(shard, e);
    *out = (struct ps_verify_report){.save = m->save,
                                     .blocks = m->blocks,
                                     .verified = m->verified,
                                     .mended = m->mended,
                                     .differ = m->differ,
                                     .ms = m->ms};
    snprintf(out->first_mended, sizeof out->first_mended, "%s", m->first_mended);
    snprintf(out->first_differs, sizeof out->first_differs, "%s", m->first_differs);
    if (!m->verify)
        err = ps_fail(e, PS_ERR_UNSUPPORTED, "shard %u has saved, and is of a version that does not verify", shard);
    psd__save_done__free_unpacked(m, NULL);
    return err;
}

enum ps_err
ps_client_verify(ps_client *c, uint32_t shard, int timeout_ms, struct ps_verify_report *report, struct ps_error *error)
{
    enum ps_err err = call_need(c, report, error);

    if (err != PS_OK)
        return err;
    return admin_save(c, shard, true, timeout_ms, (struct broadcast_query){.take = take_verified, .arg = report},
                      error);
}
