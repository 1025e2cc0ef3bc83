/* A run: build, let time pass until every worker is over, stop the shards in good order, check.
 *
 * All that the run holds is in struct sim_run; it is freed whatever the verdict, so that a leak is the cores' own. */
#include "tests/sim/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/optimizer/optimizer.h"
#include "tests/sim/admin.h"
#include "tests/sim/evictor.h"
#include "tests/sim/scrap.h"

#define WATCH_US    (5 * SIM_SECOND)
#define HANG_US     (400 * SIM_SECOND)
#define DRAIN_US    (60 * SIM_SECOND) /* a drained shard stops within */
#define SAME_US_MAX 1000000           /* events at one moment: the run stands still */
#define STEPS_MAX   24
#define LATE_US_MAX (20 * SIM_SECOND)

#define SIZES_SALT      0x776f726b65727321u
#define SIZES_PER_MILLE 500

#define ASSIGN_SALT      0x61737369676eu
#define ASSIGN_RUNS      350 /* of 1,000: they have assigns */
#define ASSIGN_PER_MILLE 250 /* steps of a worker that begin with one, there */

#define UNDURABLE_PER_MILLE 20 /* durable pushes to shards without a disk */

struct sim_run {
    const struct run_options *options;
    struct sim sim;
    struct sim_net net;
    struct sim_model model;
    struct ledger *ledger;
    struct node_shard shards[MODEL_SHARDS_MAX];
    struct node_worker workers[MODEL_WORKERS_MAX];
    struct node_worker observer;
    struct net_listener *listeners[MODEL_SHARDS_MAX];
    struct faults faults;
    struct admin admin;     /* when has_admin */
    struct evictor evictor; /* when has_evictor */
    struct scrap scrap;     /* when has_scrap */
    bool has_admin, has_evictor, has_scrap, has_assigns;
    struct sim_timer watch, lie;
    bool ending;
    uint64_t ending_us;
};

/* ---- Lies in a shard's store ---- */

struct lie_search {
    const struct sim_run *run;
    struct store_key key;
    bool found;
};

/* async, ssp: its element 1 holds the digit of push number 0. */
static bool
counts_first_push(const struct sim_model *m, const struct block_head *head)
{
    const struct ps_var_spec *spec = &m->vars[0].spec;
    double weight = (double)((const float *)(head + 1))[1];

    return !model_counts(m) || ((uint64_t)((spec->init.a - weight) / spec->optimizer.learning_rate) & 3) == 1;
}

static bool
find_updated_block(void *arg, const struct store_key *key, struct span value)
{
    struct lie_search *x = arg;
    const struct block_head *head = value.data;

    if (head->version == 0 || head->len < 2 || !counts_first_push(&x->run->model, head))
        return true;
    x->key = *key;
    x->found = true;
    return false;
}

/* Push number 0 once more: its 1s and its digit. */
static void
apply_twice(struct block_head *head, double rate)
{
    float *weights = (float *)(head + 1);

    for (uint32_t i = 0; i < head->len; i++)
        if (i % 2 == 0 || i == 1)
            weights[i] -= (float)rate;
    head->version++;
}

static void
run_spoil(struct sim_run *r, struct node_shard *n, const struct store_key *key)
{
    const struct store_ops *ops = n->store->ops;
    struct span old;
    void *place;
    enum ps_err err = ops->begin(n->store, STORE_ROOM_MAX);

    ps_assert(err == PS_OK);
    err = ops->get(n->store, key, &old);
    ps_assert(err == PS_OK);
    err = ops->reserve(n->store, key, old.len, &place);
    ps_assert(err == PS_OK);
    memcpy(place, old.data, old.len);
    if (r->options->lie == LIE_APPLY_TWICE)
        apply_twice(place, r->model.vars[0].spec.optimizer.learning_rate);
    else
        ((struct block_head *)place)->version--;
    err = ops->commit(n->store);
    ps_assert(err == PS_OK);
    ledger_commit(r->ledger, n->index, n->store);
}

/* Wait for a block that was updated, then tell the lie. */
static void
lie_comes(struct sim_timer *t)
{
    struct sim_run *r = CONTAINER_OF(t, struct sim_run, lie);
    struct node_shard *n = &r->shards[0];
    struct lie_search x = {.run = r};

    sim_in(&r->sim, t, 10 * SIM_MS);
    if (n->core == NULL || shard_dirty(n->core))
        return;
    (void)n->store->ops->each_block(n->store, find_updated_block, &x);
    if (!x.found)
        return;
    run_spoil(r, n, &x.key);
    sim_cancel(&r->sim, t);
}

/* ---- The end ---- */

static bool
workers_over(const struct sim_run *r)
{
    for (uint32_t i = 0; i < r->model.workers; i++)
        if (!node_worker_over(&r->workers[i]))
            return false;
    return true;
}

static bool
shards_down(const struct sim_run *r)
{
    for (uint32_t i = 0; i < r->model.shards; i++)
        if (r->shards[i].core != NULL || r->shards[i].restart.place != 0)
            return false;
    return true;
}

/* Stop every shard that is up; one that is just starting again is stopped at the next look. */
static void
stop_shards(struct sim_run *r)
{
    for (uint32_t i = 0; i < r->model.shards; i++) {
        struct node_shard *n = &r->shards[i];

        if (n->core == NULL)
            continue;
        n->stays_down = true;
        node_shard_drain(n, 0);
    }
    if (r->sim.now_us > r->ending_us + DRAIN_US)
        sim_fail(&r->sim, "a shard that drains does not stop");
}

static uint64_t
draw_delay(struct sim_run *r)
{
    bool late = r->options->lie == LIE_NONE && sim_chance(&r->sim, 150);

    return sim_below(&r->sim, late ? LATE_US_MAX : 50 * SIM_MS);
}

static void
run_again(struct sim_run *r)
{
    uint32_t workers = model_workers(&r->model, r->workers[0].round + 1);

    for (uint32_t i = 0; i < r->model.workers; i++)
        if (i < workers)
            node_worker_again(&r->workers[i], draw_delay(r));
        else
            node_worker_sits_out(&r->workers[i], r->workers[0].round); /* worker 0 has gone on to it */
}

static void
watch_comes(struct sim_timer *t)
{
    struct sim_run *r = CONTAINER_OF(t, struct sim_run, watch);

    for (uint32_t i = 0; i < r->model.workers; i++)
        node_worker_watch(&r->workers[i], HANG_US);
    node_worker_watch(&r->observer, HANG_US);
    node_worker_watch(&r->evictor.node, HANG_US);
    node_worker_watch(&r->scrap.worker, HANG_US);
    node_worker_watch(&r->scrap.boss, HANG_US);
    if (r->sim.failed)
        for (uint32_t i = 0; i < r->model.workers; i++)
            script_describe(&r->workers[i]);
    if (workers_over(r) && r->workers[0].round + 1 < r->model.rounds)
        run_again(r);
    else if (workers_over(r))
        observer_leave(&r->observer);
    if (!r->ending && node_worker_over(&r->observer)) {
        r->ending = true;
        r->ending_us = r->sim.now_us;
        faults_stop(&r->faults);
        admin_stop(&r->admin);
        if (r->has_evictor)
            node_worker_finish(&r->evictor.node);
        scrap_stop(&r->scrap);
    }
    if (r->ending)
        stop_shards(r);
    sim_in(&r->sim, t, WATCH_US);
}

/* ---- Building ---- */

/* Drawn in either case, so that giving the drawn value as an option changes nothing. */
static uint32_t
given_or_drawn(struct sim_run *r, uint32_t given, uint32_t low, uint32_t high)
{
    uint32_t drawn = (uint32_t)sim_between(&r->sim, low, high);

    return given != 0 ? given : drawn;
}

/* Runs overlap only where a fast worker cannot be a whole run ahead, and no worker can be lost. */
static void
draw_rounds(struct sim_run *r)
{
    struct sim_model *m = &r->model;
    bool coupled = m->mode == PS_SSP ? m->steps > MODEL_BOUND_MAX + 1 : m->mode == PS_SYNC && m->quorum == m->workers;

    m->rounds = 1;
    if (r->options->lie != LIE_NONE || !sim_chance(&r->sim, 400))
        return;
    m->rounds = (uint32_t)sim_between(&r->sim, 2, MODEL_ROUNDS_MAX);
    m->overlap = coupled && !faults_may_lapse(r->options->faults) && sim_chance(&r->sim, 500);
}

/* Some runs have another number of workers in each round. Drawn aside, so that all else is as without it; not where
 * sessions last longer than a round, which would keep the number. */
static void
draw_sizes(struct sim_run *r)
{
    struct sim_model *m = &r->model;
    uint64_t random = ~r->options->seed ^ SIZES_SALT;
    uint32_t least = m->quorum == m->workers ? 1 : m->quorum + 1; /* k of k would be opened as all of them */

    if (m->rounds == 1 || m->overlap || m->workers == least || r->has_admin || r->has_evictor ||
        !sim_has(r->options->seed, SIZES_SALT, SIZES_PER_MILLE))
        return;
    m->resizes = true;
    for (uint32_t round = 0; round < m->rounds; round++)
        m->size[round] = least + (uint32_t)sim_mix_below(&random, m->workers - least + 1);
}

static void
draw_model(struct sim_run *r)
{
    const struct run_options *o = r->options;
    struct sim_model *m = &r->model;
    enum run_mode mode = (enum run_mode)sim_below(&r->sim, RUN_MIXED);

    mode = o->mode == RUN_MIXED ? mode : o->mode;
    m->mode = mode == RUN_ASYNC ? PS_ASYNC : mode == RUN_SSP ? PS_SSP : PS_SYNC;
    m->shards = given_or_drawn(r, o->shards, 1, 3);
    m->workers = given_or_drawn(r, o->workers, 1, 4);
    m->steps = given_or_drawn(r, o->steps, 3, STEPS_MAX);
    m->lapse = faults_may_lapse(o->faults) && sim_chance(&r->sim, 100) ? PS_LAPSE_FAIL : PS_LAPSE_SHRINK;
    model_draw(m, &r->sim);
    m->vars_len = o->vars != 0 ? MIN(o->vars, m->vars_len) : m->vars_len;
    draw_rounds(r);
    if (o->lie != LIE_NONE) {
        m->vars_len = 1;
        m->age = PS_AGE_NONE;
        m->age_parameter = 0;
    }
}

static void
build_evictor(struct sim_run *r)
{
    static const struct worker_profile profile = {.observer = true, .program = &evictor_program};

    node_worker_init(&r->evictor.node, &r->sim, &r->net, r->ledger, &r->model, r->model.workers + 1, r->listeners,
                     &profile);
    r->evictor.workers = r->workers;
    evictor_init(&r->evictor, r->options->seed);
}

static void
build_scrap(struct sim_run *r, bool durable)
{
    struct worker_profile worker = scrap_worker_profile;

    worker.may_durable = durable;
    r->scrap.shards = r->shards;
    scrap_draw(&r->scrap, &r->model, r->options->seed);
    node_worker_init(&r->scrap.worker, &r->sim, &r->net, r->ledger, &r->scrap.model, 0, r->listeners, &worker);
    node_worker_init(&r->scrap.boss, &r->sim, &r->net, r->ledger, &r->model, r->model.workers + 2, r->listeners,
                     &scrap_boss_profile);
}

static void
run_build(struct sim_run *r)
{
    const struct run_options *o = r->options;
    struct ledger_config ledger = {.may_lapse = faults_may_lapse(o->faults)};
    struct node_shard_profile shard;
    struct worker_profile worker;
    struct net_profile net;
    uint32_t barrier_every;

    draw_model(r);
    r->has_admin = o->lie == LIE_NONE && admin_drawn(o->seed, o->faults);
    r->has_evictor = o->lie == LIE_NONE && evictor_drawn(o->seed, o->faults);
    r->has_scrap = o->lie == LIE_NONE && scrap_drawn(o->seed, o->faults);
    draw_sizes(r);
    r->has_assigns = o->lie == LIE_NONE && !r->has_admin && sim_has(o->seed, ASSIGN_SALT, ASSIGN_RUNS);
    ledger.evictions = r->has_evictor;
    barrier_every = sim_chance(&r->sim, 500) ? (uint32_t)sim_between(&r->sim, 1, 8) : 0;
    if (barrier_every > 0 && sim_chance(&r->sim, 500))
        barrier_every = 1;
    faults_net_profile(o->faults, &r->sim, &net);
    net_init(&r->net, &r->sim, &net);
    r->ledger = ledger_new(&r->sim, &r->model, &ledger);
    faults_shard_profile(o->faults, &r->sim, &shard);
    shard.durable = shard.durable && o->lie == LIE_NONE;
    for (uint32_t i = 0; i < r->model.shards; i++) {
        node_shard_init(&r->shards[i], &r->sim, &r->net, r->ledger, &r->model, i, &shard);
        r->listeners[i] = &r->shards[i].listener;
    }
    for (uint32_t i = 0; i < r->model.workers; i++) {
        faults_worker_profile(o->faults, &r->sim, &worker);
        worker.barrier_every = barrier_every;
        worker.may_durable = shard.durable;
        if (!shard.durable)
            worker.durable_per_mille = MIN(worker.durable_per_mille, UNDURABLE_PER_MILLE);
        if (o->lie != LIE_NONE || r->has_admin)
            worker.cursors = false; /* a checkpoint has none */
        worker.may_restore = r->has_admin;
        worker.lie = o->lie;
        worker.program = &script_program;
        worker.assign_per_mille = r->has_assigns ? ASSIGN_PER_MILLE : 0;
        if (o->lie == LIE_FORGED_ACK)
            worker.broken_per_mille = 200;
        node_worker_init(&r->workers[i], &r->sim, &r->net, r->ledger, &r->model, i, r->listeners, &worker);
        r->workers[i].assign_random = o->seed ^ ASSIGN_SALT ^ ((uint64_t)i << 56);
    }
    node_worker_init(&r->observer, &r->sim, &r->net, r->ledger, &r->model, r->model.workers, r->listeners,
                     &(struct worker_profile){.cancel_per_mille = 50,
                                              .observer = true,
                                              .store_fails = faults_fail_stores(o->faults),
                                              .program = &observer_program});
    r->faults = (struct faults){.sim = &r->sim,
                                .net = &r->net,
                                .level = o->faults,
                                .most = o->faults_max,
                                .shards = r->shards,
                                .shards_len = r->model.shards,
                                .workers = r->workers,
                                .workers_len = r->model.workers};
    r->admin = (struct admin){.sim = &r->sim,
                              .ledger = r->ledger,
                              .model = &r->model,
                              .faults = &r->faults,
                              .shards = r->shards,
                              .workers = r->workers};
    if (r->has_evictor)
        build_evictor(r);
    if (r->has_scrap)
        build_scrap(r, shard.durable);
}

static void
run_describe(struct sim_run *r)
{
    static const char *const modes[] = {"async", "ssp", "sync"};
    const struct sim_model *m = &r->model;

    sim_trace(&r->sim, "%s bound %u quorum %u: %u shards, %u workers, %u steps, %u runs%s%s%s", modes[m->mode],
              m->bound, m->quorum, m->shards, m->workers, m->steps, m->rounds,
              m->overlap   ? " that overlap"
              : m->resizes ? " of other numbers of workers"
                           : "",
              m->lapse == PS_LAPSE_FAIL ? ", a lapse fails the step" : "",
              m->age == PS_AGE_CUTOFF ? ", old pushes are dropped" : "");
    for (uint32_t i = 0; i < m->vars_len; i++)
        sim_trace(&r->sim, "%s: %" PRIu64 " elements in %" PRIu64 " blocks, %s", m->vars[i].name, m->vars[i].elements,
                  m->vars[i].layout.blocks, ps_optimizer_name(m->vars[i].spec.optimizer.kind));
}

static void
run_start(struct sim_run *r)
{
    run_describe(r);
    for (uint32_t i = 0; i < r->model.shards; i++)
        node_shard_start(&r->shards[i]);
    for (uint32_t i = 0; i < r->model.workers; i++)
        if (i < model_workers(&r->model, 0))
            sim_in(&r->sim, &r->workers[i].restart, draw_delay(r));
        else
            node_worker_sits_out(&r->workers[i], 0);
    sim_in(&r->sim, &r->observer.restart, sim_below(&r->sim, 50 * SIM_MS));
    r->watch.run = watch_comes;
    sim_in(&r->sim, &r->watch, WATCH_US);
    faults_start(&r->faults, r->options->seed);
    if (r->has_admin)
        admin_start(&r->admin, r->options->seed);
    if (r->has_evictor)
        sim_in(&r->sim, &r->evictor.node.restart, 0);
    if (r->has_scrap)
        scrap_start(&r->scrap);
    r->lie.run = lie_comes;
    if (r->options->lie == LIE_APPLY_TWICE || r->options->lie == LIE_LOST_UPDATE)
        sim_in(&r->sim, &r->lie, 10 * SIM_MS);
}

/* ---- Running ---- */

static void
pass_time(struct sim_run *r)
{
    uint64_t at = 0;
    size_t same = 0;

    while (!(r->ending && shards_down(r)) && sim_step(&r->sim)) {
        same = r->sim.now_us == at ? same + 1 : 0;
        at = r->sim.now_us;
        if (same > SAME_US_MAX)
            sim_fail(&r->sim, "time stands still");
    }
}

static void
take_apart(struct sim_run *r)
{
    for (uint32_t i = 0; i < r->model.workers; i++)
        node_worker_finish(&r->workers[i]);
    node_worker_finish(&r->observer);
    if (r->has_evictor)
        node_worker_finish(&r->evictor.node);
    scrap_stop(&r->scrap);
    for (uint32_t i = 0; i < r->model.shards; i++)
        node_shard_stop(&r->shards[i]);
    net_finish(&r->net);
    for (uint32_t i = 0; i < r->model.shards; i++)
        node_shard_finish(&r->shards[i]);
    admin_finish(&r->admin);
}

static void
fill_report(const struct sim_run *r, struct run_report *out)
{
    static const enum run_mode modes[] = {[PS_ASYNC] = RUN_ASYNC, [PS_SSP] = RUN_SSP, [PS_SYNC] = RUN_SYNC};

    *out = (struct run_report){.options = *r->options,
                               .failed = r->sim.failed,
                               .hash = r->sim.hash,
                               .lines = r->sim.lines,
                               .virtual_ms = (r->sim.now_us - SIM_START) / SIM_MS,
                               .connections = r->net.conns_made,
                               .observed = r->observer.steps};
    out->options.mode = modes[r->model.mode];
    out->options.shards = r->model.shards;
    out->options.workers = r->model.workers;
    out->options.steps = r->model.steps;
    out->options.vars = r->model.vars_len;
    out->options.faults_max = r->faults.came;
    memcpy(out->failure, r->sim.failure, sizeof out->failure);
    ledger_counts(r->ledger, &out->ledger);
    for (uint32_t i = 0; i < r->model.shards; i++) {
        out->kills += r->shards[i].kills;
        out->power_losses += r->shards[i].power_losses;
        out->flips += r->shards[i].rot.flips;
        out->refused += r->shards[i].rot.refused;
        out->mended += r->shards[i].rot.mended;
        out->turns += r->shards[i].turns;
        out->failed_commits += r->shards[i].failed_commits;
    }
    for (uint32_t i = 0; i < r->model.workers; i++) {
        out->crashes += r->workers[i].crashes;
        out->rejoins += r->workers[i].rejoins;
    }
}

void
run_one(const struct run_options *o, struct run_report *out)
{
    struct sim_run *r = sim_alloc(sizeof *r);

    r->options = o;
    sim_init(&r->sim, o->seed, o->trace);
    run_build(r);
    run_start(r);
    pass_time(r);
    for (uint32_t i = 0; i < r->model.shards && !r->sim.failed; i++)
        ledger_last(r->ledger, i, r->shards[i].store);
    if (!r->sim.failed)
        ledger_final(r->ledger);
    take_apart(r);
    fill_report(r, out);
    ledger_free(r->ledger);
    sim_finish(&r->sim);
    free(r);
}
