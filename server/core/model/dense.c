/* The dense kind: a variable is its elements, cut into runs of three sizes (common/core/model/layout.h); each is one
 * value in the store: a head, weights, slots. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/codec/half.h"
#include "common/core/model/cut.h"
#include "common/core/wire/wire_layout.h"
#include "server/core/model/kind.h"
#include "server/core/shard_state.h"

/* ---- Cut ---- */

/* Blocks of a class that lie on this shard; *first: number of the class's first block, then of the next class's. */
static uint64_t
dense_class_count(const struct variable *v, int size_class, uint64_t *first, uint32_t shard, uint32_t shards)
{
    uint64_t next = *first + v->def->layout.count[size_class];
    uint64_t count = placement_count(v->start, next, shard, shards) - placement_count(v->start, *first, shard, shards);

    *first = next;
    return count;
}

static void
dense_define(struct variable_definition *d)
{
    wire_layout(d->declare, &d->layout);
    d->numbers = d->layout.blocks;
}

static void
dense_measure(struct variable *v, uint32_t shard, uint32_t shards)
{
    uint64_t first = 0;

    v->count = placement_count(v->start, v->def->layout.blocks, shard, shards);
    for (int c = LAYOUT_CLASSES - 1; c >= 0; c--)
        v->bytes += dense_class_count(v, c, &first, shard, shards) * layout_value_size(c);
}

static uint64_t
dense_pooled(uint32_t values)
{
    return pool_size(cut_bytes(values));
}

static uint64_t
dense_pooled_bytes(const struct variable *v, uint32_t shard, uint32_t shards)
{
    const struct layout *l = &v->def->layout;
    struct layout_block tail = layout_block(l, l->blocks - 1);
    uint64_t bytes = 0, first = 0;

    for (int c = LAYOUT_CLASSES - 1; c >= 0; c--)
        bytes += dense_class_count(v, c, &first, shard, shards) * dense_pooled(layout_capacity(c, l->slots));
    /* The last block may be shorter than its class. */
    if (placement_shard(v->start, l->blocks - 1, shards) == shard)
        bytes -= dense_pooled(layout_capacity(tail.size_class, l->slots)) - dense_pooled(tail.len);
    return bytes;
}

static void
dense_cut(struct block_ref *ref)
{
    ref->cut = layout_block(&ref->variable->def->layout, ref->number);
    ref->values = ref->cut.len;
    ref->size = layout_value_size(ref->cut.size_class);
}

static struct store_key
dense_key(const struct block_ref *ref)
{
    return (struct store_key){.var = ref->variable->id, .block = ref->number, .generation = ref->block->generation};
}

/* ---- Values ---- */

static struct block_head
dense_head(const struct block_ref *ref)
{
    return (struct block_head){.var = ref->variable->id,
                               .block = ref->number,
                               .len = ref->cut.len,
                               .slots = (uint16_t)ref->variable->def->layout.slots,
                               .format = LAYOUT_FORMAT};
}

static float *
dense_array(const struct block_ref *ref, const uint8_t *value, uint32_t i)
{
    return (float *)(uintptr_t)(value + layout_array(ref->cut.stride, i));
}

static void
dense_arrays(struct optimizer_arrays *a, const uint8_t *value, const struct block_ref *ref)
{
    a->weights = dense_array(ref, value, 0);
    for (uint32_t i = 0; i < ref->variable->def->layout.slots; i++)
        a->slot[i] = dense_array(ref, value, i + 1);
}

static void
dense_fill(const struct block_ref *ref)
{
    const struct variable *v = ref->variable;
    struct block_head head = dense_head(ref);
    struct optimizer_arrays arrays;

    head.clock = job_is_sync(v->job) ? v->job->slowest : 0;
    dense_arrays(&arrays, ref->place, ref);
    memset(ref->place, 0, ref->size); /* what lies after the arrays is the same in every copy of the block */
    memcpy(ref->place, &head, sizeof head);
    initializer_fill(&v->def->initializer, v->def->declare->dims, v->def->declare->n_dims, ref->cut.first, ref->cut.len,
                     arrays.weights);
    optimizer_start(&v->def->optimizer, ref->cut.len, &arrays);
    ref->block->version = 0;
    ref->block->clock = head.clock;
}

static bool
dense_head_fits(const struct block_head *head, const struct block_ref *ref, size_t size)
{
    return size == ref->size && head->var == ref->variable->id && head->block == ref->number &&
           head->len == ref->cut.len && head->format == LAYOUT_FORMAT;
}

static bool
dense_load(struct shard *s, struct variable *v, const struct store_key *key, struct span value)
{
    struct block_ref ref;

    if (!block_lies_here(s, v, key->block))
        return false;
    block_refind(s, v->id, key->block, &ref);
    if (!dense_head_fits(value.data, &ref, value.len))
        return false;
    block_take(s, &ref, value.data, key->generation);
    return true;
}

/* They are made in order. */
static bool
dense_loaded(const struct variable *v)
{
    for (uint64_t i = 0; i < v->ready; i++)
        if (!v->blocks[i].loaded)
            return false;
    return true;
}

static struct span
dense_pulled(struct span value)
{
    const struct block_head *head = value.data;

    return (struct span){head + 1, cut_bytes(head->len)};
}

/* ---- Check ---- */

/* A block that this turn has written is updated in place. */
static uint64_t
dense_room(const struct shard *s, const struct block_ref *ref)
{
    return ref->block->turn == s->turn.number ? 0 : ref->size;
}

/* Out of place: what was there still is. */
static bool
dense_apply_checks(const struct shard *s, const struct block_ref *ref)
{
    return ref->block->turn != s->turn.number;
}

/* A norm of the block is taken of all of its gradient before the first element is used. */
static bool
dense_takes_halves(const struct variable *v)
{
    return v->def->optimizer.clip.kind != PS_CLIP_BLOCK_NORM;
}

static enum optimizer_magnitude
dense_magnitude(const struct block_ref *ref, const float *gradient)
{
    return optimizer_magnitude_of_gradient(ref->cut.len, gradient);
}

static float
dense_element(const struct gradient *g, uint32_t i)
{
    return g->halves != NULL ? half_to_float(g->halves[i]) : g->values[i];
}

static enum ps_err
dense_nonfinite(const struct block_ref *ref, const struct gradient *gradient, struct ps_error *e)
{
    uint32_t i = 0, largest = 0;

    while (i < ref->cut.len && isfinite(dense_element(gradient, i))) {
        if (fabsf(dense_element(gradient, i)) > fabsf(dense_element(gradient, largest)))
            largest = i;
        i++;
    }
    if (i == ref->cut.len)
        return ps_fail(
            e, PS_ERR_NONFINITE,
            "the gradient for variable '%.64s' would make its weights or slots overflow: its largest element "
            "is %g, at %" PRIu64,
            ref->variable->name, (double)dense_element(gradient, largest), ref->cut.first + largest);
    return ps_fail(e, PS_ERR_NONFINITE, "the gradient for variable '%.64s' is %g at element %" PRIu64,
                   ref->variable->name, (double)dense_element(gradient, i), ref->cut.first + i);
}

/* ---- Apply ---- */

static void
dense_put_head(const struct block_ref *ref, uint64_t version, uint64_t clock)
{
    struct block_head *head = (struct block_head *)ref->place;

    if (ref->place != ref->old)
        memcpy(head, ref->old, sizeof *head);
    head->version = version;
    head->clock = clock;
}

/* A single page is not streamed: the fence behind it would cost more than it saves. */
static bool
dense_apply(const struct block_ref *ref, const struct gradient *gradient, const struct kind_update *u)
{
    const struct variable *v = ref->variable;
    bool out_of_place = ref->place != ref->old;
    bool stream = u->stream && out_of_place && ref->cut.size_class > 0;
    struct optimizer_arrays from, to;
    enum optimizer_magnitude after;

    dense_arrays(&from, ref->old, ref);
    dense_arrays(&to, ref->place, ref);
    if (gradient->halves != NULL)
        after = optimizer_apply_half(&v->def->optimizer, &u->when, u->scale, ref->cut.len, gradient->halves, &from, &to,
                                     stream);
    else
        after =
            optimizer_apply(&v->def->optimizer, &u->when, u->scale, ref->cut.len, gradient->values, &from, &to, stream);
    if (after == OPTIMIZER_NONFINITE && v->def->refuse_nonfinite) {
        const uint8_t *before = out_of_place ? ref->old : ref->before.value;

        ps_assert(before != NULL);
        memcpy(ref->place, before, MUTATION(REFUSED_LEAVES_TRACE) ? sizeof(struct block_head) : ref->size);
        return false;
    }
    ref->block->calm = after == OPTIMIZER_CALM;
    dense_put_head(ref, u->when.version, u->clock);
    return true;
}

static void
dense_carry(const struct block_ref *ref)
{
    if (ref->place != ref->old)
        memcpy(ref->place, ref->old, ref->size);
    dense_put_head(ref, ref->block->version, ref->block->clock);
}

/* Where weights follow from slots, these must agree with the new ones. */
static void
dense_assign(const struct block_ref *ref, const struct block_head *waited, bool reset_slots)
{
    struct ps_optimizer o = ref->variable->def->optimizer;
    struct block_head *head = (struct block_head *)ref->place;
    struct optimizer_arrays arrays;

    if (ref->place != ref->old)
        memcpy(ref->place, ref->old, ref->size);
    dense_arrays(&arrays, ref->place, ref);
    memcpy(arrays.weights, waited + 1, cut_bytes(ref->cut.len));
    if (reset_slots)
        optimizer_start(&o, ref->cut.len, &arrays);
    o.learning_rate = (double)waited->rate;
    optimizer_follow(&o, ref->cut.len, &arrays);
    head->version = ref->block->version;
    head->clock = ref->block->clock;
    head->assign = waited->version;
    head->given = 1;
}

static void
dense_sum(const struct block_ref *ref, uint32_t n, const float *const gradients[], float *sum)
{
    optimizer_sum(ref->cut.len, n, gradients, sum);
}

/* ---- Walk ---- */

static uint64_t
dense_values(const struct variable *v)
{
    return v->ready;
}

static struct block_ref
dense_nth(const struct shard *s, struct variable *v, uint64_t index)
{
    uint64_t number = placement_nth(v->start, s->config.shard, s->config.shards, index);
    struct block_ref ref = {.variable = v, .block = &v->blocks[index], .number = (uint32_t)number};

    dense_cut(&ref);
    return ref;
}

static uint64_t
dense_index(const struct block_ref *ref)
{
    return (uint64_t)(ref->block - ref->variable->blocks);
}

static enum ps_err
dense_restore(const struct block_ref *ref, struct shard_restore *from, size_t variable, uint8_t *value,
              struct ps_error *e)
{
    struct block_head head = dense_head(ref);
    enum ps_err err;

    head.given = 1;
    if ((err = from->counts(from, variable, ref->number, &head.version, &head.clock, e)) != PS_OK)
        return err;
    memset(value, 0, ref->size);
    memcpy(value, &head, sizeof head);
    for (uint32_t i = 0; err == PS_OK && i <= ref->variable->def->layout.slots; i++)
        err = from->elements(from, variable, i, ref->cut.first, ref->cut.len, dense_array(ref, value, i), e);
    return err;
}

/* ---- Describe ---- */

static void
dense_describe(const struct variable *v, Psd__VariableReport *m)
{
    m->n_dims = v->def->declare->n_dims;
    m->dims = v->def->declare->dims;
    m->blocks = v->count;
    m->bytes = v->bytes;
    m->version_min = v->ready > 0 ? UINT64_MAX : 0;
    for (uint64_t i = 0; i < v->ready; i++) {
        m->version_min = MIN(m->version_min, v->blocks[i].version);
        m->version_max = MAX(m->version_max, v->blocks[i].version);
    }
}

const struct variable_kind kind_dense = {
    .define = dense_define,
    .measure = dense_measure,
    .pooled_bytes = dense_pooled_bytes,
    .cut = dense_cut,
    .key = dense_key,
    .fill = dense_fill,
    .load = dense_load,
    .loaded = dense_loaded,
    .pulled = dense_pulled,
    .room = dense_room,
    .apply_checks = dense_apply_checks,
    .takes_halves = dense_takes_halves,
    .magnitude = dense_magnitude,
    .nonfinite = dense_nonfinite,
    .apply = dense_apply,
    .carry = dense_carry,
    .assign = dense_assign,
    .sum = dense_sum,
    .values = dense_values,
    .nth = dense_nth,
    .index = dense_index,
    .restore = dense_restore,
    .describe = dense_describe,
};
