/* The replicas of this process: their devices, their part of each step, and the sum of their gradients. */
#include <stdlib.h>
#include <string.h>

#include "client/include/psclient/ps_data.h"
#include "client/network/network.h"
#include "client/strategy/device_resident.h"
#include "client/strategy/replica_threads.h"
#include "client/strategy/strategy.h"
#include "common/core/base/comma_list.h"
#include "common/core/optimizer/optimizer.h"

#define SLICE_ALIGN ((uint64_t)16) /* floats: a cache line */

/* ---- Devices ---- */

/* Name number i of the list, from 0 on, which begins again where it ends. */
static void
device_name(const char *list, uint32_t i, char *name, size_t size)
{
    const char *at = list;

    for (i = i % comma_list_len(list) + 1; i > 0; i--)
        (void)comma_list_next(&at, name, size);
}

static enum ps_err
open_devices(ps_strategy *s, struct ps_error *e)
{
    const struct ps_strategy_options *o = &s->options;
    struct ps_device_options options = {.threads = o->threads,
                                        .precision = o->precision,
                                        .workers = (int)MIN((uint64_t)s->devices_len * o->neighbours, 1u << 20)};
    enum ps_err err = PS_OK;
    char name[64];

    for (uint32_t i = 0; i < s->devices_len && err == PS_OK; i++) {
        device_name(o->devices, i, name, sizeof name);
        err = ps_device_open(name, &options, &s->devices[i], e);
    }
    return err;
}

enum ps_err
strategy_open_replicas(ps_strategy *s, struct ps_error *e)
{
    enum ps_err err = open_devices(s, e);

    for (uint32_t k = 0; k < s->replicas && err == PS_OK; k++) {
        struct strategy_replica *r = &s->replica[k];

        r->device = s->devices[s->devices_len > 1 ? k : 0];
        r->seen = (struct ps_replica){.local = k, .device = r->device, .metrics = r->metrics, .strategy = s};
    }
    return err == PS_OK ? replica_threads_new(s->devices_len, &s->threads, e) : err;
}

void
strategy_close_replicas(ps_strategy *s)
{
    replica_threads_free(s->threads);
    for (uint32_t i = 0; i < s->devices_len; i++)
        ps_device_close(s->devices[i]);
}

/* ---- A step ---- */

static void
replicas_assign_slices(ps_strategy *s)
{
    uint64_t batch = MIN(s->options.batch, s->options.rows), number = s->next % s->steps_each,
             global = MIN(batch, s->options.rows - number * batch);

    for (uint32_t k = 0; k < s->replicas; k++) {
        struct ps_replica *r = &s->replica[k].seen;

        r->index = s->index + k;
        r->count = s->count;
        r->step = s->next;
        r->epoch = s->next / s->steps_each;
        r->batch = number;
        r->global = global;
        ps_shard_range(global, s->count, r->index, &r->first, &r->rows);
        r->scale = s->divisor / (float)global;
        r->draw = s->next * s->count + r->index;
    }
}

static void
compute_one(ps_strategy *s, uint32_t k)
{
    struct strategy_replica *r = &s->replica[k];

    memset(r->metrics, 0, sizeof r->metrics);
    r->error = (struct ps_error){0};
    r->err = s->calls->step(s->calls->arg, &r->seen, &r->error);
}

static bool
all_well(const ps_strategy *s)
{
    for (uint32_t k = 0; k < s->replicas; k++)
        if (s->replica[k].err != PS_OK)
            return false;
    return true;
}

/* Elements first to last - 1 of all variables, as if they lay one behind the other, are for this member to add up. */
static void
sum_slice(ps_strategy *s, uint32_t member, uint32_t members)
{
    const float *from[PS_STRATEGY_REPLICAS_MAX];
    uint64_t all = 0, first, last, at = 0;

    for (size_t i = 0; i < s->vars_len; i++)
        all += round_up(s->vars[i]->elements, SLICE_ALIGN);
    first = all / SLICE_ALIGN * member / members * SLICE_ALIGN;
    last = all / SLICE_ALIGN * (member + 1) / members * SLICE_ALIGN;
    for (size_t i = 0; i < s->vars_len && at < last; i++) {
        uint64_t elements = s->vars[i]->elements, begin = first > at ? first - at : 0, end = MIN(last - at, elements);

        for (uint32_t k = 0; k < s->replicas && begin < end; k++)
            from[k] = s->replica[k].gradients[i] + begin;
        if (begin < end)
            optimizer_sum(end - begin, s->replicas, from, s->replica[0].gradients[i] + begin);
        at += round_up(elements, SLICE_ALIGN);
    }
}

/* On each replica's thread: one replica. None adds up before all have computed. */
static void
compute_member(void *arg, uint32_t member)
{
    ps_strategy *s = arg;

    compute_one(s, member);
    replica_threads_barrier(s->threads);
    if (s->resident == NULL && all_well(s))
        sum_slice(s, member, s->replicas);
}

/* One after the other, here. */
static void
compute_all(ps_strategy *s)
{
    for (uint32_t k = 0; k < s->replicas; k++)
        compute_one(s, k);
    if (s->replicas > 1 && s->resident == NULL && all_well(s))
        sum_slice(s, 0, 1);
}

static void
sum_metrics(ps_strategy *s)
{
    memset(s->metrics, 0, sizeof s->metrics);
    s->done = (struct ps_step_done){.step = s->next, .metrics = s->metrics};
    for (uint32_t k = 0; k < s->replicas; k++) {
        for (uint32_t m = 0; m < s->options.metrics; m++)
            s->metrics[m] += s->replica[k].metrics[m];
        s->done.rows += s->replica[k].seen.rows;
    }
}

enum ps_err
strategy_compute(ps_strategy *s, struct ps_error *e)
{
    replicas_assign_slices(s);
    if (s->devices_len > 1)
        replica_threads_run(s->threads, compute_member, s);
    else
        compute_all(s);
    for (uint32_t k = 0; k < s->replicas; k++)
        if (s->replica[k].err != PS_OK) {
            if (e != NULL)
                *e = s->replica[k].error;
            return s->replica[k].err;
        }
    sum_metrics(s);
    return s->resident != NULL ? device_resident_reduce(s, e) : PS_OK;
}

/* ---- What a step function may call ---- */

void
ps_replica_ready(struct ps_replica *replica, size_t i)
{
    ps_strategy *s = replica->strategy;

    ps_assert(i < s->vars_len);
    if (s->replicas == 1 && s->ops->ready != NULL)
        s->ops->ready(s, i);
}

enum ps_err
ps_replica_gradient(struct ps_replica *replica, const struct ps_batch *batch, struct ps_network_result *result,
                    struct ps_error *error)
{
    ps_network *network = replica->strategy->replica[replica->local].network;

    if (network == NULL)
        return ps_fail(error, PS_ERR_INVALID, "no network was given for replica %u", replica->local);
    return ps_network_gradient(network, batch, replica->scale, replica->draw, result, error);
}
