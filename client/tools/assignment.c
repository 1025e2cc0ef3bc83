#include "assignment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/age.h"
#include "common/number.h"
#include "common/optimizer.h"

#define VALUE_MAX 512

/* One word, taken apart. */
struct assignment {
    const char *word, *value;
    size_t name_len;
};

static bool
is_named(const struct assignment *a, const char *name)
{
    return strlen(name) == a->name_len && memcmp(a->word, name, a->name_len) == 0;
}

static enum ps_err
refuse(const struct assignment *a, const char *expected, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_INVALID, "%.128s: expected %s", a->word, expected);
}

static bool
read_number(const char *text, double *out)
{
    return number_parse(text, out) && isfinite(*out);
}

static enum ps_err
twice(const struct assignment *a, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_INVALID, "%.*s stands there twice", (int)a->name_len, a->word);
}

/* ---- of the variables' optimizers ---- */

static enum ps_err
refuse_name(const struct assignment *a, struct ps_error *e)
{
    char list[512] = "";

    for (int p = 0; p < OPTIMIZER_PARAMETERS; p++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s, ",
                 optimizer_parameter_name((enum optimizer_parameter)p));
    return ps_fail(e, PS_ERR_INVALID, "unknown name '%.*s': it is one of %sschedule, clip, age, bound",
                   (int)MIN(a->name_len, 64), a->word, list);
}

static enum ps_err
take_parameter(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    size_t n = out->setting.parameters;
    const char *name = NULL;

    for (int p = 0; p < OPTIMIZER_PARAMETERS; p++)
        if (is_named(a, optimizer_parameter_name((enum optimizer_parameter)p)))
            name = optimizer_parameter_name((enum optimizer_parameter)p);
    if (name == NULL)
        return refuse_name(a, e);
    for (size_t i = 0; i < n; i++)
        if (out->parameters[i].name == name)
            return twice(a, e);
    ps_assert(n < ASSIGNMENTS_MAX);
    out->parameters[n].name = name;
    if (!read_number(a->value, &out->parameters[n].value))
        return refuse(a, "a number", e);
    out->setting.parameter = out->parameters;
    out->setting.parameters = n + 1;
    return PS_OK;
}

static enum ps_err
take_schedule(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    if (out->setting.schedule != NULL)
        return twice(a, e);
    out->setting.schedule = &out->schedule;
    return ps_schedule_parse(a->value, &out->schedule, e);
}

/* "block_norm:1" stands for "block_norm:limit=1". */
static enum ps_err
take_clip(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    const char *colon = strchr(a->value, ':');
    char text[VALUE_MAX];
    double limit;

    if (out->setting.clip != NULL)
        return twice(a, e);
    out->setting.clip = &out->clip;
    if (colon == NULL || !read_number(colon + 1, &limit))
        return ps_clip_parse(a->value, &out->clip, e);
    snprintf(text, sizeof text, "%.*s:limit=%s", (int)(colon - a->value), a->value, colon + 1);
    return ps_clip_parse(text, &out->clip, e);
}

/* ---- of the job ---- */

static enum ps_err
take_age(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    struct age_policy policy;
    struct ps_error why;

    if (out->setting.age != NULL)
        return twice(a, e);
    if (age_parse(a->value, &policy, &why) != PS_OK)
        return ps_fail(e, PS_ERR_INVALID, "%.128s: %s", a->word, why.text);
    out->age = (struct ps_age_policy){(enum ps_age)policy.kind, policy.parameter};
    out->setting.age = &out->age;
    return PS_OK;
}

static enum ps_err
take_bound(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    unsigned long long value;
    char *end;

    if (out->setting.bound != NULL)
        return twice(a, e);
    errno = 0;
    value = strtoull(a->value, &end, 10);
    if (strchr("0123456789", a->value[0]) == NULL || *end != '\0' || errno != 0 || value > UINT32_MAX)
        return refuse(a, "a whole number of clocks", e);
    out->bound = (uint32_t)value;
    out->setting.bound = &out->bound;
    return PS_OK;
}

/* ---- all of them ---- */

static enum ps_err
take(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    static const struct {
        const char *name;
        enum ps_err (*take)(const struct assignment *a, struct assignments *out, struct ps_error *e);
    } takers[] = {{"schedule", take_schedule}, {"clip", take_clip}, {"age", take_age}, {"bound", take_bound}};

    for (size_t i = 0; i < ARRAY_LEN(takers); i++)
        if (is_named(a, takers[i].name))
            return takers[i].take(a, out, e);
    return take_parameter(a, out, e);
}

enum ps_err
assignments_parse(char *const words[], int n, const char *variables, struct assignments *out, struct ps_error *e)
{
    const struct ps_setting *s = &out->setting;
    enum ps_err err;

    *out = (struct assignments){0};
    if (n == 0)
        return ps_fail(e, PS_ERR_INVALID, "expected what to change: NAME=VALUE, learning_rate=0.01");
    for (int i = 0; i < n; i++) {
        struct assignment a = {.word = words[i], .name_len = strcspn(words[i], "=")};

        if (words[i][a.name_len] == '\0')
            return ps_fail(e, PS_ERR_INVALID, "expected NAME=VALUE, got '%.128s'", words[i]);
        a.value = words[i] + a.name_len + 1;
        if (*a.value == '\0')
            return refuse(&a, "a value after the =", e);
        if ((err = take(&a, out, e)) != PS_OK)
            return err;
    }
    if (s->parameters > 0 || s->schedule != NULL || s->clip != NULL)
        out->setting.variables = variables != NULL ? variables : "*";
    else if (variables != NULL)
        return ps_fail(e, PS_ERR_INVALID, "--variables %.128s: nothing is to change about variables", variables);
    return PS_OK;
}
