/* Dropout: the mask is computed where it is needed, forward and backward, from the element's index alone. */
#include "client/device/cpu/device_cpu.h"
#include "client/device/cpu/device_cpu_math.h"
#include "client/device/dropout.h"

#define BLOCKS 16 /* of four words; computed together */
#define WORDS  (4 * BLOCKS)

/* Words number first to first + WORDS - 1; first is a multiple of 4. */
static void
fill_words(uint64_t first, uint64_t seed, uint64_t counter, uint32_t words[WORDS])
{
    for (size_t k = 0; k < BLOCKS; k++)
        dropout_words(seed, counter, first / 4 + k, words + 4 * k);
}

static void
dropout_apply(size_t n, float rate, uint64_t seed, uint64_t counter, const float *x, float *y)
{
    uint32_t dropped = dropout_below(rate);
    float scale = 1 / (1 - rate);

    for (size_t i = 0; i < n; i += WORDS) {
        uint32_t words[WORDS];

        fill_words(i, seed, counter, words);
        ELEMENTWISE
        for (size_t k = 0; k < MIN(n - i, WORDS); k++) {
            float kept = x[i + k] * scale;

            y[i + k] = words[k] >= dropped ? kept : 0;
        }
    }
}

void
cpu_dropout_forward(ps_device *d, size_t n, float rate, uint64_t seed, uint64_t counter, const float *x, float *y)
{
    (void)d;
    dropout_apply(n, rate, seed, counter, x, y);
}

void
cpu_dropout_backward(ps_device *d, size_t n, float rate, uint64_t seed, uint64_t counter, const float *dy, float *dx)
{
    (void)d;
    dropout_apply(n, rate, seed, counter, dy, dx);
}
