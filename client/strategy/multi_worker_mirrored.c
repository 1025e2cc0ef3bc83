/* multi_worker_mirrored: every worker has a copy of the variables for each of its replicas, and all make the same
 * update of the same sum of gradients, which they all-reduce (ps_group.h) while it is computed (ps_reducer.h).
 *
 *     open:   meet the other workers
 *
 *     start:  agree: the same variables and options everywhere; a worker that is behind, or new, is given variables,
 *             slots and step by the lowest rank that is furthest
 *
 *     step:   compute; buckets of gradients are sent as they become ready, and after them a note: metrics, and what
 *             every rank must know of this step. When all of it has arrived: update every copy, the step is completed
 *
 * A step is completed whole or not at all: nothing is changed before everything has come. So when a worker is lost in
 * the middle, the others are at its beginning or at its end, each with the state that belongs to that. They meet again,
 * without the one that was lost or with its replacement, agree as at the start, and go on from the highest step that
 * one of them has completed; no worker starts from the beginning, and every row still counts once in the epoch, since a
 * step that was not completed is divided again, whole, among the workers that are there.
 *
 * Where gradients travel compressed, what their encodings leave out follows the same rule: it changes with the steps
 * that were completed. A worker that was lost on the way from a step's end to its beginning learns when all agree
 * whether the step has counted with its gradient in it: a worker has completed it, in the same forming of the group.
 *
 * With options.device_reduce variables stay on the devices, which reduce gradients by themselves (ps_device_group.h):
 *
 *     step:   compute; the note, which all wait for; then the devices. Update, and the step is completed
 *
 * Their reduction belongs to the group, and is opened again with each forming. A worker whose device works and whose
 * reduction failed meets the others again as if the group had; one whose device is not ends.
 *
 * To go on without a worker, all the others must come; should more be lost, each time-out lets one more be missing. A
 * group that lacks workers looks now and then whether one has come back (ps_group_admit()). Where that comes to
 * nothing, because no worker is there or the meeting place is unreachable, the group goes on as it is, and looks again
 * later. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/strategy/all_reduced.h"

#define SETTLE_MS    250 /* for a replacement to arrive, once the survivors are there */
#define DEVICE_TRIES 4   /* of forming the group for the devices' sake, without a step that was completed */

/* ---- Opening, starting ---- */

static enum ps_err
open_group(ps_strategy *s, const ps_cluster *cluster, struct ps_error *e)
{
    struct ps_group_options options = {0};
    struct all_reduced *a;

    if (cluster == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "%s is for the workers of a cluster, and none was given", s->name);
    if ((a = s->own = calloc(1, sizeof *a)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a strategy");
    if (s->options.group != NULL)
        options = *s->options.group;
    if (options.name == NULL)
        options.name = s->options.client.job;
    if (options.timeout_ms == 0)
        options.timeout_ms = s->options.client.timeout_ms;
    if (options.transport == PS_TRANSPORT_AUTO)
        options.transport = s->options.client.transport;
    if (options.settle_ms == 0)
        options.settle_ms = SETTLE_MS;
    if (options.ranks_min != 0)
        options.ranks_min = MAX(options.ranks_min, s->options.min_workers);
    a->all = s->workers;
    a->timeout_ms = options.timeout_ms;
    return all_reduced_open(s, cluster, &options, e);
}

/* Gradients that travel compressed come as their mean: an encoding that holds each of them need not hold their sum. */
static bool
is_compressed(const ps_strategy *s)
{
    return s->options.client.compress.kind != PS_COMPRESS_NONE;
}

/* What makes the gradient of the global batch of what the reducer, or the devices, made of all workers'. */
static float
reduced_scale(const ps_strategy *s)
{
    const struct all_reduced *a = s->own;

    return (a->reducer != NULL && is_compressed(s) ? (float)s->workers : 1) / s->divisor;
}

static enum ps_err
make_reducer(ps_strategy *s, struct ps_error *e)
{
    struct ps_reducer_options options = {.sum = !is_compressed(s), .compress = s->options.client.compress};
    struct all_reduced *a = s->own;
    uint64_t *sizes = calloc(s->vars_len, sizeof *sizes);
    enum ps_err err = PS_ERR_NOMEM;

    a->ready = calloc(s->vars_len, sizeof *a->ready);
    if (sizes != NULL && a->ready != NULL) {
        for (size_t i = 0; i < s->vars_len; i++)
            sizes[i] = s->vars[i]->elements;
        err = ps_reducer_new(a->group, s->vars_len, sizes, &options, &a->reducer, e);
    } else {
        (void)ps_fail(e, err, "no memory for a list of %zu variables", s->vars_len);
    }
    free(sizes);
    if (err == PS_OK)
        strategy_place_gradients(s, ps_reducer_buffers(a->reducer));
    return err;
}

/* How gradients are reduced. */
static enum ps_err
make_way(ps_strategy *s, struct ps_error *e)
{
    if (!s->options.device_reduce)
        return make_reducer(s, e);
    if (s->resident != NULL)
        return PS_OK;
    return ps_fail(e, PS_ERR_UNSUPPORTED,
                   "devices (%.64s) that keep no variables of a network cannot reduce gradients among workers",
                   s->options.devices);
}

static enum ps_err
start_group(ps_strategy *s, struct ps_error *e)
{
    struct ps_error why = {0};
    enum ps_err err;

    if ((err = make_way(s, e)) != PS_OK)
        return err;
    if ((err = all_reduced_agree(s, &why)) != PS_OK && (err = all_reduced_lost(s, &why, e)) != PS_OK)
        return err;
    all_reduced_plan_check(s);
    return PS_OK;
}

static void
close_group(ps_strategy *s, bool goodbye)
{
    struct all_reduced *a = s->own;

    (void)goodbye;
    if (a == NULL)
        return;
    ps_device_group_close(a->devices);
    ps_reducer_free(a->reducer);
    ps_group_close(a->group);
    free(a->ready);
    free(a);
}

/* ---- A step ---- */

static void
gradient_ready(ps_strategy *s, size_t i)
{
    struct all_reduced *a = s->own;

    if (!a->stepping || a->ready[i])
        return;
    a->ready[i] = true;
    ps_reducer_ready(a->reducer, i);
}

static void
write_note(ps_strategy *s, bool failed)
{
    struct all_reduced *a = s->own;

    memset(a->note, 0, sizeof a->note);
    a->note[NOTE_STEP] = (double)s->next;
    a->note[NOTE_FAILED] = failed;
    a->note[NOTE_CHECK] = s->chief && all_reduced_check_is_due(s);
    if (failed)
        return;
    a->note[NOTE_ROWS] = (double)s->done.rows;
    memcpy(a->note + NOTE_METRICS, s->metrics, s->options.metrics * sizeof a->note[0]);
}

/* Wait for the note and free it; what failed before counts. A wait that ends while the work goes on is begun again:
 * the work has a deadline of its own, which fails the group. */
static enum ps_err
finish_note(ps_work *note, enum ps_err before, struct ps_error *e)
{
    enum ps_err err = before;

    if (before == PS_OK) {
        while ((err = ps_work_wait(note, -1, e)) == PS_ERR_TIMEOUT && !ps_work_test(note))
            continue;
        if (err == PS_ERR_TIMEOUT) /* of the wait, or of the work, which has ended by now */
            err = ps_work_wait(note, 0, e);
    }
    ps_work_free(note);
    return err;
}

/* All gradients and the note are on their way; wait for the sums. A replica that failed left arbitrary values, perhaps
 * such that cannot be compressed: the note says so to all ranks. */
static enum ps_err
mirrored_exchange(ps_strategy *s, bool failed, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    ps_work *note = NULL;
    struct ps_error why;
    enum ps_err err, end;

    for (size_t i = 0; i < s->vars_len; i++)
        gradient_ready(s, i);
    a->stepping = false;
    write_note(s, failed);
    err = ps_group_all_reduce(a->group, a->note, a->note, NOTE_METRICS + s->options.metrics, PS_F64, PS_SUM, &note, e);
    end = ps_reducer_finish(a->reducer, &why);
    ps_reducer_bytes(a->reducer, &s->stats.gradient_sent, &s->stats.gradient_plain);
    if (end != PS_OK && end != PS_ERR_NONFINITE) {
        *e = why;
        return finish_note(note, end, NULL);
    }
    /* The group goes on after a gradient that is not finite, and the note says whether it was meant so. */
    if ((err = finish_note(note, err, e)) != PS_OK || end == PS_OK || a->note[NOTE_FAILED] != 0)
        return err;
    *e = why;
    return end;
}

/* The note first: it says whether all have a gradient. The devices' sums are waited for after that, in step(). */
static enum ps_err
exchange_note(ps_strategy *s, bool failed, struct ps_error *e)
{
    struct all_reduced *a = s->own;

    write_note(s, failed);
    return ps_group_all_reduce(a->group, a->note, a->note, NOTE_METRICS + s->options.metrics, PS_F64, PS_SUM, NULL, e);
}

/* NCCL, or whatever reduces, does not report what it sends: count that of plain rings. */
static void
count_device_bytes(ps_strategy *s)
{
    const struct all_reduced *a = s->own;
    uint64_t ranks = ps_group_ranks(a->group);

    for (size_t i = 0; i < s->vars_len; i++)
        s->stats.gradient_plain += 2 * (ranks - 1) * s->vars[i]->elements * sizeof(float) / ranks;
    s->stats.gradient_sent = s->stats.gradient_plain;
}

/* The devices' part of a step that all have computed. One that fails here has changed nothing; others may have the sum,
 * and complete the step. */
static enum ps_err
reduce_on_devices(ps_strategy *s, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    enum ps_err err = device_resident_reduce_all(s, a->devices, e);

    if (err == PS_OK)
        count_device_bytes(s);
    if (err == PS_OK || ps_device_finish(s->replica[0].device, NULL) != PS_OK || ++a->devices_failed > DEVICE_TRIES)
        return err;
    a->devices_over = true;
    return err;
}

/* Whether the step is to be completed, by the note. */
static enum ps_err
read_note(ps_strategy *s, bool *complete, struct ps_error *e)
{
    const struct all_reduced *a = s->own;

    if (a->note[NOTE_STEP] != (double)s->next * s->workers)
        return ps_fail(e, PS_ERR_MISMATCH, "not all workers are at step %" PRIu64 ": one began elsewhere", s->next);
    *complete = a->note[NOTE_FAILED] == 0;
    s->done.rows = (uint64_t)a->note[NOTE_ROWS];
    memcpy(s->metrics, a->note + NOTE_METRICS, s->options.metrics * sizeof s->metrics[0]);
    return PS_OK;
}

static enum ps_err
reduced_step(ps_strategy *s, bool *done, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    struct ps_error mine = {0}, why = {0};
    enum ps_err computed, err;

    if (a->reducer != NULL)
        memset(a->ready, 0, s->vars_len * sizeof *a->ready);
    if (a->reducer != NULL && ps_reducer_begin(a->reducer, &why) != PS_OK)
        return all_reduced_lost(s, &why, e);
    a->tried = true;
    a->stepping = a->reducer != NULL;
    a->epoch = ps_group_epoch(a->group);
    computed = strategy_compute(s, &mine);
    err =
        a->reducer != NULL ? mirrored_exchange(s, computed != PS_OK, &why) : exchange_note(s, computed != PS_OK, &why);
    if (computed != PS_OK) {
        all_reduced_settle(s, false);
        if (e != NULL)
            *e = mine;
        return computed;
    }
    if (err != PS_OK)
        return all_reduced_lost(s, &why, e);
    if ((err = read_note(s, done, e)) == PS_OK && *done && a->reducer == NULL &&
        (err = reduce_on_devices(s, &why)) != PS_OK) {
        *done = false;
        return all_reduced_lost(s, &why, e);
    }
    if (err == PS_OK && *done)
        err = strategy_update(s, reduced_scale(s), e);
    all_reduced_settle(s, err == PS_OK && *done);
    if (err != PS_OK || !*done)
        return err;
    strategy_count_step(s);
    s->next++;
    a->devices_failed = 0;
    a->done_epoch = a->epoch;
    return a->note[NOTE_CHECK] != 0 ? all_reduced_check(s, e) : PS_OK;
}

/* ---- The end ---- */

static enum ps_err
meet_group(ps_strategy *s, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    struct ps_error why = {0};
    enum ps_err err;

    while ((err = ps_group_barrier(a->group, NULL, &why)) != PS_OK)
        if ((err = all_reduced_lost(s, &why, e)) != PS_OK)
            return err;
    return err;
}

static void
describe_group(const ps_strategy *s, char *text, size_t size)
{
    snprintf(text, size, ", %u worker%s, %u replica%s", s->workers, s->workers == 1 ? "" : "s", s->count,
             s->count == 1 ? "" : "s");
}

const struct strategy_ops strategy_multi_worker_mirrored = {
    .traits = STRATEGY_THREADS | STRATEGY_COPIES | STRATEGY_SLOTS | STRATEGY_WORKERS,
    .open = open_group,
    .start = start_group,
    .define = all_reduced_define,
    .ready = gradient_ready,
    .step = reduced_step,
    .meet = meet_group,
    .describe = describe_group,
    .close = close_group,
};
