/* Rows are gathered in one buffer that grows; their spans are found when it has come to rest. */
#include "server/core/durability/save_rows.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/shard/shard_state.h"

#define DONE_BYTES_MAX (192 * KIB) /* of the variables in an answer; a frame's metadata holds more */

/* ---- Rows ---- */

struct saved {
    struct shard_save base; /* what is handed out */
    struct shard_save_row *rows;
    size_t rows_size;
    uint8_t *bytes;
    size_t bytes_len, bytes_size;
    char *dir, *job;
};

void
shard_save_free(struct shard_save *save)
{
    struct saved *x = save != NULL ? CONTAINER_OF(save, struct saved, base) : NULL;

    if (x == NULL)
        return;
    free(x->rows);
    free(x->bytes);
    free(x->dir);
    free(x->job);
    free(x);
}

struct copy {
    struct shard *s;
    struct saved *to;
    enum store_table table;
    const struct job *job; /* only its variables, or NULL */
    bool nomem;
};

static bool
make_room(void **array, size_t *size, size_t wanted, size_t item)
{
    size_t bigger = MAX(*size, 64u);
    void *moved;

    if (wanted <= *size)
        return true;
    while (bigger < wanted)
        bigger *= 2;
    if ((moved = realloc(*array, bigger * item)) == NULL)
        return false;
    *array = moved;
    *size = bigger;
    return true;
}

static void
append(struct saved *x, struct span bytes)
{
    if (bytes.len > 0)
        memcpy(x->bytes + x->bytes_len, bytes.data, bytes.len);
    x->bytes_len += bytes.len;
}

static bool
copy_row(void *arg, struct span key, struct span value)
{
    struct copy *c = arg;
    struct saved *x = c->to;
    uint32_t id = row_id(key);

    if (c->job != NULL && (id > c->s->variables_len || c->s->variables[id]->job != c->job))
        return true;
    if (!make_room((void **)&x->rows, &x->rows_size, x->base.rows_len + 1, sizeof *x->rows) ||
        !make_room((void **)&x->bytes, &x->bytes_size, x->bytes_len + key.len + value.len, 1)) {
        c->nomem = true;
        return false;
    }
    x->rows[x->base.rows_len++] =
        (struct shard_save_row){.table = c->table, .key = {.len = key.len}, .value = {.len = value.len}};
    append(x, key);
    append(x, value);
    return true;
}

static void
find_spans(struct saved *x)
{
    const uint8_t *at = x->bytes;

    for (size_t i = 0; i < x->base.rows_len; i++) {
        x->rows[i].key.data = at;
        x->rows[i].value.data = at + x->rows[i].key.len;
        at += x->rows[i].key.len + x->rows[i].value.len;
    }
    x->base.rows = x->rows;
}

static enum ps_err
copy_rows(struct shard *s, const struct job *job, struct saved *x)
{
    static const enum store_table tables[] = {STORE_VARS, STORE_JOBS, STORE_SESSIONS, STORE_CURSORS};
    enum ps_err err;

    for (size_t i = 0; i < (job != NULL ? 1 : ARRAY_LEN(tables)); i++) {
        struct copy c = {.s = s, .to = x, .table = tables[i], .job = job};

        if ((err = s->store->ops->each_row(s->store, c.table, copy_row, &c)) != PS_OK || c.nomem)
            return c.nomem ? PS_ERR_NOMEM : err;
    }
    find_spans(x);
    return PS_OK;
}

enum ps_err
save_rows_copy(struct shard *s, const struct job *job, const char *dir, struct shard_save **out)
{
    struct saved *x = calloc(1, sizeof *x);
    enum ps_err err = PS_ERR_NOMEM;

    if (x == NULL)
        return err;
    if (job != NULL) {
        x->base.job = x->job = strdup(job->name);
        x->base.checkpoint = x->dir = strdup(dir);
    }
    if ((job != NULL && (x->job == NULL || x->dir == NULL)) || (err = copy_rows(s, job, x)) != PS_OK) {
        shard_save_free(&x->base);
        return err;
    }
    *out = &x->base;
    return PS_OK;
}

/* ---- Where a job's variables stand ---- */

/* In sync a block that nobody pushed to moves on with the slowest, without being written. */
static void
measure(const struct variable *v, Psd__CheckpointVariable *m)
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
    measure(v, x);
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
