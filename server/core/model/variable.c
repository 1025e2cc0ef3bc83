/* Variables in heap memory, and their rows. Their bytes count as promised until their blocks are made. */
#include "server/core/model/variable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/wire/wire.h"
#include "proto/store.pb-c.h"
#include "server/core/shard_state.h"

void
variable_free(struct variable *v)
{
    if (v == NULL)
        return;
    declare_free_waiters(v);
    if (v->declare != NULL)
        psd__declare__free_unpacked(v->declare, NULL);
    free(v->path);
    free(v->blocks);
    free(v);
}

/* Bytes that the gradients of steps that are under way may take. */
static uint64_t
variable_gather_bytes(const struct variable *v, uint32_t shard, uint32_t shards)
{
    return v->kind->pooled_bytes(v, shard, shards) * v->job->options->quorum +
           v->count * pool_size(sync_step_size(v->job));
}

struct variable *
variable_new(struct shard *s, struct job *job, const Psd__Declare *declare, uint32_t id)
{
    struct variable *v = calloc(1, sizeof *v);
    size_t path_size = strlen(job->name) + 1 + strlen(declare->name) + 1;

    if (v == NULL)
        return NULL;
    v->id = id;
    v->job = job;
    v->declare = wire_copy(&declare->base);
    v->path = malloc(path_size);
    if (v->declare == NULL || v->path == NULL) {
        variable_free(v);
        return NULL;
    }
    snprintf(v->path, path_size, "%s/%s", job->name, declare->name);
    v->name = v->path + strlen(job->name) + 1;
    v->optimizer = wire_optimizer(v->declare->optimizer);
    v->initializer = wire_initializer(v->declare->init);
    v->refuse_nonfinite = v->declare->nonfinite == PSD__NON_FINITE__REFUSE;
    v->start = placement_start(job->name, v->name, s->config.shards);
    v->kind = kind_of(v->declare);
    v->kind->measure(v, s->config.shard, s->config.shards);
    v->gather_bytes = job_is_sync(job) ? variable_gather_bytes(v, s->config.shard, s->config.shards) : 0;
    return v;
}

bool
variables_grow(struct shard *s, uint32_t id)
{
    uint32_t size = MAX(s->variables_size, 64u);
    struct variable **bigger;

    if (id < s->variables_size)
        return true;
    while (size <= id)
        size *= 2;
    if ((bigger = realloc(s->variables, size * sizeof(struct variable *))) == NULL)
        return false;
    memset(bigger + s->variables_size, 0, (size - s->variables_size) * sizeof(struct variable *));
    s->variables = bigger;
    s->variables_size = size;
    return true;
}

bool
variable_add(struct shard *s, struct variable *v)
{
    v->blocks = calloc(MAX(v->count, 1), sizeof *v->blocks);
    if (v->blocks != NULL && variables_grow(s, v->id))
        HASH_ADD_KEYPTR(hh, v->job->variables, v->name, strlen(v->name), v);
    if (!HASH_TOOK(v)) {
        variable_free(v);
        return false;
    }
    s->variables[v->id] = v;
    s->variables_len = MAX(s->variables_len, v->id);
    v->first = s->ordinals;
    s->ordinals += v->count;
    v->job->firsts += placement_shard(v->start, 0, s->config.shards) == s->config.shard;
    s->promised_bytes += v->bytes;
    s->gather_bytes += v->gather_bytes;
    s->pool.kept_max = s->gather_bytes + 16 * MIB;
    return true;
}

struct variable *
variable_from(const struct shard *s, uint32_t id)
{
    return id <= s->variables_len ? s->variables[MAX(id, 1u)] : NULL;
}

/* ---- Rows ---- */

enum ps_err
variable_put(struct shard *s, const struct variable *v, row_sink sink)
{
    Psd__VariableRow row = PSD__VARIABLE_ROW__INIT;
    struct wire_optimizer room;

    row.job = v->job->id;
    row.declare = v->declare;
    row.optimizer = wire_optimizer_message(&v->optimizer, &room);
    if (MUTATION(BEGIN_NOT_KEPT))
        room.schedule.begin = 0;
    return row_put(s, STORE_VARS, v->id, &row.base, sink);
}

void
variable_to_redo(struct shard *s, const struct variable *v)
{
    if (s->redo.on && variable_put(s, v, redo_row) != PS_OK)
        ps_assert(false);
}

/* The checks of the declaration, made again. */
static bool
optimizer_ok(const Psd__Optimizer *o)
{
    struct ps_optimizer optimizer;
    struct ps_error e;

    if (o == NULL)
        return false;
    optimizer = wire_optimizer(o);
    return optimizer_check(&optimizer, &e) == PS_OK;
}

static bool
declare_ok(const Psd__Declare *d)
{
    struct ps_error e;
    struct initializer initializer;
    uint64_t elements;

    if (d == NULL || !optimizer_ok(d->optimizer) || d->init == NULL ||
        wire_elements(d->dims, d->n_dims, &elements) != PS_OK)
        return false;
    initializer = wire_initializer(d->init);
    return initializer_check(&initializer, &e) == PS_OK;
}

/* The optimizer that is in force, when the row has one: it must fit the blocks. */
static bool
take_optimizer(struct variable *v, const Psd__Optimizer *o)
{
    struct ps_optimizer now;

    if (o == NULL)
        return true;
    if (!optimizer_ok(o))
        return false;
    now = wire_optimizer(o);
    if (now.kind != v->optimizer.kind || optimizer_slots(&now) != optimizer_slots(&v->optimizer))
        return false;
    v->optimizer = now;
    return true;
}

bool
variable_load(void *arg, struct span key, struct span value)
{
    struct row_load *l = arg;
    struct shard *s = l->s;
    uint32_t id = row_id(key);
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);
    struct variable *v = NULL;
    bool ok = row != NULL && id == s->variables_len + 1 && row->job >= 1 && row->job <= s->jobs_len &&
              s->jobs_by_id[row->job] != NULL && declare_ok(row->declare);

    if (ok && (v = variable_new(s, s->jobs_by_id[row->job], row->declare, id)) != NULL) {
        if (!(ok = take_optimizer(v, row->optimizer)))
            variable_free(v);
        if (!ok || !variable_add(s, v))
            v = NULL;
    }
    if (row != NULL)
        psd__variable_row__free_unpacked(row, NULL);
    if (v == NULL)
        return row_load_stop(l, ok ? PS_ERR_NOMEM : PS_ERR_IO, "variable", id);
    return true;
}
