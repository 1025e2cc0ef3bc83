/* Definitions: from messages to the core's structs, compared, and printed for people. Comparing and printing both go by
 * the core's structs, whose unused parameters are 0, so two definitions print alike exactly when they are equal. */
#include "wire.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct age_policy
wire_age(const Psd__AgePolicy *a)
{
    struct age_policy policy = {.kind = (enum age_kind)a->kind};

    if (policy.kind == AGE_EXPONENTIAL || policy.kind == AGE_CUTOFF)
        policy.parameter = a->parameter;
    return policy;
}

struct initializer
wire_initializer(const Psd__Initializer *i)
{
    struct initializer init = {.kind = (enum initializer_kind)i->kind};

    switch (init.kind) {
    case INIT_ZEROS:
    case INIT_ONES:
        return init;
    case INIT_CONSTANT:
        init.a = i->a;
        return init;
    case INIT_UNIFORM:
    case INIT_NORMAL:
    case INIT_TRUNCATED_NORMAL:
        init.a = i->a;
        init.b = i->b;
        break;
    default:
        break;
    }
    init.seed = i->seed;
    return init;
}

struct optimizer
wire_optimizer(const Psd__Optimizer *o)
{
    struct optimizer optimizer = {.kind = (enum optimizer_kind)o->kind, .learning_rate = o->learning_rate};

    switch (optimizer.kind) {
    case OPT_MOMENTUM:
    case OPT_NESTEROV:
        optimizer.momentum = o->momentum;
        break;
    case OPT_ADAGRAD:
        optimizer.epsilon = o->epsilon;
        optimizer.initial_accumulator = o->initial_accumulator;
        break;
    case OPT_ADAM:
        optimizer.beta1 = o->beta1;
        optimizer.beta2 = o->beta2;
        optimizer.epsilon = o->epsilon;
        break;
    default:
        break;
    }
    return optimizer;
}

/* ---- Comparing ---- */

static bool
initializer_equal(const Psd__Initializer *a, const Psd__Initializer *b)
{
    struct initializer x = wire_initializer(a), y = wire_initializer(b);

    return x.kind == y.kind && x.a == y.a && x.b == y.b && x.seed == y.seed;
}

static bool
optimizer_equal(const Psd__Optimizer *a, const Psd__Optimizer *b)
{
    struct optimizer x = wire_optimizer(a), y = wire_optimizer(b);

    return x.kind == y.kind && x.learning_rate == y.learning_rate && x.momentum == y.momentum && x.beta1 == y.beta1 &&
           x.beta2 == y.beta2 && x.epsilon == y.epsilon && x.initial_accumulator == y.initial_accumulator;
}

bool
wire_declare_equal(const Psd__Declare *a, const Psd__Declare *b)
{
    if (a->n_dims != b->n_dims || a->nonfinite != b->nonfinite)
        return false;
    for (size_t i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return initializer_equal(a->init, b->init) && optimizer_equal(a->optimizer, b->optimizer);
}

bool
wire_age_equal(const struct age_policy *a, const struct age_policy *b)
{
    return a->kind == b->kind && a->parameter == b->parameter;
}

bool
wire_job_equal(const Psd__Job *a, const Psd__Job *b)
{
    struct age_policy x = wire_age(a->age), y = wire_age(b->age);

    if (strcmp(a->name, b->name) != 0 || a->mode != b->mode || a->workers != b->workers || a->lapse != b->lapse)
        return false;
    if (a->mode == PSD__MODE__SSP && a->bound != b->bound)
        return false;
    if (a->mode == PSD__MODE__SYNC && a->quorum != b->quorum)
        return false;
    return wire_age_equal(&x, &y);
}

/* ---- Printing ---- */

struct text {
    char *out;
    size_t size, len; /* len < size */
};

PS_PRINTF(2, 3)
static void
put(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->out + t->len, t->size - t->len, format, args);
    va_end(args);
    ps_assert(n >= 0);
    t->len = MIN(t->len + (size_t)n, t->size - 1);
}

static struct text
text_start(char *out, size_t size)
{
    ps_assert(size >= 1);
    out[0] = '\0';
    return (struct text){out, size, 0};
}

/* The shortest of the usual forms that reads back as the same number. */
static void
put_number(struct text *t, double value)
{
    char digits[40];

    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    put(t, "%s", digits);
}

/* ", name value", the comma only after the first. */
static void
put_parameter(struct text *t, bool *first, const char *name, double value)
{
    put(t, "%s%s ", *first ? "" : ", ", name);
    put_number(t, value);
    *first = false;
}

static void
put_initializer(struct text *t, const Psd__Initializer *i)
{
    struct initializer init = wire_initializer(i);
    const char *name = initializer_name((int)init.kind);
    bool first = true;

    put(t, "%s", name != NULL ? name : "unknown initializer");
    if (init.kind == INIT_ZEROS || init.kind == INIT_ONES)
        return;
    put(t, "(");
    if (init.kind == INIT_CONSTANT) {
        put_number(t, init.a);
        put(t, ")");
        return;
    }
    if (init.kind == INIT_UNIFORM || init.kind == INIT_NORMAL || init.kind == INIT_TRUNCATED_NORMAL) {
        put_parameter(t, &first, init.kind == INIT_UNIFORM ? "low" : "mean", init.a);
        put_parameter(t, &first, init.kind == INIT_UNIFORM ? "high" : "deviation", init.b);
    }
    put(t, "%sseed %" PRIu64 ")", first ? "" : ", ", init.seed);
}

static void
put_optimizer(struct text *t, const Psd__Optimizer *o)
{
    struct optimizer optimizer = wire_optimizer(o);
    const struct optimizer_row *row = optimizer_row((int)optimizer.kind);
    bool first = true;

    put(t, "%s(", row != NULL ? row->name : "unknown optimizer");
    put_parameter(t, &first, "learning rate", optimizer.learning_rate);
    switch (optimizer.kind) {
    case OPT_MOMENTUM:
    case OPT_NESTEROV:
        put_parameter(t, &first, "momentum", optimizer.momentum);
        break;
    case OPT_ADAGRAD:
        put_parameter(t, &first, "start", optimizer.initial_accumulator);
        put_parameter(t, &first, "epsilon", optimizer.epsilon);
        break;
    case OPT_ADAM:
        put_parameter(t, &first, "beta1", optimizer.beta1);
        put_parameter(t, &first, "beta2", optimizer.beta2);
        put_parameter(t, &first, "epsilon", optimizer.epsilon);
        break;
    default:
        break;
    }
    put(t, ")");
}

void
wire_describe(const Psd__Declare *d, char *out, size_t size)
{
    struct text t = text_start(out, size);

    put(&t, "%s float32[", d->name);
    for (size_t i = 0; i < d->n_dims; i++)
        put(&t, "%s%" PRIu64, i > 0 ? "," : "", d->dims[i]);
    put(&t, "] ");
    put_initializer(&t, d->init);
    put(&t, " ");
    put_optimizer(&t, d->optimizer);
    if (d->nonfinite == PSD__NON_FINITE__ALLOW)
        put(&t, " nonfinite allowed");
}

static void
put_mode(struct text *t, const Psd__Job *j)
{
    switch (j->mode) {
    case PSD__MODE__SSP:
        put(t, "ssp(bound %u), %u workers", j->bound, j->workers);
        break;
    case PSD__MODE__SYNC:
        put(t, "sync(%u of %u)", j->quorum, j->workers);
        break;
    default:
        put(t, "async, %u workers", j->workers);
        break;
    }
}

void
wire_job_options(const Psd__Job *j, char *out, size_t size)
{
    static const char *const ages[AGE_KIND_MAX] = {"none", "inverse", "exponential", "cutoff"};
    struct text t = text_start(out, size);
    struct age_policy age = wire_age(j->age);

    put_mode(&t, j);
    put(&t, ", lapse %s, age %s", j->lapse == PSD__LAPSE__FAIL ? "fail" : "shrink", ages[age.kind]);
    if (age.kind == AGE_EXPONENTIAL || age.kind == AGE_CUTOFF) {
        put(&t, "(");
        put_number(&t, age.parameter);
        put(&t, ")");
    }
}

void
wire_job_describe(const Psd__Job *j, char *out, size_t size)
{
    struct text t = text_start(out, size);

    put(&t, "%s ", j->name);
    wire_job_options(j, out + t.len, size - t.len);
}
