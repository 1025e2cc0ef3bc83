/* The kernel of products in bfloat16: a matrix whose numbers are rounded to 16 bits, to the nearest, ties to even. */
#ifndef CLIENT_DEVICE_CUDA_HALVES_H
#define CLIENT_DEVICE_CUDA_HALVES_H

#include "client/device/cuda/elements.h"

#define HALVES_RUN 8 /* of one thread: 16 bytes of what is written */

struct halves_run {
    uint16_t half[HALVES_RUN];
} __attribute__((aligned(16)));

struct halves_floats {
    float x[4];
} __attribute__((aligned(16)));

struct halves_args {
    size_t columns, from_line, to_line; /* numbers of a row, and from one row to the next; to_line: of whole runs */
    int aligned;                        /* every row of `from` begins at a multiple of 16 bytes */
    const float *from;
    uint16_t *to; /* 16-byte aligned */
};

/* Run i of to: [rows, to_line], 0 behind the columns. */
KERNEL_ELEMENT(halves)
{
    size_t row = i, first = split(&row, k->to_line / HALVES_RUN) * HALVES_RUN;
    const float *from = k->from + row * k->from_line + first;
    struct halves_run run;

    if (k->aligned && first + HALVES_RUN <= k->columns) {
        struct halves_floats low = *(const struct halves_floats *)(const void *)from,
                             high = *(const struct halves_floats *)(const void *)(from + 4);

        for (int c = 0; c < 4; c++) {
            run.half[c] = bfloat_from_float(low.x[c]);
            run.half[c + 4] = bfloat_from_float(high.x[c]);
        }
    } else {
        for (size_t c = 0; c < HALVES_RUN; c++)
            run.half[c] = first + c < k->columns ? bfloat_from_float(from[c]) : 0;
    }
    *(struct halves_run *)(void *)(k->to + row * k->to_line + first) = run;
}

#endif
