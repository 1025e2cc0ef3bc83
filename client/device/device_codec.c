#include "client/device/device_codec.h"

#include "client/device/device.h"
#include "common/core/base/base.h"

bool
device_encodes(const ps_device *d, enum ps_compress_kind kind)
{
    return d->ops->codec != NULL &&
           (kind == PS_COMPRESS_FLOAT16 || kind == PS_COMPRESS_BFLOAT16 || kind == PS_COMPRESS_INT8);
}

void
device_encode(ps_device *d, enum ps_compress_kind kind, size_t n, size_t block, const float *gradient,
              const float *residual, float *left, void *encoding, uint32_t *nonfinite)
{
    ps_assert(device_encodes(d, kind) && n > 0 && block > 0 && block % 4 == 0 && left != residual);
    d->ops->codec->encode(d, kind, n, block, gradient, residual, left, encoding, nonfinite);
}

void
device_encode_clear(ps_device *d, uint32_t *nonfinite)
{
    d->ops->zero(d, nonfinite, sizeof *nonfinite);
}
