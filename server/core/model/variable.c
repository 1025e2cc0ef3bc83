/* Variables in heap memory, and their rows. Their bytes count as promised until their blocks are made. */
#include "server/core/model/variable.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/wire/wire.h"
#include "proto/store.pb-c.h"
#include "server/core/model/variable_row.h"
#include "server/core/shard_state.h"

/* Where the block of a variable with one lies: behind its name, in the same piece of memory. */
static size_t
variable_only_at(size_t name_len)
{
    return round_up(offsetof(struct variable, name) + name_len + 1, alignof(struct block));
}

static struct block *
variable_only(struct variable *v)
{
    return (struct block *)(void *)((char *)v + variable_only_at(strlen(v->name)));
}

void
variable_free(struct variable *v)
{
    if (v == NULL)
        return;
    declare_free_waiters(v);
    variable_definition_release(v->def);
    if (v->blocks != variable_only(v))
        free(v->blocks);
    free(v);
}

uint64_t
variable_gather_bytes(const struct shard *s, const struct variable *v)
{
    if (!job_is_sync(v->job))
        return 0;
    return v->kind->pooled_bytes(v, s->config.shard, s->config.shards) * v->job->options->quorum +
           v->count * pool_size(sync_step_size(v->job));
}

/* Takes one use of def, also when it fails. */
static struct variable *
variable_make(struct shard *s, struct job *job, const char *name, struct variable_definition *def, uint32_t id)
{
    size_t name_len = strlen(name);
    struct variable *v = def != NULL ? calloc(1, variable_only_at(name_len) + sizeof(struct block)) : NULL;

    if (v == NULL) {
        variable_definition_release(def);
        return NULL;
    }
    v->id = id;
    v->job = job;
    v->def = def;
    v->kind = def->kind;
    memcpy(v->name, name, name_len + 1);
    v->start = placement_start(job->name, v->name, s->config.shards);
    v->kind->measure(v, s->config.shard, s->config.shards);
    return v;
}

struct variable *
variable_new(struct shard *s, struct job *job, const Psd__Declare *declare, uint32_t id)
{
    struct ps_optimizer optimizer = wire_optimizer(declare->optimizer);

    return variable_make(s, job, declare->name, variable_definition_get(&s->definitions, declare, &optimizer), id);
}

bool
variable_set_optimizer(struct shard *s, struct variable *v, const struct ps_optimizer *optimizer)
{
    struct variable_definition *def;

    if (save_keeps_row(s, v) && variable_put(s, v, save_keeps_put) != PS_OK)
        return false;
    if ((def = variable_definition_get(&s->definitions, v->def->declare, optimizer)) == NULL)
        return false;
    variable_definition_release(v->def);
    v->def = def;
    return true;
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
    v->blocks = v->count <= 1 ? variable_only(v) : calloc(v->count, sizeof *v->blocks);
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
    s->gather_bytes += variable_gather_bytes(s, v);
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
    Psd__Declare declare = variable_declare(v);
    struct wire_optimizer room;

    row.job = v->job->id;
    row.declare = &declare;
    row.optimizer = wire_optimizer_message(&v->def->optimizer, &room);
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

    if (!optimizer_ok(d->optimizer) || d->init == NULL ||
        protobuf_c_message_get_packed_size(&d->base) > VARIABLE_DEFINITION_BYTES_MAX ||
        wire_elements(d->dims, d->n_dims, &elements) != PS_OK)
        return false;
    initializer = wire_initializer(d->init);
    return initializer_check(&initializer, &e) == PS_OK;
}

/* The optimizer that is in force, which a row may not have: it must fit the blocks. */
static bool
optimizer_now(const Psd__VariableRow *row, struct ps_optimizer *now)
{
    struct ps_optimizer declared = wire_optimizer(row->declare->optimizer);

    *now = declared;
    if (row->optimizer == NULL)
        return true;
    if (!optimizer_ok(row->optimizer))
        return false;
    *now = wire_optimizer(row->optimizer);
    return now->kind == declared.kind && optimizer_slots(now) == optimizer_slots(&declared);
}

static enum ps_err
variable_load_with(struct shard *s, const char *name, uint32_t job_id, struct variable_definition *def, uint32_t id)
{
    struct variable *v = variable_make(s, s->jobs_by_id[job_id], name, def, id);

    return v != NULL && variable_add(s, v) ? PS_OK : PS_ERR_NOMEM;
}

static bool
variable_load_place_ok(const struct shard *s, uint64_t job_id, uint32_t id)
{
    return id == s->variables_len + 1 && job_id >= 1 && job_id <= s->jobs_len && s->jobs_by_id[job_id] != NULL;
}

/* Most variables have the definition of another, which was checked: then no more of the row is read than which that is.
 * False: it is to be read as a whole. */
static bool
variable_load_alike(struct shard *s, struct span value, uint32_t id, enum ps_err *err)
{
    struct variable_row row;
    struct variable_definition *def;
    char name[WIRE_NAME_MAX + 1];

    if (!variable_row_read(value, &row) || row.name.len >= sizeof name || !variable_load_place_ok(s, row.job, id) ||
        (def = variable_definition_find(&s->definitions, row.declare, row.optimizer)) == NULL)
        return false;
    memcpy(name, row.name.data, row.name.len);
    name[row.name.len] = '\0';
    *err = variable_load_with(s, name, (uint32_t)row.job, def, id);
    return true;
}

/* PS_ERR_IO: what the row says is not valid. */
static enum ps_err
variable_load_row(struct shard *s, const Psd__VariableRow *row, uint32_t id)
{
    struct variable_definition *def;
    struct ps_optimizer now;

    if (row->declare == NULL || !variable_load_place_ok(s, row->job, id) || !declare_ok(row->declare) ||
        !optimizer_now(row, &now))
        return PS_ERR_IO;
    if ((def = variable_definition_get(&s->definitions, row->declare, &now)) == NULL)
        return PS_ERR_NOMEM;
    return variable_load_with(s, row->declare->name, row->job, def, id);
}

bool
variable_load(void *arg, struct span key, struct span value)
{
    struct row_load *l = arg;
    uint32_t id = row_id(key);
    Psd__VariableRow *row;
    enum ps_err err;

    if (!variable_load_alike(l->s, value, id, &err)) {
        row = psd__variable_row__unpack(NULL, value.len, value.data);
        err = row != NULL ? variable_load_row(l->s, row, id) : PS_ERR_IO;
        if (row != NULL)
            psd__variable_row__free_unpacked(row, NULL);
    }
    return err == PS_OK || row_load_stop(l, err, "variable", id);
}
