/* The load of a bench, the same for psd, the bare pump and its peers. */
#ifndef TESTS_BENCH_LOAD_H
#define TESTS_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

enum load_kind { LOAD_PUSH, LOAD_PULL, LOAD_PUSH_PULL, LOAD_KINDS };
extern const char *const load_names[LOAD_KINDS];

struct bench_load {
    enum load_kind kind;
    size_t size;     /* bytes of one block */
    uint32_t blocks; /* distinct blocks, used in turn */
    uint32_t batch;  /* blocks in one message */
    uint32_t window; /* messages in flight */
};

#define LOAD_SIZE_MIN   64 /* bytes of a block */
#define LOAD_BATCH_MAX  16384
#define LOAD_WINDOW_MAX 4096

/* Gradients for any load, LOAD_BYTES_MAX of them: made once, never freed, never written to. */
#define LOAD_BYTES_MAX ((size_t)4 << 20) /* of one message */
const uint8_t *load_gradients(void);

/* Zeroed and touched memory, 64-byte aligned; ends the program when there is none. */
void *load_memory(size_t size);

/* "64 B", "4032 B", "256 KiB", "4 GiB": shortest exact. Into text, which is returned. */
#define LOAD_SIZE_TEXT 24
const char *load_size(uint64_t bytes, char text[LOAD_SIZE_TEXT]);

#endif
