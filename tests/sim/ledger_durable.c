/* The pushes that survive power loss. The ledger remembers every block as it was at the instant of a save; when the
 * save is on disk, a shard may come back with that state, and:
 *
 *     async, ssp   of the pushes counted after it, those that survive were durable and counted before; sums do not
 *                  depend on the order
 *     sync         a step survives when one of its pushes was durable: the surviving steps, in their order, are taken
 *                  again from the instant's weights and slots, and must give the same bits
 *
 * Every push that was acknowledged to its worker as durable is among them. The rest is lost: a block's history ends
 * there (its states are gone), and begins a new epoch. */
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/model/layout.h"
#include "proto/store.pb-c.h"
#include "server/core/durability/identity.h"
#include "tests/sim/ledger_state.h"

static size_t
arrays_bytes(const struct block_state *b)
{
    return (1 + (size_t)b->slots) * b->stride * sizeof *b->arrays;
}

/* ---- Saves ---- */

void
ledger_take_instant(const struct ledger *l, const struct block_state *b, struct ledger_instant *to)
{
    to->seen = b->seen;
    to->version = b->version;
    to->clock = b->clock;
    to->assign = b->assign;
    to->base = b->base;
    to->hash = b->states_len > 0 ? b->states[b->states_len - 1].hash : 0;
    if (!model_counts(l->model))
        memcpy(to->arrays, b->arrays, arrays_bytes(b));
}

static void
take_pending(struct ledger *l, struct block_state *b)
{
    ledger_take_instant(l, b, &b->pending);
}

/* Calls take(l, block) for each block of the shard. */
static void
each_block(struct ledger *l, uint32_t shard, void (*take)(struct ledger *l, struct block_state *b))
{
    for (uint32_t v = 0; v < l->model->vars_len; v++)
        for (uint32_t n = 0; n < l->vars[v].blocks_len; n++)
            if (l->vars[v].blocks[n].shard == shard)
                take(l, &l->vars[v].blocks[n]);
}

void
ledger_instant(struct ledger *l, uint32_t shard)
{
    each_block(l, shard, take_pending);
    memcpy(l->pending_runs[shard], l->runs, sizeof l->runs);
    ledger_evict_instant(l, shard);
}

struct saved_visit {
    struct ledger *l;
    uint32_t shard;
    uint8_t generation;
};

static bool
visit_saved(void *arg, const struct store_key *key, struct span value)
{
    struct saved_visit *v = arg;
    struct ledger *l = v->l;
    const struct block_head *head = value.data;
    struct block_state *b = key->generation == v->generation ? ledger_block_of(l, v->shard, key) : NULL;

    if (b == NULL)
        return true;
    b->look = l->looks;
    if (!b->pending.seen && head->version == 0)
        return true; /* no worker knew of it */
    if (head->version != b->pending.version || ledger_hash((const float *)(head + 1), b->len) != b->pending.hash)
        sim_fail(l->sim, "%s was saved as version %" PRIu64 ", and at the save's instant it was %s version %" PRIu64,
                 ledger_block_name(l, b), head->version, head->version == b->pending.version ? "another" : "of",
                 b->pending.version);
    return !l->sim->failed;
}

static void
settle_instant(struct ledger *l, struct block_state *b)
{
    struct ledger_instant saved = b->saved;

    if (b->pending.seen && b->look != l->looks)
        sim_fail(l->sim, "%s is not in the save", ledger_block_name(l, b));
    b->saved = b->pending;
    b->pending = saved;
}

void
ledger_saved(struct ledger *l, uint32_t shard, struct store *durable, uint8_t generation)
{
    struct saved_visit v = {l, shard, generation};
    enum ps_err err;

    l->looks++;
    err = durable->ops->each_block(durable, visit_saved, &v);
    ps_assert(err == PS_OK);
    each_block(l, shard, settle_instant);
    memcpy(l->saved_runs[shard], l->pending_runs[shard], sizeof l->runs);
    ledger_evict_saved(l, shard);
    l->disk_empty[shard] = false;
    l->counts.saves++;
}

static void
forget_saved(struct ledger *l, struct block_state *b)
{
    (void)l;
    b->saved.seen = false;
}

void
ledger_disk_lost(struct ledger *l, uint32_t shard)
{
    l->disk_empty[shard] = true;
    l->disks_lost++;
    ledger_disk_failed(l);
    each_block(l, shard, forget_saved);
    ledger_evict_forgotten(l, shard);
    memset(l->saved_runs[shard], 0, sizeof l->runs);
}

void
ledger_disk_failed(struct ledger *l)
{
    l->disk_failed = true;
}

uint32_t
ledger_losses(const struct ledger *l)
{
    return l->losses;
}

uint32_t
ledger_disks_lost(const struct ledger *l)
{
    return l->disks_lost;
}

bool
ledger_may_forget(const struct ledger *l, uint32_t shard, uint32_t task)
{
    /* After a restore the shard knows again the workers that joined since. */
    return l->saved_runs[shard][task].joined < l->runs[task].joined || l->restored_len > 0;
}

/* ---- Power losses: back to the instant ---- */

void
ledger_rewind(struct ledger *l, struct block_state *b, const struct ledger_instant *i)
{
    uint64_t last = i->seen ? i->version : 0;

    for (size_t n = 0; n < b->states_len; n++) {
        struct ledger_block_state *s = &b->states[n];

        if (s->gone == UINT32_MAX && (!i->seen || s->version > last))
            s->gone = l->epoch[b->shard];
    }
    for (size_t n = 0; n < b->traces_len; n++) {
        struct traces *t = &b->traces[n];

        t->was = t->version > last ? t->version : 0;
        l->counts.lost += t->was != 0;
        t->lost |= t->was != 0;
        t->version = t->was != 0 ? 0 : t->version;
    }
    b->was_seen |= b->seen;
    b->seen = i->seen;
    b->version = last;
    b->clock = i->seen ? i->clock : 0;
    b->assign = i->seen ? i->assign : 0;
    b->base = i->seen ? i->base : 0;
    if (!model_counts(l->model) && (i->seen || b->was_seen))
        memcpy(b->arrays, i->seen ? i->arrays : b->begin, arrays_bytes(b));
}

static void
rewind_block(struct ledger *l, struct block_state *b)
{
    ledger_rewind(l, b, &b->saved);
}

/* ---- Ids ---- */

struct ids_visit {
    struct ledger *l;
    uint32_t shard;
};

static bool
visit_id(void *arg, struct span key, struct span value)
{
    struct ids_visit *v = arg;
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);
    uint32_t id;

    ps_assert(row != NULL && key.len == sizeof id);
    memcpy(&id, key.data, sizeof id);
    if (ledger_is_job(v->l, v->shard, row->job))
        ledger_know_id(v->l, v->shard, be32toh(id), row->declare->name);
    psd__variable_row__free_unpacked(row, NULL);
    return true;
}

/* Ids that were given after the save are given again, perhaps to others. */
static void
read_ids(struct ledger *l, uint32_t shard, struct store *store)
{
    struct ids_visit v = {l, shard};
    enum ps_err err;

    l->ids[shard].len = 0;
    err = store->ops->each_row(store, STORE_VARS, visit_id, &v);
    ps_assert(err == PS_OK);
}

/* ---- Boots ---- */

uint64_t
ledger_boot_of(struct store *store)
{
    Psd__ShardRow *row;
    enum ps_err err = identity_get(store, identity_live, &row);
    uint64_t boot = row != NULL ? row->boot : 0;

    ps_assert(err == PS_OK);
    if (row != NULL)
        psd__shard_row__free_unpacked(row, NULL);
    return boot;
}

/* Workers see by the boot that the shard has other data. */
void
ledger_check_boot(struct ledger *l, uint32_t shard, struct store *store, bool older)
{
    uint64_t boot = ledger_boot_of(store);

    if (older && boot == l->boot[shard])
        sim_fail(l->sim, "s%u came back older under the same boot", shard);
    if (!older && l->boot[shard] != 0 && boot != l->boot[shard])
        sim_fail(l->sim, "s%u has another boot, and lost nothing", shard);
    l->boot[shard] = boot;
}

/* ---- Power losses: and on from there ---- */

void
ledger_check_replayed(struct ledger *l, const struct block_state *b, uint64_t number)
{
    uint32_t id = l->vars[b->var].pushes[number];
    char name[128];

    if (b->traces[number].was == 0)
        sim_fail(l->sim, "%s came back with %s, which it did not count before", ledger_block_name(l, b),
                 ledger_push_name(l, id, name, sizeof name));
    else if (model_counts(l->model) && !l->pushes[id].durable)
        sim_fail(l->sim, "%s came back with %s, which was not durable and is not in the save", ledger_block_name(l, b),
                 ledger_push_name(l, id, name, sizeof name));
}

static bool
step_durable(const struct ledger *l, const struct block_state *b, const struct ledger_step *step)
{
    for (uint32_t i = 0; i < step->chosen_len; i++)
        if (l->pushes[l->vars[b->var].pushes[step->chosen[i]]].durable)
            return true;
    return false;
}

/* Assigns that were done, and that the block had not taken. */
static void
replay_rest(struct ledger *l, struct block_state *b, uint64_t assign)
{
    struct ledger_taken taken[LEDGER_TAKEN_MAX];
    size_t n = assign > b->assign ? ledger_assigns_taken(l, b, assign, taken) : 0;
    uint64_t next = b->steps_len > 0 ? b->steps[b->steps_len - 1].version : 0;

    for (size_t i = 0; i < n; i++)
        ledger_block_step(
            l, b, &(struct ledger_step){.assign = taken[i].id, .number = taken[i].number, .rate = taken[i].rate},
            MAX(next, b->version) + 1 + i);
}

/* Steps of the block's lost history that survive; of hidden ones nobody knows it: each has a bit. */
struct surviving {
    struct ledger_step *steps;
    size_t len, kept; /* those of before the instant: kept */
    uint64_t version, assign;
    uint64_t hidden; /* bits of those that are taken */
};

static bool
surviving_has(const struct ledger *l, const struct block_state *b, const struct surviving *x, size_t i, uint32_t *nth)
{
    const struct ledger_step *step = &x->steps[i];

    if (step->assign != 0)
        return step->number <= x->assign;
    if (step->hidden)
        return (x->hidden >> (*nth)++ & 1) != 0;
    return step_durable(l, b, step);
}

/* Whether these bits give the arrays; b->arrays is as it was. */
static bool
hidden_fit(struct ledger *l, struct block_state *b, const struct surviving *x, const float *arrays)
{
    float *was = sim_alloc(arrays_bytes(b));
    uint64_t next = b->version;
    uint32_t nth = 0;
    bool fit;

    memcpy(was, b->arrays, arrays_bytes(b));
    for (size_t i = x->kept; i < x->len && next < x->version; i++)
        if (surviving_has(l, b, x, i, &nth))
            ledger_block_redo(l, b, &x->steps[i], ++next);
    fit = next == x->version && ledger_same_arrays(b, b->arrays, arrays, b->len);
    memcpy(b->arrays, was, arrays_bytes(b));
    free(was);
    return fit;
}

/* Which of the hidden steps survive: those with which it comes out. */
static void
find_hidden(struct ledger *l, struct block_state *b, struct surviving *x, const float *arrays)
{
    uint32_t n = 0;

    for (size_t i = x->kept; i < x->len; i++)
        n += x->steps[i].hidden;
    ps_assert(n < 20);
    for (x->hidden = 0; n > 0 && x->hidden >> n == 0; x->hidden++)
        if (hidden_fit(l, b, x, arrays))
            return;
    x->hidden = 0;
}

void
ledger_replay_steps(struct ledger *l, struct block_state *b, uint64_t version, uint64_t assign, const float *arrays)
{
    struct surviving x = {.steps = b->steps, .len = b->steps_len, .version = version, .assign = assign};
    uint64_t next = b->version;
    uint32_t nth = 0;

    b->steps = NULL;
    b->steps_len = b->steps_room = 0;
    for (; x.kept < x.len && x.steps[x.kept].version <= b->version; x.kept++) {
        b->steps = sim_grow(b->steps, &b->steps_room, b->steps_len, sizeof *b->steps);
        b->steps[b->steps_len++] = x.steps[x.kept];
    }
    find_hidden(l, b, &x, arrays);
    for (size_t i = x.kept; i < x.len && next < version && !l->sim->failed; i++)
        if (surviving_has(l, b, &x, i, &nth))
            ledger_block_step(l, b, &x.steps[i], ++next);
    free(x.steps);
    replay_rest(l, b, assign);
}

static void
check_steps(struct ledger *l, struct block_state *b, const float *arrays, const struct block_head *head)
{
    uint64_t last = b->steps_len > 0 ? b->steps[b->steps_len - 1].version : 0;

    if (last < head->version)
        sim_fail(l->sim,
                 "%s came back at version %" PRIu64 ", and its save and the durable steps after it make %" PRIu64,
                 ledger_block_name(l, b), head->version, last);
    for (uint32_t i = 0; i <= b->slots; i++)
        if (memcmp(arrays + (size_t)i * b->stride, b->arrays + (size_t)i * b->stride, b->len * sizeof *arrays) != 0)
            sim_fail(l->sim,
                     "%s came back at version %" PRIu64 " with other bits than its save and its durable steps give",
                     ledger_block_name(l, b), head->version);
}

static void
come_back(struct ledger *l, struct block_state *b, const float *arrays, const struct block_head *head)
{
    if (head->version < b->version) {
        sim_fail(l->sim, "%s came back at version %" PRIu64 ", and was saved at version %" PRIu64,
                 ledger_block_name(l, b), head->version, b->version);
        return;
    }
    l->replaying = true;
    if (model_counts(l->model)) {
        (void)ledger_block_check_counts(l, b, arrays, head->version, head->assign);
    } else {
        ledger_replay_steps(l, b, head->version, head->assign, arrays);
        check_steps(l, b, arrays, head);
    }
    l->replaying = false;
    b->seen = true;
    ledger_block_remember(l, b, arrays, head);
}

static bool
visit_back(void *arg, const struct store_key *key, struct span value)
{
    struct ids_visit *v = arg;
    struct block_state *b = ledger_block_of(v->l, v->shard, key);
    const struct block_head *head = value.data;
    const float *arrays = (const float *)(head + 1);

    if (b == NULL || v->l->sim->failed)
        return !v->l->sim->failed;
    b->look = v->l->looks;
    if (b->seen || b->was_seen)
        come_back(v->l, b, arrays, head);
    else
        ledger_block_first(v->l, b, arrays, head);
    return true;
}

/* Pushes up to this version of the block's lost history were assigned over by what it came back with. */
static uint64_t
assigned_over(const struct block_state *b)
{
    uint32_t found = 0;

    if (b->assign == 0 || (b->saved.seen && b->saved.assign == b->assign))
        return 0;
    for (size_t i = b->taken_len; i > 0; i--)
        if (b->taken[i - 1].number == b->assign && found++ == 1)
            return b->taken[i - 1].version;
    return UINT64_MAX; /* it had not taken it then */
}

/* Durable pushes that were assigned over are there, though nothing shows them. */
static void
restore_hidden(struct ledger *l, struct block_state *b)
{
    uint64_t over = assigned_over(b);

    for (size_t n = 0; n < b->traces_len; n++) {
        struct traces *t = &b->traces[n];

        if (t->was == 0 || t->was > over || t->version != 0 || (!t->hidden && !model_counts(l->model)))
            continue;
        if (l->pushes[l->vars[b->var].pushes[n]].durable) {
            t->version = b->base;
            t->epoch = l->epoch[b->shard];
            t->lost = false;
        } else if (t->hidden && !model_counts(l->model)) { /* others' durable pushes may have saved its step */
            t->was = 0;
            t->lost = false;
        }
    }
}

/* All acknowledged durable pushes are there. */
static void
check_promises(struct ledger *l, struct block_state *b)
{
    char name[128];

    if (b->saved.seen && b->look != l->looks)
        sim_fail(l->sim, "%s was saved and is gone", ledger_block_name(l, b));
    if (b->look != l->looks)
        b->steps_len = 0; /* it is yet to be made again */
    restore_hidden(l, b);
    for (size_t n = 0; n < b->traces_len; n++) {
        uint32_t id = b->traces[n].was != 0 && b->traces[n].version == 0 ? l->vars[b->var].pushes[n] : UINT32_MAX;

        if (id != UINT32_MAX && l->pushes[id].durable && l->pushes[id].outcome == PUSH_COUNTED &&
            !l->disk_empty[b->shard])
            sim_fail(l->sim, "%s was acknowledged as durable and is not in %s (version %" PRIu64 ")",
                     ledger_push_name(l, id, name, sizeof name), ledger_block_name(l, b), b->version);
    }
}

void
ledger_lost(struct ledger *l, uint32_t shard, struct store *live)
{
    struct ids_visit v = {l, shard};
    enum ps_err err;

    l->losses++;
    l->epoch[shard]++;
    l->looks++;
    ledger_check_boot(l, shard, live, true);
    each_block(l, shard, rewind_block);
    ledger_job_look(l, shard, live);
    ledger_assigns_lost(l, shard);
    read_ids(l, shard, live);
    ledger_evict_lost(l, shard);
    ledger_settings_before(l, shard, live);
    ledger_assigns_look(l, shard, live);
    err = live->ops->each_block(live, visit_back, &v);
    ps_assert(err == PS_OK);
    ledger_settings_after(l, shard);
    if (l->config.evictions)
        ledger_evict_look(l, shard, live);
    if (!l->sim->failed)
        each_block(l, shard, check_promises);
}

/* ---- Acknowledged pushes ---- */

bool
ledger_place(const struct ledger *l, uint32_t shard, uint32_t id, uint32_t block, struct ledger_place *out)
{
    const struct id_table *ids = &l->ids[shard];

    if (id >= ids->len || ids->var[id] == 0)
        return false;
    *out = (struct ledger_place){ids->var[id] - 1, block};
    return true;
}

/* The push of this clock: a worker pushes a variable once a step. */
static struct ledger_push *
push_at(const struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, uint32_t var)
{
    for (size_t i = l->vars[var].pushes_len; i > 0; i--) {
        struct ledger_push *p = &l->pushes[l->vars[var].pushes[i - 1]];

        if (p->task == task && p->life == life && p->clock == clock)
            return p;
    }
    return NULL;
}

void
ledger_refused(struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, const struct ledger_place *places,
               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct ledger_push *p = push_at(l, task, life, clock, places[i].var);

        if (p != NULL)
            p->refused = true;
    }
}

bool
ledger_is_boot(const struct ledger *l, uint32_t shard, uint64_t boot)
{
    return l->boot[shard] == boot;
}

/* It was counted under an assign, and the block went back: nothing shows whether it is in there. */
static bool
fate_is_hidden(const struct block_state *b, const struct ledger_push *p)
{
    return p != NULL && p->number < b->traces_len && b->traces[p->number].hidden && b->traces[p->number].version == 0;
}

/* In sync others' durable pushes may have saved a part of it: it still counts as gone. */
enum ledger_fate
ledger_fate(const struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, const struct ledger_place *places,
            size_t n)
{
    enum ledger_fate fate = LEDGER_UNREPORTED;
    bool hidden = false;

    for (size_t i = 0; i < n; i++) {
        const struct ledger_push *p = push_at(l, task, life, clock, places[i].var);
        const struct block_state *b = &l->vars[places[i].var].blocks[places[i].block];

        if (p != NULL && ledger_block_lost(b, p->number))
            return LEDGER_GONE;
        if (p != NULL && ledger_block_version_of(b, p->number) != 0)
            fate = LEDGER_KEPT;
        hidden |= fate_is_hidden(b, p);
    }
    return hidden ? LEDGER_UNREPORTED : fate;
}
