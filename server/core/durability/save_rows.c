/* Rows of workers are read as they are committed, those of variables made from what is in memory; a checkpoint's answer
 * has the clocks of its variables. */
#include "server/core/durability/save_rows.h"

#include <endian.h>

#include "server/core/shard_state.h"
#include "server/core/turn/save_copy.h"

/* Of an answer, which has as many variables as this: it is made in one event. */
#define DONE_BYTES_MAX     (192 * KIB) /* a frame's metadata holds more */
#define DONE_VARIABLES_MAX 1024
#define DONE_LOOKS_MAX     4096 /* variables and blocks; more only for the last one */

/* ---- Rows ---- */

struct save_rows_copy {
    struct save_copy *to;
    enum store_table table;
    bool nomem;
};

static bool
save_rows_copy_row(void *arg, struct span key, struct span value)
{
    struct save_rows_copy *c = arg;

    c->nomem = !save_copy_add(c->to, c->table, key, value);
    return !c->nomem;
}

static enum ps_err
save_rows_copy_all(struct shard *s, struct save_copy *x)
{
    static const enum store_table tables[] = {STORE_JOBS, STORE_SESSIONS, STORE_CURSORS};
    enum ps_err err;

    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        struct save_rows_copy c = {.to = x, .table = tables[i]};

        if ((err = s->store->ops->each_row(s->store, c.table, save_rows_copy_row, &c)) != PS_OK || c.nomem)
            return c.nomem ? PS_ERR_NOMEM : err;
    }
    return PS_OK;
}

enum ps_err
save_rows_copy(struct shard *s, const struct job *job, const char *dir, struct save_copy **out)
{
    struct save_copy *x = save_copy_new(job != NULL ? job->name : NULL, dir);
    enum ps_err err;

    *out = NULL;
    if (x == NULL)
        return PS_ERR_NOMEM;
    if (job == NULL && (err = save_rows_copy_all(s, x)) != PS_OK) {
        shard_save_free(&x->base);
        return err;
    }
    *out = x;
    return PS_OK;
}

static enum ps_err
save_rows_sink(struct shard *s, enum store_table table, struct span key, struct span value)
{
    return save_copy_add(s->save.copy, table, key, value) ? PS_OK : PS_ERR_NOMEM;
}

enum ps_err
save_rows_add(struct shard *s, const struct variable *v)
{
    const struct save_changed *was = save_changed_find(s, v->id);
    uint32_t key = htobe32(v->id);

    if (was != NULL && was->row.data != NULL)
        return save_rows_sink(s, STORE_VARS, (struct span){&key, sizeof key}, was->row);
    return variable_put_undropped(s, v, save_rows_sink);
}

/* ---- Where a job's variables stand ---- */

/* In sync a block that got no push moves on with the slowest, without being written. */
static void
save_rows_measure(const struct variable *v, Psd__CheckpointVariable *m)
{
    m->version_min = m->clock_min = v->ready > 0 ? UINT64_MAX : 0;
    for (uint64_t i = 0; i < v->ready; i++) {
        const struct block *b = &v->blocks[i];
        uint64_t clock = job_is_sync(v->job) ? clock_of_block(v->job, b, CLOCK_FOR_PULL) : b->clock;

        m->version_min = MIN(m->version_min, b->version);
        m->version_max = MAX(m->version_max, b->version);
        m->clock_min = MIN(m->clock_min, clock);
        m->clock_max = MAX(m->clock_max, clock);
    }
}

static bool
add_variable(struct shard *s, const struct variable *v, Psd__CheckpointDone *m, size_t *bytes)
{
    Psd__CheckpointVariable *x = arena_alloc(&s->arena, sizeof *x);

    if (x == NULL)
        return false;
    s->looks += 1 + v->ready;
    psd__checkpoint_variable__init(x);
    x->name = (char *)v->name;
    save_rows_measure(v, x);
    *bytes += protobuf_c_message_get_packed_size(&x->base) + 8;
    if (*bytes <= DONE_BYTES_MAX)
        m->variable[m->n_variable++] = x;
    return *bytes <= DONE_BYTES_MAX;
}

Psd__CheckpointDone *
save_rows_done(struct shard *s, const struct job *job)
{
    Psd__CheckpointDone m = PSD__CHECKPOINT_DONE__INIT;
    uint64_t looks = s->looks;
    size_t bytes = 0;

    arena_reset(&s->arena);
    m.clock = job->slowest;
    m.blocks = s->save.len;
    if ((m.variable = arena_alloc(&s->arena, DONE_VARIABLES_MAX * sizeof(Psd__CheckpointVariable *))) == NULL)
        return NULL;
    for (const struct variable *v = job->variables; v != NULL && m.n_variable < DONE_VARIABLES_MAX; v = v->hh.next)
        if (s->looks - looks > DONE_LOOKS_MAX || !add_variable(s, v, &m, &bytes))
            break;
    return wire_copy(&m.base);
}
