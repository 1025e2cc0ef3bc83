/* The linker's --wrap=NAME makes calls of NAME those of __wrap_NAME here, and the real one __real_NAME. protobuf-c
 * takes its memory in a library that is not wrapped: it is given an allocator that is. */
#include "tests/unit/kits/failing_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <protobuf-c/protobuf-c.h>

#include "server/core/shard/shard.h"

static bool inside; /* a call of the core */
static uint64_t seen, fail_from, fail_count, failed;
static int64_t held;

void
failing_memory_at(uint64_t nth, uint64_t count)
{
    seen = failed = 0;
    fail_from = nth;
    fail_count = count;
}

uint64_t
failing_memory_failed(void)
{
    return failed;
}

int64_t
failing_memory_held(void)
{
    return held;
}

static bool
failing_memory_fails(void)
{
    if (!inside || fail_from == 0 || ++seen < fail_from || seen - fail_from >= fail_count)
        return false;
    failed++;
    errno = ENOMEM;
    return true;
}

/* ---- Memory ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);

static void *
failing_memory_count(void *memory)
{
    held += memory != NULL;
    return memory;
}

void *
__wrap_malloc(size_t size)
{
    return failing_memory_fails() ? NULL : failing_memory_count(__real_malloc(size));
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return failing_memory_fails() ? NULL : failing_memory_count(__real_calloc(n, size));
}

void *
__wrap_realloc(void *old, size_t size)
{
    bool fresh = old == NULL;
    void *bigger = failing_memory_fails() ? NULL : __real_realloc(old, size);

    return fresh ? failing_memory_count(bigger) : bigger;
}

void *
__wrap_aligned_alloc(size_t align, size_t size)
{
    return failing_memory_fails() ? NULL : failing_memory_count(__real_aligned_alloc(align, size));
}

char *
__wrap_strdup(const char *text)
{
    return failing_memory_fails() ? NULL : failing_memory_count(__real_strdup(text));
}

void
__wrap_free(void *memory)
{
    held -= memory != NULL;
    __real_free(memory);
}

/* ---- Messages ---- */

ProtobufCMessage *__real_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *of, ProtobufCAllocator *with,
                                                   size_t len, const uint8_t *bytes);
void __real_protobuf_c_message_free_unpacked(ProtobufCMessage *m, ProtobufCAllocator *with);

static void *
failing_memory_take(void *arg, size_t size)
{
    (void)arg;
    return __wrap_malloc(size);
}

static void
failing_memory_give(void *arg, void *memory)
{
    (void)arg;
    __wrap_free(memory);
}

static ProtobufCAllocator heap = {.alloc = failing_memory_take, .free = failing_memory_give};

ProtobufCMessage *
__wrap_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *of, ProtobufCAllocator *with, size_t len,
                                 const uint8_t *bytes)
{
    return __real_protobuf_c_message_unpack(of, with != NULL ? with : &heap, len, bytes);
}

void
__wrap_protobuf_c_message_free_unpacked(ProtobufCMessage *m, ProtobufCAllocator *with)
{
    __real_protobuf_c_message_free_unpacked(m, with != NULL ? with : &heap);
}

/* ---- Ways into the core ---- */

enum ps_err __real_shard_new(const struct shard_config *config, struct store *store, uint64_t now_ms,
                             struct shard **out, struct ps_error *e);
enum shard_result __real_shard_step(struct shard *s, const struct shard_event *event);
enum ps_err __real_shard_commit(struct shard *s);
enum ps_err __real_shard_data_open(struct shard *s, struct shard_data *data, struct store_snapshot *snap,
                                   struct shard_reply *out);

enum ps_err
__wrap_shard_new(const struct shard_config *config, struct store *store, uint64_t now_ms, struct shard **out,
                 struct ps_error *e)
{
    enum ps_err err;

    inside = true;
    err = __real_shard_new(config, store, now_ms, out, e);
    inside = false;
    return err;
}

enum shard_result
__wrap_shard_step(struct shard *s, const struct shard_event *event)
{
    enum shard_result result;

    inside = true;
    result = __real_shard_step(s, event);
    inside = false;
    return result;
}

enum ps_err
__wrap_shard_commit(struct shard *s)
{
    enum ps_err err;

    inside = true;
    err = __real_shard_commit(s);
    inside = false;
    return err;
}

enum ps_err
__wrap_shard_data_open(struct shard *s, struct shard_data *data, struct store_snapshot *snap, struct shard_reply *out)
{
    enum ps_err err;

    inside = true;
    err = __real_shard_data_open(s, data, snap, out);
    inside = false;
    return err;
}
