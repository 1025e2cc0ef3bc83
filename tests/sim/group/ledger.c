/* The inputs of each operation of each group, and so its exact results, to the last bit. Values are small whole numbers
 * where they are floats, so their sums are exact in any order; integers wrap, but for their means, which are exact. A
 * mean of half types is rounded with each rank that adds to it: it is near the exact one, and the same on all ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/codec/half.h"
#include "tests/sim/group/world.h"

struct ledger_op {
    bool known[WORLD_MEMBERS_MAX];
    struct group_job job[WORLD_MEMBERS_MAX];
    void *given[WORLD_MEMBERS_MAX];
    uint8_t *result; /* of all ranks' elements, when it was asked for */
    uint8_t *got;    /* of a rounded mean that all ranks get: by the first of them */
};

struct ledger_group {
    struct ledger_group *next;
    uint64_t group;
    uint32_t ranks, joined;
    struct ledger_op *ops;
    size_t ops_len, ops_room;
};

struct ledger_group *
ledger_group(struct group_world *w, uint64_t group, uint32_t ranks)
{
    struct ledger_group *g = w->ledger;

    while (g != NULL && g->group != group)
        g = g->next;
    if (g != NULL)
        return g;
    g = sim_alloc(sizeof *g);
    *g = (struct ledger_group){.next = w->ledger, .group = group, .ranks = ranks};
    w->ledger = g;
    return g;
}

void
ledger_joins(struct ledger_group *g)
{
    g->joined++;
}

uint32_t
ledger_joined(const struct ledger_group *g)
{
    return g->joined;
}

static struct ledger_op *
op_at(struct ledger_group *g, uint32_t op)
{
    while (g->ops_len <= op) {
        g->ops = sim_grow(g->ops, &g->ops_room, g->ops_len, sizeof *g->ops);
        g->ops[g->ops_len++] = (struct ledger_op){0};
    }
    return &g->ops[op];
}

void
ledger_gives(struct group_world *w, struct ledger_group *g, uint32_t op, uint32_t rank, const struct group_job *j,
             const void *in)
{
    struct ledger_op *o = op_at(g, op);
    size_t bytes = job_in_bytes(j, g->ranks, rank);

    if (o->known[rank])
        sim_fail(&w->sim, "rank %u starts operation %u of a group twice", rank, op);
    o->known[rank] = true;
    o->job[rank] = *j;
    o->given[rank] = sim_alloc(bytes + 1);
    memcpy(o->given[rank], in, bytes);
}

/* ---- Arithmetic ---- */

static double
group_ledger_real(enum ps_dtype dtype, const void *at)
{
    uint16_t half;
    double d;
    float f;

    if (dtype == PS_F64) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    if (dtype == PS_F32) {
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    memcpy(&half, at, sizeof half);
    return (double)(dtype == PS_F16 ? half_to_float(half) : bfloat_to_float(half));
}

static void
put_real(enum ps_dtype dtype, double x, void *at)
{
    float f = (float)x;
    uint16_t half = dtype == PS_F16 ? half_from_float(f) : bfloat_from_float(f);

    if (dtype == PS_F64)
        memcpy(at, &x, sizeof x);
    else if (dtype == PS_F32)
        memcpy(at, &f, sizeof f);
    else
        memcpy(at, &half, sizeof half);
}

static int64_t
group_ledger_whole(enum ps_dtype dtype, const void *at)
{
    int32_t small;
    int64_t large;

    memcpy(&small, at, sizeof small);
    if (dtype == PS_I32)
        return small;
    memcpy(&large, at, sizeof large);
    return large;
}

static void
reduce_wholes(const struct ledger_op *o, const struct group_job *j, uint32_t ranks, size_t i, uint8_t *out)
{
    size_t size = ps_dtype_size(j->dtype);
    int64_t sum = group_ledger_whole(j->dtype, (const uint8_t *)o->given[0] + i * size);
    __int128 exact = sum;
    int32_t small;

    for (uint32_t r = 1; r < ranks; r++) {
        int64_t x = group_ledger_whole(j->dtype, (const uint8_t *)o->given[r] + i * size);

        exact += x;
        sum = j->reduce == PS_MIN   ? MIN(sum, x)
              : j->reduce == PS_MAX ? MAX(sum, x)
                                    : (int64_t)((uint64_t)sum + (uint64_t)x);
    }
    if (j->reduce == PS_MEAN)
        sum = (int64_t)(exact / (int32_t)ranks);
    small = (int32_t)(uint32_t)sum;
    memcpy(out + i * size, j->dtype == PS_I32 ? (void *)&small : (void *)&sum, size);
}

static void
reduce_reals(const struct ledger_op *o, const struct group_job *j, uint32_t ranks, size_t i, uint8_t *out)
{
    size_t size = ps_dtype_size(j->dtype);
    double sum = group_ledger_real(j->dtype, (const uint8_t *)o->given[0] + i * size);

    for (uint32_t r = 1; r < ranks; r++) {
        double x = group_ledger_real(j->dtype, (const uint8_t *)o->given[r] + i * size);

        sum = j->reduce == PS_MIN ? MIN(sum, x) : j->reduce == PS_MAX ? MAX(sum, x) : sum + x;
    }
    put_real(j->dtype, j->reduce == PS_MEAN ? sum / ranks : sum, out + i * size);
}

/* ---- Results ---- */

/* All ranks' elements, in the order of the ranks. */
static uint8_t *
whole_result(const struct ledger_group *g, struct ledger_op *o, const struct group_job *j)
{
    size_t size = ps_dtype_size(j->dtype);

    if (o->result != NULL)
        return o->result;
    o->result = sim_alloc(j->count * size + 1);
    for (size_t i = 0; i < j->count && j->kind != JOB_ALL_GATHER; i++)
        if (j->dtype == PS_I32 || j->dtype == PS_I64)
            reduce_wholes(o, j, g->ranks, i, o->result);
        else
            reduce_reals(o, j, g->ranks, i, o->result);
    for (uint32_t r = 0; r < g->ranks && j->kind == JOB_ALL_GATHER; r++)
        if (o->known[r])
            memcpy(o->result + ps_group_part_offset(j->count, g->ranks, r) * size, o->given[r],
                   job_in_bytes(j, g->ranks, r));
    return o->result;
}

/* Whether that rank must have started the same for this one's to end well: all have, whatever the operation and its
 * size; of messages those two that exchange them. */
static bool
depends_on(const struct group_job *j, uint32_t ranks, uint32_t rank, uint32_t other)
{
    if (j->kind == JOB_SHIFT)
        return other == (rank + ranks - 1) % ranks || other == (rank + 1) % ranks;
    return true;
}

static bool
same_job(const struct group_job *a, const struct group_job *b)
{
    return a->kind == b->kind && a->count == b->count && a->dtype == b->dtype && a->reduce == b->reduce &&
           a->root == b->root;
}

static const uint8_t *
group_ledger_expected(const struct ledger_group *g, struct ledger_op *o, const struct group_job *j, uint32_t rank)
{
    size_t size = ps_dtype_size(j->dtype);

    if (j->kind == JOB_BROADCAST)
        return o->given[j->root];
    if (j->kind == JOB_SHIFT)
        return o->given[(rank + g->ranks - 1) % g->ranks];
    return whole_result(g, o, j) +
           (j->kind == JOB_REDUCE_SCATTER ? ps_group_part_offset(j->count, g->ranks, rank) * size : 0);
}

static bool
is_rounded(const struct group_job *j)
{
    bool reduces = j->kind == JOB_ALL_REDUCE || j->kind == JOB_REDUCE_SCATTER || j->kind == JOB_REDUCE;

    return reduces && j->reduce == PS_MEAN && (j->dtype == PS_F16 || j->dtype == PS_BF16);
}

/* Of halves: no further from the exact mean than as many roundings as there are ranks. */
static bool
is_near(const struct group_job *j, uint32_t ranks, const uint8_t *is, const uint8_t *want)
{
    double x = group_ledger_real(j->dtype, is), exact = group_ledger_real(j->dtype, want);
    double step = j->dtype == PS_F16 ? 0x1p-11 : 0x1p-8;

    return fabs(x - exact) <= 4 * step * ranks;
}

static void
check_rounded(struct group_world *w, struct ledger_op *o, const struct group_job *j, uint32_t ranks, const uint8_t *is,
              const uint8_t *want, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 2)
        if (!is_near(j, ranks, is + i, want + i)) {
            sim_fail(&w->sim, "element %zu of a mean is %g, not %g", i / 2, group_ledger_real(j->dtype, is + i),
                     group_ledger_real(j->dtype, want + i));
            return;
        }
    if (j->kind != JOB_ALL_REDUCE)
        return;
    if (o->got == NULL)
        o->got = memcpy(sim_alloc(bytes + 1), is, bytes);
    else if (memcmp(o->got, is, bytes) != 0)
        sim_fail(&w->sim, "a mean of %zu elements is not the same on all ranks", j->count);
}

void
ledger_got(struct group_world *w, struct ledger_group *g, uint32_t op, uint32_t rank, const void *out)
{
    struct ledger_op *o = op_at(g, op);
    const struct group_job *j = &o->job[rank];
    size_t bytes = job_out_bytes(j, g->ranks, rank), size = ps_dtype_size(j->dtype);
    const uint8_t *want, *is = out;
    char what[120];

    for (uint32_t r = 0; r < g->ranks; r++) {
        if (!depends_on(j, g->ranks, rank, r))
            continue;
        if (!o->known[r] || !same_job(j, &o->job[r])) {
            sim_fail(&w->sim, "operation %u of group %llx ended well for rank %u, and rank %u has %s it (%s)", op,
                     (unsigned long long)g->group, rank, r, o->known[r] ? "started another in place of" : "not started",
                     job_text(j, what, sizeof what));
            return;
        }
    }
    if (bytes == 0)
        return;
    want = group_ledger_expected(g, o, j, rank);
    if (is_rounded(j) && g->ranks > 1) {
        check_rounded(w, o, j, g->ranks, is, want, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        if (is[i] != want[i]) {
            sim_fail(&w->sim,
                     "operation %u of group %llx (%s): rank %u of %u got %02x at byte %zu of element %zu, not %02x", op,
                     (unsigned long long)g->group, job_text(j, what, sizeof what), rank, g->ranks, is[i], i % size,
                     i / size, want[i]);
            return;
        }
}

void
ledger_finish(struct group_world *w)
{
    struct ledger_group *g;

    while ((g = w->ledger) != NULL) {
        w->ledger = g->next;
        for (size_t i = 0; i < g->ops_len; i++) {
            for (uint32_t r = 0; r < g->ranks; r++)
                free(g->ops[i].given[r]);
            free(g->ops[i].result);
            free(g->ops[i].got);
        }
        free(g->ops);
        free(g);
    }
}
