/* Blocks of a restore: read into memory of our own first, so that a source that fails leaves the turn whole. */
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/format/checkpoint.h"
#include "server/core/durability/restore.h"
#include "server/core/shard/shard_state.h"

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

/* Read a block into r->value. */
static enum ps_err
read_block(struct shard *s, const struct block_ref *ref, struct block_head *head, struct ps_error *e)
{
    struct restore *r = &s->restore;
    struct variable *v = ref->variable;
    enum ps_err err;

    *head = (struct block_head){.var = v->id,
                                .block = ref->number,
                                .len = ref->cut.len,
                                .slots = (uint16_t)v->layout.slots,
                                .format = LAYOUT_FORMAT};
    if ((err = r->source->counts(r->source, r->variable, ref->number, &head->version, &head->clock, e)) != PS_OK)
        return err;
    memset(r->value, 0, block_size(ref));
    memcpy(r->value, head, sizeof *head);
    for (uint32_t i = 0; err == PS_OK && i <= v->layout.slots; i++)
        err = r->source->elements(r->source, r->variable, i, ref->cut.first, ref->cut.len,
                                  (float *)(void *)(r->value + layout_array(ref->cut.stride, i)), e);
    return err;
}

static struct block_ref
next_block(const struct shard *s, struct variable *v, uint64_t index)
{
    uint64_t number = placement_nth(v->start, s->config.shard, s->config.shards, index);

    return (struct block_ref){
        .variable = v, .block = &v->blocks[index], .number = (uint32_t)number, .cut = layout_block(&v->layout, number)};
}

/* The place is there: in it goes. */
static enum ps_err
put_block(struct shard *s, struct block_ref *ref, const struct block_head *head)
{
    struct variable *v = ref->variable;
    bool is_new = s->restore.index >= v->ready;
    enum ps_err err = is_new ? turn_create(s, ref) : turn_touch(s, ref);

    if (err != PS_OK)
        return err;
    memcpy(ref->place, s->restore.value, block_size(ref));
    ref->block->version = head->version;
    ref->block->clock = head->clock;
    if (is_new)
        block_made(s, ref);
    return PS_OK;
}

/* The variable whose next block is to be filled; NULL: there is none. */
static struct variable *
current(struct shard *s)
{
    struct restore *r = &s->restore;
    struct variable *v;

    for (; r->variable < r->source->manifest->variables_len; r->variable++, r->index = 0) {
        v = r->ids[r->variable] != 0 ? s->variables[r->ids[r->variable]] : NULL;
        if (v != NULL && r->index < v->count)
            return v;
    }
    return NULL;
}

/* One block. False: not in this turn. */
static bool
fill_one(struct shard *s, struct variable *v, uint64_t *made)
{
    struct block_ref ref = next_block(s, v, s->restore.index);
    struct block_head head;
    struct ps_error e = {0};
    enum ps_err err;

    switch (turn_room(s, block_size(&ref), &err)) {
    case TURN_WAIT:
        return false;
    case TURN_REFUSED:
        break;
    case TURN_READY:
        if ((err = read_block(s, &ref, &head, &e)) == PS_OK)
            err = put_block(s, &ref, &head);
        break;
    }
    if (err != PS_OK) {
        if (e.code == PS_OK)
            (void)ps_fail(&e, err, "shard %u cannot restore block %u of variable '%.64s': %s", s->config.shard,
                          ref.number, v->name, ps_strerror(err));
        restore_stop(s, &e);
    }
    *made += block_size(&ref);
    s->restore.index++;
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
restore_fill(struct shard *s)
{
    struct variable *v;
    uint64_t made = 0;

    while (s->restore.state == RESTORE_FILLING && s->turn.failed == PS_OK && made < SHARD_WORK_BYTES) {
        if ((v = current(s)) == NULL)
            return end_filling(s);
        if (!fill_one(s, v, &made))
            return made > 0;
    }
    return true;
}
