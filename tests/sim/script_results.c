/* Results of the operations of the training script: which errors this run's faults explain, and the values and
 * acknowledgements that the ledger receives. */
#include <string.h>

#include "tests/sim/script.h"

static bool
result_expected(const struct node_worker *w, const struct worker_op *o, enum ps_err code)
{
    if (code == PS_OK || o->op == NULL || code == core_fatal(w->core, NULL))
        return true;
    if (o->kind == WORKER_ASSIGN)
        return script_assign_expected(w, o, code);
    switch (code) {
    case PS_ERR_CANCELLED:
        return o->cancelled;
    case PS_ERR_UNKNOWN_OUTCOME: /* or, in sync, a crash lost the outcome of the step in which a worker rejoined */
        return ((o->kind == WORKER_PUSH || o->kind == WORKER_TICK) && o->cancelled) ||
               (o->kind == WORKER_PUSH &&
                (w->model->mode == PS_SYNC && w->profile.may_lapse && w->profile.store_fails));
    case PS_ERR_NONFINITE:
        return o->broken;
    case PS_ERR_MISMATCH:
        return o->otherwise;
    case PS_ERR_STALE:
        return o->kind == WORKER_PUSH && w->model->age == PS_AGE_CUTOFF;
    case PS_ERR_LATE: /* a worker that rejoins begins where the slowest is, whose last tick may be on its way */
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
    case PS_ERR_NOT_FOUND: /* the shard lost the variable, and no worker has declared it again */
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
        w->older[v] = script_buffer_new(n);
        memcpy(w->older[v], w->values[v], n * sizeof(float));
    }
}

/* The values arrived complete, or the contents of the buffers are unknown. */
static void
collect_values(struct node_worker *w, struct worker_op *o, enum ps_err code)
{
    for (uint32_t i = 0; i < o->vars_len && !w->sim->failed; i++) {
        if (code == PS_OK)
            pulled_var(w, o, i);
        else if (o->cancelled && sim_chance(w->sim, 500))
            script_values_renew(w, o->vars[i]);
    }
    if (code == PS_OK && !w->sim->failed)
        ledger_pulled_together(w->ledger, o->vars_len, o->pulls);
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
script_results_collect(struct node_worker *w, struct worker_op *o)
{
    struct ps_error e = {0};
    enum ps_err code = o->op != NULL ? core_op_result(o->op, &e) : o->refused;

    if (code != PS_OK)
        sim_trace(w->sim, "w%u %s: %s: %s", w->task, script_op_name(o->kind), ps_err_name(code), e.text);
    if (!result_expected(w, o, code))
        sim_fail(w->sim, "w%u's %s ended with %s: %s (%s)", w->task, script_op_name(o->kind), ps_err_name(code), e.text,
                 e.peer);
    if (o->kind == WORKER_ASSIGN)
        ledger_assign_done(w->ledger, o->assign, code, o->op != NULL ? core_op_assign_clock(o->op) : 0);
    core_op_free(w->core, o->op);
    if (o->otherwise && code == PS_OK)
        sim_fail(w->sim, "w%u trains otherwise than others, and was let in", w->task);
    if (o->kind == WORKER_DEFINE && code == PS_OK) {
        w->defined = true;
        ledger_defined(w->ledger, w->task);
    }
    if (o->kind == WORKER_DECLARE && code == PS_OK)
        w->declared[o->vars[0]] = true;
    else if (o->kind == WORKER_PULL)
        collect_pull(w, o, code);
    else if (o->kind == WORKER_PUSH)
        collect_push(w, o, code);
    else if (o->kind == WORKER_BARRIER && code == PS_OK)
        ledger_barrier_passed(w->ledger, w->task, w->round, o->barrier);
    else if (o->kind == WORKER_TICK)
        w->tick_unsure = code != PS_OK;
    else if (o->kind == WORKER_SET && code == PS_OK)
        ledger_set_done(w->ledger, o->set);
    script_op_free(w, o);
}

void
script_collect(struct node_worker *w)
{
    struct worker_op **at = &w->ops;

    while (*at != NULL && !w->sim->failed) {
        struct worker_op *o = *at;

        if (o->op != NULL && !core_op_done(o->op)) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        script_results_collect(w, o);
    }
}
