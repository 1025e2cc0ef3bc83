/* Definitions: from messages to the core's structs, compared, and printed for people. Comparing and printing both go by
 * the core's structs, whose unused parameters are 0, so two definitions print alike exactly when they are equal, and a
 * refusal always shows what differs. */
#include "common/core/wire/wire.h"

#include <inttypes.h>
#include <string.h>

#include "common/core/base/text.h"

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

static void
put_shape(struct text *t, const Psd__Declare *d)
{
    text_put(t, "float32[");
    for (size_t i = 0; i < d->n_dims; i++)
        text_put(t, "%s%" PRIu64, i > 0 ? "," : "", d->dims[i]);
    text_put(t, "]");
}

static void
put_optimizer(struct text *t, const Psd__Declare *d)
{
    struct ps_optimizer optimizer = wire_optimizer(d->optimizer);

    ps_optimizer_describe(&optimizer, t->out + t->len, t->size - t->len);
    t->len += strlen(t->out + t->len);
}

static void
put_initial(struct text *t, const Psd__Declare *d)
{
    put_initializer(t, d->init);
}

static void
put_nonfinite(struct text *t, const Psd__Declare *d)
{
    text_put(t, "%s", d->nonfinite == PSD__NON_FINITE__ALLOW ? "allowed" : "refused");
}

/* "shape float32[3], not float32[4]; " when they are not alike. */
static void
put_difference(struct text *t, const char *what, const char *was, const char *is)
{
    if (strcmp(was, is) != 0)
        text_put(t, "%s%s %s, not %s", t->len > 0 ? "; " : "", what, was, is);
}

void
wire_declare_differences(const Psd__Declare *was, const Psd__Declare *is, char *out, size_t size)
{
    static const struct {
        const char *what;
        void (*put)(struct text *t, const Psd__Declare *d);
    } fields[] = {{"shape", put_shape},
                  {"first values", put_initial},
                  {"optimizer", put_optimizer},
                  {"NaN and Inf", put_nonfinite}};
    char had[PS_OPTIMIZER_TEXT_MAX], has[PS_OPTIMIZER_TEXT_MAX];
    struct text t = text_start(out, size);

    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        struct text a = text_start(had, sizeof had), b = text_start(has, sizeof has);

        fields[i].put(&a, was);
        fields[i].put(&b, is);
        put_difference(&t, fields[i].what, had, has);
    }
}

static void
put_mode(struct text *t, const Psd__Job *j)
{
    switch (j->mode) {
    case PSD__MODE__SSP:
        text_put(t, "ssp(bound %u), %u worker%s", j->bound, j->workers, j->workers == 1 ? "" : "s");
        break;
    case PSD__MODE__SYNC:
        text_put(t, "sync(%u of %u)", j->quorum, j->workers);
        break;
    default:
        text_put(t, "async, %u worker%s", j->workers, j->workers == 1 ? "" : "s");
        break;
    }
}

static void
put_lapse(struct text *t, const Psd__Job *j)
{
    text_put(t, "%s", j->lapse == PSD__LAPSE__FAIL ? "fail" : "shrink");
}

static void
put_age(struct text *t, const Psd__Job *j)
{
    static const char *const ages[AGE_KIND_MAX] = {"none", "inverse", "exponential", "cutoff"};
    struct age_policy age = wire_age(j->age);

    text_put(t, "%s", ages[age.kind]);
    if (age.kind == AGE_EXPONENTIAL || age.kind == AGE_CUTOFF) {
        text_put(t, "(");
        text_number(t, age.parameter);
        text_put(t, ")");
    }
}

static const struct {
    const char *what;
    void (*put)(struct text *t, const Psd__Job *j);
} job_fields[] = {{"mode", put_mode}, {"lapse", put_lapse}, {"age", put_age}};

void
wire_job_differences(const Psd__Job *was, const Psd__Job *is, char *out, size_t size)
{
    struct text t = text_start(out, size);
    char had[128], has[128];

    for (size_t i = 0; i < ARRAY_LEN(job_fields); i++) {
        struct text a = text_start(had, sizeof had), b = text_start(has, sizeof has);

        job_fields[i].put(&a, was);
        job_fields[i].put(&b, is);
        put_difference(&t, job_fields[i].what, had, has);
    }
}

void
wire_job_options(const Psd__Job *j, char *out, size_t size)
{
    struct text t = text_start(out, size);

    put_mode(&t, j);
    text_put(&t, ", lapse ");
    put_lapse(&t, j);
    text_put(&t, ", age ");
    put_age(&t, j);
}
