/* Every allocation of the process, of its libraries too, is counted, and one of them can be made to fail.
 * AddressSanitizer has an allocator of its own: there nothing is counted and nothing fails. For one file of a test. */
#ifndef TESTS_UNIT_KITS_COUNTED_MEMORY_H
#define TESTS_UNIT_KITS_COUNTED_MEMORY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#endif

static atomic_size_t taken, given; /* allocations so far, and how many of them were freed */
static atomic_size_t fail_in;      /* the allocation that many calls from now fails; 0: none */

#ifndef SANITIZED

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *memory);

static bool
counted_memory_fails(void)
{
    if (fail_in == 0 || --fail_in != 0)
        return false;
    errno = ENOMEM;
    return true;
}

static void *
counted_memory_count(void *memory)
{
    taken += memory != NULL;
    return memory;
}

void *
malloc(size_t size)
{
    return counted_memory_fails() ? NULL : counted_memory_count(__libc_malloc(size));
}

void *
calloc(size_t n, size_t size)
{
    return counted_memory_fails() ? NULL : counted_memory_count(__libc_calloc(n, size));
}

void *
realloc(void *memory, size_t size)
{
    if (counted_memory_fails())
        return NULL;
    given += memory != NULL;
    return counted_memory_count(__libc_realloc(memory, size));
}

void *
memalign(size_t align, size_t size)
{
    return counted_memory_fails() ? NULL : counted_memory_count(__libc_memalign(align, size));
}

void *
aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

void
free(void *memory)
{
    given += memory != NULL;
    __libc_free(memory);
}

int
posix_memalign(void **out, size_t align, size_t size)
{
    return (*out = memalign(align, size)) == NULL ? ENOMEM : 0;
}

#endif

#endif
