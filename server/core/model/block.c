/* Blocks: made as the turn has room, looked up by (variable, number), taken from the store on start. */
#include "server/core/model/block.h"

#include <inttypes.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "server/core/shard_state.h"

/* ---- Making ---- */

void
block_want(struct shard *s, struct variable *v)
{
    if (v->working || v->ready == v->count)
        return;
    v->working = true;
    DL_APPEND2(s->work, v, work_prev, work_next);
}

void
block_unwant(struct shard *s, struct variable *v)
{
    if (!v->working)
        return;
    v->working = false;
    DL_DELETE2(s->work, v, work_prev, work_next);
}

static void
block_is_there(struct shard *s, const struct block_ref *ref)
{
    s->data_bytes += ref->size;
    s->blocks++;
    if (ref->variable->dropped)
        return;
    s->promised_bytes -= ref->size;
    ref->variable->job->data_bytes += ref->size;
    ref->variable->job->blocks++;
}

void
block_made(struct shard *s, const struct block_ref *ref)
{
    struct variable *v = ref->variable;

    save_keeps_count(s, v);
    block_is_there(s, ref);
    if (++v->ready < v->count)
        return;
    block_unwant(s, v);
    declare_answer(s, v);
}

bool
block_work(struct shard *s)
{
    uint64_t made = 0;

    for (uint32_t n = 0; s->work != NULL && n < SHARD_WORK_BLOCKS && made < SHARD_WORK_BYTES && s->turn.failed == PS_OK;
         n++) {
        struct variable *v = s->work;
        struct block_ref ref = v->kind->nth(s, v, v->ready);
        enum ps_err err = PS_OK;

        switch (turn_room(s, ref.size, &err)) {
        case TURN_WAIT:
            return made > 0;
        case TURN_REFUSED:
            break;
        case TURN_READY:
            err = turn_create(s, &ref);
            break;
        }
        if (err != PS_OK) {
            block_unwant(s, v);
            declare_refuse(s, v, err);
            made++; /* something was done */
            continue;
        }
        v->kind->fill(&ref);
        made += ref.size;
        block_made(s, &ref);
    }
    return true;
}

/* ---- Looking up ---- */

static void
ref_locate(const struct shard *s, struct variable *v, uint32_t block, struct block_ref *out)
{
    out->variable = v;
    out->block = &v->blocks[placement_index(v->start, block, s->config.shards)];
    out->number = block;
    out->fresh = out->moved = out->asked = out->calm = out->undoable = out->applied = false;
    out->before.value = NULL;
    out->old = out->place = NULL;
}

static void
ref_set(const struct shard *s, struct variable *v, uint32_t block, struct block_ref *out)
{
    ref_locate(s, v, block, out);
    v->kind->cut(out);
}

bool
block_lies_here(const struct shard *s, const struct variable *v, uint64_t number)
{
    return number < v->def->numbers && placement_shard(v->start, number, s->config.shards) == s->config.shard;
}

static enum ps_err
not_found(const struct shard *s, const struct job *job, const struct variable *v, uint32_t var, uint32_t block,
          struct ps_error *e)
{
    uint32_t shard = s->config.shard;

    if (v == NULL && var > 0 && var < s->variables.next)
        return ps_fail(e, PS_ERR_DROPPED, "variable %u of shard %u was dropped: declare it again", var, shard);
    if (v == NULL || v->job != job)
        return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no variable %u in job '%.64s': declare it first", shard,
                       var, job->name);
    if (block >= v->def->numbers)
        return ps_fail(e, PS_ERR_NOT_FOUND, "variable '%.64s' has %" PRIu64 " blocks, there is no block %u", v->name,
                       v->def->numbers, block);
    if (placement_shard(v->start, block, s->config.shards) != shard)
        return ps_fail(e, PS_ERR_NOT_FOUND, "block %u of variable '%.64s' lies on shard %u, not on %u", block, v->name,
                       placement_shard(v->start, block, s->config.shards), shard);
    if (v->ready == v->count)
        return ps_fail(e, PS_ERR_NOT_FOUND, "variable '%.64s' has no values on shard %u: no worker has given its first",
                       v->name, shard);
    return ps_fail(e, PS_ERR_NOT_FOUND,
                   "variable '%.64s' is still initializing on shard %u: %" PRIu64 " of %" PRIu64 " blocks", v->name,
                   shard, v->ready, v->count);
}

enum ps_err
block_find_made(struct shard *s, const struct job *job, uint32_t var, uint32_t block, struct block_ref *out,
                struct ps_error *e)
{
    struct variable *v = variable_find(s, var);

    if (v == NULL || v->job != job || v->ready != v->count || !block_lies_here(s, v, block))
        return not_found(s, job, v, var, block, e);
    ref_set(s, v, block, out);
    return PS_OK;
}

enum ps_err
block_find(struct shard *s, const struct job *job, uint32_t var, uint32_t block, struct block_ref *out,
           struct ps_error *e)
{
    enum ps_err err = block_find_made(s, job, var, block, out, e);

    return err == PS_OK && out->variable->awaits ? not_found(s, job, out->variable, var, block, e) : err;
}

static struct variable *
variable_of(const struct shard *s, uint32_t var, uint32_t block)
{
    struct variable *v = variable_table_get(&s->variables, var);

    ps_assert(v != NULL && block < v->def->numbers);
    return v;
}

void
block_refind(const struct shard *s, uint32_t var, uint32_t block, struct block_ref *out)
{
    ref_set(s, variable_of(s, var, block), block, out);
}

void
block_locate(const struct shard *s, uint32_t var, uint32_t block, struct block_ref *out)
{
    ref_locate(s, variable_of(s, var, block), block, out);
}

/* ---- Loading ---- */

static void
load_first(struct shard *s, const struct block_ref *ref)
{
    ref->block->loaded = true;
    ref->variable->ready++;
    block_is_there(s, ref);
}

static void
load_head(struct block *b, const struct block_head *head, uint8_t generation)
{
    b->version = head->version;
    b->clock = head->clock;
    b->generation = generation;
    b->given = head->given;
    b->assign = head->assign;
}

/* A value under the other key, too: one of them was left behind for a save. */
static void
load_second(struct shard *s, const struct block_ref *ref, const struct block_head *head, uint8_t generation)
{
    struct block *b = ref->block;

    if ((head->version > b->version || (head->version == b->version && head->clock > b->clock)) !=
        MUTATION(LEFT_BEHIND_WINS))
        load_head(b, head, generation);
    save_left(s, ref, 1);
}

void
block_take(struct shard *s, const struct block_ref *ref, const struct block_head *head, uint8_t generation)
{
    if (ref->block->loaded) {
        load_second(s, ref, head, generation);
    } else {
        load_first(s, ref);
        load_head(ref->block, head, generation);
    }
}

bool
block_load(void *arg, const struct store_key *key, struct span value)
{
    struct row_load *l = arg;
    struct shard *s = l->s;
    struct variable *v = variable_table_get(&s->variables, key->var);

    if (key->generation >= STORE_GENERATION_REDO)
        return false; /* the redo log lies behind the last block */
    if (v == NULL || !v->kind->load(s, v, key, value))
        return row_load_stop(l, PS_ERR_IO, "a block of variable", key->var);
    return true;
}
