/* Definitions: from messages to the core's structs, compared, and printed for people. Comparing and printing both go by
 * the core's structs, whose unused parameters are 0, so two definitions print alike exactly when they are equal. */
#include "wire.h"

#include <inttypes.h>
#include <string.h>

#include "text.h"

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

/* ---- Comparing ---- */

static bool
initializer_equal(const Psd__Initializer *a, const Psd__Initializer *b)
{
    struct initializer x = wire_initializer(a), y = wire_initializer(b);

    return x.kind == y.kind && x.a == y.a && x.b == y.b && x.seed == y.seed;
}

bool
wire_declare_equal(const Psd__Declare *a, const Psd__Declare *b)
{
    struct ps_optimizer x, y;

    if (a->n_dims != b->n_dims || a->nonfinite != b->nonfinite)
        return false;
    for (size_t i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    x = wire_optimizer(a->optimizer);
    y = wire_optimizer(b->optimizer);
    return initializer_equal(a->init, b->init) && optimizer_equal(&x, &y);
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

/* ", name value", the comma only after the first. */
static void
put_parameter(struct text *t, bool *first, const char *name, double value)
{
    text_put(t, "%s%s ", *first ? "" : ", ", name);
    text_number(t, value);
    *first = false;
}

static void
put_initializer(struct text *t, const Psd__Initializer *i)
{
    struct initializer init = wire_initializer(i);
    const char *name = initializer_name((int)init.kind);
    bool first = true;

    text_put(t, "%s", name != NULL ? name : "unknown initializer");
    if (init.kind == INIT_ZEROS || init.kind == INIT_ONES)
        return;
    text_put(t, "(");
    if (init.kind == INIT_CONSTANT) {
        text_number(t, init.a);
        text_put(t, ")");
        return;
    }
    if (init.kind == INIT_UNIFORM || init.kind == INIT_NORMAL || init.kind == INIT_TRUNCATED_NORMAL) {
        put_parameter(t, &first, init.kind == INIT_UNIFORM ? "low" : "mean", init.a);
        put_parameter(t, &first, init.kind == INIT_UNIFORM ? "high" : "deviation", init.b);
    }
    text_put(t, "%sseed %" PRIu64 ")", first ? "" : ", ", init.seed);
}

void
wire_describe(const Psd__Declare *d, char *out, size_t size)
{
    struct ps_optimizer optimizer = wire_optimizer(d->optimizer);
    struct text t = text_start(out, size);
    char text[PS_OPTIMIZER_TEXT_MAX];

    text_put(&t, "%s float32[", d->name);
    for (size_t i = 0; i < d->n_dims; i++)
        text_put(&t, "%s%" PRIu64, i > 0 ? "," : "", d->dims[i]);
    text_put(&t, "] ");
    put_initializer(&t, d->init);
    text_put(&t, " ");
    ps_optimizer_describe(&optimizer, text, sizeof text);
    text_put(&t, "%s", text);
    if (d->nonfinite == PSD__NON_FINITE__ALLOW)
        text_put(&t, " nonfinite allowed");
}

static void
put_mode(struct text *t, const Psd__Job *j)
{
    switch (j->mode) {
    case PSD__MODE__SSP:
        text_put(t, "ssp(bound %u), %u workers", j->bound, j->workers);
        break;
    case PSD__MODE__SYNC:
        text_put(t, "sync(%u of %u)", j->quorum, j->workers);
        break;
    default:
        text_put(t, "async, %u workers", j->workers);
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
    text_put(&t, ", lapse %s, age %s", j->lapse == PSD__LAPSE__FAIL ? "fail" : "shrink", ages[age.kind]);
    if (age.kind == AGE_EXPONENTIAL || age.kind == AGE_CUTOFF) {
        text_put(&t, "(");
        text_number(&t, age.parameter);
        text_put(&t, ")");
    }
}

void
wire_job_describe(const Psd__Job *j, char *out, size_t size)
{
    struct text t = text_start(out, size);

    text_put(&t, "%s ", j->name);
    wire_job_options(j, out + t.len, size - t.len);
}
