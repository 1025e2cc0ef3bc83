/* Operations of the training script: their buffers, and how each is started, as the worker's profile has it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/core/model/schedule.h"
#include "common/core/optimizer/optimizer.h"
#include "tests/sim/script.h"

#define CANCEL_US_MAX      (20 * SIM_MS)
#define CANCEL_LATE_US_MAX (3 * SIM_SECOND) /* perhaps after connections were lost and made again */
#define BARRIER_US_MAX     (5 * SIM_SECOND)
#define SET_PER_MILLE      150 /* of worker 0: changes of the running job */
#define SCRIPT_BEGINS      2   /* of MODEL_BOUND_MAX + 1 sets in sync: of a schedule */
#define NOW_PER_MILLE      100 /* pulls that do not wait for the mode's condition */

const char *
script_op_name(enum worker_op_kind kind)
{
    static const char *const names[] = {
        [WORKER_DECLARE] = "declare", [WORKER_PULL] = "pull",     [WORKER_PUSH] = "push",   [WORKER_TICK] = "tick",
        [WORKER_BARRIER] = "barrier", [WORKER_QUERY] = "query",   [WORKER_PING] = "ping",   [WORKER_SET] = "set",
        [WORKER_ASSIGN] = "assign",   [WORKER_ATTACH] = "attach", [WORKER_EVICT] = "evict", [WORKER_DROP] = "drop",
        [WORKER_DEFINE] = "define"};

    return names[kind];
}

/* ---- Buffers ---- */

void
script_buffer_free(float *buffer, uint64_t n)
{
    if (buffer == NULL)
        return;
    for (uint64_t i = 0; i < n; i++)
        buffer[i] = __builtin_nanf("0x123");
    free(buffer);
}

float *
script_buffer_new(uint64_t n)
{
    float *buffer = malloc(n * sizeof *buffer);

    ps_assert(buffer != NULL);
    for (uint64_t i = 0; i < n; i++)
        buffer[i] = -12345.0f;
    return buffer;
}

void
script_values_renew(struct node_worker *w, uint32_t v)
{
    uint64_t n = w->model->vars[v].elements;

    script_buffer_free(w->values[v], n);
    w->values[v] = script_buffer_new(n);
    w->whole[v] = false;
}

void
script_op_free(struct node_worker *w, struct worker_op *o)
{
    for (uint32_t i = 0; i < o->vars_len; i++)
        script_buffer_free(o->grads[i], w->model->vars[o->vars[i]].elements);
    free(o);
}

/* ---- Starting ---- */

struct worker_op *
script_op_new(struct node_worker *w, enum worker_op_kind kind)
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

uint32_t
script_ops_count(const struct node_worker *w, bool awaited)
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

/* Some give up when a connection is lost, but a worker that leaves waits until every shard knows it. */
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
void
script_op_started(struct node_worker *w, struct worker_op *o, enum ps_err err, const struct ps_error *e)
{
    if (err == PS_OK) {
        node_worker_perform(w);
        return;
    }
    if (core_fatal(w->core, NULL) == PS_OK && !(o->broken && err == PS_ERR_NONFINITE))
        sim_fail(w->sim, "w%u cannot start a %s: %s", w->task, script_op_name(o->kind), e->text);
    o->op = NULL;
    o->refused = err;
}

void
script_start_declare(struct node_worker *w, uint32_t v)
{
    struct worker_op *o = script_op_new(w, WORKER_DECLARE);
    struct ps_error e;

    o->vars_len = 1;
    o->vars[0] = v;
    script_op_started(w, o, core_declare(w->core, &w->model->vars[v].spec, &w->vars[v], &o->op, &e), &e);
}

/* All workers say the same, but for one that must be refused for what it says. */
void
script_start_define(struct node_worker *w, bool otherwise)
{
    struct ps_definition fields[] = {{"model", otherwise ? "another" : SIM_MODEL_VALUE}, {"batch", "1"}};
    struct worker_op *o = script_op_new(w, WORKER_DEFINE);
    struct ps_error e;

    o->otherwise = otherwise;
    script_op_started(w, o, core_define(w->core, ARRAY_LEN(fields), fields, &o->op, &e), &e);
}

void
script_start_pull(struct node_worker *w, uint32_t first, uint32_t n)
{
    struct worker_op *o = script_op_new(w, WORKER_PULL);
    /* In sync, a worker that does not wait for the step would push too early for the next one. */
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
    script_op_started(w, o, core_pull(w->core, n, vars, out, &options, &o->op, &e), &e);
}

static void
make_gradients(struct node_worker *w, struct worker_op *o, bool want)
{
    for (uint32_t i = 0; i < o->vars_len; i++) {
        uint32_t v = o->vars[i];

        o->pushes[i] = ledger_push(w->ledger, w->task, w->life, core_clock(w->core), v, o->broken);
        o->grads[i] = script_buffer_new(w->model->vars[v].elements);
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

void
script_start_push(struct node_worker *w, uint32_t first, uint32_t n, bool awaited)
{
    struct worker_op *o = script_op_new(w, WORKER_PUSH);
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
            script_buffer_free(o->grads[i], w->model->vars[first + i].elements);
            o->grads[i] = NULL;
        }
    }
    script_op_started(w, o, err, &e);
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

void
script_start_tick(struct node_worker *w)
{
    struct worker_op *o = script_op_new(w, WORKER_TICK);
    struct ps_error e;

    o->awaited = sim_chance(w->sim, 500);
    if (w->profile.cursors)
        set_metrics(w);
    script_op_started(w, o, core_tick(w->core, &o->op, &e), &e);
}

void
script_start_barrier(struct node_worker *w, uint32_t number)
{
    struct worker_op *o = script_op_new(w, WORKER_BARRIER);
    struct ps_error e;
    char name[32];

    snprintf(name, sizeof name, "barrier %u", number);
    o->barrier = number;
    o->awaited = !sim_chance(w->sim, w->profile.pass_per_mille);
    ledger_barrier(w->ledger, w->task, number);
    if (w->profile.barriers_end)
        o->cancel_us = w->sim->now_us + sim_between(w->sim, 1, BARRIER_US_MAX);
    script_op_started(w, o, core_barrier(w->core, name, &o->op, &e), &e);
}

void
script_start_question(struct node_worker *w)
{
    bool ping = sim_chance(w->sim, 300);
    struct worker_op *o = script_op_new(w, ping ? WORKER_PING : WORKER_QUERY);
    uint32_t shard = (uint32_t)sim_below(w->sim, w->model->shards);
    enum ps_query kind = (enum ps_query)sim_below(w->sim, PS_QUERY_JOBS + 1);
    struct ps_error e;

    o->awaited = false;
    may_cancel(w, o);
    if (ping)
        script_op_started(w, o, core_ping(w->core, shard, &o->op, &e), &e);
    else
        script_op_started(w, o, core_query(w->core, shard, kind, w->model->job, NULL, &o->op, &e), &e);
}

/* One set at a time and from one worker, so that it is known which was last. Where a run ends
 * while the next one begins, a smaller bound may leave a worker behind those that wait for it. */
bool
script_may_set(const struct node_worker *w)
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

/* The variable's schedule once more, from now on; or its learning rate. */
static uint32_t
set_in_sync(struct node_worker *w, uint32_t v, bool begins, struct ps_parameter *rate, struct ps_setting *setting)
{
    const struct sim_model_var *var = &w->model->vars[v];

    setting->variables = var->name;
    if (begins && schedule_moves(&var->spec.optimizer.schedule)) {
        setting->schedule = &var->spec.optimizer.schedule;
        return ledger_set(w->ledger, LEDGER_BEGIN, v, 0);
    }
    setting->parameters = 1;
    setting->parameter = rate;
    return ledger_set(w->ledger, LEDGER_RATE, v, w->profile.lie == LIE_OTHER_RATE ? 2 * rate->value : rate->value);
}

/* In sync the learning rate of a variable or its schedule, which the ledger follows; otherwise the parameter that
 * releases pulls, or drops pushes. */
void
script_start_set(struct node_worker *w)
{
    struct worker_op *o = script_op_new(w, WORKER_SET);
    uint32_t v = (uint32_t)sim_below(w->sim, w->model->vars_len),
             bound = (uint32_t)sim_below(w->sim, MODEL_BOUND_MAX + 1);
    const struct sim_model_var *var = &w->model->vars[v];
    double usual = var->spec.optimizer.learning_rate;
    struct ps_parameter rate = {"learning_rate", usual * (1 + (double)sim_below(w->sim, 8) / 8)};
    struct ps_age_policy age = {PS_AGE_CUTOFF, (double)sim_below(w->sim, 4)};
    struct ps_setting setting = {0};
    struct ps_error e;

    o->awaited = false;
    if (w->model->mode == PS_SYNC) {
        o->set = set_in_sync(w, v, bound < SCRIPT_BEGINS, &rate, &setting);
    } else if (w->model->mode == PS_SSP) {
        setting.bound = &bound;
        o->set = ledger_set(w->ledger, LEDGER_BOUND, 0, bound);
    } else {
        setting.age = &age;
        o->set = ledger_set(w->ledger, LEDGER_CUTOFF, 0, age.parameter);
    }
    may_cancel(w, o);
    script_op_started(w, o, core_set(w->core, &setting, &o->op, &e), &e);
}

void
script_start_ping(struct node_worker *w, uint32_t shard, bool awaited)
{
    struct worker_op *o = script_op_new(w, WORKER_PING);
    struct ps_error e;

    o->awaited = awaited;
    script_op_started(w, o, core_ping(w->core, shard, &o->op, &e), &e);
}
