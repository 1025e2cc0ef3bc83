/* A member's training. A group first agrees where to go on: which members were in the latest group (WHO), and the step
 * of the slowest of those (WHERE). A step is a message on whether a worker waits at the rendezvous, and some operations
 * that the step's number decides, started one after the other while earlier ones are under way. After the last step all
 * close together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/group/world.h"

struct task_work {
    struct group_job job;
    struct group_work *work[2]; /* a SHIFT has two */
    uint32_t op;
    uint8_t *memory, *in, *out;
    size_t bytes;
    uint64_t started_us;
};

#define LATE_US (3 * SIM_SECOND)

static struct sim *
sim_of(const struct world_member *m)
{
    return &m->world->sim;
}

/* ---- Operations ---- */

static size_t
part_bytes(const struct group_job *j, uint32_t ranks, uint32_t rank)
{
    return ps_group_part(j->count, ranks, rank) * ps_dtype_size(j->dtype);
}

size_t
job_in_bytes(const struct group_job *j, uint32_t ranks, uint32_t rank)
{
    if (j->kind == JOB_BARRIER)
        return 0;
    return j->kind == JOB_ALL_GATHER ? part_bytes(j, ranks, rank) : j->count * ps_dtype_size(j->dtype);
}

size_t
job_out_bytes(const struct group_job *j, uint32_t ranks, uint32_t rank)
{
    if (j->kind == JOB_BARRIER || (j->kind == JOB_REDUCE && rank != j->root) || (j->kind == JOB_SHIFT && ranks == 1))
        return 0;
    return j->kind == JOB_REDUCE_SCATTER ? part_bytes(j, ranks, rank) : j->count * ps_dtype_size(j->dtype);
}

const char *
job_text(const struct group_job *j, char *out, size_t size)
{
    static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                        "reduce",     "barrier",        "shift"};

    snprintf(out, size, "%s of %zu %s, reduction %d, root %u", names[j->kind], j->count, ps_dtype_name(j->dtype),
             j->reduce, j->root);
    return out;
}

/* The step's k-th; the same for all, so drawn from its number. */
static struct group_job
draw_job(const struct world_member *m, uint32_t k)
{
    static const enum ps_dtype dtypes[] = {PS_F32, PS_F32, PS_I32, PS_I64, PS_F16, PS_BF16, PS_F64};
    uint64_t state = m->world->jobs_seed ^ ((uint64_t)m->step << 8 | k), bits = sim_mix(&state);
    struct group_job j = {.kind = (enum job_kind)(bits % (JOB_SHIFT + 1)),
                          .dtype = dtypes[(bits >> 8) % ARRAY_LEN(dtypes)]};
    uint64_t size = sim_mix(&state) % 4;

    if ((bits >> 16) % 2 == 0)
        j.kind = JOB_ALL_REDUCE;
    j.reduce = (enum ps_reduce)((bits >> 24) % (PS_MAX + 1));
    j.root = (uint32_t)((bits >> 32) % m->now->ranks);
    j.count = (size_t)(sim_mix(&state) % (size == 0 ? 20 : m->world->count_max));
    if (j.kind == JOB_BARRIER)
        j.count = 0;
    return j;
}

static uint32_t
jobs_of_step(const struct world_member *m)
{
    uint64_t state = m->world->jobs_seed ^ (uint64_t)m->step << 20;

    return 1 + 1 + (uint32_t)(sim_mix(&state) % (WORLD_OPS_MAX - 1));
}

/* Small whole numbers: sums of floats are exact, in any order. */
static void
group_script_fill(struct world_member *m, const struct group_job *j, void *to, size_t bytes)
{
    static const uint16_t halves[] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0xbc00, 0xc000, 0xc200}; /* 0 to 4, ... */
    static const uint16_t bfloats[] = {0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0xbf80, 0xc000, 0xc040}; /* -1 to -3 */
    size_t size = ps_dtype_size(j->dtype);
    uint64_t state = sim_rand(sim_of(m));

    for (size_t i = 0; i < bytes / size; i++) {
        uint64_t bits = sim_mix(&state);
        double d = (double)(bits % 201) - 100;
        float f = (float)d;
        uint8_t *at = (uint8_t *)to + i * size;

        if (j->dtype == PS_F32)
            memcpy(at, &f, size);
        else if (j->dtype == PS_F64)
            memcpy(at, &d, size);
        else if (j->dtype == PS_F16)
            memcpy(at, &halves[bits % 8], size);
        else if (j->dtype == PS_BF16)
            memcpy(at, &bfloats[bits % 8], size);
        else
            memcpy(at, &bits, size);
    }
}

/* In place every other time. */
static void
make_buffers(struct world_member *m, struct task_work *t)
{
    const struct epoch *e = m->now;
    size_t in = job_in_bytes(&t->job, e->ranks, e->rank), out = job_out_bytes(&t->job, e->ranks, e->rank);
    size_t at = ps_group_part_offset(t->job.count, e->ranks, e->rank) * ps_dtype_size(t->job.dtype);
    bool in_place =
        t->job.kind == JOB_BROADCAST || (t->job.kind != JOB_SHIFT && out > 0 && in > 0 && sim_chance(sim_of(m), 500));

    t->bytes = in + out + 64;
    t->memory = sim_alloc(t->bytes);
    t->in = t->memory + (in_place && t->job.kind == JOB_ALL_GATHER ? at : 0);
    t->out = in_place ? t->memory + (t->job.kind == JOB_REDUCE_SCATTER ? at : 0) : t->memory + round_up(in, 16);
}

static void
works_need_room(struct world_member *m)
{
    if (m->works == NULL)
        m->works = sim_alloc((1 + WORLD_OPS_MAX) * sizeof *m->works);
}

/* ---- Starting ---- */

static uint8_t
plan_op_of(enum job_kind kind)
{
    static const uint8_t ops[] = {[JOB_ALL_REDUCE] = PLAN_ALL_REDUCE, [JOB_REDUCE_SCATTER] = PLAN_REDUCE_SCATTER,
                                  [JOB_ALL_GATHER] = PLAN_ALL_GATHER, [JOB_BROADCAST] = PLAN_BROADCAST,
                                  [JOB_REDUCE] = PLAN_REDUCE,         [JOB_BARRIER] = PLAN_BARRIER};

    return ops[kind];
}

static enum ps_err
start_one(struct world_member *m, struct task_work *t, uint8_t op, uint32_t root, int k)
{
    struct group_request ask = {.op = op,
                                .in = t->in,
                                .out = op == PLAN_KEY_SEND ? NULL : t->out,
                                .count = t->job.count,
                                .dtype = t->job.dtype,
                                .reduce = t->job.reduce,
                                .root = root};
    struct ps_error e;
    enum ps_err err = group_core_start(m->now->core, &ask, sim_of(m)->now_us / SIM_MS, &t->work[k], &e);

    if (err != PS_OK && group_core_state(m->now->core, NULL) == PS_OK)
        sim_fail(sim_of(m), "t%u cannot start an operation: %s", m->task, e.text);
    return err;
}

/* An operation of the group, or a send and a receive. Not started: the group has failed, which a turn will see. */
static void
group_script_start(struct world_member *m, struct task_work *t)
{
    struct epoch *e = m->now;
    char what[120];

    sim_trace(sim_of(m), "t%u op %u of group %llu: %s", m->task, t->op, (unsigned long long)e->number,
              job_text(&t->job, what, sizeof what));
    t->started_us = sim_of(m)->now_us;
    if (t->job.kind != JOB_SHIFT)
        (void)start_one(m, t, plan_op_of(t->job.kind), t->job.root, 0);
    else if (e->ranks > 1 && start_one(m, t, PLAN_KEY_SEND, (e->rank + 1) % e->ranks, 0) == PS_OK)
        (void)start_one(m, t, PLAN_KEY_RECEIVE, (e->rank + e->ranks - 1) % e->ranks, 1);
    member_look(m);
    epoch_perform(e);
}

/* Another job than the others start: it differs in one thing. False: in the one that was drawn it cannot. */
static bool
make_other(struct world_member *m, struct group_job *j)
{
    bool reduces = j->kind == JOB_ALL_REDUCE || j->kind == JOB_REDUCE_SCATTER || j->kind == JOB_REDUCE;
    uint32_t ranks = m->now->ranks;

    switch (sim_below(sim_of(m), 5)) {
    case 0:
        j->count += 1 + sim_below(sim_of(m), 3);
        return j->kind != JOB_BARRIER;
    case 1:
        j->dtype = j->dtype == PS_F32 ? PS_I32 : PS_F32;
        return j->kind != JOB_BARRIER;
    case 2:
        j->reduce = (enum ps_reduce)((j->reduce + 1) % (PS_MAX + 1));
        return reduces;
    case 3:
        j->root = (j->root + 1) % ranks;
        return ranks > 1 && (j->kind == JOB_BROADCAST || j->kind == JOB_REDUCE);
    default:
        if (j->kind == JOB_SHIFT)
            return false;
        j->kind = (enum job_kind)((j->kind + 1) % JOB_SHIFT);
        if (j->kind == JOB_BARRIER)
            j->count = 0;
        return true;
    }
}

/* A job with its data, in the next place. */
static struct task_work *
group_script_add(struct world_member *m, const struct group_job *j, const void *in)
{
    struct task_work *t = &m->works[m->jobs++];
    struct group_job other = *j;

    *t = (struct task_work){.job = *j, .op = m->ops++};
    if (m->other && make_other(m, &other)) {
        t->job = other;
        m->other = false;
        chaos_other(m->world, m->task, j->kind == JOB_SHIFT);
        sim_trace(sim_of(m), "t%u starts another operation than the others", m->task);
        in = NULL;
    }
    make_buffers(m, t);
    if (in != NULL)
        memcpy(t->in, in, job_in_bytes(&t->job, m->now->ranks, m->now->rank));
    else
        group_script_fill(m, &t->job, t->in, job_in_bytes(&t->job, m->now->ranks, m->now->rank));
    ledger_gives(m->world, m->now->ledger, t->op, m->now->rank, &t->job, t->in);
    group_script_start(m, t);
    return t;
}

static void
plan_next(struct world_member *m)
{
    struct sim *s = sim_of(m);
    uint64_t think = sim_chance(s, 800) ? 500 : m->world->think_us;

    sim_in(s, &m->start, sim_below(s, think + 1));
}

static void
group_script_agree(struct world_member *m)
{
    int64_t word = m->phase == SCRIPT_WHO ? m->trained : m->step;

    group_script_add(
        m, &(struct group_job){.count = 1, .dtype = PS_I64, .reduce = m->phase == SCRIPT_WHO ? PS_MAX : PS_MIN}, &word);
}

void
script_start_next(struct world_member *m)
{
    int32_t waits = group_rendezvous_waits(&m->world->rendezvous);
    struct group_job j;

    if (group_core_state(m->now->core, NULL) != PS_OK)
        return;
    switch (m->phase) {
    case SCRIPT_WHO:
    case SCRIPT_WHERE:
        group_script_agree(m);
        return;
    case SCRIPT_CLOSE:
        group_script_add(m, &(struct group_job){.kind = JOB_BARRIER}, NULL);
        return;
    case SCRIPT_STEP:
        if (m->jobs == 0) {
            group_script_add(m, &(struct group_job){.count = 1, .dtype = PS_I32, .reduce = PS_MAX}, &waits);
        } else {
            j = draw_job(m, m->jobs);
            group_script_add(m, &j, NULL);
        }
        if (m->jobs < jobs_of_step(m))
            plan_next(m);
    }
}

void
script_begin(struct world_member *m)
{
    works_need_room(m);
    m->jobs = 0;
    m->ops = 0;
    m->phase = SCRIPT_WHO;
    m->leaving = m->waited = m->closed = false;
    plan_next(m);
}

/* ---- Ending ---- */

/* After an operation its memory is the caller's again. It is kept for a while, full of POISON: a late read sends that,
 * and a late write is found. */
#define POISON 0xee

static void
grave_open(struct world_member *m, uint32_t i)
{
    const uint8_t *memory = m->grave[i].memory;

    for (size_t k = 0; memory != NULL && k < m->grave[i].bytes; k++)
        if (memory[k] != POISON) {
            sim_fail(sim_of(m), "t%u: byte %zu of %zu was written after its operation was over", m->task, k,
                     m->grave[i].bytes);
            break;
        }
    free(m->grave[i].memory);
    m->grave[i].memory = NULL;
}

static void
group_script_forget(struct world_member *m, struct task_work *t)
{
    if (t->memory != NULL) {
        memset(t->memory, POISON, t->bytes);
        grave_open(m, m->graves);
        m->grave[m->graves].memory = t->memory;
        m->grave[m->graves].bytes = t->bytes;
        m->graves = (m->graves + 1) % MEMBER_GRAVES;
    }
    *t = (struct task_work){0};
}

static bool
group_script_ended(const struct task_work *t)
{
    return (t->work[0] == NULL || group_work_done(t->work[0])) && (t->work[1] == NULL || group_work_done(t->work[1]));
}

/* Its result; its works are given back. */
static enum ps_err
group_script_collect(struct world_member *m, struct task_work *t)
{
    bool pair = t->job.kind == JOB_SHIFT && m->now->ranks > 1;
    enum ps_err err = t->work[pair] == NULL ? group_core_state(m->now->core, NULL) : PS_OK, one;
    struct ps_error e;

    for (int k = 0; k < 2; k++) {
        if (t->work[k] == NULL)
            continue;
        if ((one = group_work_result(m->now->core, t->work[k], &e)) != PS_OK)
            err = one;
        group_work_free(m->now->core, t->work[k]);
    }
    return err;
}

static void
check_time(struct world_member *m, const struct task_work *t)
{
    struct group_world *w = m->world;
    uint64_t now = sim_of(m)->now_us, limit = w->timeout_ms * SIM_MS * 5 / 4 + LATE_US;

    if (w->options->lie == GROUP_LIE_LATE_WORD)
        now += limit;
    if (now - t->started_us > limit + chaos_stalled_us(w, m->task, t->started_us, now))
        sim_fail(sim_of(m), "t%u: an operation ended %llu ms after it was started", m->task,
                 (unsigned long long)((now - t->started_us) / SIM_MS));
}

static void
came_out(struct world_member *m, struct task_work *t)
{
    int64_t word;

    if (m->world->options->lie == GROUP_LIE_STALE && m->phase == SCRIPT_STEP && t->job.count > 100)
        t->out[0] ^= 1;
    ledger_got(m->world, m->now->ledger, t->op, m->now->rank, t->out);
    if (m->phase == SCRIPT_WHO) {
        memcpy(&word, t->out, sizeof word);
        if (word != m->trained)
            m->step = INT64_MAX; /* others have gone on without it */
    } else if (m->phase == SCRIPT_WHERE) {
        memcpy(&word, t->out, sizeof word);
        word = word == INT64_MAX ? 0 : word;
        if (m->step != INT64_MAX && (m->step < word || m->step > word + 1))
            sim_fail(sim_of(m), "t%u goes from step %lld to step %lld", m->task, (long long)m->step, (long long)word);
        m->step = word;
        m->trained = (int64_t)m->now->number;
    } else if (m->phase == SCRIPT_STEP && t == &m->works[0]) {
        int32_t waits;

        memcpy(&waits, t->out, sizeof waits);
        m->waited = waits != 0;
    }
}

static void
next_phase(struct world_member *m)
{
    for (uint32_t i = 0; i < m->jobs; i++)
        group_script_forget(m, &m->works[i]);
    m->jobs = 0;
    m->closed = m->phase == SCRIPT_CLOSE;
    if (m->closed)
        return; /* group_member.c sees it */
    if (m->phase == SCRIPT_STEP) {
        m->step++;
        m->world->steps_done++;
    } else {
        m->phase++;
    }
    if (m->phase == SCRIPT_STEP && m->step >= m->world->steps)
        m->phase = SCRIPT_CLOSE; /* no other member is waited for any more */
    m->leaving = m->phase == SCRIPT_STEP && m->waited;
    if (!m->leaving)
        plan_next(m);
}

static uint32_t
jobs_wanted(const struct world_member *m)
{
    return m->phase == SCRIPT_STEP ? jobs_of_step(m) : 1;
}

/* Those that have ended, in the order of a wait for each; ps_group.h lets one wait in any. */
bool
script_turn(struct world_member *m, struct ps_error *e)
{
    bool failed = group_core_state(m->now->core, e) != PS_OK, all = m->jobs > 0 && m->jobs == jobs_wanted(m);

    for (uint32_t i = 0; i < m->jobs; i++) {
        struct task_work *t = &m->works[i];

        if (t->memory == NULL)
            continue;
        if (!group_script_ended(t)) {
            all = false;
            if (failed)
                sim_fail(sim_of(m), "t%u: the group has failed, and an operation goes on", m->task);
            continue;
        }
        check_time(m, t);
        if (group_script_collect(m, t) == PS_OK) {
            m->world->good++;
            came_out(m, t);
        } else {
            m->world->bad++;
            all = false;
        }
        group_script_forget(m, t);
    }
    if (failed) {
        sim_cancel(sim_of(m), &m->start);
        script_drop(m);
        return false;
    }
    if (all)
        next_phase(m);
    return true;
}

void
script_drop(struct world_member *m)
{
    for (uint32_t i = 0; m->works != NULL && i < 1 + WORLD_OPS_MAX; i++)
        free(m->works[i].memory);
    free(m->works);
    m->works = NULL;
    m->jobs = 0;
}

void
script_finish(struct world_member *m)
{
    script_drop(m);
    for (uint32_t i = 0; i < MEMBER_GRAVES; i++)
        grave_open(m, i);
}
