/* A gang on the CPU: all tensors are host memory, so the caller's thread adds them up, a tile at a time, and copies the
 * tile to all while it is in the cache. */
#include <string.h>

#include "client/device/device_gang.h"
#include "common/core/base/base.h"
#include "common/core/optimizer/optimizer.h"

#define TILE ((size_t)4096) /* floats */

static void
gang_divide(size_t n, float by, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] /= by;
}

static enum ps_err
cpu_all_reduce(void *state, size_t n, float *const tensors[], size_t elements, enum device_gang_op op,
               struct ps_error *e)
{
    const float *from[DEVICE_GANG_MAX];

    (void)state;
    (void)e;
    for (size_t first = 0; first < elements; first += TILE) {
        size_t some = MIN(TILE, elements - first);
        float *sum = tensors[0] + first;

        for (size_t r = 0; r < n; r++)
            from[r] = tensors[r] + first;
        optimizer_sum(some, n, from, sum);
        if (op == DEVICE_GANG_MEAN)
            gang_divide(some, (float)n, sum);
        for (size_t r = 1; r < n; r++)
            memcpy(tensors[r] + first, sum, some * sizeof *sum);
    }
    return PS_OK;
}

static enum ps_err
cpu_broadcast(void *state, size_t n, float *const tensors[], size_t elements, size_t root, struct ps_error *e)
{
    (void)state;
    (void)e;
    for (size_t r = 0; r < n; r++)
        if (r != root)
            memcpy(tensors[r], tensors[root], elements * sizeof(float));
    return PS_OK;
}

const struct device_gang_kind device_gang_cpu = {.all_reduce = cpu_all_reduce, .broadcast = cpu_broadcast};
