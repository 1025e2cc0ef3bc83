/* One pass over the parameters, last to first, makes the plan; counters keep the step. */
#include "client/core/reduce/bucket.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"

#define BUCKET_ALIGN      16 /* floats: 64 bytes */
#define BUCKET_FLOATS_MAX (SIZE_MAX / 64)

static enum ps_err
check_sizes(size_t params, const uint64_t *elements, struct ps_error *e)
{
    uint64_t sum = 0;

    if (params > UINT32_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "buckets: %zu parameters", params);
    for (size_t i = 0; i < params; i++) {
        if (elements[i] > BUCKET_FLOATS_MAX || (sum += round_up(elements[i], BUCKET_ALIGN)) > BUCKET_FLOATS_MAX)
            return ps_fail(e, PS_ERR_LIMIT, "buckets: the parameters from %zu on have too many elements", i);
    }
    return PS_OK;
}

/* The lists at the most that they can be: a bucket has at least one parameter. */
static bool
bucket_plan_allocate(struct bucket_plan *p, size_t params)
{
    size_t n = MAX(params, 1);

    p->offset = calloc(n, sizeof *p->offset);
    p->where = calloc(n, sizeof *p->where);
    p->bucket = calloc(n, sizeof *p->bucket);
    p->ready = calloc(n, sizeof *p->ready);
    p->missing = calloc(n, sizeof *p->missing);
    return p->offset != NULL && p->where != NULL && p->bucket != NULL && p->ready != NULL && p->missing != NULL;
}

/* Parameter i, which comes after all above it. */
static void
add_param(struct bucket_plan *p, size_t i, uint64_t elements)
{
    struct bucket *b = &p->bucket[p->buckets - 1];
    size_t floats = (size_t)round_up(elements, BUCKET_ALIGN);

    p->offset[i] = p->floats;
    p->where[i] = (uint32_t)(p->buckets - 1);
    p->floats += floats;
    b->len += floats;
    b->first = i;
}

static void
make_plan(struct bucket_plan *p, const uint64_t *elements, size_t first_bytes, size_t bytes)
{
    bool full = true;

    for (size_t i = p->params; i-- > 0;) {
        uint64_t words[2];

        if (full)
            p->bucket[p->buckets++] = (struct bucket){.offset = p->floats, .end = i + 1};
        add_param(p, i, elements[i]);
        words[0] = elements[i];
        words[1] = p->where[i];
        p->hash = placement_hash(words, sizeof words, p->hash);
        full = p->bucket[p->buckets - 1].len * sizeof(float) >= (p->buckets == 1 ? first_bytes : bytes);
    }
}

enum ps_err
bucket_plan_init(struct bucket_plan *p, size_t params, const uint64_t *elements, size_t first_bytes, size_t bytes,
                 struct ps_error *e)
{
    enum ps_err err;

    memset(p, 0, sizeof *p);
    ps_assert(first_bytes > 0 && bytes > 0);
    if ((err = check_sizes(params, elements, e)) != PS_OK)
        return err;
    if (!bucket_plan_allocate(p, params)) {
        bucket_plan_finish(p);
        return ps_fail(e, PS_ERR_NOMEM, "buckets: no memory for a plan of %zu parameters", params);
    }
    p->params = params;
    make_plan(p, elements, first_bytes, bytes);
    bucket_begin(p);
    return PS_OK;
}

void
bucket_plan_finish(struct bucket_plan *p)
{
    if (p == NULL)
        return;
    free(p->offset);
    free(p->where);
    free(p->bucket);
    free(p->ready);
    free(p->missing);
    memset(p, 0, sizeof *p);
}

size_t
bucket_floats(const struct bucket_plan *p, size_t i)
{
    ps_assert(i < p->params);
    return (i > 0 ? p->offset[i - 1] : p->floats) - p->offset[i];
}

/* ---- A step ---- */

void
bucket_begin(struct bucket_plan *p)
{
    memset(p->ready, 0, p->params * sizeof *p->ready);
    for (size_t k = 0; k < p->buckets; k++)
        p->missing[k] = p->bucket[k].end - p->bucket[k].first;
    p->next = 0;
}

void
bucket_ready(struct bucket_plan *p, size_t i)
{
    ps_assert(i < p->params && !p->ready[i] && p->missing[p->where[i]] > 0);
    p->ready[i] = true;
    p->missing[p->where[i]]--;
}

bool
bucket_is_ready(const struct bucket_plan *p, size_t i)
{
    ps_assert(i < p->params);
    return p->ready[i];
}

bool
bucket_next(struct bucket_plan *p, size_t *k)
{
    if (p->next == p->buckets || p->missing[p->next] > 0)
        return false;
    *k = p->next++;
    return true;
}

bool
bucket_all_taken(const struct bucket_plan *p)
{
    return p->next == p->buckets;
}
