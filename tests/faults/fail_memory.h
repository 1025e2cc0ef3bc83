/* A process that runs out of memory, for tests: a shared library that is loaded before libc and makes chosen
 * allocations fail, also those of libuv, LMDB, protobuf-c and libc. Start a program with
 *
 *     LD_PRELOAD=<build>/tests/faults/libfail_memory.so FAIL_MEMORY=/path/control
 *
 * where the control file holds a struct fail_memory; map it shared, and set in it, at any time, which allocations fail:
 *
 *     struct fail_memory *m = fail_memory_map(path);   // the file is made; NULL: it cannot
 *     fail_memory_at(m, 17, 1);                        // the 17th allocation from now on fails
 *     if (m->failed == 0) ...                          // there were fewer
 *
 * All threads count alike. Not for programs with a sanitizer, which have an allocator of their own. */
#ifndef TESTS_FAULTS_FAIL_MEMORY_H
#define TESTS_FAULTS_FAIL_MEMORY_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct fail_memory {
    _Atomic uint64_t nth;    /* the first that fails, counted by seen; 0: none */
    _Atomic uint64_t count;  /* how many fail from there on */
    _Atomic uint64_t seen;   /* allocations since */
    _Atomic uint64_t failed; /* that did */
};

static inline struct fail_memory *
fail_memory_map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(struct fail_memory)) == 0)
        map = mmap(NULL, sizeof(struct fail_memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return map != MAP_FAILED ? map : NULL;
}

static inline void
fail_memory_at(struct fail_memory *m, uint64_t nth, uint64_t count)
{
    m->nth = 0;
    m->count = count;
    m->seen = m->failed = 0;
    m->nth = nth;
}

#endif
