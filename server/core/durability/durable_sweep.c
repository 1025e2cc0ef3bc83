/* Blocks of variables that are no more, in the generation that is not the save's: erased a transaction at a time.
 *
 * Ids rise, so the variables of the save that counts are the first of those of the next one, unless some were dropped
 * in between: a hash of their ids says which it is, without looking at a block. */
#include <endian.h>
#include <stdlib.h>

#include "common/core/base/mutation.h"
#include "server/core/durability/durable.h"
#include "server/core/turn/row.h"

#define ERASE_MAX 1024  /* values that one transaction erases */
#define LOOK_MAX  65536 /* and that it looks at */

/* ---- Which variables there are ---- */

struct sweep_rows {
    uint32_t *vars;
    size_t len, size;
    bool nomem;
};

static bool
sweep_add_row(void *arg, struct span key, struct span value)
{
    struct sweep_rows *x = arg;

    (void)value;
    if (x->len == x->size) {
        size_t size = MAX(2 * x->size, (size_t)64);
        uint32_t *bigger = realloc(x->vars, size * sizeof *bigger);

        if ((x->nomem = bigger == NULL))
            return false;
        x->vars = bigger;
        x->size = size;
    }
    x->vars[x->len++] = row_id(key);
    return true;
}

static bool
sweep_is_row(const struct shard_save_row *row)
{
    return row->table == STORE_VARS;
}

/* Ids of a save's variables, or of those of the save that counts. */
static enum ps_err
sweep_load(struct durable *d, const struct shard_save *save)
{
    struct sweep_rows x = {0};
    enum ps_err err = PS_OK;

    if (save == NULL)
        err = d->store->ops->each_row(d->store, STORE_VARS, sweep_add_row, &x);
    for (size_t i = 0; save != NULL && i < save->rows_len && !x.nomem; i++)
        if (sweep_is_row(&save->rows[i]))
            (void)sweep_add_row(&x, save->rows[i].key, (struct span){0});
    if (err == PS_OK && x.nomem)
        err = PS_ERR_NOMEM;
    if (err != PS_OK) {
        free(x.vars);
        return err;
    }
    d->sweep.vars = x.vars;
    d->sweep.vars_len = x.len;
    d->sweep.loaded = true;
    d->sweep.of = save != NULL ? save->number : 0;
    d->sweep.at = (struct store_key){.generation = d->manifest.generation ^ 1};
    return PS_OK;
}

static bool
sweep_has(const struct durable_sweep *x, uint32_t var)
{
    size_t low = 0, high = x->vars_len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (x->vars[middle] == var)
            return true;
        if (x->vars[middle] < var)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

uint64_t
durable_sweep_hash(const struct shard_save *save, size_t *len)
{
    uint64_t hash = 0xcbf29ce484222325u;
    size_t n = 0;

    for (size_t i = 0; i < save->rows_len && n < *len; i++)
        if (sweep_is_row(&save->rows[i])) {
            hash = (hash ^ row_id(save->rows[i].key)) * 0x100000001b3u;
            n++;
        }
    *len = n;
    return hash;
}

/* The save that counts may have variables that this one has not. */
static bool
sweep_some_dropped(const struct durable *d, const struct shard_save *save)
{
    size_t len = d->sweep.rows_len;
    uint64_t hash = durable_sweep_hash(save, &len);

    return len < d->sweep.rows_len || hash != d->sweep.rows_hash;
}

/* ---- Erasing ---- */

struct sweep_walk {
    struct durable_sweep *sweep;
    uint8_t generation;
    uint32_t looked, len;
    bool end;
    struct store_key keys[ERASE_MAX];
};

static bool
sweep_look(void *arg, const struct store_key *key, struct span value)
{
    struct sweep_walk *w = arg;

    (void)value;
    if ((w->end = key->generation != w->generation))
        return false;
    w->sweep->at = *key;
    if (w->looked == LOOK_MAX || w->len == ERASE_MAX)
        return false;
    w->looked++;
    if (!sweep_has(w->sweep, key->var))
        w->keys[w->len++] = *key;
    return true;
}

static enum ps_err
sweep_erase(struct durable *d, const struct sweep_walk *w)
{
    enum ps_err err;

    if (w->len == 0)
        return PS_OK;
    if ((err = durable_begin(d, MIB)) != PS_OK)
        return err;
    for (uint32_t i = 0; i < w->len && err == PS_OK; i++)
        err = d->store->ops->erase(d->store, &w->keys[i]);
    if (err == PS_OK)
        return durable_commit(d);
    durable_abort(d);
    return err;
}

static enum ps_err
sweep_some(struct durable *d, bool *more)
{
    struct sweep_walk *w = malloc(sizeof *w);
    enum ps_err err;

    if (w == NULL)
        return PS_ERR_NOMEM;
    *w = (struct sweep_walk){.sweep = &d->sweep, .generation = d->manifest.generation ^ 1};
    w->end = true; /* when nothing lies there */
    if ((err = d->store->ops->each_block_from(d->store, &d->sweep.at, sweep_look, w)) == PS_OK)
        err = sweep_erase(d, w);
    *more = err == PS_OK && !w->end && (w->looked == LOOK_MAX || w->len == ERASE_MAX);
    free(w);
    return err;
}

static void
sweep_forget(struct durable *d)
{
    free(d->sweep.vars);
    d->sweep.vars = NULL;
    d->sweep.vars_len = 0;
    d->sweep.loaded = false;
}

enum ps_err
durable_sweep(struct durable *d, const struct shard_save *save, bool *more)
{
    enum ps_err err;

    *more = false;
    if (MUTATION(DROPPED_NOT_SWEPT))
        return PS_OK;
    if (!d->sweep.needed && (save == NULL || !sweep_some_dropped(d, save))) {
        d->sweep.needed = save != NULL; /* what is staged from now on may be of a save that is not completed */
        return PS_OK;
    }
    d->sweep.needed = true;
    if (d->sweep.loaded && d->sweep.of != (save != NULL ? save->number : 0))
        sweep_forget(d);
    if (!d->sweep.loaded && (err = sweep_load(d, save)) != PS_OK)
        return err;
    if ((err = sweep_some(d, more)) != PS_OK || *more)
        return err;
    sweep_forget(d);
    d->sweep.needed = save != NULL;
    return PS_OK;
}

void
durable_close(struct durable *d)
{
    sweep_forget(d);
}
