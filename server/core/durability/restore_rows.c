/* Rows that a restore writes past the turn: more than one turn could hold, and heap memory must not know them before
 * they are loaded. The first transaction records that a restore is under way, so that it does not matter where the
 * others end. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/format/checkpoint.h"
#include "proto/store.pb-c.h"
#include "server/core/durability/identity.h"
#include "server/core/durability/restore.h"
#include "server/core/shard_state.h"
#include "server/core/store/metadata_rows.h"

#define ROWS_MAX (STORE_ROOM_TURN / STORE_ROW_ROOM) /* in one transaction */

static const char restoring_name[] = "restoring";
static_assert(WIRE_PATH_MAX + WIRE_NAME_MAX + 64 <= METADATA_ROWS_BYTES_MAX, "a fact holds a path and a name");

/* ---- The record of a restore under way ---- */

static enum ps_err
put_restoring(struct shard *s, const char *dir, const char *job, uint64_t by, bool filled)
{
    Psd__RestoringRow row = PSD__RESTORING_ROW__INIT;

    row.dir = (char *)dir;
    row.job = (char *)job;
    row.filled = filled;
    row.by = by;
    return metadata_rows_put(s->store, restoring_name, &row.base);
}

enum ps_err
restore_rows_load(struct shard *s, struct restore_record *out)
{
    ProtobufCMessage *m;
    const Psd__RestoringRow *row;
    enum ps_err err = metadata_rows_get(s->store, restoring_name, &psd__restoring_row__descriptor, &m);

    *out = (struct restore_record){0};
    if (m == NULL)
        return err;
    row = (const Psd__RestoringRow *)m;
    *out = (struct restore_record){strdup(row->dir), strdup(row->job), row->filled, row->by};
    protobuf_c_message_free_unpacked(m, NULL);
    if (out->dir != NULL && out->job != NULL)
        return PS_OK;
    free(out->dir);
    free(out->job);
    *out = (struct restore_record){0};
    return PS_ERR_NOMEM;
}

enum ps_err
restore_rows_filled(struct shard *s, uint64_t boot)
{
    struct identity who = {
        .format = s->format, .cluster = s->cluster, .shard = s->config.shard, .shards = s->config.shards, .id = boot};
    enum ps_err err = identity_put(s->store, identity_live, &who);

    return err == PS_OK ? put_restoring(s, s->restore.dir, s->restore.job, s->restore.by, true) : err;
}

enum ps_err
restore_rows_end(struct shard *s)
{
    return metadata_rows_erase(s->store, restoring_name);
}

/* ---- Many rows ---- */

/* Transactions of so many rows each. */
struct writer {
    struct shard *s;
    uint64_t rows;
    bool open;
};

static enum ps_err
writer_end(struct writer *w, enum ps_err err)
{
    if (!w->open)
        return err;
    w->open = false;
    if (err == PS_OK)
        return w->s->store->ops->commit(w->s->store);
    w->s->store->ops->abort(w->s->store);
    return err;
}

/* Room for one row more. */
static enum ps_err
writer_room(struct writer *w)
{
    enum ps_err err = PS_OK;

    if (w->open && w->rows == ROWS_MAX)
        err = writer_end(w, PS_OK);
    if (err != PS_OK || w->open) {
        w->rows++;
        return err;
    }
    err = w->s->store->ops->begin(w->s->store, STORE_ROOM_TURN);
    w->open = err == PS_OK;
    w->rows = 1;
    return err;
}

/* ---- The job's workers are forgotten ---- */

/* Keys of a table's rows that begin with the job's id, a transaction's worth. */
struct keys {
    uint32_t job; /* big-endian */
    size_t len;
    struct {
        uint8_t bytes[12];
        size_t len;
    } key[256];
};

static bool
collect_key(void *arg, struct span key, struct span value)
{
    struct keys *k = arg;

    (void)value;
    if (key.len < sizeof k->job || key.len > sizeof k->key[0].bytes || memcmp(key.data, &k->job, sizeof k->job) != 0)
        return true;
    memcpy(k->key[k->len].bytes, key.data, key.len);
    k->key[k->len++].len = key.len;
    return k->len < ARRAY_LEN(k->key);
}

static enum ps_err
forget_some(struct writer *w, enum store_table table, struct keys *k)
{
    const struct store_ops *ops = w->s->store->ops;
    enum ps_err err;

    k->len = 0;
    if ((err = ops->each_row(w->s->store, table, collect_key, k)) != PS_OK)
        return err;
    for (size_t i = 0; i < k->len; i++)
        if ((err = writer_room(w)) != PS_OK ||
            (err = ops->row_erase(w->s->store, table, (struct span){k->key[i].bytes, k->key[i].len})) != PS_OK)
            return err;
    return writer_end(w, PS_OK); /* the next look sees what was committed */
}

static enum ps_err
forget_workers(struct writer *w, uint32_t job_id)
{
    static const enum store_table tables[] = {STORE_SESSIONS, STORE_CURSORS};
    struct keys k = {.job = htobe32(job_id)};
    enum ps_err err = PS_OK;

    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        do
            err = forget_some(w, tables[t], &k);
        while (err == PS_OK && k.len == ARRAY_LEN(k.key));
    return err;
}

/* ---- Job and variables ---- */

/* Of a directory: the last part of its path. */
static const char *
checkpoint_name(const char *dir)
{
    const char *slash = strrchr(dir, '/'), *name = slash != NULL ? slash + 1 : dir;

    return strlen(name) <= WIRE_NAME_MAX ? name : "";
}

/* Numbers of assigns are not used again; values that wait for the data as it was are given up. there NULL: the job is
 * new. */
static enum ps_err
put_job(struct writer *w, const struct shard_restore *r, const struct job *there, uint32_t id)
{
    Psd__AssignsRow assigns = PSD__ASSIGNS_ROW__INIT;
    Psd__JobRow row = PSD__JOB_ROW__INIT;
    Psd__Bound bound = PSD__BOUND__INIT;
    Psd__Job options = *r->manifest->declared;
    enum ps_err err;

    options.name = (char *)restore_job_name(r);
    bound.clocks = r->manifest->now->bound;
    row.id = id;
    row.options = &options;
    row.slowest = r->manifest->clock;
    row.round = there != NULL ? there->round : 0;
    row.workers = there != NULL ? there->workers : r->manifest->now->workers;
    assigns.assigned = there != NULL ? there->assigns.assigned : 0;
    assigns.begun = there != NULL ? there->assigns.begun : 0;
    row.assigns = &assigns;
    row.age = r->manifest->now->age;
    row.bound = &bound;
    row.restored = (char *)checkpoint_name(r->dir);
    row.restored_boot = r->boot;
    row.token = (char *)(uintptr_t)quota_name(there != NULL ? there->holder : NULL);
    row.restored_by = r->by != 0 || there == NULL ? r->by : there->restored_by;
    if ((err = writer_room(w)) != PS_OK)
        return err;
    return row_put(w->s, STORE_JOBS, id, &row.base, row_to_store);
}

static enum ps_err
put_variable(struct writer *w, const struct checkpoint_variable *v, uint32_t id, uint64_t ordinal, uint32_t job_id)
{
    Psd__VariableRow row = PSD__VARIABLE_ROW__INIT;
    enum ps_err err;

    row.job = job_id;
    row.declare = v->declared;
    row.optimizer = v->now->optimizer;
    row.ordinal = ordinal + 1;
    if ((err = writer_room(w)) != PS_OK)
        return err;
    return row_put(w->s, STORE_VARS, id, &row.base, row_to_store);
}

/* A variable is known here only if one of its blocks is here. */
static uint64_t
blocks_here(const struct shard *s, const struct shard_restore *r, const struct checkpoint_variable *v)
{
    uint32_t start = placement_start(restore_job_name(r), v->declared->name, s->config.shards);

    return placement_count(start, v->layout.blocks, s->config.shard, s->config.shards);
}

static enum ps_err
put_variables(struct writer *w, const struct shard_restore *r, const struct job *job, uint32_t job_id)
{
    uint32_t next = MAX(w->s->variables.next, 1u);
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < r->manifest->variables_len; i++) {
        const struct checkpoint_variable *v = &r->manifest->variables[i];
        struct variable *there = NULL;
        uint64_t blocks;

        if (job != NULL)
            HASH_FIND(hh, job->variables, v->declared->name, strlen(v->declared->name), there);
        if (there != NULL)
            err = put_variable(w, v, there->id, there->first, job_id);
        else if ((blocks = blocks_here(w->s, r, v)) > 0) /* all is loaded again afterwards, the ordinals as well */
            err = put_variable(w, v, next++, ordinals_take(&w->s->ordinals, blocks), job_id);
    }
    return err;
}

static enum ps_err
write_all(struct writer *w, const struct shard_restore *r)
{
    const char *name = restore_job_name(r);
    struct job *job;
    uint32_t job_id;
    enum ps_err err;

    HASH_FIND(hh, w->s->jobs, name, strlen(name), job);
    job_id = job != NULL ? job->id : job_next_id(w->s);
    if ((err = writer_room(w)) != PS_OK || (err = put_restoring(w->s, r->dir, r->job, r->by, false)) != PS_OK ||
        (err = put_job(w, r, job, job_id)) != PS_OK || (err = writer_end(w, PS_OK)) != PS_OK ||
        (err = forget_workers(w, job_id)) != PS_OK)
        return err;
    return put_variables(w, r, job, job_id);
}

enum ps_err
restore_rows_begin(struct shard *s, const struct shard_restore *r, struct ps_error *e)
{
    struct writer w = {.s = s};
    enum ps_err err = writer_end(&w, write_all(&w, r));

    return err == PS_OK ? PS_OK
                        : ps_fail(e, err, "shard %u cannot begin to restore: %s", s->config.shard, ps_strerror(err));
}
