/* Blocks: made as the turn has room, looked up by (variable, number), taken from the store on start. */
#include "server/core/model/block.h"

#include <inttypes.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "server/core/shard/shard_state.h"

/* ---- Making ---- */

void
block_want(struct shard *s, struct variable *v)
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

static struct optimizer_arrays
arrays_of(uint8_t *value, const struct layout_block *cut, uint32_t slots)
{
    struct optimizer_arrays a = {.weights = (float *)(value + layout_array(cut->stride, 0))};

    for (uint32_t i = 0; i < slots; i++)
        a.slot[i] = (float *)(value + layout_array(cut->stride, i + 1));
    return a;
}

static void
block_fill(const struct block_ref *ref)
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
}

void
block_made(struct shard *s, const struct block_ref *ref)
{
    struct variable *v = ref->variable;

    s->data_bytes += block_size(ref);
    s->promised_bytes -= block_size(ref);
    s->blocks++;
    if (++v->ready < v->count)
        return;
    work_off(s, v);
    declare_answer(s, v);
}

static void
next_block(struct shard *s, struct variable *v, struct block_ref *ref)
{
    *ref = block_nth(s, v, v->ready);
}

bool
block_work(struct shard *s)
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
            work_off(s, v);
            declare_refuse(s, v, err);
            made++; /* something was done */
            continue;
        }
        block_fill(&ref);
        made += block_size(&ref);
        block_made(s, &ref);
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
    out->fresh = out->moved = out->asked = false;
    out->cut = layout_block(&v->layout, block);
    out->old = out->place = NULL;
}

struct block_ref
block_nth(const struct shard *s, struct variable *v, uint64_t index)
{
    uint64_t number = placement_nth(v->start, s->config.shard, s->config.shards, index);

    return (struct block_ref){
        .variable = v, .block = &v->blocks[index], .number = (uint32_t)number, .cut = layout_block(&v->layout, number)};
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
block_find(struct shard *s, const struct job *job, uint32_t var, uint32_t block, struct block_ref *out,
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
block_refind(const struct shard *s, uint32_t var, uint32_t block, struct block_ref *out)
{
    ps_assert(var > 0 && var <= s->variables_len && block < s->variables[var]->layout.blocks);
    ref_set(s, s->variables[var], block, out);
}

/* ---- Loading ---- */

static bool
head_fits(const struct block_head *head, const struct block_ref *ref, size_t size)
{
    return size == block_size(ref) && head->var == ref->variable->id && head->block == ref->number &&
           head->len == ref->cut.len && head->format == LAYOUT_FORMAT;
}

static void
load_first(struct shard *s, const struct block_ref *ref)
{
    ref->block->loaded = true;
    ref->variable->ready++;
    s->data_bytes += block_size(ref);
    s->promised_bytes -= block_size(ref);
    s->blocks++;
}

static void
load_head(struct block *b, const struct block_head *head, uint8_t generation)
{
    b->version = head->version;
    b->clock = head->clock;
    b->generation = generation;
}

/* A value under the other key, too: one of them was left behind for a save. */
static void
load_second(struct shard *s, const struct block_ref *ref, const struct block_head *head, uint8_t generation)
{
    struct block *b = ref->block;

    if ((head->version > b->version || (head->version == b->version && head->clock > b->clock)) !=
        PLANTED(LEFT_BEHIND_WINS))
        load_head(b, head, generation);
    save_left(s, ref, 1);
}

bool
block_load(void *arg, const struct store_key *key, struct span value)
{
    struct row_load *l = arg;
    struct shard *s = l->s;
    struct variable *v = key->var >= 1 && key->var <= s->variables_len ? s->variables[key->var] : NULL;
    struct block_ref ref;

    if (key->generation >= STORE_GENERATION_REDO)
        return false; /* the redo log lies behind the last block */
    if (v == NULL || key->block >= v->layout.blocks ||
        placement_shard(v->start, key->block, s->config.shards) != s->config.shard)
        return row_load_stop(l, PS_ERR_IO, "a block of variable", key->var);
    ref_set(s, v, key->block, &ref);
    if (!head_fits(value.data, &ref, value.len))
        return row_load_stop(l, PS_ERR_IO, "a block of variable", key->var);
    if (ref.block->loaded) {
        load_second(s, &ref, value.data, key->generation);
    } else {
        load_first(s, &ref);
        load_head(ref.block, value.data, key->generation);
    }
    return true;
}

bool
block_loaded(const struct variable *v)
{
    for (uint64_t i = 0; i < v->ready; i++)
        if (!v->blocks[i].loaded)
            return false;
    return true;
}
