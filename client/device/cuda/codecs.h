/* Kernels that make gradients smaller: floats of 16 bits, and bytes with a scale for each run, with error feedback.
 * What common/core/codec/codec.h does on the CPU, to the same bits. */
#ifndef CLIENT_CUDA_CODECS_H
#define CLIENT_CUDA_CODECS_H

#include "client/device/cuda/elements.h"

/* x, brought to [-most, most]; NaN stays. */
EVERYWHERE float
within(float x, float most)
{
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

/* What is to be encoded: the gradient with what was left out before. */
EVERYWHERE float
with_residual(const float *gradient, const float *residual, size_t i)
{
    return residual == NULL ? gradient[i] : within(gradient[i] + residual[i], 0x1p127f);
}

/* ---- 16 bits ---- */

struct encode_args {
    const float *gradient;
    float *residual; /* may be NULL */
    uint16_t *out;
};

struct decode_args {
    const uint16_t *in;
    float *x;
};

#define float16_encode_args  encode_args
#define bfloat16_encode_args encode_args
#define float16_decode_args  decode_args
#define bfloat16_decode_args decode_args

KERNEL_ELEMENT(float16_encode)
{
    float e = with_residual(k->gradient, k->residual, i);
    uint16_t half = half_from_float(within(e, 65504));

    k->out[i] = half;
    if (k->residual != NULL)
        k->residual[i] = e - half_to_float(half);
}

KERNEL_ELEMENT(float16_decode)
{
    k->x[i] = half_to_float(k->in[i]);
}

KERNEL_ELEMENT(bfloat16_encode)
{
    float e = with_residual(k->gradient, k->residual, i);
    uint16_t half = bfloat_from_float(e);

    k->out[i] = half;
    if (k->residual != NULL)
        k->residual[i] = e - bfloat_to_float(half);
}

KERNEL_ELEMENT(bfloat16_decode)
{
    k->x[i] = bfloat_to_float(k->in[i]);
}

/* ---- Bytes ---- */

struct int8_encode_args {
    size_t n;
    const float *gradient;
    float *residual; /* may be NULL */
    float *scale;    /* of each run */
    int8_t *q;
};

struct int8_decode_args {
    const float *scale;
    const int8_t *q;
    float *x;
};

/* Adding 1.5 * 2^23 leaves no digits behind the point: it rounds to nearest, ties to even. */
EVERYWHERE int8_t
int8_of(float steps)
{
    steps = steps > 127 ? 127 : steps;
    steps = steps >= -127 ? steps : -127; /* NaN as well: it is no integer */
    return (int8_t)(int32_t)(steps + 0x1.8p23f - 0x1.8p23f);
}

/* Row i is run i. The largest magnitude is found by its bits, by which Inf and NaN are larger than all. */
KERNEL_ROW(int8_encode)
{
    size_t first = i * PS_MODULE_INT8_RUN, left = k->n - first;
    size_t end = left < PS_MODULE_INT8_RUN ? k->n : first + PS_MODULE_INT8_RUN;
    LANES_HAVE(uint64_t, largest);
    float scale;

    EACH_LANE
    {
        for (size_t c = first + lane; c < end; c += LANES) {
            uint64_t size = half_bits(with_residual(k->gradient, k->residual, c)) & 0x7fffffff;

            LANE(largest) = size > LANE(largest) ? size : LANE(largest);
        }
    }
    scale = half_float((uint32_t)lanes_max_key(largest)) / 127;
    EACH_LANE
    {
        for (size_t c = first + lane; c < end; c += LANES) {
            float e = with_residual(k->gradient, k->residual, c);
            int8_t q = scale > 0 ? int8_of(e / scale) : 0;

            k->q[c] = q;
            if (k->residual != NULL)
                k->residual[c] = e - (float)q * scale;
        }
        if (lane == 0)
            k->scale[i] = scale;
    }
}

KERNEL_ELEMENT(int8_decode)
{
    k->x[i] = (float)k->q[i] * k->scale[i / PS_MODULE_INT8_RUN];
}

#endif
