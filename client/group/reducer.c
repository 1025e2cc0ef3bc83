/* The public reducer: buckets (client/core/reduce/bucket.h) over a group's all-reduce (ps_group.h), or, where they
 * travel compressed, over its merge (client/group/merge.h), each an encoded sum of its own.
 *
 * Works end in any order but are freed in the order of their buckets: [freed, plan.next) are in flight. After the first
 * failure nothing more is started; what was, is waited for in finish(), which a failed group ends at once. */
#include "client/include/psclient/ps_reducer.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/reduce/bucket.h"
#include "client/core/reduce/encoded_sum.h"
#include "client/group/merge.h"
#include "client/group/tagged.h"
#include "common/core/codec/codec.h"

#define IN_FLIGHT_MAX 64 /* a quarter of PS_GROUP_WORKS_MAX: the rest is the program's */

struct ps_reducer {
    ps_group *group; /* NULL: alone */
    struct bucket_plan plan;
    enum ps_reduce reduce;
    float *fused;
    float **buffers;
    struct encoded_sum *sums; /* [plan.buckets]; NULL: gradients travel as they are */
    uint64_t sent, plain;     /* bytes */

    /* Of the step. */
    bool stepping, alone, went_well;
    ps_work **works;                 /* [plan.buckets]; NULL: not started, or freed */
    size_t freed;                    /* buckets before this one are done */
    struct ps_error failed, misused; /* code PS_OK: not */
    struct ps_error nonfinite;       /* a rank's gradient: the same on all of them, which go on until the end */
};

/* ---- Life ---- */

/* An encoded sum for each bucket. */
static enum ps_err
make_sums(struct ps_reducer *r, const struct ps_compress *how, struct ps_error *e)
{
    enum ps_err err;

    if ((err = codec_check(how, e)) != PS_OK || how->kind == PS_COMPRESS_NONE || r->group == NULL)
        return err;
    if ((r->sums = calloc(MAX(r->plan.buckets, 1), sizeof *r->sums)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "reducer: no memory for %zu buckets", r->plan.buckets);
    for (size_t k = 0; k < r->plan.buckets && err == PS_OK; k++)
        err = encoded_sum_init(&r->sums[k], r->plan.bucket[k].len, how, e);
    return err;
}

static enum ps_err
reducer_allocate(struct ps_reducer *r, struct ps_error *e)
{
    size_t bytes = MAX(r->plan.floats, 16) * sizeof *r->fused;

    r->fused = aligned_alloc(64, bytes);
    r->buffers = calloc(MAX(r->plan.params, 1), sizeof(*r->buffers));
    r->works = calloc(MAX(r->plan.buckets, 1), sizeof(*r->works));
    if (r->fused == NULL || r->buffers == NULL || r->works == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "reducer: no memory for gradients of %zu bytes", bytes);
    memset(r->fused, 0, bytes); /* what lies between parameters travels, too */
    for (size_t i = 0; i < r->plan.params; i++)
        r->buffers[i] = r->fused + r->plan.offset[i];
    return PS_OK;
}

enum ps_err
ps_reducer_new(ps_group *group, size_t n, const uint64_t *sizes, const struct ps_reducer_options *options,
               ps_reducer **out, struct ps_error *error)
{
    struct ps_reducer_options o = {0};
    struct ps_reducer *r = calloc(1, sizeof *r);
    enum ps_err err;

    if (r == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "reducer: no memory");
    if (options != NULL)
        o = *options;
    if (o.bucket_bytes == 0)
        o.bucket_bytes = PS_REDUCER_BUCKET_BYTES;
    if (o.first_bucket_bytes == 0)
        o.first_bucket_bytes = o.bucket_bytes == SIZE_MAX ? SIZE_MAX : MIN(PS_REDUCER_FIRST_BYTES, o.bucket_bytes);
    r->group = group;
    r->reduce = o.sum ? PS_SUM : PS_MEAN;
    if ((err = bucket_plan_init(&r->plan, n, sizes, o.first_bucket_bytes, o.bucket_bytes, error)) != PS_OK ||
        (err = reducer_allocate(r, error)) != PS_OK || (err = make_sums(r, &o.compress, error)) != PS_OK) {
        ps_reducer_free(r);
        return err;
    }
    *out = r;
    return PS_OK;
}

/* Let go of what was started, well or not. */
static void
free_works(struct ps_reducer *r)
{
    for (size_t k = 0; k < r->plan.buckets; k++) {
        ps_work_free(r->works[k]);
        r->works[k] = NULL;
    }
}

void
ps_reducer_free(ps_reducer *reducer)
{
    if (reducer == NULL)
        return;
    if (reducer->works != NULL)
        free_works(reducer);
    for (size_t k = 0; reducer->sums != NULL && k < reducer->plan.buckets; k++)
        encoded_sum_finish(&reducer->sums[k]);
    bucket_plan_finish(&reducer->plan);
    free(reducer->sums);
    free(reducer->fused);
    free(reducer->buffers);
    free(reducer->works);
    free(reducer);
}

float *const *
ps_reducer_buffers(const ps_reducer *reducer)
{
    return reducer->buffers;
}

size_t
ps_reducer_buckets(const ps_reducer *reducer)
{
    return reducer->plan.buckets;
}

/* ---- A step ---- */

/* The first failure of the step is its result. */
static void
reducer_fail(struct ps_reducer *r, enum ps_err err, const struct ps_error *why)
{
    if (r->failed.code != PS_OK)
        return;
    r->failed = *why;
    r->failed.code = err;
}

/* Bucket k has gone through the group: its sum is, or becomes, what its gradients are. */
static void
bucket_reduced(struct ps_reducer *r, size_t k)
{
    const struct bucket *b = &r->plan.bucket[k];
    uint32_t ranks = ps_group_ranks(r->group);
    uint64_t plain = 2 * (uint64_t)(ranks - 1) * b->len * sizeof(float) / ranks;
    struct ps_error why;
    enum ps_err err = PS_OK;

    r->plain += plain;
    r->sent += r->sums != NULL ? encoded_sum_bytes(&r->sums[k]) : plain;
    if (r->sums != NULL)
        err = encoded_sum_end(&r->sums[k], r->fused + b->offset, &why);
    if (err == PS_ERR_NONFINITE && r->nonfinite.code == PS_OK)
        r->nonfinite = why;
    else if (err != PS_OK && err != PS_ERR_NONFINITE)
        reducer_fail(r, err, &why);
}

/* Wait for the oldest in flight. A wait that ends while the work goes on is begun again: the work has a deadline of its
 * own, and ends with an error that says more. */
static void
wait_oldest(struct ps_reducer *r)
{
    struct ps_error why;
    enum ps_err err;

    do
        err = ps_work_wait(r->works[r->freed], -1, &why);
    while (err == PS_ERR_TIMEOUT && !ps_work_test(r->works[r->freed]));
    if (err == PS_ERR_TIMEOUT) /* of the wait, or of the work, which has ended by now */
        err = ps_work_wait(r->works[r->freed], 0, &why);
    if (err == PS_OK)
        bucket_reduced(r, r->freed);
    else
        reducer_fail(r, err, &why);
    ps_work_free(r->works[r->freed]);
    r->works[r->freed++] = NULL;
}

/* Ranks whose parameters lie otherwise in a bucket of the same length must not add them up; and buckets go in one
 * order. */
static uint64_t
reducer_tag(const struct ps_reducer *r, size_t k)
{
    return GROUP_TAG_HASH | (r->plan.hash + k);
}

static enum ps_err
reducer_merge(struct ps_reducer *r, size_t k, struct ps_error *why)
{
    struct encoded_sum *s = &r->sums[k];
    struct group_merge m = {.in = s->out,
                            .out = s->in,
                            .slot = s->slot,
                            .piece = s->piece,
                            .elements = s->count,
                            .reduce = r->reduce,
                            .encoding = s->how.kind,
                            .tag = reducer_tag(r, k),
                            .merge = encoded_sum_merge,
                            .arg = s};

    return group_merge_start(r->group, &m, &r->works[k], why);
}

static enum ps_err
all_reduce(struct ps_reducer *r, size_t k, struct ps_error *why)
{
    const struct bucket *b = &r->plan.bucket[k];
    float *at = r->fused + b->offset;

    if (r->sums != NULL)
        return reducer_merge(r, k, why);
    return group_tagged_all_reduce(r->group, reducer_tag(r, k), at, at, b->len, PS_F32, r->reduce, &r->works[k], why);
}

/* The program may have works of its own in flight: where they leave no room for one more, ours make some. */
static void
start_bucket(struct ps_reducer *r, size_t k)
{
    struct ps_error why;
    enum ps_err err = PS_ERR_LIMIT;

    if (r->failed.code == PS_OK && k - r->freed >= IN_FLIGHT_MAX)
        wait_oldest(r);
    if (r->failed.code == PS_OK && r->sums != NULL)
        encoded_sum_begin(&r->sums[k], r->fused + r->plan.bucket[k].offset, r->reduce);
    while (r->failed.code == PS_OK && (err = all_reduce(r, k, &why)) == PS_ERR_LIMIT && r->freed < k)
        wait_oldest(r);
    if (err != PS_OK)
        reducer_fail(r, err, &why);
}

/* A single rank: there is nothing to send. */
static void
keep_bucket(struct ps_reducer *r, size_t k)
{
    float *at = r->fused + r->plan.bucket[k].offset;
    struct ps_error why;

    if (r->sums != NULL && encoded_sum_alone(&r->sums[k], at, at, &why) != PS_OK && r->nonfinite.code == PS_OK)
        r->nonfinite = why;
}

static void
start_what_may_go(struct ps_reducer *r)
{
    size_t k;

    while (bucket_next(&r->plan, &k))
        (r->alone ? keep_bucket : start_bucket)(r, k);
}

/* Let the network move, and free what is done. */
static void
reducer_progress(struct ps_reducer *r)
{
    while (r->failed.code == PS_OK && !r->alone && r->freed < r->plan.next && ps_work_test(r->works[r->freed]))
        wait_oldest(r);
}

void
ps_reducer_settle(ps_reducer *reducer, int counted)
{
    for (size_t k = 0; reducer->sums != NULL && !reducer->stepping && k < reducer->plan.buckets; k++)
        encoded_sum_settle(&reducer->sums[k], counted != 0);
}

/* For the ranks that there are now. */
static enum ps_err
make_slots(struct ps_reducer *r, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (size_t k = 0; r->sums != NULL && !r->alone && k < r->plan.buckets && err == PS_OK; k++)
        err = encoded_sum_slots(&r->sums[k], ps_group_ranks(r->group), ps_group_rank(r->group), e);
    return err;
}

enum ps_err
ps_reducer_begin(ps_reducer *reducer, struct ps_error *error)
{
    struct ps_reducer *r = reducer;
    enum ps_err err;

    if (r->stepping)
        return ps_fail(error, PS_ERR_INVALID, "reducer: a step begins before the one before it was finished");
    if (r->group != NULL && (err = ps_group_state(r->group, error)) != PS_OK)
        return err;
    r->alone = r->group == NULL || ps_group_ranks(r->group) == 1;
    ps_reducer_settle(r, r->went_well);
    if ((err = make_slots(r, error)) != PS_OK)
        return err;
    r->stepping = true;
    r->freed = 0;
    r->failed.code = r->misused.code = r->nonfinite.code = PS_OK;
    bucket_begin(&r->plan);
    return PS_OK;
}

/* A parameter that was ready before, or is none: reported in the end, but the other parameters go on, and with them the
 * other ranks.
 */
static bool
may_be_ready(struct ps_reducer *r, size_t i)
{
    if (i < r->plan.params && !bucket_is_ready(&r->plan, i))
        return true;
    if (r->misused.code == PS_OK)
        ps_error_set(&r->misused, PS_ERR_INVALID, "reducer: parameter %zu is ready %s", i,
                     i < r->plan.params ? "for the second time" : "and is not there");
    return false;
}

void
ps_reducer_ready(void *reducer, size_t i)
{
    struct ps_reducer *r = reducer;

    if (!r->stepping || !may_be_ready(r, i))
        return;
    bucket_ready(&r->plan, i);
    start_what_may_go(r);
    reducer_progress(r);
}

/* Gradients that were not computed count as zeros. */
static void
ready_as_zeros(struct ps_reducer *r)
{
    for (size_t i = r->plan.params; i-- > 0;) {
        if (bucket_is_ready(&r->plan, i))
            continue;
        memset(r->buffers[i], 0, bucket_floats(&r->plan, i) * sizeof(float));
        bucket_ready(&r->plan, i);
        start_what_may_go(r);
    }
}

enum ps_err
ps_reducer_finish(ps_reducer *reducer, struct ps_error *error)
{
    struct ps_reducer *r = reducer;

    if (!r->stepping)
        return ps_fail(error, PS_ERR_INVALID, "reducer: no step was begun");
    ready_as_zeros(r);
    while (r->failed.code == PS_OK && !r->alone && r->freed < r->plan.next)
        wait_oldest(r);
    free_works(r);
    r->stepping = false;
    if (r->failed.code == PS_OK)
        r->failed = r->nonfinite;
    r->went_well = r->failed.code == PS_OK; /* for the others, too */
    if (r->went_well)
        r->failed = r->misused;
    if (error != NULL && r->failed.code != PS_OK)
        *error = r->failed;
    return r->failed.code;
}

void
ps_reducer_bytes(const ps_reducer *reducer, uint64_t *sent, uint64_t *plain)
{
    *sent = reducer->sent;
    *plain = reducer->plain;
}
