/* libnccl.so.2 for tests on a machine with one GPU: ranks of several processes that share it, which NCCL itself
 * refuses. They meet on a board in shared memory. What client/device/cuda calls is here, with NCCL's meaning: calls
 * that begin something return at once, what they began follows on the caller's stream, and an abort ends it whatever
 * other ranks do. Sums are added in the order of the ranks. */
#include <cuda_runtime.h>

#include <atomic>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED     extern "C" __attribute__((visibility("default")))
#define ID_SIZE      128
#define RANKS_MAX    8
#define PIECE        ((size_t)1 << 16) /* floats at once */
#define SUM          -1                /* instead of a root */
#define CONFIG_MAGIC 0xcafebeefu

enum { SUCCESS = 0, CUDA_ERROR = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, IN_PROGRESS = 7 };

struct ncclUniqueId {
    char path[ID_SIZE];
};

struct ncclConfig {
    size_t size;
    unsigned magic, version;
    int blocking;
};

/* reached[r]: the last point that rank r has reached. Each piece has two: at the first the rank's values lie on the
 * board, at the second it has read those of all. */
struct board {
    std::atomic<unsigned> joined;
    std::atomic<unsigned long> reached[RANKS_MAX];
    float values[RANKS_MAX][PIECE];
};

struct ncclComm {
    struct board *board;
    float *result; /* pinned; of the piece under way */
    char path[ID_SIZE];
    unsigned ranks, rank;
    unsigned long points; /* of all pieces that were begun */
    std::atomic<bool> aborted;
    bool is_linked; /* rank 0: the board still has its name */
};

/* One piece, from the call to the stream. */
struct piece {
    struct ncclComm *comm;
    size_t count;
    int root;
    unsigned long point;
};

EXPORTED const char *
ncclGetErrorString(int result)
{
    return result == SUCCESS ? "no error" : result == IN_PROGRESS ? "in progress" : "the stand-in for NCCL failed";
}

EXPORTED const char *
ncclGetLastError(struct ncclComm *comm)
{
    (void)comm;
    return "";
}

/* ---- Joining ---- */

static struct board *
board_map(const char *path, int flags)
{
    int fd = shm_open(path, O_RDWR | flags, 0600);
    void *map = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(struct board)) == 0)
        map = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    return map != MAP_FAILED ? (struct board *)map : NULL;
}

EXPORTED int
ncclGetUniqueId(struct ncclUniqueId *id)
{
    static std::atomic<int> made;
    struct board *b;

    memset(id, 0, sizeof *id);
    snprintf(id->path, sizeof id->path, "/psd-one-gpu-%ld-%d", (long)getpid(), made++);
    if ((b = board_map(id->path, O_CREAT | O_EXCL)) == NULL)
        return SYSTEM_ERROR;
    (void)munmap(b, sizeof *b);
    return SUCCESS;
}

static void
comm_free(struct ncclComm *c)
{
    if (c->is_linked)
        (void)shm_unlink(c->path);
    if (c->result != NULL)
        (void)cudaFreeHost(c->result);
    (void)cudaHostUnregister(c->board->values[c->rank]);
    (void)cudaGetLastError(); /* it may not have been registered */
    (void)munmap(c->board, sizeof *c->board);
    delete c;
}

EXPORTED int
ncclCommInitRankConfig(struct ncclComm **out, int ranks, struct ncclUniqueId id, int rank, struct ncclConfig *config)
{
    struct board *b;
    struct ncclComm *c;

    if (config->size != sizeof *config || config->magic != CONFIG_MAGIC || config->blocking != 0 || ranks > RANKS_MAX)
        return INVALID_ARGUMENT;
    if ((b = board_map(id.path, 0)) == NULL)
        return SYSTEM_ERROR;
    c = new ncclComm();
    memcpy(c->path, id.path, sizeof c->path);
    c->board = b;
    c->ranks = (unsigned)ranks;
    c->rank = (unsigned)rank;
    c->is_linked = rank == 0;
    if (cudaHostAlloc((void **)&c->result, PIECE * sizeof(float), cudaHostAllocDefault) != cudaSuccess ||
        cudaHostRegister(b->values[rank], sizeof b->values[rank], cudaHostRegisterDefault) != cudaSuccess) {
        comm_free(c);
        return CUDA_ERROR;
    }
    b->joined++;
    *out = c;
    return IN_PROGRESS;
}

EXPORTED int
ncclCommGetAsyncError(struct ncclComm *comm, int *result)
{
    *result = comm->board->joined.load() < comm->ranks ? IN_PROGRESS : SUCCESS;
    if (*result == SUCCESS && comm->is_linked) {
        (void)shm_unlink(comm->path);
        comm->is_linked = false;
    }
    return SUCCESS;
}

/* ---- Adding up and broadcasting ---- */

/* Until every rank is at this point; false: aborted. */
static bool
comm_meet(struct ncclComm *c, unsigned long point)
{
    const struct timespec pause = {0, 20000};

    c->board->reached[c->rank].store(point);
    for (unsigned r = 0; r < c->ranks; r++)
        while (c->board->reached[r].load() < point) {
            if (c->aborted.load())
                return false;
            (void)nanosleep(&pause, NULL);
        }
    return true;
}

static void CUDART_CB
comm_compute_piece(void *arg)
{
    struct piece *p = (struct piece *)arg;
    struct ncclComm *c = p->comm;

    if (comm_meet(c, p->point)) {
        memcpy(c->result, c->board->values[p->root == SUM ? 0 : p->root], p->count * sizeof(float));
        for (unsigned r = 1; p->root == SUM && r < c->ranks; r++)
            for (size_t i = 0; i < p->count; i++)
                c->result[i] += c->board->values[r][i];
        (void)comm_meet(c, p->point + 1);
    }
    delete p;
}

static int
comm_begin_piece(struct ncclComm *c, const float *from, float *to, size_t count, int root, cudaStream_t stream)
{
    struct piece *p = new piece{c, count, root, c->points + 1};
    size_t size = count * sizeof(float);

    c->points += 2;
    if (cudaMemcpyAsync(c->board->values[c->rank], from, size, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
        cudaLaunchHostFunc(stream, comm_compute_piece, p) == cudaSuccess)
        return cudaMemcpyAsync(to, c->result, size, cudaMemcpyHostToDevice, stream) == cudaSuccess ? SUCCESS
                                                                                                   : CUDA_ERROR;
    delete p;
    return CUDA_ERROR;
}

static int
comm_begin(struct ncclComm *c, const void *from, void *to, size_t count, int root, cudaStream_t stream)
{
    int result = SUCCESS;

    for (size_t at = 0; at < count && result == SUCCESS; at += PIECE)
        result = comm_begin_piece(c, (const float *)from + at, (float *)to + at,
                                  count - at < PIECE ? count - at : PIECE, root, stream);
    return result;
}

EXPORTED int
ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, struct ncclComm *comm,
              cudaStream_t stream)
{
    return type == 7 && operation == 0 ? comm_begin(comm, from, to, count, SUM, stream) : INVALID_ARGUMENT;
}

EXPORTED int
ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct ncclComm *comm, cudaStream_t stream)
{
    return type == 7 ? comm_begin(comm, from, to, count, root, stream) : INVALID_ARGUMENT;
}

/* ---- Leaving ---- */

EXPORTED int
ncclCommFinalize(struct ncclComm *comm)
{
    (void)comm;
    return SUCCESS;
}

EXPORTED int
ncclCommDestroy(struct ncclComm *comm)
{
    comm_free(comm);
    return SUCCESS;
}

/* What is on a stream still uses the communicator: it ends first. */
EXPORTED int
ncclCommAbort(struct ncclComm *comm)
{
    comm->aborted.store(true);
    (void)cudaDeviceSynchronize();
    comm_free(comm);
    return SUCCESS;
}

/* ---- GPUs of one process: there is one ---- */

EXPORTED int
ncclCommInitAll(struct ncclComm **comms, int count, const int *devices)
{
    (void)comms;
    (void)count;
    (void)devices;
    return INVALID_ARGUMENT;
}

EXPORTED int
ncclGroupStart(void)
{
    return SUCCESS;
}

EXPORTED int
ncclGroupEnd(void)
{
    return SUCCESS;
}
