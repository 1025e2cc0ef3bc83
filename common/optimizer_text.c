/* Optimizers, schedules and clips as text, for options and for people: "adam:learning_rate=3e-4,schedule=cosine".
 *
 * Everything after the colon is a list of key=value; what a key may be depends on what is read: an optimizer's own
 * parameters (its row), a schedule's words, a clip's. */
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "optimizer_row.h"
#include "schedule.h"
#include "text.h"

static const char *const schedules[] = {"constant", "step", "exponential", "cosine", "linear"};
static const char *const clips[] = {"none", "value", "block_norm", "given_norm"};
static const char *const bys[] = {"version", "clock"};

#define KEY_MAX 64 /* bytes of a key, a value or a name, and its end */

/* "a, b, c" */
static void
list(const char *const names[], size_t n, char *out, size_t size)
{
    struct text t = text_start(out, size);

    for (size_t i = 0; i < n; i++)
        text_put(&t, "%s%s", i == 0 ? "" : ", ", names[i]);
}

static enum ps_err
find(const char *what, const char *const names[], size_t n, const char *name, int *out, struct ps_error *e)
{
    char all[256];

    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (int)i;
            return PS_OK;
        }
    list(names, n, all, sizeof all);
    return ps_fail(e, PS_ERR_INVALID, "%s \"%s\" is not one of %s", what, name, all);
}

enum ps_err
ps_optimizer_by_name(const char *name, struct ps_optimizer *out, struct ps_error *e)
{
    const char *names[PS_OPTIMIZER_KINDS];
    enum ps_err err;
    int kind;

    if (name == NULL || out == NULL)
        return ps_fail(e, PS_ERR_INVALID, "an optimizer needs a name and a place to put it");
    for (kind = 0; kind < PS_OPTIMIZER_KINDS; kind++)
        names[kind] = ps_optimizer_name((enum ps_optimizer_kind)kind);
    if ((err = find("optimizer", names, ARRAY_LEN(names), name, &kind, e)) != PS_OK)
        return err;
    *out = (struct ps_optimizer){.kind = (enum ps_optimizer_kind)kind};
    for (const struct optimizer_use *use = optimizer_row(out->kind)->parameters; use->range != RANGE_NONE; use++)
        *optimizer_parameter(out, use->parameter) = use->usual;
    return PS_OK;
}

/* ---- Setting ---- */

static enum ps_err
no_parameter(const struct ps_optimizer *o, const char *name, struct ps_error *e)
{
    const char *names[OPTIMIZER_PARAMETERS];
    size_t n = 0;
    char all[256];

    for (const struct optimizer_use *use = optimizer_row(o->kind)->parameters; use->range != RANGE_NONE; use++)
        names[n++] = optimizer_parameter_name(use->parameter);
    list(names, n, all, sizeof all);
    return ps_fail(e, PS_ERR_INVALID, "optimizer %s has no parameter \"%s\"; it has %s", ps_optimizer_name(o->kind),
                   name, all);
}

enum ps_err
ps_optimizer_set(struct ps_optimizer *o, const char *parameter, double value, struct ps_error *e)
{
    const struct optimizer_row *row = optimizer_row(o->kind);
    enum ps_err err;

    if (row == NULL)
        return ps_fail(e, PS_ERR_INVALID, "optimizer %d is not known", (int)o->kind);
    for (const struct optimizer_use *use = row->parameters; use->range != RANGE_NONE; use++)
        if (strcmp(optimizer_parameter_name(use->parameter), parameter) == 0) {
            if ((err = optimizer_check_value(o->kind, use, value, e)) == PS_OK)
                *optimizer_parameter(o, use->parameter) = value;
            return err;
        }
    return no_parameter(o, parameter, e);
}

/* ---- Reading ---- */

static enum ps_err
read_number(const char *key, const char *value, double *out, struct ps_error *e)
{
    if (!number_parse(value, out))
        return ps_fail(e, PS_ERR_INVALID, "%s: \"%s\" is not a number", key, value);
    return PS_OK;
}

static enum ps_err
read_count(const char *key, const char *value, uint64_t *out, struct ps_error *e)
{
    char *end;

    errno = 0;
    *out = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0)
        return ps_fail(e, PS_ERR_INVALID, "%s: \"%s\" is not a whole number", key, value);
    return PS_OK;
}

/* A word of a list, into an enum. */
#define READ_WORD(key, words, value, out, e)                                                                           \
    ({                                                                                                                 \
        int number_;                                                                                                   \
        enum ps_err err_ = find(key, words, ARRAY_LEN(words), value, &number_, e);                                     \
        if (err_ == PS_OK)                                                                                             \
            *(out) = (__typeof__(*(out)))number_;                                                                      \
        err_;                                                                                                          \
    })

/* PS_ERR_NOT_FOUND without a sentence when the key is not a schedule's. */
static enum ps_err
schedule_key(struct ps_schedule *s, const char *key, const char *value, struct ps_error *e)
{
    if (strcmp(key, "schedule") == 0)
        return READ_WORD("schedule", schedules, value, &s->kind, e);
    if (strcmp(key, "by") == 0)
        return READ_WORD("by", bys, value, &s->by, e);
    if (strcmp(key, "warmup") == 0)
        return read_count(key, value, &s->warmup_steps, e);
    if (strcmp(key, "steps") == 0)
        return read_count(key, value, &s->steps, e);
    if (strcmp(key, "factor") == 0)
        return read_number(key, value, &s->factor, e);
    if (strcmp(key, "floor") == 0)
        return read_number(key, value, &s->floor, e);
    return PS_ERR_NOT_FOUND;
}

static enum ps_err
clip_key(struct ps_clip *c, const char *key, const char *value, struct ps_error *e)
{
    if (strcmp(key, "clip") == 0)
        return READ_WORD("clip", clips, value, &c->kind, e);
    if (strcmp(key, "limit") == 0)
        return read_number(key, value, &c->limit, e);
    return PS_ERR_NOT_FOUND;
}

/* What a list of key=value is read into: those that are not NULL. */
struct target {
    struct ps_optimizer *optimizer;
    struct ps_schedule *schedule;
    struct ps_clip *clip;
};

static enum ps_err
read_key(const struct target *to, const char *key, const char *value, struct ps_error *e)
{
    enum ps_err err = PS_ERR_NOT_FOUND;
    double number;

    if (to->schedule != NULL)
        err = schedule_key(to->schedule, key, value, e);
    if (err == PS_ERR_NOT_FOUND && to->clip != NULL)
        err = clip_key(to->clip, key, value, e);
    if (err != PS_ERR_NOT_FOUND)
        return err;
    if (to->optimizer == NULL)
        return ps_fail(e, PS_ERR_INVALID, "\"%s\" is not a key of a %s", key,
                       to->schedule != NULL ? "schedule: by, warmup, steps, factor, floor" : "clip: limit");
    if ((err = read_number(key, value, &number, e)) != PS_OK)
        return err;
    return ps_optimizer_set(to->optimizer, key, number, e);
}

/* Copy what comes before the first of the stops; returns where that is, NULL when it is too long. */
static const char *
cut(const char *text, const char *stops, char out[KEY_MAX])
{
    size_t n = strcspn(text, stops);

    if (n >= KEY_MAX)
        return NULL;
    memcpy(out, text, n);
    out[n] = '\0';
    return text + n;
}

/* "key=value,key=value" */
static enum ps_err
read_keys(const struct target *to, const char *text, struct ps_error *e)
{
    char key[KEY_MAX], value[KEY_MAX];
    enum ps_err err;

    for (;;) {
        const char *at = cut(text, "=,", key);

        if (at == NULL || *at != '=' || (at = cut(at + 1, ",", value)) == NULL)
            return ps_fail(e, PS_ERR_INVALID, "\"%.64s\" is not key=value", text);
        if ((err = read_key(to, key, value, e)) != PS_OK || *at == '\0')
            return err;
        text = at + 1;
    }
}

/* "name:key=value,key=value" or "name" alone: the name, and where the list begins, NULL when there is none. */
static enum ps_err
read_head(const char *what, const char *text, const void *out, char name[KEY_MAX], const char **list,
          struct ps_error *e)
{
    const char *at = text != NULL && out != NULL ? cut(text, ":", name) : NULL;

    if (at == NULL)
        return ps_fail(e, PS_ERR_INVALID, "%s is written NAME:key=value,key=value", what);
    *list = *at == ':' ? at + 1 : NULL;
    return PS_OK;
}

enum ps_err
ps_optimizer_parse(const char *text, struct ps_optimizer *out, struct ps_error *e)
{
    char name[KEY_MAX];
    struct ps_optimizer o;
    const char *keys;
    enum ps_err err;

    if ((err = read_head("an optimizer", text, out, name, &keys, e)) != PS_OK ||
        (err = ps_optimizer_by_name(name, &o, e)) != PS_OK)
        return err;
    if (keys != NULL && (err = read_keys(&(struct target){&o, &o.schedule, &o.clip}, keys, e)) != PS_OK)
        return err;
    if ((err = optimizer_check(&o, e)) == PS_OK)
        *out = o;
    return err;
}

enum ps_err
ps_schedule_parse(const char *text, struct ps_schedule *out, struct ps_error *e)
{
    char name[KEY_MAX];
    struct ps_schedule s = {0};
    const char *keys;
    enum ps_err err;

    if ((err = read_head("a schedule", text, out, name, &keys, e)) != PS_OK ||
        (err = schedule_key(&s, "schedule", name, e)) != PS_OK)
        return err;
    if (keys != NULL && (err = read_keys(&(struct target){.schedule = &s}, keys, e)) != PS_OK)
        return err;
    if ((err = schedule_check(&s, DBL_MAX, e)) == PS_OK) /* whose learning rate is not known here */
        *out = s;
    return err;
}

enum ps_err
ps_clip_parse(const char *text, struct ps_clip *out, struct ps_error *e)
{
    char name[KEY_MAX];
    struct ps_clip c = {0};
    const char *keys;
    enum ps_err err;

    if ((err = read_head("a clip", text, out, name, &keys, e)) != PS_OK ||
        (err = clip_key(&c, "clip", name, e)) != PS_OK)
        return err;
    if (keys != NULL && (err = read_keys(&(struct target){.clip = &c}, keys, e)) != PS_OK)
        return err;
    if ((err = clip_check(&c, e)) == PS_OK)
        *out = c;
    return err;
}

/* ---- Writing ---- */

static void
put_number(struct text *t, const char *key, double value)
{
    text_put(t, ",%s=", key);
    text_number(t, value);
}

static void
put_schedule(struct text *t, const struct ps_schedule *s)
{
    if (s->kind != PS_SCHEDULE_CONSTANT)
        text_put(t, ",schedule=%s", schedules[s->kind]);
    if (s->warmup_steps != 0)
        text_put(t, ",warmup=%llu", (unsigned long long)s->warmup_steps);
    if (s->steps != 0)
        text_put(t, ",steps=%llu", (unsigned long long)s->steps);
    if (s->factor != 0)
        put_number(t, "factor", s->factor);
    if (s->floor != 0)
        put_number(t, "floor", s->floor);
    if (s->by != PS_BY_VERSION)
        text_put(t, ",by=%s", bys[s->by]);
}

void
ps_optimizer_describe(const struct ps_optimizer *optimizer, char *out, size_t size)
{
    struct text t = text_start(out, size);
    struct ps_optimizer o;

    if (optimizer_row(optimizer->kind) == NULL) {
        text_put(&t, "unknown optimizer");
        return;
    }
    o = optimizer_used(optimizer);
    text_put(&t, "%s:learning_rate=", ps_optimizer_name(o.kind));
    text_number(&t, o.learning_rate);
    for (const struct optimizer_use *use = optimizer_row(o.kind)->parameters; use->range != RANGE_NONE; use++) {
        double value = *optimizer_parameter(&o, use->parameter);

        if (use->parameter != PARAMETER_learning_rate && value != use->usual)
            put_number(&t, optimizer_parameter_name(use->parameter), value);
    }
    put_schedule(&t, &o.schedule);
    if (o.clip.kind != PS_CLIP_NONE) {
        text_put(&t, ",clip=%s", clips[o.clip.kind]);
        put_number(&t, "limit", o.clip.limit);
    }
}
