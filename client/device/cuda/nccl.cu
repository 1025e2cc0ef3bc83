#include "client/device/cuda/nccl.cuh"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct nccl nccl;
static void *library; /* stays: communicators have threads in it */

bool
nccl_find(const char *name, void *out)
{
    void *found = dlsym(library, name);

    memcpy(out, &found, sizeof found);
    return found != NULL;
}

bool
nccl_load(const char *what_for, struct ps_module_text *why)
{
    void *opened = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

    if (opened == NULL) {
        const char *error = dlerror();

        snprintf(why->text, sizeof why->text, "%s need NCCL: %s", what_for,
                 error != NULL ? error : "libnccl.so.2 cannot be loaded");
        return false;
    }
    library = opened; /* the same every time */
    (void)nccl_find("ncclGetLastError", &nccl.GetLastError);
    if (nccl_find("ncclCommInitAll", &nccl.CommInitAll) && nccl_find("ncclCommDestroy", &nccl.CommDestroy) &&
        nccl_find("ncclAllReduce", &nccl.AllReduce) && nccl_find("ncclBroadcast", &nccl.Broadcast) &&
        nccl_find("ncclGroupStart", &nccl.GroupStart) && nccl_find("ncclGroupEnd", &nccl.GroupEnd) &&
        nccl_find("ncclGetErrorString", &nccl.GetErrorString))
        return true;
    snprintf(why->text, sizeof why->text, "libnccl.so.2 is not the NCCL that is known here");
    return false;
}

enum ps_module_result
nccl_failed(int result, const char *doing, struct ps_module_text *why)
{
    const char *last = nccl.GetLastError != NULL ? nccl.GetLastError(NULL) : NULL; /* of any communicator */
    int length = last != NULL ? (int)strcspn(last, "\n") : 0;

    snprintf(why->text, sizeof why->text, "%s: NCCL says \"%s\"%s%.*s", doing, nccl.GetErrorString(result),
             length > 0 ? ": " : "", length, length > 0 ? last : "");
    return PS_MODULE_FAILED;
}
