/* Loaded before libc: see fail_memory.h. The real allocator is reached by glibc's own names for it, since dlsym() would
 * allocate. */
#include "tests/faults/fail_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define PUBLIC __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *memory);

static struct fail_memory *control;

__attribute__((constructor)) static void
find_control(void)
{
    const char *path = getenv("FAIL_MEMORY");

    if (path != NULL)
        control = fail_memory_map(path);
}

static bool
fail_memory_due(void)
{
    uint64_t nth = control != NULL ? control->nth : 0, number;

    if (nth == 0)
        return false;
    number = atomic_fetch_add(&control->seen, 1) + 1;
    if (number < nth || number - nth >= control->count)
        return false;
    control->failed++;
    errno = ENOMEM;
    return true;
}

void PUBLIC *
malloc(size_t size)
{
    return fail_memory_due() ? NULL : __libc_malloc(size);
}

void PUBLIC *
calloc(size_t n, size_t size)
{
    return fail_memory_due() ? NULL : __libc_calloc(n, size);
}

void PUBLIC *
realloc(void *memory, size_t size)
{
    return fail_memory_due() ? NULL : __libc_realloc(memory, size);
}

void PUBLIC *
memalign(size_t align, size_t size)
{
    return fail_memory_due() ? NULL : __libc_memalign(align, size);
}

void PUBLIC *
aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int PUBLIC
posix_memalign(void **out, size_t align, size_t size)
{
    void *memory = memalign(align, size);

    if (memory == NULL)
        return ENOMEM;
    *out = memory;
    return 0;
}

void PUBLIC
free(void *memory)
{
    __libc_free(memory);
}
