/* The file, and the arithmetic of the values that a block must hold. */
#include "tests/system/fire_ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/core/model/layout.h"

const char *const fire_var_names[FIRE_VARS] = {
#define X(id, name, elements) [FIRE_##id] = name,
    FIRE_VARS_LIST(X)
#undef X
};
const uint64_t fire_var_elements[FIRE_VARS] = {
#define X(id, name, elements) [FIRE_##id] = elements,
    FIRE_VARS_LIST(X)
#undef X
};

struct fire_ledger *
fire_ledger_open(const char *path, int *fd)
{
    void *map;

    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0 || ftruncate(*fd, sizeof(struct fire_ledger)) < 0)
        return NULL;
    map = mmap(NULL, sizeof(struct fire_ledger), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    return map != MAP_FAILED ? map : NULL;
}

/* A lock of the open file ends with its process, however that dies. */
bool
fire_hold(int fd, uint32_t task)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = task, .l_len = 1};

    return fcntl(fd, F_OFD_SETLKW, &lock) == 0;
}

bool
fire_is_held(int fd, uint32_t task)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = task, .l_len = 1};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* ---- What is written down ---- */

static uint32_t
ledger_ordinal(uint32_t push)
{
    return push / FIRE_SLOTS + 1;
}

struct fire_sum
fire_acked(const struct fire_pushes *p, uint32_t slot, uint32_t to)
{
    struct fire_sum sum = {0, 0};

    for (uint32_t n = slot; n < to; n += FIRE_SLOTS)
        if (atomic_load(&p->state[n]) == FIRE_ACKED) {
            sum.count++;
            sum.ordinals += ledger_ordinal(n);
        }
    return sum;
}

uint32_t
fire_begun(const struct fire_pushes *p)
{
    return atomic_load(&p->begun);
}

/* How often a push that was begun may be in a block. In sync a step that lost the other worker is made without it: the
 * mean is over one, so that this one's gradient counts double. Not when the other's push was acknowledged. */
static uint32_t
times_at_most(const struct fire_ledger *l, enum fire_var var, uint32_t worker, uint32_t push)
{
    const struct fire_worker *other = &l->worker[FIRE_WORKERS - 1 - worker];

    return l->mode == PS_SYNC && atomic_load(&other->pushes[var].state[push]) != FIRE_ACKED ? FIRE_WORKERS : 1;
}

void
fire_bounds_before(const struct fire_ledger *l, enum fire_var var, struct fire_bounds *b)
{
    for (uint32_t w = 0; w < FIRE_WORKERS; w++) {
        const struct fire_pushes *p = &l->worker[w].pushes[var];
        uint32_t to = fire_begun(p);

        for (uint32_t slot = 0; slot < FIRE_SLOTS; slot++)
            b->least[w][slot] = fire_acked(p, slot, to);
    }
}

void
fire_bounds_after(const struct fire_ledger *l, enum fire_var var, struct fire_bounds *b)
{
    for (uint32_t w = 0; w < FIRE_WORKERS; w++) {
        uint32_t to = fire_begun(&l->worker[w].pushes[var]);

        memset(b->most[w], 0, sizeof b->most[w]);
        for (uint32_t n = 0; n < to; n++)
            b->most[w][n % FIRE_SLOTS] += times_at_most(l, var, w, n);
    }
}

/* ---- Values ---- */

/* One block that is being checked. */
struct ledger_look {
    enum fire_var var;
    uint64_t block;
    const float *values; /* of the block */
    uint32_t len;
    char *text;
    size_t size;
};

/* UINT32_MAX for what no sum of these gradients can be. */
static uint32_t
ledger_is_whole(float value)
{
    return value >= 0 && value < (1 << 24) && value == (float)(uint32_t)value ? (uint32_t)value : UINT32_MAX;
}

static struct fire_sum
slot_sum(const struct ledger_look *k, uint32_t worker, uint32_t slot)
{
    const float *at = k->values + (worker * FIRE_SLOTS + slot) * 2;

    return (struct fire_sum){ledger_is_whole(at[0]), ledger_is_whole(at[1])};
}

static bool
wrong_slot(const struct ledger_look *k, uint32_t worker, uint32_t slot, struct fire_sum least, const char *what)
{
    struct fire_sum is = slot_sum(k, worker, slot);

    snprintf(k->text, k->size,
             "block %llu of '%s', slot %u of worker %u, holds %u pushes (ordinals %u); acknowledged are %u (%u): %s",
             (unsigned long long)k->block, fire_var_names[k->var], slot, worker, is.count, is.ordinals, least.count,
             least.ordinals, what);
    return false;
}

/* Each element past the marks is as many times 1 as the slots have pushes. */
static bool
check_fill(const struct ledger_look *k)
{
    uint32_t sum = 0;

    for (uint32_t w = 0; w < FIRE_WORKERS; w++)
        for (uint32_t slot = 0; slot < FIRE_SLOTS; slot++)
            sum += slot_sum(k, w, slot).count;
    for (uint32_t i = FIRE_MARKS; i < k->len; i++)
        if (k->values[i] != (float)sum) {
            snprintf(k->text, k->size, "block %llu of '%s' is torn: %u pushes, and element %u is %g",
                     (unsigned long long)k->block, fire_var_names[k->var], sum, i, (double)k->values[i]);
            return false;
        }
    return true;
}

typedef bool (*check_slot)(const struct ledger_look *k, const void *arg, uint32_t worker, uint32_t slot);

static bool
check_blocks(enum fire_var var, const float *values, char *text, size_t size, check_slot check, const void *arg)
{
    struct layout layout;

    layout_init(&layout, fire_var_elements[var], 0);
    for (uint64_t block = 0; block < layout.blocks; block++) {
        struct layout_block b = layout_block(&layout, block);
        struct ledger_look k = {var, block, values + b.first, b.len, text, size};

        ps_assert(b.len > FIRE_MARKS);
        for (uint32_t w = 0; w < FIRE_WORKERS; w++)
            for (uint32_t slot = 0; slot < FIRE_SLOTS; slot++)
                if (!check(&k, arg, w, slot))
                    return false;
        if (!check_fill(&k))
            return false;
    }
    return true;
}

static bool
slot_in_bounds(const struct ledger_look *k, const void *arg, uint32_t worker, uint32_t slot)
{
    const struct fire_bounds *b = arg;
    struct fire_sum is = slot_sum(k, worker, slot), least = b->least[worker][slot];

    if (is.count < least.count || is.ordinals < least.ordinals)
        return wrong_slot(k, worker, slot, least, "something is lost");
    if (is.count > b->most[worker][slot])
        return wrong_slot(k, worker, slot, least, "more than were begun");
    return true;
}

bool
fire_check_bounds(const struct fire_bounds *b, enum fire_var var, const float *values, char *text, size_t size)
{
    return check_blocks(var, values, text, size, slot_in_bounds, b);
}

/* Pushes of one slot that may be in a block besides the acknowledged ones, each as often as it may be. */
struct unknown {
    uint32_t ordinals[FIRE_WORKERS * FIRE_PUSHES_MAX / FIRE_SLOTS], len;
};

/* Whether some `count` of the pushes from `at` on have ordinals that sum up to `sum`. They rise, which cuts the search
 * short. */
static bool
some_make(const struct unknown *u, uint32_t at, uint32_t count, uint32_t sum)
{
    if (count == 0)
        return sum == 0;
    for (; at + count <= u->len && (uint64_t)u->ordinals[at] * count <= sum; at++)
        if (some_make(u, at + 1, count - 1, sum - u->ordinals[at]))
            return true;
    return false;
}

static bool
slot_exact(const struct ledger_look *k, const void *arg, uint32_t worker, uint32_t slot)
{
    const struct fire_ledger *l = arg;
    const struct fire_pushes *p = &l->worker[worker].pushes[k->var];
    struct fire_sum is = slot_sum(k, worker, slot), least = fire_acked(p, slot, fire_begun(p));
    struct unknown u = {.len = 0};

    for (uint32_t n = slot; n < fire_begun(p); n += FIRE_SLOTS) {
        uint32_t times = times_at_most(l, k->var, worker, n) - (atomic_load(&p->state[n]) == FIRE_ACKED);

        while (times-- > 0)
            u.ordinals[u.len++] = ledger_ordinal(n);
    }
    if (is.count < least.count || is.ordinals < least.ordinals)
        return wrong_slot(k, worker, slot, least, "something is lost");
    if (!some_make(&u, 0, is.count - least.count, is.ordinals - least.ordinals))
        return wrong_slot(k, worker, slot, least, "the rest are no pushes of unknown outcome, each at most once");
    return true;
}

bool
fire_check_exact(const struct fire_ledger *l, enum fire_var var, const float *values, char *text, size_t size)
{
    return check_blocks(var, values, text, size, slot_exact, l);
}

bool
fire_check_rolled_back(const struct fire_ledger *l, const float *values, char *text, size_t size)
{
    struct ledger_look k = {FIRE_OTHER, 0, values, (uint32_t)fire_var_elements[FIRE_OTHER], text, size};

    if (!check_fill(&k))
        return false;
    for (uint32_t w = 0; w < FIRE_WORKERS; w++) {
        uint64_t told = atomic_load(&l->worker[w].rolled_back), there = 0, alone = 0;
        uint32_t begun = fire_begun(&l->worker[w].pushes[FIRE_OTHER]);

        for (uint32_t slot = 0; slot < FIRE_SLOTS; slot++)
            there += slot_sum(&k, w, slot).count;
        if (l->mode == PS_SYNC) /* a step that came again without the other's gradient counts this one's twice */
            alone = atomic_load(&l->worker[FIRE_WORKERS - 1 - w].rolled_back);
        if (there + told >= begun && there + told <= begun + alone)
            continue;
        snprintf(text, size, "%llu of worker %u's %u pushes are there, and it was told that %llu are not",
                 (unsigned long long)there, w, begun, (unsigned long long)told);
        return false;
    }
    return true;
}

/* ---- Gradients ---- */

void
fire_gradient_fill(enum fire_var var, float scale, float *gradient)
{
    struct layout layout;

    layout_init(&layout, fire_var_elements[var], 0);
    for (uint64_t block = 0; block < layout.blocks; block++) {
        struct layout_block b = layout_block(&layout, block);

        for (uint32_t i = 0; i < b.len; i++)
            gradient[b.first + i] = i < FIRE_MARKS ? 0 : -scale;
    }
}

void
fire_gradient_mark(enum fire_var var, uint32_t task, uint32_t push, float scale, bool set, float *gradient)
{
    struct layout layout;

    layout_init(&layout, fire_var_elements[var], 0);
    for (uint64_t block = 0; block < layout.blocks; block++) {
        float *at = gradient + layout_block(&layout, block).first + (task * FIRE_SLOTS + push % FIRE_SLOTS) * 2;

        at[0] = set ? -scale : 0;
        at[1] = set ? -scale * (float)ledger_ordinal(push) : 0;
    }
}
