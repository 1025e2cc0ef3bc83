/* The worker's program takes one operation at a time; the administrator asks all shards at once, and those that refuse
 * again. */
#include "tests/sim/scrap.h"

#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/wire/wire.h"
#include "proto/store.pb-c.h"
#include "tests/sim/outsider.h"

#define SALT             0x736372617073u
#define PER_MILLE        300 /* runs that have one */
#define WAIT_US_MAX      (2 * SIM_SECOND)
#define LIFE_US_MAX      (3 * SIM_SECOND)  /* before it is dropped by force */
#define LEAVE_US         (20 * SIM_SECOND) /* a worker that has not said goodbye by then is dropped by force */
#define AGAIN_US         (300 * SIM_MS)
#define STEPS_MAX        12
#define FORCED_PER_CENT  50
#define DURABLE_PER_CENT 40
#define GIVE_SALT        0x67697665u
#define GIVE_PER_MILLE   500 /* runs with a second job that gives values, */
#define GIVE_PER_CENT    40  /* and its steps that begin so */
#define GIVE_STEP        1000.0f

static const char job_name[] = "scrap";
static const char *const var_names[SCRAP_VARS] = {"x0", "x1"};

static uint64_t
scrap_below(struct scrap *x, uint64_t n)
{
    return sim_mix_below(&x->random, n);
}

static struct scrap *
scrap_of_worker(struct node_worker *w)
{
    return CONTAINER_OF(w, struct scrap, worker);
}

/* A power loss may have brought back what was dropped, or taken what this life has done; and a worker that comes again
 * after it, or after a restore, begins anew, whatever was dropped meanwhile. */
static bool
scrap_is_sure(const struct scrap *x)
{
    return ledger_losses(x->worker.ledger) == x->losses;
}

/* ---- The worker: values ---- */

/* Every gradient is 1 and the rate is 1, so each element has counted down the pushes to its block. A push that is
 * durable makes all durable that was before it, the drop of the earlier life too if that was not lost before, and what
 * was given. */
static void
check_values(struct scrap *x, uint32_t v)
{
    const float *values = x->worker.values[v];
    uint64_t least = scrap_is_sure(x) ? x->applied[v] : x->durable[v], most = x->applied[v] + x->maybe[v];

    if (isnan(x->level))
        return;
    if (!scrap_is_sure(x) &&
        (x->state != SCRAP_LIVES || x->durable[v] == 0 || x->disks != ledger_disks_lost(x->worker.ledger)))
        return;
    for (uint64_t i = 0; i < x->model.vars[v].elements; i++) {
        uint64_t counted = (uint64_t)(x->level - values[i]);

        if (values[i] > x->level || counted < least || counted > most)
            sim_fail(x->worker.sim,
                     "life %u of job %s has element %" PRIu64 " of %s at %g, after %g and %" PRIu64
                     " pushes, of them %" PRIu64 " durable, and %" PRIu64 " that may count",
                     x->lives, job_name, i, var_names[v], (double)values[i], (double)x->level, x->applied[v],
                     x->durable[v], x->maybe[v]);
    }
}

/* ---- The worker: operations ---- */

static void
start_declare(struct node_worker *w, uint32_t v)
{
    struct worker_op *o = outsider_op(w, WORKER_DECLARE);
    struct ps_error e;

    o->vars[o->vars_len++] = v;
    outsider_asked(w, core_declare(w->core, &w->model->vars[v].spec, &w->vars[v], &o->op, &e), &e);
}

static void
start_pull(struct node_worker *w)
{
    struct worker_op *o = outsider_op(w, WORKER_PULL);
    struct ps_error e;

    outsider_asked(w, core_pull(w->core, SCRAP_VARS, w->vars, w->values, NULL, &o->op, &e), &e);
}

static void
start_push(struct scrap *x, uint32_t v)
{
    struct node_worker *w = &x->worker;
    struct worker_op *o = outsider_op(w, WORKER_PUSH);
    struct ps_push_options options = {.flags = PS_PUSH_COPY};
    uint64_t n = x->model.vars[v].elements;
    float *ones = sim_alloc(n * sizeof *ones);
    const float *grads[1] = {ones};
    struct ps_error e;

    if (w->profile.may_durable && scrap_below(x, 100) < DURABLE_PER_CENT)
        o->durable = true;
    if (o->durable)
        options.flags |= PS_PUSH_DURABLE;
    for (uint64_t i = 0; i < n; i++)
        ones[i] = 1;
    o->vars[o->vars_len++] = v;
    outsider_asked(w, core_push(w->core, 1, &w->vars[v], grads, NULL, &options, &o->op, &e), &e);
    free(ones);
}

static void
start_assign(struct scrap *x)
{
    struct node_worker *w = &x->worker;
    struct worker_op *o = outsider_op(w, WORKER_ASSIGN);
    struct ps_assign_options options = {0};
    const float *values[SCRAP_VARS];
    struct ps_error e;

    x->gave++;
    for (uint32_t v = 0; v < SCRAP_VARS; v++) {
        for (uint64_t i = 0; i < x->model.vars[v].elements; i++)
            x->given[v][i] = GIVE_STEP * (float)x->gave;
        values[v] = x->given[v];
    }
    sim_trace(w->sim, "job %s gives %g", job_name, (double)x->given[0][0]);
    outsider_asked(w, core_assign(w->core, SCRAP_VARS, w->vars, values, &options, &o->op, &e), &e);
}

static void
start_tick(struct node_worker *w)
{
    struct worker_op *o = outsider_op(w, WORKER_TICK);
    struct ps_error e;

    outsider_asked(w, core_tick(w->core, &o->op, &e), &e);
}

/* A store or a disk may have no room, or fail; then some of its blocks may count. */
static bool
may_be_refused(enum ps_err code)
{
    return code == PS_ERR_FULL || code == PS_ERR_IO || code == PS_ERR_LIMIT || code == PS_ERR_NOMEM;
}

static void
scrap_pushed(struct scrap *x, const struct worker_op *o, enum ps_err code, const struct ps_error *e)
{
    uint32_t v = o->vars[0];

    if (code == PS_OK || code == PS_ERR_NOT_DURABLE)
        x->applied[v]++;
    else if (may_be_refused(code))
        x->maybe[v]++;
    else
        outsider_refused(&x->worker, code, e);
    if (code == PS_OK && o->durable && scrap_is_sure(x))
        x->durable[v]++;
}

static void
scrap_assigned(struct scrap *x, enum ps_err code, const struct ps_error *e)
{
    if (code == PS_ERR_FULL || code == PS_ERR_LIMIT) /* nothing has them */
        return;
    if (code != PS_OK && code != PS_ERR_NOT_DURABLE && code != PS_ERR_ROLLED_BACK && !may_be_refused(code))
        outsider_refused(&x->worker, code, e);
    x->level = code == PS_OK ? x->given[0][0] : NAN;
    memset(x->applied, 0, sizeof x->applied);
    memset(x->maybe, 0, sizeof x->maybe);
    memset(x->durable, 0, sizeof x->durable);
}

static void
scrap_collect(struct scrap *x, struct worker_op *o)
{
    struct node_worker *w = &x->worker;
    struct ps_error e = {0};
    enum ps_err code = core_op_result(o->op, &e);

    if (core_fatal(w->core, NULL) != PS_OK)
        ; /* as scrap_ended() has it */
    else if (o->kind == WORKER_PUSH)
        scrap_pushed(x, o, code, &e);
    else if (o->kind == WORKER_ASSIGN)
        scrap_assigned(x, code, &e);
    else if (code != PS_OK && !may_be_refused(code))
        outsider_refused(w, code, &e);
    else if (code == PS_OK && o->kind == WORKER_DECLARE)
        w->declared[o->vars[0]] = true;
    else if (code == PS_OK && o->kind == WORKER_PULL)
        x->all_pulled = true;
    for (uint32_t v = 0; code == PS_OK && o->kind == WORKER_PULL && v < SCRAP_VARS; v++)
        check_values(x, v);
    outsider_op_free(w, o);
}

/* ---- The worker: what comes next ---- */

/* Nothing but a drop ends it; or that a shard has waited for it too long, or has an earlier life back. */
static void
scrap_ended(struct scrap *x)
{
    struct ps_error e;
    enum ps_err code = core_fatal(x->worker.core, &e);
    bool lapsed = code == PS_ERR_LEASE_LAPSED || (code == PS_ERR_FENCED && !scrap_is_sure(x));

    if (code != PS_ERR_DROPPED && !lapsed)
        sim_fail(x->worker.sim, "the worker of job %s failed for good: %s: %s (%s)", job_name, ps_err_name(code),
                 e.text, e.peer);
    if (code == PS_ERR_DROPPED && x->state != SCRAP_DROPS && scrap_is_sure(x))
        sim_fail(x->worker.sim, "job %s is said to be dropped, and nobody asked for that: %s (%s)", job_name, e.text,
                 e.peer);
    node_worker_finish(&x->worker);
}

/* Before the first push of a step. */
static bool
scrap_may_give(struct scrap *x)
{
    bool may = x->gives && x->may_give;

    x->may_give = false;
    return may && sim_mix_below(&x->give_random, 100) < GIVE_PER_CENT;
}

static void
scrap_step(struct scrap *x)
{
    struct node_worker *w = &x->worker;
    uint32_t v = (uint32_t)(w->steps % (SCRAP_VARS + 1));

    if (!w->declared[0] || !w->declared[1]) {
        start_declare(w, w->declared[0]);
    } else if (!x->all_pulled) {
        start_pull(w);
    } else if (scrap_may_give(x)) {
        x->all_pulled = false;
        start_assign(x);
    } else if (v < SCRAP_VARS) {
        w->steps++;
        start_push(x, v);
    } else {
        w->steps++;
        x->all_pulled = false;
        x->may_give = true;
        start_tick(w);
    }
}

static void
scrap_leave(struct scrap *x)
{
    struct node_worker *w = &x->worker;

    if (w->phase != WORKER_LEAVING) {
        w->phase = WORKER_LEAVING;
        core_goodbye(w->core);
        node_worker_perform(w);
    }
    for (uint32_t i = 0; i < w->model->shards; i++)
        if (w->links[i] != NULL || w->finishing[i] != NULL || w->sends_out > 0)
            return;
    node_worker_finish(w);
}

static void
scrap_worker_start(struct node_worker *w)
{
    memset(w->declared, 0, sizeof w->declared);
    for (uint32_t v = 0; v < SCRAP_VARS; v++) {
        w->values[v] = sim_alloc(w->model->vars[v].elements * sizeof(float));
        scrap_of_worker(w)->given[v] = sim_alloc(w->model->vars[v].elements * sizeof(float));
    }
    outsider_start(w);
}

static void
scrap_worker_poll(struct node_worker *w)
{
    struct scrap *x = scrap_of_worker(w);
    struct worker_op *o;

    while (!w->sim->failed && (o = outsider_take_done(w)) != NULL)
        scrap_collect(x, o);
    if (w->sim->failed)
        return;
    if (w->phase != WORKER_LEAVING && core_fatal(w->core, NULL) != PS_OK)
        scrap_ended(x);
    else if (w->phase == WORKER_LEAVING || (w->ops == NULL && !x->forced && w->steps >= x->steps))
        scrap_leave(x);
    else if (core_joined(w->core) && w->ops == NULL)
        scrap_step(x);
}

static uint64_t
scrap_worker_next_us(const struct node_worker *w)
{
    if (w->core == NULL)
        return UINT64_MAX;
    return w->phase == WORKER_LEAVING || w->ops == NULL ? w->sim->now_us + 10 * SIM_MS : UINT64_MAX;
}

static void
scrap_worker_stop(struct node_worker *w)
{
    outsider_stop(w);
    for (uint32_t v = 0; v < SCRAP_VARS; v++) {
        free(w->values[v]);
        free(scrap_of_worker(w)->given[v]);
        w->values[v] = scrap_of_worker(w)->given[v] = NULL;
    }
}

static const struct worker_program worker_program = {
    .name = "worker of job scrap",
    .start = scrap_worker_start,
    .poll = scrap_worker_poll,
    .stop = scrap_worker_stop,
    .next_us = scrap_worker_next_us,
    .watch = outsider_watch,
};

/* ---- Whether anything is left ---- */

struct leftovers {
    struct scrap *scrap;
    uint32_t shard;
    uint32_t jobs[64], jobs_len, vars[256], vars_len;
};

static bool
has_id(const uint32_t *ids, uint32_t len, uint32_t id)
{
    for (uint32_t i = 0; i < len; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static uint32_t
first_id(struct span key)
{
    uint32_t id;

    memcpy(&id, key.data, sizeof id);
    return be32toh(id);
}

static bool
visit_job(void *arg, struct span key, struct span value)
{
    struct leftovers *l = arg;
    Psd__JobRow *row = psd__job_row__unpack(NULL, value.len, value.data);

    ps_assert(row != NULL && l->jobs_len < ARRAY_LEN(l->jobs));
    if (strcmp(row->options->name, job_name) == 0)
        sim_fail(l->scrap->boss.sim, "s%u has dropped job %s, and its row is there", l->shard, job_name);
    l->jobs[l->jobs_len++] = first_id(key);
    psd__job_row__free_unpacked(row, NULL);
    return true;
}

static bool
visit_variable(void *arg, struct span key, struct span value)
{
    struct leftovers *l = arg;
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);

    ps_assert(row != NULL && l->vars_len < ARRAY_LEN(l->vars));
    if (!has_id(l->jobs, l->jobs_len, row->job))
        sim_fail(l->scrap->boss.sim, "s%u has variable %s of a job that is gone", l->shard, row->declare->name);
    l->vars[l->vars_len++] = first_id(key);
    psd__variable_row__free_unpacked(row, NULL);
    return true;
}

static bool
visit_of_job(void *arg, struct span key, struct span value)
{
    struct leftovers *l = arg;

    (void)value;
    if (!has_id(l->jobs, l->jobs_len, first_id(key)))
        sim_fail(l->scrap->boss.sim, "s%u has the session of a worker whose job is gone", l->shard);
    return true;
}

static bool
visit_block(void *arg, const struct store_key *key, struct span value)
{
    struct leftovers *l = arg;

    (void)value;
    if (key->generation != STORE_GENERATION_REDO && !has_id(l->vars, l->vars_len, key->var))
        sim_fail(l->scrap->boss.sim, "s%u has %sblock %u of variable %u, which is gone", l->shard,
                 key->generation < STORE_GENERATION_REDO ? "" : "a value that waits for ", key->block, key->var);
    return true;
}

/* A hello that was on its way when its worker ended comes after the drop, and makes the job anew: with a session that
 * has done nothing. */
struct scrap_late {
    const struct scrap *scrap;
    bool came;
};

static bool
visit_late(void *arg, struct span key, struct span value)
{
    struct scrap_late *l = arg;
    Psd__SessionRow *row = psd__session_row__unpack(NULL, value.len, value.data);

    (void)key;
    ps_assert(row != NULL);
    l->came = l->came || (row->incarnation == l->scrap->worker.incarnation && row->last_seq == 0);
    psd__session_row__free_unpacked(row, NULL);
    return true;
}

static bool
scrap_came_late(const struct scrap *x, uint32_t shard)
{
    struct store *store = x->shards[shard].store;
    struct scrap_late l = {.scrap = x};

    if (x->shards[shard].core != NULL && !x->shards[shard].restoring)
        (void)store->ops->each_row(store, STORE_SESSIONS, visit_late, &l);
    return l.came;
}

static void
check_shard(struct scrap *x, uint32_t shard)
{
    struct store *store = x->shards[shard].store;
    struct leftovers l = {.scrap = x, .shard = shard};

    if (x->shards[shard].core == NULL || x->shards[shard].restoring || x->kept[shard])
        return;
    (void)store->ops->each_row(store, STORE_JOBS, visit_job, &l);
    (void)store->ops->each_row(store, STORE_VARS, visit_variable, &l);
    (void)store->ops->each_row(store, STORE_SESSIONS, visit_of_job, &l);
    (void)store->ops->each_row(store, STORE_CURSORS, visit_of_job, &l);
    (void)store->ops->each_block(store, visit_block, &l);
}

/* ---- The administrator ---- */

static void
scrap_ask(struct scrap *x, uint32_t shard)
{
    struct node_worker *w = &x->boss;
    struct worker_op *o = outsider_op(w, WORKER_DROP);
    Psd__Drop m = PSD__DROP__INIT;
    struct ps_error e;

    m.job = (char *)job_name;
    m.variables = (char *)"";
    m.force = x->forced;
    o->vars[0] = shard;
    x->over[shard] = x->worker.core == NULL;
    x->joined[shard] = !x->over[shard] && core_joined(x->worker.core);
    x->ask_us[shard] = UINT64_MAX;
    outsider_asked(w, core_ask(w->core, shard, MSG_DROP, &m.base, &o->op, &e), &e);
}

/* Workers that are live there: their goodbye was lost with a cut, or a power loss, and they will lapse. */
static void
scrap_answered(struct scrap *x, struct worker_op *o)
{
    uint32_t shard = o->vars[0];
    struct ps_error e = {0};
    enum ps_err code = core_op_result(o->op, &e);
    struct span answer = core_op_answer(o->op);
    Psd__Dropped *m = code == PS_OK ? psd__dropped__unpack(NULL, answer.len, answer.data) : NULL;

    if (m != NULL) {
        x->answered[shard] = x->over[shard] || (x->joined[shard] && m->found && scrap_is_sure(x));
        x->ask_us[shard] = x->answered[shard] ? UINT64_MAX : x->boss.sim->now_us + AGAIN_US;
        x->kept[shard] = m->kept;
        sim_trace(x->boss.sim, "s%u has dropped job %s%s%s", shard, job_name, m->found ? "" : ", which was not there",
                  m->kept ? "; a save keeps it" : "");
        psd__dropped__free_unpacked(m, NULL);
    } else if (code == PS_ERR_BUSY || may_be_refused(code)) {
        x->ask_us[shard] = x->boss.sim->now_us + AGAIN_US;
    } else {
        outsider_refused(&x->boss, code, &e);
    }
    outsider_op_free(&x->boss, o);
}

static void
scrap_drop(struct scrap *x)
{
    sim_trace(x->boss.sim, "job %s is to be dropped%s", job_name, x->forced ? " by force" : "");
    x->state = SCRAP_DROPS;
    x->until_us = x->boss.sim->now_us + LEAVE_US;
    x->losses_then = ledger_losses(x->boss.ledger);
    for (uint32_t i = 0; i < x->model.shards; i++) {
        x->answered[i] = false;
        x->ask_us[i] = 0;
    }
}

static void
scrap_live(struct scrap *x)
{
    x->state = SCRAP_LIVES;
    x->lives++;
    x->losses = x->losses_then;
    x->forced = scrap_below(x, 100) < FORCED_PER_CENT;
    x->steps = 1 + scrap_below(x, STEPS_MAX);
    x->until_us = x->boss.sim->now_us + (x->forced ? scrap_below(x, LIFE_US_MAX) : LEAVE_US);
    x->all_pulled = false;
    x->may_give = true;
    x->gave = 0;
    x->level = 0;
    memset(x->applied, 0, sizeof x->applied);
    memset(x->maybe, 0, sizeof x->maybe);
    memset(x->durable, 0, sizeof x->durable);
    x->disks = ledger_disks_lost(x->worker.ledger);
    x->worker.steps = 0;
    sim_in(x->worker.sim, &x->worker.restart, 0);
}

static bool
all_answered(struct scrap *x)
{
    uint32_t left = x->model.shards;

    for (uint32_t i = 0; i < x->model.shards && !x->boss.sim->failed; i++) {
        left -= x->answered[i];
        if (!x->answered[i] && x->ask_us[i] <= x->boss.sim->now_us)
            scrap_ask(x, i);
    }
    return left == 0;
}

/* True: they are asked once more. */
static bool
scrap_drops_late(struct scrap *x)
{
    bool late = false;

    for (uint32_t i = 0; i < x->model.shards; i++) {
        if (!scrap_came_late(x, i))
            continue;
        sim_trace(x->boss.sim, "s%u has job %s again, by a late hello", i, job_name);
        x->forced = late = true;
        x->answered[i] = false;
        x->ask_us[i] = 0;
    }
    return late;
}

static void
scrap_dropped(struct scrap *x)
{
    if (scrap_drops_late(x))
        return;
    for (uint32_t i = 0; i < x->model.shards && scrap_is_sure(x); i++)
        check_shard(x, i);
    x->drops++;
    x->state = SCRAP_WAITS;
    x->until_us = x->boss.sim->now_us + scrap_below(x, WAIT_US_MAX);
}

static void
scrap_go_on(struct scrap *x)
{
    bool time = x->boss.sim->now_us >= x->until_us, over = x->worker.core == NULL;

    if (x->state == SCRAP_WAITS && time) {
        scrap_live(x);
    } else if (x->state == SCRAP_LIVES && (time || (over && x->worker.restart.place == 0))) {
        x->forced = x->forced || !over;
        scrap_drop(x);
    } else if (x->state == SCRAP_DROPS && all_answered(x) && over) {
        scrap_dropped(x);
    } else if (x->state == SCRAP_DROPS && time && all_answered(x)) {
        x->forced = true; /* a shard that has lost its data has let the worker in again */
        scrap_drop(x);
    }
}

static void
scrap_boss_start(struct node_worker *w)
{
    outsider_start(w);
}

static void
scrap_boss_poll(struct node_worker *w)
{
    struct scrap *x = CONTAINER_OF(w, struct scrap, boss);
    struct worker_op *o;

    if (outsider_failed(w))
        return;
    while (!w->sim->failed && (o = outsider_take_done(w)) != NULL)
        scrap_answered(x, o);
    if (!w->sim->failed)
        scrap_go_on(x);
}

static uint64_t
scrap_boss_next_us(const struct node_worker *w)
{
    return w->core != NULL ? w->sim->now_us + 50 * SIM_MS : UINT64_MAX;
}

static const struct worker_program boss_program = {
    .name = "administrator who drops",
    .start = scrap_boss_start,
    .poll = scrap_boss_poll,
    .stop = outsider_stop,
    .next_us = scrap_boss_next_us,
    .watch = outsider_watch,
};

/* ---- Life ---- */

const struct worker_profile scrap_worker_profile = {.lease_ms = 3000000, .apart = true, .program = &worker_program};
const struct worker_profile scrap_boss_profile = {.observer = true, .program = &boss_program};

bool
scrap_drawn(uint64_t seed, enum sim_faults level)
{
    return level >= FAULTS_DELAYS && sim_has(seed, SALT, PER_MILLE);
}

static void
scrap_draw_var(struct scrap *x, uint32_t i)
{
    struct sim_model_var *v = &x->model.vars[i];
    enum ps_err err;

    *v = (struct sim_model_var){.elements = 1 + scrap_below(x, i == 0 ? 100 : 9000)};
    memcpy(v->name, var_names[i], strlen(var_names[i]) + 1);
    v->spec = (struct ps_var_spec){.name = v->name, .rank = 1, .dims = {v->elements}};
    err = ps_optimizer_by_name("sgd", &v->spec.optimizer, NULL);
    ps_assert(err == PS_OK);
    v->spec.optimizer.learning_rate = 1;
    layout_init(&v->layout, v->elements, 0);
    v->start = placement_start(job_name, v->name, x->model.shards);
}

void
scrap_draw(struct scrap *x, const struct sim_model *of, uint64_t seed)
{
    x->random = ~seed ^ SALT;
    x->gives = sim_has(seed, GIVE_SALT, GIVE_PER_MILLE);
    x->give_random = ~seed ^ GIVE_SALT;
    x->model = (struct sim_model){.cluster = of->cluster,
                                  .job = job_name,
                                  .mode = PS_ASYNC,
                                  .shards = of->shards,
                                  .workers = 1,
                                  .quorum = 1,
                                  .rounds = 1,
                                  .vars_len = SCRAP_VARS};
    for (uint32_t i = 0; i < SCRAP_VARS; i++)
        scrap_draw_var(x, i);
}

void
scrap_start(struct scrap *x)
{
    x->until_us = x->boss.sim->now_us + scrap_below(x, WAIT_US_MAX);
    sim_in(x->boss.sim, &x->boss.restart, 0);
}

void
scrap_stop(struct scrap *x)
{
    if (x->boss.sim == NULL)
        return;
    node_worker_finish(&x->worker);
    node_worker_finish(&x->boss);
}
