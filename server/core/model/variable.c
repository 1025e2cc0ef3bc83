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
    return v->kind->pooled_bytes(v, s->config.shard, s->config.shards) * v->job->quorum +
           v->count * pool_size(sync_step_size(v->job->quorum));
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
    v->awaits = def->initializer.kind == INIT_GIVEN && v->count > 0;
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

/* ---- The table ---- */

struct variable *
variable_from(const struct shard *s, uint32_t id)
{
    struct variable *v = variable_table_from(&s->variables, id);

    while (v != NULL && v->dropped)
        v = variable_table_from(&s->variables, v->id + 1);
    return v;
}

struct variable *
variable_find(const struct shard *s, uint32_t id)
{
    struct variable *v = variable_table_get(&s->variables, id);

    return v != NULL && !v->dropped ? v : NULL;
}

void
variable_take_gather_bytes(struct shard *s, const struct job *job, uint64_t had, uint64_t has)
{
    s->gather_bytes = s->gather_bytes - had + has;
    s->pool.kept_max = s->gather_bytes + 16 * MIB;
    quota_subtract(job->holder, QUOTA_GATHER, had);
    quota_add(job->holder, QUOTA_GATHER, has);
}

static bool
variable_add_to_table(struct shard *s, struct variable *v)
{
    v->blocks = v->count <= 1 ? variable_only(v) : calloc(v->count, sizeof *v->blocks);
    return v->blocks != NULL && variable_table_put(&s->variables, v->id, v);
}

static bool
variable_first_is_here(const struct shard *s, const struct variable *v)
{
    return placement_shard(v->start, 0, s->config.shards) == s->config.shard;
}

static bool
variable_add_to_job(struct shard *s, struct variable *v)
{
    HASH_ADD_KEYPTR(hh, v->job->variables, v->name, strlen(v->name), v);
    if (!HASH_TOOK(v))
        return false;
    if (!v->numbered)
        v->first = ordinals_take(&s->ordinals, v->count);
    v->numbered = true;
    v->job->firsts += variable_first_is_here(s, v);
    s->variables_len++;
    s->promised_bytes += v->bytes;
    quota_add(v->job->holder, QUOTA_VARIABLES, 1);
    quota_add(v->job->holder, QUOTA_BYTES, v->bytes);
    variable_take_gather_bytes(s, v->job, 0, variable_gather_bytes(s, v));
    return true;
}

bool
variable_add(struct shard *s, struct variable *v)
{
    if (!variable_add_to_table(s, v)) {
        variable_free(v);
        return false;
    }
    if (v->dropped) {
        DL_APPEND2(s->drops.variables, v, work_prev, work_next);
        return true;
    }
    if (variable_add_to_job(s, v))
        return true;
    variable_table_remove(&s->variables, v->id);
    variable_free(v);
    return false;
}

/* Of its blocks that are made. */
static uint64_t
variable_made_bytes(const struct shard *s, struct variable *v)
{
    uint64_t bytes = 0;

    if (v->ready == v->count)
        return v->bytes;
    for (uint64_t i = 0; i < v->ready; i++)
        bytes += v->kind->nth(s, v, i).size;
    return bytes;
}

void
variable_drop(struct shard *s, struct variable *v)
{
    struct job *job = v->job;
    uint64_t made = variable_made_bytes(s, v);

    ps_assert(!v->dropped && v->waiters == NULL && !v->working);
    HASH_DEL(job->variables, v);
    v->dropped = true;
    s->variables_len--;
    job->firsts -= variable_first_is_here(s, v);
    job->blocks -= v->ready;
    job->data_bytes -= made;
    s->promised_bytes -= v->bytes - made;
    quota_subtract(job->holder, QUOTA_VARIABLES, 1);
    quota_subtract(job->holder, QUOTA_BYTES, v->bytes);
    variable_take_gather_bytes(s, job, variable_gather_bytes(s, v), 0);
    ordinals_give(&s->ordinals, v->first, v->count);
    DL_APPEND2(s->drops.variables, v, work_prev, work_next);
}

void
variable_remove(struct shard *s, struct variable *v)
{
    ps_assert(v->dropped && !v->marked);
    DL_DELETE2(s->drops.variables, v, work_prev, work_next);
    variable_table_remove(&s->variables, v->id);
    variable_free(v);
}

/* ---- Rows ---- */

static enum ps_err
variable_put_as(struct shard *s, const struct variable *v, bool dropped, row_sink sink)
{
    Psd__VariableRow row = PSD__VARIABLE_ROW__INIT;
    Psd__Declare declare = variable_declare(v);
    struct wire_optimizer room;

    row.job = v->job->id;
    row.declare = &declare;
    row.optimizer = wire_optimizer_message(&v->def->optimizer, &room);
    if (MUTATION(BEGIN_NOT_KEPT))
        room.schedule.begin = 0;
    row.ordinal = v->first + 1;
    row.dropped = dropped;
    return row_put(s, STORE_VARS, v->id, &row.base, sink);
}

enum ps_err
variable_put(struct shard *s, const struct variable *v, row_sink sink)
{
    return variable_put_as(s, v, v->dropped, sink);
}

enum ps_err
variable_put_undropped(struct shard *s, const struct variable *v, row_sink sink)
{
    return variable_put_as(s, v, false, sink);
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

/* What rows say beside the definition. */
struct variable_place {
    uint64_t job_id;
    uint32_t id;
    uint64_t ordinal; /* the row's; 0: it says none */
    bool dropped;
};

/* A row of before variables could be dropped has no ordinal: its blocks follow those of the variable before it. The row
 * is to be written again, before that one may go. */
static enum ps_err
variable_load_ordinal(struct shard *s, struct variable *v, uint64_t ordinal)
{
    const struct variable *before = variable_table_get(&s->variables, v->id - 1);

    if (ordinal == 0 && before == NULL && v->id > 1)
        return PS_ERR_IO;
    v->first = ordinal != 0 ? ordinal - 1 : before != NULL ? before->first + before->count : 0;
    v->numbered = true;
    s->unnumbered += ordinal == 0;
    return v->dropped ? PS_OK : ordinals_take_at(&s->ordinals, v->first, v->count);
}

/* Takes one use of def, also when it fails. */
static enum ps_err
variable_load_at(struct shard *s, const char *name, struct variable_definition *def, const struct variable_place *at)
{
    struct job *job = s->jobs_by_id[at->job_id];
    struct variable *v = variable_make(s, job, name, def, at->id);
    enum ps_err err;

    if (v == NULL)
        return PS_ERR_NOMEM;
    v->dropped = at->dropped || job->dropped;
    if ((err = variable_load_ordinal(s, v, at->ordinal)) != PS_OK) {
        variable_free(v);
        return err;
    }
    return variable_add(s, v) ? PS_OK : PS_ERR_NOMEM;
}

static bool
variable_load_place_ok(const struct shard *s, const struct variable_place *at)
{
    return at->id >= 1 && at->id <= STORE_VAR_MAX && at->job_id >= 1 && at->job_id <= s->jobs_len &&
           s->jobs_by_id[at->job_id] != NULL;
}

/* Most variables have the definition of another, which was checked: then no more of the row is read than which that is.
 * False: it is to be read as a whole. */
static bool
variable_load_alike(struct shard *s, struct span value, uint32_t id, enum ps_err *err)
{
    struct variable_row row;
    struct variable_place at = {.id = id};
    struct variable_definition *def;
    char name[WIRE_NAME_MAX + 1];

    if (!variable_row_read(value, &row) || row.name.len >= sizeof name)
        return false;
    at.job_id = row.job;
    at.ordinal = row.ordinal;
    if (!variable_load_place_ok(s, &at) ||
        (def = variable_definition_find(&s->definitions, row.declare, row.optimizer)) == NULL)
        return false;
    memcpy(name, row.name.data, row.name.len);
    name[row.name.len] = '\0';
    *err = variable_load_at(s, name, def, &at);
    return true;
}

/* PS_ERR_IO: what the row says is not valid. */
static enum ps_err
variable_load_row(struct shard *s, const Psd__VariableRow *row, uint32_t id)
{
    struct variable_place at = {.job_id = row->job, .id = id, .ordinal = row->ordinal, .dropped = row->dropped};
    struct variable_definition *def;
    struct ps_optimizer now;

    if (row->declare == NULL || !variable_load_place_ok(s, &at) || !declare_ok(row->declare) ||
        !optimizer_now(row, &now))
        return PS_ERR_IO;
    if ((def = variable_definition_get(&s->definitions, row->declare, &now)) == NULL)
        return PS_ERR_NOMEM;
    return variable_load_at(s, row->declare->name, def, &at);
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
