/* Gradients encoded where they are computed, so that less is copied: what common/core/codec/codec.h makes of them, to
 * the same bits, error feedback and all. On a GPU for float16, bfloat16 and int8.
 *
 *     device_encode_clear(device, nonfinite);
 *     device_encode(device, PS_COMPRESS_INT8, elements, elements_of_block, gradient, residual, left, out, nonfinite);
 *     device_fetch(device, staged, out, size, &error);
 */
#ifndef CLIENT_DEVICE_DEVICE_CODEC_H
#define CLIENT_DEVICE_DEVICE_CODEC_H

#include <stdbool.h>

#include "client/include/psclient/ps_device.h"
#include "common/include/psclient/ps_compress.h"

/* Whether a device encodes so. */
bool device_encodes(const ps_device *d, enum ps_compress_kind kind);

/* gradient, residual, left: [n] f32; encoding, nonfinite: 4-byte aligned; all of d's memory, n at least 1, and a kind
 * that device_encodes(). An encoding of each `block` elements, a multiple of 4, and one of those that are left lie one
 * behind the other, each codec_size_max() of its elements. left, which is not residual, becomes what the encoding of
 * gradient + residual leaves out. *nonfinite becomes 1 where a gradient holds NaN or Inf, and else stays. Takes its
 * turn among the device's operations. */
void device_encode(ps_device *d, enum ps_compress_kind kind, size_t n, size_t block, const float *gradient,
                   const float *residual, float *left, void *encoding, uint32_t *nonfinite);

/* *nonfinite becomes 0. */
void device_encode_clear(ps_device *d, uint32_t *nonfinite);

/* ---- What a kind of device provides ---- */

struct device_codec_kind {
    void (*encode)(ps_device *d, enum ps_compress_kind kind, size_t n, size_t block, const float *gradient,
                   const float *residual, float *left, void *encoding, uint32_t *nonfinite);
};

#endif
