#include "client/device/device_codec.h"

#include "client/device/device.h"
#include "common/core/base/base.h"

#define INT8_RUN 256 /* elements that share a scale */

size_t
device_encoded_size(enum device_codec code, size_t n)
{
    if (code == DEVICE_CODEC_INT8)
        return (n + INT8_RUN - 1) / INT8_RUN * sizeof(float) + round_up(n, 4);
    return round_up(n * sizeof(uint16_t), 4);
}

static enum ps_err
check(const ps_device *d, enum device_codec code, struct ps_error *e)
{
    if (d->ops->codec == NULL || code < DEVICE_CODEC_FLOAT16 || code > DEVICE_CODEC_INT8)
        return ps_fail(e, PS_ERR_UNSUPPORTED, "device %s: gradients are not encoded there (%d)", d->name, (int)code);
    return PS_OK;
}

enum ps_err
device_encode(ps_device *d, enum device_codec code, size_t n, const float *gradient, float *residual, void *encoding,
              struct ps_error *e)
{
    enum ps_err err = check(d, code, e);

    if (err == PS_OK && n > 0)
        d->ops->codec->encode(d, code, n, gradient, residual, encoding);
    return err;
}

enum ps_err
device_decode(ps_device *d, enum device_codec code, size_t n, const void *encoding, float *x, struct ps_error *e)
{
    enum ps_err err = check(d, code, e);

    if (err == PS_OK && n > 0)
        d->ops->codec->decode(d, code, n, encoding, x);
    return err;
}
