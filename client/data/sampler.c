/* The order of an epoch, and the slice of each batch that is this worker's.
 *
 * Every worker shuffles all rows by itself, from (seed, epoch) alone, so workers need not communicate, and a worker
 * that is restarted continues at any step. Shuffle: Fisher and Yates as in Durstenfeld, "Algorithm 235", CACM 1964;
 * numbers: Philox4x32-10, key = seed, counter = (block, epoch).
 *
 * Several threads may use one sampler, such as the replicas of a strategy: the first that asks for an epoch shuffles,
 * and the others wait for it. Two orders are kept, so that slices of one epoch stay while others of the next are asked
 * for. */
#include "client/include/psclient/ps_data.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/core/base/base.h"
#include "common/core/model/philox.h"

#define SAMPLER_ORDERS 2

struct sampler_order {
    uint64_t epoch;
    uint64_t asked;  /* number of the last request for it; 0: it is of no epoch yet */
    uint32_t *index; /* [rows] */
};

struct ps_sampler {
    uint64_t rows, seed;
    size_t batch;
    uint32_t workers, task;
    pthread_mutex_t lock; /* of what follows */
    uint64_t requests;
    struct sampler_order order[SAMPLER_ORDERS];
    uint32_t index[]; /* [SAMPLER_ORDERS * rows]; pages of an order that is not used are never touched */
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
sampler_shuffle(const ps_sampler *s, uint64_t epoch, uint32_t *order)
{
    struct sampler_stream stream = {.key = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)},
                                    .epoch = {(uint32_t)epoch, (uint32_t)(epoch >> 32)}};

    for (uint32_t i = 0; i < s->rows; i++)
        order[i] = i;
    for (uint32_t i = (uint32_t)s->rows - 1; i > 0; i--) {
        uint32_t j = stream_below(&stream, i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* The order of this epoch; where it is not there, in the place of the one that was not asked for longest. */
static const uint32_t *
sampler_order(ps_sampler *s, uint64_t epoch)
{
    struct sampler_order *oldest = &s->order[0];

    s->requests++;
    for (size_t i = 0; i < SAMPLER_ORDERS; i++) {
        struct sampler_order *o = &s->order[i];

        if (o->asked > 0 && o->epoch == epoch) {
            o->asked = s->requests;
            return o->index;
        }
        if (o->asked < oldest->asked)
            oldest = o;
    }
    sampler_shuffle(s, epoch, oldest->index);
    oldest->epoch = epoch;
    oldest->asked = s->requests;
    return oldest->index;
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
    if ((s = calloc(1, sizeof *s + SAMPLER_ORDERS * rows * sizeof s->index[0])) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "sampler: no memory for the order of %llu rows", (unsigned long long)rows);
    s->rows = rows;
    s->batch = (size_t)MIN(batch, rows);
    s->workers = workers;
    s->task = task;
    s->seed = seed;
    for (size_t i = 0; i < SAMPLER_ORDERS; i++)
        s->order[i].index = s->index + i * rows;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return PS_OK;
}

void
ps_sampler_free(ps_sampler *sampler)
{
    if (sampler != NULL)
        pthread_mutex_destroy(&sampler->lock);
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
    pthread_mutex_lock(&sampler->lock);
    slice.index = sampler_order(sampler, epoch);
    pthread_mutex_unlock(&sampler->lock);
    slice.global = (size_t)MIN(sampler->batch, sampler->rows - start);
    ps_shard_range(slice.global, sampler->workers, sampler->task, &first, &count);
    slice.index += start + first;
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
