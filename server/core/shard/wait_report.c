/* Many waits are for the same workers: those at one barrier, those of pulls at one clock. These workers are found once
 * for a run of such waits, since that may mean looking at every worker of the job. */
#include "server/core/shard/wait_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/durability/drop_erase.h"
#include "server/core/shard_state.h"

struct wait_walk {
    const struct shard *s;
    uint64_t now_ms;
    const char *only; /* this job, or "" */
    wait_report_visit visit;
    void *arg;

    /* The workers that the wait before was for. */
    const void *of; /* the job, sync step or barrier */
    uint64_t of_clock;
    uint32_t on_task[WAIT_REPORT_ON_MAX], on_len;

    struct waiting w;
};

static bool
wait_report_wants_job(const struct wait_walk *walk, const struct job *job)
{
    return job != NULL && !job->dropped && (walk->only[0] == '\0' || strcmp(walk->only, job->name) == 0);
}

static void
wait_report_begin(struct wait_walk *walk, const char *what, uint64_t since_ms)
{
    struct waiting *w = &walk->w;

    w->job = w->who = w->variable = "";
    w->task = w->on_len = 0;
    w->clock = w->on_clock = 0;
    w->waited_ms = walk->now_ms - MIN(since_ms, walk->now_ms);
    w->on[0] = '\0';
    snprintf(w->what, sizeof w->what, "%s", what);
}

static void
begin_worker(struct wait_walk *walk, const struct session *x, const char *what, uint64_t since_ms)
{
    wait_report_begin(walk, what, since_ms);
    walk->w.job = x->job->name;
    walk->w.task = x->task;
}

/* A wait of a connection, of a worker or another peer; job NULL: it is of none. */
static void
begin_connection(struct wait_walk *walk, const struct connection *c, const struct job *job, const char *what,
                 uint64_t since_ms)
{
    struct waiting *w = &walk->w;

    wait_report_begin(walk, what, since_ms);
    if (job != NULL)
        w->job = job->name;
    if (c != NULL && c->session != NULL) {
        w->task = c->session->task;
        w->clock = c->session->clock;
    } else {
        w->who = c == NULL ? "psd itself" : *connection_agent(c) != '\0' ? connection_agent(c) : c->peer;
    }
}

static bool
wait_report_show(struct wait_walk *walk)
{
    return walk->visit(walk->arg, &walk->w);
}

/* ---- For other workers ---- */

static int
by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Workers that hold back a step which they must pass: those at an older clock, and those that are not there yet where
 * none begins without them. */
static uint32_t
wait_report_slower_tasks(const struct job *job, uint64_t clock, uint32_t tasks[WAIT_REPORT_ON_MAX])
{
    uint32_t n = clock_heap_before(&job->holding, clock, tasks, WAIT_REPORT_ON_MAX);

    if (job_begins_together(job) && !job_all_joined(job))
        for (uint32_t task = 0; task < job->workers && n < WAIT_REPORT_ON_MAX; task++)
            if (job_joined(job, task) == NULL)
                tasks[n++] = task;
    qsort(tasks, n, sizeof *tasks, by_number);
    return n;
}

/* True: the wait before was for the same workers, which are known. Else walk->on_len is to be found out. */
static bool
same_as_before(struct wait_walk *walk, const void *of, uint64_t clock)
{
    bool same = walk->of == of && walk->of_clock == clock;

    walk->of = of;
    walk->of_clock = clock;
    return same;
}

static void
take_tasks(struct wait_walk *walk, const struct job *job)
{
    struct waiting *w = &walk->w;

    w->on_len = MIN(walk->on_len, (uint32_t)WAIT_REPORT_ON_MAX);
    memcpy(w->on_task, walk->on_task, w->on_len * sizeof walk->on_task[0]);
    for (uint32_t i = 0; i < w->on_len; i++) {
        const struct session *on = job_joined(job, w->on_task[i]);

        w->on_at[i] = on != NULL ? on->clock + 1 : 0;
    }
}

static void
on_slower(struct wait_walk *walk, const struct job *job, uint64_t clock)
{
    if (!same_as_before(walk, job, clock))
        walk->on_len = wait_report_slower_tasks(job, clock, walk->on_task);
    take_tasks(walk, job);
}

static void
on_block(struct wait_walk *walk, const struct job *job, const struct block_ref *ref, uint64_t clock)
{
    struct sync_step *g = ref->block->sync_step;

    walk->w.variable = ref->variable->name;
    walk->w.on_clock = clock_of_block(job, ref->block, CLOCK_FOR_PULL) + 1;
    if (g == NULL) {
        on_slower(walk, job, clock);
        return;
    }
    if (!same_as_before(walk, g, g->clock))
        walk->on_len = sync_step_missing(g, walk->on_task, WAIT_REPORT_ON_MAX);
    take_tasks(walk, job);
}

static bool
wait_for_settling(struct wait_walk *walk, const struct job *job, const struct pull *p)
{
    begin_connection(walk, p->connection, job, "pull", p->since_ms);
    walk->w.clock = p->clock;
    walk->w.variable = variable_table_get(&walk->s->variables, p->data->var[0])->name;
    snprintf(walk->w.on, sizeof walk->w.on, "blocks that take the values of an assign");
    return wait_report_show(walk);
}

static bool
wait_of_pull(struct wait_walk *walk, const struct job *job, const struct pull *p)
{
    struct block_ref ref;

    if (p->settles)
        return wait_for_settling(walk, job, p);

    begin_worker(walk, p->connection->session, "pull", p->since_ms);
    walk->w.clock = p->clock;
    block_refind(walk->s, p->data->var[p->at], p->data->block[p->at], &ref);
    if (job_is_sync(job)) {
        on_block(walk, job, &ref, p->clock);
    } else {
        walk->w.variable = ref.variable->name;
        walk->w.on_clock = p->clock - MIN(p->clock, job->bound);
        on_slower(walk, job, walk->w.on_clock);
    }
    return wait_report_show(walk);
}

static bool
wait_of_push(struct wait_walk *walk, const struct job *job, const struct pending *p)
{
    struct block_ref ref;
    uint32_t i = 0;

    begin_worker(walk, p->session, "push", p->since_ms);
    while (i + 1 < p->blocks_len && p->blocks[i].done)
        i++;
    walk->w.clock = p->clock;
    block_refind(walk->s, p->blocks[i].var, p->blocks[i].block, &ref);
    on_block(walk, job, &ref, p->clock);
    walk->w.on_clock = p->clock;
    return wait_report_show(walk);
}

static bool
wait_at_barrier(struct wait_walk *walk, const struct pending *p)
{
    begin_worker(walk, p->session, "", p->since_ms);
    snprintf(walk->w.what, sizeof walk->w.what, "barrier %s", p->barrier->name);
    walk->w.clock = p->clock;
    if (!same_as_before(walk, p->barrier, 0))
        walk->on_len = barrier_missing(p->barrier, walk->on_task, WAIT_REPORT_ON_MAX);
    take_tasks(walk, p->session->job);
    return wait_report_show(walk);
}

/* An assign that has not begun: the worker whose one is under way is waited for, or blocks that take values. */
static bool
wait_for_assigns(struct wait_walk *walk, const struct job *job)
{
    const struct assign_waiter *waiter;
    const struct assign_slot *slot = assigns_undecided(&job->assigns);

    DL_FOREACH (job->assign_waiters, waiter) {
        begin_worker(walk, waiter->connection->session, "assign", waiter->since_ms);
        walk->w.clock = waiter->connection->session->clock;
        if (slot != NULL)
            walk->w.on_task[walk->w.on_len++] = slot->task;
        else
            snprintf(walk->w.on, sizeof walk->w.on, "blocks that take the values of earlier ones");
        if (!wait_report_show(walk))
            return false;
    }
    return true;
}

static bool
wait_report_in_job(struct wait_walk *walk, const struct job *job)
{
    const struct session *x;
    const struct pending *p;
    const struct pull *pull;

    DL_FOREACH (job->pulls, pull)
        if (!wait_of_pull(walk, job, pull))
            return false;
    if (!wait_for_assigns(walk, job))
        return false;
    SESSION_EACH (job, x)
        DL_FOREACH (x->pending, p)
            if (!(p->barrier != NULL ? wait_at_barrier(walk, p) : wait_of_push(walk, job, p)))
                return false;
    return true;
}

/* ---- For other things than workers ---- */

static bool
wait_report_for_blocks(struct wait_walk *walk, const struct declare_waiter *waiter)
{
    const struct variable *v = waiter->variable;

    begin_connection(walk, waiter->connection, v->job, waiter->attach ? "attach" : "declare", waiter->since_ms);
    walk->w.variable = v->name;
    snprintf(walk->w.on, sizeof walk->w.on, "%" PRIu64 " of %" PRIu64 " blocks are made", v->ready, v->count);
    return wait_report_show(walk);
}

/* Declares and attaches. */
static bool
wait_report_for_variables(struct wait_walk *walk)
{
    const struct declare_waiter *waiter;
    const struct connection *c;

    for (c = walk->s->connections; c != NULL; c = c->hh.next)
        DL_FOREACH2 (c->declares, waiter, conn_next)
            if (wait_report_wants_job(walk, waiter->variable->job) && !wait_report_for_blocks(walk, waiter))
                return false;
    return true;
}

static bool
wait_for_disk(void *arg, const struct connection *c, uint64_t since_ms)
{
    struct wait_walk *walk = arg;
    const struct redo *redo = &walk->s->redo;
    const struct job *job = c->session != NULL ? c->session->job : NULL;

    if (!wait_report_wants_job(walk, job))
        return true;
    begin_connection(walk, c, job, "durable push", since_ms);
    snprintf(walk->w.on, sizeof walk->w.on, "the disk: %" PRIu64 " pieces of the redo log are not on it",
             redo->committed - MIN(redo->committed, redo->durable));
    return wait_report_show(walk);
}

static bool
wait_for_erasing(void *arg, const struct connection *c, uint64_t since_ms)
{
    struct wait_walk *walk = arg;
    const struct variable *v;
    uint64_t blocks = 0;

    if (walk->only[0] != '\0') /* the job is gone */
        return true;
    DL_FOREACH2 (walk->s->drops.variables, v, work_next)
        blocks += v->ready;
    begin_connection(walk, c, NULL, "drop", since_ms);
    snprintf(walk->w.on, sizeof walk->w.on, "%" PRIu64 " blocks that were dropped are not erased yet", blocks);
    return wait_report_show(walk);
}

static void
save_waits_on(const struct save *save, const struct save_request *r, bool running, char *out, size_t size)
{
    if (running)
        snprintf(out, size, "%" PRIu64 " of %" PRIu64 " blocks are read", save->passed_len, save->len);
    else if (r->at_clock)
        snprintf(out, size, "clock %" PRIu64, r->clock);
    else
        snprintf(out, size, "%s", save->state == SAVE_IDLE ? "its turn" : "the save that runs");
}

static bool
wait_report_for_saves(struct wait_walk *walk, const struct save_request *list, bool running)
{
    const struct save_request *r;

    DL_FOREACH (list, r) {
        const struct job *job = r->job_id != 0 ? walk->s->jobs_by_id[r->job_id] : NULL;

        if (walk->only[0] != '\0' && !wait_report_wants_job(walk, job))
            continue;
        begin_connection(walk, r->connection, job, r->job_id != 0 ? "checkpoint" : "save", r->since_ms);
        save_waits_on(&walk->s->save, r, running, walk->w.on, sizeof walk->w.on);
        if (!running && r->at_clock)
            walk->w.on_clock = r->clock;
        if (!wait_report_show(walk))
            return false;
    }
    return true;
}

/* ---- Groups that form ---- */

struct group_walk {
    struct wait_walk *walk;
    bool whole;
};

static bool
wait_in_rendezvous(void *arg, const struct rendezvous_wait *wait)
{
    struct group_walk *group = arg;
    struct wait_walk *walk = group->walk;

    wait_report_begin(walk, "", wait->since_ms);
    snprintf(walk->w.what, sizeof walk->w.what, "meeting %s", wait->name);
    walk->w.task = wait->task;
    walk->w.on_len = MIN(wait->missing_len, (uint32_t)MIN(WAIT_REPORT_ON_MAX, ARRAY_LEN(wait->missing)));
    memcpy(walk->w.on_task, wait->missing, walk->w.on_len * sizeof wait->missing[0]);
    memset(walk->w.on_at, 0, walk->w.on_len * sizeof walk->w.on_at[0]);
    return group->whole = wait_report_show(walk);
}

/* They are of no job. */
static bool
wait_report_for_groups(struct wait_walk *walk)
{
    struct group_walk group = {walk, true};

    if (walk->only[0] == '\0')
        rendezvous_core_each(&walk->s->rendezvous, wait_in_rendezvous, &group);
    return group.whole;
}

bool
wait_report_each(const struct shard *s, uint64_t now_ms, const char *job, wait_report_visit visit, void *arg)
{
    struct wait_walk walk = {.s = s, .now_ms = now_ms, .only = job, .visit = visit, .arg = arg};

    for (uint32_t id = 1; id <= s->jobs_len; id++)
        if (wait_report_wants_job(&walk, s->jobs_by_id[id]) && !wait_report_in_job(&walk, s->jobs_by_id[id]))
            return false;
    return wait_report_for_variables(&walk) && durable_acks_each(s, wait_for_disk, &walk) &&
           drop_erase_each(s, wait_for_erasing, &walk) && wait_report_for_saves(&walk, s->save.answering, true) &&
           wait_report_for_saves(&walk, s->save.waiting, false) && wait_report_for_groups(&walk);
}
