/* Replicas of one process: their tensors become their sum. Where all share one GPU a kernel adds them up; between GPUs
 * NCCL does. */
#include "client/device/cuda/nccl.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/device/cuda/elements.h"

struct ps_module_gang {
    size_t n;
    struct ps_module_device *device[TENSORS_MAX];
    nccl_comm comm[TENSORS_MAX]; /* all NULL: one GPU */
};

/* ---- Opening ---- */

/* 1: all on one GPU, 0: each on its own, -1: neither. */
static int
share_one(const struct ps_module_gang *g)
{
    size_t equal = 0;

    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < i; k++)
            equal += g->device[i]->number == g->device[k]->number;
    return equal == g->n * (g->n - 1) / 2 ? 1 : equal == 0 ? 0 : -1;
}

static enum ps_module_result
open_nccl(struct ps_module_gang *g, struct ps_module_text *why)
{
    int numbers[TENSORS_MAX], result;

    if (!nccl_load("replicas on several GPUs", why))
        return PS_MODULE_ABSENT;
    for (size_t i = 0; i < g->n; i++)
        numbers[i] = g->device[i]->number;
    result = nccl.CommInitAll(g->comm, (int)g->n, numbers);
    if (result != NCCL_SUCCESS) {
        memset(g->comm, 0, sizeof g->comm);
        return nccl_failed(result, "joining the GPUs", why);
    }
    return PS_MODULE_OK;
}

enum ps_module_result
gang_open(struct ps_module_device *const devices[], size_t n, struct ps_module_gang **out, struct ps_module_text *why)
{
    struct ps_module_gang *g = n <= TENSORS_MAX ? (struct ps_module_gang *)calloc(1, sizeof *g) : NULL;
    enum ps_module_result result = PS_MODULE_OK;
    int shared;

    if (g == NULL) {
        snprintf(why->text, sizeof why->text, "a gang of %zu: out of memory", n);
        return PS_MODULE_NO_MEMORY;
    }
    g->n = n;
    memcpy(g->device, devices, n * sizeof *devices);
    shared = share_one(g);
    if (shared < 0) {
        snprintf(why->text, sizeof why->text, "replicas have one GPU together or one each; some of these share one");
        result = PS_MODULE_ABSENT;
    } else if (shared == 0)
        result = open_nccl(g, why);
    if (result != PS_MODULE_OK) {
        free(g);
        return result;
    }
    *out = g;
    return PS_MODULE_OK;
}

void
gang_close(struct ps_module_gang *gang)
{
    for (size_t i = 0; i < gang->n; i++)
        if (gang->comm[i] != NULL) {
            (void)cudaSetDevice(gang->device[i]->number);
            (void)cudaStreamSynchronize(gang->device[i]->compute);
            (void)nccl.CommDestroy(gang->comm[i]);
        }
    free(gang);
}

/* ---- Adding up ---- */

/* Work that follows on `later` waits for the work on `earlier`. */
static void
gang_order_streams(struct ps_module_device *earlier, struct ps_module_device *later)
{
    module_use(earlier);
    module_check(earlier, cudaEventRecord(earlier->mark, earlier->compute), "reducing");
    module_check(later, cudaStreamWaitEvent(later->compute, earlier->mark, 0), "reducing");
}

static void
sum_on_one(struct ps_module_gang *g, float *const tensors[], size_t elements, float divisor)
{
    struct ps_module_device *d = g->device[0];
    struct tensors_sum_args k = {elements, g->n, divisor, {NULL}};

    memcpy(k.x, tensors, g->n * sizeof *tensors);
    for (size_t i = 1; i < g->n; i++)
        if (g->device[i] != d)
            gang_order_streams(g->device[i], d);
    run_elements<struct tensors_sum_args, tensors_sum_element>(d, "reducing", QUADS(elements), k);
    for (size_t i = 1; i < g->n; i++)
        if (g->device[i] != d)
            gang_order_streams(d, g->device[i]);
}

/* Every rank's part between start and end of a group, so that one thread can start all. */
static enum ps_module_result
sum_by_nccl(struct ps_module_gang *g, float *const tensors[], size_t elements, float divisor,
            struct ps_module_text *why)
{
    int result = nccl.GroupStart(), end;

    for (size_t i = 0; i < g->n && result == NCCL_SUCCESS; i++) {
        module_use(g->device[i]);
        result =
            nccl.AllReduce(tensors[i], tensors[i], elements, NCCL_FLOAT32, NCCL_SUM, g->comm[i], g->device[i]->compute);
    }
    end = nccl.GroupEnd();
    if (result != NCCL_SUCCESS || end != NCCL_SUCCESS)
        return nccl_failed(result != NCCL_SUCCESS ? result : end, "reducing", why);
    for (size_t i = 0; i < g->n && divisor != 1; i++)
        RUN_ELEMENTS(g->device[i], divide, QUADS(elements), elements, divisor, tensors[i]);
    return PS_MODULE_OK;
}

static enum ps_module_result
result_of_gang(struct ps_module_gang *g, enum ps_module_result result, struct ps_module_text *why)
{
    for (size_t i = 0; i < g->n && result == PS_MODULE_OK; i++)
        result = module_result(g->device[i], why);
    return result;
}

enum ps_module_result
gang_sum(struct ps_module_gang *gang, float *const tensors[], size_t elements, float divisor,
         struct ps_module_text *why)
{
    enum ps_module_result result = PS_MODULE_OK;

    if (gang->comm[0] == NULL)
        sum_on_one(gang, tensors, elements, divisor);
    else
        result = sum_by_nccl(gang, tensors, elements, divisor, why);
    return result_of_gang(gang, result, why);
}

/* ---- From one to all ---- */

/* Each takes it when root has it; root may change it when all have. */
static void
broadcast_on_one(struct ps_module_gang *g, float *const tensors[], size_t elements, size_t root)
{
    for (size_t i = 0; i < g->n; i++) {
        struct ps_module_device *d = g->device[i];

        if (i == root)
            continue;
        if (d != g->device[root])
            gang_order_streams(g->device[root], d);
        module_use(d);
        module_check(
            d,
            cudaMemcpyAsync(tensors[i], tensors[root], elements * sizeof(float), cudaMemcpyDeviceToDevice, d->compute),
            "broadcasting");
        if (d != g->device[root])
            gang_order_streams(d, g->device[root]);
    }
}

static enum ps_module_result
broadcast_by_nccl(struct ps_module_gang *g, float *const tensors[], size_t elements, size_t root,
                  struct ps_module_text *why)
{
    int result = nccl.GroupStart(), end;

    for (size_t i = 0; i < g->n && result == NCCL_SUCCESS; i++) {
        module_use(g->device[i]);
        result = nccl.Broadcast(tensors[i], tensors[i], elements, NCCL_FLOAT32, (int)root, g->comm[i],
                                g->device[i]->compute);
    }
    end = nccl.GroupEnd();
    if (result != NCCL_SUCCESS || end != NCCL_SUCCESS)
        return nccl_failed(result != NCCL_SUCCESS ? result : end, "broadcasting", why);
    return PS_MODULE_OK;
}

enum ps_module_result
gang_broadcast(struct ps_module_gang *gang, float *const tensors[], size_t elements, size_t root,
               struct ps_module_text *why)
{
    enum ps_module_result result = PS_MODULE_OK;

    if (gang->comm[0] == NULL)
        broadcast_on_one(gang, tensors, elements, root);
    else
        result = broadcast_by_nccl(gang, tensors, elements, root, why);
    return result_of_gang(gang, result, why);
}
