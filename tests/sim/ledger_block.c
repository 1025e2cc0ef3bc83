/* Committed states: the changes of a commit, and whether they are allowed.
 *
 * async and ssp: the digits of a block are read off its weights. Each that is new belongs to this commit; together they
 * are as many as the version rose. Below them lie the first values, or those of the newest assign that the head speaks
 * of: then they are the pushes since. Pushes that came in the same commit before that one have left no digit: how many
 * they were the version says, and an acknowledged push that is not seen may be one of them.
 *
 * sync: the new bits must come from the old ones by the optimizer, fed with the mean in worker order of one gradient of
 * some workers, all pushed at one clock, each clipped by the norm that came with it. Which workers is searched for: all
 * of them first, then fewer; and which of the assigns that the block took in the commit came before the step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/optimizer/optimizer.h"
#include "tests/sim/ledger_state.h"

#define TRY_FIRST 16 /* elements that rule out most wrong sets */

static float *
ledger_block_floats(size_t n)
{
    float *f = aligned_alloc(LAYOUT_ALIGN, round_up(MAX(n, 1) * sizeof *f, LAYOUT_ALIGN));

    ps_assert(f != NULL);
    return f;
}

/* ---- Blocks ---- */

void
ledger_block_init(struct ledger *l, uint32_t var, uint32_t number)
{
    const struct sim_model_var *v = &l->model->vars[var];
    struct layout_block cut = layout_block(&v->layout, number);
    struct block_state *b = &l->vars[var].blocks[number];

    b->var = var;
    b->number = number;
    b->shard = model_shard(l->model, var, number);
    b->first = cut.first;
    b->len = cut.len;
    b->stride = cut.stride;
    b->slots = v->layout.slots;
    if (model_counts(l->model))
        return;
    b->arrays = ledger_block_floats((1 + (size_t)b->slots) * b->stride);
    b->given = ledger_block_floats((1 + (size_t)b->slots) * b->stride);
    b->next = ledger_block_floats((1 + (size_t)b->slots) * b->stride);
    b->begin = ledger_block_floats((1 + (size_t)b->slots) * b->stride);
    b->pending.arrays = ledger_block_floats((1 + (size_t)b->slots) * b->stride);
    b->saved.arrays = ledger_block_floats((1 + (size_t)b->slots) * b->stride);
    b->kept.arrays = ledger_block_floats((1 + (size_t)b->slots) * b->stride);
}

void
ledger_block_finish(struct block_state *b)
{
    free(b->states);
    free(b->traces);
    free(b->arrays);
    free(b->given);
    free(b->staged);
    free(b->taken);
    free(b->veils);
    free(b->next);
    free(b->begin);
    free(b->steps);
    free(b->pending.arrays);
    free(b->saved.arrays);
    free(b->kept.arrays);
}

uint64_t
ledger_hash(const float *values, uint32_t len)
{
    const uint8_t *bytes = (const uint8_t *)values;
    uint64_t hash = 0x9e3779b97f4a7c15u;
    uint32_t word;

    for (uint32_t i = 0; i < len; i++) {
        memcpy(&word, bytes + 4 * (size_t)i, 4);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

bool
ledger_block_tells(const struct ledger *l, const struct block_state *b, uint64_t number)
{
    uint32_t element, digit;

    return b->seen && (!model_counts(l->model) || model_digit(number, b->len, &element, &digit));
}

uint64_t
ledger_block_version_of(const struct block_state *b, uint64_t number)
{
    return number < b->traces_len ? b->traces[number].version : 0;
}

uint32_t
ledger_block_epoch_of(const struct block_state *b, uint64_t number)
{
    return number < b->traces_len ? b->traces[number].epoch : 0;
}

bool
ledger_block_lost(const struct block_state *b, uint64_t number)
{
    return number < b->traces_len && b->traces[number].lost;
}

bool
ledger_block_came(const struct block_state *b, uint64_t number)
{
    return number < b->traces_len && b->traces[number].came;
}

const struct ledger_block_state *
ledger_block_find(const struct block_state *b, uint32_t epoch, uint64_t hash, uint64_t lowest, uint64_t highest)
{
    const struct ledger_block_state *found = NULL;

    for (size_t i = b->states_len; i > 0; i--) {
        const struct ledger_block_state *s = &b->states[i - 1];

        if (s->hash != hash || s->gone <= epoch)
            continue;
        if (s->version >= lowest && s->version <= highest)
            return s;
        found = found == NULL ? s : found;
    }
    return found;
}

bool
ledger_block_has(const struct block_state *b, uint32_t epoch, uint64_t hash, uint64_t version)
{
    const struct ledger_block_state *found = ledger_block_find(b, epoch, hash, version, version);

    return found != NULL && found->version == version;
}

const char *
ledger_block_name(const struct ledger *l, const struct block_state *b)
{
    static char name[64];

    snprintf(name, sizeof name, "s%u %s block %u", b->shard, l->model->vars[b->var].name, b->number);
    return name;
}

static struct traces *
traces_of(struct block_state *b, uint64_t number)
{
    while (b->traces_len <= number) {
        b->traces = sim_grow(b->traces, &b->traces_room, b->traces_len, sizeof *b->traces);
        b->traces[b->traces_len++] = (struct traces){.from = UINT64_MAX};
    }
    return &b->traces[number];
}

void
ledger_block_note_came(struct block_state *b, uint64_t number)
{
    traces_of(b, number)->came = true;
}

void
ledger_block_count(struct ledger *l, struct block_state *b, uint64_t number, uint64_t version)
{
    uint32_t id = l->vars[b->var].pushes[number];
    const struct ledger_push *p = &l->pushes[id];
    struct traces *t = traces_of(b, number);
    char name[128];

    if (l->replaying)
        ledger_check_replayed(l, b, number);
    else if (t->lost && p->outcome == PUSH_COUNTED)
        sim_fail(l->sim, "%s counts %s once more, which was acknowledged and lost", ledger_block_name(l, b),
                 ledger_push_name(l, id, name, sizeof name));
    else
        ledger_check_age(l, b, id, t->from);
    if (!l->replaying)
        ledger_check_evicted(l, b, number);
    t->version = version;
    t->epoch = l->epoch[b->shard];
    t->lost = false;
    ledger_check_example(l, b, number);
    l->counts.applied++;
    sim_trace(l->sim, "s%u > push w%u clock %" PRIu64 " %s/%u -> v%" PRIu64, b->shard, p->task, p->clock,
              l->model->vars[b->var].name, b->number, version);
}

/* ---- async and ssp: counting ---- */

/* How many of digit's pushes are in x; 0 or 1 if all is well. */
static bool
read_digit(struct ledger *l, struct block_state *b, uint64_t x, uint32_t element, uint32_t digit, uint64_t version,
           uint64_t *count)
{
    uint64_t number = (uint64_t)(element / 2) * MODEL_DIGITS + digit, times = x >> (2 * digit) & 3;
    char name[128];

    if (times == 0 && ledger_block_version_of(b, number) <= b->base)
        return true; /* not counted, or assigned over */
    if (number >= l->vars[b->var].pushes_len) {
        sim_fail(l->sim, "%s counts a push that nobody made (element %u is %" PRIu64 ")", ledger_block_name(l, b),
                 element, x);
        return false;
    }
    if (times != 1) {
        sim_fail(l->sim, "%s version %" PRIu64 " counts %s %" PRIu64 " times", ledger_block_name(l, b), version,
                 ledger_push_name(l, l->vars[b->var].pushes[number], name, sizeof name), times);
        return false;
    }
    if (b->base > 0 && ledger_block_version_of(b, number) != 0 && ledger_block_version_of(b, number) <= b->base) {
        sim_fail(l->sim, "%s version %" PRIu64 " counts %s once more, after an assign", ledger_block_name(l, b),
                 version, ledger_push_name(l, l->vars[b->var].pushes[number], name, sizeof name));
        return false;
    }
    if (ledger_block_version_of(b, number) == 0)
        ledger_block_count(l, b, number, version);
    ++*count;
    return true;
}

/* What gradients have been subtracted from the element. */
static double
block_sum(const struct ledger *l, const struct block_state *b, float weight)
{
    return ((double)ledger_assign_base(l, b, b->assign) - (double)weight) /
           l->model->vars[b->var].spec.optimizer.learning_rate;
}

static bool
read_element(struct ledger *l, struct block_state *b, uint32_t element, float weight, uint64_t version, uint64_t *count)
{
    uint64_t x;
    double sum = block_sum(l, b, weight);

    x = (uint64_t)sum;
    if (sum < 0 || (double)x != sum || x >> (2 * MODEL_DIGITS) != 0) {
        sim_fail(l->sim, "%s element %u is %g: no sum of gradients", ledger_block_name(l, b), element, (double)weight);
        return false;
    }
    if (element % 2 == 0) {
        if (x == version - b->base)
            return true;
        sim_fail(l->sim, "%s version %" PRIu64 ": element %u counts %" PRIu64 " pushes%s", ledger_block_name(l, b),
                 version, element, x, b->base > 0 ? " since an assign" : "");
        return false;
    }
    for (uint32_t digit = 0; digit < MODEL_DIGITS; digit++)
        if (!read_digit(l, b, x, element, digit, version, count))
            return false;
    return true;
}

void
ledger_block_take(struct block_state *b, const struct ledger_taken *taken, uint64_t version)
{
    b->taken = sim_grow(b->taken, &b->taken_room, b->taken_len, sizeof *b->taken);
    b->taken[b->taken_len] = *taken;
    b->taken[b->taken_len++].version = version;
    b->assign = taken->number;
    b->base = version;
}

static void
block_veil(struct ledger *l, struct block_state *b, uint64_t clock, uint64_t n)
{
    b->veils = sim_grow(b->veils, &b->veils_room, b->veils_len, sizeof *b->veils);
    b->veils[b->veils_len++] = (struct ledger_veil){
        .version = b->version + 1, .epoch = l->epoch[b->shard], .clock = clock, .us = l->sim->now_us, .left = n};
}

bool
ledger_block_hides(struct ledger *l, struct block_state *b, uint64_t number)
{
    const struct ledger_push *p = &l->pushes[l->vars[b->var].pushes[number]];
    struct traces *t = traces_of(b, number);

    for (size_t i = 0; i < b->veils_len && !t->hidden; i++) {
        struct ledger_veil *v = &b->veils[i];

        if (v->left == 0 || v->us < p->started_us || (!model_counts(l->model) && v->clock != p->clock))
            continue;
        v->left--;
        t->hidden = true;
        if (v->epoch == l->epoch[b->shard]) { /* else its version is another one by now */
            t->version = v->version;
            t->epoch = v->epoch;
        }
    }
    return t->hidden;
}

/* The block took assigns in this commit. Element 0 says how many pushes came after the last of them; what the version
 * rose by besides were pushes that came before. */
static bool
take_assigns(struct ledger *l, struct block_state *b, const float *weights, uint64_t version, uint64_t assign)
{
    struct ledger_taken taken[LEDGER_TAKEN_MAX];
    size_t n = ledger_assigns_taken(l, b, assign, taken);
    uint64_t before = b->version;
    double since;

    if (n == 0)
        return false;
    b->assign = assign;
    since = block_sum(l, b, weights[0]);
    if (since < 0 || (double)(uint64_t)since != since || before + n + (uint64_t)since > version) {
        sim_fail(l->sim, "%s went from version %" PRIu64 " to %" PRIu64 " by %zu assigns and %g pushes after them",
                 ledger_block_name(l, b), before, version, n, since);
        return false;
    }
    if (!l->replaying)
        block_veil(l, b, 0, version - (uint64_t)since - before - n);
    for (size_t i = 0; i < n; i++)
        ledger_block_take(b, &taken[i], version - (uint64_t)since - (n - 1 - i));
    return true;
}

bool
ledger_block_check_counts(struct ledger *l, struct block_state *b, const float *weights, uint64_t version,
                          uint64_t assign)
{
    uint64_t count = 0, pushes = l->vars[b->var].pushes_len;
    uint32_t element, digit;

    if (assign != b->assign && !take_assigns(l, b, weights, version, assign))
        return false;
    for (uint32_t i = 0; i < b->len; i++)
        if (!read_element(l, b, i, weights[i], version, &count))
            return false;
    if (count == version - b->base || (pushes > 0 && !model_digit(pushes - 1, b->len, &element, &digit)))
        return true;
    sim_fail(l->sim, "%s version %" PRIu64 " counts %" PRIu64 " pushes", ledger_block_name(l, b), version, count);
    return false;
}

/* ---- sync: the mean of one step ---- */

/* A search for the set of pushes of one clock that made the new bits. */
struct search {
    struct ledger *l;
    struct block_state *b;
    const float *target;              /* [1 + slots][stride] */
    float *from;                      /* the same, before the step */
    const struct ledger_taken *after; /* [after_len] assigns that were taken after the step */
    size_t after_len;
    uint64_t version, clock;            /* of the step */
    double rate, begin;                 /* the learning rate and the schedule's begin that are tried */
    uint64_t chosen[MODEL_WORKERS_MAX]; /* numbers of pushes in worker order */
    uint32_t chosen_len, wanted;
};

/* The factor of a gradient as it joins the sum. */
static float
joining_scale(const struct search *x, uint64_t number)
{
    const struct ps_clip *clip = &x->l->model->vars[x->b->var].spec.optimizer.clip;
    double norm = x->l->pushes[x->l->vars[x->b->var].pushes[number]].norm;

    return clip->kind == PS_CLIP_GIVEN_NORM && norm > clip->limit ? (float)(clip->limit / norm) : 1;
}

static void
mean_sum(const struct search *x, uint32_t n, float *sum)
{
    float *gradient = ledger_block_floats(x->b->len);

    for (uint32_t k = 0; k < x->chosen_len; k++) {
        float scale = joining_scale(x, x->chosen[k]);

        model_gradient_block(x->l->model, x->b->var, x->chosen[k], x->b->number, gradient);
        for (uint32_t i = 0; i < n; i++)
            sum[i] = k == 0 ? scale * gradient[i] : sum[i] + scale * gradient[i];
    }
    free(gradient);
}

static void
arrays_of(const struct block_state *b, float *base, struct optimizer_arrays *out)
{
    *out = (struct optimizer_arrays){.weights = base};
    for (uint32_t i = 0; i < b->slots; i++)
        out->slot[i] = base + (size_t)(1 + i) * b->stride;
}

bool
ledger_same_arrays(const struct block_state *b, const float *x, const float *y, uint32_t n)
{
    for (uint32_t i = 0; i <= b->slots; i++)
        if (memcmp(x + (size_t)i * b->stride, y + (size_t)i * b->stride, n * sizeof *x) != 0)
            return false;
    return true;
}

/* One step of the optimizer over the first n elements, in b->next. */
static bool
step_gives(const struct search *x, uint32_t n)
{
    struct ps_optimizer o = x->l->model->vars[x->b->var].spec.optimizer;
    struct optimizer_when when = {.version = x->version, .clock = x->clock};
    struct optimizer_arrays from, to;
    float *sum = ledger_block_floats(x->b->len);

    o.learning_rate = x->rate;
    o.schedule.begin = (uint64_t)x->begin;
    mean_sum(x, n, sum);
    arrays_of(x->b, x->from, &from);
    arrays_of(x->b, x->b->next, &to);
    (void)optimizer_apply(&o, &when, 1.0f / (float)x->chosen_len, n, sum, &from, &to, false);
    free(sum);
    for (size_t i = 0; i < x->after_len; i++)
        ledger_assign_apply(x->l, x->b, &x->after[i], n, x->b->next);
    return ledger_same_arrays(x->b, x->b->next, x->target, n);
}

static bool
set_fits(const struct search *x)
{
    /* The norm of a block is that of all of it. */
    bool first = x->b->len > TRY_FIRST && x->l->model->vars[x->b->var].spec.optimizer.clip.kind != PS_CLIP_BLOCK_NORM;

    return (!first || step_gives(x, TRY_FIRST)) && step_gives(x, x->b->len);
}

static bool
ledger_block_candidate(const struct search *x, uint64_t number, uint32_t task)
{
    const struct ledger_push *p = &x->l->pushes[x->l->vars[x->b->var].pushes[number]];

    return p->task == task && p->clock == x->clock && !p->broken && p->outcome != PUSH_NOT_COUNTED &&
           ledger_block_version_of(x->b, number) == 0;
}

/* Choose for this task and those after it: sets of `wanted` pushes. */
static bool
search_tasks(struct search *x, uint32_t task)
{
    uint32_t left = x->l->model->workers - task;

    if (x->chosen_len == x->wanted)
        return set_fits(x);
    if (left < x->wanted - x->chosen_len)
        return false;
    for (uint64_t n = 0; n < x->l->vars[x->b->var].pushes_len; n++) {
        if (!ledger_block_candidate(x, n, task))
            continue;
        x->chosen[x->chosen_len++] = n;
        if (search_tasks(x, task + 1))
            return true;
        x->chosen_len--;
    }
    return search_tasks(x, task + 1);
}

static bool
search_sets(struct search *x)
{
    for (x->wanted = x->l->model->workers; x->wanted >= 1; x->wanted--) {
        x->chosen_len = 0;
        if (search_tasks(x, 0))
            return true;
    }
    return false;
}

static bool
search_rates(struct search *x)
{
    const struct in_force *rate = &x->l->rates[x->b->shard][x->b->var];

    x->rate = rate->was;
    if (search_sets(x))
        return true;
    x->rate = rate->now;
    return rate->now != rate->was && search_sets(x);
}

static bool
search_begins(struct search *x)
{
    const struct in_force *begin = &x->l->begins[x->b->shard][x->b->var];

    x->begin = begin->was;
    if (search_rates(x))
        return true;
    x->begin = begin->now;
    return begin->now != begin->was && search_rates(x);
}

static bool
search_clocks(struct search *x, uint64_t low, uint64_t high)
{
    for (x->clock = high; x->clock + 1 > low; x->clock--) {
        if (search_begins(x))
            return true;
        if (x->clock == 0)
            break;
    }
    return false;
}

static bool
enough_gradients(struct ledger *l, const struct search *x)
{
    uint32_t quorum = model_quorum(l->model, model_round(l->model, x->clock));

    if (l->config.may_lapse || x->chosen_len == quorum || !ledger_all_joined(l, x->clock))
        return true; /* k of n does not wait for a worker that never joined */
    sim_fail(l->sim, "%s version %" PRIu64 " is the mean of %u gradients, not of %u", ledger_block_name(l, x->b),
             x->version, x->chosen_len, quorum);
    return false;
}

static void
remember_step(const struct search *x)
{
    struct block_state *b = x->b;
    struct ledger_step *step;

    b->steps = sim_grow(b->steps, &b->steps_room, b->steps_len, sizeof *b->steps);
    step = &b->steps[b->steps_len++];
    *step = (struct ledger_step){
        .version = x->version, .clock = x->clock, .rate = x->rate, .begin = x->begin, .chosen_len = x->chosen_len};
    memcpy(step->chosen, x->chosen, sizeof step->chosen);
}

void
ledger_block_redo(struct ledger *l, struct block_state *b, const struct ledger_step *step, uint64_t version)
{
    struct search x = {.l = l,
                       .b = b,
                       .target = b->next,
                       .from = b->arrays,
                       .version = version,
                       .clock = step->clock,
                       .rate = step->rate,
                       .begin = step->begin,
                       .chosen_len = step->chosen_len};

    if (step->assign != 0)
        ledger_assign_apply(l, b, &(struct ledger_taken){.id = step->assign, .rate = step->rate}, b->len, b->arrays);
    if (step->assign != 0 || step->hidden)
        return;
    memcpy(x.chosen, step->chosen, sizeof x.chosen);
    (void)step_gives(&x, b->len);
    for (uint32_t i = 0; i <= b->slots; i++)
        memcpy(b->arrays + (size_t)i * b->stride, b->next + (size_t)i * b->stride, b->len * sizeof *b->arrays);
}

static void
remember_assign(struct block_state *b, const struct ledger_taken *taken, uint64_t version)
{
    struct ledger_step *step;

    b->steps = sim_grow(b->steps, &b->steps_room, b->steps_len, sizeof *b->steps);
    step = &b->steps[b->steps_len++];
    *step = (struct ledger_step){.version = version, .assign = taken->id, .number = taken->number, .rate = taken->rate};
    ledger_block_take(b, taken, version);
}

void
ledger_block_step(struct ledger *l, struct block_state *b, const struct ledger_step *step, uint64_t version)
{
    struct search x = {.b = b,
                       .version = version,
                       .clock = step->clock,
                       .rate = step->rate,
                       .begin = step->begin,
                       .chosen_len = step->chosen_len};

    ledger_block_redo(l, b, step, version);
    if (step->assign != 0) {
        remember_assign(b, &(struct ledger_taken){.number = step->number, .id = step->assign, .rate = step->rate},
                        version);
        return;
    }
    for (uint32_t i = 0; i < step->chosen_len; i++)
        ledger_block_count(l, b, step->chosen[i], version);
    memcpy(x.chosen, step->chosen, sizeof x.chosen);
    remember_step(&x);
    b->steps[b->steps_len - 1].hidden = step->hidden;
}

/* A step at some clock, after the first of these assigns and before the others. */
static bool
search_step(struct search *x, const struct ledger_taken *taken, size_t n, size_t before, uint64_t until)
{
    struct block_state *b = x->b;

    for (uint32_t i = 0; i <= b->slots; i++)
        memcpy(b->given + (size_t)i * b->stride, b->arrays + (size_t)i * b->stride, b->len * sizeof *b->arrays);
    for (size_t i = 0; i < before; i++)
        ledger_assign_apply(x->l, b, &taken[i], b->len, b->given);
    x->from = b->given;
    x->after = taken + before;
    x->after_len = n - before;
    x->version = b->version + before + 1;
    return search_clocks(x, b->clock, until - 1);
}

static void
remember_assigns(struct block_state *b, const struct ledger_taken *taken, size_t n, uint64_t version)
{
    for (size_t i = 0; i < n; i++)
        remember_assign(b, &taken[i], version + i);
}

/* The block took assigns, and no step. */
static bool
check_assigned(struct ledger *l, struct block_state *b, const float *arrays, const struct ledger_taken *taken, size_t n)
{
    for (uint32_t i = 0; i <= b->slots; i++)
        memcpy(b->given + (size_t)i * b->stride, b->arrays + (size_t)i * b->stride, b->len * sizeof *b->arrays);
    for (size_t i = 0; i < n; i++)
        ledger_assign_apply(l, b, &taken[i], b->len, b->given);
    if (!ledger_same_arrays(b, b->given, arrays, b->len)) {
        sim_fail(l->sim, "%s has other bits than assign %u gives it", ledger_block_name(l, b), taken[n - 1].id);
        return false;
    }
    remember_assigns(b, taken, n, b->version + 1);
    return true;
}

/* Of n assigns some came before the step: how many; -1: none of it fits. */
static int
search_assigned_step(struct search *x, const struct ledger_taken *taken, size_t n, uint64_t until)
{
    for (int before = (int)n; before >= 0; before--)
        if (search_step(x, taken, n, (size_t)before, until))
            return before;
    return -1;
}

/* Assigns after a step leave nothing of it: neither weights nor slots. */
static bool
step_is_hidden(const struct ledger *l, const struct block_state *b, const struct ledger_taken *after, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (b->slots == 0 || l->assigns[after[i].id - 1].reset_slots)
            return true;
    return false;
}

/* One step, and the assigns that the block took. */
static bool
check_step(struct ledger *l, struct block_state *b, const float *arrays, const struct block_head *head)
{
    struct search x = {.l = l, .b = b, .target = arrays};
    struct ledger_taken taken[LEDGER_TAKEN_MAX];
    size_t n = ledger_assigns_taken(l, b, head->assign, taken);
    bool hidden;
    int before;

    if (n > 0 && head->version == b->version + n)
        return check_assigned(l, b, arrays, taken, n);
    if (head->version != b->version + n + 1 || head->clock <= b->clock) {
        sim_fail(l->sim,
                 "%s went from version %" PRIu64 " clock %" PRIu64 " to version %" PRIu64 " clock %" PRIu64
                 " in one commit, with %zu assigns",
                 ledger_block_name(l, b), b->version, b->clock, head->version, head->clock, n);
        return false;
    }
    if ((before = search_assigned_step(&x, taken, n, head->clock)) < 0) {
        sim_fail(l->sim, "%s version %" PRIu64 " clock %" PRIu64 " is the mean of no set of gradients",
                 ledger_block_name(l, b), head->version, head->clock);
        return false;
    }
    remember_assigns(b, taken, (size_t)before, b->version + 1);
    hidden = step_is_hidden(l, b, taken + before, n - (size_t)before);
    if (hidden) { /* what was found is as good as any other */
        x.chosen_len = 0;
        block_veil(l, b, x.clock, l->model->workers);
    }
    for (uint32_t i = 0; i < x.chosen_len; i++)
        ledger_block_count(l, b, x.chosen[i], x.version);
    remember_step(&x);
    b->steps[b->steps_len - 1].hidden = hidden;
    remember_assigns(b, taken + before, n - (size_t)before, x.version + 1);
    return hidden || enough_gradients(l, &x);
}

/* ---- States ---- */

void
ledger_block_remember(struct ledger *l, struct block_state *b, const float *arrays, const struct block_head *head)
{
    b->states = sim_grow(b->states, &b->states_room, b->states_len, sizeof *b->states);
    b->states[b->states_len++] = (struct ledger_block_state){head->version, ledger_hash(arrays, b->len), head->assign,
                                                             l->epoch[b->shard], UINT32_MAX};
    b->version = head->version;
    b->clock = head->clock;
    if (model_counts(l->model))
        return;
    for (uint32_t i = 0; i <= b->slots; i++)
        memcpy(b->arrays + (size_t)i * b->stride, arrays + (size_t)i * b->stride, b->len * sizeof *arrays);
}

void
ledger_block_first(struct ledger *l, struct block_state *b, const float *arrays, const struct block_head *head)
{
    float *expected = ledger_block_floats(b->len);

    model_first_values(l->model, b->var, b->number, expected);
    if (head->version != 0 || memcmp(expected, arrays, b->len * sizeof *arrays) != 0)
        sim_fail(l->sim, "%s begins at version %" PRIu64 " with values that are not its first", ledger_block_name(l, b),
                 head->version);
    free(expected);
    b->seen = true;
    ledger_block_remember(l, b, arrays, head);
    if (!model_counts(l->model))
        memcpy(b->begin, b->arrays, (1 + (size_t)b->slots) * b->stride * sizeof *b->begin);
}

static void
next_state(struct ledger *l, struct block_state *b, const float *arrays, const struct block_head *head)
{
    if (head->version < b->version || head->clock < b->clock) {
        sim_fail(l->sim, "%s went back from version %" PRIu64 " to %" PRIu64, ledger_block_name(l, b), b->version,
                 head->version);
        return;
    }
    if (head->version == b->version) {
        if (ledger_hash(arrays, b->len) != b->states[b->states_len - 1].hash)
            sim_fail(l->sim, "%s changed and kept version %" PRIu64, ledger_block_name(l, b), b->version);
        b->clock = head->clock;
        return;
    }
    if (model_counts(l->model) ? ledger_block_check_counts(l, b, arrays, head->version, head->assign)
                               : check_step(l, b, arrays, head))
        ledger_block_remember(l, b, arrays, head);
}

/* The number of the push whose digit a gradient holds; UINT64_MAX: it holds none. */
static uint64_t
gradient_number(const float *gradient, uint32_t len)
{
    for (uint32_t element = 1; element < len; element += 2)
        for (uint32_t digit = 0; digit < MODEL_DIGITS; digit++)
            if (gradient[element] == (float)(1u << (2 * digit)))
                return (uint64_t)(element / 2) * MODEL_DIGITS + digit;
    return UINT64_MAX;
}

uint32_t
ledger_push_arrived(struct ledger *l, uint32_t shard, uint32_t id, uint32_t block, const float *gradient, uint64_t from)
{
    const struct id_table *ids = &l->ids[shard];
    struct block_state *b = &l->vars[ids->var[id] - 1].blocks[block];
    uint64_t number = gradient_number(gradient, b->len);

    if (number != UINT64_MAX)
        traces_of(b, number)->from = from;
    return b->len;
}

struct block_state *
ledger_block_of(struct ledger *l, uint32_t shard, const struct store_key *key)
{
    const struct id_table *ids = &l->ids[shard];

    if (key->generation >= STORE_GENERATION_REDO || key->var >= ids->len || ids->var[key->var] == 0)
        return NULL;
    return &l->vars[ids->var[key->var] - 1].blocks[key->block];
}

struct visit {
    struct ledger *l;
    uint32_t shard;
    bool all; /* also blocks that seem unchanged */
};

/* While a save runs a block may lie there twice, and the newer one is it. */
static bool
find_newest(void *arg, const struct store_key *key, struct span value)
{
    struct visit *v = arg;
    const struct block_head *head = value.data;
    struct block_state *b = ledger_block_of(v->l, v->shard, key);

    if (b == NULL || (b->look == v->l->looks && head->version < b->look_version) ||
        (b->look == v->l->looks && head->version == b->look_version && head->clock <= b->look_clock))
        return true;
    b->look = v->l->looks;
    b->look_version = head->version;
    b->look_clock = head->clock;
    b->look_generation = key->generation;
    return true;
}

static bool
visit_newest(void *arg, const struct store_key *key, struct span value)
{
    struct visit *v = arg;
    struct ledger *l = v->l;
    const struct block_head *head = value.data;
    const float *arrays = (const float *)(head + 1);
    struct block_state *b = ledger_block_of(l, v->shard, key);

    if (b == NULL || key->generation != b->look_generation)
        return true; /* no worker knows its id, so none pushed to it; or left behind */
    if (b->shard != v->shard || head->len != b->len || head->var != key->var || head->block != key->block)
        sim_fail(l->sim, "s%u holds a block that is not its own: variable %u block %u of %u", v->shard, key->var,
                 key->block, head->len);
    else if (!b->seen)
        ledger_block_first(l, b, arrays, head);
    else if (v->all || head->version != b->version || head->clock != b->clock)
        next_state(l, b, arrays, head);
    return !l->sim->failed;
}

static void
check_none_gone(struct ledger *l, uint32_t shard)
{
    for (uint32_t var = 0; var < l->model->vars_len; var++)
        for (uint32_t n = 0; n < l->vars[var].blocks_len; n++) {
            const struct block_state *b = &l->vars[var].blocks[n];

            if (b->shard == shard && b->seen && b->look != l->looks)
                sim_fail(l->sim, "%s is gone", ledger_block_name(l, b));
        }
}

static void
ledger_block_look(struct ledger *l, uint32_t shard, struct store *store, bool all)
{
    struct visit v = {l, shard, all};
    enum ps_err err;

    l->looks++;
    ledger_job_look(l, shard, store);
    ledger_settings_before(l, shard, store);
    ledger_assigns_look(l, shard, store);
    err = store->ops->each_block(store, find_newest, &v);
    ps_assert(err == PS_OK);
    err = store->ops->each_block(store, visit_newest, &v);
    ps_assert(err == PS_OK);
    check_none_gone(l, shard);
    ledger_settings_after(l, shard);
}

void
ledger_commit(struct ledger *l, uint32_t shard, struct store *store)
{
    if (ledger_restoring(l, shard, store))
        return;
    ledger_check_boot(l, shard, store, false);
    ledger_block_look(l, shard, store, false);
    ledger_tally_look(l, shard, store);
    if (l->config.evictions)
        ledger_evict_look(l, shard, store);
}

void
ledger_last(struct ledger *l, uint32_t shard, struct store *store)
{
    ledger_block_look(l, shard, store, true);
}

/* True when the id is new. */
static bool
know_id(struct ledger *l, uint32_t shard, uint32_t id, const char *name)
{
    struct id_table *t = &l->ids[shard];
    uint32_t var = 0;

    while (var < l->model->vars_len && strcmp(l->model->vars[var].name, name) != 0)
        var++;
    ps_assert(var < l->model->vars_len);
    while (t->len <= id) {
        t->var = sim_grow(t->var, &t->room, t->len, sizeof *t->var);
        t->var[t->len++] = 0;
    }
    if (t->var[id] == var + 1)
        return false;
    if (t->var[id] != 0)
        sim_fail(l->sim, "s%u calls two variables by the id %u", shard, id);
    t->var[id] = var + 1;
    return true;
}

void
ledger_know_id(struct ledger *l, uint32_t shard, uint32_t id, const char *name)
{
    (void)know_id(l, shard, id, name);
}

void
ledger_declared(struct ledger *l, uint32_t shard, uint32_t id, const char *name, struct store *store)
{
    if (know_id(l, shard, id, name))
        ledger_commit(l, shard, store);
}
