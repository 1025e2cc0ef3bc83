/* The program of a simulated evaluator, which is a process like a worker (node_worker.c): it attaches to the variables
 * that the workers declare, pulls some of them now and then, and once all of them when the workers are over.
 *
 *     WORKER_PULLING ─── observer_leave() ──► WORKER_LEAVING ─── all was pulled ──► WORKER_GONE
 *
 * One operation at a time. The ledger knows each pull as one that waits for nothing: its blocks' bits must be versions
 * that were committed, none older than when it began. */
#include <stdlib.h>

#include "tests/sim/outsider.h"

#define PAUSE_US_MAX  (200 * SIM_MS)
#define CANCEL_US_MAX (20 * SIM_MS)

static struct worker_op *
begin_op(struct node_worker *w, enum worker_op_kind kind)
{
    struct worker_op *o = outsider_op(w, kind);

    ps_assert(o->next == NULL);
    if (w->phase != WORKER_LEAVING && sim_chance(w->sim, w->profile.cancel_per_mille))
        o->cancel_us = w->sim->now_us + 1 + sim_below(w->sim, CANCEL_US_MAX);
    return o;
}

static void
observer_attach(struct node_worker *w, uint32_t v)
{
    struct worker_op *o = begin_op(w, WORKER_ATTACH);
    struct ps_error e;

    o->vars[o->vars_len++] = v;
    outsider_asked(w, core_attach(w->core, w->model->vars[v].name, &o->op, &e), &e);
}

/* Some of those that it has attached to, or all. */
static void
observer_pull(struct node_worker *w, bool all)
{
    struct worker_op *o = begin_op(w, WORKER_PULL);
    struct ps_pull_options options = {.only_changed = 1};
    struct core_var *vars[MODEL_VARS_MAX];
    float *out[MODEL_VARS_MAX];
    struct ps_error e;

    for (uint32_t v = 0; v < w->model->vars_len; v++) {
        bool skip = !all && o->vars_len > 0 && sim_chance(w->sim, 500);

        if (!w->declared[v] || skip)
            continue;
        options.only_changed = options.only_changed && w->whole[v];
        vars[o->vars_len] = w->vars[v];
        out[o->vars_len] = w->values[v];
        o->pulls[o->vars_len] = ledger_pull(w->ledger, w->task, 0, 0, v, LEDGER_NOW, 0);
        o->vars[o->vars_len++] = v;
    }
    options.only_changed = options.only_changed && sim_chance(w->sim, 500);
    outsider_asked(w, core_pull(w->core, o->vars_len, vars, out, &options, &o->op, &e), &e);
}

/* ---- Results ---- */

static void
observer_attached(struct node_worker *w, const struct worker_op *o)
{
    uint32_t v = o->vars[0];
    const struct ps_var_spec *spec = &w->model->vars[v].spec;

    w->vars[v] = core_op_variable(o->op);
    w->declared[v] = true;
    if (core_var_elements(w->vars[v]) != w->model->vars[v].elements || core_var_rank(w->vars[v]) != spec->rank)
        sim_fail(w->sim, "the observer was told another shape of %s", w->model->vars[v].name);
    for (uint32_t i = 0; i < spec->rank; i++)
        if (core_var_dim(w->vars[v], i) != spec->dims[i])
            sim_fail(w->sim, "the observer was told another dimension %u of %s", i, w->model->vars[v].name);
}

static void
observer_pulled(struct node_worker *w, const struct worker_op *o)
{
    uint64_t lowest, highest;

    w->steps++;
    for (uint32_t i = 0; i < o->vars_len && !w->sim->failed; i++) {
        uint32_t v = o->vars[i];

        core_var_versions(w->vars[v], &lowest, &highest);
        ledger_pulled(w->ledger, o->pulls[i], w->values[v], lowest, highest);
        w->whole[v] = true;
    }
    if (o->vars_len > 0 && !w->sim->failed)
        ledger_pulled_together(w->ledger, o->vars_len, o->pulls);
}

static void
observer_collect(struct node_worker *w, struct worker_op *o)
{
    struct ps_error e = {0};
    enum ps_err code = core_op_result(o->op, &e);
    bool not_yet =
        o->kind == WORKER_ATTACH && (code == PS_ERR_NOT_FOUND || (code == PS_ERR_IO && w->profile.store_fails));

    if (code == PS_OK && o->kind == WORKER_ATTACH)
        observer_attached(w, o);
    else if (code == PS_OK)
        observer_pulled(w, o);
    else if (!not_yet && !o->cancelled)
        outsider_refused(w, code, &e);
    if (o->kind == WORKER_PULL && code != PS_OK) /* the contents of its buffers are not known */
        for (uint32_t i = 0; i < o->vars_len; i++)
            w->whole[o->vars[i]] = false;
    w->pulled[o->vars[0]] |= o->kind == WORKER_ATTACH && w->phase == WORKER_LEAVING; /* it has had its chance */
    outsider_op_free(w, o);
    w->compute_until_us = w->sim->now_us + sim_below(w->sim, PAUSE_US_MAX);
}

/* ---- What it does ---- */

static bool
any_attached(const struct node_worker *w)
{
    for (uint32_t v = 0; v < w->model->vars_len; v++)
        if (w->declared[v])
            return true;
    return false;
}

static void
go_on(struct node_worker *w)
{
    uint32_t v = (uint32_t)sim_below(w->sim, w->model->vars_len);

    if (!w->declared[v])
        observer_attach(w, v);
    else
        observer_pull(w, false);
}

static void
observer_leave_now(struct node_worker *w)
{
    uint32_t v = 0;

    while (v < w->model->vars_len && (w->declared[v] || w->pulled[v]))
        v++;
    if (v < w->model->vars_len) {
        observer_attach(w, v);
    } else if (!w->entered && any_attached(w)) {
        w->entered = true;
        observer_pull(w, true);
    } else {
        node_worker_finish(w);
    }
}

static void
observer_start(struct node_worker *w)
{
    for (uint32_t v = 0; v < w->model->vars_len; v++)
        w->values[v] = sim_alloc(w->model->vars[v].elements * sizeof(float));
    outsider_start(w);
}

void
observer_leave(struct node_worker *w)
{
    if (w->phase != WORKER_PULLING)
        return;
    w->phase = WORKER_LEAVING;
    node_worker_perform(w);
}

static void
observer_poll(struct node_worker *w)
{
    struct worker_op *o = w->ops;

    if (outsider_failed(w))
        return;
    if (o != NULL && o->cancel_us != 0 && o->cancel_us <= w->sim->now_us && !core_op_done(o->op)) {
        o->cancelled = true;
        core_op_cancel(w->core, o->op);
        node_worker_perform(w);
    }
    if ((o = outsider_take_done(w)) != NULL)
        observer_collect(w, o);
    if (w->ops != NULL || w->sim->failed || w->sim->now_us < w->compute_until_us)
        return;
    if (w->phase == WORKER_LEAVING)
        observer_leave_now(w);
    else
        go_on(w);
}

static uint64_t
observer_next_us(const struct node_worker *w)
{
    if (w->core == NULL)
        return UINT64_MAX;
    if (w->ops == NULL)
        return MAX(w->compute_until_us, w->sim->now_us);
    return w->ops->cancel_us != 0 && !w->ops->cancelled ? MAX(w->ops->cancel_us, w->sim->now_us) : UINT64_MAX;
}

static void
observer_stop(struct node_worker *w)
{
    outsider_stop(w);
    for (uint32_t v = 0; v < w->model->vars_len; v++) {
        free(w->values[v]);
        w->values[v] = NULL;
    }
}

const struct worker_program observer_program = {
    .name = "observer",
    .start = observer_start,
    .poll = observer_poll,
    .stop = observer_stop,
    .next_us = observer_next_us,
    .watch = outsider_watch,
};
