/* Age policies: one factor per push, computed in double and rounded once. */
#include "age.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "power.h"

static const char *const names[AGE_KIND_MAX] = {
    [AGE_NONE] = "none",
    [AGE_INVERSE] = "inverse",
    [AGE_EXPONENTIAL] = "exponential",
    [AGE_CUTOFF] = "cutoff",
};

static bool
takes_parameter(enum age_kind kind)
{
    return kind == AGE_EXPONENTIAL || kind == AGE_CUTOFF;
}

enum ps_err
age_check(const struct age_policy *p, struct ps_error *e)
{
    switch ((int)p->kind) {
    case AGE_NONE:
    case AGE_INVERSE:
        return PS_OK;
    case AGE_EXPONENTIAL:
        if (!(p->parameter > 0 && p->parameter < 1))
            return ps_fail(e, PS_ERR_INVALID, "age policy exponential: the base must be between 0 and 1, not %g",
                           p->parameter);
        return PS_OK;
    case AGE_CUTOFF:
        if (!(p->parameter >= 0 && isfinite(p->parameter)))
            return ps_fail(e, PS_ERR_INVALID, "age policy cutoff: the largest age must be 0 or more, not %g",
                           p->parameter);
        return PS_OK;
    default:
        return ps_fail(e, PS_ERR_INVALID, "age policy %d is not known", (int)p->kind);
    }
}

float
age_scale(const struct age_policy *p, uint64_t age)
{
    switch (p->kind) {
    case AGE_NONE:
        return 1;
    case AGE_INVERSE:
        return (float)(1 / (1 + (double)age));
    case AGE_EXPONENTIAL:
        return (float)power(p->parameter, age);
    case AGE_CUTOFF:
        return (double)age > p->parameter ? -1 : 1;
    case AGE_KIND_MAX:
        break;
    }
    ps_assert(!"age_check() passed");
}

/* The number after the colon; false unless it is all of the text. */
static bool
parse_number(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end != text && *end == '\0';
}

enum ps_err
age_parse(const char *text, struct age_policy *out, struct ps_error *e)
{
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);

    for (int kind = 0; kind < AGE_KIND_MAX; kind++) {
        struct age_policy p = {.kind = (enum age_kind)kind};
        enum ps_err err;

        if (strlen(names[kind]) != len || memcmp(text, names[kind], len) != 0)
            continue;
        if (takes_parameter(p.kind) != (colon != NULL) || (colon != NULL && !parse_number(colon + 1, &p.parameter)))
            break;
        if ((err = age_check(&p, e)) != PS_OK)
            return err;
        *out = p;
        return PS_OK;
    }
    return ps_fail(e, PS_ERR_INVALID, "age policy \"%s\" is not one of none, inverse, exponential:BASE, cutoff:AGE",
                   text);
}

int
age_bucket(uint64_t age)
{
    if (age == 0)
        return 0;
    return MIN(64 - __builtin_clzll(age), AGE_BUCKETS - 1);
}
