/* Blocks: made as the turn has room, looked up by (variable, number), taken from the store on start. */
#include "block.h"

#include <inttypes.h>
#include <string.h>

#include "common/placement.h"
#include "shard_state.h"

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
next_block(struct shard *s, struct variable *v, struct block_ref *ref)
{
    uint64_t number = placement_nth(v->start, s->config.shard, s->config.shards, v->ready);

    *ref = (struct block_ref){.variable = v,
                              .block = &v->blocks[v->ready],
                              .number = (uint32_t)number,
                              .cut = layout_block(&v->layout, number)};
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
        block_fill(s, &ref);
        made += block_size(&ref);
        if (++v->ready == v->count) {
            work_off(s, v);
            declare_answer(s, v);
        }
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
block_refind(struct shard *s, uint32_t var, uint32_t block, struct block_ref *out)
{
    ps_assert(var > 0 && var <= s->variables_len && block < s->variables[var]->layout.blocks);
    ref_set(s, s->variables[var], block, out);
}

/* ---- Loading ---- */

/* They come in rising order, as they were made: what is there is a prefix of what is declared. */
bool
block_load(void *arg, const struct store_key *key, struct span value)
{
    struct row_load *l = arg;
    struct shard *s = l->s;
    struct variable *v = key->var >= 1 && key->var <= s->variables_len ? s->variables[key->var] : NULL;
    const struct block_head *head = value.data;
    struct block_ref ref;

    if (v == NULL || v->ready == v->count)
        return row_load_stop(l, PS_ERR_IO, "a block of variable", key->var);
    next_block(s, v, &ref);
    if (ref.number != key->block || value.len != block_size(&ref) || head->var != key->var ||
        head->block != key->block || head->len != ref.cut.len || head->format != LAYOUT_FORMAT)
        return row_load_stop(l, PS_ERR_IO, "a block of variable", key->var);
    ref.block->version = head->version;
    ref.block->clock = head->clock;
    v->ready++;
    s->data_bytes += block_size(&ref);
    s->promised_bytes -= block_size(&ref);
    s->blocks++;
    return true;
}
