/* Rows are read as they are committed; a checkpoint's answer has the clocks of its variables. */
#include "server/core/durability/save_rows.h"

#include "server/core/shard_state.h"
#include "server/core/turn/save_copy.h"

#define DONE_BYTES_MAX (192 * KIB) /* of the variables in an answer; a frame's metadata holds more */

/* ---- Rows ---- */

struct save_rows_copy {
    struct shard *s;
    struct save_copy *to;
    enum store_table table;
    const struct job *job; /* only its variables, or NULL */
    bool nomem;
};

static bool
save_rows_copy_row(void *arg, struct span key, struct span value)
{
    struct save_rows_copy *c = arg;
    uint32_t id = row_id(key);

    if (c->job != NULL && (id > c->s->variables_len || c->s->variables[id]->job != c->job))
        return true;
    c->nomem = !save_copy_add(c->to, c->table, key, value);
    return !c->nomem;
}

static enum ps_err
save_rows_copy_all(struct shard *s, const struct job *job, struct save_copy *x)
{
    static const enum store_table tables[] = {STORE_VARS, STORE_JOBS, STORE_SESSIONS, STORE_CURSORS};
    enum ps_err err;

    for (size_t i = 0; i < (job != NULL ? 1 : ARRAY_LEN(tables)); i++) {
        struct save_rows_copy c = {.s = s, .to = x, .table = tables[i], .job = job};

        if ((err = s->store->ops->each_row(s->store, c.table, save_rows_copy_row, &c)) != PS_OK || c.nomem)
            return c.nomem ? PS_ERR_NOMEM : err;
    }
    return PS_OK;
}

enum ps_err
save_rows_copy(struct shard *s, const struct job *job, const char *dir, struct shard_save **out)
{
    struct save_copy *x = save_copy_new(job != NULL ? job->name : NULL, dir);
    enum ps_err err;

    if (x == NULL)
        return PS_ERR_NOMEM;
    if ((err = save_rows_copy_all(s, job, x)) != PS_OK) {
        shard_save_free(&x->base);
        return err;
    }
    *out = save_copy_done(x);
    return PS_OK;
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
    size_t bytes = 0;

    arena_reset(&s->arena);
    m.clock = job->slowest;
    m.blocks = s->save.len;
    m.variable = arena_alloc(&s->arena, (HASH_COUNT(job->variables) + 1) * sizeof(Psd__CheckpointVariable *));
    if (m.variable == NULL)
        return NULL;
    for (uint32_t id = 1; id <= s->variables_len; id++)
        if (s->variables[id]->job == job && !add_variable(s, s->variables[id], &m, &bytes))
            break;
    return wire_copy(&m.base);
}
