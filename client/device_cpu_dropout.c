/* Dropout: the mask is computed where it is needed, forward and backward, from the element's index alone. */
#include "client/device_cpu.h"
#include "client/device_cpu_math.h"
#include "common/philox.h"

/* "dropouts" in ASCII: keeps the words apart from those that the same seed gives initializers and samplers. */
#define DROPOUT_KEY 0x64726f706f757473u

#define BLOCKS 16 /* of four words; computed together */
#define WORDS  (4 * BLOCKS)

/* Words number first to first + WORDS - 1; first is a multiple of 4. */
static void
fill_words(uint64_t first, uint64_t seed, uint64_t counter, uint32_t words[WORDS])
{
    uint64_t mixed = seed ^ DROPOUT_KEY;
    const uint32_t key[2] = {(uint32_t)mixed, (uint32_t)(mixed >> 32)};

    for (size_t k = 0; k < BLOCKS; k++) {
        uint64_t block = first / 4 + k;
        const uint32_t at[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)counter, (uint32_t)(counter >> 32)};

        philox4x32(at, key, words + 4 * k);
    }
}

static void
drop(size_t n, float rate, uint64_t seed, uint64_t counter, const float *x, float *y)
{
    uint32_t dropped = (uint32_t)((double)rate * 0x1p32); /* words below are dropped */
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
    drop(n, rate, seed, counter, x, y);
}

void
cpu_dropout_backward(ps_device *d, size_t n, float rate, uint64_t seed, uint64_t counter, const float *dy, float *dx)
{
    (void)d;
    drop(n, rate, seed, counter, dy, dx);
}
