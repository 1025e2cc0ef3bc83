/* Which values wait is kept in a bit of each block, and which variables have some in their slot; and what a block has
 * taken, as the number that its head has, too. */
#include "server/core/model/staged.h"

#include <string.h>

#include "common/core/model/cut.h"
#include "server/core/shard_state.h"

static uint8_t
staged_bit(const struct block_ref *ref, const struct assign_slot *slot)
{
    return (uint8_t)(1u << assign_slot_index(&ref->variable->job->assigns, slot));
}

static struct store_key
staged_key_at(const struct block_ref *ref, uint32_t slot)
{
    return (struct store_key){
        .var = ref->variable->id, .block = ref->number, .generation = (uint8_t)(STORE_GENERATION_STAGED + slot)};
}

static struct store_key
staged_key(const struct block_ref *ref, const struct assign_slot *slot)
{
    return staged_key_at(ref, assign_slot_index(&ref->variable->job->assigns, slot));
}

uint8_t
staged_unsettled(const struct job *job, const struct block *b)
{
    uint8_t slots = (uint8_t)(job->assigns.committed & b->staged), unsettled = 0;

    for (uint32_t i = 0; slots >> i != 0; i++)
        if ((slots >> i & 1) != 0 && job->assigns.slot[i].number > b->assign)
            unsettled |= (uint8_t)(1u << i);
    return unsettled;
}

size_t
staged_size(const struct block_ref *ref)
{
    int c = 0;

    while (layout_value_size(c) < sizeof(struct block_head) + block_gradient_bytes(ref))
        c++;
    return layout_value_size(c);
}

/* ---- Putting and taking ---- */

static enum ps_err
staged_note(struct shard *s, const struct block_ref *ref, struct assign_slot *slot)
{
    struct variable *v = ref->variable;
    uint8_t bit = staged_bit(ref, slot);

    if ((v->staged & bit) == 0 && !assign_slot_add_var(slot, v->id)) {
        turn_fail(s, PS_ERR_NOMEM);
        return PS_ERR_NOMEM;
    }
    v->staged |= bit;
    ref->block->staged |= bit;
    return PS_OK;
}

enum ps_err
staged_put(struct shard *s, const struct block_ref *ref, struct assign_slot *slot, float rate, const float *values)
{
    struct block_head head = {.version = slot->number,
                              .var = ref->variable->id,
                              .block = ref->number,
                              .len = ref->values,
                              .format = LAYOUT_FORMAT,
                              .rate = rate};
    struct store_key key = staged_key(ref, slot);
    size_t size = staged_size(ref), bytes = block_gradient_bytes(ref);
    bool counted = (ref->block->staged & staged_bit(ref, slot)) != 0;
    uint8_t *place;
    enum ps_err err;

    if ((err = s->store->ops->reserve(s->store, &key, size, (void **)&place)) != PS_OK) {
        turn_fail(s, err);
        return err;
    }
    memcpy(place, &head, sizeof head);
    memcpy(place + sizeof head, values, bytes);
    memset(place + sizeof head + bytes, 0, size - sizeof head - bytes);
    s->turn.used += size;
    s->turn.wrote = true;
    slot->blocks += !counted;
    slot->left += !counted && slot->state == ASSIGN_COMMITTED && slot->number > ref->block->assign;
    return staged_note(s, ref, slot);
}

enum ps_err
staged_get(struct shard *s, const struct block_ref *ref, const struct assign_slot *slot,
           const struct block_head **value)
{
    struct store_key key = staged_key(ref, slot);
    struct span found;
    enum ps_err err;

    if ((err = s->store->ops->get(s->store, &key, &found)) != PS_OK) {
        turn_fail(s, err == PS_ERR_NOT_FOUND ? PS_ERR_IO : err);
        return s->turn.failed;
    }
    *value = found.data;
    ps_assert((*value)->version == slot->number && (*value)->len == ref->values && (*value)->block == ref->number);
    return PS_OK;
}

enum ps_err
staged_settle(struct shard *s, struct block_ref *ref, struct assign_slot *slot)
{
    const struct block_head *value;
    enum ps_err err;

    if ((err = turn_touch(s, ref)) != PS_OK || (err = staged_get(s, ref, slot, &value)) != PS_OK)
        return err;
    ref->block->version++;
    ref->variable->kind->assign(ref, value, slot->reset_slots);
    ref->block->given = true;
    ref->block->calm = false;
    ps_assert(slot->number > ref->block->assign);
    ref->block->assign = slot->number;
    s->turn.updated += block_gradient_bytes(ref);
    ps_assert(slot->left > 0);
    slot->left--;
    return PS_OK;
}

enum ps_err
staged_erase(struct shard *s, const struct block_ref *ref, struct assign_slot *slot)
{
    struct store_key key = staged_key(ref, slot);
    uint8_t bit = staged_bit(ref, slot);
    enum ps_err err = s->store->ops->erase(s->store, &key);

    if (err == PS_ERR_FULL)
        return err;
    if (err != PS_OK) {
        turn_fail(s, err == PS_ERR_NOT_FOUND ? PS_ERR_IO : err);
        return s->turn.failed;
    }
    ref->block->staged &= (uint8_t)~bit;
    slot->blocks--;
    return PS_OK;
}

/* ---- Variables that are dropped ---- */

struct variable *
staged_variable(const struct shard *s, const struct assigns *a, const struct assign_slot *slot, uint32_t i)
{
    struct variable *v = variable_find(s, slot->vars[i]);

    return v != NULL && (v->staged >> assign_slot_index(a, slot) & 1) != 0 ? v : NULL;
}

static void
staged_drop_block(struct job *job, const struct block *b)
{
    uint8_t unsettled = staged_unsettled(job, b);

    for (uint32_t i = 0; b->staged >> i != 0; i++) {
        job->assigns.slot[i].blocks -= b->staged >> i & 1;
        job->assigns.slot[i].left -= unsettled >> i & 1;
    }
}

void
staged_drop(struct shard *s, struct variable *v)
{
    struct job *job = v->job;

    if (v->staged == 0)
        return;
    for (uint64_t i = 0; i < v->count; i++)
        staged_drop_block(job, &v->blocks[i]);
    for (uint32_t i = 0; v->staged >> i != 0; i++)
        if ((v->staged >> i & 1) != 0)
            assign_slot_look(&job->assigns.slot[i]);
    v->staged = 0;
    s->assigns_look = true;
    turn_wake_pulls(s, job);
}

enum ps_err
staged_erase_dropped(struct shard *s, const struct block_ref *ref)
{
    uint32_t slot = (uint32_t)__builtin_ctz(ref->block->staged);
    struct store_key key = staged_key_at(ref, slot);
    enum ps_err err = s->store->ops->erase(s->store, &key);

    if (err == PS_OK)
        ref->block->staged &= (uint8_t) ~(1u << slot);
    return err;
}

/* ---- Loading ---- */

/* Of a slot that is not in the job's row: its assign is over, and this was not erased. */
static bool
staged_is_leftover(struct assign_slot *slot, struct assigns *a, uint64_t number)
{
    if (slot->state == ASSIGN_FREE) {
        slot->number = number;
        assigns_move(a, slot, ASSIGN_OVER);
    }
    return slot->state == ASSIGN_OVER;
}

static bool
staged_fits(const struct block_head *head, const struct block_ref *ref, size_t size)
{
    return size == staged_size(ref) && head->var == ref->variable->id && head->block == ref->number &&
           head->len == ref->values && head->format == LAYOUT_FORMAT;
}

static enum ps_err
staged_load_one(struct shard *s, struct variable *v, const struct store_key *key, struct span value)
{
    struct assigns *a = &v->job->assigns;
    struct assign_slot *slot = &a->slot[key->generation - STORE_GENERATION_STAGED];
    const struct block_head *head = value.data;
    struct block_ref ref;

    block_refind(s, v->id, key->block, &ref);
    if (!staged_fits(head, &ref, value.len))
        return PS_ERR_IO;
    if (v->dropped) { /* it is erased with the block */
        ref.block->staged |= staged_bit(&ref, slot);
        return PS_OK;
    }
    if ((!staged_is_leftover(slot, a, head->version) && head->version != slot->number))
        return PS_ERR_IO;
    if ((v->staged & staged_bit(&ref, slot)) == 0 && !assign_slot_add_var(slot, v->id))
        return PS_ERR_NOMEM;
    v->staged |= staged_bit(&ref, slot);
    ref.block->staged |= staged_bit(&ref, slot);
    slot->blocks++;
    slot->left += slot->number > ref.block->assign;
    return PS_OK;
}

static bool
staged_visit(void *arg, const struct store_key *key, struct span value)
{
    struct row_load *l = arg;
    struct shard *s = l->s;
    struct variable *v = variable_table_get(&s->variables, key->var);
    enum ps_err err = PS_ERR_IO;

    if (v != NULL && key->generation < STORE_GENERATION_STAGED + ASSIGN_SLOTS && block_lies_here(s, v, key->block) &&
        (v->ready == v->count || v->dropped))
        err = staged_load_one(s, v, key, value);
    return err == PS_OK || row_load_stop(l, err, "a value that waits for variable", key->var);
}

/* Blocks that have neither a first value that was given nor one that they will take. */
static bool
staged_awaits(const struct variable *v)
{
    for (uint64_t i = 0; i < v->count; i++)
        if (!v->blocks[i].given && staged_unsettled(v->job, &v->blocks[i]) == 0)
            return true;
    return false;
}

/* What the rows say of values counts no more: these are counted. */
static void
staged_forget_counts(struct shard *s)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        for (uint32_t i = 0; s->jobs_by_id[id] != NULL && i < ASSIGN_SLOTS; i++)
            s->jobs_by_id[id]->assigns.slot[i].blocks = 0;
}

/* Background work goes on with what was loaded. */
static void
staged_look_at(struct shard *s, const struct assigns *a, const struct assign_slot *slot)
{
    bool unsure = slot->deciding || a->giving_up != 0;

    s->assigns_look |= slot->look;
    s->assigns_deciding |= unsure;
    s->assigns_unsure |= unsure;
}

static void
staged_look(struct shard *s)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        for (uint32_t i = 0; s->jobs_by_id[id] != NULL && i < ASSIGN_SLOTS; i++)
            staged_look_at(s, &s->jobs_by_id[id]->assigns, &s->jobs_by_id[id]->assigns.slot[i]);
}

enum ps_err
staged_load(struct shard *s, struct ps_error *e)
{
    struct store_key from = {.generation = STORE_GENERATION_STAGED};
    struct row_load l = {.s = s, .e = e};
    struct variable *v;
    enum ps_err err;

    staged_forget_counts(s);
    err = s->store->ops->each_block_from(s->store, &from, staged_visit, &l);
    if (l.err != PS_OK)
        return l.err;
    if (err != PS_OK)
        return ps_fail(e, err, "the store cannot be read: %s", ps_strerror(err));
    VARIABLE_EACH (s, v)
        if (v->awaits)
            v->awaits = staged_awaits(v);
    staged_look(s);
    return PS_OK;
}
