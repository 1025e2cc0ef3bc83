/* Reducing device memory over the ranks of a group (ps_device_group.h).
 *
 *     opening, direct   which ranks can, on which devices ─► rank 0's id to all ─► all have begun to join ─► joined
 *     an operation      what it is, from all ─► begun on the device ─► done
 *
 * The parts that involve all ranks are operations of the group; the work of the devices is polled, and the group's
 * links with it, until it is done, the group has failed or the time is over. */
#include "client/include/psclient/ps_device_group.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/device/device.h"
#include "client/device/device_staging.h"
#include "client/device/device_team.h"
#include "client/group/tagged.h"
#include "client/group/watch.h"
#include "common/core/base/base.h"
#include "common/system/now.h"

#define POLLS_AWAKE 2000  /* before the first sleep */
#define PAUSE_NS    50000 /* between two polls after that */
#define GRACE_MS    300   /* after the failure of one, devices or group, for the other to report what it knows */

enum { WORD_OP, WORD_COUNT, WORD_EXTRA, WORDS }; /* an operation, as all ranks announce it to each other */
enum { OP_ALL_REDUCE = 1, OP_BROADCAST = 2 };

enum { IDENTITY_WORDS = DEVICE_TEAM_IDENTITY / sizeof(int64_t) };

struct ps_device_group {
    ps_group *group;
    ps_device *device;
    bool direct;
    uint64_t epoch;           /* of the group, when it was opened */
    struct device_team *team; /* direct, and not failed; NULL with a single rank */
    float *staged;            /* by the host: [room] */
    size_t room;
    struct ps_error failed; /* code PS_OK: not */
};

/* ---- What all ranks say ---- */

/* The words of every rank, [ranks * n], which the caller frees. */
static enum ps_err
device_group_gather(ps_device_group *t, const int64_t *mine, size_t n, int64_t **out, struct ps_error *e)
{
    uint32_t ranks = ps_group_ranks(t->group);
    enum ps_err err;

    if ((*out = calloc(ranks * n, sizeof **out)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the words of %u ranks", ranks);
    err = group_tagged_all_gather(t->group, GROUP_TAG_DEVICES, mine, *out, ranks * n, PS_I64, NULL, e);
    if (err == PS_OK)
        return PS_OK;
    free(*out);
    *out = NULL;
    return err;
}

/* The result on all ranks: this rank's own error, else one that names the rank it came from. */
static enum ps_err
all_agree(ps_device_group *t, enum ps_err mine, const char *doing, struct ps_error *e)
{
    uint32_t ranks = ps_group_ranks(t->group);
    int64_t word = (int64_t)mine, *all;
    struct ps_error why;
    enum ps_err err = device_group_gather(t, &word, 1, &all, &why), of_one = PS_OK;
    uint32_t rank = 0;

    if (mine == PS_OK && err != PS_OK && e != NULL)
        *e = why;
    if (err != PS_OK)
        return mine != PS_OK ? mine : err;
    while (rank < ranks && all[rank] == PS_OK)
        rank++;
    if (rank < ranks)
        of_one = all[rank] > 0 && all[rank] < PS_ERR_COUNT ? (enum ps_err)all[rank] : PS_ERR_INTERNAL;
    free(all);
    if (mine != PS_OK || of_one == PS_OK)
        return mine;
    return ps_fail(e, of_one, "%s: rank %" PRIu32 " cannot: %s", doing, rank, ps_strerror(of_one));
}

/* ---- Waiting for devices ---- */

static void
pause_a_little(void)
{
    struct timespec a_little = {0, PAUSE_NS};

    (void)nanosleep(&a_little, NULL);
}

/* A device has failed. If that is because a rank is gone, report the rank. */
static enum ps_err
device_group_find_cause(ps_device_group *t, enum ps_err err, struct ps_error *e)
{
    uint64_t until = monotonic_ms() + GRACE_MS;
    struct ps_error why;
    enum ps_err lost;

    while ((lost = group_watch(t->group, &why)) == PS_OK && monotonic_ms() < until)
        pause_a_little();
    if (lost == PS_OK)
        return err;
    *e = why;
    return lost;
}

/* The group has failed. Perhaps a rank that is done has closed it: then what it has sent still arrives. */
static enum ps_err
wait_for_rest(ps_device_group *t, const struct ps_error *why, struct ps_error *e)
{
    uint64_t until = monotonic_ms() + GRACE_MS;
    bool done = false;

    while (device_team_poll(t->team, &done, NULL) == PS_OK && !done && monotonic_ms() < until)
        pause_a_little();
    if (done)
        return PS_OK;
    *e = *why;
    return why->code;
}

static enum ps_err
wait_for_devices(ps_device_group *t, const char *doing, struct ps_error *e)
{
    int timeout_ms = group_timeout_ms(t->group);
    uint64_t until = monotonic_ms() + (uint64_t)timeout_ms;
    struct ps_error why;
    bool done = false;
    enum ps_err err;

    for (unsigned looks = 0;; looks++) {
        if ((err = device_team_poll(t->team, &done, e)) != PS_OK)
            return device_group_find_cause(t, err, e);
        if (done)
            return PS_OK;
        if (group_watch(t->group, &why) != PS_OK)
            return wait_for_rest(t, &why, e);
        if (ps_interrupted())
            return ps_fail(e, PS_ERR_CANCELLED, "device %s: %s: interrupted", t->device->name, doing);
        if (monotonic_ms() >= until)
            return ps_fail(e, PS_ERR_TIMEOUT, "device %s: %s: the other ranks' devices were not done after %d ms",
                           t->device->name, doing, timeout_ms);
        if (looks < POLLS_AWAKE)
            sched_yield();
        else
            pause_a_little();
    }
}

/* End everything on the device that waits for other ranks. */
static enum ps_err
device_group_fail(ps_device_group *t, const struct ps_error *why, struct ps_error *e)
{
    t->failed = *why;
    device_team_close(t->team);
    t->team = NULL;
    if (e != NULL)
        *e = *why;
    return why->code;
}

/* ---- Opening ---- */

static enum ps_err
check_all_can(ps_device_group *t, struct ps_error *e)
{
    int64_t mine[2] = {t->direct, device_team_is_known(t->device)}, *all;
    uint32_t ranks = ps_group_ranks(t->group);
    enum ps_err err = device_group_gather(t, mine, 2, &all, e);

    if (err != PS_OK)
        return err;
    for (uint32_t r = 0; r < ranks && err == PS_OK; r++)
        if (all[2 * r] != all[0])
            err = ps_fail(e, PS_ERR_MISMATCH, "rank %" PRIu32 " reduces %s, rank 0 %s", r,
                          all[2 * r] ? "direct" : "by the host", all[0] ? "direct" : "by the host");
    for (uint32_t r = 0; r < ranks && err == PS_OK && t->direct; r++)
        if (!all[2 * r + 1])
            err = ps_fail(e, PS_ERR_UNSUPPORTED,
                          "rank %" PRIu32 " has a device without a way of its own to those of other processes", r);
    free(all);
    return err;
}

/* NCCL takes a device once, and does not say so in words that help. */
static enum ps_err
check_none_shared(ps_device_group *t, struct ps_error *e)
{
    static const int64_t none[IDENTITY_WORDS];
    int64_t mine[IDENTITY_WORDS], *all;
    uint32_t ranks = ps_group_ranks(t->group);
    enum ps_err err;

    device_team_identity(t->device, (unsigned char *)mine);
    if ((err = device_group_gather(t, mine, IDENTITY_WORDS, &all, e)) != PS_OK)
        return err;
    for (uint32_t r = 1; r < ranks && err == PS_OK; r++)
        for (uint32_t other = 0; other < r && err == PS_OK; other++)
            if (memcmp(all + r * IDENTITY_WORDS, none, sizeof none) != 0 &&
                memcmp(all + r * IDENTITY_WORDS, all + other * IDENTITY_WORDS, sizeof none) == 0)
                err =
                    ps_fail(e, PS_ERR_UNSUPPORTED,
                            "ranks %" PRIu32 " and %" PRIu32 " share one GPU: to reduce direct, each needs one of its "
                            "own (device cuda:1, or CUDA_VISIBLE_DEVICES)",
                            other, r);
    free(all);
    return err;
}

/* Rank 0's, or its error. */
static enum ps_err
share_id(ps_device_group *t, unsigned char id[DEVICE_TEAM_ID], struct ps_error *e)
{
    int32_t words[1 + DEVICE_TEAM_ID / sizeof(int32_t)] = {PS_OK};
    bool makes = ps_group_rank(t->group) == 0;
    struct ps_error why = {0};
    enum ps_err err;

    if (makes)
        words[0] = (int32_t)device_team_id(t->device, id, &why);
    memcpy(words + 1, id, DEVICE_TEAM_ID);
    if ((err = ps_group_broadcast(t->group, words, ARRAY_LEN(words), PS_I32, 0, NULL, e)) != PS_OK)
        return err;
    memcpy(id, words + 1, DEVICE_TEAM_ID);
    if (words[0] == PS_OK)
        return PS_OK;
    if (makes && e != NULL)
        *e = why;
    if (makes)
        return why.code;
    err = words[0] > 0 && words[0] < PS_ERR_COUNT ? (enum ps_err)words[0] : PS_ERR_INTERNAL;
    return ps_fail(e, err, "rank 0's device cannot: %s", ps_strerror(err));
}

static enum ps_err
device_group_join(ps_device_group *t, struct ps_error *e)
{
    uint32_t ranks = ps_group_ranks(t->group), rank = ps_group_rank(t->group);
    unsigned char id[DEVICE_TEAM_ID] = {0};
    enum ps_err err;

    if ((err = check_none_shared(t, e)) != PS_OK || (err = share_id(t, id, e)) != PS_OK)
        return err;
    err = device_team_open(t->device, id, ranks, rank, &t->team, e);
    if ((err = all_agree(t, err, "joining the devices", e)) != PS_OK)
        return err;
    err = wait_for_devices(t, "joining", e);
    return all_agree(t, err, "joining the devices", e);
}

enum ps_err
ps_device_group_open(ps_group *group, ps_device *device, const struct ps_device_group_options *options,
                     ps_device_group **out, struct ps_error *error)
{
    ps_device_group *t;
    struct ps_error why = {0};
    enum ps_err err;

    *out = NULL;
    if (group == NULL || device == NULL)
        return ps_fail(error, PS_ERR_INVALID, "the group, or the device, is NULL");
    if ((t = calloc(1, sizeof *t)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory to reduce between devices");
    t->group = group;
    t->device = device;
    t->direct = options != NULL && options->direct != 0;
    t->epoch = ps_group_epoch(group);
    err = check_all_can(t, &why);
    if (err == PS_OK && t->direct && ps_group_ranks(group) > 1)
        err = device_group_join(t, &why);
    if (err != PS_OK) {
        if (error != NULL)
            *error = why;
        ps_device_group_close(t);
        return err;
    }
    *out = t;
    return PS_OK;
}

void
ps_device_group_close(ps_device_group *tensors)
{
    if (tensors == NULL)
        return;
    device_team_close(tensors->team);
    ps_device_free_host(tensors->device, tensors->staged);
    free(tensors);
}

/* ---- Operations ---- */

struct device_group_request {
    int64_t op, extra; /* the reduction, or the root */
    float *tensor;
    size_t count;
};

static enum ps_err
check_same(ps_device_group *t, const struct device_group_request *a, struct ps_error *e)
{
    int64_t mine[WORDS] = {[WORD_OP] = a->op, [WORD_COUNT] = (int64_t)a->count, [WORD_EXTRA] = a->extra}, *all;
    uint32_t ranks = ps_group_ranks(t->group);
    enum ps_err err = device_group_gather(t, mine, WORDS, &all, e);

    for (uint32_t r = 1; err == PS_OK && r < ranks; r++)
        if (memcmp(all + r * WORDS, all, sizeof mine) != 0)
            err = ps_fail(e, PS_ERR_MISMATCH, "rank %" PRIu32 " %s %lld elements (%lld), rank 0 %s %lld (%lld)", r,
                          all[r * WORDS] == OP_BROADCAST ? "broadcasts" : "reduces",
                          (long long)all[r * WORDS + WORD_COUNT], (long long)all[r * WORDS + WORD_EXTRA],
                          all[0] == OP_BROADCAST ? "broadcasts" : "reduces", (long long)all[WORD_COUNT],
                          (long long)all[WORD_EXTRA]);
    free(all);
    return err;
}

static enum ps_err
run_direct(ps_device_group *t, const struct device_group_request *a, struct ps_error *e)
{
    enum ps_err err;

    if (a->op == OP_BROADCAST)
        err = device_team_broadcast(t->team, a->tensor, a->count, (uint32_t)a->extra, e);
    else
        err = device_team_all_reduce(t->team, a->tensor, a->count,
                                     a->extra == PS_MEAN ? DEVICE_GANG_MEAN : DEVICE_GANG_SUM, e);
    return err == PS_OK ? wait_for_devices(t, "reducing", e) : device_group_find_cause(t, err, e);
}

/* The host memory through which data is copied. */
static enum ps_err
device_group_make_space(ps_device_group *t, size_t count, struct ps_error *e)
{
    void *memory;
    enum ps_err err;

    if (count <= t->room)
        return PS_OK;
    ps_device_free_host(t->device, t->staged);
    t->staged = NULL;
    t->room = 0;
    if ((err = ps_device_alloc_host(t->device, count * sizeof(float), &memory, e)) != PS_OK)
        return err;
    t->staged = memory;
    t->room = count;
    return PS_OK;
}

static enum ps_err
run_in_group(ps_device_group *t, const struct device_group_request *a, float *x, struct ps_error *e)
{
    if (a->op == OP_BROADCAST)
        return ps_group_broadcast(t->group, x, a->count, PS_F32, (uint32_t)a->extra, NULL, e);
    return ps_group_all_reduce(t->group, x, x, a->count, PS_F32, (enum ps_reduce)a->extra, NULL, e);
}

/* A rank that cannot copy reports so to the others before they wait for its part. */
static enum ps_err
run_by_host(ps_device_group *t, const struct device_group_request *a, struct ps_error *e)
{
    enum ps_err err;

    if (ps_device_is_host(t->device))
        return run_in_group(t, a, a->tensor, e);
    if ((err = device_group_make_space(t, a->count, e)) == PS_OK &&
        (err = device_fetch(t->device, t->staged, a->tensor, a->count * sizeof(float), e)) == PS_OK)
        err = device_fetched(t->device, e);
    if ((err = all_agree(t, err, "copying from the device", e)) != PS_OK ||
        (err = run_in_group(t, a, t->staged, e)) != PS_OK)
        return err;
    device_send(t->device, a->tensor, t->staged, a->count * sizeof(float));
    return ps_device_finish(t->device, e);
}

static enum ps_err
device_group_run(ps_device_group *t, const struct device_group_request *a, struct ps_error *e)
{
    struct ps_error why = {0};
    enum ps_err err;

    if (t->failed.code != PS_OK) {
        if (e != NULL)
            *e = t->failed;
        return t->failed.code;
    }
    if (ps_group_epoch(t->group) != t->epoch)
        return ps_fail(e, PS_ERR_INVALID, "the group was formed again since: close this, and open another");
    if (a->tensor == NULL && a->count > 0)
        return ps_fail(e, PS_ERR_INVALID, "the tensor is NULL");
    if ((err = check_same(t, a, &why)) == PS_ERR_MISMATCH && ps_group_state(t->group, NULL) == PS_OK) {
        if (e != NULL)
            *e = why;
        return err;
    }
    if (err == PS_OK && a->count > 0 && ps_group_ranks(t->group) > 1)
        err = t->direct ? run_direct(t, a, &why) : run_by_host(t, a, &why);
    return err == PS_OK ? PS_OK : device_group_fail(t, &why, e);
}

enum ps_err
ps_device_group_all_reduce(ps_device_group *tensors, float *tensor, size_t count, enum ps_reduce reduce,
                           struct ps_error *error)
{
    struct device_group_request a = {OP_ALL_REDUCE, (int64_t)reduce, tensor, count};

    if (reduce != PS_SUM && reduce != PS_MEAN)
        return ps_fail(error, PS_ERR_INVALID, "devices of several ranks reduce to a sum or a mean");
    return device_group_run(tensors, &a, error);
}

enum ps_err
ps_device_group_broadcast(ps_device_group *tensors, float *tensor, size_t count, uint32_t root, struct ps_error *error)
{
    struct device_group_request a = {OP_BROADCAST, root, tensor, count};

    if (root >= ps_group_ranks(tensors->group))
        return ps_fail(error, PS_ERR_INVALID, "there is no rank %" PRIu32, root);
    return device_group_run(tensors, &a, error);
}
