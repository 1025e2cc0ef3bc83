/* One look after the other: answers are collected, the worker that is to hang is kept from running, then the next
 * state. */
#include "tests/sim/evictor.h"

#include "common/core/wire/wire.h"
#include "tests/sim/outsider.h"

#define SALT             0x65766963746f72u
#define PER_MILLE        200 /* runs that have one */
#define EVICTIONS_MAX    4
#define LOOK_US          (250 * SIM_MS)
#define STOP_US          (2 * LOOK_US) /* a look keeps a hanging worker from running for so long */
#define WAIT_US_MAX      (3 * SIM_SECOND)
#define HANG_US_MAX      (2 * SIM_SECOND)  /* before */
#define KEEP_US_MAX      (10 * SIM_SECOND) /* and after the eviction */
#define JOINS_US         (2 * SIM_SECOND)  /* a process that is not let in for so long needs help */
#define PATIENT_PER_CENT 50
#define HANG_PER_CENT    60
#define LONG_PER_CENT    60
#define CUT_PER_CENT     50 /* of those that hang: they come again with a hello */
#define ALONE_PER_CENT   15 /* asks one shard, not all */

static uint64_t
draw_below(struct evictor *v, uint64_t n)
{
    return sim_mix_below(&v->random, n);
}

static bool
evictor_chance(struct evictor *v, uint64_t per_cent)
{
    return draw_below(v, 100) < per_cent;
}

static struct evictor *
evictor_of(struct node_worker *w)
{
    return CONTAINER_OF(w, struct evictor, node);
}

/* ---- Asking ---- */

static void
evictor_ask(struct evictor *v, uint32_t shard)
{
    struct node_worker *w = &v->node;
    struct worker_op *o = outsider_op(w, WORKER_EVICT);
    Psd__Evict message = PSD__EVICT__INIT;
    struct ps_error e;

    message.job = (char *)w->model->job;
    message.task = v->task;
    outsider_asked(w, core_ask(w->core, shard, MSG_EVICT, &message.base, &o->op, &e), &e);
}

static void
ask_shards(struct evictor *v)
{
    uint32_t shards = v->node.model->shards;
    bool alone = evictor_chance(v, ALONE_PER_CENT);
    uint32_t only = (uint32_t)draw_below(v, shards);

    sim_trace(v->node.sim, "w%u is to be evicted%s%s", v->task, v->hangs ? ", which hangs" : "",
              alone ? ", on one shard" : "");
    if (v->hangs && evictor_chance(v, CUT_PER_CENT))
        node_worker_cut(&v->workers[v->task]);
    v->long_hang = v->long_hang && (!alone || shards == 1);
    for (uint32_t i = 0; i < shards && !v->node.sim->failed; i++)
        if (!alone || i == only)
            evictor_ask(v, i);
}

/* A shard that knows no such worker waits for it to join, which it must be able to do. */
static void
evictor_collect(struct evictor *v, const struct worker_op *o)
{
    struct ps_error e = {0};
    enum ps_err code = core_op_result(o->op, &e);
    struct span answer = core_op_answer(o->op);
    Psd__Evicted *m = code == PS_OK ? psd__evicted__unpack(NULL, answer.len, answer.data) : NULL;

    if (m == NULL) {
        outsider_refused(&v->node, code, &e);
        return;
    }
    v->long_hang = v->long_hang && m->found;
    psd__evicted__free_unpacked(m, NULL);
}

static void
collect_all(struct evictor *v)
{
    struct worker_op *o;

    while (!v->node.sim->failed && (o = outsider_take_done(&v->node)) != NULL) {
        evictor_collect(v, o);
        outsider_op_free(&v->node, o);
    }
}

/* ---- Whom ---- */

static bool
evictor_trains(const struct node_worker *x)
{
    return x->core != NULL && x->joined_before && x->phase >= WORKER_PULLING && x->phase <= WORKER_MEETING;
}

static void
evictor_begin(struct evictor *v, uint32_t task)
{
    v->task = task;
    v->incarnation = v->workers[task].incarnation;
    v->losses = ledger_losses(v->node.ledger);
    v->hangs = v->long_hang = false;
}

static bool
wants_help(const struct evictor *v)
{
    const struct node_worker *x = v->patient != UINT32_MAX ? &v->workers[v->patient] : NULL;

    return x != NULL && x->core != NULL && x->phase == WORKER_JOINING && v->node.sim->now_us > x->phase_us + JOINS_US;
}

static void
evictor_choose(struct evictor *v)
{
    uint32_t task = (uint32_t)draw_below(v, v->node.model->workers);
    bool hangs = evictor_chance(v, HANG_PER_CENT), long_hang = evictor_chance(v, LONG_PER_CENT);

    if (v->patient != UINT32_MAX && evictor_chance(v, PATIENT_PER_CENT))
        task = v->patient;
    v->left--;
    evictor_begin(v, task);
    v->hangs = hangs && evictor_trains(&v->workers[task]) && !v->workers[task].stays;
    v->long_hang = v->hangs && long_hang;
}

/* ---- Hanging workers ---- */

static bool
others_over(const struct evictor *v)
{
    for (uint32_t i = 0; i < v->node.model->workers; i++)
        if (i != v->task && !node_worker_over(&v->workers[i]))
            return false;
    return true;
}

/* When a shard came back older it may not know this worker, and waits for it; a restore requires all workers. */
static bool
hangs_on(const struct evictor *v)
{
    const struct node_worker *x = &v->workers[v->task];

    if (!v->hangs || x->core == NULL || x->incarnation != v->incarnation || x->stays)
        return false;
    if (v->state != EVICTOR_KEEPS)
        return true;
    if (!v->long_hang)
        return v->node.sim->now_us < v->until_us;
    return !others_over(v) && ledger_losses(v->node.ledger) == v->losses;
}

/* ---- States ---- */

static void
pass_to(struct evictor *v, enum evictor_state state, uint64_t us_max)
{
    v->state = state;
    v->until_us = v->node.sim->now_us + draw_below(v, us_max);
}

static void
go_on(struct evictor *v)
{
    bool time = v->node.sim->now_us >= v->until_us;

    if (v->state == EVICTOR_WAITS && wants_help(v)) {
        evictor_begin(v, v->patient);
        pass_to(v, EVICTOR_HANGS, LOOK_US);
    } else if (v->state == EVICTOR_WAITS && v->left > 0 && time) {
        evictor_choose(v);
        pass_to(v, EVICTOR_HANGS, HANG_US_MAX);
    } else if (v->state == EVICTOR_HANGS && time) {
        v->state = EVICTOR_ASKS;
        ask_shards(v);
    } else if (v->state == EVICTOR_ASKS && v->node.ops == NULL) {
        pass_to(v, EVICTOR_KEEPS, KEEP_US_MAX);
    } else if (v->state == EVICTOR_KEEPS && !hangs_on(v)) {
        pass_to(v, EVICTOR_WAITS, WAIT_US_MAX);
    }
}

/* ---- The process ---- */

static void
evictor_start(struct node_worker *w)
{
    outsider_start(w);
    pass_to(evictor_of(w), EVICTOR_WAITS, WAIT_US_MAX);
}

static void
evictor_poll(struct node_worker *w)
{
    struct evictor *v = evictor_of(w);

    if (outsider_failed(w))
        return;
    collect_all(v);
    if (w->sim->failed || w->sim->now_us < v->next_us)
        return;
    v->next_us = w->sim->now_us + LOOK_US;
    go_on(v);
    if (w->core != NULL && v->state != EVICTOR_WAITS && hangs_on(v))
        node_worker_hold(&v->workers[v->task], STOP_US);
}

static uint64_t
evictor_next_us(const struct node_worker *w)
{
    const struct evictor *v = CONTAINER_OF(w, const struct evictor, node);
    bool done = v->state == EVICTOR_WAITS && v->left == 0 && v->patient == UINT32_MAX;

    return w->core != NULL && !done ? MAX(v->next_us, w->sim->now_us) : UINT64_MAX;
}

const struct worker_program evictor_program = {
    .name = "evictor",
    .start = evictor_start,
    .poll = evictor_poll,
    .stop = outsider_stop,
    .next_us = evictor_next_us,
    .watch = outsider_watch,
};

/* ---- Life ---- */

bool
evictor_drawn(uint64_t seed, enum sim_faults level)
{
    return level >= FAULTS_CUTS && sim_has(seed, SALT, PER_MILLE);
}

void
evictor_init(struct evictor *v, uint64_t seed)
{
    v->random = ~seed ^ SALT;
    v->left = 1 + (uint32_t)draw_below(v, EVICTIONS_MAX);
    v->patient = evictor_chance(v, PATIENT_PER_CENT) ? (uint32_t)draw_below(v, v->node.model->workers) : UINT32_MAX;
    if (v->patient != UINT32_MAX)
        v->workers[v->patient].profile.patient = true;
}
