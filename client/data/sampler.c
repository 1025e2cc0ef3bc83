/* The order of an epoch, and the slice of each batch that is this worker's.
 *
 * Every worker shuffles all rows by itself, from (seed, epoch) alone, so workers need not communicate, and a worker
 * that is restarted continues at any step. Shuffle: Fisher and Yates as in Durstenfeld, "Algorithm 235", CACM 1964;
 * numbers: Philox4x32-10, key = seed, counter = (block, epoch). */
#include "client/include/psclient/ps_data.h"

#include <stdlib.h>

#include "common/core/base/base.h"
#include "common/core/model/philox.h"

struct ps_sampler {
    uint64_t rows, seed, epoch;
    size_t batch;
    uint32_t workers, task;
    bool shuffled;    /* order is that of epoch */
    uint32_t order[]; /* [rows] */
};

/* 64-bit numbers, two from each Philox block. */
struct sampler_stream {
    uint32_t key[2], epoch[2], out[4];
    uint64_t block;
    bool second;
};

static uint64_t
stream_next(struct sampler_stream *s)
{
    uint32_t counter[4] = {(uint32_t)s->block, (uint32_t)(s->block >> 32), s->epoch[0], s->epoch[1]};

    if (s->second) {
        s->second = false;
        return s->out[2] | (uint64_t)s->out[3] << 32;
    }
    philox_4x32(counter, s->key, s->out);
    s->block++;
    s->second = true;
    return s->out[0] | (uint64_t)s->out[1] << 32;
}

/* 0 <= result < n: the high word of a 64 by 32 bit product, off from even by less than n / 2^64. */
static uint32_t
stream_below(struct sampler_stream *s, uint32_t n)
{
    uint64_t x = stream_next(s);

    return (uint32_t)(((x >> 32) * n + (((x & UINT32_MAX) * n) >> 32)) >> 32);
}

static void
sampler_shuffle(ps_sampler *s)
{
    struct sampler_stream stream = {.key = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)},
                                    .epoch = {(uint32_t)s->epoch, (uint32_t)(s->epoch >> 32)}};

    for (uint32_t i = 0; i < s->rows; i++)
        s->order[i] = i;
    for (uint32_t i = (uint32_t)s->rows - 1; i > 0; i--) {
        uint32_t j = stream_below(&stream, i + 1), kept = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = kept;
    }
    s->shuffled = true;
}

void
ps_shard_range(uint64_t n, uint32_t workers, uint32_t task, uint64_t *first, uint64_t *count)
{
    uint64_t each = n / workers, more = n % workers;

    ps_assert(task < workers);
    *first = each * task + MIN(task, more);
    *count = each + (task < more);
}

enum ps_err
ps_sampler_new(uint64_t rows, size_t batch, uint32_t workers, uint32_t task, uint64_t seed, ps_sampler **out,
               struct ps_error *error)
{
    ps_sampler *s;

    if (rows == 0 || batch == 0 || task >= workers)
        return ps_fail(error, PS_ERR_INVALID, "sampler: %llu rows, batches of %zu, worker %u of %u",
                       (unsigned long long)rows, batch, task, workers);
    if (rows > UINT32_MAX)
        return ps_fail(error, PS_ERR_LIMIT, "sampler: %llu rows; at most %u", (unsigned long long)rows, UINT32_MAX);
    if ((s = calloc(1, sizeof *s + rows * sizeof s->order[0])) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "sampler: no memory for the order of %llu rows", (unsigned long long)rows);
    s->rows = rows;
    s->batch = (size_t)MIN(batch, rows);
    s->workers = workers;
    s->task = task;
    s->seed = seed;
    *out = s;
    return PS_OK;
}

void
ps_sampler_free(ps_sampler *sampler)
{
    free(sampler);
}

uint64_t
ps_sampler_steps(const ps_sampler *sampler)
{
    return (sampler->rows + sampler->batch - 1) / sampler->batch;
}

size_t
ps_sampler_slice_max(const ps_sampler *sampler)
{
    uint64_t first, count;

    ps_shard_range(sampler->batch, sampler->workers, sampler->task, &first, &count);
    return (size_t)count;
}

struct ps_slice
ps_sampler_slice(ps_sampler *sampler, uint64_t epoch, uint64_t step)
{
    struct ps_slice slice = {0};
    uint64_t start = step * sampler->batch, first, count;

    ps_assert(step < ps_sampler_steps(sampler));
    if (!sampler->shuffled || sampler->epoch != epoch) {
        sampler->epoch = epoch;
        sampler_shuffle(sampler);
    }
    slice.global = (size_t)MIN(sampler->batch, sampler->rows - start);
    ps_shard_range(slice.global, sampler->workers, sampler->task, &first, &count);
    slice.index = sampler->order + start + first;
    slice.count = (size_t)count;
    return slice;
}

float
ps_slice_scale_sum(const struct ps_slice *slice)
{
    return 1 / (float)slice->global;
}

float
ps_slice_scale_mean(const struct ps_slice *slice, uint32_t workers)
{
    return (float)workers / (float)slice->global;
}
