/* Macros that every file uses: assertion, sizes, rounding. No I/O besides the assertion's message. */
#ifndef COMMON_CORE_BASE_BASE_H
#define COMMON_CORE_BASE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/param.h> /* MIN, MAX */

/* The program's own state is wrong: print where and abort. Kept in release builds; never for input of a peer or
 * user. */
#define ps_assert(condition)                                                                                           \
    (__builtin_expect(!!(condition), 1) ? (void)0 : ps_assert_failed(#condition, __FILE__, __LINE__, __func__))
void ps_assert_failed(const char *condition, const char *file, int line, const char *function)
    __attribute__((noreturn));

#define ARRAY_LEN(a)                        (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* Borrowed bytes. */
struct span {
    const void *data;
    size_t len; /* bytes */
};

static inline uint64_t
round_up(uint64_t n, uint64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

#endif
