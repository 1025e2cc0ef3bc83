/* What SETs may have made of a running job.
 *
 * sync: learning rates. The shard's own rows say which rate is in force after each commit; it must be one that was
 * asked for, it must be the one that a worker was told is done, and the bits of every update must have been made with
 * the rate from before the commit or after it: a turn holds the SET and updates on both sides of it.
 *
 * ssp: bounds. A pull may have been let go under the largest that was ever asked for. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "ledger_state.h"
#include "proto/store.pb-c.h"

static bool
was_asked(const struct ledger *l, uint32_t var, double rate)
{
    if (rate == l->model->vars[var].spec.optimizer.learning_rate)
        return true;
    for (size_t i = 0; i < l->sets_len; i++)
        if (l->sets[i].var == var && l->sets[i].rate == rate)
            return true;
    return false;
}

struct rates_visit {
    struct ledger *l;
    uint32_t shard;
};

static bool
visit_row(void *arg, struct span key, struct span value)
{
    struct rates_visit *v = arg;
    struct ledger *l = v->l;
    const struct id_table *ids = &l->ids[v->shard];
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);
    uint32_t id, var;

    ps_assert(row != NULL && key.len == sizeof id);
    memcpy(&id, key.data, sizeof id);
    id = be32toh(id);
    var = id < ids->len ? ids->var[id] : 0;
    if (var > 0) {
        double rate = row->optimizer != NULL ? row->optimizer->learning_rate : row->declare->optimizer->learning_rate;

        l->rates[v->shard][var - 1].now = rate;
        if (!was_asked(l, var - 1, rate))
            sim_fail(l->sim, "s%u has %s at a learning rate of %g, which nobody asked for", v->shard,
                     l->model->vars[var - 1].name, rate);
    }
    psd__variable_row__free_unpacked(row, NULL);
    return true;
}

void
ledger_rates_before(struct ledger *l, uint32_t shard, struct store *store)
{
    struct rates_visit v = {l, shard};
    enum ps_err err;

    if (model_counts(l->model))
        return;
    err = store->ops->each_row(store, STORE_VARS, visit_row, &v);
    ps_assert(err == PS_OK);
}

void
ledger_rates_after(struct ledger *l, uint32_t shard)
{
    for (uint32_t var = 0; var < l->model->vars_len; var++)
        l->rates[shard][var].was = l->rates[shard][var].now;
}

void
ledger_rates_init(struct ledger *l)
{
    for (uint32_t shard = 0; shard < l->model->shards; shard++)
        for (uint32_t var = 0; var < l->model->vars_len; var++) {
            double rate = l->model->vars[var].spec.optimizer.learning_rate;

            l->rates[shard][var] = (struct rate_state){rate, rate};
        }
    l->bound_max = l->model->bound;
}

/* ---- What workers do ---- */

uint32_t
ledger_set_rate(struct ledger *l, uint32_t var, double rate)
{
    l->sets = sim_grow(l->sets, &l->sets_room, l->sets_len, sizeof *l->sets);
    l->sets[l->sets_len] = (struct set_state){.var = var, .rate = rate};
    return (uint32_t)l->sets_len++;
}

void
ledger_set_rate_done(struct ledger *l, uint32_t set)
{
    const struct set_state *s = &l->sets[set];

    l->counts.sets++;
    if (set + 1 != l->sets_len || l->lives_len > l->model->workers)
        return; /* a later one, or one of an earlier life that is still on its way, may have come in between */
    for (uint32_t shard = 0; shard < l->model->shards; shard++)
        for (uint32_t b = 0; b < l->vars[s->var].blocks_len; b++)
            if (l->vars[s->var].blocks[b].shard == shard && l->rates[shard][s->var].now != s->rate)
                sim_fail(l->sim, "s%u said that %s is set to %g, and has it at %g", shard, l->model->vars[s->var].name,
                         s->rate, l->rates[shard][s->var].now);
}

void
ledger_set_bound(struct ledger *l, uint32_t bound)
{
    l->bound_max = MAX(l->bound_max, bound);
}

void
ledger_set_done(struct ledger *l)
{
    l->counts.sets++;
}
