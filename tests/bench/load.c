#include "tests/bench/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/bench/server.h"

const char *const load_names[LOAD_KINDS] = {"push", "pull", "push-and-pull"};

void *
load_memory(size_t size)
{
    void *p = aligned_alloc(64, round_up(MAX(size, (size_t)1), 64));

    if (p == NULL)
        bench_die("memory", NULL);
    memset(p, 0, round_up(MAX(size, (size_t)1), 64));
    return p;
}

const uint8_t *
load_gradients(void)
{
    static float *floats;

    if (floats == NULL) {
        floats = load_memory(LOAD_BYTES_MAX);
        for (size_t i = 0; i < LOAD_BYTES_MAX / sizeof *floats; i++)
            floats[i] = (float)(i % 1000) * 1e-3f - 0.5f;
    }
    return (const uint8_t *)floats;
}

const char *
load_size(uint64_t bytes, char text[LOAD_SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    size_t i = 0;

    while (i + 1 < ARRAY_LEN(units) && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    snprintf(text, LOAD_SIZE_TEXT, "%llu %s", (unsigned long long)bytes, units[i]);
    return text;
}
