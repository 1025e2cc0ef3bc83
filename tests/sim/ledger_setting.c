/* The effect of SETs on a running job. The shard's own rows say what is in force after each commit; it must be as
 * declared or as asked for, and a SET that was acknowledged to a worker is done.
 *
 * sync: learning rates, and schedules that begin now. The bits of every update must have been made with the rate and
 * the begin from before the commit or after it: a turn holds the SET and updates on both sides of it. A schedule has
 * begun where its variable's first block was between the SET and its commit.
 *
 * ssp: bounds. A pull may have been let go under the largest that was ever asked for.
 *
 * async: cutoffs. No push is counted that was older than the cutoff from before the commit and the one after it. */
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "tests/sim/ledger_state.h"

static bool
ledger_setting_of_variable(enum ledger_setting what)
{
    return what == LEDGER_RATE || what == LEDGER_BEGIN;
}

static const char *
setting_name(const struct ledger *l, enum ledger_setting what, uint32_t var)
{
    static const char *const names[] = {[LEDGER_BOUND] = "the bound", [LEDGER_CUTOFF] = "the cutoff"};

    return ledger_setting_of_variable(what) ? l->model->vars[var].name : names[what];
}

static struct in_force *
in_force(struct ledger *l, uint32_t shard, enum ledger_setting what, uint32_t var)
{
    switch (what) {
    case LEDGER_RATE:
        return &l->rates[shard][var];
    case LEDGER_BEGIN:
        return &l->begins[shard][var];
    case LEDGER_BOUND:
        return &l->bounds[shard];
    case LEDGER_CUTOFF:
        return &l->cutoffs[shard];
    }
    abort();
}

static double
ledger_setting_declared(const struct ledger *l, enum ledger_setting what, uint32_t var)
{
    if (what == LEDGER_RATE)
        return l->model->vars[var].spec.optimizer.learning_rate;
    if (what == LEDGER_BEGIN)
        return (double)l->model->vars[var].spec.optimizer.schedule.begin;
    return what == LEDGER_BOUND ? l->model->bound : l->model->age_parameter;
}

/* Where a variable's schedule begins that begins now: at its first block's version, or at the step that this takes
 * next. */
static double
ledger_setting_now(const struct ledger *l, uint32_t shard, uint32_t var)
{
    const struct var_state *v = &l->vars[var];
    bool by_clock = l->model->vars[var].spec.optimizer.schedule.by == PS_BY_CLOCK;

    for (uint32_t b = 0; b < v->blocks_len; b++)
        if (v->blocks[b].shard == shard && v->blocks[b].seen)
            return (double)(by_clock ? v->blocks[b].clock : v->blocks[b].version);
    return 0;
}

/* In the life of the shard's data in which it was asked for, not before its block was there. */
static bool
ledger_setting_is(const struct ledger *l, uint32_t shard, const struct set_state *s, double value)
{
    if (s->what != LEDGER_BEGIN)
        return s->value == value;
    return s->epochs[shard] != l->epoch[shard] || value >= s->least[shard];
}

static bool
was_asked(const struct ledger *l, uint32_t shard, enum ledger_setting what, uint32_t var, double value)
{
    if (value == ledger_setting_declared(l, what, var))
        return true;
    for (size_t i = 0; i < l->sets_len; i++)
        if (l->sets[i].what == what && l->sets[i].var == var && ledger_setting_is(l, shard, &l->sets[i], value))
            return true;
    return false;
}

/* ---- Rows ---- */

struct rows_visit {
    struct ledger *l;
    uint32_t shard;
};

static void
ledger_setting_see(const struct rows_visit *v, enum ledger_setting what, uint32_t var, double value)
{
    in_force(v->l, v->shard, what, var)->now = value;
    if (!was_asked(v->l, v->shard, what, var, value))
        sim_fail(v->l->sim, "s%u has %s at %g, which nobody asked for", v->shard, setting_name(v->l, what, var), value);
}

static bool
visit_variable(void *arg, struct span key, struct span value)
{
    struct rows_visit *v = arg;
    const struct id_table *ids = &v->l->ids[v->shard];
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);
    const Psd__Optimizer *o;
    uint32_t id, var;

    ps_assert(row != NULL && key.len == sizeof id);
    memcpy(&id, key.data, sizeof id);
    id = be32toh(id);
    o = row->optimizer != NULL ? row->optimizer : row->declare->optimizer;
    var = id < ids->len ? ids->var[id] : 0;
    if (var > 0) {
        ledger_setting_see(v, LEDGER_RATE, var - 1, o->learning_rate);
        ledger_setting_see(v, LEDGER_BEGIN, var - 1, o->schedule != NULL ? (double)o->schedule->begin : 0);
    }
    psd__variable_row__free_unpacked(row, NULL);
    return true;
}

static bool
visit_job(void *arg, struct span key, struct span value)
{
    struct rows_visit *v = arg;
    Psd__JobRow *row;

    if (!ledger_of_job(v->l, v->shard, key))
        return true;
    row = psd__job_row__unpack(NULL, value.len, value.data);
    ps_assert(row != NULL);
    ledger_setting_see(v, LEDGER_BOUND, 0, row->bound != NULL ? row->bound->clocks : row->options->bound);
    ledger_setting_see(v, LEDGER_CUTOFF, 0, row->age != NULL ? row->age->parameter : row->options->age->parameter);
    psd__job_row__free_unpacked(row, NULL);
    return true;
}

void
ledger_settings_before(struct ledger *l, uint32_t shard, struct store *store)
{
    struct rows_visit v = {l, shard};
    enum ps_err err = model_counts(l->model) ? store->ops->each_row(store, STORE_JOBS, visit_job, &v)
                                             : store->ops->each_row(store, STORE_VARS, visit_variable, &v);

    ps_assert(err == PS_OK);
}

/* What begins now does not begin later, either; a shard that came back older may have to get there again. */
static void
ledger_setting_check_begin(struct ledger *l, uint32_t shard, uint32_t var)
{
    const struct in_force *begin = &l->begins[shard][var];

    if (begin->now != begin->was && l->epoch[shard] == 0 && begin->now > ledger_setting_now(l, shard, var))
        sim_fail(l->sim, "s%u has the schedule of %s begin at %g, which is still to come", shard,
                 l->model->vars[var].name, begin->now);
}

void
ledger_settings_after(struct ledger *l, uint32_t shard)
{
    for (uint32_t var = 0; var < l->model->vars_len; var++) {
        ledger_setting_check_begin(l, shard, var);
        l->rates[shard][var].was = l->rates[shard][var].now;
        l->begins[shard][var].was = l->begins[shard][var].now;
    }
    l->bounds[shard].was = l->bounds[shard].now;
    l->cutoffs[shard].was = l->cutoffs[shard].now;
}

void
ledger_settings_init(struct ledger *l)
{
    for (uint32_t shard = 0; shard < l->model->shards; shard++) {
        for (uint32_t var = 0; var < l->model->vars_len; var++) {
            l->rates[shard][var].now = ledger_setting_declared(l, LEDGER_RATE, var);
            l->begins[shard][var].now = ledger_setting_declared(l, LEDGER_BEGIN, var);
        }
        l->bounds[shard].now = ledger_setting_declared(l, LEDGER_BOUND, 0);
        l->cutoffs[shard].now = ledger_setting_declared(l, LEDGER_CUTOFF, 0);
        ledger_settings_after(l, shard);
    }
    l->bound_max = l->model->bound;
}

/* ---- What workers do ---- */

uint32_t
ledger_set(struct ledger *l, enum ledger_setting what, uint32_t var, double value)
{
    l->sets = sim_grow(l->sets, &l->sets_room, l->sets_len, sizeof *l->sets);
    l->sets[l->sets_len] = (struct set_state){.what = what, .var = var, .value = value};
    for (uint32_t shard = 0; shard < l->model->shards; shard++) {
        l->sets[l->sets_len].least[shard] = ledger_setting_now(l, shard, var);
        l->sets[l->sets_len].epochs[shard] = l->epoch[shard];
    }
    if (what == LEDGER_BOUND)
        l->bound_max = MAX(l->bound_max, (uint32_t)value);
    return (uint32_t)l->sets_len++;
}

/* Whether the shard was to change anything. */
static bool
ledger_setting_concerns(const struct ledger *l, uint32_t shard, const struct set_state *s)
{
    for (uint32_t b = 0; ledger_setting_of_variable(s->what) && b < l->vars[s->var].blocks_len; b++)
        if (l->vars[s->var].blocks[b].shard == shard)
            return true;
    return !ledger_setting_of_variable(s->what);
}

/* They stay until another is asked for: a crash, or a commit that failed, does not take them back. */
static void
check_latest(struct ledger *l)
{
    const struct set_state *s = &l->sets[l->sets_len - 1];

    for (uint32_t shard = 0; shard < l->model->shards; shard++) {
        double now = in_force(l, shard, s->what, s->var)->now;

        if (ledger_setting_concerns(l, shard, s) && !ledger_setting_is(l, shard, s, now))
            sim_fail(l->sim, "s%u has %s at %g, and said that it is set to %g", shard, setting_name(l, s->what, s->var),
                     now, s->value);
    }
}

void
ledger_set_done(struct ledger *l, uint32_t set)
{
    l->counts.sets++;
    if (set + 1 != l->sets_len || l->lives_len > l->model->workers || l->losses > 0)
        return; /* a later one, or one of an earlier life that is still on its way, may have come in between; or it is
                   lost */
    check_latest(l);
}

/* ---- Cutoffs ---- */

void
ledger_check_age(struct ledger *l, const struct block_state *b, uint32_t push, uint64_t from)
{
    const struct in_force *cutoff = &l->cutoffs[b->shard];
    char name[128];

    /* It was applied to the version before the commit, or to a later one. */
    if (l->model->age != PS_AGE_CUTOFF || from >= b->version ||
        (double)(b->version - from) <= MAX(cutoff->was, cutoff->now))
        return;
    sim_fail(l->sim, "%s, of version %" PRIu64 ", was counted at version %" PRIu64 ", and the cutoff is %g",
             ledger_push_name(l, push, name, sizeof name), from, b->version, cutoff->now);
}
