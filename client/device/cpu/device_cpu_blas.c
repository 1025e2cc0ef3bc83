#include "client/device/cpu/device_cpu_blas.h"

#include <stddef.h>
#include <strings.h>

#include "common/core/base/base.h"

/* Cores, as OpenBLAS calls them, whose kernels have vectors of at most 16 bytes. */
static const char *const old[] = {"Generic", "Unknown", "Katmai",       "Coppermine", "Northwood",  "Prescott",
                                  "Banias",  "Atom",    "Core2",        "Penryn",     "Dunnington", "Nehalem",
                                  "Athlon",  "Opteron", "Opteron_SSE3", "Barcelona",  "Bobcat",     "Nano"};

const char *
device_cpu_blas_advice(const char *core, enum isa widest, bool asked)
{
    size_t i = 0;

    while (i < ARRAY_LEN(old) && strcasecmp(old[i], core) != 0)
        i++;
    if (i == ARRAY_LEN(old) || widest == ISA_PLAIN || asked)
        return "";
    return widest == ISA_AVX512
               ? "; kernels for old processors: set OPENBLAS_CORETYPE=SkylakeX, or use a newer OpenBLAS"
               : "; kernels for old processors: set OPENBLAS_CORETYPE=Haswell, or use a newer OpenBLAS";
}
