#include "client/device/device_module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/core/optimizer/optimizer_row.h"

#define MODULE_NAME "libpsclient-cuda.so"
#define PATH_SIZE   4096

/* ---- Where ---- */

/* "<directory of this library>/libpsclient-cuda.so", when there is such a file. */
static bool
find_beside(char path[PATH_SIZE])
{
    Dl_info info;
    const char *slash;

    if (dladdr(MODULE_NAME, &info) == 0 || info.dli_fname == NULL || (slash = strrchr(info.dli_fname, '/')) == NULL)
        return false;
    if (snprintf(path, PATH_SIZE, "%.*s/" MODULE_NAME, (int)(slash - info.dli_fname), info.dli_fname) >= PATH_SIZE)
        return false;
    return access(path, F_OK) == 0;
}

static enum ps_err
open_library(void **out, struct ps_error *e)
{
    const char *told = secure_getenv("PSD_CUDA_MODULE"), *name = MODULE_NAME, *error;
    char path[PATH_SIZE];

    if (told != NULL && *told != '\0')
        name = told;
    else if (find_beside(path))
        name = path;
    if ((*out = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != NULL)
        return PS_OK;
    error = dlerror();
    return ps_fail(e, PS_ERR_UNSUPPORTED, "the CUDA module cannot be loaded: %s%s", error != NULL ? error : name,
                   name == told ? " (PSD_CUDA_MODULE)"
                                : "; it is built with -Dcuda=enabled and belongs beside libpsclient");
}

/* ---- What ---- */

/* The rules that a module has are those of this build: each as large, and as many. */
static bool
same_optimizers(const struct ps_device_module *m)
{
    if (m->optimizers != PS_OPTIMIZER_KINDS)
        return false;
    for (unsigned i = 0; i < PS_OPTIMIZER_KINDS; i++)
        if (m->step_size[i] != optimizer_step_size((enum ps_optimizer_kind)i))
            return false;
    return true;
}

static enum ps_err
check_module(const struct ps_device_module *m, const char *path, struct ps_error *e)
{
    if (m == NULL)
        return ps_fail(e, PS_ERR_UNSUPPORTED, "%s is no device module of psd", path);
    if (m->version != PS_DEVICE_MODULE_VERSION)
        return ps_fail(e, PS_ERR_UNSUPPORTED,
                       "%s is of version %u, this libpsclient takes %u: install those of one build", path, m->version,
                       PS_DEVICE_MODULE_VERSION);
    if (m->size != sizeof *m || !same_optimizers(m))
        return ps_fail(e, PS_ERR_UNSUPPORTED, "%s is of version %u, but of another build than this libpsclient", path,
                       m->version);
    return PS_OK;
}

static const struct ps_device_module *
table_of(void *library, char path[PATH_SIZE])
{
    void *symbol = dlsym(library, PS_DEVICE_MODULE_SYMBOL);
    ps_device_module_fn *table;
    Dl_info info;

    snprintf(path, PATH_SIZE, "%s", MODULE_NAME);
    if (symbol == NULL)
        return NULL;
    if (dladdr(symbol, &info) != 0 && info.dli_fname != NULL)
        snprintf(path, PATH_SIZE, "%s", info.dli_fname);
    memcpy(&table, &symbol, sizeof table);
    return table();
}

enum ps_err
device_module_load(const struct ps_device_module **out, struct ps_error *e)
{
    const struct ps_device_module *m;
    char path[PATH_SIZE];
    void *library;
    enum ps_err err;

    if ((err = open_library(&library, e)) != PS_OK)
        return err;
    m = table_of(library, path);
    if ((err = check_module(m, path, e)) != PS_OK) {
        dlclose(library);
        return err;
    }
    *out = m; /* the library stays */
    return PS_OK;
}
