/* Who waits for whom: pulls, pushes and barriers for other workers; declares, attaches, durable pushes, saves and
 * checkpoints for what the shard itself is about. */
#include <inttypes.h>
#include <stdio.h>

#include "report_builder.h"
#include "shard_state.h"

#define ON_TASKS_MAX 64 /* named in one entry */

static Psd__BlockedReport *
blocked(struct report_builder *b, const struct session *x, const char *what, uint64_t since_ms)
{
    Psd__BlockedReport *m = report_zeroed(b->s, sizeof *m);

    if (m == NULL)
        return NULL;
    psd__blocked_report__init(m);
    m->job = (char *)x->job->name;
    m->task = x->task;
    m->what = (char *)what;
    m->waited_ms = b->s->now_ms - since_ms;
    m->on_task = report_zeroed(b->s, ON_TASKS_MAX * sizeof *m->on_task);
    return m->on_task != NULL ? m : NULL;
}

bool
report_add_blocked(struct report_builder *b, Psd__BlockedReport *m)
{
    Psd__Report *r = b->report;

    if (m == NULL || !report_fits(b, r->n_blocked, &m->base))
        return false;
    r->blocked[r->n_blocked++] = m;
    return true;
}

/* Workers that hold back a step which they must pass: those at an older clock. */
static void
on_slower(const struct job *job, uint64_t clock, Psd__BlockedReport *m)
{
    for (uint32_t task = 0; task < job->options->workers && m->n_on_task < ON_TASKS_MAX; task++) {
        const struct session *x = job_joined(job, task);
        bool slower = x == NULL ? job_begins_together(job) : x->state == SESSION_LIVE && x->held < clock;

        if (slower)
            m->on_task[m->n_on_task++] = task;
    }
}

static void
on_block(const struct job *job, const struct block_ref *ref, uint64_t clock, Psd__BlockedReport *m)
{
    struct gather *g = ref->block->gather;

    m->variable = (char *)ref->variable->name;
    m->on_clock = clock_of_block(job, ref->block, CLOCK_FOR_PULL) + 1;
    if (g != NULL)
        m->n_on_task = MIN(gather_missing(g, m->on_task, ON_TASKS_MAX), (uint32_t)ON_TASKS_MAX);
    else
        on_slower(job, clock, m);
}

static bool
blocked_pull(struct report_builder *b, const struct job *job, const struct pull *p)
{
    Psd__BlockedReport *m = blocked(b, p->connection->session, "pull", p->since_ms);
    struct block_ref ref;

    if (m == NULL)
        return false;
    m->clock = p->clock;
    block_refind(b->s, p->data->var[p->at], p->data->block[p->at], &ref);
    if (job_is_sync(job)) {
        on_block(job, &ref, p->clock, m);
    } else {
        m->variable = (char *)ref.variable->name;
        m->on_clock = p->clock - MIN(p->clock, job->bound);
        on_slower(job, m->on_clock, m);
    }
    return report_add_blocked(b, m);
}

static bool
blocked_push(struct report_builder *b, const struct job *job, const struct pending *p)
{
    Psd__BlockedReport *m = blocked(b, p->session, "push", p->since_ms);
    struct block_ref ref;
    uint32_t i = 0;

    if (m == NULL)
        return false;
    while (i + 1 < p->blocks_len && p->blocks[i].done)
        i++;
    m->clock = p->clock;
    block_refind(b->s, p->blocks[i].var, p->blocks[i].block, &ref);
    on_block(job, &ref, p->clock, m);
    m->on_clock = p->clock;
    return report_add_blocked(b, m);
}

static bool
blocked_barrier(struct report_builder *b, const struct pending *p)
{
    char what[WIRE_NAME_MAX + 16];
    Psd__BlockedReport *m;

    snprintf(what, sizeof what, "barrier %s", p->barrier->name);
    if ((m = blocked(b, p->session, report_text(b->s, what), p->since_ms)) == NULL)
        return false;
    m->clock = p->clock;
    m->n_on_task = MIN(barrier_missing(p->barrier, m->on_task, ON_TASKS_MAX), (uint32_t)ON_TASKS_MAX);
    return report_add_blocked(b, m);
}

static bool
blocked_in_job(struct report_builder *b, const struct job *job)
{
    const struct pull *pull;

    DL_FOREACH (job->pulls, pull)
        if (!blocked_pull(b, job, pull))
            return false;
    for (uint32_t task = 0; task < job->options->workers; task++) {
        const struct pending *p;

        if (job->sessions[task] == NULL)
            continue;
        DL_FOREACH (job->sessions[task]->pending, p)
            if (!(p->barrier != NULL ? blocked_barrier(b, p) : blocked_push(b, job, p)))
                return false;
    }
    return true;
}

/* ---- What waits for no worker ---- */

/* A wait of a connection, whoever speaks there; job NULL: it is of none. */
static Psd__BlockedReport *
blocked_connection(struct report_builder *b, const struct connection *c, const struct job *job, const char *what,
                   uint64_t since_ms)
{
    Psd__BlockedReport *m = report_zeroed(b->s, sizeof *m);

    if (m == NULL)
        return NULL;
    psd__blocked_report__init(m);
    if (job != NULL)
        m->job = (char *)job->name;
    if (c != NULL && c->session != NULL) {
        m->task = c->session->task;
        m->clock = c->session->clock;
    } else {
        m->who = report_text(b->s, c == NULL                      ? "psd itself"
                                   : *connection_agent(c) != '\0' ? connection_agent(c)
                                                                  : c->peer);
    }
    m->what = (char *)what;
    m->waited_ms = b->s->now_ms - since_ms;
    return m;
}

static char *
in_words(struct shard *s, const char *format, uint64_t a, uint64_t b)
{
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, format, a, b);
    return report_text(s, text);
}

/* Declares and attaches, for the blocks of a variable. */
static bool
blocked_declares(struct report_builder *b, const struct variable *v)
{
    const struct declare_waiter *w;

    DL_FOREACH (v->waiters, w) {
        Psd__BlockedReport *m =
            blocked_connection(b, w->connection, v->job, w->attach ? "attach" : "declare", w->since_ms);

        if (m == NULL)
            return false;
        m->variable = (char *)v->name;
        m->on = in_words(b->s, "%" PRIu64 " of %" PRIu64 " blocks are made", v->ready, v->count);
        if (!report_add_blocked(b, m))
            return false;
    }
    return true;
}

/* Answers of durable pushes, for the disk. */
static bool
blocked_held(void *arg, const struct connection *c, uint64_t since_ms)
{
    struct report_builder *b = arg;
    const struct job *job = c->session != NULL ? c->session->job : NULL;
    Psd__BlockedReport *m;

    if (!report_wants_job(b, job))
        return true;
    if ((m = blocked_connection(b, c, job, "durable push", since_ms)) == NULL)
        return false;
    m->on = in_words(b->s, "the disk: %" PRIu64 " pieces of the redo log are not on it",
                     b->s->redo.committed - MIN(b->s->redo.committed, b->s->redo.durable), 0);
    return report_add_blocked(b, m);
}

static const char *
save_waits_on(struct report_builder *b, const struct save_request *r, bool running)
{
    const struct save *save = &b->s->save;

    if (running)
        return in_words(b->s, "%" PRIu64 " of %" PRIu64 " blocks are read", save->passed_len, save->len);
    if (r->at_clock)
        return in_words(b->s, "clock %" PRIu64, r->clock, 0);
    return save->state == SAVE_IDLE ? "its turn" : "the save that runs";
}

static bool
blocked_saves(struct report_builder *b, const struct save_request *list, bool running)
{
    const struct save_request *r;

    DL_FOREACH (list, r) {
        const struct job *job = r->job_id != 0 ? b->s->jobs_by_id[r->job_id] : NULL;
        Psd__BlockedReport *m;

        if (b->job[0] != '\0' && !report_wants_job(b, job))
            continue;
        m = blocked_connection(b, r->connection, job, r->job_id != 0 ? "checkpoint" : "save", r->since_ms);
        if (m == NULL)
            return false;
        m->on = (char *)(uintptr_t)save_waits_on(b, r, running);
        if (!running && r->at_clock)
            m->on_clock = r->clock;
        if (!report_add_blocked(b, m))
            return false;
    }
    return true;
}

static bool
blocked_elsewhere(struct report_builder *b)
{
    struct shard *s = b->s;

    for (uint32_t id = 1; id <= s->variables_len; id++)
        if (report_wants_job(b, s->variables[id]->job) && !blocked_declares(b, s->variables[id]))
            return false;
    return held_each(s, blocked_held, b) && blocked_saves(b, s->save.answering, true) &&
           blocked_saves(b, s->save.waiting, false);
}

void
report_blocked(struct report_builder *b)
{
    struct shard *s = b->s;

    if ((b->report->blocked = report_zeroed(s, REPORT_ENTRIES_MAX * sizeof(Psd__BlockedReport *))) == NULL)
        return;
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        if (report_wants_job(b, s->jobs_by_id[id]) && !blocked_in_job(b, s->jobs_by_id[id]))
            return;
    if (blocked_elsewhere(b))
        meetings_blocked(b);
}
