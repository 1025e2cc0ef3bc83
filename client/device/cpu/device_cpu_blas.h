/* Which kernels OpenBLAS has chosen. A release that does not know a processor takes those of an old one, silently, and
 * is then several times slower than it could be. Pure. */
#ifndef CLIENT_DEVICE_CPU_DEVICE_CPU_BLAS_H
#define CLIENT_DEVICE_CPU_DEVICE_CPU_BLAS_H

#include "common/core/codec/isa.h"

/* What to add to a description that names the core that OpenBLAS has chosen: "" where its kernels use what the
 * processor has, else what to do. widest: the processor's; asked: OPENBLAS_CORETYPE was set, so it is no accident. */
const char *device_cpu_blas_advice(const char *core, enum isa widest, bool asked);

#endif
