/* Devices of several processes, one of each, over one communicator of NCCL's. It does not block (NCCL 2.14 and later):
 * joining and starting go on by themselves, and so does what runs on the stream; team_poll() checks, and team_close()
 * can always abort.
 *
 *     JOINING ──NCCL is ready──► IDLE ──begin──► STARTING ──it is on the stream──► RUNNING ──event──► IDLE */
#include "client/device/cuda/nccl.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/device/cuda/elements.h"
#include "common/system/now.h"

#define CONFIG_MAGIC   0xcafebeefu
#define CONFIG_VERSION 21400u
#define FINALIZE_MS    5000

/* By value, as NCCL takes it. */
struct unique_id {
    char bytes[PS_MODULE_TEAM_ID];
};

/* The beginning of its configuration, as of that version: later members count as not given. */
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

static struct {
    int (*GetUniqueId)(struct unique_id *id);
    int (*CommInitRankConfig)(nccl_comm *comm, int ranks, struct unique_id id, int rank, struct config *config);
    int (*CommGetAsyncError)(nccl_comm comm, int *result);
    int (*CommFinalize)(nccl_comm comm);
    int (*CommAbort)(nccl_comm comm);
} more;

enum team_state { JOINING, IDLE, STARTING, RUNNING };

struct ps_module_team {
    struct ps_module_device *device;
    nccl_comm comm;
    cudaEvent_t over;
    enum team_state state;
    bool failed;

    float *tensor; /* of what is being started */
    size_t elements;
    float divisor;
};

/* ---- Opening ---- */

static bool
team_load_nccl(struct ps_module_text *why)
{
    if (!nccl_load("devices of several processes", why))
        return false;
    if (nccl_find("ncclGetUniqueId", &more.GetUniqueId) &&
        nccl_find("ncclCommInitRankConfig", &more.CommInitRankConfig) &&
        nccl_find("ncclCommGetAsyncError", &more.CommGetAsyncError) &&
        nccl_find("ncclCommFinalize", &more.CommFinalize) && nccl_find("ncclCommAbort", &more.CommAbort))
        return true;
    snprintf(why->text, sizeof why->text, "devices of several processes need NCCL 2.14 or later");
    return false;
}

enum ps_module_result
team_id(PS_MODULE_DEVICE, unsigned char id[PS_MODULE_TEAM_ID], struct ps_module_text *why)
{
    struct unique_id made;
    int result;

    if (!team_load_nccl(why))
        return PS_MODULE_ABSENT;
    module_use(d);
    if ((result = more.GetUniqueId(&made)) != NCCL_SUCCESS)
        return nccl_failed(result, "making an id", why);
    memcpy(id, made.bytes, sizeof made.bytes);
    return PS_MODULE_OK;
}

enum ps_module_result
team_open(PS_MODULE_DEVICE, const unsigned char id[PS_MODULE_TEAM_ID], uint32_t ranks, uint32_t rank,
          struct ps_module_team **out, struct ps_module_text *why)
{
    struct config config = {sizeof config, CONFIG_MAGIC, CONFIG_VERSION, 0};
    struct ps_module_team *t;
    struct unique_id given;
    int result;

    if (!team_load_nccl(why))
        return PS_MODULE_ABSENT;
    if ((t = (struct ps_module_team *)calloc(1, sizeof *t)) == NULL) {
        snprintf(why->text, sizeof why->text, "a team of %u: out of memory", ranks);
        return PS_MODULE_NO_MEMORY;
    }
    module_use(d);
    t->device = d;
    if (!module_check(d, cudaEventCreateWithFlags(&t->over, cudaEventDisableTiming), "opening a team")) {
        free(t);
        return module_result(d, why);
    }
    memcpy(given.bytes, id, sizeof given.bytes);
    result = more.CommInitRankConfig(&t->comm, (int)ranks, given, (int)rank, &config);
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
        *out = t;
        return PS_MODULE_OK;
    }
    (void)cudaEventDestroy(t->over);
    free(t);
    return nccl_failed(result, "joining the other processes' GPUs", why);
}

/* ---- Beginning ---- */

static enum ps_module_result
team_op_begun(struct ps_module_team *t, int result, float *tensor, size_t elements, float divisor, const char *doing,
              struct ps_module_text *why)
{
    if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
        t->failed = true;
        return nccl_failed(result, doing, why);
    }
    t->state = STARTING;
    t->tensor = tensor;
    t->elements = elements;
    t->divisor = divisor;
    return PS_MODULE_OK;
}

/* The least power of two that is not below it. */
static float
team_power(float divisor)
{
    float power = 1;

    while (power < divisor)
        power *= 2;
    return power;
}

/* As client/core/reduce/reduce.h keeps a mean of float32: the sum of all may be too large, so each is divided by a
 * power of two before, which changes no bits but of what is subnormal, and by the rest after. */
enum ps_module_result
team_sum(struct ps_module_team *team, float *tensor, size_t elements, float divisor, struct ps_module_text *why)
{
    float before = team_power(divisor);
    int result;

    module_use(team->device);
    if (before != 1)
        RUN_ELEMENTS(team->device, divide, QUADS(elements), elements, before, tensor);
    result = nccl.AllReduce(tensor, tensor, elements, NCCL_FLOAT32, NCCL_SUM, team->comm, team->device->compute);
    return team_op_begun(team, result, tensor, elements, divisor / before, "reducing", why);
}

enum ps_module_result
team_broadcast(struct ps_module_team *team, float *tensor, size_t elements, uint32_t root, struct ps_module_text *why)
{
    int result;

    module_use(team->device);
    result = nccl.Broadcast(tensor, tensor, elements, NCCL_FLOAT32, (int)root, team->comm, team->device->compute);
    return team_op_begun(team, result, tensor, elements, 1, "broadcasting", why);
}

/* ---- Polling ---- */

/* NCCL's operation is on the stream: what follows it, and the event that marks its end. */
static void
team_follow_stream(struct ps_module_team *t)
{
    struct ps_module_device *d = t->device;

    if (t->divisor != 1)
        RUN_ELEMENTS(d, divide, QUADS(t->elements), t->elements, t->divisor, t->tensor);
    module_check(d, cudaEventRecord(t->over, d->compute), "reducing");
    t->state = RUNNING;
}

static enum ps_module_result
look_at_stream(struct ps_module_team *t, struct ps_module_text *why)
{
    cudaError_t is = cudaEventQuery(t->over);

    if (is == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* not an error */
        return PS_MODULE_OK;
    }
    module_check(t->device, is, "reducing");
    t->state = IDLE;
    return module_result(t->device, why);
}

enum ps_module_result
team_poll(struct ps_module_team *team, int *done, struct ps_module_text *why)
{
    enum ps_module_result looked = PS_MODULE_OK;
    int now = NCCL_SUCCESS, result;

    *done = 0;
    module_use(team->device);
    result = more.CommGetAsyncError(team->comm, &now);
    if (result == NCCL_SUCCESS && now == NCCL_IN_PROGRESS)
        return PS_MODULE_OK;
    if (result != NCCL_SUCCESS || now != NCCL_SUCCESS) {
        team->failed = true;
        return nccl_failed(result != NCCL_SUCCESS ? result : now,
                           team->state == JOINING ? "joining the other processes' GPUs" : "reducing", why);
    }
    if (team->state == JOINING)
        team->state = IDLE;
    if (team->state == STARTING)
        team_follow_stream(team);
    if (team->state == RUNNING)
        looked = look_at_stream(team, why);
    team->failed |= looked != PS_MODULE_OK;
    *done = team->state == IDLE && looked == PS_MODULE_OK;
    return looked;
}

/* ---- Closing ---- */

/* So that others may still receive what this rank has sent. False: it failed, or did not end in time. */
static bool
team_finalize(struct ps_module_team *t)
{
    struct timespec pause = {0, 100000};
    uint64_t until = monotonic_ms() + FINALIZE_MS;
    int now = more.CommFinalize(t->comm);

    while (now == NCCL_IN_PROGRESS && monotonic_ms() < until) {
        (void)nanosleep(&pause, NULL);
        if (more.CommGetAsyncError(t->comm, &now) != NCCL_SUCCESS)
            return false;
    }
    return now == NCCL_SUCCESS;
}

void
team_close(struct ps_module_team *team)
{
    module_use(team->device);
    if (team->state == IDLE && !team->failed && team_finalize(team))
        (void)nccl.CommDestroy(team->comm);
    else
        (void)more.CommAbort(team->comm);
    (void)cudaStreamSynchronize(team->device->compute);
    (void)cudaEventDestroy(team->over);
    free(team);
}
