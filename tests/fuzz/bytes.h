/* An input as a script: its bytes, taken from the front, become choices. One that has run out chooses 0 for ever, so
 * every input is a whole script and a shorter one is its beginning. All that the targets share. */
#ifndef TESTS_FUZZ_BYTES_H
#define TESTS_FUZZ_BYTES_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/core/base/base.h"

/* The function that libFuzzer and replay.c call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t
bytes_one(struct fuzz_bytes *b)
{
    if (b->left == 0)
        return 0;
    b->left--;
    return *b->at++;
}

/* 0 to n - 1, n at most 256. */
static inline uint32_t
bytes_below(struct fuzz_bytes *b, uint32_t n)
{
    return bytes_one(b) % n;
}

/* Mostly small; the rest near the ends of its range, or any. */
static inline uint64_t
bytes_number(struct fuzz_bytes *b)
{
    uint8_t first = bytes_one(b);
    uint64_t number = 0;

    if (first < 240)
        return first % 12;
    if (first < 248)
        return (UINT64_C(1) << (bytes_one(b) % 64)) - first % 2;
    for (int i = 0; i < 8; i++)
        number = number << 8 | bytes_one(b);
    return number;
}

/* The next n bytes, or as many as there are, in memory of exactly their length and one '\0': what is read past it is
 * found. The caller frees it. */
static inline char *
bytes_text(struct fuzz_bytes *b, size_t n)
{
    size_t len = MIN(n, b->left);
    char *text = malloc(len + 1);

    ps_assert(text != NULL);
    memcpy(text, b->at, len);
    text[len] = '\0';
    b->at += len;
    b->left -= len;
    return text;
}

#define BYTES_PATH_MAX 32

/* A file with the rest of the input in it, that lives in memory; path is its name until close() of what is returned. */
static inline int
bytes_file(struct fuzz_bytes *b, char path[BYTES_PATH_MAX])
{
    int fd = memfd_create("input", MFD_CLOEXEC);

    ps_assert(fd >= 0 && write(fd, b->at, b->left) == (ssize_t)b->left);
    *b = (struct fuzz_bytes){0};
    snprintf(path, BYTES_PATH_MAX, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
