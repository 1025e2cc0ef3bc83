/* One timer: each time it checks the progress. */
#include "tests/sim/admin.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "server/core/sessions/session.h"

#define SALT         0x6f70657261746f72u
#define PER_MILLE    250 /* runs that have one */
#define LOOK_US      (10 * SIM_MS)
#define FIRST_US_MAX (3 * SIM_SECOND)
#define AFTER_US_MAX (2 * SIM_SECOND) /* between checkpoint and restore */

/* ---- Taking a checkpoint ---- */

static void
values_finish(struct admin_values *v)
{
    for (size_t i = 0; i < ARRAY_LEN(v->array); i++)
        free(v->array[i]);
    free(v->version);
    free(v->clock);
    free(v->has);
    *v = (struct admin_values){0};
}

static void
values_begin(struct admin_values *v, const struct sim_model_var *var)
{
    values_finish(v);
    for (uint32_t i = 0; i <= var->layout.slots; i++)
        v->array[i] = sim_alloc(var->elements * sizeof(float));
    v->version = sim_alloc(var->layout.blocks * sizeof *v->version);
    v->clock = sim_alloc(var->layout.blocks * sizeof *v->clock);
    v->has = sim_alloc(var->layout.blocks * sizeof *v->has);
}

struct admin_reading {
    struct admin *admin;
    uint32_t shard;
    Psd__JobRow *job;
    uint64_t slowest; /* UINT64_MAX: no worker is live */
};

/* While a save runs a block may lie there twice. */
static bool
read_block(void *arg, const struct store_key *key, struct span value)
{
    struct admin_reading *r = arg;
    struct admin *a = r->admin;
    const struct block_head *head = value.data;
    struct ledger_place at;
    struct admin_values *v;
    struct layout_block cut;

    if (key->generation >= STORE_GENERATION_REDO || !ledger_place(a->ledger, r->shard, key->var, key->block, &at))
        return true;
    v = &a->values[at.var];
    cut = layout_block(&a->model->vars[at.var].layout, at.block);
    if (v->has[at.block] && (head->version < v->version[at.block] ||
                             (head->version == v->version[at.block] && head->clock <= v->clock[at.block])))
        return true;
    v->has[at.block] = true;
    v->version[at.block] = head->version;
    v->clock[at.block] = head->clock;
    for (uint32_t i = 0; i <= a->model->vars[at.var].layout.slots; i++)
        memcpy(v->array[i] + cut.first, (const uint8_t *)value.data + layout_array(cut.stride, i),
               cut.len * sizeof(float));
    return true;
}

static bool
read_job(void *arg, struct span key, struct span value)
{
    struct admin_reading *r = arg;

    if (ledger_of_job(r->admin->ledger, r->shard, key) && r->job == NULL)
        r->job = psd__job_row__unpack(NULL, value.len, value.data);
    return true;
}

static bool
read_session(void *arg, struct span key, struct span value)
{
    struct admin_reading *r = arg;
    Psd__SessionRow *row;

    if (!ledger_of_job(r->admin->ledger, r->shard, key))
        return true;
    row = psd__session_row__unpack(NULL, value.len, value.data);
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
    struct admin_reading *r = arg;
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);
    Psd__Declare now;
    struct ps_error e;

    (void)key;
    ps_assert(row != NULL);
    now = *row->declare;
    now.optimizer = row->optimizer != NULL ? row->optimizer : now.optimizer;
    if (ledger_is_job(r->admin->ledger, r->shard, row->job) && checkpoint_find(&r->admin->manifest, now.name) == NULL &&
        checkpoint_add(&r->admin->manifest, row->declare, &now, &e) != PS_OK)
        sim_fail(r->admin->sim, "a checkpoint cannot hold %s: %s", now.name, e.text);
    psd__variable_row__free_unpacked(row, NULL);
    return true;
}

static void
read_shard(struct admin_reading *r)
{
    struct store *store = r->admin->shards[r->shard].store;
    enum ps_err err;

    if ((err = store->ops->each_block(store, read_block, r)) != PS_OK ||
        (err = store->ops->each_row(store, STORE_JOBS, read_job, r)) != PS_OK ||
        (err = store->ops->each_row(store, STORE_SESSIONS, read_session, r)) != PS_OK ||
        (err = store->ops->each_row(store, STORE_VARS, read_variable, r)) != PS_OK)
        sim_fail(r->admin->sim, "s%u cannot be read for a checkpoint: %s", r->shard, ps_err_name(err));
}

static void
set_job(struct admin *a, const Psd__JobRow *row, uint64_t slowest)
{
    Psd__Job now = *row->options;
    struct ps_error e;

    now.bound = row->bound != NULL ? row->bound->clocks : now.bound;
    now.age = row->age != NULL ? row->age : now.age;
    a->manifest.clock = slowest != UINT64_MAX ? slowest : row->slowest;
    if (checkpoint_set_job(&a->manifest, row->options, &now, &e) != PS_OK)
        sim_fail(a->sim, "a checkpoint cannot hold the job: %s", e.text);
}

static bool
all_up(const struct admin *a)
{
    for (uint32_t i = 0; i < a->model->shards; i++)
        if (a->shards[i].core == NULL || a->shards[i].state != SHARD_UP)
            return false;
    return true;
}

static bool
admin_take(struct admin *a)
{
    struct admin_reading r = {.admin = a, .slowest = UINT64_MAX};

    if (!all_up(a) || !ledger_checkpoint(a->ledger))
        return false;
    checkpoint_finish(&a->manifest);
    a->manifest = (struct checkpoint){0};
    for (uint32_t v = 0; v < a->model->vars_len; v++)
        values_begin(&a->values[v], &a->model->vars[v]);
    for (; r.shard < a->model->shards; r.shard++)
        read_shard(&r);
    set_job(a, r.job, r.slowest);
    psd__job_row__free_unpacked(r.job, NULL);
    sim_trace(a->sim, "a checkpoint at clock %" PRIu64, a->manifest.clock);
    return true;
}

/* ---- What a shard gets ---- */

struct admin_source {
    struct shard_restore base;
    const struct admin *admin;
};

static enum ps_err
source_elements(struct shard_restore *r, size_t variable, uint32_t array, uint64_t first, uint32_t len, float *to,
                struct ps_error *e)
{
    const struct admin *a = CONTAINER_OF(r, struct admin_source, base)->admin;

    (void)e;
    memcpy(to, a->values[variable].array[array] + first, len * sizeof *to);
    return PS_OK;
}

static enum ps_err
source_counts(struct shard_restore *r, size_t variable, uint64_t block, uint64_t *version, uint64_t *clock,
              struct ps_error *e)
{
    const struct admin_values *v = &CONTAINER_OF(r, struct admin_source, base)->admin->values[variable];

    (void)e;
    *version = v->version[block];
    *clock = v->clock[block];
    return PS_OK;
}

static void
source_close(struct shard_restore *r)
{
    free(CONTAINER_OF(r, struct admin_source, base));
}

/* ---- Restoring ---- */

static void
admin_give(struct admin *a, uint32_t shard)
{
    struct admin_source *s = sim_alloc(sizeof *s);
    struct shard_event event = {.kind = SHARD_RESTORE, .restore = &s->base};

    a->boot[shard] = sim_mix(&a->random) | 1;
    s->admin = a;
    s->base = (struct shard_restore){.manifest = &a->manifest,
                                     .dir = "checkpoint",
                                     .job = "",
                                     .boot = a->boot[shard],
                                     .elements = source_elements,
                                     .counts = source_counts,
                                     .close = source_close};
    sim_trace(a->sim, "s%u is to restore", shard);
    ledger_restore_begins(a->ledger, shard, a->boot[shard]);
    node_shard_event(&a->shards[shard], &event);
}

/* From the first shard's restore to the last one's end. */
static void
set_restoring(struct admin *a, bool restoring)
{
    for (uint32_t i = 0; i < a->model->shards; i++)
        a->shards[i].restoring = restoring;
    for (uint32_t i = 0; i < a->model->workers; i++)
        a->workers[i].stays = restoring;
}

/* All train, and none will be lost. */
static bool
may_restore(const struct admin *a)
{
    for (uint32_t i = 0; i < a->model->workers; i++) {
        const struct node_worker *w = &a->workers[i];

        if (w->core == NULL || w->phase < WORKER_PULLING || w->phase > WORKER_MEETING)
            return false;
    }
    for (uint32_t i = 0; i < a->model->shards; i++)
        if (a->shards[i].kill_planned && a->shards[i].kill_loss != LOSS_NONE)
            return false;
    return all_up(a) && ledger_checkpoint_usable(a->ledger);
}

static void
admin_restore(struct admin *a)
{
    a->faults->powers++; /* a worker that is lost from now on may not be known to a shard */
    a->state = ADMIN_RESTORES;
    set_restoring(a, true);
    for (uint32_t i = 0; i < a->model->shards && !a->sim->failed; i++)
        admin_give(a, i);
}

/* True when the shard is done; a shard that is not, and does nothing about it, is asked again. */
static bool
look_after(struct admin *a, uint32_t shard)
{
    struct node_shard *n = &a->shards[shard];
    const char *dir, *job;

    if (n->core == NULL || n->state != SHARD_UP)
        return false;
    if (n->profile.durable)
        node_saver_look(&n->saver);
    if (n->core == NULL)
        return false;
    if (ledger_is_boot(a->ledger, shard, a->boot[shard]))
        return !shard_is_restoring(n->core, NULL);
    if (!shard_is_restoring(n->core, NULL) || shard_restore_unfinished(n->core, &dir, &job))
        admin_give(a, shard);
    return false;
}

static bool
all_restored(struct admin *a)
{
    uint32_t left = a->model->shards;

    for (uint32_t i = 0; i < a->model->shards && !a->sim->failed; i++)
        left -= look_after(a, i);
    return left == 0;
}

static void
admin_look(struct sim_timer *t)
{
    struct admin *a = CONTAINER_OF(t, struct admin, timer);
    uint64_t next_us = LOOK_US;

    if (a->state == ADMIN_RESTORES && all_restored(a)) {
        sim_trace(a->sim, "all is restored");
        set_restoring(a, false);
        a->state = ADMIN_WAITS;
        next_us = sim_mix_below(&a->random, FIRST_US_MAX);
    } else if (a->state == ADMIN_WAITS && admin_take(a)) {
        a->state = ADMIN_HAS;
        next_us = sim_mix_below(&a->random, AFTER_US_MAX);
    } else if (a->state == ADMIN_HAS && may_restore(a)) {
        admin_restore(a);
    } else if (a->state == ADMIN_HAS && sim_mix_below(&a->random, 100) == 0) {
        a->state = ADMIN_WAITS; /* perhaps of no use any more */
    }
    sim_in(a->sim, t, next_us);
}

/* ---- Life ---- */

bool
admin_drawn(uint64_t seed, enum sim_faults level)
{
    return level >= FAULTS_CRASHES && sim_has(seed, SALT, PER_MILLE);
}

void
admin_start(struct admin *a, uint64_t seed)
{
    a->random = ~seed ^ SALT;
    a->timer.run = admin_look;
    sim_in(a->sim, &a->timer, sim_mix_below(&a->random, FIRST_US_MAX));
}

void
admin_stop(struct admin *a)
{
    sim_cancel(a->sim, &a->timer);
}

void
admin_finish(struct admin *a)
{
    checkpoint_finish(&a->manifest);
    for (size_t v = 0; v < MODEL_VARS_MAX; v++)
        values_finish(&a->values[v]);
}
