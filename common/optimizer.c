/* The table of optimizers: what each is called, what it may be given, what it prepares once per update, and which
 * instruction set's kernels run. The arithmetic on arrays is in optimizer_kernels.h.
 *
 * Once per update and in double: the bias correction. Once per process: the instruction set. */
#include "optimizer.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer_isa.h"
#include "power.h"

static bool
supported_always(void)
{
    return true;
}

#ifdef __x86_64__
static bool
supported_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool
supported_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
#endif

/* Widest first. */
static const struct isa {
    const struct optimizer_kernels *kernels;
    bool (*supported)(void);
} isas[] = {
#ifdef __x86_64__
    {&optimizer_kernels_avx512, supported_avx512},
    {&optimizer_kernels_avx2, supported_avx2},
#endif
    {&optimizer_kernels_plain, supported_always},
};

const struct optimizer_kernels *
optimizer_kernels_at(size_t i)
{
    for (size_t k = 0; k < ARRAY_LEN(isas); k++)
        if (isas[k].supported() && i-- == 0)
            return isas[k].kernels;
    return NULL;
}

const struct optimizer_kernels *
optimizer_kernels_choose(const char *name)
{
    const struct optimizer_kernels *k;

    for (size_t i = 0; name != NULL && (k = optimizer_kernels_at(i)) != NULL; i++)
        if (strcmp(k->name, name) == 0)
            return k;
    return optimizer_kernels_at(0);
}

/* The choice, made at the first call. Threads that come first together choose the same. */
static const struct optimizer_kernels *
kernels(void)
{
    static _Atomic(const struct optimizer_kernels *) chosen;
    const struct optimizer_kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (k == NULL) {
        k = optimizer_kernels_choose(getenv("PSD_ISA"));
        atomic_store_explicit(&chosen, k, memory_order_relaxed);
    }
    return k;
}

const char *
optimizer_isa(void)
{
    return kernels()->name;
}

/* A parameter's range, for the sentence when it is outside. */
static enum ps_err
refuse(const struct optimizer *o, const char *parameter, double value, const char *range, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_INVALID, "optimizer %s: %s must be %s, not %g", optimizer_row((int)o->kind)->name,
                   parameter, range, value);
}

/* Greater than 0 and finite, also when rounded to f32. */
static bool
positive(double x)
{
    return x > 0 && x <= (double)FLT_MAX && (float)x > 0;
}

static bool
fraction(double x)
{
    return x >= 0 && x < 1;
}

static enum ps_err
check_rate(const struct optimizer *o, struct ps_error *e)
{
    if (!positive(o->learning_rate))
        return refuse(o, "learning_rate", o->learning_rate, "greater than 0 and finite", e);
    return PS_OK;
}

static enum ps_err
check_momentum(const struct optimizer *o, struct ps_error *e)
{
    if (!fraction(o->momentum))
        return refuse(o, "momentum", o->momentum, "at least 0 and less than 1", e);
    return check_rate(o, e);
}

/* An epsilon of 0 would make 0 / 0 of an element that has seen no gradient. */
static enum ps_err
check_epsilon(const struct optimizer *o, struct ps_error *e)
{
    if (!positive(o->epsilon))
        return refuse(o, "epsilon", o->epsilon, "greater than 0 and finite", e);
    return check_rate(o, e);
}

static enum ps_err
check_adagrad(const struct optimizer *o, struct ps_error *e)
{
    if (!(o->initial_accumulator >= 0 && o->initial_accumulator <= (double)FLT_MAX))
        return refuse(o, "initial_accumulator", o->initial_accumulator, "at least 0 and finite", e);
    return check_epsilon(o, e);
}

static enum ps_err
check_adam(const struct optimizer *o, struct ps_error *e)
{
    if (!fraction(o->beta1))
        return refuse(o, "beta1", o->beta1, "at least 0 and less than 1", e);
    if (!fraction(o->beta2))
        return refuse(o, "beta2", o->beta2, "at least 0 and less than 1", e);
    return check_epsilon(o, e);
}

static void
prepare_rate(const struct optimizer *o, uint64_t step, struct optimizer_step *s)
{
    (void)step;
    s->rate = (float)o->learning_rate;
    s->momentum = (float)o->momentum;
    s->epsilon = (float)o->epsilon;
}

/* m and v start at 0 and so are too small by 1 - beta^t at step t. Dividing m by its own and v by its own is, but for
 * epsilon's weight, one factor on the rate: lr * sqrt(1 - beta2^t) / (1 - beta1^t) (Kingma and Ba, ICLR 2015, end of
 * section 2). */
static void
prepare_adam(const struct optimizer *o, uint64_t step, struct optimizer_step *s)
{
    double mean = 1 - power(o->beta1, step), square = 1 - power(o->beta2, step);

    s->rate = (float)(o->learning_rate * sqrt(square) / mean);
    s->beta1 = (float)o->beta1;
    s->beta2 = (float)o->beta2;
    s->one_minus_beta1 = (float)(1 - o->beta1);
    s->one_minus_beta2 = (float)(1 - o->beta2);
    s->epsilon = (float)o->epsilon;
}

static float
start_zero(const struct optimizer *o, uint32_t slot)
{
    (void)o;
    (void)slot;
    return 0;
}

static float
start_accumulator(const struct optimizer *o, uint32_t slot)
{
    (void)slot;
    return (float)o->initial_accumulator;
}

static const struct optimizer_row rows[OPT_KIND_MAX] = {
    [OPT_SGD] = {.name = "sgd",
                 .slots = 0,
                 .source = "Robbins and Monro, Annals of Mathematical Statistics 22, 1951",
                 .check = check_rate,
                 .prepare = prepare_rate,
                 .slot_start = start_zero},
    [OPT_MOMENTUM] = {.name = "momentum",
                      .slots = 1,
                      .source = "Polyak, USSR Computational Mathematics 4, 1964; Sutskever et al., ICML 2013",
                      .check = check_momentum,
                      .prepare = prepare_rate,
                      .slot_start = start_zero},
    [OPT_NESTEROV] = {.name = "nesterov",
                      .slots = 1,
                      .source = "Nesterov, Soviet Mathematics Doklady 27, 1983; Sutskever et al., ICML 2013",
                      .check = check_momentum,
                      .prepare = prepare_rate,
                      .slot_start = start_zero},
    [OPT_ADAGRAD] = {.name = "adagrad",
                     .slots = 1,
                     .source = "Duchi, Hazan and Singer, JMLR 12, 2011",
                     .check = check_adagrad,
                     .prepare = prepare_rate,
                     .slot_start = start_accumulator},
    [OPT_ADAM] = {.name = "adam",
                  .slots = 2,
                  .source = "Kingma and Ba, ICLR 2015",
                  .check = check_adam,
                  .prepare = prepare_adam,
                  .slot_start = start_zero},
};

static const struct optimizer defaults[OPT_KIND_MAX] = {
    [OPT_SGD] = {.kind = OPT_SGD, .learning_rate = 0.01},
    [OPT_MOMENTUM] = {.kind = OPT_MOMENTUM, .learning_rate = 0.01, .momentum = 0.9},
    [OPT_NESTEROV] = {.kind = OPT_NESTEROV, .learning_rate = 0.01, .momentum = 0.9},
    [OPT_ADAGRAD] = {.kind = OPT_ADAGRAD, .learning_rate = 0.01, .initial_accumulator = 0.1, .epsilon = 1e-7},
    [OPT_ADAM] = {.kind = OPT_ADAM, .learning_rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7},
};

const struct optimizer_row *
optimizer_row(int kind)
{
    return kind >= 0 && kind < OPT_KIND_MAX ? &rows[kind] : NULL;
}

enum ps_err
optimizer_by_name(const char *name, struct optimizer *out, struct ps_error *e)
{
    char list[128] = "";
    size_t len = 0;

    for (int kind = 0; kind < OPT_KIND_MAX; kind++) {
        if (strcmp(name, rows[kind].name) == 0) {
            *out = defaults[kind];
            return PS_OK;
        }
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", kind == 0 ? "" : ", ", rows[kind].name);
        ps_assert(len < sizeof list);
    }
    return ps_fail(e, PS_ERR_INVALID, "optimizer \"%s\" is not one of %s", name, list);
}

enum ps_err
optimizer_check(const struct optimizer *o, struct ps_error *e)
{
    const struct optimizer_row *row = optimizer_row((int)o->kind);

    if (row == NULL)
        return ps_fail(e, PS_ERR_INVALID, "optimizer %d is not known", (int)o->kind);
    return row->check(o, e);
}

void
optimizer_start(const struct optimizer *o, size_t n, const struct optimizer_arrays *to)
{
    const struct optimizer_row *row = optimizer_row((int)o->kind);

    ps_assert(row != NULL);
    for (uint32_t k = 0; k < row->slots; k++) {
        float value = row->slot_start(o, k);

        for (size_t i = 0; i < n; i++)
            to->slot[k][i] = value;
    }
}

/* What kernels may assume. */
static bool
aligned(const struct optimizer_arrays *a, uint32_t slots)
{
    uintptr_t all = (uintptr_t)a->weights;

    for (uint32_t k = 0; k < slots; k++)
        all |= (uintptr_t)a->slot[k];
    return all % LAYOUT_ALIGN == 0;
}

bool
optimizer_apply(const struct optimizer *o, uint64_t step, float scale, size_t n, const float *grad,
                const struct optimizer_arrays *from, const struct optimizer_arrays *to, bool stream)
{
    const struct optimizer_row *row = optimizer_row((int)o->kind);
    struct optimizer_step s = {.scale = scale};

    ps_assert(row != NULL && step >= 1);
    ps_assert(aligned(from, row->slots) && aligned(to, row->slots));
    row->prepare(o, step, &s);
    return kernels()->update[o->kind](&s, n, grad, from, to, stream);
}

bool
optimizer_finite(size_t n, const float *x)
{
    return kernels()->finite(n, x);
}

void
optimizer_sum(size_t n, size_t k, const float *const x[], float *sum)
{
    ps_assert(k >= 1);
    kernels()->sum(n, k, x, sum);
}
