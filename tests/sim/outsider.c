/* Operations of processes that are not workers, and the errors that none of them may have. */
#include "tests/sim/outsider.h"

#include <stdlib.h>

static const char *
name_of(const struct node_worker *w)
{
    return w->profile.program->name;
}

void
outsider_start(struct node_worker *w)
{
    w->phase = WORKER_PULLING;
    w->phase_us = w->sim->now_us;
}

struct worker_op *
outsider_op(struct node_worker *w, enum worker_op_kind kind)
{
    struct worker_op *o = sim_alloc(sizeof *o);

    o->kind = kind;
    o->started_us = w->sim->now_us;
    o->next = w->ops;
    w->ops = o;
    return o;
}

void
outsider_asked(struct node_worker *w, enum ps_err err, const struct ps_error *e)
{
    if (err == PS_OK)
        node_worker_perform(w);
    else
        sim_fail(w->sim, "the %s cannot ask: %s", name_of(w), e->text);
}

void
outsider_refused(struct node_worker *w, enum ps_err code, const struct ps_error *e)
{
    sim_fail(w->sim, "the %s was refused: %s: %s (%s)", name_of(w), ps_err_name(code), e->text, e->peer);
}

bool
outsider_failed(struct node_worker *w)
{
    struct ps_error e;

    if (core_fatal(w->core, &e) == PS_OK)
        return false;
    sim_fail(w->sim, "the %s failed for good: %s: %s (%s)", name_of(w), ps_err_name(e.code), e.text, e.peer);
    return true;
}

struct worker_op *
outsider_take_done(struct node_worker *w)
{
    struct worker_op **at = &w->ops, *o;

    while (*at != NULL && !core_op_done((*at)->op))
        at = &(*at)->next;
    if ((o = *at) != NULL)
        *at = o->next;
    return o;
}

void
outsider_op_free(struct node_worker *w, struct worker_op *o)
{
    core_op_free(w->core, o->op);
    free(o);
}

void
outsider_stop(struct node_worker *w)
{
    while (w->ops != NULL) {
        struct worker_op *o = w->ops;

        w->ops = o->next;
        free(o); /* its operation is the core's, which is going */
    }
}

void
outsider_watch(const struct node_worker *w, uint64_t limit_us)
{
    struct ps_error e = {0};

    for (const struct worker_op *o = w->ops; o != NULL; o = o->next) {
        if (core_op_done(o->op) || w->sim->now_us < o->started_us + limit_us)
            continue;
        (void)core_op_waiting(w->core, o->op, (w->sim->now_us - o->started_us) / SIM_MS, &e);
        sim_fail(w->sim, "the %s hangs: %s", name_of(w), e.text);
    }
}
