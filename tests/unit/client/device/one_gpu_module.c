/* A device module in front of another one, for tests on a machine with one GPU: the tests that use the fake module run
 * on a real one through it. It has two devices, which both are the first of the module behind it, counts the bytes that
 * are copied, and fails on command, as fake_module.c does and by the same functions. Everything else is the other
 * module's.
 *
 * ONE_GPU_BEHIND: the path of the module behind it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/device/ps_device_module.h"
#include "tests/unit/client/device/fake_controls.h"

#define DEVICES   2
#define GANG_MOST 3
#define TABLE     256

static const struct ps_device_module *behind;
static struct ps_device_module front;
static atomic_int begun; /* a sum that was not waited for */

/* Which device a handle of the module behind stands for: that of a device itself, or of a team. */
static struct {
    const void *handle;
    unsigned number;
} numbers[TABLE];
static pthread_mutex_t numbers_mutex = PTHREAD_MUTEX_INITIALIZER;

/* handle is known by this number; with instead of NULL it takes the place of that one. */
static void
one_gpu_note(const void *instead, const void *handle, unsigned number)
{
    pthread_mutex_lock(&numbers_mutex);
    for (size_t i = 0; i < TABLE; i++)
        if (numbers[i].handle == instead) {
            numbers[i].handle = handle;
            numbers[i].number = number;
            pthread_mutex_unlock(&numbers_mutex);
            return;
        }
    fprintf(stderr, "one_gpu: more than %d handles\n", TABLE);
    abort();
}

static unsigned
one_gpu_number(const void *handle)
{
    unsigned number = 0;

    pthread_mutex_lock(&numbers_mutex);
    for (size_t i = 0; i < TABLE; i++)
        if (numbers[i].handle == handle)
            number = numbers[i].number;
    pthread_mutex_unlock(&numbers_mutex);
    return number;
}

static enum ps_module_result
one_gpu_result(const void *handle, enum ps_module_result result, struct ps_module_text *why)
{
    if (!fake_controls_fail(one_gpu_number(handle)))
        return result;
    snprintf(why->text, sizeof why->text, "it was told to fail");
    return PS_MODULE_FAILED;
}

/* ---- Devices and memory ---- */

static int
one_gpu_count(struct ps_module_text *why)
{
    return behind->count(why) > 0 ? DEVICES : 0;
}

static enum ps_module_result
one_gpu_open(unsigned number, enum ps_module_precision precision, struct ps_module_device **out,
             struct ps_module_text *why)
{
    enum ps_module_result result;

    if (number >= DEVICES) {
        snprintf(why->text, sizeof why->text, "there are %d of them, numbered from 0", DEVICES);
        return PS_MODULE_ABSENT;
    }
    result = behind->open(0, precision, out, why);
    if (result == PS_MODULE_OK)
        one_gpu_note(NULL, *out, number);
    return result;
}

static void
one_gpu_close(PS_MODULE_DEVICE)
{
    one_gpu_note(d, NULL, 0);
    behind->close(d);
}

static void
one_gpu_describe(PS_MODULE_DEVICE, char *text, size_t size)
{
    size_t length;

    behind->describe(d, text, size);
    length = strlen(text);
    snprintf(text + length, size - length, ", number %u", one_gpu_number(d));
}

/* Each process has devices of its own, or, when PSD_FAKE_SHARED is set, all have the same. */
static void
one_gpu_identity(PS_MODULE_DEVICE, unsigned char identity[PS_MODULE_IDENTITY])
{
    uint32_t words[PS_MODULE_IDENTITY / 4] = {1, one_gpu_number(d),
                                              getenv("PSD_FAKE_SHARED") != NULL ? 0 : (uint32_t)getpid()};

    memcpy(identity, words, sizeof words);
}

static void *
one_gpu_alloc(PS_MODULE_DEVICE, size_t size)
{
    return fake_controls_due(one_gpu_number(d)) ? NULL : behind->alloc(d, size);
}

static void *
one_gpu_alloc_host(PS_MODULE_DEVICE, size_t size)
{
    return fake_controls_due(one_gpu_number(d)) ? NULL : behind->alloc_host(d, size);
}

/* ---- What is counted ---- */

static void
one_gpu_upload(PS_MODULE_DEVICE, void *to, const void *from_host, size_t size)
{
    fake_controls_count(size);
    behind->upload(d, to, from_host, size);
}

static void
one_gpu_copy_in(PS_MODULE_DEVICE, void *to, const void *from_pinned, size_t size)
{
    fake_controls_count(size);
    behind->copy_in(d, to, from_pinned, size);
}

static void
one_gpu_copy_out(PS_MODULE_DEVICE, void *to_pinned, const void *from, size_t size)
{
    fake_controls_count(size);
    behind->copy_out(d, to_pinned, from, size);
}

static void
one_gpu_square_sum_start(PS_MODULE_DEVICE, size_t n, const float *x)
{
    atomic_store(&begun, 1);
    behind->square_sum_start(d, n, x);
}

/* ---- What fails on command: every function that has a result ---- */

static void
one_gpu_waits(void)
{
    atomic_store(&begun, 0);
    fake_controls_wait();
}

static enum ps_module_result
one_gpu_download(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size, struct ps_module_text *why)
{
    fake_controls_count(size);
    one_gpu_waits();
    return one_gpu_result(d, behind->download(d, to_host, from, size, why), why);
}

static enum ps_module_result
one_gpu_copied(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    one_gpu_waits();
    return one_gpu_result(d, behind->copied(d, why), why);
}

static enum ps_module_result
one_gpu_finish(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    one_gpu_waits();
    return one_gpu_result(d, behind->finish(d, why), why);
}

static enum ps_module_result
one_gpu_count_equal(PS_MODULE_DEVICE, size_t n, const uint32_t *a, const uint32_t *b, size_t *count,
                    struct ps_module_text *why)
{
    one_gpu_waits();
    return one_gpu_result(d, behind->count_equal(d, n, a, b, count, why), why);
}

static enum ps_module_result
one_gpu_updates_finite(PS_MODULE_DEVICE, int *finite, struct ps_module_text *why)
{
    return one_gpu_result(d, behind->updates_finite(d, finite, why), why);
}

static enum ps_module_result
one_gpu_square_sum_end(PS_MODULE_DEVICE, double *sum, struct ps_module_text *why)
{
    if (atomic_load(&begun))
        one_gpu_waits();
    return one_gpu_result(d, behind->square_sum_end(d, sum, why), why);
}

static enum ps_module_result
one_gpu_tally_end(PS_MODULE_DEVICE, size_t *count, double *loss, struct ps_module_text *why)
{
    one_gpu_waits();
    return one_gpu_result(d, behind->tally_end(d, count, loss, why), why);
}

/* A gang fails when one of its devices does. */
struct ps_module_gang {
    struct ps_module_gang *behind;
    size_t n;
    struct ps_module_device *device[GANG_MOST];
};

static enum ps_module_result
one_gpu_gang_open(struct ps_module_device *const devices[], size_t n, struct ps_module_gang **out,
                  struct ps_module_text *why)
{
    struct ps_module_gang *g;
    enum ps_module_result result;

    if (n > GANG_MOST) {
        snprintf(why->text, sizeof why->text, "a gang of %zu needs what is not there", n);
        return PS_MODULE_ABSENT;
    }
    if ((g = calloc(1, sizeof *g)) == NULL)
        return PS_MODULE_NO_MEMORY;
    result = behind->gang_open(devices, n, &g->behind, why);
    if (result != PS_MODULE_OK) {
        free(g);
        return result;
    }
    g->n = n;
    memcpy(g->device, devices, n * sizeof *devices);
    *out = g;
    return PS_MODULE_OK;
}

static void
one_gpu_gang_close(struct ps_module_gang *gang)
{
    behind->gang_close(gang->behind);
    free(gang);
}

static enum ps_module_result
one_gpu_of_gang(const struct ps_module_gang *gang, enum ps_module_result result, struct ps_module_text *why)
{
    for (size_t r = 0; r < gang->n && result == PS_MODULE_OK; r++)
        result = one_gpu_result(gang->device[r], result, why);
    return result;
}

static enum ps_module_result
one_gpu_gang_sum(struct ps_module_gang *gang, float *const tensors[], size_t elements, float divisor,
                 struct ps_module_text *why)
{
    return one_gpu_of_gang(gang, behind->gang_sum(gang->behind, tensors, elements, divisor, why), why);
}

static enum ps_module_result
one_gpu_gang_broadcast(struct ps_module_gang *gang, float *const tensors[], size_t elements, size_t root,
                       struct ps_module_text *why)
{
    return one_gpu_of_gang(gang, behind->gang_broadcast(gang->behind, tensors, elements, root, why), why);
}

static enum ps_module_result
one_gpu_team_open(PS_MODULE_DEVICE, const unsigned char id[PS_MODULE_TEAM_ID], uint32_t ranks, uint32_t rank,
                  struct ps_module_team **out, struct ps_module_text *why)
{
    enum ps_module_result result = behind->team_open(d, id, ranks, rank, out, why);

    if (result == PS_MODULE_OK)
        one_gpu_note(NULL, *out, one_gpu_number(d));
    return result;
}

static void
one_gpu_team_close(struct ps_module_team *team)
{
    one_gpu_note(team, NULL, 0);
    behind->team_close(team);
}

static enum ps_module_result
one_gpu_team_poll(struct ps_module_team *team, int *done, struct ps_module_text *why)
{
    return one_gpu_result(team, behind->team_poll(team, done, why), why);
}

/* ---- The table ---- */

static const struct ps_device_module *
one_gpu_load(void)
{
    const char *path = getenv("ONE_GPU_BEHIND");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library != NULL ? dlsym(library, PS_DEVICE_MODULE_SYMBOL) : NULL;
    ps_device_module_fn *table;

    if (symbol == NULL) {
        fprintf(stderr, "one_gpu: ONE_GPU_BEHIND: %s\n", path == NULL ? "it is not set" : dlerror());
        return NULL;
    }
    memcpy(&table, &symbol, sizeof table);
    return table();
}

static void
one_gpu_make(void)
{
    if ((behind = one_gpu_load()) == NULL || behind->version != PS_DEVICE_MODULE_VERSION ||
        behind->size != sizeof front)
        return; /* the table stays empty, of version 0, which is refused */
    front = *behind;
    front.count = one_gpu_count;
    front.open = one_gpu_open;
    front.close = one_gpu_close;
    front.describe = one_gpu_describe;
    front.identity = one_gpu_identity;
    front.alloc = one_gpu_alloc;
    front.alloc_host = one_gpu_alloc_host;
    front.upload = one_gpu_upload;
    front.copy_in = one_gpu_copy_in;
    front.copy_out = one_gpu_copy_out;
    front.download = one_gpu_download;
    front.copied = one_gpu_copied;
    front.finish = one_gpu_finish;
    front.count_equal = one_gpu_count_equal;
    front.updates_finite = one_gpu_updates_finite;
    front.square_sum_start = one_gpu_square_sum_start;
    front.square_sum_end = one_gpu_square_sum_end;
    front.tally_end = one_gpu_tally_end;
    front.gang_open = one_gpu_gang_open;
    front.gang_close = one_gpu_gang_close;
    front.gang_sum = one_gpu_gang_sum;
    front.gang_broadcast = one_gpu_gang_broadcast;
    front.team_open = one_gpu_team_open;
    front.team_poll = one_gpu_team_poll;
    front.team_close = one_gpu_team_close;
}

const struct ps_device_module *
ps_device_module(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, one_gpu_make);
    return &front;
}
