/* Blocks of a restore: read into memory of our own first, so that a source that fails leaves the turn whole. */
#include <stdlib.h>
#include <string.h>

#include "common/core/format/checkpoint.h"
#include "server/core/durability/restore.h"
#include "server/core/shard_state.h"

bool
restore_find(struct shard *s)
{
    struct restore *r = &s->restore;
    const struct checkpoint *m = r->source->manifest;
    const char *name = restore_job_name(r->source);
    struct job *job;

    HASH_FIND(hh, s->jobs, name, strlen(name), job);
    ps_assert(job != NULL);
    r->variable = 0;
    r->index = 0;
    free(r->ids);
    if ((r->ids = calloc(m->variables_len + 1, sizeof *r->ids)) == NULL)
        return false;
    for (size_t i = 0; i < m->variables_len; i++) {
        const char *variable = m->variables[i].declared->name;
        struct variable *v;

        HASH_FIND(hh, job->variables, variable, strlen(variable), v);
        r->ids[i] = v != NULL ? v->id : 0;
    }
    return true;
}

/* Write the value into its place. */
static enum ps_err
put_block(struct shard *s, struct block_ref *ref)
{
    const struct block_head *head = (const struct block_head *)(const void *)s->restore.value;
    struct variable *v = ref->variable;
    bool is_new = s->restore.index >= v->ready;
    enum ps_err err = is_new ? turn_create(s, ref) : turn_touch(s, ref);

    if (err != PS_OK)
        return err;
    memcpy(ref->place, head, ref->size);
    ref->block->version = head->version;
    ref->block->clock = head->clock;
    if (is_new)
        block_made(s, ref);
    return PS_OK;
}

/* The variable whose next block is to be filled; NULL: there is none. */
static struct variable *
restore_fill_current_variable(struct shard *s)
{
    struct restore *r = &s->restore;
    struct variable *v;

    for (; r->variable < r->source->manifest->variables_len; r->variable++, r->index = 0) {
        v = variable_find(s, r->ids[r->variable]);
        if (v != NULL && r->index < v->count)
            return v;
    }
    return NULL;
}

/* One block. False: not in this turn; *e: it cannot be filled at all. */
static bool
fill_one(struct shard *s, struct variable *v, uint64_t *made, struct ps_error *e)
{
    struct restore *r = &s->restore;
    struct block_ref ref = v->kind->nth(s, v, r->index);
    enum ps_err err;

    switch (turn_room(s, ref.size, &err)) {
    case TURN_WAIT:
        return false;
    case TURN_REFUSED:
        break;
    case TURN_READY:
        if ((err = v->kind->restore(&ref, r->source, r->variable, r->value, e)) == PS_OK)
            err = put_block(s, &ref);
        break;
    }
    if (err != PS_OK && e->code == PS_OK)
        (void)ps_fail(e, err, "shard %u cannot restore block %u of variable '%.64s': %s", s->config.shard, ref.number,
                      v->name, ps_strerror(err));
    *made += ref.size;
    r->index++;
    return true;
}

/* The last block is there, with this turn. */
static bool
end_filling(struct shard *s)
{
    enum ps_err err = PS_OK;

    if (turn_room(s, 2 * STORE_ROW_ROOM, &err) == TURN_WAIT)
        return false;
    if (err == PS_OK) {
        turn_take_rows(s, 2);
        err = restore_rows_filled(s, s->restore.source->boot);
    }
    if (err != PS_OK)
        turn_fail(s, err);
    s->restore.filled = err == PS_OK;
    return true;
}

bool
restore_fill(struct shard *s, struct ps_error *e)
{
    struct variable *v;
    uint64_t made = 0;

    while (e->code == PS_OK && s->turn.failed == PS_OK && made < SHARD_WORK_BYTES) {
        if ((v = restore_fill_current_variable(s)) == NULL)
            return end_filling(s);
        if (!fill_one(s, v, &made, e))
            return made > 0;
    }
    return true;
}
