/* Embedding: rows of a table by their numbers. */
#include "client/device/cpu/device_cpu.h"

#include <string.h>

#include "common/core/base/base.h"

void
cpu_embedding_forward(ps_device *d, size_t n, size_t vocabulary, size_t width, const uint32_t *ids, const float *table,
                      float *y)
{
    (void)d;
    for (size_t i = 0; i < n; i++) {
        ps_assert(ids[i] < vocabulary);
        memcpy(y + i * width, table + ids[i] * width, width * sizeof *y);
    }
}

/* In the order of the ids: an id that comes twice gets the same bits every time. */
void
cpu_embedding_backward(ps_device *d, size_t n, size_t vocabulary, size_t width, const uint32_t *ids, const float *dy,
                       float *dtable)
{
    (void)d;
    memset(dtable, 0, vocabulary * width * sizeof *dtable);
    for (size_t i = 0; i < n; i++) {
        const float *restrict from = dy + i * width;
        float *restrict to = dtable + ids[i] * width;

        ps_assert(ids[i] < vocabulary);
        for (size_t k = 0; k < width; k++)
            to[k] += from[k];
    }
}
