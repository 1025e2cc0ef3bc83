#include "client/api/report_pages.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/api/broadcast_query.h"
#include "common/system/now.h"

/* Older shards give no number: the name that the page ended with. False: it ends with nothing that has one. */
static bool
pages_name(const Psd__Report *m, char *after, size_t size)
{
    if (m->n_variable > 0)
        snprintf(after, size, "%s/%s", m->variable[m->n_variable - 1]->job, m->variable[m->n_variable - 1]->name);
    else if (m->n_worker > 0)
        snprintf(after, size, "%s/%u", m->worker[m->n_worker - 1]->job, m->worker[m->n_worker - 1]->task);
    else if (m->n_job > 0)
        snprintf(after, size, "%s", m->job[m->n_job - 1]->name);
    else if (m->timeline != NULL)
        snprintf(after, size, "%" PRIu64 "/%" PRIu64, m->timeline->next, m->timeline->end);
    else
        return false;
    return true;
}

bool
report_pages_place(const Psd__Report *page, struct core_report_place *next)
{
    *next = (struct core_report_place){.from = page->next};
    return page->more && (page->next != 0 || pages_name(page, next->after, sizeof next->after));
}

/* Waits for one page, of a report that was begun at start_ms. */
static enum ps_err
pages_wait(ps_client *c, const struct report_pages *pages, struct ps_op *op, uint64_t start_ms, struct ps_error *e)
{
    uint64_t timeout_ms = client_timeout(c, pages->timeout_ms);
    uint64_t before = pages->of_each_page ? 0 : monotonic_ms() - start_ms;

    op->waited_ms = before;
    return call_wait(op, timeout_ms - MIN(before, timeout_ms), e);
}

static enum ps_err
pages_take(const struct report_pages *pages, struct ps_op *op, struct core_report_place *place, bool *more,
           struct ps_error *e)
{
    struct span answer = core_op_answer(op->core);
    Psd__Report *m = psd__report__unpack(NULL, answer.len, answer.data);
    uint64_t from = place->from;
    enum ps_err err;

    if (m == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the report of shard %u", pages->shard);
    err = pages->take(pages->arg, m, e);
    *more = report_pages_place(m, place);
    psd__report__free_unpacked(m, NULL);
    if (err == PS_OK && *more && place->from != 0 && place->from <= from)
        err = ps_fail(e, PS_ERR_PROTOCOL, "the report of shard %u goes back, from %" PRIu64 " to %" PRIu64,
                      pages->shard, from, place->from);
    return err;
}

static enum ps_err
pages_next(ps_client *c, const struct report_pages *pages, uint64_t start_ms, struct core_report_place *place,
           bool *more, struct ps_error *e)
{
    struct ps_op *op = admin_query_new(c, e);
    enum ps_err err;

    if (op == NULL)
        return PS_ERR_NOMEM;
    if ((err = core_query(c->core, pages->shard, pages->query, pages->job, place, &op->core, e)) != PS_OK) {
        call_free(op);
        return err;
    }
    client_perform(c);
    if ((err = pages_wait(c, pages, op, start_ms, e)) == PS_OK)
        err = pages_take(pages, op, place, more, e);
    admin_query_free(op);
    return err;
}

enum ps_err
report_pages_run(ps_client *c, const struct report_pages *pages, struct ps_error *e)
{
    struct core_report_place place = {.from = 0};
    uint64_t start_ms = monotonic_ms();
    bool more = true;
    enum ps_err err = PS_OK;

    client_enter(c);
    while (err == PS_OK && more)
        err = pages_next(c, pages, start_ms, &place, &more, e);
    client_leave(c);
    return err;
}
