#include "client/tools/psctl/assignment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/nearest.h"
#include "common/core/base/number.h"
#include "common/core/model/age.h"
#include "common/core/optimizer/optimizer.h"

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
assignment_refuse(const struct assignment *a, const char *expected, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_INVALID, "%.128s: expected %s", a->word, expected);
}

static bool
read_number(const char *text, double *out)
{
    return number_parse(text, out) && isfinite(*out);
}

static enum ps_err
assignment_twice(const struct assignment *a, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_INVALID, "%.*s stands there twice", (int)a->name_len, a->word);
}

/* ---- of the variables' optimizers ---- */

static const char *const assignment_words[] = {"schedule", "clip", "age", "bound", "workers"}; /* besides parameters */

static enum ps_err
refuse_name(const struct assignment *a, struct ps_error *e)
{
    const char *colon = memchr(a->word, ':', a->name_len);
    char list[512] = "", name[NEAREST_NAME_MAX + 1], meant[NEAREST_TEXT_MAX];
    struct nearest nearest;

    if (colon != NULL)
        return ps_fail(e, PS_ERR_INVALID,
                       "'%.*s': a variable keeps the optimizer it was declared with; leave its name out",
                       (int)MIN(colon - a->word, 64), a->word);
    snprintf(name, sizeof name, "%.*s", (int)MIN(a->name_len, sizeof name - 1), a->word);
    nearest = nearest_to(name);
    for (size_t i = 0; i < ARRAY_LEN(assignment_words); i++)
        nearest_offer(&nearest, assignment_words[i]);
    for (int p = 0; p < OPTIMIZER_PARAMETERS; p++) {
        nearest_offer(&nearest, optimizer_parameter_name((enum optimizer_parameter)p));
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s, ",
                 optimizer_parameter_name((enum optimizer_parameter)p));
    }
    return ps_fail(e, PS_ERR_INVALID, "unknown name '%s': it is one of %sschedule, clip, age, bound, workers%s", name,
                   list, nearest_text(&nearest, "", meant));
}

/* NULL: an optimizer has no such parameter. */
static const char *
parameter_name(const struct assignment *a)
{
    for (int p = 0; p < OPTIMIZER_PARAMETERS; p++)
        if (is_named(a, optimizer_parameter_name((enum optimizer_parameter)p)))
            return optimizer_parameter_name((enum optimizer_parameter)p);
    return NULL;
}

static enum ps_err
take_parameter(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    size_t n = out->setting.parameters;
    const char *name = parameter_name(a);

    if (name == NULL)
        return refuse_name(a, e);
    for (size_t i = 0; i < n; i++)
        if (out->parameters[i].name == name)
            return assignment_twice(a, e);
    ps_assert(n < ASSIGNMENTS_MAX);
    out->parameters[n].name = name;
    if (!read_number(a->value, &out->parameters[n].value))
        return assignment_refuse(a, "a number", e);
    out->setting.parameter = out->parameters;
    out->setting.parameters = n + 1;
    return PS_OK;
}

/* Whether a schedule's text, which has been read, has it begin at a number. */
static bool
begins_at_number(const char *schedule)
{
    const char *begin = strstr(schedule, "begin=");

    return begin != NULL && strncmp(begin, "begin=now", strlen("begin=now")) != 0;
}

static enum ps_err
take_schedule(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    if (out->setting.schedule != NULL)
        return assignment_twice(a, e);
    out->setting.schedule = &out->schedule;
    out->setting.from_start = begins_at_number(a->value);
    return ps_schedule_parse(a->value, &out->schedule, e);
}

static enum ps_err
take_clip(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    if (out->setting.clip != NULL)
        return assignment_twice(a, e);
    out->setting.clip = &out->clip;
    return ps_clip_parse(a->value, &out->clip, e);
}

/* ---- of the job ---- */

static enum ps_err
take_age(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    struct age_policy policy;
    struct ps_error why;

    if (out->setting.age != NULL)
        return assignment_twice(a, e);
    if (age_parse(a->value, &policy, &why) != PS_OK)
        return ps_fail(e, PS_ERR_INVALID, "%.128s: %s", a->word, why.text);
    out->age = (struct ps_age_policy){(enum ps_age)policy.kind, policy.parameter};
    out->setting.age = &out->age;
    return PS_OK;
}

static bool
read_count(const char *text, uint32_t *out)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    *out = (uint32_t)value;
    return strchr("0123456789", text[0]) != NULL && *end == '\0' && errno == 0 && value <= UINT32_MAX;
}

static enum ps_err
take_bound(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    if (out->setting.bound != NULL)
        return assignment_twice(a, e);
    if (!read_count(a->value, &out->bound))
        return assignment_refuse(a, "a whole number of clocks", e);
    out->setting.bound = &out->bound;
    return PS_OK;
}

static enum ps_err
take_workers(const struct assignment *a, struct assignments *out, struct ps_error *e)
{
    if (out->setting.workers != 0)
        return assignment_twice(a, e);
    if (!read_count(a->value, &out->setting.workers) || out->setting.workers == 0)
        return assignment_refuse(a, "how many workers", e);
    return PS_OK;
}

/* ---- all of them ---- */

static const struct taker {
    const char *name;
    enum ps_err (*take)(const struct assignment *a, struct assignments *out, struct ps_error *e);
} takers[] = {{"schedule", take_schedule},
              {"clip", take_clip},
              {"age", take_age},
              {"bound", take_bound},
              {"workers", take_workers}};

/* take_parameter() for all other names. */
static const struct taker *
find_taker(const struct assignment *a)
{
    for (size_t i = 0; i < ARRAY_LEN(takers); i++)
        if (is_named(a, takers[i].name))
            return &takers[i];
    return NULL;
}

/* Whether text begins with one of the names and "=". */
static bool
begins_another(const char *text)
{
    struct assignment a = {.word = text, .name_len = strcspn(text, "=,")};

    return text[a.name_len] == '=' && (find_taker(&a) != NULL || parameter_name(&a) != NULL);
}

/* Where the first of a list ends: at a comma that another follows. Other commas are a schedule's or a clip's own. */
static size_t
first_len(const char *text)
{
    const char *comma = strchr(text, ',');

    while (comma != NULL && !begins_another(comma + 1))
        comma = strchr(comma + 1, ',');
    return comma != NULL ? (size_t)(comma - text) : strlen(text);
}

static enum ps_err
assignment_take(const char *text, struct assignments *out, struct ps_error *e)
{
    struct assignment a = {.word = text, .name_len = strcspn(text, "=")};
    const struct taker *taker = find_taker(&a);

    if (text[a.name_len] == '\0')
        return ps_fail(e, PS_ERR_INVALID, "expected NAME=VALUE, got '%.128s'", text);
    a.value = text + a.name_len + 1;
    if (*a.value == '\0')
        return assignment_refuse(&a, "a value after the =", e);
    return taker != NULL ? taker->take(&a, out, e) : take_parameter(&a, out, e);
}

/* One word: NAME=VALUE, or several with commas between. */
static enum ps_err
take_word(const char *word, struct assignments *out, struct ps_error *e)
{
    char text[PS_OPTIMIZER_TEXT_MAX];
    enum ps_err err;

    for (;;) {
        size_t n = first_len(word);

        if (n >= sizeof text)
            return ps_fail(e, PS_ERR_INVALID, "'%.64s...' is too long", word);
        memcpy(text, word, n);
        text[n] = '\0';
        if ((err = assignment_take(text, out, e)) != PS_OK || word[n] == '\0')
            return err;
        word += n + 1;
    }
}

const char *
assignments_warning(const struct assignments *a)
{
    const struct ps_setting *s = &a->setting;

    for (size_t i = 0; i < s->parameters; i++)
        if (strcmp(s->parameter[i].name, "learning_rate") == 0 && (float)s->parameter[i].value == 0)
            return "learning_rate=0: these variables stand still until they get another";
    if (s->age != NULL && s->age->kind == PS_AGE_CUTOFF && s->age->parameter < 1)
        return "age=cutoff:0: of workers that push at the same time only one counts";
    return NULL;
}

enum ps_err
assignments_parse(char *const words[], int n, const char *variables, struct assignments *out, struct ps_error *e)
{
    const struct ps_setting *s = &out->setting;
    enum ps_err err;

    *out = (struct assignments){0};
    if (n == 0)
        return ps_fail(e, PS_ERR_INVALID, "expected what to change: NAME=VALUE, learning_rate=0.01");
    for (int i = 0; i < n; i++)
        if ((err = take_word(words[i], out, e)) != PS_OK)
            return err;
    if (s->parameters > 0 || s->schedule != NULL || s->clip != NULL)
        out->setting.variables = variables != NULL ? variables : "*";
    else if (variables != NULL)
        return ps_fail(e, PS_ERR_INVALID, "--variables %.128s: nothing is to change about variables", variables);
    return PS_OK;
}
