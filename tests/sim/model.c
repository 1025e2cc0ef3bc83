/* The simulated job: drawn once per run. */
#include "tests/sim/model.h"

#include <stdio.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/model/initializer.h"
#include "common/core/model/philox.h"
#include "common/core/optimizer/optimizer.h"

const char *const model_metric_names[MODEL_METRICS] = {"steps of epoch 0", "of epoch 1"};

#define FIRST_MAX   64   /* first values in async and ssp are below it */
#define LEVEL_STEP  4096 /* between those of two assigns: more than the pushes to a variable; sums stay below 2^24 */
#define CLIPPED_MIN 16   /* elements of a block whose gradients are clipped */

bool
model_counts(const struct sim_model *m)
{
    return m->mode != PS_SYNC;
}

/* ---- Drawing ---- */

static void
draw_shape(struct sim *s, struct ps_var_spec *spec)
{
    uint64_t kind = sim_below(s, 100);

    if (kind < 8) {
        spec->rank = 0;
    } else if (kind < 50) {
        spec->rank = 1;
        spec->dims[0] = sim_between(s, 1, 1200);
    } else if (kind < 90) {
        spec->rank = 2;
        spec->dims[0] = sim_between(s, 1, 64);
        spec->dims[1] = sim_between(s, 1, 64);
    } else if (kind < 99) {
        spec->rank = 3; /* some blocks of 17 pages */
        spec->dims[0] = sim_between(s, 1, 8);
        spec->dims[1] = sim_between(s, 1, 64);
        spec->dims[2] = sim_between(s, 32, 64);
    } else {
        spec->rank = 1; /* a block of 65 pages */
        spec->dims[0] = sim_between(s, 65536, 66000);
    }
}

static void
draw_init(const struct sim_model *m, struct sim *s, struct ps_init *init)
{
    init->seed = sim_rand(s);
    if (model_counts(m)) {
        init->kind = sim_chance(s, 500) ? PS_INIT_ZEROS : PS_INIT_CONSTANT;
        init->a = init->kind == PS_INIT_CONSTANT ? (double)sim_below(s, FIRST_MAX) : 0;
        return;
    }
    init->kind = (enum ps_init_kind)sim_below(s, INIT_GIVEN);
    init->a = init->kind == PS_INIT_UNIFORM ? -1 : 0.5;
    init->b = 1;
}

/* The steps before the rule, and the schedule of its rate. Steps are few, so schedules are short; and no rate is 0: the
 * ledger knows a version by its values. */
static void
draw_shaping(struct sim *s, struct ps_optimizer *o)
{
    o->clip = (struct ps_clip){(enum ps_clip_kind)sim_below(s, PS_CLIP_GIVEN_NORM + 1), 0.5};
    o->l2 = sim_below(s, 2) == 0 ? 0 : 0.125;
    o->weight_decay = sim_below(s, 2) == 0 ? 0 : 0.25;
    if (o->kind != PS_FTRL) /* takes none */
        o->schedule = (struct ps_schedule){.kind = (enum ps_schedule_kind)sim_below(s, PS_SCHEDULE_LINEAR + 1),
                                           .by = (enum ps_schedule_by)sim_below(s, PS_BY_CLOCK + 1),
                                           .warmup_steps = sim_below(s, 4),
                                           .steps = 1 + sim_below(s, 8),
                                           .factor = 0.75,
                                           .floor = o->learning_rate / 4};
}

static void
draw_optimizer(const struct sim_model *m, struct sim *s, struct ps_optimizer *o)
{
    enum ps_optimizer_kind kind = (enum ps_optimizer_kind)sim_below(s, PS_OPTIMIZER_KINDS);
    enum ps_err err = ps_optimizer_by_name(ps_optimizer_name(model_counts(m) ? PS_SGD : kind), o, NULL);

    ps_assert(err == PS_OK);
    if (!model_counts(m) && sim_below(s, 2) == 0)
        draw_shaping(s, o);
    if (model_counts(m))
        o->learning_rate = 1.0 / (double)(1u << sim_below(s, 4));
}

/* Clipped, the few elements of a short block may come out the same for two sets of gradients, and the ledger could not
 * say which of them was taken. */
static void
spare_short_blocks(struct sim_model_var *v)
{
    if (layout_block(&v->layout, v->layout.blocks - 1).len < CLIPPED_MIN)
        v->spec.optimizer.clip = (struct ps_clip){PS_CLIP_NONE, 0};
}

static void
draw_var(struct sim_model *m, struct sim *s, uint32_t i)
{
    struct sim_model_var *v = &m->vars[i];

    snprintf(v->name, sizeof v->name, "v%u", i);
    v->spec.name = v->name;
    draw_shape(s, &v->spec);
    draw_init(m, s, &v->spec.init);
    draw_optimizer(m, s, &v->spec.optimizer);
    v->elements = 1;
    for (uint32_t d = 0; d < v->spec.rank; d++)
        v->elements *= v->spec.dims[d];
    layout_init(&v->layout, v->elements, optimizer_slots(&v->spec.optimizer));
    spare_short_blocks(v);
    v->start = placement_start(m->job, v->name, m->shards);
}

void
model_draw(struct sim_model *m, struct sim *s)
{
    m->cluster = "sim";
    m->job = "train";
    m->seed = sim_rand(s);
    m->bound = m->mode == PS_SSP ? (uint32_t)sim_below(s, 4) : 0;
    m->quorum = m->workers;
    if (m->mode == PS_SYNC && m->workers > 1 && sim_chance(s, 300))
        m->quorum = (uint32_t)sim_between(s, 1, m->workers - 1);
    if (m->mode == PS_ASYNC && sim_chance(s, 200)) {
        m->age = PS_AGE_CUTOFF;
        m->age_parameter = (double)sim_below(s, 4);
    }
    m->vars_len = (uint32_t)sim_between(s, 1, MODEL_VARS_MAX);
    for (uint32_t i = 0; i < m->vars_len; i++)
        draw_var(m, s, i);
}

/* ---- Rounds ---- */

uint32_t
model_round(const struct sim_model *m, uint64_t clock)
{
    return (uint32_t)MIN(clock / m->steps, m->rounds - 1);
}

uint32_t
model_workers(const struct sim_model *m, uint32_t round)
{
    return m->size[round] != 0 ? m->size[round] : m->workers;
}

uint32_t
model_quorum(const struct sim_model *m, uint32_t round)
{
    return m->quorum == m->workers ? model_workers(m, round) : m->quorum;
}

/* ---- Gradients ---- */

bool
model_digit(uint64_t number, uint32_t len, uint32_t *element, uint32_t *digit)
{
    *element = (uint32_t)(number / MODEL_DIGITS) * 2 + 1;
    *digit = (uint32_t)(number % MODEL_DIGITS);
    return *element < len;
}

static void
counting_gradient(uint64_t number, uint32_t len, float *out)
{
    uint32_t element, digit;

    for (uint32_t i = 0; i < len; i++)
        out[i] = i % 2 == 0 ? 1.0f : 0.0f;
    if (model_digit(number, len, &element, &digit))
        out[element] = (float)(1u << (2 * digit));
}

/* In [-1, 1), by Philox: any element of any push without the others. */
static void
random_gradient(const struct sim_model *m, uint32_t var, uint64_t number, uint64_t first, uint32_t len, float *out)
{
    const uint32_t key[2] = {(uint32_t)m->seed, (uint32_t)(m->seed >> 32) ^ var};
    uint32_t words[4];

    for (uint32_t i = 0; i < len; i++) {
        uint64_t element = first + i;
        const uint32_t counter[4] = {(uint32_t)(element / 4), (uint32_t)(element / 4 >> 32), (uint32_t)number, 1};

        if (i == 0 || element % 4 == 0)
            philox_4x32(counter, key, words);
        out[i] = (float)(int32_t)words[element % 4] * 0x1p-31f;
    }
}

void
model_gradient_block(const struct sim_model *m, uint32_t var, uint64_t number, uint32_t block, float *out)
{
    struct layout_block cut = layout_block(&m->vars[var].layout, block);

    if (model_counts(m))
        counting_gradient(number, cut.len, out);
    else
        random_gradient(m, var, number, cut.first, cut.len, out);
}

void
model_gradient(const struct sim_model *m, uint32_t var, uint64_t number, float *out)
{
    const struct sim_model_var *v = &m->vars[var];

    for (uint64_t b = 0; b < v->layout.blocks; b++)
        model_gradient_block(m, var, number, (uint32_t)b, out + layout_block(&v->layout, b).first);
}

float
model_assigned_level(uint32_t id)
{
    return (float)(FIRST_MAX + id * LEVEL_STEP);
}

void
model_assigned_block(const struct sim_model *m, uint32_t var, uint32_t id, uint32_t block, float *out)
{
    struct layout_block cut = layout_block(&m->vars[var].layout, block);

    if (!model_counts(m)) /* those of a push that is never made */
        random_gradient(m, var, UINT32_MAX - (uint64_t)id, cut.first, cut.len, out);
    for (uint32_t i = 0; model_counts(m) && i < cut.len; i++)
        out[i] = model_assigned_level(id);
}

uint32_t
model_shard(const struct sim_model *m, uint32_t var, uint64_t block)
{
    return placement_shard(m->vars[var].start, block, m->shards);
}

void
model_first_values(const struct sim_model *m, uint32_t var, uint32_t block, float *out)
{
    const struct ps_var_spec *spec = &m->vars[var].spec;
    struct layout_block cut = layout_block(&m->vars[var].layout, block);
    struct initializer init = {(enum initializer_kind)spec->init.kind, spec->init.a, spec->init.b, spec->init.seed};

    initializer_fill(&init, spec->dims, spec->rank, cut.first, cut.len, out);
}
