/* The CUDA module: devices, memory and copies, and the table of its functions.
 *
 * A device has three streams. Operations run on one, in the order of their calls; copies between device and pinned host
 * memory have one for each direction, so that they go on while kernels compute. Memory that is not pinned is copied
 * through a few pinned buffers in turn: the host fills one while the device empties another.
 *
 * CUDA reports most failures later, at some later call. The first one is kept and returned by the next function that
 * returns a result; after it nothing more is started. */
#include "client/device/cuda/cudnn.cuh"
#include "client/device/cuda/module.cuh"

#include <initializer_list>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run_product(PS_MODULE_DEVICE, int a_transposed, int b_transposed, size_t m, size_t n, size_t k,
                        const float *a, const float *b, float keep, float *c);
static void run_halves_product(PS_MODULE_DEVICE, int a_transposed, int b_transposed, size_t m, size_t n, size_t k,
                               const uint16_t *a, size_t a_line, const uint16_t *b, size_t b_line, float keep, float *c,
                               size_t c_line);
static void run_zero(PS_MODULE_DEVICE, void *to, size_t size);
static int run_read(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size);
static int run_wait(PS_MODULE_DEVICE);

#define SORT_MORE ((size_t)1 << 18) /* words */
#define run_sort(d, n, most, number, place, sorted, places, rest)                                                      \
    sort_pairs(d, n, most, number, place, sorted, places, rest, (SORT_WORDS * (n) + SORT_MORE) * sizeof(uint32_t))

#define run_convolution cudnn_run
#include "client/device/cuda/operations.h"

#define STAGE_SIZE     ((size_t)4 << 20)
#define SCRATCH_FLOATS ((size_t)16 << 20)
#define HALVES_MAX     ((size_t)128 << 20) /* both factors of a product of 8192 x 4096 x 4096, three times */
#define BLAS_WORKSPACE ((size_t)32 << 20)  /* what cuBLAS needs on the largest devices; a fixed one keeps its bits */

/* ---- Failures ---- */

static enum ps_module_result
module_failed(struct ps_module_text *why, enum ps_module_result result, const char *text)
{
    if (why != NULL)
        snprintf(why->text, sizeof why->text, "%s", text);
    return result;
}

void
module_use(PS_MODULE_DEVICE)
{
    module_check(d, cudaSetDevice(d->number), "choosing the device");
}

bool
module_check(PS_MODULE_DEVICE, cudaError_t error, const char *doing)
{
    if (error != cudaSuccess && d->failure.text[0] == '\0')
        snprintf(d->failure.text, sizeof d->failure.text, "%s: %s (%s)", doing, cudaGetErrorString(error),
                 cudaGetErrorName(error));
    return error == cudaSuccess;
}

static bool
has_failed(PS_MODULE_DEVICE)
{
    return d->failure.text[0] != '\0';
}

enum ps_module_result
module_result(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    return has_failed(d) ? module_failed(why, PS_MODULE_FAILED, d->failure.text) : PS_MODULE_OK;
}

/* The same when all kernels are done, and with what they have found. */
static enum ps_module_result
result_of_kernels(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    volatile uint32_t *flags = d->flags;

    if (has_failed(d) || flags[FLAG_INDEX] == 0)
        return module_result(d, why);
    flags[FLAG_INDEX] = 0;
    return module_failed(why, PS_MODULE_INVALID, "an id, a label or a column is out of range");
}

/* ---- Memory ---- */

/* Out of memory is no failure of the device; what an earlier fault makes of an allocation is. */
static bool
is_allocated(PS_MODULE_DEVICE, cudaError_t error)
{
    if (error == cudaSuccess)
        return !has_failed(d);
    (void)cudaGetLastError();
    if (error != cudaErrorMemoryAllocation)
        module_check(d, error, "taking memory");
    return false;
}

static void *
module_alloc(PS_MODULE_DEVICE, size_t size)
{
    void *memory;

    module_use(d);
    if (!is_allocated(d, cudaMalloc(&memory, size > 0 ? size : 1)))
        return NULL;
    run_zero(d, memory, size);
    module_check(d, cudaStreamSynchronize(d->compute), "zeroing memory"); /* copy_in() does not wait for it */
    return memory;
}

static void
module_free(PS_MODULE_DEVICE, void *memory)
{
    module_use(d);
    module_check(d, cudaFree(memory), "freeing memory"); /* waits for all that uses it */
}

static void *
module_alloc_host(PS_MODULE_DEVICE, size_t size)
{
    void *memory;

    module_use(d);
    if (!is_allocated(d, cudaHostAlloc(&memory, size > 0 ? size : 1, cudaHostAllocPortable)))
        return NULL;
    memset(memory, 0, size);
    return memory;
}

static void
module_free_host(PS_MODULE_DEVICE, void *memory)
{
    module_use(d);
    module_check(d, cudaFreeHost(memory), "freeing host memory");
}

/* ---- Copies ---- */

/* The next buffer, when what it was last used for is done. */
static unsigned
next_stage(PS_MODULE_DEVICE)
{
    unsigned i = d->stage_next++ % STAGES;

    module_check(d, cudaEventSynchronize(d->staged[i]), "waiting for a copy");
    return i;
}

static void
module_upload(PS_MODULE_DEVICE, void *to, const void *from_host, size_t size)
{
    module_use(d);
    for (size_t at = 0; at < size && !has_failed(d); at += STAGE_SIZE) {
        size_t some = size - at < STAGE_SIZE ? size - at : STAGE_SIZE;
        unsigned i = next_stage(d);

        memcpy(d->stage[i], (const char *)from_host + at, some);
        module_check(d, cudaMemcpyAsync((char *)to + at, d->stage[i], some, cudaMemcpyHostToDevice, d->compute),
                     "uploading");
        module_check(d, cudaEventRecord(d->staged[i], d->compute), "uploading");
    }
}

static void
module_copy(PS_MODULE_DEVICE, void *to, const void *from, size_t size)
{
    module_use(d);
    module_check(d, cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, d->compute), "copying");
}

static void
run_zero(PS_MODULE_DEVICE, void *to, size_t size)
{
    module_use(d);
    module_check(d, cudaMemsetAsync(to, 0, size, d->compute), "zeroing");
}

/* A piece of a download that lies, or will lie, in a buffer. */
struct transfer_piece {
    unsigned stage;
    size_t at, size;
};

static void
take_piece(PS_MODULE_DEVICE, void *to_host, const struct transfer_piece *p)
{
    if (p->size > 0 && module_check(d, cudaEventSynchronize(d->staged[p->stage]), "downloading"))
        memcpy((char *)to_host + p->at, d->stage[p->stage], p->size);
}

/* While the host takes one piece, the device brings the next. */
static void
download_pieces(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size)
{
    struct transfer_piece before = {0, 0, 0};

    module_use(d);
    for (size_t at = 0; at < size && !has_failed(d); at += STAGE_SIZE) {
        struct transfer_piece p = {next_stage(d), at, size - at < STAGE_SIZE ? size - at : STAGE_SIZE};

        module_check(
            d, cudaMemcpyAsync(d->stage[p.stage], (const char *)from + at, p.size, cudaMemcpyDeviceToHost, d->compute),
            "downloading");
        module_check(d, cudaEventRecord(d->staged[p.stage], d->compute), "downloading");
        take_piece(d, to_host, &before);
        before = p;
    }
    take_piece(d, to_host, &before);
}

static int
run_read(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size)
{
    download_pieces(d, to_host, from, size);
    return !has_failed(d);
}

static int
run_wait(PS_MODULE_DEVICE)
{
    module_use(d);
    module_check(d, cudaStreamSynchronize(d->compute), "computing");
    return !has_failed(d);
}

/* What is larger than a buffer the driver copies: to memory that is not pinned as fast as it can be written, to other
 * memory without a detour. */
static void
download_at_once(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size)
{
    module_use(d);
    module_check(d, cudaMemcpyAsync(to_host, from, size, cudaMemcpyDeviceToHost, d->compute), "downloading");
    module_check(d, cudaStreamSynchronize(d->compute), "downloading");
}

static enum ps_module_result
module_download(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size, struct ps_module_text *why)
{
    if (size > STAGE_SIZE)
        download_at_once(d, to_host, from, size);
    else
        download_pieces(d, to_host, from, size);
    return result_of_kernels(d, why); /* the copy came after them on their stream */
}

static void
module_copy_in(PS_MODULE_DEVICE, void *to, const void *from_pinned, size_t size)
{
    module_use(d);
    module_check(d, cudaMemcpyAsync(to, from_pinned, size, cudaMemcpyHostToDevice, d->in), "copying in");
    module_check(d, cudaEventRecord(d->mark, d->in), "copying in");
    module_check(d, cudaStreamWaitEvent(d->compute, d->mark, 0), "copying in");
}

static void
module_copy_out(PS_MODULE_DEVICE, void *to_pinned, const void *from, size_t size)
{
    module_use(d);
    module_check(d, cudaEventRecord(d->mark, d->compute), "copying out");
    module_check(d, cudaStreamWaitEvent(d->out, d->mark, 0), "copying out");
    module_check(d, cudaMemcpyAsync(to_pinned, from, size, cudaMemcpyDeviceToHost, d->out), "copying out");
}

static enum ps_module_result
module_copied(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    module_use(d);
    module_check(d, cudaStreamSynchronize(d->out), "copying out");
    return module_result(d, why);
}

static enum ps_module_result
module_finish(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    module_use(d);
    module_check(d, cudaStreamSynchronize(d->in), "computing");
    module_check(d, cudaStreamSynchronize(d->compute), "computing");
    module_check(d, cudaStreamSynchronize(d->out), "computing");
    return result_of_kernels(d, why);
}

/* ---- Products ---- */

static void
check_product(PS_MODULE_DEVICE, cublasStatus_t status, size_t m, size_t n, size_t k)
{
    if (status != CUBLAS_STATUS_SUCCESS && !has_failed(d))
        snprintf(d->failure.text, sizeof d->failure.text, "a product of %zu x %zu x %zu: cuBLAS says %d", m, k, n,
                 (int)status);
}

/* cuBLAS counts columns first: what it takes for the transposed of a row-major matrix is that matrix, and the
 * transposed of a product is the product of the transposed in the other order. */
static void
run_product(PS_MODULE_DEVICE, int a_transposed, int b_transposed, size_t m, size_t n, size_t k, const float *a,
            const float *b, float keep, float *c)
{
    const float one = 1;
    cublasStatus_t status;

    module_use(d);
    status = cublasSgemm(d->blas, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                         (int)n, (int)m, (int)k, &one, b, (int)(b_transposed ? k : n), a, (int)(a_transposed ? m : k),
                         &keep, c, (int)n);
    check_product(d, status, m, n, k);
}

static void
run_halves_product(PS_MODULE_DEVICE, int a_transposed, int b_transposed, size_t m, size_t n, size_t k,
                   const uint16_t *a, size_t a_line, const uint16_t *b, size_t b_line, float keep, float *c,
                   size_t c_line)
{
    const float one = 1;
    cublasStatus_t status;

    module_use(d);
    status = cublasGemmEx(d->blas, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                          (int)n, (int)m, (int)k, &one, b, CUDA_R_16BF, (int)b_line, a, CUDA_R_16BF, (int)a_line, &keep,
                          c, CUDA_R_32F, (int)c_line, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    check_product(d, status, m, n, k);
}

/* ---- What waits for its result ---- */

static enum ps_module_result
module_count_equal(PS_MODULE_DEVICE, size_t n, const uint32_t *a, const uint32_t *b, size_t *count,
                   struct ps_module_text *why)
{
    uint64_t found = 0;

    (void)count_equal(d, n, a, b, &found);
    *count = (size_t)found;
    return result_of_kernels(d, why);
}

static enum ps_module_result
module_square_sum_end(PS_MODULE_DEVICE, double *sum, struct ps_module_text *why)
{
    *sum = 0;
    (void)square_sum_end(d, sum);
    return result_of_kernels(d, why);
}

static enum ps_module_result
module_tally_end(PS_MODULE_DEVICE, size_t *count, double *loss, struct ps_module_text *why)
{
    struct sum_tally sum = {0, 0};

    (void)tally_end(d, &sum);
    *count = (size_t)sum.equal;
    *loss = sum.loss;
    return result_of_kernels(d, why);
}

static enum ps_module_result
module_updates_finite(PS_MODULE_DEVICE, int *finite, struct ps_module_text *why)
{
    volatile uint32_t *flags = d->flags;

    module_use(d);
    module_check(d, cudaStreamSynchronize(d->compute), "updating");
    *finite = flags[FLAG_NONFINITE] == 0;
    flags[FLAG_NONFINITE] = 0;
    return result_of_kernels(d, why);
}

/* ---- Devices ---- */

static int
module_count(struct ps_module_text *why)
{
    cudaError_t error;
    int count = 0;

    error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0)
        return count;
    (void)cudaGetLastError();
    (void)module_failed(why, PS_MODULE_ABSENT,
                        error == cudaErrorInsufficientDriver ? "no NVIDIA driver, or one that is older than this CUDA"
                        : error == cudaSuccess || error == cudaErrorNoDevice ? "no NVIDIA GPU"
                                                                             : cudaGetErrorString(error));
    return 0;
}

static void
module_close(PS_MODULE_DEVICE)
{
    (void)cudaSetDevice(d->number);
    if (d->compute != NULL)
        (void)cudaDeviceSynchronize();
    cudnn_close(d->cudnn);
    if (d->blas != NULL)
        (void)cublasDestroy(d->blas);
    for (int i = 0; i < STAGES; i++) {
        if (d->staged[i] != NULL)
            (void)cudaEventDestroy(d->staged[i]);
        (void)cudaFreeHost(d->stage[i]);
    }
    if (d->mark != NULL)
        (void)cudaEventDestroy(d->mark);
    for (cudaStream_t s : {d->compute, d->in, d->out})
        if (s != NULL)
            (void)cudaStreamDestroy(s);
    (void)cudaFreeHost(d->flags);
    (void)cudaFreeHost(d->answers);
    (void)cudaFree(d->halves);
    (void)cudaFree(d->scratch);
    (void)cudaFree(d->blas_workspace);
    (void)cudaGetLastError();
    free(d);
}

static bool
open_streams(PS_MODULE_DEVICE)
{
    bool good = true;

    for (cudaStream_t *s : {&d->compute, &d->in, &d->out})
        good = good && module_check(d, cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "making a stream");
    good = good && module_check(d, cudaEventCreateWithFlags(&d->mark, cudaEventDisableTiming), "making an event");
    for (int i = 0; i < STAGES && good; i++)
        good = module_check(d, cudaEventCreateWithFlags(&d->staged[i], cudaEventDisableTiming), "making an event");
    return good;
}

static bool
open_memory(PS_MODULE_DEVICE)
{
    bool good = true;

    for (int i = 0; i < STAGES && good; i++)
        good =
            module_check(d, cudaHostAlloc((void **)&d->stage[i], STAGE_SIZE, cudaHostAllocDefault), "pinning memory");
    good = good && module_check(d, cudaHostAlloc((void **)&d->flags, FLAGS * sizeof *d->flags, cudaHostAllocMapped),
                                "pinning memory");
    good = good && module_check(d, cudaHostAlloc((void **)&d->answers, sizeof *d->answers, cudaHostAllocMapped),
                                "pinning memory");
    good =
        good && module_check(d, cudaMalloc((void **)&d->scratch, SCRATCH_FLOATS * sizeof *d->scratch), "taking memory");
    if (good && d->precision == PS_MODULE_BFLOAT16)
        good = module_check(d, cudaMalloc((void **)&d->halves, HALVES_MAX * sizeof *d->halves), "taking memory");
    good = good && module_check(d, cudaMalloc(&d->blas_workspace, BLAS_WORKSPACE), "taking memory");
    if (good) {
        memset(d->flags, 0, FLAGS * sizeof *d->flags);
        d->scratch_floats = SCRATCH_FLOATS;
        d->halves_max = HALVES_MAX;
    }
    return good;
}

/* Full float32, even where a newer device is faster with less precision, unless that was asked for. */
static bool
open_blas(PS_MODULE_DEVICE)
{
    cublasMath_t math = d->precision == PS_MODULE_TF32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;

    if (cublasCreate(&d->blas) == CUBLAS_STATUS_SUCCESS &&
        cublasSetStream(d->blas, d->compute) == CUBLAS_STATUS_SUCCESS &&
        cublasSetWorkspace(d->blas, d->blas_workspace, BLAS_WORKSPACE) == CUBLAS_STATUS_SUCCESS &&
        cublasSetMathMode(d->blas, math) == CUBLAS_STATUS_SUCCESS)
        return true;
    snprintf(d->failure.text, sizeof d->failure.text, "cuBLAS cannot start");
    return false;
}

#define TENSOR_CORES_SINCE 8 /* compute capability, of those that multiply TF32 and bfloat16 */

/* False, and why: this GPU does not multiply in that precision. */
static bool
multiplies_in(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    int major = 0;

    if (d->precision == PS_MODULE_FLOAT32 ||
        !module_check(d, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->number), "asking a GPU"))
        return true;
    if (major < TENSOR_CORES_SINCE)
        snprintf(why->text, sizeof why->text,
                 "it multiplies in float32 alone: tf32 and bfloat16 need compute "
                 "capability %d.0, and it has %d.x",
                 TENSOR_CORES_SINCE, major);
    return major >= TENSOR_CORES_SINCE;
}

static enum ps_module_result
module_open(unsigned number, enum ps_module_precision precision, struct ps_module_device **out,
            struct ps_module_text *why)
{
    int count = module_count(why);
    struct ps_module_device *d;
    enum ps_module_result result;

    if (count == 0)
        return PS_MODULE_ABSENT;
    if (number >= (unsigned)count) {
        snprintf(why->text, sizeof why->text, "there %s %d GPU%s, numbered from 0", count == 1 ? "is" : "are", count,
                 count == 1 ? "" : "s");
        return PS_MODULE_ABSENT;
    }
    if ((d = (struct ps_module_device *)calloc(1, sizeof *d)) == NULL)
        return module_failed(why, PS_MODULE_NO_MEMORY, "out of memory");
    d->number = (int)number;
    d->precision = precision;
    if (!multiplies_in(d, why)) {
        free(d);
        return PS_MODULE_ABSENT;
    }
    module_use(d);
    if (!has_failed(d) && open_streams(d) && open_memory(d) && open_blas(d)) {
        *out = d;
        return PS_MODULE_OK;
    }
    result = strstr(d->failure.text, "MemoryAllocation") != NULL ? PS_MODULE_NO_MEMORY : PS_MODULE_FAILED;
    (void)module_failed(why, result, d->failure.text);
    module_close(d);
    return result;
}

static void
module_describe(PS_MODULE_DEVICE, char *text, size_t size)
{
    cudaDeviceProp properties;
    int version = 0;

    module_use(d);
    if (cudaGetDeviceProperties(&properties, d->number) != cudaSuccess ||
        cudaRuntimeGetVersion(&version) != cudaSuccess) {
        (void)cudaGetLastError();
        snprintf(text, size, "a GPU that does not say what it is");
        return;
    }
    snprintf(text, size, "%s, compute capability %d.%d, CUDA %d.%d", properties.name, properties.major,
             properties.minor, version / 1000, version % 1000 / 10);
}

/* The GPU's UUID. */
static void
module_identity(PS_MODULE_DEVICE, unsigned char identity[PS_MODULE_IDENTITY])
{
    cudaDeviceProp properties;

    memset(identity, 0, PS_MODULE_IDENTITY);
    module_use(d);
    if (cudaGetDeviceProperties(&properties, d->number) != cudaSuccess)
        (void)cudaGetLastError();
    else
        memcpy(identity, properties.uuid.bytes, PS_MODULE_IDENTITY);
}

/* ---- The table ---- */

#define TEXT_OF(x)   #x
#define NUMBER_OF(x) TEXT_OF(x)
#define MODULE_BUILT "CUDA " NUMBER_OF(__CUDACC_VER_MAJOR__) "." NUMBER_OF(__CUDACC_VER_MINOR__)

static const struct ps_device_module *
fill_table(struct ps_device_module *m)
{
    m->version = PS_DEVICE_MODULE_VERSION;
    m->size = sizeof *m;
    m->built = MODULE_BUILT;
    m->optimizers = module_optimizers;
    m->step_size = module_step_size;
    m->count = module_count;
    m->open = module_open;
    m->close = module_close;
    m->describe = module_describe;
    m->alloc = module_alloc;
    m->free = module_free;
    m->alloc_host = module_alloc_host;
    m->free_host = module_free_host;
    m->upload = module_upload;
    m->copy = module_copy;
    m->zero = run_zero;
    m->download = module_download;
    m->copy_in = module_copy_in;
    m->copy_out = module_copy_out;
    m->copied = module_copied;
    m->finish = module_finish;
#define OP_ENTRY(name, parameters) m->name = op_##name;
    PS_MODULE_COMPUTE_OPS(OP_ENTRY)
#undef OP_ENTRY
    m->count_equal = module_count_equal;
    m->fill = op_fill;
    m->update = run_update;
    m->updates_finite = module_updates_finite;
    m->square_sum_start = op_square_sum_start;
    m->square_sum_end = module_square_sum_end;
    m->tally_start = op_tally_start;
    m->tally_end = module_tally_end;
    m->encode = op_encode;
    m->gang_open = gang_open;
    m->gang_close = gang_close;
    m->gang_sum = gang_sum;
    m->gang_broadcast = gang_broadcast;
    m->identity = module_identity;
    m->team_id = team_id;
    m->team_open = team_open;
    m->team_sum = team_sum;
    m->team_broadcast = team_broadcast;
    m->team_poll = team_poll;
    m->team_close = team_close;
    return m;
}

const struct ps_device_module *
ps_device_module(void)
{
    static struct ps_device_module table;
    static const struct ps_device_module *const filled = fill_table(&table); /* once, whichever thread comes first */

    return filled;
}
