/* Internal to the CUDA module: a device, and how a kernel is started on it. */
#ifndef CLIENT_CUDA_MODULE_CUH
#define CLIENT_CUDA_MODULE_CUH

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "client/device/cuda/lanes.h"
#include "client/device/ps_device_module.h"

struct sum_answers; /* sums.h */

#define STAGES 3 /* buffers through which memory that is not pinned is copied */

struct ps_module_device {
    int number;
    /* Operations run on `compute` in the order of their calls; `in` and `out` copy beside it. */
    cudaStream_t compute, in, out;
    cudaEvent_t mark; /* recorded and waited for within one call */
    enum ps_module_precision precision;
    struct cudnn_state *cudnn; /* NULL before the first convolution */
    cublasHandle_t blas;
    void *blas_workspace;

    char *stage[STAGES]; /* pinned */
    cudaEvent_t staged[STAGES];
    unsigned stage_next;

    float *scratch;
    size_t scratch_floats;
    uint16_t *halves; /* of products in bfloat16; NULL in another precision */
    size_t halves_max;
    uint32_t *flags;             /* [FLAGS], pinned: kernels write, the host reads after it has waited */
    struct sum_answers *answers; /* the same */

    struct ps_module_text failure; /* the first; "" while there is none */
};

/* Makes this device the calling thread's. */
void module_use(PS_MODULE_DEVICE);

/* Keeps the first failure. False for one. */
bool module_check(PS_MODULE_DEVICE, cudaError_t error, const char *doing);

/* The result for the caller: the failure that was kept. */
enum ps_module_result module_result(PS_MODULE_DEVICE, struct ps_module_text *why);

/* ---- Starting kernels ---- */

#define BLOCK_THREADS 256
#define BLOCKS_MAX    (1u << 20)

template <typename Args, void (*element)(const Args *, size_t)>
__global__ void
__launch_bounds__(BLOCK_THREADS) elements_kernel(const __grid_constant__ Args k, size_t n)
{
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        element(&k, i);
}

/* A warp for each row. */
template <typename Args, void (*row)(const Args *, size_t)>
__global__ void
__launch_bounds__(BLOCK_THREADS) rows_kernel(const __grid_constant__ Args k, size_t n)
{
    const size_t warps = BLOCK_THREADS / LANES;

    for (size_t i = blockIdx.x * warps + threadIdx.x / LANES; i < n; i += gridDim.x * warps)
        row(&k, i);
}

static inline unsigned
blocks_for(size_t n, size_t of_a_block)
{
    size_t blocks = (n - 1) / of_a_block + 1;

    return blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX;
}

template <typename Args, void (*element)(const Args *, size_t)>
static void
run_elements(PS_MODULE_DEVICE, const char *name, size_t n, const Args &k)
{
    module_use(d);
    elements_kernel<Args, element><<<blocks_for(n, BLOCK_THREADS), BLOCK_THREADS, 0, d->compute>>>(k, n);
    module_check(d, cudaGetLastError(), name);
}

template <typename Args, void (*row)(const Args *, size_t)>
static void
run_rows(PS_MODULE_DEVICE, const char *name, size_t n, const Args &k)
{
    module_use(d);
    rows_kernel<Args, row><<<blocks_for(n, BLOCK_THREADS / LANES), BLOCK_THREADS, 0, d->compute>>>(k, n);
    module_check(d, cudaGetLastError(), name);
}

#define RUN_ELEMENTS(d, name, n, ...)                                                                                  \
    do {                                                                                                               \
        const struct name##_args k_ = {__VA_ARGS__};                                                                   \
        run_elements<struct name##_args, name##_element>(d, #name, n, k_);                                             \
    } while (0)

#define RUN_ROWS(d, name, n, ...)                                                                                      \
    do {                                                                                                               \
        const struct name##_args k_ = {__VA_ARGS__};                                                                   \
        run_rows<struct name##_args, name##_row>(d, #name, n, k_);                                                     \
    } while (0)

/* ---- What the other files of the module give to its table ---- */

extern const uint16_t module_step_size[];
extern const uint32_t module_optimizers;

/* sorted: [n] of number, each at most `most`; places: [n] of place, those of equal numbers in their order. rest: memory
 * of `size` bytes that it may overwrite. */
void sort_pairs(PS_MODULE_DEVICE, size_t n, size_t most, const uint32_t *number, const uint32_t *place,
                uint32_t *sorted, uint32_t *places, void *rest, size_t size);

enum ps_module_result gang_open(struct ps_module_device *const devices[], size_t n, struct ps_module_gang **out,
                                struct ps_module_text *why);
void gang_close(struct ps_module_gang *gang);
enum ps_module_result gang_sum(struct ps_module_gang *gang, float *const tensors[], size_t elements, float divisor,
                               struct ps_module_text *why);
enum ps_module_result gang_broadcast(struct ps_module_gang *gang, float *const tensors[], size_t elements, size_t root,
                                     struct ps_module_text *why);

enum ps_module_result team_id(PS_MODULE_DEVICE, unsigned char id[PS_MODULE_TEAM_ID], struct ps_module_text *why);
enum ps_module_result team_open(PS_MODULE_DEVICE, const unsigned char id[PS_MODULE_TEAM_ID], uint32_t ranks,
                                uint32_t rank, struct ps_module_team **out, struct ps_module_text *why);
enum ps_module_result team_sum(struct ps_module_team *team, float *tensor, size_t elements, float divisor,
                               struct ps_module_text *why);
enum ps_module_result team_broadcast(struct ps_module_team *team, float *tensor, size_t elements, uint32_t root,
                                     struct ps_module_text *why);
enum ps_module_result team_poll(struct ps_module_team *team, int *done, struct ps_module_text *why);
void team_close(struct ps_module_team *team);

#endif
