/* Age policies: one factor per push, computed in double and rounded once. */
#include "common/core/model/age.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/nearest.h"
#include "common/core/base/number.h"
#include "common/core/model/power.h"

static bool
number_read(const char *text, double *out)
{
    return number_parse(text, out) && isfinite(*out);
}

enum ps_err
age_parse(const char *text, struct age_policy *out, struct ps_error *e)
{
    static const struct {
        const char *name;
        bool parameter;
    } forms[] = {[AGE_NONE] = {"none", false},
                 [AGE_INVERSE] = {"inverse", false},
                 [AGE_EXPONENTIAL] = {"exponential", true},
                 [AGE_CUTOFF] = {"cutoff", true}};
    size_t len = strcspn(text, ":");
    char name[NEAREST_NAME_MAX + 2], meant[NEAREST_TEXT_MAX];
    struct age_policy policy = {0};
    struct nearest nearest;

    snprintf(name, sizeof name, "%.*s", (int)MIN(len, sizeof name - 1), text);
    nearest = nearest_to(name);
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        nearest_offer(&nearest, forms[i].name);
        if (strlen(forms[i].name) != len || memcmp(forms[i].name, text, len) != 0)
            continue;
        policy.kind = (enum age_kind)i;
        if (forms[i].parameter ? text[len] != ':' || !number_read(text + len + 1, &policy.parameter)
                               : text[len] != '\0') {
            nearest = nearest_to(""); /* the name is right */
            break;
        }
        *out = policy;
        return age_check(out, e);
    }
    return ps_fail(e, PS_ERR_INVALID, "expected none, inverse, exponential:BASE or cutoff:AGE, got '%.64s'%s", text,
                   nearest_text(&nearest, "", meant));
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
        return (float)power_of(p->parameter, age);
    case AGE_CUTOFF:
        return (double)age > p->parameter ? -1 : 1;
    case AGE_KIND_MAX:
        break;
    }
    ps_assert(!"age_check() passed");
}

int
age_bucket(uint64_t age)
{
    if (age == 0)
        return 0;
    return MIN(64 - __builtin_clzll(age), AGE_BUCKETS - 1);
}

void
age_count(struct age_histogram *h, uint64_t age)
{
    h->count[age_bucket(age)]++;
    h->sum += age;
}
