/* Assigns of the training script: before a step's pulls, some worker gives values for a few variables. What it draws is
 * its own, so that runs without assigns stay as they are. */
#include "tests/sim/script.h"

#define ASSIGN_CANCEL_US_MAX (30 * SIM_MS)
#define ASSIGN_CANCELLED     150 /* of 1,000: they are given up */
#define ASSIGN_AWAITED       500 /* the step goes on when it is done */
#define ASSIGN_RESETS        300
#define ASSIGN_FOR_NEXT      200
#define ASSIGNS_AT_ONCE      2

static bool
assign_chance(struct node_worker *w, uint32_t per_mille)
{
    return sim_mix_below(&w->assign_random, 1000) < per_mille;
}

static uint32_t
assigns_under_way(const struct node_worker *w)
{
    uint32_t n = 0;

    for (const struct worker_op *o = w->ops; o != NULL; o = o->next)
        n += o->kind == WORKER_ASSIGN;
    return n;
}

static void
assign_draw(struct node_worker *w, struct worker_op *o)
{
    uint32_t vars = w->model->vars_len, first = (uint32_t)sim_mix_below(&w->assign_random, vars);

    o->vars_len = 1 + (uint32_t)sim_mix_below(&w->assign_random, vars - first);
    for (uint32_t i = 0; i < o->vars_len; i++)
        o->vars[i] = first + i;
    o->awaited = assign_chance(w, ASSIGN_AWAITED);
    if (assign_chance(w, ASSIGN_CANCELLED))
        o->cancel_us = w->sim->now_us + sim_mix_below(&w->assign_random, ASSIGN_CANCEL_US_MAX);
}

static void
script_start_assign(struct node_worker *w)
{
    struct worker_op *o = script_op_new(w, WORKER_ASSIGN);
    struct ps_assign_options options = {0};
    const float *values[MODEL_VARS_MAX];
    struct core_var *vars[MODEL_VARS_MAX];
    struct ps_error e;

    assign_draw(w, o);
    if (assign_chance(w, ASSIGN_RESETS))
        options.flags |= PS_ASSIGN_RESET_SLOTS;
    if (assign_chance(w, ASSIGN_FOR_NEXT))
        options.flags |= PS_ASSIGN_NEXT_STEP;
    o->assign = ledger_assign(w->ledger, w->task, o->vars[0], o->vars_len, options.flags & PS_ASSIGN_RESET_SLOTS);
    for (uint32_t i = 0; i < o->vars_len; i++) {
        vars[i] = w->vars[o->vars[i]];
        values[i] = o->grads[i] = script_buffer_new(w->model->vars[o->vars[i]].elements);
        ledger_assign_values(w->ledger, o->assign, o->vars[i], o->grads[i]);
    }
    sim_trace(w->sim, "w%u gives v%u and %u more: assign %u%s", w->task, o->vars[0], o->vars_len - 1, o->assign,
              options.flags & PS_ASSIGN_RESET_SLOTS ? ", with its slots" : "");
    script_op_started(w, o, core_assign(w->core, o->vars_len, vars, values, &options, &o->op, &e), &e);
}

void
script_may_assign(struct node_worker *w)
{
    if (w->profile.assign_per_mille > 0 && assign_chance(w, w->profile.assign_per_mille) &&
        assigns_under_way(w) < ASSIGNS_AT_ONCE && core_fatal(w->core, NULL) == PS_OK)
        script_start_assign(w);
}

bool
script_assign_expected(const struct node_worker *w, const struct worker_op *o, enum ps_err code)
{
    switch (code) {
    case PS_ERR_CANCELLED:
    case PS_ERR_UNKNOWN_OUTCOME:
        return o->cancelled;
    case PS_ERR_LIMIT:
        return w->model->mode == PS_SYNC;
    case PS_ERR_IO:
    case PS_ERR_FULL:
        return w->profile.store_fails;
    case PS_ERR_ROLLED_BACK:
        return w->profile.may_durable;
    default:
        return false;
    }
}
