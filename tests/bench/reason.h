/* The end of an error's sentence: what the system said, where it said something. */
#ifndef TESTS_BENCH_REASON_H
#define TESTS_BENCH_REASON_H

#include <errno.h>
#include <string.h>

/* ": " before it, or "", by errno. */
static inline const char *
reason_before(void)
{
    return errno != 0 ? ": " : "";
}

static inline const char *
reason_text(void)
{
    return errno != 0 ? strerror(errno) : "";
}

#endif
