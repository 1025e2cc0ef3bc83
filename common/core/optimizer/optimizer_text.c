/* Optimizers, schedules and clips as text, for options and for people: "adam:learning_rate=3e-4,schedule=cosine".
 *
 * Everything after the name is a list of key=value; the valid keys depend on what is read: an optimizer's own
 * parameters (its row), a schedule's words, a clip's. A key without effect is refused: it is a mistake. */
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/nearest.h"
#include "common/core/base/number.h"
#include "common/core/base/text.h"
#include "common/core/model/schedule.h"
#include "common/core/optimizer/optimizer_row.h"

static const char *const schedules[] = {"constant", "step", "exponential", "cosine", "linear"};
static const char *const clips[] = {"none", "value", "block_norm", "given_norm"};
static const char *const bys[] = {"version", "clock"};

/* The keys: an optimizer's parameters by their numbers, then these. */
enum { SCHEDULE = OPTIMIZER_PARAMETERS, BY, BEGIN, WARMUP, STEPS, FACTOR, FLOOR, CLIP, LIMIT, KEYS };

static const char *const words[] = {"schedule", "by", "begin", "warmup", "steps", "factor", "floor", "clip", "limit"};

#define KEY_MAX 64 /* bytes of a key, a value or a name, and its end */

/* "a, b, c" */
static void
optimizer_text_list(const char *const names[], size_t n, char *out, size_t size)
{
    struct text t = text_start(out, size);

    for (size_t i = 0; i < n; i++)
        text_put(&t, "%s%s", i == 0 ? "" : ", ", names[i]);
}

static enum ps_err
optimizer_text_find(const char *what, const char *const names[], size_t n, const char *name, int *out,
                    struct ps_error *e)
{
    struct nearest nearest = nearest_to(name);
    char all[256], meant[NEAREST_TEXT_MAX];

    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (int)i;
            return PS_OK;
        }
        nearest_offer(&nearest, names[i]);
    }
    optimizer_text_list(names, n, all, sizeof all);
    return ps_fail(e, PS_ERR_INVALID, "%s \"%s\" is not one of %s%s", what, name, all,
                   nearest_text(&nearest, "", meant));
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
    if ((err = optimizer_text_find("optimizer", names, ARRAY_LEN(names), name, &kind, e)) != PS_OK)
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
    struct nearest nearest = nearest_to(name);
    const char *names[OPTIMIZER_PARAMETERS];
    char all[256], meant[NEAREST_TEXT_MAX];
    size_t n = 0;

    for (const struct optimizer_use *use = optimizer_row(o->kind)->parameters; use->range != RANGE_NONE; use++)
        nearest_offer(&nearest, names[n++] = optimizer_parameter_name(use->parameter));
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        nearest_offer(&nearest, words[i]);
    optimizer_text_list(names, n, all, sizeof all);
    return ps_fail(e, PS_ERR_INVALID, "optimizer %s has no parameter \"%s\"; it has %s%s", ps_optimizer_name(o->kind),
                   name, all, nearest_text(&nearest, "", meant));
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
read_count(const char *key, const char *value, unsigned min, uint64_t *out, struct ps_error *e)
{
    char *end;

    errno = 0;
    *out = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || *out < min)
        return ps_fail(e, PS_ERR_INVALID, "%s: \"%s\" is not a whole number from %u to %llu", key, value, min,
                       (unsigned long long)UINT64_MAX);
    return PS_OK;
}

/* A word of a list, into an enum. */
#define READ_WORD(key, words, value, out, e)                                                                           \
    ({                                                                                                                 \
        int number_;                                                                                                   \
        enum ps_err err_ = optimizer_text_find(key, words, ARRAY_LEN(words), value, &number_, e);                      \
        if (err_ == PS_OK)                                                                                             \
            *(out) = (__typeof__(*(out)))number_;                                                                      \
        err_;                                                                                                          \
    })

static const char *
key_name(unsigned key)
{
    return key < SCHEDULE ? optimizer_parameter_name((enum optimizer_parameter)key) : words[key - SCHEDULE];
}

/* KEYS: there is no such key. */
static unsigned
key_of(const char *text)
{
    unsigned key = 0;

    while (key < KEYS && strcmp(key_name(key), text) != 0)
        key++;
    return key;
}

/* A version or a clock, or "now", which is 0. */
static enum ps_err
read_begin(const char *value, uint64_t *out, struct ps_error *e)
{
    *out = 0;
    if (strcmp(value, "now") == 0)
        return PS_OK;
    if (read_count("begin", value, 0, out, e) != PS_OK)
        return ps_fail(e, PS_ERR_INVALID,
                       "begin: \"%s\" is neither a whole number nor now, and a whole number is at most %llu", value,
                       (unsigned long long)UINT64_MAX);
    return PS_OK;
}

static enum ps_err
schedule_key(struct ps_schedule *s, unsigned key, const char *value, struct ps_error *e)
{
    switch (key) {
    case SCHEDULE:
        return READ_WORD("schedule", schedules, value, &s->kind, e);
    case BY:
        return READ_WORD("by", bys, value, &s->by, e);
    case BEGIN:
        return read_begin(value, &s->begin, e);
    case WARMUP:
        return read_count("warmup", value, 0, &s->warmup_steps, e);
    case STEPS:
        return read_count("steps", value, 1, &s->steps, e);
    case FACTOR:
        return read_number("factor", value, &s->factor, e);
    default:
        return read_number("floor", value, &s->floor, e);
    }
}

static enum ps_err
clip_key(struct ps_clip *c, unsigned key, const char *value, struct ps_error *e)
{
    if (key == CLIP)
        return READ_WORD("clip", clips, value, &c->kind, e);
    return read_number("limit", value, &c->limit, e);
}

/* The targets of a list of key=value: those that are not NULL. */
struct optimizer_text_target {
    struct ps_optimizer *optimizer;
    struct ps_schedule *schedule;
    struct ps_clip *clip;
    uint32_t said; /* bits: the keys that were read */
};

static bool
optimizer_text_has_key(const struct optimizer_text_target *to, unsigned key)
{
    return (to->said >> key & 1) != 0;
}

/* Of a schedule or a clip alone. */
static enum ps_err
no_key(const char *name, bool schedule, struct ps_error *e)
{
    unsigned first = schedule ? BY : LIMIT, last = schedule ? FLOOR : LIMIT;
    struct nearest nearest = nearest_to(name);
    char all[128], meant[NEAREST_TEXT_MAX];

    for (unsigned key = first; key <= last; key++)
        nearest_offer(&nearest, key_name(key));
    optimizer_text_list(&words[first - SCHEDULE], last - first + 1, all, sizeof all);
    return ps_fail(e, PS_ERR_INVALID, "\"%s\" is not a key of a %s: %s%s", name, schedule ? "schedule" : "clip", all,
                   nearest_text(&nearest, "", meant));
}

static enum ps_err
read_key(struct optimizer_text_target *to, const char *name, const char *value, struct ps_error *e)
{
    unsigned key = key_of(name);
    double number;
    enum ps_err err;

    if (key < KEYS && optimizer_text_has_key(to, key))
        return ps_fail(e, PS_ERR_INVALID, "%s is given twice", name);
    if (key < KEYS)
        to->said |= UINT32_C(1) << key;
    if (to->schedule != NULL && key >= SCHEDULE && key <= FLOOR)
        return schedule_key(to->schedule, key, value, e);
    if (to->clip != NULL && (key == CLIP || key == LIMIT))
        return clip_key(to->clip, key, value, e);
    if (to->optimizer == NULL)
        return no_key(name, to->schedule != NULL, e);
    if (key == KEYS)
        return no_parameter(to->optimizer, name, e);
    if ((err = read_number(name, value, &number, e)) != PS_OK)
        return err;
    return ps_optimizer_set(to->optimizer, name, number, e);
}

/* Copy the text before the first of the stops; returns where that is, NULL when the text is too long. */
static const char *
optimizer_text_cut_key(const char *text, const char *stops, char out[KEY_MAX])
{
    size_t n = strcspn(text, stops);

    if (n >= KEY_MAX)
        return NULL;
    memcpy(out, text, n);
    out[n] = '\0';
    return text + n;
}

static enum ps_err
not_an_item(const char *text, struct ps_error *e)
{
    if (*text == '\0')
        return ps_fail(e, PS_ERR_INVALID, "something is missing at the end: key=value, or no colon or comma");
    if (*text == ',' || *text == ':')
        return ps_fail(e, PS_ERR_INVALID, "something is missing before \"%.64s\": key=value", text);
    return ps_fail(e, PS_ERR_INVALID, "\"%.64s\" is not key=value", text);
}

/* "key=value,key=value"; colons separate as commas do, and a number alone right after a clip is its limit:
 * "clip=value:1". */
static enum ps_err
read_keys(struct optimizer_text_target *to, const char *text, struct ps_error *e)
{
    bool after_clip = to->clip != NULL && optimizer_text_has_key(to, CLIP);
    char key[KEY_MAX], value[KEY_MAX];
    double limit;
    enum ps_err err;

    for (;;) {
        const char *at = optimizer_text_cut_key(text, "=,:", key);

        if (at != NULL && *at != '=' && after_clip && number_parse(key, &limit)) {
            memcpy(value, key, sizeof value);
            memcpy(key, "limit", sizeof "limit");
        } else if (at == NULL || *at != '=' || (at = optimizer_text_cut_key(at + 1, ",:", value)) == NULL)
            return not_an_item(text, e);
        if ((err = read_key(to, key, value, e)) != PS_OK || *at == '\0')
            return err;
        after_clip = strcmp(key, "clip") == 0;
        text = at + 1;
    }
}

/* Every key that was given must have an effect. */
static enum ps_err
check_said(const struct optimizer_text_target *to, struct ps_error *e)
{
    const struct ps_schedule none = {0}, *s = to->schedule != NULL ? to->schedule : &none;
    const struct {
        unsigned key;
        bool works;
        const char *needs;
    } rows[] = {
        {STEPS, s->kind != PS_SCHEDULE_CONSTANT, "schedule=step, exponential, cosine or linear"},
        {FLOOR, s->kind != PS_SCHEDULE_CONSTANT, "schedule=step, exponential, cosine or linear"},
        {FACTOR, schedule_by_factor(s), "schedule=step or exponential"},
        {BY, schedule_moves(s), "a schedule or a warmup"},
        {BEGIN, schedule_moves(s), "a schedule or a warmup"},
        {LIMIT, to->clip != NULL && to->clip->kind != PS_CLIP_NONE, "clip=value, block_norm or given_norm"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (optimizer_text_has_key(to, rows[i].key) && !rows[i].works)
            return ps_fail(e, PS_ERR_INVALID, "%s has no effect without %s", key_name(rows[i].key), rows[i].needs);
    return PS_OK;
}

/* "name:key=value,key=value" or "name" alone: the name, and where the list begins, NULL when there is none. */
static enum ps_err
read_head(const char *what, const char *text, const void *out, char name[KEY_MAX], const char **list,
          struct ps_error *e)
{
    const char *at = text != NULL && out != NULL ? optimizer_text_cut_key(text, ":,", name) : NULL;

    if (at == NULL)
        return ps_fail(e, PS_ERR_INVALID, "%s is written NAME:key=value,key=value", what);
    *list = *at != '\0' ? at + 1 : NULL;
    return PS_OK;
}

enum ps_err
ps_optimizer_parse(const char *text, struct ps_optimizer *out, struct ps_error *e)
{
    char name[KEY_MAX];
    struct ps_optimizer o;
    struct optimizer_text_target to = {.optimizer = &o, .schedule = &o.schedule, .clip = &o.clip};
    const char *keys;
    enum ps_err err;

    if ((err = read_head("an optimizer", text, out, name, &keys, e)) != PS_OK ||
        (err = ps_optimizer_by_name(name, &o, e)) != PS_OK)
        return err;
    if (keys != NULL && (err = read_keys(&to, keys, e)) != PS_OK)
        return err;
    if ((err = optimizer_check(&o, e)) == PS_OK && (err = check_said(&to, e)) == PS_OK)
        *out = o;
    return err;
}

/* A schedule or a clip alone: the name is the value of its first key, which may be there, too. */
static enum ps_err
read_alone(const char *what, unsigned first, const char *text, const void *out, struct optimizer_text_target *to,
           struct ps_error *e)
{
    size_t prefix = strlen(key_name(first));
    char name[KEY_MAX];
    const char *keys;
    enum ps_err err;

    if (text != NULL && strncmp(text, key_name(first), prefix) == 0 && text[prefix] == '=')
        text += prefix + 1;
    if ((err = read_head(what, text, out, name, &keys, e)) != PS_OK ||
        (err = read_key(to, key_name(first), name, e)) != PS_OK)
        return err;
    return keys != NULL ? read_keys(to, keys, e) : PS_OK;
}

enum ps_err
ps_schedule_parse(const char *text, struct ps_schedule *out, struct ps_error *e)
{
    struct ps_schedule s = {0};
    struct optimizer_text_target to = {.schedule = &s};
    enum ps_err err;

    if ((err = read_alone("a schedule", SCHEDULE, text, out, &to, e)) != PS_OK)
        return err;
    if ((err = schedule_check(&s, DBL_MAX, e)) == PS_OK && /* whose learning rate is not known here */
        (err = check_said(&to, e)) == PS_OK)
        *out = s;
    return err;
}

enum ps_err
ps_clip_parse(const char *text, struct ps_clip *out, struct ps_error *e)
{
    struct ps_clip c = {0};
    struct optimizer_text_target to = {.clip = &c};
    enum ps_err err;

    if ((err = read_alone("a clip", CLIP, text, out, &to, e)) != PS_OK)
        return err;
    if ((err = clip_check(&c, e)) == PS_OK && (err = check_said(&to, e)) == PS_OK)
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
    if (schedule_moves(s))
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
    if (s->begin != 0)
        text_put(t, ",begin=%llu", (unsigned long long)s->begin);
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
