/* NCCL, which is loaded only when it is needed: a machine with one GPU works without it. Its few functions are declared
 * here, as of version 2, so that the module builds without its header. */
#ifndef CLIENT_CUDA_NCCL_CUH
#define CLIENT_CUDA_NCCL_CUH

#include "client/device/cuda/module.cuh"

typedef struct ncclComm *nccl_comm;

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_FLOAT32 = 7, NCCL_SUM = 0 };

extern struct nccl {
    int (*CommInitAll)(nccl_comm *comms, int n, const int *devices);
    int (*CommDestroy)(nccl_comm comm);
    int (*AllReduce)(const void *from, void *to, size_t n, int type, int op, nccl_comm comm, cudaStream_t stream);
    int (*Broadcast)(const void *from, void *to, size_t n, int type, int root, nccl_comm comm, cudaStream_t stream);
    int (*GroupStart)(void);
    int (*GroupEnd)(void);
    const char *(*GetErrorString)(int result);
    const char *(*GetLastError)(nccl_comm comm); /* NULL before NCCL 2.13 */
} nccl;

/* Fills them in. what_for: "replicas on several GPUs"; says why not. */
bool nccl_load(const char *what_for, struct ps_module_text *why);

/* Another function, when NCCL is loaded; out: where its address goes. */
bool nccl_find(const char *name, void *out);

/* With what NCCL says of its last error, where it does. */
enum ps_module_result nccl_failed(int result, const char *doing, struct ps_module_text *why);

#endif
