/* Pushes, pulls, lives and barriers as the workers report them; committed states are ledger_block.c's. */
#include "tests/sim/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/ledger_state.h"

struct ledger *
ledger_new(struct sim *s, const struct sim_model *m, const struct ledger_config *config)
{
    struct ledger *l = sim_alloc(sizeof *l);

    l->sim = s;
    l->model = m;
    l->config = *config;
    l->reported_all = true;
    for (uint32_t v = 0; v < m->vars_len; v++) {
        l->vars[v].blocks_len = (uint32_t)m->vars[v].layout.blocks;
        l->vars[v].blocks = sim_alloc(l->vars[v].blocks_len * sizeof *l->vars[v].blocks);
        for (uint32_t b = 0; b < l->vars[v].blocks_len; b++)
            ledger_block_init(l, v, b);
    }
    ledger_settings_init(l);
    return l;
}

void
ledger_free(struct ledger *l)
{
    if (l == NULL)
        return;
    for (uint32_t v = 0; v < l->model->vars_len; v++) {
        for (uint32_t b = 0; b < l->vars[v].blocks_len; b++)
            ledger_block_finish(&l->vars[v].blocks[b]);
        free(l->vars[v].blocks);
        free(l->vars[v].pushes);
    }
    for (size_t i = 0; i < l->pulls_len; i++) {
        free(l->pulls[i].versions);
        free(l->pulls[i].assigns);
    }
    free(l->pulls);
    free(l->pushes);
    free(l->lives);
    free(l->barriers);
    free(l->sets);
    free(l->assigns);
    free(l->numbers);
    free(l->restored);
    for (uint32_t i = 0; i < MODEL_SHARDS_MAX; i++) {
        free(l->ids[i].var);
        free(l->over[i]);
    }
    free(l);
}

/* ---- Workers ---- */

void
ledger_starts(struct ledger *l, uint32_t task, uint32_t round)
{
    l->runs[task].started = round + 1;
}

uint32_t
ledger_join(struct ledger *l, uint32_t task, uint32_t round, uint64_t incarnation, uint64_t clock)
{
    l->runs[task].joined = round + 1;
    l->runs[task].from = clock;
    l->lives = sim_grow(l->lives, &l->lives_room, l->lives_len, sizeof *l->lives);
    l->lives[l->lives_len] = (struct ledger_life){.task = task, .round = round, .incarnation = incarnation};
    return (uint32_t)l->lives_len++;
}

void
ledger_welcomed(struct ledger *l, uint32_t shard, uint32_t task, uint64_t clock)
{
    l->floor[shard][task] = MAX(l->floor[shard][task], clock);
}

bool
ledger_all_joined(const struct ledger *l, uint64_t clock)
{
    uint32_t joined = 0, run = (uint32_t)(clock / l->model->steps) + 1;

    for (uint32_t task = 0; task < l->model->workers; task++) {
        const struct runs *runs = &l->runs[task];

        joined += runs->joined > run || (runs->joined == run && runs->from <= clock);
    }
    return joined == l->model->workers || l->model->quorum == l->model->workers;
}

void
ledger_leaves(struct ledger *l)
{
    l->leaves = true;
}

bool
ledger_anybody_leaves(const struct ledger *l)
{
    return l->leaves;
}

void
ledger_sits_out(struct ledger *l, uint32_t task, uint32_t round)
{
    l->runs[task] = (struct runs){.started = round + 1, .joined = round + 1, .finished = round + 1};
}

void
ledger_finished(struct ledger *l, uint32_t task, uint32_t round)
{
    l->runs[task].finished = round + 1;
}

void
ledger_lapsed(struct ledger *l, uint32_t task)
{
    l->counts.lapses++;
    l->lapsed[task] = true;
    if (!l->config.may_lapse)
        sim_fail(l->sim, "worker %u lapsed in a run without faults", task);
}

void
ledger_crashed(struct ledger *l, uint32_t shard)
{
    (void)shard;
    l->reported_all = false;
}

/* ---- Pushes ---- */

const char *
ledger_push_name(const struct ledger *l, uint32_t push, char *out, size_t size)
{
    const struct ledger_push *p = &l->pushes[push];

    snprintf(out, size, "push %u (w%u life %u, clock %" PRIu64 ", %s number %" PRIu64 ")", push, p->task, p->life,
             p->clock, l->model->vars[p->var].name, p->number);
    return out;
}

uint32_t
ledger_push(struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, uint32_t var, bool broken)
{
    struct var_state *v = &l->vars[var];
    uint32_t id = (uint32_t)l->pushes_len;

    l->pushes = sim_grow(l->pushes, &l->pushes_room, l->pushes_len, sizeof *l->pushes);
    v->pushes = sim_grow(v->pushes, &v->pushes_room, v->pushes_len, sizeof *v->pushes);
    l->pushes[l->pushes_len++] = (struct ledger_push){.task = task,
                                                      .life = life,
                                                      .clock = clock,
                                                      .var = var,
                                                      .number = v->pushes_len,
                                                      .broken = broken,
                                                      .started_us = l->sim->now_us};
    v->pushes[v->pushes_len++] = id;
    l->counts.pushes++;
    return id;
}

void
ledger_push_gradient(struct ledger *l, uint32_t push, float *out)
{
    const struct ledger_push *p = &l->pushes[push];
    const struct layout *layout = &l->model->vars[p->var].layout;

    model_gradient(l->model, p->var, p->number, out);
    if (!p->broken)
        return;
    for (uint64_t b = 0; b < layout->blocks; b++) {
        struct layout_block cut = layout_block(layout, b);
        out[cut.first + sim_below(l->sim, cut.len)] = __builtin_nanf("");
    }
}

void
ledger_push_norm(struct ledger *l, uint32_t push, double norm)
{
    l->pushes[push].norm = norm;
}

void
ledger_push_durable(struct ledger *l, uint32_t push)
{
    l->pushes[push].durable = true;
}

void
ledger_push_cursor(struct ledger *l, uint32_t push, const struct ps_cursor *cursor, uint64_t round)
{
    l->pushes[push].round = round;
    l->pushes[push].has_cursor = true;
    l->pushes[push].cursor = *cursor;
}

static enum push_outcome
outcome_of(const struct ledger_push *p, enum ps_err result)
{
    if (result == PS_OK)
        return PUSH_COUNTED;
    if (result == PS_ERR_CANCELLED || result == PS_ERR_UNSUPPORTED || (result == PS_ERR_NONFINITE && p->broken))
        return PUSH_NOT_COUNTED;
    return PUSH_UNKNOWN;
}

/* In sync a worker that comes back finds its earlier incarnation's gradient of this step in the sync step, and that one
 * stays: the task's gradient is counted, if not this one. */
static bool
same_step(const struct ledger *l, const struct ledger_push *earlier, const struct ledger_push *p)
{
    return l->model->mode == PS_SYNC && earlier->task == p->task && earlier->clock == p->clock &&
           earlier->life < p->life;
}

/* Another push was counted in its place; or was lost with the block that counted it. */
static bool
counted_for_it(const struct ledger *l, const struct block_state *b, const struct ledger_push *p)
{
    const struct var_state *v = &l->vars[p->var];

    for (size_t i = 0; i < v->pushes_len; i++) {
        const struct ledger_push *other = &l->pushes[v->pushes[i]];

        if (other == p || !(same_step(l, other, p) || ledger_same_example(other, p)))
            continue;
        if (ledger_block_version_of(b, other->number) != 0 || ledger_block_lost(b, other->number) ||
            (ledger_same_example(other, p) && ledger_excused(l, other)))
            return true;
    }
    return false;
}

/* The same of one that may be counted unseen, since an assign came over it. */
static bool
hidden_for_it(struct ledger *l, struct block_state *b, const struct ledger_push *p)
{
    const struct var_state *v = &l->vars[p->var];

    for (size_t i = 0; i < v->pushes_len; i++) {
        const struct ledger_push *other = &l->pushes[v->pushes[i]];

        if (other != p && (same_step(l, other, p) || ledger_same_example(other, p)) &&
            ledger_block_hides(l, b, other->number))
            return true;
    }
    return false;
}

/* Whether an acknowledged push that is not seen in the block is right not to be. */
static bool
unseen_is_right(struct ledger *l, struct block_state *b, const struct ledger_push *p)
{
    return ledger_block_lost(b, p->number) || counted_for_it(l, b, p) || ledger_block_hides(l, b, p->number) ||
           hidden_for_it(l, b, p);
}

static void
check_outcome(struct ledger *l, uint32_t id)
{
    const struct ledger_push *p = &l->pushes[id];
    char name[128];

    for (uint32_t b = 0; b < l->vars[p->var].blocks_len; b++) {
        struct block_state *block = &l->vars[p->var].blocks[b];
        bool known = ledger_block_tells(l, block, p->number);
        bool counted = ledger_block_version_of(block, p->number) != 0;

        if (!known)
            continue;
        if (p->outcome == PUSH_COUNTED && !counted && !unseen_is_right(l, block, p))
            sim_fail(l->sim, "%s was acknowledged and is not in block %u (version %" PRIu64 ")",
                     ledger_push_name(l, id, name, sizeof name), b, block->version);
        if (p->outcome == PUSH_NOT_COUNTED && counted)
            sim_fail(l->sim, "%s ended with %s and was counted in block %u", ledger_push_name(l, id, name, sizeof name),
                     ps_err_name(p->result), b);
    }
}

void
ledger_push_done(struct ledger *l, uint32_t push, enum ps_err result)
{
    struct ledger_push *p = &l->pushes[push];

    ps_assert(p->outcome == PUSH_OPEN);
    p->result = result;
    p->outcome = outcome_of(p, result);
    l->counts.unknown += p->outcome == PUSH_UNKNOWN;
    if (p->broken && result == PS_OK && !p->has_cursor) /* pushes of an earlier process are not looked at */
        sim_fail(l->sim, "a gradient with NaN was accepted");
    check_outcome(l, push);
}

/* ---- Pulls ---- */

uint32_t
ledger_pull(struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, uint32_t var, enum ledger_pull kind,
            uint32_t push)
{
    const struct var_state *v = &l->vars[var];
    struct ledger_pull_state *p;

    l->pulls = sim_grow(l->pulls, &l->pulls_room, l->pulls_len, sizeof *l->pulls);
    p = &l->pulls[l->pulls_len];
    *p = (struct ledger_pull_state){.task = task,
                                    .life = life,
                                    .clock = clock,
                                    .var = var,
                                    .kind = kind,
                                    .push = push,
                                    .started_us = l->sim->now_us,
                                    .versions = sim_alloc(v->blocks_len * sizeof *p->versions),
                                    .assigns = sim_alloc(v->blocks_len * sizeof *p->assigns)};
    for (uint32_t b = 0; b < v->blocks_len; b++)
        p->versions[b] = v->blocks[b].version;
    memcpy(p->epochs, l->epoch, sizeof p->epochs);
    return (uint32_t)l->pulls_len++;
}

/* The versions that a client believes to have: the least and the greatest of a variable's blocks. When a shard came
 * back older meanwhile it may have discarded those that it knew. */
struct believed {
    uint64_t lowest, highest;
    bool is_sure, has_lowest, has_highest, has_other;
};

/* Several versions may have the same bits. */
static void
believed_take(struct believed *v, const struct block_state *b, uint32_t epoch, uint64_t hash)
{
    v->has_lowest |= ledger_block_has(b, epoch, hash, v->lowest);
    v->has_highest |= ledger_block_has(b, epoch, hash, v->highest);
}

static const struct ledger_block_state *
believed_find(const struct believed *v, const struct block_state *b, uint32_t epoch, uint64_t hash, uint64_t committed)
{
    if (v->is_sure)
        return ledger_block_find(b, epoch, hash, v->lowest, v->highest);
    return ledger_block_find(b, epoch, hash, committed, UINT64_MAX);
}

/* versions[b] holds what was committed when the pull began; now, those that it got. */
static void
check_pulled_block(struct ledger *l, struct ledger_pull_state *p, uint32_t b, const float *values, struct believed *v)
{
    const struct block_state *block = &l->vars[p->var].blocks[b];
    uint64_t hash = ledger_hash(values, block->len);
    uint32_t epoch = p->epochs[block->shard];
    const struct ledger_block_state *got = believed_find(v, block, epoch, hash, p->versions[b]);

    if (got == NULL) {
        sim_fail(l->sim,
                 "w%u pulled a torn block: %s block %u is no version that was ever committed (first %g, last %g)",
                 p->task, l->model->vars[p->var].name, b, (double)values[0], (double)values[block->len - 1]);
        return;
    }
    if (got->version < p->versions[b] && got->born <= epoch)
        sim_fail(l->sim,
                 "w%u pulled %s block %u at version %" PRIu64 ", older than version %" PRIu64
                 " that was committed when the pull began",
                 p->task, l->model->vars[p->var].name, b, got->version, p->versions[b]);
    believed_take(v, block, epoch, hash);
    v->has_other |= got->version < v->lowest || got->version > v->highest;
    p->versions[b] = got->version;
    p->assigns[b] = got->assign;
}

/* Versions before and after a shard came back older are not of one order. */
static uint64_t
comparable_version(const struct block_state *b, const struct ledger_pull_state *p, uint64_t number)
{
    return ledger_block_epoch_of(b, number) > p->epochs[b->shard] ? 0 : ledger_block_version_of(b, number);
}

static void
check_pushed_value(struct ledger *l, const struct ledger_pull_state *p)
{
    const struct ledger_push *push = &l->pushes[p->push];
    char name[128];

    for (uint32_t b = 0; b < l->vars[p->var].blocks_len; b++) {
        const struct block_state *block = &l->vars[p->var].blocks[b];

        if (ledger_block_tells(l, block, push->number) && comparable_version(block, p, push->number) > p->versions[b])
            sim_fail(l->sim, "the value that came with %s is from before it (block %u)",
                     ledger_push_name(l, p->push, name, sizeof name), b);
    }
}

/* SSP holds back by the slowest of all workers, also of those that have not joined yet; they will begin where this run
 * of the job began. With faults an incarnation may have joined and lapsed without knowing it, and a goodbye may be
 * lost, so that the next run looks like the rest of this one. */
static void
check_begins_together(struct ledger *l, const struct ledger_pull_state *p)
{
    uint32_t round = l->lives[p->life].round;
    uint64_t begin = (uint64_t)l->model->steps * round;

    if (l->model->mode != PS_SSP || p->kind != LEDGER_PULL || (l->config.may_lapse && round > 0))
        return;
    for (uint32_t task = 0; task < l->model->workers; task++) {
        const struct runs *runs = &l->runs[task];

        if ((l->config.may_lapse ? runs->started : runs->joined) <= round && p->clock > begin + l->bound_max)
            sim_fail(l->sim, "w%u pulled at clock %" PRIu64 " of a run that began at %" PRIu64 " without w%u", p->task,
                     p->clock, begin, task);
    }
}

void
ledger_pulled(struct ledger *l, uint32_t pull, const float *values, uint64_t lowest, uint64_t highest)
{
    struct ledger_pull_state *p = &l->pulls[pull];
    const struct var_state *v = &l->vars[p->var];
    struct believed believed = {
        .lowest = lowest, .highest = highest, .is_sure = memcmp(p->epochs, l->epoch, sizeof p->epochs) == 0};
    uint64_t low = UINT64_MAX, high = 0;

    for (uint32_t b = 0; b < v->blocks_len && !l->sim->failed; b++) {
        check_pulled_block(l, p, b, values + v->blocks[b].first, &believed);
        low = MIN(low, p->versions[b]);
        high = MAX(high, p->versions[b]);
    }
    if (believed.is_sure && (!believed.has_lowest || !believed.has_highest || believed.has_other))
        sim_fail(l->sim, "w%u pulled %s: versions %" PRIu64 " to %" PRIu64 ", and believes %" PRIu64 " to %" PRIu64,
                 p->task, l->model->vars[p->var].name, low, high, lowest, highest);
    p->done = true;
    l->counts.pulls++;
    check_begins_together(l, p);
    if (p->kind == LEDGER_PUSHED)
        check_pushed_value(l, p);
}

/* ---- Barriers ---- */

void
ledger_barrier(struct ledger *l, uint32_t task, uint32_t number)
{
    while (l->barriers_len <= number) {
        l->barriers = sim_grow(l->barriers, &l->barriers_room, l->barriers_len, sizeof *l->barriers);
        l->barriers[l->barriers_len++] = (struct barrier_state){0};
    }
    l->barriers[number].came[task] = true;
}

/* A worker that was lost in the run before and comes back may be finishing that one after the others: a new run begins,
 * and waits for all, only where all had finished. */
static bool
all_finished_before(const struct ledger *l, uint32_t round)
{
    for (uint32_t task = 0; task < l->model->workers; task++)
        if (l->runs[task].finished < round)
            return false;
    return true;
}

/* A worker that was lost when it had finished (its goodbye was, too) and comes again belongs to the round that it was
 * lost in: the others have finished that, and it does not wait for them before one of them begins the next. */
void
ledger_barrier_passed(struct ledger *l, uint32_t task, uint32_t round, uint32_t number)
{
    if (!all_finished_before(l, round) || l->lapsed[task])
        return;
    for (uint32_t other = 0; other < l->model->workers; other++)
        if (!l->barriers[number].came[other] && !l->lapsed[other] && l->runs[other].finished <= round &&
            l->reported_all)
            sim_fail(l->sim, "w%u passed barrier %u before w%u came", task, number, other);
}

/* ---- At the end ---- */

/* True when this pull must hold this push, once it is known that the push was counted. */
static bool
must_hold(const struct ledger *l, uint32_t shard, const struct ledger_pull_state *p, const struct ledger_push *push)
{
    if (l->model->mode == PS_SYNC)
        return push->clock < p->clock;
    /* SSP: a reader sees at least all updates of clocks before its own minus the bound (Ho et al., 2013). One that
     * joins later starts at the slowest clock then, also when its own session was lost. */
    return l->model->mode == PS_SSP && MAX(push->clock, l->floor[shard][push->task]) + l->bound_max < p->clock;
}

static bool
must_not_hold(const struct ledger *l, const struct ledger_pull_state *p, const struct ledger_push *push)
{
    return l->model->mode == PS_SYNC && l->model->quorum == l->model->workers && !l->config.may_lapse &&
           !l->model->overlap && push->clock >= p->clock;
}

static void
check_pull_against(struct ledger *l, const struct ledger_pull_state *p, const struct ledger_push *push,
                   uint32_t push_id)
{
    char name[128];

    for (uint32_t b = 0; b < l->vars[p->var].blocks_len; b++) {
        uint64_t version = comparable_version(&l->vars[p->var].blocks[b], p, push->number);

        if (version == 0)
            continue;
        if (version > p->versions[b] && must_hold(l, l->vars[p->var].blocks[b].shard, p, push))
            sim_fail(l->sim,
                     "w%u's pull at clock %" PRIu64 " (from %" PRIu64 " ms, block %u at version %" PRIu64
                     ") lacks %s of version %" PRIu64,
                     p->task, p->clock, p->started_us / SIM_MS, b, p->versions[b],
                     ledger_push_name(l, push_id, name, sizeof name), version);
        if (version <= p->versions[b] && must_not_hold(l, p, push))
            sim_fail(l->sim,
                     "w%u's pull at clock %" PRIu64 " (from %" PRIu64 " ms, block %u at version %" PRIu64
                     ") holds %s of a later step",
                     p->task, p->clock, p->started_us / SIM_MS, b, p->versions[b],
                     ledger_push_name(l, push_id, name, sizeof name));
    }
}

static void
check_pull(struct ledger *l, const struct ledger_pull_state *p)
{
    const struct var_state *v = &l->vars[p->var];

    if (!p->done || p->kind != LEDGER_PULL || l->model->mode == PS_ASYNC)
        return;
    for (size_t i = 0; i < v->pushes_len && !l->sim->failed; i++)
        check_pull_against(l, p, &l->pushes[v->pushes[i]], v->pushes[i]);
}

void
ledger_final(struct ledger *l)
{
    for (uint32_t i = 0; i < l->pushes_len && !l->sim->failed; i++)
        check_outcome(l, i);
    for (size_t i = 0; i < l->pulls_len && !l->sim->failed; i++)
        check_pull(l, &l->pulls[i]);
    if (!l->sim->failed)
        ledger_assigns_final(l);
}

void
ledger_counts(const struct ledger *l, struct ledger_counts *out)
{
    *out = l->counts;
    out->lives = l->lives_len;
}
