/* For the optimizers' tests: states whose surroundings are watched, and the formulas in double precision. */
#ifndef TESTS_UNIT_KITS_OPTIMIZER_KIT_H
#define TESTS_UNIT_KITS_OPTIMIZER_KIT_H

#include <math.h>
#include <string.h>

#include "common/core/optimizer/optimizer_isa.h"
#include "tests/unit/kits/check_main.h"

#define FENCE 16 /* floats before and after each array that must not change */

/* A gradient or one state (weights and slots) on the heap, each array with fences around it. */
struct optimizer_kit_state {
    float *memory;
    struct optimizer_arrays arrays;
    size_t n;
};

static inline size_t
array_floats(size_t n)
{
    return round_up(n, 16) + 2 * FENCE;
}

static inline struct optimizer_kit_state
state_new(size_t n)
{
    size_t size = (1 + LAYOUT_SLOTS_MAX) * array_floats(n);
    struct optimizer_kit_state s = {.memory = aligned_alloc(LAYOUT_ALIGN, size * sizeof(float)), .n = n};

    ck_assert_ptr_nonnull(s.memory);
    for (size_t i = 0; i < size; i++)
        s.memory[i] = -12345;
    s.arrays.weights = s.memory + FENCE;
    for (size_t k = 0; k < LAYOUT_SLOTS_MAX; k++)
        s.arrays.slot[k] = s.memory + (k + 1) * array_floats(n) + FENCE;
    return s;
}

static inline float *
state_array(const struct optimizer_kit_state *s, size_t i)
{
    return i == 0 ? s->arrays.weights : s->arrays.slot[i - 1];
}

static inline void
check_fences(const struct optimizer_kit_state *s)
{
    for (size_t a = 0; a <= LAYOUT_SLOTS_MAX; a++)
        for (size_t i = 0; i < array_floats(s->n); i++)
            if ((i < FENCE || i >= FENCE + s->n) && s->memory[a * array_floats(s->n) + i] != -12345)
                ck_abort_msg("array %zu of %zu elements was written at %zd", a, s->n, (ssize_t)i - FENCE);
}

static inline void
check_same(const struct optimizer_kit_state *a, const struct optimizer_kit_state *b, uint32_t slots, const char *what)
{
    for (uint32_t k = 0; k <= slots; k++)
        ck_assert_msg(memcmp(state_array(a, k), state_array(b, k), a->n * sizeof(float)) == 0,
                      "%s: array %u of %zu elements differs", what, k, a->n);
}

static inline struct ps_optimizer
by_name(const char *name)
{
    struct ps_optimizer o;

    ck_assert_int_eq(ps_optimizer_by_name(name, &o, NULL), PS_OK);
    return o;
}

/* The textbook's formulas, one element in double: update t (from 1) at this rate; g is scaled and, for norms, clipped.
 * a: weight, slots. */
void optimizer_reference(const struct ps_optimizer *o, double t, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX]);

#endif
