/* One timer: each time it looks how far things are. */
#include "operator.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "server/session.h"

#define SALT         0x6f70657261746f72u
#define PER_MILLE    250 /* runs that have an operator */
#define LOOK_US      (10 * SIM_MS)
#define FIRST_US_MAX (3 * SIM_SECOND)
#define AFTER_US_MAX (2 * SIM_SECOND) /* between checkpoint and restore */

static uint64_t
draw_below(struct operator* o, uint64_t n)
{
    return sim_mix(&o->random) % n;
}

/* ---- Taking a checkpoint ---- */

static void
values_finish(struct operator_values *v)
{
    for (size_t i = 0; i < ARRAY_LEN(v->array); i++)
        free(v->array[i]);
    free(v->version);
    free(v->clock);
    free(v->has);
    *v = (struct operator_values){0};
}

static void
values_begin(struct operator_values *v, const struct model_var *var)
{
    values_finish(v);
    for (uint32_t i = 0; i <= var->layout.slots; i++)
        v->array[i] = sim_alloc(var->elements * sizeof(float));
    v->version = sim_alloc(var->layout.blocks * sizeof *v->version);
    v->clock = sim_alloc(var->layout.blocks * sizeof *v->clock);
    v->has = sim_alloc(var->layout.blocks * sizeof *v->has);
}

struct reading {
    struct operator* o;
    uint32_t shard;
    Psd__JobRow *job;
    uint64_t slowest; /* UINT64_MAX: no worker is live */
};

/* While a save runs a block may lie there twice. */
static bool
read_block(void *arg, const struct store_key *key, struct span value)
{
    struct reading *r = arg;
    struct operator* o = r->o;
    const struct block_head *head = value.data;
    struct ledger_place at;
    struct operator_values *v;
    struct layout_block cut;

    if (key->generation == STORE_GENERATION_REDO || !ledger_place(o->ledger, r->shard, key->var, key->block, &at))
        return true;
    v = &o->values[at.var];
    cut = layout_block(&o->model->vars[at.var].layout, at.block);
    if (v->has[at.block] && (head->version < v->version[at.block] ||
                             (head->version == v->version[at.block] && head->clock <= v->clock[at.block])))
        return true;
    v->has[at.block] = true;
    v->version[at.block] = head->version;
    v->clock[at.block] = head->clock;
    for (uint32_t i = 0; i <= o->model->vars[at.var].layout.slots; i++)
        memcpy(v->array[i] + cut.first, (const uint8_t *)value.data + layout_array(cut.stride, i),
               cut.len * sizeof(float));
    return true;
}

static bool
read_job(void *arg, struct span key, struct span value)
{
    struct reading *r = arg;

    (void)key;
    if (r->job == NULL)
        r->job = psd__job_row__unpack(NULL, value.len, value.data);
    return true;
}

static bool
read_session(void *arg, struct span key, struct span value)
{
    struct reading *r = arg;
    Psd__SessionRow *row = psd__session_row__unpack(NULL, value.len, value.data);

    (void)key;
    ps_assert(row != NULL);
    if (row->state == SESSION_LIVE)
        r->slowest = MIN(r->slowest, row->clock);
    psd__session_row__free_unpacked(row, NULL);
    return true;
}

/* A variable that several shards have is added once. */
static bool
read_variable(void *arg, struct span key, struct span value)
{
    struct reading *r = arg;
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);
    Psd__Declare now;
    struct ps_error e;

    (void)key;
    ps_assert(row != NULL);
    now = *row->declare;
    now.optimizer = row->optimizer != NULL ? row->optimizer : now.optimizer;
    if (checkpoint_find(&r->o->manifest, now.name) == NULL &&
        checkpoint_add(&r->o->manifest, row->declare, &now, &e) != PS_OK)
        sim_fail(r->o->sim, "a checkpoint cannot hold %s: %s", now.name, e.text);
    psd__variable_row__free_unpacked(row, NULL);
    return true;
}

static void
read_shard(struct reading *r)
{
    struct store *store = r->o->shards[r->shard].store;
    enum ps_err err;

    if ((err = store->ops->each_block(store, read_block, r)) != PS_OK ||
        (err = store->ops->each_row(store, STORE_JOBS, read_job, r)) != PS_OK ||
        (err = store->ops->each_row(store, STORE_SESSIONS, read_session, r)) != PS_OK ||
        (err = store->ops->each_row(store, STORE_VARS, read_variable, r)) != PS_OK)
        sim_fail(r->o->sim, "s%u cannot be read for a checkpoint: %s", r->shard, ps_err_name(err));
}

static void
set_job(struct operator* o, const Psd__JobRow *row, uint64_t slowest)
{
    Psd__Job now = *row->options;
    struct ps_error e;

    now.bound = row->bound != NULL ? row->bound->clocks : now.bound;
    now.age = row->age != NULL ? row->age : now.age;
    o->manifest.clock = slowest != UINT64_MAX ? slowest : row->slowest;
    if (checkpoint_set_job(&o->manifest, row->options, &now, &e) != PS_OK)
        sim_fail(o->sim, "a checkpoint cannot hold the job: %s", e.text);
}

static bool
all_up(const struct operator* o)
{
    for (uint32_t i = 0; i < o->model->shards; i++)
        if (o->shards[i].core == NULL || o->shards[i].state != SHARD_UP)
            return false;
    return true;
}

static bool take(struct operator* o)
{
    struct reading r = {.o = o, .slowest = UINT64_MAX};

    if (!all_up(o) || !ledger_checkpoint(o->ledger))
        return false;
    checkpoint_finish(&o->manifest);
    o->manifest = (struct checkpoint){0};
    for (uint32_t v = 0; v < o->model->vars_len; v++)
        values_begin(&o->values[v], &o->model->vars[v]);
    for (; r.shard < o->model->shards; r.shard++)
        read_shard(&r);
    set_job(o, r.job, r.slowest);
    psd__job_row__free_unpacked(r.job, NULL);
    sim_trace(o->sim, "a checkpoint at clock %" PRIu64, o->manifest.clock);
    return true;
}

/* ---- What a shard gets ---- */

struct source {
    struct shard_restore base;
    const struct operator* operator;
};

static enum ps_err
source_elements(struct shard_restore *r, size_t variable, uint32_t array, uint64_t first, uint32_t len, float *to,
                struct ps_error *e)
{
    const struct operator* o = CONTAINER_OF(r, struct source, base)->operator;

    (void)e;
    memcpy(to, o->values[variable].array[array] + first, len * sizeof *to);
    return PS_OK;
}

static enum ps_err
source_counts(struct shard_restore *r, size_t variable, uint64_t block, uint64_t *version, uint64_t *clock,
              struct ps_error *e)
{
    const struct operator_values *v = &CONTAINER_OF(r, struct source, base)->operator->values[variable];

    (void)e;
    *version = v->version[block];
    *clock = v->clock[block];
    return PS_OK;
}

static void
source_close(struct shard_restore *r)
{
    free(CONTAINER_OF(r, struct source, base));
}

/* ---- Restoring ---- */

static void
give(struct operator* o, uint32_t shard)
{
    struct source *s = sim_alloc(sizeof *s);
    struct shard_event event = {.kind = SHARD_RESTORE, .restore = &s->base};

    o->boot[shard] = sim_mix(&o->random) | 1;
    s->operator= o;
    s->base = (struct shard_restore){.manifest = &o->manifest,
                                     .dir = "checkpoint",
                                     .job = "",
                                     .boot = o->boot[shard],
                                     .elements = source_elements,
                                     .counts = source_counts,
                                     .close = source_close};
    sim_trace(o->sim, "s%u is to restore", shard);
    ledger_restore_begins(o->ledger, shard, o->boot[shard]);
    node_shard_event(&o->shards[shard], &event);
}

/* From the first shard's restore to the last one's end. */
static void
set_restoring(struct operator* o, bool restoring)
{
    for (uint32_t i = 0; i < o->model->shards; i++)
        o->shards[i].restoring = restoring;
    for (uint32_t i = 0; i < o->model->workers; i++)
        o->workers[i].stays = restoring;
}

/* All train, and none will be lost. */
static bool
may_restore(const struct operator* o)
{
    for (uint32_t i = 0; i < o->model->workers; i++) {
        const struct node_worker *w = &o->workers[i];

        if (w->core == NULL || w->phase < WORKER_PULLING || w->phase > WORKER_MEETING)
            return false;
    }
    for (uint32_t i = 0; i < o->model->shards; i++)
        if (o->shards[i].kill_planned && o->shards[i].kill_loss != LOSS_NONE)
            return false;
    return all_up(o) && ledger_checkpoint_usable(o->ledger);
}

static void restore(struct operator* o)
{
    o->faults->powers++; /* who is lost from now on may not be known to a shard */
    o->state = OPERATOR_RESTORES;
    set_restoring(o, true);
    for (uint32_t i = 0; i < o->model->shards && !o->sim->failed; i++)
        give(o, i);
}

/* True when the shard is through; who is not, and does nothing about it, is asked again. */
static bool
look_after(struct operator* o, uint32_t shard)
{
    struct node_shard *n = &o->shards[shard];
    const char *dir, *job;

    if (n->core == NULL || n->state != SHARD_UP)
        return false;
    if (n->profile.durable)
        node_saver_look(&n->saver);
    if (n->core == NULL)
        return false;
    if (ledger_is_boot(o->ledger, shard, o->boot[shard]))
        return !shard_is_restoring(n->core, NULL);
    if (!shard_is_restoring(n->core, NULL) || shard_restore_unfinished(n->core, &dir, &job))
        give(o, shard);
    return false;
}

static bool all_restored(struct operator* o)
{
    uint32_t left = o->model->shards;

    for (uint32_t i = 0; i < o->model->shards && !o->sim->failed; i++)
        left -= look_after(o, i);
    return left == 0;
}

static void
look(struct sim_timer *t)
{
    struct operator* o = CONTAINER_OF(t, struct operator, timer);
    uint64_t next_us = LOOK_US;

    if (o->state == OPERATOR_RESTORES && all_restored(o)) {
        sim_trace(o->sim, "all is restored");
        set_restoring(o, false);
        o->state = OPERATOR_WAITS;
        next_us = draw_below(o, FIRST_US_MAX);
    } else if (o->state == OPERATOR_WAITS && take(o)) {
        o->state = OPERATOR_HAS;
        next_us = draw_below(o, AFTER_US_MAX);
    } else if (o->state == OPERATOR_HAS && may_restore(o)) {
        restore(o);
    } else if (o->state == OPERATOR_HAS && draw_below(o, 100) == 0) {
        o->state = OPERATOR_WAITS; /* perhaps of no use any more */
    }
    sim_in(o->sim, t, next_us);
}

/* ---- Life ---- */

bool
operator_drawn(uint64_t seed, enum sim_faults level)
{
    uint64_t state = seed ^ SALT;

    return level >= FAULTS_CRASHES && sim_mix(&state) % 1000 < PER_MILLE;
}

void
operator_start(struct operator* o, uint64_t seed)
{
    o->random = ~seed ^ SALT;
    o->timer.run = look;
    sim_in(o->sim, &o->timer, draw_below(o, FIRST_US_MAX));
}

void operator_stop(struct operator* o)
{
    sim_cancel(o->sim, &o->timer);
}

void operator_finish(struct operator* o)
{
    checkpoint_finish(&o->manifest);
    for (size_t v = 0; v < MODEL_VARS_MAX; v++)
        values_finish(&o->values[v]);
}
