/* The training script: what a worker's program does, one phase after the other. See node_worker.h for the phases.
 *
 * script_poll() collects operations that are done, gives up those whose time has come, then moves on as far as it can.
 * A phase starts its operations when it is entered and ends when those that it awaits are done.
 *
 * Errors: CANCELLED pulls are asked again. FENCED and LEASE_LAPSED end everything: the worker joins again as a new
 * incarnation. Any other error that this run's faults do not explain fails the run. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/optimizer.h"
#include "node_worker.h"

#define CANCEL_US_MAX      (20 * SIM_MS)
#define CANCEL_LATE_US_MAX (3 * SIM_SECOND) /* perhaps after connections were lost and made again */
#define BARRIER_US_MAX     (5 * SIM_SECOND)
#define PATIENCE_US        (60 * SIM_SECOND) /* of who was refused a part of the step that it pushes */
#define REJOIN_US_MAX      (500 * SIM_MS)
#define PIPELINE_MAX       6    /* operations under way that nobody waits for */
#define ASK_PER_MILLE      30   /* queries and pings */
#define SET_PER_MILLE      150  /* of worker 0: changes of the running job */
#define NOW_PER_MILLE      100  /* pulls that do not wait for the mode's condition */
#define BARRIERS_MAX       1000 /* in a run of the job */
#define AGAIN_US_MAX       (100 * SIM_MS)

static const char *const phase_names[WORKER_PHASES] = {"down",    "joining", "declaring", "pulling", "computing",
                                                       "pushing", "ticking", "meeting",   "leaving", "gone"};
static const char *const op_names[] = {"declare", "pull", "push", "tick", "barrier", "query", "ping", "set"};

/* ---- Buffers ---- */

/* Freed buffers are scribbled over first, so that reading one late shows even without a sanitizer. */
static void
buffer_free(float *buffer, uint64_t n)
{
    if (buffer == NULL)
        return;
    for (uint64_t i = 0; i < n; i++)
        buffer[i] = __builtin_nanf("0x123");
    free(buffer);
}

static float *
buffer_new(uint64_t n)
{
    float *buffer = malloc(n * sizeof *buffer);

    ps_assert(buffer != NULL);
    for (uint64_t i = 0; i < n; i++)
        buffer[i] = -12345.0f;
    return buffer;
}

static void
values_renew(struct node_worker *w, uint32_t v)
{
    uint64_t n = w->model->vars[v].elements;

    buffer_free(w->values[v], n);
    w->values[v] = buffer_new(n);
    w->whole[v] = false;
}

static void
op_free(struct node_worker *w, struct worker_op *o)
{
    for (uint32_t i = 0; i < o->vars_len; i++)
        buffer_free(o->grads[i], w->model->vars[o->vars[i]].elements);
    free(o);
}

/* ---- Operations ---- */

static struct worker_op *
op_new(struct node_worker *w, enum worker_op_kind kind)
{
    struct worker_op *o = sim_alloc(sizeof *o), **at = &w->ops;

    o->kind = kind;
    o->awaited = true;
    o->started_us = w->sim->now_us;
    while (*at != NULL)
        at = &(*at)->next;
    *at = o;
    return o;
}

static uint32_t
ops_count(const struct node_worker *w, bool awaited)
{
    uint32_t n = 0;

    for (const struct worker_op *o = w->ops; o != NULL; o = o->next)
        n += !awaited || o->awaited;
    return n;
}

static void
may_cancel(struct node_worker *w, struct worker_op *o)
{
    if (sim_chance(w->sim, w->profile.cancel_per_mille))
        o->cancel_us = w->sim->now_us + sim_below(w->sim, sim_chance(w->sim, 300) ? CANCEL_LATE_US_MAX : CANCEL_US_MAX);
}

/* Pushes of the runs in which every step must be the mean of all gradients are left alone; so are those that are
 * awaited in sync: two workers that each hold one gradient back, and do not tick before the others are answered, wait
 * for each other. */
static bool
may_spoil(const struct node_worker *w, bool awaited)
{
    return w->model->mode != PS_SYNC || (w->profile.may_lapse && !awaited);
}

/* Some have no patience with a connection that is lost, but who leaves waits until every shard knows it. */
void
script_lost(struct node_worker *w)
{
    for (struct worker_op *o = w->ops; o != NULL; o = o->next)
        if (o->cancel_us == 0 && o->kind != WORKER_PING && (o->kind != WORKER_PUSH || may_spoil(w, o->awaited)) &&
            sim_chance(w->sim, w->profile.hasty_per_mille))
            o->cancel_us = w->sim->now_us + sim_below(w->sim, CANCEL_US_MAX);
}

/* A start that the core refused: only for what is final, which script_poll() sees next, or for a broken gradient whose
 * norm it was to find. */
static void
started(struct node_worker *w, struct worker_op *o, enum ps_err err, const struct ps_error *e)
{
    if (err == PS_OK) {
        node_worker_perform(w);
        return;
    }
    if (core_fatal(w->core, NULL) == PS_OK && !(o->broken && err == PS_ERR_NONFINITE))
        sim_fail(w->sim, "w%u cannot start a %s: %s", w->task, op_names[o->kind], e->text);
    o->op = NULL;
    o->refused = err;
}

static void
start_declare(struct node_worker *w, uint32_t v)
{
    struct worker_op *o = op_new(w, WORKER_DECLARE);
    struct ps_error e;

    o->vars_len = 1;
    o->vars[0] = v;
    started(w, o, core_declare(w->core, &w->model->vars[v].spec, &w->vars[v], &o->op, &e), &e);
}

static void
start_pull(struct node_worker *w, uint32_t first, uint32_t n)
{
    struct worker_op *o = op_new(w, WORKER_PULL);
    /* In sync, who does not wait for the step comes too early with the next push. */
    bool now = w->model->mode != PS_SYNC && sim_chance(w->sim, NOW_PER_MILLE);
    struct ps_pull_options options = {.only_changed = 1, .now = now};
    struct core_var *vars[MODEL_VARS_MAX];
    float *out[MODEL_VARS_MAX];
    uint64_t clock = core_clock(w->core);
    struct ps_error e;

    o->vars_len = n;
    if (w->profile.lie == LIE_AHEAD)
        clock += 10;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = o->vars[i] = first + i;

        options.only_changed = options.only_changed && w->whole[v];
        vars[i] = w->vars[v];
        out[i] = w->values[v];
        o->pulls[i] = ledger_pull(w->ledger, w->task, w->life, clock, v, options.now ? LEDGER_NOW : LEDGER_PULL, 0);
    }
    options.only_changed = options.only_changed && sim_chance(w->sim, 600);
    may_cancel(w, o);
    started(w, o, core_pull(w->core, n, vars, out, &options, &o->op, &e), &e);
}

static void
make_gradients(struct node_worker *w, struct worker_op *o, bool want)
{
    for (uint32_t i = 0; i < o->vars_len; i++) {
        uint32_t v = o->vars[i];

        o->pushes[i] = ledger_push(w->ledger, w->task, w->life, core_clock(w->core), v, o->broken);
        o->grads[i] = buffer_new(w->model->vars[v].elements);
        ledger_push_gradient(w->ledger, o->pushes[i], o->grads[i]);
        if (want)
            o->pulls[i] = ledger_pull(w->ledger, w->task, w->life, core_clock(w->core), v, LEDGER_PUSHED, o->pushes[i]);
    }
}

/* The norm that the push gives; 0: the client is to find it. */
static double
draw_norm(struct node_worker *w, const struct worker_op *o)
{
    double squares = 0, norm;

    for (uint32_t i = 0; i < o->vars_len; i++) {
        norm = optimizer_norm(w->model->vars[o->vars[i]].elements, o->grads[i]);
        squares += norm * norm;
    }
    norm = sqrt(squares);
    for (uint32_t i = 0; i < o->vars_len; i++)
        ledger_push_norm(w->ledger, o->pushes[i], norm);
    if (o->broken)
        return 0;
    if (w->profile.lie == LIE_OTHER_NORM)
        return norm * 2;
    return sim_chance(w->sim, 500) ? norm : 0;
}

static void
start_push(struct node_worker *w, uint32_t first, uint32_t n, bool awaited)
{
    struct worker_op *o = op_new(w, WORKER_PUSH);
    unsigned flags = sim_chance(w->sim, 250) ? PS_PUSH_COPY : 0;
    struct core_var *vars[MODEL_VARS_MAX];
    const float *grads[MODEL_VARS_MAX];
    float *out[MODEL_VARS_MAX];
    bool durable =
        sim_chance(w->sim, w->profile.durable_per_mille) && (w->profile.may_durable || may_spoil(w, awaited));
    struct ps_cursor cursor = {w->cursor.epoch, w->cursor.position + 1};
    struct ps_push_options options = {.flags = durable ? flags | PS_PUSH_DURABLE : flags,
                                      .cursor = w->profile.cursors ? &cursor : NULL};
    struct ps_error e;
    enum ps_err err;

    o->clock = core_clock(w->core);
    o->durable = durable;
    o->refused_then = core_stats(w->core)->refused;
    o->awaited = awaited;
    o->want = awaited && sim_chance(w->sim, 300);
    o->broken = may_spoil(w, awaited) && sim_chance(w->sim, w->profile.broken_per_mille);
    o->vars_len = n;
    for (uint32_t i = 0; i < n; i++)
        o->vars[i] = first + i;
    make_gradients(w, o, o->want);
    options.norm = draw_norm(w, o);
    for (uint32_t i = 0; i < n; i++) {
        if (durable)
            ledger_push_durable(w->ledger, o->pushes[i]);
        if (options.cursor != NULL)
            ledger_push_cursor(w->ledger, o->pushes[i], options.cursor, core_round(w->core));
    }
    for (uint32_t i = 0; i < n; i++) {
        vars[i] = w->vars[first + i];
        grads[i] = o->grads[i];
        out[i] = w->values[first + i];
    }
    if (may_spoil(w, awaited))
        may_cancel(w, o);
    err = core_push(w->core, n, vars, grads, o->want ? out : NULL, &options, &o->op, &e);
    if (err == PS_OK && (flags & PS_PUSH_COPY)) {
        for (uint32_t i = 0; i < n; i++) {
            buffer_free(o->grads[i], w->model->vars[first + i].elements);
            o->grads[i] = NULL;
        }
    }
    started(w, o, err, &e);
}

/* Each step adds 1 to the metric of its epoch. */
static void
set_metrics(struct node_worker *w)
{
    double values[PS_METRICS_MAX] = {0};
    enum ps_err err;

    ps_assert(w->cursor.epoch < PS_METRICS_MAX);
    values[w->cursor.epoch] = 1;
    err = core_set_metrics(w->core, w->cursor.epoch + 1, values, NULL);
    ps_assert(err == PS_OK || err == core_fatal(w->core, NULL));
}

static void
start_tick(struct node_worker *w)
{
    struct worker_op *o = op_new(w, WORKER_TICK);
    struct ps_error e;

    o->awaited = sim_chance(w->sim, 500);
    if (w->profile.cursors)
        set_metrics(w);
    started(w, o, core_tick(w->core, &o->op, &e), &e);
}

static void
start_barrier(struct node_worker *w, uint32_t number)
{
    struct worker_op *o = op_new(w, WORKER_BARRIER);
    struct ps_error e;
    char name[32];

    snprintf(name, sizeof name, "barrier %u", number);
    o->barrier = number;
    o->awaited = !sim_chance(w->sim, w->profile.pass_per_mille);
    ledger_barrier(w->ledger, w->task, number);
    if (w->profile.barriers_end)
        o->cancel_us = w->sim->now_us + sim_between(w->sim, 1, BARRIER_US_MAX);
    started(w, o, core_barrier(w->core, name, &o->op, &e), &e);
}

static void
start_question(struct node_worker *w)
{
    bool ping = sim_chance(w->sim, 300);
    struct worker_op *o = op_new(w, ping ? WORKER_PING : WORKER_QUERY);
    uint32_t shard = (uint32_t)sim_below(w->sim, w->model->shards);
    enum ps_query kind = (enum ps_query)sim_below(w->sim, PS_QUERY_JOBS + 1);
    struct ps_error e;

    o->awaited = false;
    may_cancel(w, o);
    if (ping)
        started(w, o, core_ping(w->core, shard, &o->op, &e), &e);
    else
        started(w, o, core_query(w->core, shard, kind, w->model->job, NULL, &o->op, &e), &e);
}

/* One set at a time and from one worker, so that it is known which was last. Where a run ends
 * while the next one begins, a smaller bound may leave a worker behind those that wait for it. */
static bool
may_set(const struct node_worker *w)
{
    if (w->task != 0 || core_fatal(w->core, NULL) != PS_OK || !sim_chance(w->sim, SET_PER_MILLE))
        return false;
    if (w->model->mode == PS_SSP && w->model->rounds > 1)
        return false;
    for (const struct worker_op *o = w->ops; o != NULL; o = o->next)
        if (o->kind == WORKER_SET)
            return false;
    return w->model->mode != PS_ASYNC || w->model->age == PS_AGE_CUTOFF;
}

/* In sync the learning rate of a variable, which the ledger follows; else what lets pulls go, or drops pushes. */
static void
start_set(struct node_worker *w)
{
    struct worker_op *o = op_new(w, WORKER_SET);
    uint32_t v = (uint32_t)sim_below(w->sim, w->model->vars_len),
             bound = (uint32_t)sim_below(w->sim, MODEL_BOUND_MAX + 1);
    const struct model_var *var = &w->model->vars[v];
    double usual = var->spec.optimizer.learning_rate;
    struct ps_parameter rate = {"learning_rate", usual * (1 + (double)sim_below(w->sim, 8) / 8)};
    struct ps_age_policy age = {PS_AGE_CUTOFF, (double)sim_below(w->sim, 4)};
    struct ps_setting setting = {0};
    struct ps_error e;

    o->awaited = false;
    if (w->model->mode == PS_SYNC) {
        setting.variables = var->name;
        setting.parameters = 1;
        setting.parameter = &rate;
        o->set = ledger_set(w->ledger, LEDGER_RATE, v, w->profile.lie == LIE_OTHER_RATE ? 2 * rate.value : rate.value);
    } else if (w->model->mode == PS_SSP) {
        setting.bound = &bound;
        o->set = ledger_set(w->ledger, LEDGER_BOUND, 0, bound);
    } else {
        setting.age = &age;
        o->set = ledger_set(w->ledger, LEDGER_CUTOFF, 0, age.parameter);
    }
    may_cancel(w, o);
    started(w, o, core_set(w->core, &setting, &o->op, &e), &e);
}

/* ---- Results ---- */

static bool
result_expected(const struct node_worker *w, const struct worker_op *o, enum ps_err code)
{
    if (code == PS_OK || o->op == NULL || code == core_fatal(w->core, NULL))
        return true;
    switch (code) {
    case PS_ERR_CANCELLED:
        return o->cancelled;
    case PS_ERR_UNKNOWN_OUTCOME: /* or, in sync, a crash lost what had become of the step in which a worker rejoined */
        return ((o->kind == WORKER_PUSH || o->kind == WORKER_TICK) && o->cancelled) ||
               (o->kind == WORKER_PUSH &&
                (w->model->mode == PS_SYNC && w->profile.may_lapse && w->profile.store_fails));
    case PS_ERR_NONFINITE:
        return o->broken;
    case PS_ERR_STALE:
        return o->kind == WORKER_PUSH && w->model->age == PS_AGE_CUTOFF;
    case PS_ERR_LATE: /* who comes again begins where the slowest is, whose last tick may be on its way */
        return o->kind == WORKER_PUSH && w->model->mode == PS_SYNC &&
               (w->model->quorum < w->model->workers || w->profile.may_lapse || w->model->overlap);
    case PS_ERR_STEP_FAILED:
        return w->model->lapse == PS_LAPSE_FAIL && w->profile.may_lapse;
    case PS_ERR_UNSUPPORTED:
        return o->durable && !w->profile.may_durable;
    case PS_ERR_NOT_DURABLE:
        return o->durable && w->profile.store_fails;
    case PS_ERR_INVALID: /* shards that missed a goodbye do not know that another round has begun, and keep the place */
        return o->kind == WORKER_PUSH && w->profile.cursors && w->round > 0 && w->profile.may_lapse;
    case PS_ERR_NOT_FOUND: /* the shard lost the variable, and nobody has declared it again */
        return o->kind == WORKER_SET && w->profile.may_durable && w->profile.store_fails;
    case PS_ERR_IO:
    case PS_ERR_FULL:
        return w->profile.store_fails && (o->kind == WORKER_PUSH || o->kind == WORKER_DECLARE);
    default:
        return false;
    }
}

static void
pulled_var(struct node_worker *w, struct worker_op *o, uint32_t i)
{
    uint32_t v = o->vars[i];
    uint64_t n = w->model->vars[v].elements, lowest, highest;
    float *values = w->values[v], kept = values[n - 1];

    core_var_versions(w->vars[v], &lowest, &highest);
    if (w->profile.lie == LIE_TORN_PULL && n > 1 && sim_chance(w->sim, 100))
        values[n - 1] += 1.0f;
    if (w->profile.lie == LIE_STALE_PULL && w->older[v] != NULL && sim_chance(w->sim, 100))
        values = w->older[v];
    ledger_pulled(w->ledger, o->pulls[i], values, lowest, highest);
    w->values[v][n - 1] = kept;
    w->whole[v] = true;
    if (w->profile.lie == LIE_STALE_PULL && w->older[v] == NULL) {
        w->older[v] = buffer_new(n);
        memcpy(w->older[v], w->values[v], n * sizeof(float));
    }
}

/* Values came whole, or the buffers hold nothing that is known. */
static void
collect_values(struct node_worker *w, struct worker_op *o, enum ps_err code)
{
    for (uint32_t i = 0; i < o->vars_len && !w->sim->failed; i++) {
        if (code == PS_OK)
            pulled_var(w, o, i);
        else if (o->cancelled && sim_chance(w->sim, 500))
            values_renew(w, o->vars[i]);
    }
}

static void
collect_push(struct node_worker *w, struct worker_op *o, enum ps_err code)
{
    bool forge = w->profile.lie == LIE_FORGED_ACK && code == PS_ERR_NONFINITE;

    for (uint32_t i = 0; i < o->vars_len && !w->sim->failed; i++)
        ledger_push_done(w->ledger, o->pushes[i], forge ? PS_OK : code);
    if (o->want)
        collect_values(w, o, code);
}

static void
collect_pull(struct node_worker *w, struct worker_op *o, enum ps_err code)
{
    collect_values(w, o, code);
    for (uint32_t i = 0; i < o->vars_len && code == PS_OK; i++)
        w->pulled[o->vars[i]] = true;
}

static void
collect(struct node_worker *w, struct worker_op *o)
{
    struct ps_error e = {0};
    enum ps_err code = o->op != NULL ? core_op_result(o->op, &e) : o->refused;

    if (code != PS_OK)
        sim_trace(w->sim, "w%u %s: %s: %s", w->task, op_names[o->kind], ps_err_name(code), e.text);
    if (!result_expected(w, o, code))
        sim_fail(w->sim, "w%u's %s ended with %s: %s (%s)", w->task, op_names[o->kind], ps_err_name(code), e.text,
                 e.peer);
    core_op_free(w->core, o->op);
    if (o->kind == WORKER_DECLARE && code == PS_OK)
        w->declared[o->vars[0]] = true;
    else if (o->kind == WORKER_PULL)
        collect_pull(w, o, code);
    else if (o->kind == WORKER_PUSH)
        collect_push(w, o, code);
    else if (o->kind == WORKER_BARRIER && code == PS_OK)
        ledger_barrier_passed(w->ledger, w->task, w->round, o->barrier);
    else if (o->kind == WORKER_SET && code == PS_OK)
        ledger_set_done(w->ledger, o->set);
    op_free(w, o);
}

static void
collect_all(struct node_worker *w)
{
    struct worker_op **at = &w->ops;

    while (*at != NULL && !w->sim->failed) {
        struct worker_op *o = *at;

        if (o->op != NULL && !core_op_done(o->op)) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        collect(w, o);
    }
}

/* A disk that fails refuses durable pushes, and in sync the step waits for who was refused: to push again, or to tick.
 * Two workers, each of which was refused another part, would wait for each other for the rest, were it not that a
 * program's push has a timeout. Who was not refused has no part in that: it waits as long as it takes. */
static void
lose_patience(struct node_worker *w)
{
    if (w->model->mode != PS_SYNC)
        return;
    for (struct worker_op *o = w->ops; o != NULL; o = o->next)
        if (o->kind == WORKER_PUSH && o->awaited && o->cancel_us == 0 && core_stats(w->core)->refused > o->refused_then)
            o->cancel_us = w->sim->now_us + PATIENCE_US;
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
enter(struct node_worker *w, enum worker_phase phase)
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

/* Each returns true when the phase moved on. */
static bool
on_joining(struct node_worker *w)
{
    if (!core_joined(w->core))
        return false;
    w->life = ledger_join(w->ledger, w->task, w->round, core_clock(w->core));
    w->joined_before = true;
    sim_trace(w->sim, "w%u joined at clock %" PRIu64, w->task, core_clock(w->core));
    resume_data(w);
    enter(w, WORKER_DECLARING);
    return true;
}

static bool
on_declaring(struct node_worker *w)
{
    uint32_t missing = 0;

    if (ops_count(w, true) > 0)
        return false;
    for (uint32_t v = 0; v < w->model->vars_len; v++)
        missing += !w->declared[v];
    if (missing == 0) {
        enter(w, WORKER_MEETING); /* with barriers, nobody begins before all have joined */
        return true;
    }
    for (uint32_t v = 0; v < w->model->vars_len && core_fatal(w->core, NULL) == PS_OK; v++)
        if (!w->declared[v])
            start_declare(w, v);
    return false;
}

static bool
on_pulling(struct node_worker *w)
{
    uint32_t first = 0;

    if (!w->entered)
        memset(w->pulled, 0, sizeof w->pulled);
    w->entered = true;
    if (ops_count(w, true) > 0)
        return false;
    while (first < w->model->vars_len && core_fatal(w->core, NULL) == PS_OK) {
        uint32_t n = draw_group(w, first);
        bool wanted = false;

        for (uint32_t v = first; v < first + n; v++)
            wanted = wanted || !w->pulled[v];
        if (wanted)
            start_pull(w, first, n);
        first += n;
    }
    if (ops_count(w, true) > 0 || core_fatal(w->core, NULL) != PS_OK)
        return false;
    w->compute_until_us = w->sim->now_us + sim_below(w->sim, w->profile.compute_us_max + 1);
    enter(w, WORKER_COMPUTING);
    return true;
}

static bool
on_computing(struct node_worker *w)
{
    if (w->sim->now_us < w->compute_until_us)
        return false;
    enter(w, WORKER_PUSHING);
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
            start_push(w, first, n, wait);
        }
        if (sim_chance(w->sim, ASK_PER_MILLE) && core_fatal(w->core, NULL) == PS_OK)
            start_question(w);
        if (may_set(w))
            start_set(w);
    }
    if (ops_count(w, true) > 0 || ops_count(w, false) > PIPELINE_MAX)
        return false;
    enter(w, WORKER_TICKING);
    return true;
}

static bool
on_ticking(struct node_worker *w)
{
    if (!w->entered) {
        w->entered = true;
        w->steps++;
        w->cursor.position++;
        start_tick(w);
    }
    if (ops_count(w, true) > 0)
        return false;
    enter(w, WORKER_MEETING);
    return true;
}

/* A worker whose next run overlaps the others' last one joins at a clock of theirs. A barrier of the new run there
 * would hold up the others, who wait for this one's clock before they can come to it. */
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
            start_barrier(w, w->round * BARRIERS_MAX + (uint32_t)(clock / w->profile.barrier_every));
    }
    if (ops_count(w, true) > 0)
        return false;
    enter(w, clock >= (uint64_t)w->model->steps * (w->round + 1) ? WORKER_LEAVING : WORKER_PULLING);
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

/* A shard that came back older may not know this worker: it is to, before it says goodbye, or the others wait for one
 * that never comes. */
static void
ping_all(struct node_worker *w)
{
    struct ps_error e;

    w->pinged = true;
    ledger_leaves(w->ledger);
    for (uint32_t i = 0; i < w->model->shards && core_fatal(w->core, NULL) == PS_OK; i++) {
        struct worker_op *o = op_new(w, WORKER_PING);

        started(w, o, core_ping(w->core, i, &o->op, &e), &e);
    }
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
        if (w->profile.cursors)
            ledger_settled(w->ledger, w->task, &w->cursor);
        ledger_finished(w->ledger, w->task, w->round);
        core_goodbye(w->core);
        node_worker_perform(w);
    }
    if (!all_links_gone(w))
        return false;
    enter(w, WORKER_GONE);
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
    return w->profile.may_lapse && (code == PS_ERR_LEASE_LAPSED || code == PS_ERR_FENCED);
}

/* Everything has ended; begin again as somebody new. */
static void
rejoin(struct node_worker *w)
{
    w->rejoins++;
    sim_trace(w->sim, "w%u joins again", w->task);
    core_rejoin(w->core, sim_rand(w->sim) | 1, node_worker_ms(w));
    receipts_begin(w);
    enter(w, WORKER_JOINING);
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
        enter(w, WORKER_DOWN);
        w->compute_until_us = w->sim->now_us + sim_below(w->sim, REJOIN_US_MAX);
    }
    if (w->sim->now_us >= w->compute_until_us)
        rejoin(w);
    return true;
}

/* ---- What the process calls ---- */

void
script_start(struct node_worker *w)
{
    w->pinged = false;
    memset(w->vars, 0, sizeof w->vars);
    memset(w->declared, 0, sizeof w->declared);
    for (uint32_t v = 0; v < w->model->vars_len; v++)
        values_renew(w, v);
    receipts_begin(w);
    enter(w, WORKER_JOINING);
}

static void
core_end(struct node_worker *w)
{
    node_worker_finish(w);
    if (w->model->overlap && w->round + 1 < w->model->rounds)
        node_worker_again(w, sim_below(w->sim, AGAIN_US_MAX));
}

void
script_poll(struct node_worker *w)
{
    lose_patience(w);
    cancel_due(w);
    collect_all(w);
    if (on_fatal(w))
        return;
    while (!w->sim->failed && core_fatal(w->core, NULL) == PS_OK && phases[w->phase](w))
        collect_all(w);
    if (w->phase == WORKER_LEAVING && w->entered && !w->sim->failed)
        (void)on_leaving(w);
    if (w->phase == WORKER_GONE)
        core_end(w);
}

uint64_t
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

void
script_stop(struct node_worker *w)
{
    while (w->ops != NULL) {
        struct worker_op *o = w->ops;

        w->ops = o->next;
        for (uint32_t i = 0; o->kind == WORKER_PUSH && i < o->vars_len && !w->sim->failed; i++)
            ledger_push_done(w->ledger, o->pushes[i], PS_ERR_CLOSED);
        op_free(w, o);
    }
    for (uint32_t v = 0; v < w->model->vars_len; v++) {
        buffer_free(w->values[v], w->model->vars[v].elements);
        buffer_free(w->older[v], w->older[v] != NULL ? w->model->vars[v].elements : 0);
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
        sim_trace(w->sim, "w%u > %s: %s", w->task, op_names[o->kind], e.text);
    }
}

void
script_watch(struct node_worker *w, uint64_t limit_us)
{
    uint64_t now = w->sim->now_us, since = w->phase_us;
    struct ps_error e = {0};

    for (const struct worker_op *o = w->ops; o != NULL; o = o->next) {
        if (o->op == NULL || core_op_done(o->op) || now < o->started_us + limit_us)
            continue;
        (void)core_op_waiting(w->core, o->op, (now - o->started_us) / SIM_MS, &e);
        sim_fail(w->sim, "w%u hangs in a %s at clock %" PRIu64 ": %s", w->task, op_names[o->kind], core_clock(w->core),
                 e.text);
    }
    if (now < since + limit_us || w->sim->failed)
        return;
    (void)core_join_error(w->core, (now - since) / SIM_MS, &e);
    sim_fail(w->sim, "w%u hangs while %s at clock %" PRIu64 ": %s", w->task, phase_names[w->phase], core_clock(w->core),
             e.text);
}
