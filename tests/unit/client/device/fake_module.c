/* A device module without a device: the operations and kernels of client/device/cuda as plain loops, in memory that no
 * other code can touch. So the way from ps_device.h through the loaded module is tested where no GPU is, and with it
 * every kernel's arithmetic and indices.
 *
 * It is as strict as a device may be. Its memory is not mapped between two operations: host code that reads it stops at
 * once, and so does a kernel that goes past the end of a block. A copy_in() is done when the next operation runs, a
 * copy_out() when the caller waits for it. Scratch memory is small, so that operations take several runs; device 1 has
 * more, so that sums take several levels.
 *
 * FAKE_VERSION, FAKE_STEP_SIZE: the values of a module of another build. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/device/cuda/patches.h"
#include "client/device/cuda/rules.h"
#include "client/device/cuda/sums.h"
#include "tests/unit/client/device/fake_controls.h"

#define ensure(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fake module: %s:%d: %s\n", __FILE__, __LINE__, #condition);                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#define DEVICES     2
#define BLOCKS_MAX  4096
#define COPIES_MAX  1024
#define CANARY      0x5a
#define BLOCK_ALIGN 64

#ifndef FAKE_VERSION
#define FAKE_VERSION PS_DEVICE_MODULE_VERSION
#endif
#ifndef FAKE_STEP_SIZE
#define FAKE_STEP_SIZE 0
#endif

/* A block ends where its last page does, but for the alignment of its start; a page without access follows. */
struct fake_block {
    char *start;
    size_t size;
    char *map;
    size_t map_size; /* without that page */
};

struct copy {
    void *to;
    const void *from;
    size_t size;
};

struct ps_module_device {
    unsigned number;
    enum ps_module_precision precision;
    float *scratch;
    size_t scratch_floats;
    uint16_t *halves;
    size_t halves_max;
    uint32_t *flags;
    uint32_t flag[FLAGS];
    struct sum_answers *answers, answer;

    struct fake_block block[BLOCKS_MAX], host[BLOCKS_MAX];
    struct copy in[COPIES_MAX], out[COPIES_MAX];
    size_t ins, outs;
    int open; /* its memory is mapped */
    int busy; /* something was begun that was not waited for */
};

/* ---- Memory ---- */

static size_t
page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void
fake_protect(PS_MODULE_DEVICE, int how)
{
    for (size_t i = 0; i < BLOCKS_MAX; i++)
        if (d->block[i].map != NULL)
            ensure(mprotect(d->block[i].map, d->block[i].map_size, how) == 0);
}

static void
do_copies(struct copy *copy, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        memcpy(copy[i].to, copy[i].from, copy[i].size);
    *count = 0;
}

/* Around everything that the device does. */
static void
fake_enter(PS_MODULE_DEVICE)
{
    ensure(!d->open);
    d->open = d->busy = 1;
    fake_protect(d, PROT_READ | PROT_WRITE);
    do_copies(d->in, &d->ins);
}

static void
fake_leave(PS_MODULE_DEVICE)
{
    d->open = 0;
    fake_protect(d, PROT_NONE);
}

static void
fake_wait(PS_MODULE_DEVICE)
{
    if (d->busy)
        fake_controls_wait();
    d->busy = 0;
}

static void *
fake_alloc(PS_MODULE_DEVICE, size_t size)
{
    size_t page = page_size(), rounded = (size + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    struct fake_block b = {.size = size, .map_size = (rounded + page) / page * page};
    size_t i = 0;

    if (size > (size_t)1 << 40 || (d->scratch != NULL && fake_controls_due(d->number)))
        return NULL;
    while (i < BLOCKS_MAX && d->block[i].map != NULL)
        i++;
    ensure(i < BLOCKS_MAX);
    b.map = mmap(NULL, b.map_size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b.map == MAP_FAILED)
        return NULL;
    ensure(mprotect(b.map + b.map_size, page, PROT_NONE) == 0);
    b.start = b.map + b.map_size - rounded;
    memset(b.map, CANARY, (size_t)(b.start - b.map));
    memset(b.start + size, CANARY, rounded - size);
    ensure(mprotect(b.map, b.map_size, PROT_NONE) == 0);
    d->block[i] = b;
    return b.start;
}

static void
fake_free(PS_MODULE_DEVICE, void *memory)
{
    size_t i = 0;
    struct fake_block b;

    fake_enter(d);
    while (i < BLOCKS_MAX && (d->block[i].map == NULL || d->block[i].start != memory))
        i++;
    ensure(i < BLOCKS_MAX);
    b = d->block[i];
    for (char *p = b.map; p < b.map + b.map_size; p++)
        ensure((p >= b.start && p < b.start + b.size) || *p == CANARY);
    d->block[i] = (struct fake_block){0}; /* the host may be given these addresses next */
    ensure(munmap(b.map, b.map_size + page_size()) == 0);
    fake_leave(d);
}

/* Whether a block holds it all; any: host memory of the module's, else the device's. */
static int
is_inside(const struct fake_block blocks[BLOCKS_MAX], const void *memory, size_t size)
{
    const char *p = memory;

    for (size_t i = 0; i < BLOCKS_MAX; i++)
        if (blocks[i].start != NULL && p >= blocks[i].start && p + size <= blocks[i].start + blocks[i].size)
            return 1;
    return 0;
}

static int
is_device(PS_MODULE_DEVICE, const void *memory, size_t size)
{
    return is_inside(d->block, memory, size);
}

static void *
fake_alloc_host(PS_MODULE_DEVICE, size_t size)
{
    size_t i = 0;

    while (i < BLOCKS_MAX && d->host[i].start != NULL)
        i++;
    ensure(i < BLOCKS_MAX);
    if (size > (size_t)1 << 40 || fake_controls_due(d->number))
        return NULL;
    d->host[i].size = size;
    if ((d->host[i].start = aligned_alloc(BLOCK_ALIGN, (size + BLOCK_ALIGN) / BLOCK_ALIGN * BLOCK_ALIGN)) != NULL)
        memset(d->host[i].start, 0, size);
    return d->host[i].start;
}

static void
fake_free_host(PS_MODULE_DEVICE, void *memory)
{
    size_t i = 0;

    while (i < BLOCKS_MAX && d->host[i].start != memory)
        i++;
    ensure(i < BLOCKS_MAX);
    d->host[i].start = NULL;
    free(memory);
}

/* ---- Copies ---- */

static enum ps_module_result
fake_failure(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    if (!fake_controls_fail(d->number))
        return PS_MODULE_OK;
    snprintf(why->text, sizeof why->text, "it was told to fail");
    return PS_MODULE_FAILED;
}

static enum ps_module_result
fake_result(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    enum ps_module_result failure = fake_failure(d, why);

    if (failure != PS_MODULE_OK || d->flag[FLAG_INDEX] == 0)
        return failure;
    d->flag[FLAG_INDEX] = 0;
    snprintf(why->text, sizeof why->text, "an id, a label or a column is out of range");
    return PS_MODULE_INVALID;
}

static void
fake_upload(PS_MODULE_DEVICE, void *to, const void *from_host, size_t size)
{
    ensure(size > 0 && is_device(d, to, size) && !is_device(d, from_host, 1));
    fake_controls_count(size);
    fake_enter(d);
    memcpy(to, from_host, size);
    fake_leave(d);
}

static void
fake_copy(PS_MODULE_DEVICE, void *to, const void *from, size_t size)
{
    ensure(size > 0 && is_device(d, to, size) && is_device(d, from, size));
    fake_enter(d);
    memcpy(to, from, size);
    fake_leave(d);
}

static enum ps_module_result
fake_download(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size, struct ps_module_text *why)
{
    ensure(size > 0 && is_device(d, from, size) && !is_device(d, to_host, 1));
    fake_controls_count(size);
    fake_enter(d);
    memcpy(to_host, from, size);
    fake_leave(d);
    fake_wait(d);
    return fake_result(d, why);
}

static void
fake_copy_in(PS_MODULE_DEVICE, void *to, const void *from_pinned, size_t size)
{
    ensure(size > 0 && is_device(d, to, size) && is_inside(d->host, from_pinned, size) && d->ins < COPIES_MAX);
    fake_controls_count(size);
    d->in[d->ins++] = (struct copy){to, from_pinned, size};
}

static void
fake_copy_out(PS_MODULE_DEVICE, void *to_pinned, const void *from, size_t size)
{
    ensure(size > 0 && is_device(d, from, size) && is_inside(d->host, to_pinned, size) && d->outs < COPIES_MAX);
    fake_controls_count(size);
    d->out[d->outs++] = (struct copy){to_pinned, from, size};
}

static void
fake_end_copies(PS_MODULE_DEVICE)
{
    fake_enter(d);
    do_copies(d->out, &d->outs);
    fake_leave(d);
    fake_wait(d);
}

static enum ps_module_result
fake_copied(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    fake_end_copies(d);
    return fake_failure(d, why);
}

static enum ps_module_result
fake_finish(PS_MODULE_DEVICE, struct ps_module_text *why)
{
    fake_end_copies(d);
    return fake_result(d, why);
}

/* ---- Kernels and products: loops ---- */

struct fake_pair {
    uint32_t number, place;
};

static int
fake_pair_order(const void *a, const void *b)
{
    const struct fake_pair *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place); /* places come in their order: this keeps it */
}

#define SORT_MORE ((size_t)16)

/* Memory that a sort may need is written, so that nothing that is needed lies there. */
static void
fake_sort(PS_MODULE_DEVICE, size_t n, size_t most, const uint32_t *number, const uint32_t *place, uint32_t *sorted,
          uint32_t *places, void *rest, size_t size)
{
    struct fake_pair *pair = calloc(n, sizeof *pair);

    ensure(pair != NULL && is_device(d, rest, size));
    fake_enter(d);
    memset(rest, CANARY, size);
    for (size_t i = 0; i < n; i++) {
        ensure(number[i] <= most && (i == 0 || place[i - 1] < place[i]));
        pair[i] = (struct fake_pair){number[i], place[i]};
    }
    qsort(pair, n, sizeof *pair, fake_pair_order);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = pair[i].number;
        places[i] = pair[i].place;
    }
    fake_leave(d);
    free(pair);
}

#define run_sort(d, n, most, number, place, sorted, places, rest)                                                      \
    fake_sort(d, n, most, number, place, sorted, places, rest, (SORT_WORDS * (n) + SORT_MORE) * sizeof(uint32_t))

#define RUN_ELEMENTS(d, name, n, ...)                                                                                  \
    do {                                                                                                               \
        const struct name##_args k_ = {__VA_ARGS__};                                                                   \
        size_t n_ = (n);                                                                                               \
                                                                                                                       \
        ensure(n_ > 0);                                                                                                \
        fake_enter(d);                                                                                                 \
        for (size_t i_ = 0; i_ < n_; i_++)                                                                             \
            name##_element(&k_, i_);                                                                                   \
        fake_leave(d);                                                                                                 \
    } while (0)

#define RUN_ROWS(d, name, n, ...)                                                                                      \
    do {                                                                                                               \
        const struct name##_args k_ = {__VA_ARGS__};                                                                   \
        size_t n_ = (n);                                                                                               \
                                                                                                                       \
        ensure(n_ > 0);                                                                                                \
        fake_enter(d);                                                                                                 \
        for (size_t i_ = 0; i_ < n_; i_++)                                                                             \
            name##_row(&k_, i_);                                                                                       \
        fake_leave(d);                                                                                                 \
    } while (0)

/* A factor as a product sees it: TF32 keeps 10 digits behind the point. */
static double
fake_factor(const struct ps_module_device *d, float x)
{
    return (double)(d->precision == PS_MODULE_TF32 && isfinite(x) ? half_float((half_bits(x) + 0x1000) & ~0x1fffu) : x);
}

static void
run_product(PS_MODULE_DEVICE, int a_transposed, int b_transposed, size_t m, size_t n, size_t k, const float *a,
            const float *b, float keep, float *c)
{
    fake_enter(d);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = keep != 0 ? (double)c[i * n + j] : 0;

            for (size_t t = 0; t < k; t++)
                sum += fake_factor(d, a[a_transposed ? t * m + i : i * k + t]) *
                       fake_factor(d, b[b_transposed ? j * k + t : t * n + j]);
            c[i * n + j] = (float)sum;
        }
    fake_leave(d);
}

static void
run_halves_product(PS_MODULE_DEVICE, int a_transposed, int b_transposed, size_t m, size_t n, size_t k,
                   const uint16_t *a, size_t a_line, const uint16_t *b, size_t b_line, float keep, float *c,
                   size_t c_line)
{
    fake_enter(d);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = keep != 0 ? (double)c[i * c_line + j] : 0;

            for (size_t t = 0; t < k; t++)
                sum += (double)bfloat_to_float(a[a_transposed ? t * a_line + i : i * a_line + t]) *
                       (double)bfloat_to_float(b[b_transposed ? j * b_line + t : t * b_line + j]);
            c[i * c_line + j] = (float)sum;
        }
    fake_leave(d);
}

static void
run_zero(PS_MODULE_DEVICE, void *to, size_t size)
{
    ensure(is_device(d, to, size));
    fake_enter(d);
    memset(to, 0, size);
    fake_leave(d);
}

static int
run_read(PS_MODULE_DEVICE, void *to_host, const void *from, size_t size)
{
    ensure(is_device(d, from, size));
    fake_enter(d);
    memcpy(to_host, from, size);
    fake_leave(d);
    fake_wait(d);
    return !fake_controls_due(d->number);
}

static int
run_wait(PS_MODULE_DEVICE)
{
    fake_wait(d);
    return !fake_controls_due(d->number);
}

/* Device 1 has a library for convolutions, which takes what is padded alike at both ends. */
static int
fake_axis_fits(const struct ps_module_axis *a)
{
    return a->size + 2 * a->before >= a->window && (a->size + 2 * a->before - a->window) / a->stride + 1 == a->out;
}

/* What is added to out for one window and one of its pixels. */
static void
convolution_pixel(PS_MODULE_DEVICE, enum convolution_pass pass, const struct ps_module_conv2d *c, size_t x, size_t y,
                  size_t pixel, const float *a, const float *b, double *out)
{
    size_t window = c->y.window * c->x.window;

    for (size_t o = 0; o < c->out; o++)
        for (size_t i = 0; i < c->in; i++) {
            size_t at_x = x * c->in + i, at_y = y * c->out + o, at_k = (o * window + pixel) * c->in + i;

            if (pass == CONVOLUTION_FORWARD)
                out[at_y] += fake_factor(d, a[at_x]) * fake_factor(d, b[at_k]);
            else if (pass == CONVOLUTION_DATA)
                out[at_x] += fake_factor(d, a[at_y]) * fake_factor(d, b[at_k]);
            else
                out[at_k] += fake_factor(d, a[at_x]) * fake_factor(d, b[at_y]);
        }
}

static void
convolution_sums(PS_MODULE_DEVICE, enum convolution_pass pass, size_t rows, const struct ps_module_conv2d *c,
                 const float *a, const float *b, double *out)
{
    for (size_t w = 0; w < rows * c->y.out * c->x.out; w++)
        for (size_t pixel = 0; pixel < c->y.window * c->x.window; pixel++) {
            size_t row = w / (c->y.out * c->x.out), line = w / c->x.out % c->y.out * c->y.stride + pixel / c->x.window,
                   column = w % c->x.out * c->x.stride + pixel % c->x.window;

            if (line >= c->y.before && line - c->y.before < c->y.size && column >= c->x.before &&
                column - c->x.before < c->x.size)
                convolution_pixel(d, pass, c, (row * c->y.size + line - c->y.before) * c->x.size + column - c->x.before,
                                  w, pixel, a, b, out);
        }
}

static int
run_convolution(PS_MODULE_DEVICE, enum convolution_pass pass, size_t rows, const struct ps_module_conv2d *c,
                const float *a, const float *b, float *out, void *workspace, size_t size)
{
    size_t n = pass == CONVOLUTION_FORWARD ? rows * c->y.out * c->x.out * c->out
               : pass == CONVOLUTION_DATA  ? rows * c->y.size * c->x.size * c->in
                                           : c->y.window * c->x.window * c->in * c->out;
    double *sums;

    if (d->number != 1 || !fake_axis_fits(&c->y) || !fake_axis_fits(&c->x))
        return 0;
    ensure((sums = calloc(n, sizeof *sums)) != NULL);
    fake_enter(d);
    memset(workspace, CANARY, size); /* it is the library's */
    convolution_sums(d, pass, rows, c, a, b, sums);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)sums[i];
    fake_leave(d);
    free(sums);
    return 1;
}

#define COLUMN_QUADS ((size_t)256)
#include "client/device/cuda/operations.h"

static enum ps_module_result
fake_count_equal(PS_MODULE_DEVICE, size_t n, const uint32_t *a, const uint32_t *b, size_t *count,
                 struct ps_module_text *why)
{
    uint64_t found = 0;

    (void)count_equal(d, n, a, b, &found);
    *count = (size_t)found;
    return fake_result(d, why);
}

static enum ps_module_result
fake_square_sum_end(PS_MODULE_DEVICE, double *sum, struct ps_module_text *why)
{
    (void)square_sum_end(d, sum);
    return fake_result(d, why);
}

static enum ps_module_result
fake_tally_end(PS_MODULE_DEVICE, size_t *count, double *loss, struct ps_module_text *why)
{
    struct sum_tally sum = {0, 0};

    (void)tally_end(d, &sum);
    *count = (size_t)sum.equal;
    *loss = sum.loss;
    return fake_result(d, why);
}

/* ---- Optimizers ---- */

#define RULE_LOOP(NAME, name, number)                                                                                  \
    static void run_##name(const struct update_args *k, size_t n)                                                      \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            name##_update_element(k, i);                                                                               \
    }
PS_OPTIMIZER_LIST(RULE_LOOP)

#define RULE_ENTRY(NAME, name, number) [number] = run_##name,
static void (*const rules[])(const struct update_args *k, size_t n) = {PS_OPTIMIZER_LIST(RULE_ENTRY)};

#define SIZE_ENTRY(NAME, name, number) [number] = sizeof(struct name##_step) + FAKE_STEP_SIZE,
static const uint16_t step_sizes[] = {PS_OPTIMIZER_LIST(SIZE_ENTRY)};

void
run_update(PS_MODULE_DEVICE, unsigned optimizer, const struct ps_module_step *step, size_t n, const float *gradient,
           float *weights, float *const slot[PS_MODULE_SLOTS_MAX])
{
    const struct update_args k = {*step, gradient, {weights, {slot[0], slot[1], slot[2]}}, d->flags};

    fake_enter(d);
    rules[optimizer](&k, n);
    fake_leave(d);
}

static enum ps_module_result
fake_updates_finite(PS_MODULE_DEVICE, int *finite, struct ps_module_text *why)
{
    *finite = d->flag[FLAG_NONFINITE] == 0;
    d->flag[FLAG_NONFINITE] = 0;
    return fake_result(d, why);
}

/* ---- Gangs: all replicas' memory is reached from here ---- */

struct ps_module_gang {
    size_t n;
    struct ps_module_device *device[TENSORS_MAX];
};

static enum ps_module_result
fake_gang_open(struct ps_module_device *const devices[], size_t n, struct ps_module_gang **out,
               struct ps_module_text *why)
{
    if (n > 3) {
        snprintf(why->text, sizeof why->text, "a gang of %zu needs what is not there", n);
        return PS_MODULE_ABSENT;
    }
    *out = calloc(1, sizeof **out);
    ensure(*out != NULL);
    (*out)->n = n;
    memcpy((*out)->device, devices, n * sizeof *devices);
    return PS_MODULE_OK;
}

static void
fake_gang_close(struct ps_module_gang *gang)
{
    free(gang);
}

static enum ps_module_result
gang_result(struct ps_module_gang *gang, struct ps_module_text *why)
{
    enum ps_module_result of_one = PS_MODULE_OK;

    for (size_t r = 0; r < gang->n && of_one == PS_MODULE_OK; r++)
        of_one = fake_result(gang->device[r], why);
    return of_one;
}

static enum ps_module_result
fake_gang_sum(struct ps_module_gang *gang, float *const tensors[], size_t elements, float divisor,
              struct ps_module_text *why)
{
    struct tensors_sum_args k = {elements, gang->n, divisor, {NULL}};

    for (size_t r = 0; r < gang->n; r++) {
        ensure(is_device(gang->device[r], tensors[r], elements * sizeof(float)));
        k.x[r] = tensors[r];
        if (!gang->device[r]->open)
            fake_enter(gang->device[r]);
    }
    for (size_t i = 0; i < QUADS(elements); i++)
        tensors_sum_element(&k, i);
    for (size_t r = 0; r < gang->n; r++)
        if (gang->device[r]->open)
            fake_leave(gang->device[r]);
    return gang_result(gang, why);
}

static enum ps_module_result
fake_gang_broadcast(struct ps_module_gang *gang, float *const tensors[], size_t elements, size_t root,
                    struct ps_module_text *why)
{
    size_t size = elements * sizeof(float);

    for (size_t r = 0; r < gang->n; r++) {
        ensure(is_device(gang->device[r], tensors[r], size));
        if (r == root)
            continue;
        fake_enter(gang->device[root]);
        if (gang->device[r] != gang->device[root])
            fake_enter(gang->device[r]);
        memcpy(tensors[r], tensors[root], size);
        if (gang->device[r] != gang->device[root])
            fake_leave(gang->device[r]);
        fake_leave(gang->device[root]);
    }
    return gang_result(gang, why);
}

/* ---- Teams: a board in shared memory, on which each process writes for the others to read ---- */

#define TEAM_RANKS 8
#define TEAM_RUN   1000 /* floats at once */

struct fake_board {
    atomic_uint joined;
    atomic_ulong wrote[TEAM_RANKS], read[TEAM_RANKS]; /* how many runs */
    float x[TEAM_RANKS][TEAM_RUN];
};

struct ps_module_team {
    struct ps_module_device *device;
    char path[PS_MODULE_TEAM_ID];
    struct fake_board *board;
    unsigned ranks, rank;
    int joined, written; /* of the run under way */
    unsigned long run;

    float *tensor; /* NULL: nothing was begun */
    size_t elements, at;
    float divisor;
    int root; /* -1: the sum */
};

static struct fake_board *
map_board(const char *path, int flags)
{
    int fd = open(path, O_RDWR | flags, 0600);
    void *map = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(struct fake_board)) == 0)
        map = mmap(NULL, sizeof(struct fake_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return map != MAP_FAILED ? map : NULL;
}

/* Each process has devices of its own, or, when PSD_FAKE_SHARED is set, all have the same. */
static void
fake_identity(PS_MODULE_DEVICE, unsigned char identity[PS_MODULE_IDENTITY])
{
    uint32_t words[PS_MODULE_IDENTITY / 4] = {1, d->number, getenv("PSD_FAKE_SHARED") != NULL ? 0 : (uint32_t)getpid()};

    memcpy(identity, words, sizeof words);
}

static enum ps_module_result
fake_team_id(PS_MODULE_DEVICE, unsigned char id[PS_MODULE_TEAM_ID], struct ps_module_text *why)
{
    static atomic_int made;
    struct fake_board *b;

    memset(id, 0, PS_MODULE_TEAM_ID);
    snprintf((char *)id, PS_MODULE_TEAM_ID, "/dev/shm/psd-fake-team-%ld-%d", (long)getpid(),
             atomic_fetch_add(&made, 1));
    ensure((b = map_board((char *)id, O_CREAT | O_EXCL)) != NULL);
    ensure(munmap(b, sizeof *b) == 0);
    return fake_result(d, why);
}

static enum ps_module_result
fake_team_open(PS_MODULE_DEVICE, const unsigned char id[PS_MODULE_TEAM_ID], uint32_t ranks, uint32_t rank,
               struct ps_module_team **out, struct ps_module_text *why)
{
    struct ps_module_team *t = calloc(1, sizeof *t);

    ensure(t != NULL && ranks <= TEAM_RANKS && rank < ranks);
    memcpy(t->path, id, sizeof t->path);
    t->device = d;
    t->ranks = ranks;
    t->rank = rank;
    if ((t->board = map_board(t->path, 0)) == NULL) {
        snprintf(why->text, sizeof why->text, "there is no %s", t->path);
        free(t);
        return PS_MODULE_FAILED;
    }
    atomic_fetch_add(&t->board->joined, 1);
    *out = t;
    return PS_MODULE_OK;
}

static void
fake_team_close(struct ps_module_team *team)
{
    if (team->rank == 0 && !team->joined)
        (void)unlink(team->path);
    ensure(munmap(team->board, sizeof *team->board) == 0);
    free(team);
}

static enum ps_module_result
fake_begin(struct ps_module_team *t, float *tensor, size_t elements, float divisor, int root)
{
    ensure(t->joined && t->tensor == NULL && elements > 0);
    ensure(is_device(t->device, tensor, elements * sizeof *tensor));
    t->tensor = tensor;
    t->elements = elements;
    t->at = 0;
    t->divisor = divisor;
    t->root = root;
    return PS_MODULE_OK;
}

static enum ps_module_result
fake_team_sum(struct ps_module_team *team, float *tensor, size_t elements, float divisor, struct ps_module_text *why)
{
    (void)why;
    return fake_begin(team, tensor, elements, divisor, -1);
}

static enum ps_module_result
fake_team_broadcast(struct ps_module_team *team, float *tensor, size_t elements, uint32_t root,
                    struct ps_module_text *why)
{
    (void)why;
    ensure(root < team->ranks);
    return fake_begin(team, tensor, elements, 1, (int)root);
}

static int
all_have(const struct ps_module_team *t, atomic_ulong *runs, unsigned long many)
{
    for (unsigned r = 0; r < t->ranks; r++)
        if (atomic_load(&runs[r]) < many)
            return 0;
    return 1;
}

static float
made_of(const struct ps_module_team *t, size_t i)
{
    float sum = t->board->x[0][i];

    if (t->root >= 0)
        return t->board->x[t->root][i];
    for (unsigned r = 1; r < t->ranks; r++)
        sum += t->board->x[r][i];
    return sum / t->divisor;
}

/* One run further, or two; 0: waits for others. */
static int
run_on(struct ps_module_team *t)
{
    struct fake_board *b = t->board;
    size_t n = t->elements - t->at < TEAM_RUN ? t->elements - t->at : TEAM_RUN;

    if (!t->written) {
        if (!all_have(t, b->read, t->run))
            return 0;
        fake_enter(t->device);
        memcpy(b->x[t->rank], t->tensor + t->at, n * sizeof(float));
        fake_leave(t->device);
        atomic_store(&b->wrote[t->rank], t->run + 1);
        t->written = 1;
    }
    if (!all_have(t, b->wrote, t->run + 1))
        return 0;
    fake_enter(t->device);
    for (size_t i = 0; i < n; i++)
        t->tensor[t->at + i] = made_of(t, i);
    fake_leave(t->device);
    atomic_store(&b->read[t->rank], ++t->run);
    t->written = 0;
    t->at += n;
    if (t->at == t->elements)
        t->tensor = NULL;
    return 1;
}

static enum ps_module_result
fake_team_poll(struct ps_module_team *team, int *done, struct ps_module_text *why)
{
    *done = 0;
    if (!team->joined) {
        if (atomic_load(&team->board->joined) < team->ranks)
            return fake_result(team->device, why);
        team->joined = 1;
        if (team->rank == 0)
            ensure(unlink(team->path) == 0);
    }
    while (team->tensor != NULL && run_on(team))
        ;
    *done = team->tensor == NULL;
    return fake_result(team->device, why);
}

/* ---- Devices ---- */

static int
fake_count(struct ps_module_text *why)
{
    (void)why;
    return DEVICES;
}

static enum ps_module_result
fake_open(unsigned number, enum ps_module_precision precision, struct ps_module_device **out,
          struct ps_module_text *why)
{
    struct ps_module_device *d;

    if (number >= DEVICES) {
        snprintf(why->text, sizeof why->text, "there are %d of them, numbered from 0", DEVICES);
        return PS_MODULE_ABSENT;
    }
    d = calloc(1, sizeof *d);
    ensure(d != NULL);
    d->number = number;
    d->flags = d->flag;
    d->answers = &d->answer;
    d->scratch_floats = number == 0 ? 600 : 24000;
    d->scratch = fake_alloc(d, d->scratch_floats * sizeof *d->scratch);
    d->precision = precision;
    d->halves_max = precision == PS_MODULE_BFLOAT16 ? 1200 : 0;
    d->halves = d->halves_max > 0 ? fake_alloc(d, d->halves_max * sizeof *d->halves) : NULL;
    *out = d;
    return PS_MODULE_OK;
}

static void
fake_close(PS_MODULE_DEVICE)
{
    fake_free(d, d->scratch);
    if (d->halves != NULL)
        fake_free(d, d->halves);
    for (size_t i = 0; i < BLOCKS_MAX; i++)
        ensure(d->block[i].map == NULL && d->host[i].start == NULL);
    free(d);
}

static void
fake_describe(PS_MODULE_DEVICE, char *text, size_t size)
{
    snprintf(text, size, "no device, number %u", d->number);
}

#define OP_ENTRY(name, parameters) .name = op_##name,

static const struct ps_device_module module = {
    .version = FAKE_VERSION,
    .size = sizeof module,
    .built = "fake",
    .optimizers = PS_OPTIMIZER_KINDS,
    .step_size = step_sizes,
    .count = fake_count,
    .open = fake_open,
    .close = fake_close,
    .describe = fake_describe,
    .alloc = fake_alloc,
    .free = fake_free,
    .alloc_host = fake_alloc_host,
    .free_host = fake_free_host,
    .upload = fake_upload,
    .copy = fake_copy,
    .zero = run_zero,
    .download = fake_download,
    .copy_in = fake_copy_in,
    .copy_out = fake_copy_out,
    .copied = fake_copied,
    .finish = fake_finish,
    PS_MODULE_COMPUTE_OPS(OP_ENTRY).count_equal = fake_count_equal,
    .fill = op_fill,
    .update = run_update,
    .updates_finite = fake_updates_finite,
    .square_sum_start = op_square_sum_start,
    .square_sum_end = fake_square_sum_end,
    .tally_start = op_tally_start,
    .tally_end = fake_tally_end,
    .encode = op_encode,
    .gang_open = fake_gang_open,
    .gang_close = fake_gang_close,
    .gang_sum = fake_gang_sum,
    .gang_broadcast = fake_gang_broadcast,
    .identity = fake_identity,
    .team_id = fake_team_id,
    .team_open = fake_team_open,
    .team_sum = fake_team_sum,
    .team_broadcast = fake_team_broadcast,
    .team_poll = fake_team_poll,
    .team_close = fake_team_close,
};

const struct ps_device_module *
ps_device_module(void)
{
    return &module;
}
