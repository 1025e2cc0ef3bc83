/* Kernels that encode gradients: floats of 16 bits, and bytes with a scale for each run, with error feedback. What
 * common/core/codec/codec.h does on the CPU, to the same bits; what is left goes to memory of its own. */
#ifndef CLIENT_DEVICE_CUDA_ENCODINGS_H
#define CLIENT_DEVICE_CUDA_ENCODINGS_H

#include "client/device/cuda/elements.h"

/* x, brought to [-most, most]; NaN stays. */
EVERYWHERE float
within(float x, float most)
{
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

/* The gradient with what was left out before; notes one that is not finite. */
EVERYWHERE float
with_residual(const float *gradient, const float *residual, size_t i, uint32_t *nonfinite)
{
    float g = gradient[i];

    if ((half_bits(g) & 0x7f800000) == 0x7f800000)
        *(volatile uint32_t *)nonfinite = 1; /* many may, and all write the same */
    return within(g + residual[i], 0x1p127f);
}

/* ---- 16 bits ---- */

struct encode_args {
    const float *gradient, *residual;
    float *left;
    uint16_t *out;
    uint32_t *nonfinite;
};

#define float16_encode_args  encode_args
#define bfloat16_encode_args encode_args

#define FLOAT16_MOST 65504

KERNEL_ELEMENT(float16_encode)
{
    float e = with_residual(k->gradient, k->residual, i, k->nonfinite);
    uint16_t half = half_from_float(within(e, FLOAT16_MOST));

    k->out[i] = half;
    k->left[i] = e - half_to_float(half);
}

KERNEL_ELEMENT(bfloat16_encode)
{
    float e = with_residual(k->gradient, k->residual, i, k->nonfinite);
    uint16_t half = bfloat_from_float(e);

    k->out[i] = half;
    k->left[i] = e - bfloat_to_float(half);
}

/* ---- Bytes ---- */

struct int8_encode_args {
    size_t n, block;         /* elements, and those of each encoding but the last */
    size_t runs, block_size; /* of such an encoding, and its bytes */
    const float *gradient, *residual;
    float *left;
    char *out; /* of each encoding: scales, one for each run, then bytes */
    uint32_t *nonfinite;
};

/* Adding 1.5 * 2^23 leaves no digits behind the point: it rounds to nearest, ties to even. */
EVERYWHERE int8_t
int8_of(float steps)
{
    steps = steps > 127 ? 127 : steps;
    steps = steps >= -127 ? steps : -127; /* NaN as well: it is no integer */
    return (int8_t)(int32_t)(steps + 0x1.8p23f - 0x1.8p23f);
}

EVERYWHERE size_t
int8_runs(size_t n)
{
    return (n - 1) / PS_MODULE_INT8_RUN + 1;
}

/* Row i is run i over all encodings. The largest magnitude is found by its bits. */
KERNEL_ROW(int8_encode)
{
    size_t block = i, run = split(&block, k->runs), begin = block * k->block;
    size_t n = k->n - begin < k->block ? k->n - begin : k->block, first = begin + run * PS_MODULE_INT8_RUN;
    size_t end = begin + n - first < PS_MODULE_INT8_RUN ? begin + n : first + PS_MODULE_INT8_RUN;
    float *scales = (float *)(void *)(k->out + block * k->block_size);
    int8_t *q = (int8_t *)(scales + int8_runs(n));
    LANES_HAVE(uint64_t, largest);
    float scale;

    EACH_LANE
    {
        for (size_t c = first + lane; c < end; c += LANES) {
            uint64_t size = half_bits(with_residual(k->gradient, k->residual, c, k->nonfinite)) & 0x7fffffff;

            LANE(largest) = size > LANE(largest) ? size : LANE(largest);
        }
    }
    scale = half_float((uint32_t)lanes_max_key(largest)) / 127;
    EACH_LANE
    {
        for (size_t c = first + lane; c < end; c += LANES) {
            float e = with_residual(k->gradient, k->residual, c, k->nonfinite);
            int8_t steps = scale > 0 ? int8_of(e / scale) : 0;

            q[c - begin] = steps;
            k->left[c] = e - (float)steps * scale;
        }
        if (lane == 0)
            scales[run] = scale;
    }
}

#endif
