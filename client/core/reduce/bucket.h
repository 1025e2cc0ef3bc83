/* Gradients in buckets: which parameters travel together, where they lie, and which bucket may go when. Pure.
 *
 *     bucket_plan_init(&plan, params, elements, first_bytes, bytes, &error);
 *     float *fused = ...;                     // [plan.floats]; gradient i is written at fused + plan.offset[i]
 *     for each step:
 *         bucket_begin(&plan);
 *         for each parameter i whose gradient is whole:
 *             bucket_ready(&plan, i);
 *             while (bucket_next(&plan, &k))
 *                 ...                         // fused + plan.bucket[k].offset, [plan.bucket[k].len], may go
 *
 * A backward pass has the last parameters' gradients first. So parameters are taken from the last to the first, and
 * lie in memory in that order, each at a 64-byte boundary: a bucket is one piece of memory, and buckets follow each
 * other (Li et al., "PyTorch Distributed", VLDB 2020, section 4.2). A bucket is closed by the parameter that fills it:
 * it holds at least its limit, unless it is the last, and a parameter larger than that ends one by itself. The first
 * bucket has a limit of its own, a small one: it is on its way sooner.
 *
 * The plan follows from its arguments alone, and buckets go in their order whatever the order in which parameters
 * become ready: so every rank that asks for the same starts the same operations in the same order. */
#ifndef CLIENT_CORE_REDUCE_BUCKET_H
#define CLIENT_CORE_REDUCE_BUCKET_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct bucket {
    size_t offset, len; /* floats, those between its parameters and behind its last one among them */
    size_t first, end;  /* its parameters: end - 1 down to first */
};

struct bucket_plan {
    size_t params, buckets, floats;
    uint64_t hash;   /* of the parameters' sizes in their order, and of which bucket each is in */
    size_t *offset;  /* [params], floats: a multiple of 16 */
    uint32_t *where; /* [params]: its bucket */
    struct bucket *bucket;

    /* Of the step. */
    bool *ready;     /* [params] */
    size_t *missing; /* [buckets]: parameters that are not ready */
    size_t next;     /* bucket to go */
};

/* elements: [params], each at most SIZE_MAX / 64; first_bytes and bytes at least 1. The floats between parameters are
 * part of what travels: the memory's owner sets them to 0 once. LIMIT: more than SIZE_MAX / 64 floats or 2^32 - 1
 * parameters; NOMEM. */
enum ps_err bucket_plan_init(struct bucket_plan *p, size_t params, const uint64_t *elements, size_t first_bytes,
                             size_t bytes, struct ps_error *e) PS_MUST_USE;
void bucket_plan_finish(struct bucket_plan *p); /* accepts NULL and zeroed */

/* Of parameter i, with those behind it that are there to reach the next boundary. */
size_t bucket_floats(const struct bucket_plan *p, size_t i);

/* A new step: no parameter is ready. The one before need not have ended. */
void bucket_begin(struct bucket_plan *p);

/* Parameter i < params is ready; it was not before. */
void bucket_ready(struct bucket_plan *p, size_t i);
bool bucket_is_ready(const struct bucket_plan *p, size_t i);

/* The next bucket in order, once all of its parameters and all buckets before it are ready: each once in a step. */
bool bucket_next(struct bucket_plan *p, size_t *k);

/* Every bucket has gone. */
bool bucket_all_taken(const struct bucket_plan *p);

#endif
