/* Jobs, variables and blocks in heap memory, and their rows in the store.
 *
 * Declare: check the name, check that the store and the gather budget have room, make the variable, mark its row; its
 * blocks follow in catalog_work(). What is promised to declared variables counts as taken, so that two declares cannot
 * both get the last room. */
#include "catalog.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/placement.h"
#include "shard_state.h"

/* Kept free when variables are declared: an eighth of the store, which it keeps itself, what a turn needs, and some for
 * rows and trees. */
static uint64_t
headroom(uint64_t max_bytes)
{
    return max_bytes / 8 + STORE_ROOM_TURN + 4 * MIB;
}

/* A protobuf message into memory of its own. */
static void *
message_copy(const ProtobufCMessage *m)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(MAX(len, 1));
    void *copy = NULL;

    if (bytes != NULL) {
        protobuf_c_message_pack(m, bytes);
        copy = protobuf_c_message_unpack(m->descriptor, NULL, len, bytes);
    }
    free(bytes);
    return copy;
}

/* ---- Jobs ---- */

static void
job_free(struct shard *s, struct job *job)
{
    if (job == NULL)
        return;
    pull_end_job(s, job, PS_OK, NULL);
    gather_free_all(s, job);
    barrier_free_all(s, job);
    for (uint32_t i = 0; job->sessions != NULL && i < job->options->workers; i++)
        session_free(s, job->sessions[i]);
    free(job->sessions);
    psd__job__free_unpacked(job->options, NULL);
    free(job);
}

static struct job *
job_new(const Psd__Job *options, uint32_t id)
{
    struct job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->id = id;
    if ((job->options = message_copy(&options->base)) == NULL)
        goto fail;
    job->name = job->options->name;
    job->age = wire_age(job->options->age);
    job->live_min = UINT64_MAX;
    if ((job->sessions = calloc(job->options->workers, sizeof(struct session *))) == NULL)
        goto fail;
    return job;
fail:
    if (job->options != NULL)
        psd__job__free_unpacked(job->options, NULL);
    free(job);
    return NULL;
}

static void
job_add(struct shard *s, struct job *job)
{
    HASH_ADD_KEYPTR(hh, s->jobs, job->name, strlen(job->name), job);
    s->jobs_by_id[job->id] = job;
    s->jobs_len = MAX(s->jobs_len, job->id);
}

static enum ps_err
job_mismatch(const struct job *job, const Psd__Job *options, struct ps_error *e)
{
    char ours[PS_ERROR_TEXT_MAX / 2 - 64], theirs[sizeof ours];

    wire_job_describe(job->options, ours, sizeof ours);
    wire_job_describe(options, theirs, sizeof theirs);
    return ps_fail(e, PS_ERR_MISMATCH, "job '%.64s' runs as %s, but was asked for as %s", job->name, ours, theirs);
}

enum ps_err
catalog_job(struct shard *s, const Psd__Job *options, struct job **out, struct ps_error *e)
{
    struct job *job;

    HASH_FIND(hh, s->jobs, options->name, strlen(options->name), job);
    if (job != NULL) {
        *out = job;
        return wire_job_equal(job->options, options) ? PS_OK : job_mismatch(job, options, e);
    }
    if (s->jobs_len >= SHARD_JOBS_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "no room for job '%.64s': the cluster has %d jobs", options->name,
                       SHARD_JOBS_MAX);
    if ((job = job_new(options, s->jobs_len + 1)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "shard %u has no memory for job '%.64s'", s->config.shard, options->name);
    job_add(s, job);
    turn_mark_job(s, job);
    actions_log(s, SHARD_LOG_INFO, "job created job=%s id=%u workers=%u", job->name, job->id, options->workers);
    *out = job;
    return PS_OK;
}

/* ---- Variables ---- */

static void
waiters_free(struct variable *v)
{
    struct declare_waiter *w, *next;

    DL_FOREACH_SAFE (v->waiters, w, next)
        free(w);
}

static void
variable_free(struct variable *v)
{
    if (v == NULL)
        return;
    waiters_free(v);
    if (v->declare != NULL)
        psd__declare__free_unpacked(v->declare, NULL);
    free(v->path);
    free(v->blocks);
    free(v);
}

/* Blocks of a class that lie on this shard. */
static uint64_t
class_count(const struct variable *v, int size_class, uint32_t shard, uint32_t shards)
{
    uint64_t first = 0;

    for (int c = LAYOUT_CLASSES - 1; c > size_class; c--)
        first += v->layout.count[c];
    return placement_count(v->start, first + v->layout.count[size_class], shard, shards) -
           placement_count(v->start, first, shard, shards);
}

static void
variable_measure(struct variable *v, uint32_t shard, uint32_t shards)
{
    uint64_t elements;
    enum ps_err err = wire_elements(v->declare->dims, v->declare->n_dims, &elements);

    ps_assert(err == PS_OK);
    layout_init(&v->layout, elements, optimizer_row((int)v->optimizer.kind)->slots);
    v->start = placement_start(v->job->name, v->name, shards);
    v->count = placement_count(v->start, v->layout.blocks, shard, shards);
    for (int c = 0; c < LAYOUT_CLASSES; c++)
        v->bytes += class_count(v, c, shard, shards) * layout_value_size(c);
    v->gather_bytes = job_is_sync(v->job) ? gather_budget(v->job, v, shard, shards) : 0;
}

/* Without its blocks: these may be too many to have room for. */
static struct variable *
variable_new(struct shard *s, struct job *job, const Psd__Declare *declare, uint32_t id)
{
    struct variable *v = calloc(1, sizeof *v);
    size_t path_size = strlen(job->name) + 1 + strlen(declare->name) + 1;

    if (v == NULL)
        return NULL;
    v->id = id;
    v->job = job;
    v->declare = message_copy(&declare->base);
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
    variable_measure(v, s->config.shard, s->config.shards);
    return v;
}

static bool
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

static void
work_on(struct shard *s, struct variable *v)
{
    if (v->working || v->ready == v->count)
        return;
    v->working = true;
    DL_APPEND2(s->work, v, work_prev, work_next);
}

static void
work_off(struct shard *s, struct variable *v)
{
    if (!v->working)
        return;
    v->working = false;
    DL_DELETE2(s->work, v, work_prev, work_next);
}

/* Takes v, also when it fails. */
static bool
variable_add(struct shard *s, struct variable *v)
{
    v->blocks = calloc(MAX(v->count, 1), sizeof *v->blocks);
    if (v->blocks == NULL || !variables_grow(s, v->id)) {
        variable_free(v);
        return false;
    }
    HASH_ADD_KEYPTR(hh, v->job->variables, v->name, strlen(v->name), v);
    s->variables[v->id] = v;
    s->variables_len = MAX(s->variables_len, v->id);
    s->promised_bytes += v->bytes;
    s->gather_bytes += v->gather_bytes;
    s->pool.kept_max = s->gather_bytes + 16 * MIB;
    return true;
}

/* ---- Declaring ---- */

static enum ps_err
check_room(struct shard *s, const struct variable *v, struct ps_error *e)
{
    struct store_usage usage;
    uint64_t taken;

    s->store->ops->usage(s->store, &usage);
    taken = usage.used_bytes + s->promised_bytes;
    if (v->layout.blocks > UINT32_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "variable '%.64s' has %" PRIu64 " blocks, the limit is %u", v->name,
                       v->layout.blocks, UINT32_MAX);
    if (taken + v->bytes + headroom(usage.max_bytes) > usage.max_bytes)
        return ps_fail(e, PS_ERR_FULL,
                       "variable '%.64s' needs %" PRIu64 " bytes on shard %u, which uses %" PRIu64 " of %" PRIu64
                       " and keeps %" PRIu64 " free",
                       v->name, v->bytes, s->config.shard, taken, usage.max_bytes, headroom(usage.max_bytes));
    if (s->gather_bytes + v->gather_bytes > s->config.gather_bytes_max)
        return ps_fail(e, PS_ERR_LIMIT,
                       "variable '%.64s' needs %" PRIu64 " bytes for gradients that wait on shard %u, where %" PRIu64
                       " of %" PRIu64 " are set aside",
                       v->name, v->gather_bytes, s->config.shard, s->gather_bytes, s->config.gather_bytes_max);
    return PS_OK;
}

static enum ps_err
variable_create(struct shard *s, struct job *job, const Psd__Declare *declare, struct variable **out,
                struct ps_error *e)
{
    struct variable *v;
    enum ps_err err;

    if (s->variables_len >= SHARD_VARIABLES_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "no room for variable '%.64s': shard %u has %u", declare->name, s->config.shard,
                       SHARD_VARIABLES_MAX);
    if ((v = variable_new(s, job, declare, s->variables_len + 1)) == NULL)
        goto nomem;
    if ((err = check_room(s, v, e)) != PS_OK) {
        variable_free(v);
        return err;
    }
    if (!variable_add(s, v))
        goto nomem;
    turn_mark_variable(s, v);
    actions_log(s, SHARD_LOG_INFO, "variable declared job=%s variable=%s id=%u blocks=%" PRIu64 " bytes=%" PRIu64,
                job->name, v->name, v->id, v->count, v->bytes);
    *out = v;
    return PS_OK;
nomem:
    return ps_fail(e, PS_ERR_NOMEM, "shard %u has no memory for variable '%.64s'", s->config.shard, declare->name);
}

static enum ps_err
variable_mismatch(const struct variable *v, const Psd__Declare *declare, struct ps_error *e)
{
    char ours[PS_ERROR_TEXT_MAX / 2 - 32], theirs[sizeof ours];

    wire_describe(v->declare, ours, sizeof ours);
    wire_describe(declare, theirs, sizeof theirs);
    return ps_fail(e, PS_ERR_MISMATCH, "declared before as %s, now as %s", ours, theirs);
}

static void
send_declared(struct shard *s, struct connection *c, uint64_t request, const struct variable *v, bool created)
{
    Psd__Declared m = PSD__DECLARED__INIT;

    m.var = v->id;
    m.created = created;
    actions_send(s, c, MSG_DECLARED, request, &m.base);
}

static void
wait_for_blocks(struct shard *s, struct variable *v, struct connection *c, uint64_t request, bool created)
{
    struct declare_waiter *w;

    work_on(s, v);
    if (c->declares_len >= SHARD_PARKED_MAX) {
        actions_error(s, c, request, PS_ERR_LIMIT, "too many declares wait on this connection");
        return;
    }
    if ((w = malloc(sizeof *w)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    *w = (struct declare_waiter){.connection = c, .request = request, .created = created};
    DL_APPEND(v->waiters, w);
    c->declares_len++;
}

void
catalog_declare(struct shard *s, struct connection *c, uint64_t request, const Psd__Declare *declare)
{
    struct job *job = c->session->job;
    struct ps_error e = {0};
    struct variable *v;
    enum ps_err err = PS_OK;
    bool created = false;

    HASH_FIND(hh, job->variables, declare->name, strlen(declare->name), v);
    if (v == NULL) {
        created = true;
        err = variable_create(s, job, declare, &v, &e);
    } else if (!wire_declare_equal(v->declare, declare)) {
        err = variable_mismatch(v, declare, &e);
    }
    if (err != PS_OK)
        actions_error(s, c, request, err, e.text);
    else if (v->ready == v->count)
        send_declared(s, c, request, v, created);
    else
        wait_for_blocks(s, v, c, request, created);
}

static void
waiter_end(struct variable *v, struct declare_waiter *w)
{
    DL_DELETE(v->waiters, w);
    w->connection->declares_len--;
    free(w);
}

bool
catalog_forget_waiters(struct shard *s, struct connection *c, uint64_t request, enum ps_err answer)
{
    bool found = false;

    if (c->declares_len == 0)
        return false;
    for (uint32_t id = 1; id <= s->variables_len; id++) {
        struct variable *v = s->variables[id];
        struct declare_waiter *w, *next;

        DL_FOREACH_SAFE (v->waiters, w, next) {
            if (w->connection != c || (request != 0 && w->request != request))
                continue;
            found = true;
            if (answer != PS_OK)
                actions_error(s, c, w->request, answer, ps_strerror(answer));
            waiter_end(v, w);
        }
    }
    return found;
}

/* ---- Making blocks ---- */

static struct optimizer_arrays
arrays_of(uint8_t *value, const struct layout_block *cut, uint32_t slots)
{
    struct optimizer_arrays a = {.weights = (float *)(value + layout_array(cut->stride, 0))};

    for (uint32_t i = 0; i < slots; i++)
        a.slot[i] = (float *)(value + layout_array(cut->stride, i + 1));
    return a;
}

static void
block_fill(struct shard *s, const struct block_ref *ref)
{
    struct variable *v = ref->variable;
    struct optimizer_arrays arrays = arrays_of(ref->place, &ref->cut, v->layout.slots);
    struct block_head head = {.clock = job_is_sync(v->job) ? v->job->slowest : 0,
                              .var = v->id,
                              .block = ref->number,
                              .len = ref->cut.len,
                              .slots = (uint16_t)v->layout.slots,
                              .format = LAYOUT_FORMAT};

    memset(ref->place, 0, block_size(ref)); /* what lies after the arrays is the same in every copy of the block */
    memcpy(ref->place, &head, sizeof head);
    initializer_fill(&v->initializer, v->declare->dims, v->declare->n_dims, ref->cut.first, ref->cut.len,
                     arrays.weights);
    optimizer_start(&v->optimizer, ref->cut.len, &arrays);
    ref->block->version = 0;
    ref->block->clock = head.clock;
    s->data_bytes += block_size(ref);
    s->promised_bytes -= block_size(ref);
    s->blocks++;
}

static void
variable_ready(struct shard *s, struct variable *v)
{
    struct declare_waiter *w, *next;

    work_off(s, v);
    DL_FOREACH_SAFE (v->waiters, w, next) {
        send_declared(s, w->connection, w->request, v, w->created);
        waiter_end(v, w);
    }
}

static void
variable_refused(struct shard *s, struct variable *v, enum ps_err err)
{
    struct declare_waiter *w, *next;
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "shard %u could make %" PRIu64 " of %" PRIu64 " blocks of variable '%.64s': %s",
             s->config.shard, v->ready, v->count, v->name, ps_strerror(err));
    actions_log(s, SHARD_LOG_ERROR, "%s", text);
    work_off(s, v);
    DL_FOREACH_SAFE (v->waiters, w, next) {
        actions_error(s, w->connection, w->request, err, text);
        waiter_end(v, w);
    }
}

static void
next_block(struct shard *s, struct variable *v, struct block_ref *ref)
{
    uint64_t number = placement_nth(v->start, s->config.shard, s->config.shards, v->ready);

    *ref = (struct block_ref){.variable = v,
                              .block = &v->blocks[v->ready],
                              .number = (uint32_t)number,
                              .cut = layout_block(&v->layout, number)};
}

bool
catalog_work(struct shard *s)
{
    uint64_t made = 0;

    while (s->work != NULL && made < SHARD_WORK_BYTES && s->turn.failed == PS_OK) {
        struct variable *v = s->work;
        struct block_ref ref;
        enum ps_err err = PS_OK;

        next_block(s, v, &ref);
        switch (turn_room(s, block_size(&ref), &err)) {
        case TURN_WAIT:
            return made > 0;
        case TURN_REFUSED:
            break;
        case TURN_READY:
            err = turn_create(s, &ref);
            break;
        }
        if (err != PS_OK) {
            variable_refused(s, v, err);
            made++; /* something was done */
            continue;
        }
        block_fill(s, &ref);
        made += block_size(&ref);
        if (++v->ready == v->count)
            variable_ready(s, v);
    }
    return true;
}

/* ---- Looking up ---- */

static void
ref_set(const struct shard *s, struct variable *v, uint32_t block, struct block_ref *out)
{
    out->variable = v;
    out->block = &v->blocks[placement_index(v->start, block, s->config.shards)];
    out->number = block;
    out->fresh = false;
    out->cut = layout_block(&v->layout, block);
    out->old = out->place = NULL;
}

static enum ps_err
not_found(const struct shard *s, const struct job *job, const struct variable *v, uint32_t var, uint32_t block,
          struct ps_error *e)
{
    uint32_t shard = s->config.shard;

    if (v == NULL || v->job != job)
        return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no variable %u in job '%.64s': declare it first", shard,
                       var, job->name);
    if (block >= v->layout.blocks)
        return ps_fail(e, PS_ERR_NOT_FOUND, "variable '%.64s' has %" PRIu64 " blocks, there is no block %u", v->name,
                       v->layout.blocks, block);
    if (placement_shard(v->start, block, s->config.shards) != shard)
        return ps_fail(e, PS_ERR_NOT_FOUND, "block %u of variable '%.64s' lies on shard %u, not on %u", block, v->name,
                       placement_shard(v->start, block, s->config.shards), shard);
    return ps_fail(e, PS_ERR_NOT_FOUND,
                   "variable '%.64s' is still initializing on shard %u: %" PRIu64 " of %" PRIu64 " blocks", v->name,
                   shard, v->ready, v->count);
}

enum ps_err
catalog_find(struct shard *s, const struct job *job, uint32_t var, uint32_t block, struct block_ref *out,
             struct ps_error *e)
{
    struct variable *v = var <= s->variables_len && var > 0 ? s->variables[var] : NULL;

    if (v == NULL || v->job != job || block >= v->layout.blocks || v->ready != v->count ||
        placement_shard(v->start, block, s->config.shards) != s->config.shard)
        return not_found(s, job, v, var, block, e);
    ref_set(s, v, block, out);
    return PS_OK;
}

void
catalog_refind(struct shard *s, uint32_t var, uint32_t block, struct block_ref *out)
{
    ps_assert(var > 0 && var <= s->variables_len && block < s->variables[var]->layout.blocks);
    ref_set(s, s->variables[var], block, out);
}

/* ---- Rows ---- */

static enum ps_err
put_row(struct shard *s, enum store_table table, uint32_t id, const ProtobufCMessage *m)
{
    uint8_t bytes[8 * KIB];
    uint32_t key = htobe32(id);
    size_t len = protobuf_c_message_get_packed_size(m);

    ps_assert(len <= sizeof bytes);
    protobuf_c_message_pack(m, bytes);
    return s->store->ops->row_put(s->store, table, (struct span){&key, sizeof key}, (struct span){bytes, len});
}

enum ps_err
catalog_put_job(struct shard *s, const struct job *job)
{
    Psd__JobRow row = PSD__JOB_ROW__INIT;

    row.id = job->id;
    row.options = job->options;
    row.slowest = job->slowest;
    return put_row(s, STORE_JOBS, job->id, &row.base);
}

enum ps_err
catalog_put_variable(struct shard *s, const struct variable *v)
{
    Psd__VariableRow row = PSD__VARIABLE_ROW__INIT;

    row.job = v->job->id;
    row.declare = v->declare;
    return put_row(s, STORE_VARS, v->id, &row.base);
}

/* ---- Loading ---- */

struct load {
    struct shard *s;
    struct ps_error *e;
    enum ps_err err;
};

static bool
load_stop(struct load *l, enum ps_err err, const char *what, uint32_t id)
{
    l->err = ps_fail(l->e, err, err == PS_ERR_NOMEM ? "no memory to load %s %u" : "the store's row of %s %u is damaged",
                     what, id);
    return false;
}

static uint32_t
key_id(struct span key)
{
    uint32_t id = 0;

    if (key.len == sizeof id)
        memcpy(&id, key.data, sizeof id);
    return be32toh(id);
}

static bool
load_job(void *arg, struct span key, struct span value)
{
    struct load *l = arg;
    uint32_t id = key_id(key);
    Psd__JobRow *row = psd__job_row__unpack(NULL, value.len, value.data);
    struct job *job = NULL;
    bool ok = row != NULL && row->id == id && id >= 1 && id <= SHARD_JOBS_MAX && row->options != NULL &&
              row->options->age != NULL && row->options->workers >= 1 && row->options->workers <= WIRE_WORKERS_MAX &&
              l->s->jobs_by_id[id] == NULL;

    if (ok && (job = job_new(row->options, id)) != NULL) {
        job->slowest = row->slowest;
        job_add(l->s, job);
    }
    if (row != NULL)
        psd__job_row__free_unpacked(row, NULL);
    if (job == NULL)
        return load_stop(l, ok ? PS_ERR_NOMEM : PS_ERR_IO, "job", id);
    return true;
}

/* What was checked when it was declared is checked again. */
static bool
declare_ok(const Psd__Declare *d)
{
    struct ps_error e;
    struct optimizer optimizer;
    struct initializer initializer;
    uint64_t elements;

    if (d == NULL || d->optimizer == NULL || d->init == NULL || wire_elements(d->dims, d->n_dims, &elements) != PS_OK)
        return false;
    optimizer = wire_optimizer(d->optimizer);
    initializer = wire_initializer(d->init);
    return optimizer_row((int)optimizer.kind) != NULL && optimizer_check(&optimizer, &e) == PS_OK &&
           initializer_check(&initializer, &e) == PS_OK;
}

static bool
load_variable(void *arg, struct span key, struct span value)
{
    struct load *l = arg;
    struct shard *s = l->s;
    uint32_t id = key_id(key);
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);
    struct variable *v = NULL;
    bool ok = row != NULL && id == s->variables_len + 1 && row->job >= 1 && row->job <= s->jobs_len &&
              s->jobs_by_id[row->job] != NULL && declare_ok(row->declare);

    if (ok && (v = variable_new(s, s->jobs_by_id[row->job], row->declare, id)) != NULL && !variable_add(s, v))
        v = NULL;
    if (row != NULL)
        psd__variable_row__free_unpacked(row, NULL);
    if (v == NULL)
        return load_stop(l, ok ? PS_ERR_NOMEM : PS_ERR_IO, "variable", id);
    return true;
}

/* Blocks come in rising order, as they were made: what is there is a prefix of what is declared. */
static bool
load_block(void *arg, const struct store_key *key, struct span value)
{
    struct load *l = arg;
    struct shard *s = l->s;
    struct variable *v = key->var >= 1 && key->var <= s->variables_len ? s->variables[key->var] : NULL;
    const struct block_head *head = value.data;
    struct block_ref ref;

    if (v == NULL || v->ready == v->count)
        return load_stop(l, PS_ERR_IO, "a block of variable", key->var);
    next_block(s, v, &ref);
    if (ref.number != key->block || value.len != block_size(&ref) || head->var != key->var ||
        head->block != key->block || head->len != ref.cut.len || head->format != LAYOUT_FORMAT)
        return load_stop(l, PS_ERR_IO, "a block of variable", key->var);
    ref.block->version = head->version;
    ref.block->clock = head->clock;
    v->ready++;
    s->data_bytes += block_size(&ref);
    s->promised_bytes -= block_size(&ref);
    s->blocks++;
    return true;
}

enum ps_err
catalog_load(struct shard *s, struct ps_error *e)
{
    struct load l = {.s = s, .e = e};
    enum ps_err err;

    if (s->jobs_by_id == NULL && (s->jobs_by_id = calloc(SHARD_JOBS_MAX + 1, sizeof(struct job *))) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for jobs");
    if (!variables_grow(s, 0))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for variables");
    if ((err = s->store->ops->each_row(s->store, STORE_JOBS, load_job, &l)) != PS_OK || l.err != PS_OK)
        goto out;
    err = s->store->ops->each_row(s->store, STORE_VARS, load_variable, &l);
out:
    if (l.err != PS_OK)
        return l.err;
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
}

enum ps_err
catalog_load_blocks(struct shard *s, struct ps_error *e)
{
    struct load l = {.s = s, .e = e};
    enum ps_err err = s->store->ops->each_block(s->store, load_block, &l);

    if (l.err != PS_OK)
        return l.err;
    if (err != PS_OK)
        return ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
    for (uint32_t id = 1; id <= s->variables_len; id++)
        work_on(s, s->variables[id]);
    return PS_OK;
}

void
catalog_free(struct shard *s)
{
    struct job *job, *next;

    HASH_ITER (hh, s->jobs, job, next) {
        struct variable *v, *next_variable;

        HASH_ITER (hh, job->variables, v, next_variable)
            HASH_DEL(job->variables, v);
        HASH_DEL(s->jobs, job);
        job_free(s, job);
    }
    for (uint32_t id = 1; id <= s->variables_len; id++)
        variable_free(s->variables[id]);
    free(s->variables);
    free(s->jobs_by_id);
    s->variables = NULL;
    s->jobs_by_id = NULL;
    s->variables_len = s->variables_size = s->jobs_len = 0;
    s->work = NULL;
    s->data_bytes = s->promised_bytes = s->blocks = s->gather_bytes = s->sessions_len = s->barriers_len = 0;
}
