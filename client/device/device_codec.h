/* Gradients made smaller where they are computed, so that less is copied: what common/core/codec/codec.h makes of them,
 * to the same bits, error feedback and all. On a GPU for float16, bfloat16 and int8.
 *
 *     device_encode(device, DEVICE_CODEC_INT8, elements, gradient, residual, encoding, &error);
 *     device_fetch(device, staged, encoding, device_encoded_size(DEVICE_CODEC_INT8, elements), &error);
 */
#ifndef CLIENT_DEVICE_CODEC_H
#define CLIENT_DEVICE_CODEC_H

#include "client/include/psclient/ps_device.h"

/* The numbers of enum ps_compress_kind. */
enum device_codec { DEVICE_CODEC_FLOAT16 = 1, DEVICE_CODEC_BFLOAT16 = 2, DEVICE_CODEC_INT8 = 3 };

/* Bytes, a multiple of 4; n at least 1. */
size_t device_encoded_size(enum device_codec code, size_t n);

/* gradient, residual: [n] f32; encoding: [device_encoded_size()], 4-byte aligned; all of d's memory. residual is added
 * to the gradient and becomes what the encoding leaves out; NULL: there is none. Both take their turn among the
 * device's operations. UNSUPPORTED: this kind of device does not do it; copy, and encode on the host. */
enum ps_err device_encode(ps_device *d, enum device_codec code, size_t n, const float *gradient, float *residual,
                          void *encoding, struct ps_error *e) PS_MUST_USE;
enum ps_err device_decode(ps_device *d, enum device_codec code, size_t n, const void *encoding, float *x,
                          struct ps_error *e) PS_MUST_USE;

/* ---- What a kind of device provides ---- */

struct device_codec_kind {
    void (*encode)(ps_device *d, enum device_codec code, size_t n, const float *gradient, float *residual, void *out);
    void (*decode)(ps_device *d, enum device_codec code, size_t n, const void *encoding, float *x);
};

#endif
