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
    case INIT_GIVEN:
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

static bool
shape_equal(const Psd__Declare *a, const Psd__Declare *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (size_t i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* Whoever pushes to a variable that was declared to clip by a given norm gives the norm, and nobody else does. */
static bool
optimizer_fits(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is)
{
    struct ps_optimizer a = wire_optimizer(was->optimizer), b = wire_optimizer(now->optimizer),
                        x = wire_optimizer(is->optimizer);

    return optimizer_of_either(&x, &a, &b) &&
           (x.clip.kind == PS_CLIP_GIVEN_NORM) == (a.clip.kind == PS_CLIP_GIVEN_NORM);
}

bool
wire_declare_fits(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is)
{
    return shape_equal(was, is) && was->nonfinite == is->nonfinite && initializer_equal(was->init, is->init) &&
           optimizer_fits(was, now, is);
}

bool
wire_declare_equal(const Psd__Declare *a, const Psd__Declare *b)
{
    return wire_declare_fits(a, a, b);
}

bool
wire_age_equal(const struct age_policy *a, const struct age_policy *b)
{
    return a->kind == b->kind && a->parameter == b->parameter;
}

static bool
mode_fits(const Psd__Job *was, const Psd__Job *now, const Psd__Job *is)
{
    if (was->mode != is->mode || (was->workers != is->workers && now->workers != is->workers))
        return false;
    if (was->mode == PSD__MODE__SYNC)
        return (was->workers == is->workers && was->quorum == is->quorum) ||
               (now->workers == is->workers && now->quorum == is->quorum);
    return was->mode != PSD__MODE__SSP || was->bound == is->bound || now->bound == is->bound;
}

static bool
lapse_fits(const Psd__Job *was, const Psd__Job *now, const Psd__Job *is)
{
    (void)now;
    return was->lapse == is->lapse;
}

static bool
age_fits(const Psd__Job *was, const Psd__Job *now, const Psd__Job *is)
{
    struct age_policy a = wire_age(was->age), b = wire_age(now->age), x = wire_age(is->age);

    return wire_age_equal(&a, &x) || wire_age_equal(&b, &x);
}

bool
wire_job_fits(const Psd__Job *was, const Psd__Job *now, const Psd__Job *is)
{
    return strcmp(was->name, is->name) == 0 && mode_fits(was, now, is) && lapse_fits(was, now, is) &&
           age_fits(was, now, is);
}

bool
wire_job_equal(const Psd__Job *a, const Psd__Job *b)
{
    return wire_job_fits(a, a, b);
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
    if (init.kind == INIT_ZEROS || init.kind == INIT_ONES || init.kind == INIT_GIVEN)
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

/* "shape float32[3], not float32[4]; age none, or inverse since psctl set, not cutoff(8)". */
static void
put_difference(struct text *t, const char *what, const char *was, const char *now, const char *is)
{
    text_put(t, "%s%s %s", t->len > 0 ? "; " : "", what, was);
    if (strcmp(was, now) != 0)
        text_put(t, ", or %s since psctl set", now);
    text_put(t, ", not %s", is);
}

static bool
shape_fits(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is)
{
    (void)now;
    return shape_equal(was, is);
}

static bool
initial_fits(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is)
{
    (void)now;
    return initializer_equal(was->init, is->init);
}

static bool
nonfinite_fits(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is)
{
    (void)now;
    return was->nonfinite == is->nonfinite;
}

void
wire_declare_misfits(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is, char *out, size_t size)
{
    static const struct {
        const char *what;
        bool (*fits)(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is);
        void (*put)(struct text *t, const Psd__Declare *d);
    } fields[] = {{"shape", shape_fits, put_shape},
                  {"first values", initial_fits, put_initial},
                  {"optimizer", optimizer_fits, put_optimizer},
                  {"NaN and Inf", nonfinite_fits, put_nonfinite}};
    const Psd__Declare *all[] = {was, now, is};
    char text[ARRAY_LEN(all)][PS_OPTIMIZER_TEXT_MAX];
    struct text t = text_start(out, size);

    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (fields[i].fits(was, now, is))
            continue;
        for (size_t j = 0; j < ARRAY_LEN(all); j++) {
            struct text one = text_start(text[j], sizeof text[j]);

            fields[i].put(&one, all[j]);
        }
        put_difference(&t, fields[i].what, text[0], text[1], text[2]);
    }
}

void
wire_declare_differences(const Psd__Declare *was, const Psd__Declare *is, char *out, size_t size)
{
    wire_declare_misfits(was, was, is, out, size);
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
    bool (*fits)(const Psd__Job *was, const Psd__Job *now, const Psd__Job *is);
    void (*put)(struct text *t, const Psd__Job *j);
} job_fields[] = {{"mode", mode_fits, put_mode}, {"lapse", lapse_fits, put_lapse}, {"age", age_fits, put_age}};

void
wire_job_misfits(const Psd__Job *was, const Psd__Job *now, const Psd__Job *is, char *out, size_t size)
{
    struct text t = text_start(out, size);
    const Psd__Job *all[] = {was, now, is};
    char text[ARRAY_LEN(all)][128];

    for (size_t i = 0; i < ARRAY_LEN(job_fields); i++) {
        if (job_fields[i].fits(was, now, is))
            continue;
        for (size_t j = 0; j < ARRAY_LEN(all); j++) {
            struct text one = text_start(text[j], sizeof text[j]);

            job_fields[i].put(&one, all[j]);
        }
        put_difference(&t, job_fields[i].what, text[0], text[1], text[2]);
    }
}

void
wire_job_differences(const Psd__Job *was, const Psd__Job *is, char *out, size_t size)
{
    wire_job_misfits(was, was, is, out, size);
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
