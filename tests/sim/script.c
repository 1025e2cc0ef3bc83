/* The training script: a worker's program, one phase after the other. See node_worker.h for the phases.
 *
 * script_poll() collects operations that are done, gives up those that are due for it, then moves on as far as it can.
 * A phase starts its operations when it is entered and ends when those that it awaits are done.
 *
 * Errors: CANCELLED pulls are asked again. FENCED and LEASE_LAPSED end everything: the worker joins again as a new
 * incarnation. Any other error that this run's faults do not explain fails the run. */
#include <inttypes.h>
#include <string.h>

#include "tests/sim/script.h"

#define ADAPTIVE_SPIN_US (60 * SIM_SECOND) /* of a worker that was refused a part of the step that it pushes */
#define REJOIN_US_MAX    (500 * SIM_MS)
#define PIPELINE_MAX     6    /* operations under way that the script does not wait for */
#define ASK_PER_MILLE    30   /* queries and pings */
#define BARRIERS_MAX     1000 /* in a run of the job */
#define AGAIN_US_MAX     (100 * SIM_MS)

static const char *const phase_names[WORKER_PHASES] = {"down",    "joining", "declaring", "pulling", "computing",
                                                       "pushing", "ticking", "meeting",   "leaving", "gone"};

/* While a disk fails, durable pushes are refused, and in sync the step waits for the refused worker to push again, or
 * to tick. Two workers, each of which was refused another part, would wait for each other for the rest, if a program's
 * push had no timeout. A worker that was not refused waits as long as it takes. */
static void
lose_patience(struct node_worker *w)
{
    if (w->model->mode != PS_SYNC)
        return;
    for (struct worker_op *o = w->ops; o != NULL; o = o->next)
        if (o->kind == WORKER_PUSH && o->awaited && o->cancel_us == 0 && core_stats(w->core)->refused > o->refused_then)
            o->cancel_us = w->sim->now_us + ADAPTIVE_SPIN_US;
}

static void
cancel_due(struct node_worker *w)
{
    for (struct worker_op *o = w->ops; o != NULL; o = o->next) {
        if (o->cancel_us == 0 || o->cancel_us > w->sim->now_us || o->op == NULL || core_op_done(o->op))
            continue;
        o->cancelled = true;
        if (o->kind == WORKER_PUSH)
            receipts_given_up(w, o->clock);
        core_op_cancel(w->core, o->op);
        node_worker_perform(w);
    }
}

/* ---- Phases ---- */

static void
script_enter(struct node_worker *w, enum worker_phase phase)
{
    w->phase = phase;
    w->entered = false;
    w->phase_us = w->sim->now_us;
}

/* Variables first to *n - 1 that one operation takes: all, or one by one, as drawn. */
static uint32_t
draw_group(struct node_worker *w, uint32_t first)
{
    return (uint32_t)sim_between(w->sim, 1, w->model->vars_len - first);
}

/* An earlier process of this worker may have been here. */
static void
resume_data(struct node_worker *w)
{
    w->cursor = core_cursor(w->core);
    if (w->cursor.position == 0 || !w->profile.cursors)
        w->cursor = (struct ps_cursor){.epoch = w->round};
    if (w->cursor.position > 0)
        sim_trace(w->sim, "w%u goes on behind example %" PRIu64, w->task, w->cursor.position);
    ledger_resumes(w->ledger, w->task, &w->cursor);
}

/* Where its data begins is what its first process of the round found, as long as no shard has come back older and no
 * other round has begun. */
static void
check_start(struct node_worker *w)
{
    struct ps_cursor nowhere = {0}, start = core_start_place(w->core, &nowhere);
    bool known =
        w->joined_before && core_round(w->core) == w->start_round && w->round == 0 && ledger_losses(w->ledger) == 0;

    if (known && core_start_clock(w->core) != w->start_clock)
        sim_fail(w->sim, "w%u joined first at clock %" PRIu64 ", and is said to have joined at %" PRIu64, w->task,
                 w->start_clock, core_start_clock(w->core));
    if (known && start.position > w->start_at && core_cursor(w->core).position == 0)
        sim_fail(w->sim, "w%u's data begins behind example %" PRIu64 ", and is said to begin behind %" PRIu64, w->task,
                 w->start_at, start.position);
    if (w->joined_before)
        return;
    w->start_clock = core_start_clock(w->core);
    w->start_round = core_round(w->core);
    w->start_at = start.position;
}

/* Each returns true when the phase moved on. */
static bool
on_joining(struct node_worker *w)
{
    if (!core_joined(w->core))
        return false;
    check_start(w);
    w->life = ledger_join(w->ledger, w->task, w->round, w->incarnation, core_clock(w->core));
    w->joined_before = true;
    w->resumed = false;
    sim_trace(w->sim, "w%u joined at clock %" PRIu64, w->task, core_clock(w->core));
    script_enter(w, WORKER_DECLARING);
    return true;
}

static bool
on_declaring(struct node_worker *w)
{
    uint32_t missing = 0;

    if (script_ops_count(w, true) > 0)
        return false;
    if (w->profile.cursors && !w->defined) {
        script_start_define(w, false);
        return false;
    }
    if (!w->resumed) /* its definition may have begun a round */
        resume_data(w);
    w->resumed = true;
    for (uint32_t v = 0; v < w->model->vars_len; v++)
        missing += !w->declared[v];
    if (missing == 0) {
        script_enter(w, WORKER_MEETING); /* with barriers, no worker begins before all have joined */
        return true;
    }
    for (uint32_t v = 0; v < w->model->vars_len && core_fatal(w->core, NULL) == PS_OK; v++)
        if (!w->declared[v])
            script_start_declare(w, v);
    return false;
}

static bool
on_pulling(struct node_worker *w)
{
    uint32_t first = 0;

    if (!w->entered) {
        memset(w->pulled, 0, sizeof w->pulled);
        script_may_assign(w);
    }
    w->entered = true;
    if (script_ops_count(w, true) > 0)
        return false;
    while (first < w->model->vars_len && core_fatal(w->core, NULL) == PS_OK) {
        uint32_t n = draw_group(w, first);
        bool wanted = false;

        for (uint32_t v = first; v < first + n; v++)
            wanted = wanted || !w->pulled[v];
        if (wanted)
            script_start_pull(w, first, n);
        first += n;
    }
    if (script_ops_count(w, true) > 0 || core_fatal(w->core, NULL) != PS_OK)
        return false;
    w->compute_until_us = w->sim->now_us + sim_below(w->sim, w->profile.compute_us_max + 1);
    script_enter(w, WORKER_COMPUTING);
    return true;
}

static bool
on_computing(struct node_worker *w)
{
    if (w->sim->now_us < w->compute_until_us)
        return false;
    script_enter(w, WORKER_PUSHING);
    return true;
}

/* A step that failed on one shard goes on waiting on another until this worker ticks. */
static bool
may_wait(const struct node_worker *w)
{
    return w->model->mode != PS_SYNC || w->model->lapse != PS_LAPSE_FAIL;
}

static bool
on_pushing(struct node_worker *w)
{
    if (!w->entered) {
        bool wait = sim_chance(w->sim, 600) && may_wait(w);

        w->entered = true;
        for (uint32_t first = 0, n; first < w->model->vars_len && core_fatal(w->core, NULL) == PS_OK; first += n) {
            n = draw_group(w, first);
            script_start_push(w, first, n, wait);
        }
        if (sim_chance(w->sim, ASK_PER_MILLE) && core_fatal(w->core, NULL) == PS_OK)
            script_start_question(w);
        if (script_may_set(w))
            script_start_set(w);
    }
    if (script_ops_count(w, true) > 0 || script_ops_count(w, false) > PIPELINE_MAX)
        return false;
    script_enter(w, WORKER_TICKING);
    return true;
}

/* While another worker holds to its definition. */
static bool
tries_another_definition(const struct node_worker *w)
{
    return w->profile.cursors && w->steps % 5 == 2 && !w->profile.may_lapse && !w->profile.may_restore &&
           w->model->rounds == 1 && ledger_losses(w->ledger) == 0 && ledger_another_defined(w->ledger, w->task);
}

static bool
on_ticking(struct node_worker *w)
{
    if (!w->entered) {
        w->entered = true;
        if (tries_another_definition(w))
            script_start_define(w, true);
        w->steps++;
        w->cursor.position++;
        script_start_tick(w);
    }
    if (script_ops_count(w, true) > 0)
        return false;
    script_enter(w, WORKER_MEETING);
    return true;
}

/* A worker whose next run overlaps the others' last one joins at a clock of theirs. A barrier of the new run there
 * would hold up the others, which wait for this one's clock before they can reach it. */
static bool
meets_at(const struct node_worker *w, uint64_t clock)
{
    uint32_t every = w->profile.barrier_every;

    if (every == 0 || clock % every != 0)
        return false;
    return !w->model->overlap || clock >= (uint64_t)w->model->steps * w->round;
}

static bool
on_meeting(struct node_worker *w)
{
    uint64_t clock = core_clock(w->core);

    if (!w->entered) {
        w->entered = true;
        if (meets_at(w, clock))
            script_start_barrier(w, w->round * BARRIERS_MAX + (uint32_t)(clock / w->profile.barrier_every));
    }
    if (script_ops_count(w, true) > 0)
        return false;
    script_enter(w, clock >= (uint64_t)w->model->steps * (w->round + 1) ? WORKER_LEAVING : WORKER_PULLING);
    return true;
}

static bool
all_links_gone(const struct node_worker *w)
{
    for (uint32_t i = 0; i < w->model->shards; i++)
        if (w->links[i] != NULL || w->finishing[i] != NULL)
            return false;
    return w->sends_out == 0;
}

/* A shard that came back older may not know this worker: it must, before it sends goodbye, or the others wait for one
 * that never comes. */
static void
ping_all(struct node_worker *w)
{
    w->pinged = true;
    ledger_leaves(w->ledger);
    for (uint32_t i = 0; i < w->model->shards && core_fatal(w->core, NULL) == PS_OK; i++)
        script_start_ping(w, i, true);
}

static bool
on_leaving(struct node_worker *w)
{
    if (!w->entered) {
        if (w->ops != NULL || !core_quiet(w->core) || w->stays)
            return false;
        if ((w->profile.may_durable || w->profile.may_restore) && !w->pinged) {
            ping_all(w);
            return false;
        }
        w->entered = true;
        sim_trace(w->sim, "w%u finishes at clock %" PRIu64, w->task, core_clock(w->core));
        if (w->profile.cursors && !w->tick_unsure)
            ledger_settled(w->ledger, w->task, &w->cursor);
        ledger_finished(w->ledger, w->task, w->round);
        core_goodbye(w->core);
        node_worker_perform(w);
    }
    if (!all_links_gone(w))
        return false;
    script_enter(w, WORKER_GONE);
    return true;
}

static bool
on_nothing(struct node_worker *w)
{
    (void)w;
    return false;
}

static bool (*const phases[WORKER_PHASES])(struct node_worker *w) = {
    [WORKER_DOWN] = on_nothing,    [WORKER_JOINING] = on_joining,     [WORKER_DECLARING] = on_declaring,
    [WORKER_PULLING] = on_pulling, [WORKER_COMPUTING] = on_computing, [WORKER_PUSHING] = on_pushing,
    [WORKER_TICKING] = on_ticking, [WORKER_MEETING] = on_meeting,     [WORKER_LEAVING] = on_leaving,
    [WORKER_GONE] = on_nothing,
};

/* ---- Final errors ---- */

static bool
fatal_expected(const struct node_worker *w, enum ps_err code)
{
    if (code == PS_ERR_MISMATCH) /* somebody of the round before may come again: psrun starts such a process again */
        return w->model->resizes && !w->joined_before;
    return w->profile.may_lapse && (code == PS_ERR_LEASE_LAPSED || code == PS_ERR_FENCED);
}

/* Everything has ended; begin again as a new incarnation. */
static void
script_rejoin(struct node_worker *w)
{
    w->rejoins++;
    sim_trace(w->sim, "w%u joins again", w->task);
    w->incarnation = sim_rand(w->sim) | 1;
    core_rejoin(w->core, w->incarnation, node_worker_ms(w));
    receipts_begin(w);
    script_enter(w, WORKER_JOINING);
    node_worker_perform(w);
}

/* True when the core has failed: the script only waits to join again. */
static bool
on_fatal(struct node_worker *w)
{
    struct ps_error e;
    enum ps_err code = core_fatal(w->core, &e);

    if (code == PS_OK || w->phase == WORKER_GONE || (w->phase == WORKER_LEAVING && w->entered))
        return false;
    if (!fatal_expected(w, code)) {
        sim_fail(w->sim, "w%u failed for good: %s: %s (%s)", w->task, ps_err_name(code), e.text, e.peer);
        return true;
    }
    if (w->phase != WORKER_DOWN) {
        script_enter(w, WORKER_DOWN);
        w->compute_until_us = w->sim->now_us + sim_below(w->sim, REJOIN_US_MAX);
    }
    if (w->sim->now_us >= w->compute_until_us)
        script_rejoin(w);
    return true;
}

/* ---- What the process calls ---- */

static void
script_start(struct node_worker *w)
{
    w->pinged = w->defined = false;
    memset(w->vars, 0, sizeof w->vars);
    memset(w->declared, 0, sizeof w->declared);
    for (uint32_t v = 0; v < w->model->vars_len; v++)
        script_values_renew(w, v);
    receipts_begin(w);
    script_enter(w, WORKER_JOINING);
}

static void
core_end(struct node_worker *w)
{
    node_worker_finish(w);
    if (w->model->overlap && w->round + 1 < w->model->rounds)
        node_worker_again(w, sim_below(w->sim, AGAIN_US_MAX));
}

static void
script_poll(struct node_worker *w)
{
    lose_patience(w);
    cancel_due(w);
    script_collect(w);
    if (on_fatal(w))
        return;
    while (!w->sim->failed && core_fatal(w->core, NULL) == PS_OK && phases[w->phase](w))
        script_collect(w);
    if (w->phase == WORKER_LEAVING && w->entered && !w->sim->failed)
        (void)on_leaving(w);
    if (w->phase == WORKER_GONE)
        core_end(w);
}

static uint64_t
script_next_us(const struct node_worker *w)
{
    uint64_t next = UINT64_MAX;

    if (w->core == NULL)
        return next;
    if (w->phase == WORKER_COMPUTING || w->phase == WORKER_DOWN)
        next = w->compute_until_us;
    if (w->phase == WORKER_LEAVING)
        next = w->sim->now_us + 10 * SIM_MS;
    for (const struct worker_op *o = w->ops; o != NULL; o = o->next)
        if (o->cancel_us != 0 && !o->cancelled)
            next = MIN(next, MAX(o->cancel_us, w->sim->now_us));
    return next;
}

static void
script_stop(struct node_worker *w)
{
    while (w->ops != NULL) {
        struct worker_op *o = w->ops;

        w->ops = o->next;
        for (uint32_t i = 0; o->kind == WORKER_PUSH && i < o->vars_len && !w->sim->failed; i++)
            ledger_push_done(w->ledger, o->pushes[i], PS_ERR_CLOSED);
        if (o->kind == WORKER_ASSIGN && !w->sim->failed)
            ledger_assign_done(w->ledger, o->assign, PS_ERR_CLOSED, 0);
        script_op_free(w, o);
    }
    for (uint32_t v = 0; v < w->model->vars_len; v++) {
        script_buffer_free(w->values[v], w->model->vars[v].elements);
        script_buffer_free(w->older[v], w->older[v] != NULL ? w->model->vars[v].elements : 0);
        w->values[v] = w->older[v] = NULL;
    }
}

void
script_describe(const struct node_worker *w)
{
    struct ps_error e = {0};

    sim_trace(w->sim, "w%u is %s since %" PRIu64 " ms at clock %" PRIu64, w->task, phase_names[w->phase],
              w->phase_us / SIM_MS, w->core != NULL ? core_clock(w->core) : 0);
    for (const struct worker_op *o = w->ops; o != NULL && w->core != NULL; o = o->next) {
        if (o->op == NULL || core_op_done(o->op))
            continue;
        (void)core_op_waiting(w->core, o->op, (w->sim->now_us - o->started_us) / SIM_MS, &e);
        sim_trace(w->sim, "w%u > %s: %s", w->task, script_op_name(o->kind), e.text);
    }
}

static void
script_watch(const struct node_worker *w, uint64_t limit_us)
{
    uint64_t now = w->sim->now_us, since = MAX(w->phase_us, w->held_us);
    struct ps_error e = {0};

    for (const struct worker_op *o = w->ops; o != NULL; o = o->next) {
        if (o->op == NULL || core_op_done(o->op) || now < MAX(o->started_us, w->held_us) + limit_us)
            continue;
        (void)core_op_waiting(w->core, o->op, (now - o->started_us) / SIM_MS, &e);
        sim_fail(w->sim, "w%u hangs in a %s at clock %" PRIu64 ": %s", w->task, script_op_name(o->kind),
                 core_clock(w->core), e.text);
    }
    if (now < since + limit_us || w->sim->failed)
        return;
    (void)core_join_error(w->core, (now - since) / SIM_MS, &e);
    sim_fail(w->sim, "w%u hangs while %s at clock %" PRIu64 ": %s", w->task, phase_names[w->phase], core_clock(w->core),
             e.text);
}

const struct worker_program script_program = {
    .name = "worker",
    .start = script_start,
    .poll = script_poll,
    .stop = script_stop,
    .next_us = script_next_us,
    .watch = script_watch,
};
