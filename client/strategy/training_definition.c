#include "client/strategy/training_definition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/core/shards/definition.h"
#include "common/core/cluster/placement.h"

#define DEFINITION_LAYERS_MAX 8192 /* bytes of a network's layers as text */

static_assert(sizeof(struct training_definition) % sizeof(int64_t) == 0, "it is sent as words");

/* ---- Lists as one value ---- */

/* Pieces one behind the other: as many as fit, and a hash of all. */
struct definition_list {
    char text[WIRE_FIELD_VALUE_MAX + 1];
    size_t len;
    uint64_t hash;
    bool cut;
};

#define DEFINITION_LIST_MAX (WIRE_FIELD_VALUE_MAX - 18) /* space for "~" and the hash */

static void
definition_list_add(struct definition_list *l, const char *piece)
{
    size_t len = strlen(piece);

    l->hash = placement_hash(piece, len + 1, l->hash);
    l->cut |= l->len + len > DEFINITION_LIST_MAX;
    if (l->cut)
        return;
    memcpy(l->text + l->len, piece, len + 1);
    l->len += len;
}

static const char *
definition_list_end(struct definition_list *l)
{
    if (l->cut)
        snprintf(l->text + l->len, sizeof l->text - l->len, "~%016" PRIx64, l->hash);
    return l->text;
}

/* ---- Fields ---- */

void
training_definition_add(struct training_definition *d, const char *name, const char *value)
{
    ps_assert(d->len < PS_DEFINITION_MAX && strlen(name) <= PS_DEFINITION_NAME_MAX);
    strcpy(d->field[d->len].name, name);
    definition_shorten(value, d->field[d->len].value);
    d->len++;
}

void
training_definition_number(struct training_definition *d, const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    training_definition_add(d, name, text);
}

/* "6: a.weights 64x128, a.biases 128, ..." */
static void
definition_add_variables(const ps_strategy *s, struct training_definition *d)
{
    struct definition_list list = {.text = ""};
    char piece[PS_NAME_MAX + 24 * PS_RANK_MAX + 32];

    snprintf(piece, sizeof piece, "%zu:", s->vars_len);
    definition_list_add(&list, piece);
    for (size_t i = 0; i < s->vars_len; i++) {
        const struct ps_var_spec *spec = &s->vars[i]->spec;
        int used = snprintf(piece, sizeof piece, "%s %s", i > 0 ? "," : "", s->vars[i]->name);

        for (uint32_t k = 0; k < spec->rank; k++)
            used += snprintf(piece + used, sizeof piece - (size_t)used, "%s%" PRIu64, k > 0 ? "x" : " ", spec->dims[k]);
        definition_list_add(&list, piece);
    }
    training_definition_add(d, "variables", definition_list_end(&list));
}

/* Of all variables together where they are the same. */
static void
definition_add_optimizers(const ps_strategy *s, struct training_definition *d)
{
    struct definition_list list = {.text = ""};
    char first[PS_OPTIMIZER_TEXT_MAX] = "", text[PS_OPTIMIZER_TEXT_MAX];
    bool same = true;

    for (size_t i = 0; i < s->vars_len; i++) {
        ps_optimizer_describe(&s->vars[i]->spec.optimizer, text, sizeof text);
        same = same && (i == 0 || strcmp(text, first) == 0);
        if (i == 0)
            memcpy(first, text, sizeof first);
        definition_list_add(&list, text);
        definition_list_add(&list, s->vars[i]->spec.allow_nonfinite ? "; with nonfinite; " : "; ");
    }
    training_definition_add(d, "optimizer", same ? first : definition_list_end(&list));
}

static void
definition_add_first_values(const ps_strategy *s, struct training_definition *d)
{
    struct definition_list list = {.text = ""};
    char piece[96];

    for (size_t i = 0; i < s->vars_len; i++) {
        const struct ps_init *init = &s->vars[i]->spec.init;

        snprintf(piece, sizeof piece, "%s%d %.9g %.9g seed %" PRIu64, i > 0 ? ", " : "", (int)init->kind, init->a,
                 init->b, init->seed);
        definition_list_add(&list, piece);
    }
    training_definition_add(d, "first values", definition_list_end(&list));
}

static void
definition_add_layers(const ps_strategy *s, struct training_definition *d)
{
    char layers[DEFINITION_LAYERS_MAX];

    if (s->replica[0].network != NULL)
        training_definition_add(d, "layers", ps_network_describe(s->replica[0].network, layers, sizeof layers));
}

static void
definition_add_own(const ps_strategy *s, struct training_definition *d)
{
    training_definition_add(d, "strategy", s->name);
    training_definition_number(d, "rows", s->options.rows);
    training_definition_number(d, "batch", s->options.batch);
    if (s->ops->define != NULL)
        s->ops->define(s, d);
    definition_add_layers(s, d);
    definition_add_variables(s, d);
    if (s->ops->traits & STRATEGY_SLOTS) /* shards compare those that are declared, and know what a set has changed */
        definition_add_optimizers(s, d);
    definition_add_first_values(s, d);
    training_definition_number(d, "metrics", s->options.metrics);
}

/* ---- What a program says ---- */

static bool
definition_has(const struct training_definition *d, const char *name)
{
    for (size_t i = 0; i < d->len; i++)
        if (strcmp(d->field[i].name, name) == 0)
            return true;
    return false;
}

static enum ps_err
definition_add_programs(const ps_strategy *s, const struct training_definition *own, struct training_definition *d,
                        struct ps_error *e)
{
    const struct ps_strategy_options *o = &s->options;

    if (o->definitions > PS_DEFINITION_MAX - own->len)
        return ps_fail(e, PS_ERR_INVALID, "%u fields are defined; there may be %llu beside the strategy's own",
                       o->definitions, (unsigned long long)(PS_DEFINITION_MAX - own->len));
    for (uint32_t i = 0; i < o->definitions; i++) {
        const struct ps_definition *field = &o->definition[i];

        if (field->name == NULL || field->name[0] == '\0' || strlen(field->name) > PS_DEFINITION_NAME_MAX ||
            field->value == NULL)
            return ps_fail(e, PS_ERR_INVALID, "field %u of the definition has no name of 1 to %d bytes, or no value", i,
                           PS_DEFINITION_NAME_MAX);
        if (definition_has(own, field->name) || definition_has(d, field->name))
            return ps_fail(e, PS_ERR_INVALID, "field '%s' is defined twice, or by the strategy itself", field->name);
        training_definition_add(d, field->name, field->value);
    }
    return PS_OK;
}

/* The program's fields come first: what was given to it explains what follows from that. */
enum ps_err
training_definition_of(const ps_strategy *s, struct training_definition *out, struct ps_error *e)
{
    struct training_definition own = {.len = 0};
    enum ps_err err;

    memset(out, 0, sizeof *out);
    definition_add_own(s, &own);
    if ((err = definition_add_programs(s, &own, out, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < own.len; i++)
        out->field[out->len++] = own.field[i];
    return PS_OK;
}

/* ---- Comparing ---- */

uint64_t
training_definition_hash(const struct training_definition *d)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < d->len; i++) {
        hash = placement_hash(d->field[i].name, strlen(d->field[i].name) + 1, hash);
        hash = placement_hash(d->field[i].value, strlen(d->field[i].value) + 1, hash);
    }
    return hash;
}

static void
definition_end_texts(struct training_definition *d)
{
    d->len = MIN(d->len, PS_DEFINITION_MAX);
    for (size_t i = 0; i < d->len; i++)
        d->field[i].name[PS_DEFINITION_NAME_MAX] = d->field[i].value[WIRE_FIELD_VALUE_MAX] = '\0';
}

static const char *
definition_value(const struct training_definition *d, const char *name)
{
    for (size_t i = 0; i < d->len; i++)
        if (strcmp(d->field[i].name, name) == 0)
            return d->field[i].value;
    return NULL;
}

void
training_definition_compare(struct training_definition *mine, struct training_definition *other, uint32_t task,
                            char *text, size_t size)
{
    snprintf(text, size, "another definition, worker %u with one of other fields", task);
    definition_end_texts(mine);
    definition_end_texts(other);
    for (size_t i = 0; i < mine->len; i++) {
        const struct definition_text *f = &mine->field[i];
        const char *value = definition_value(other, f->name);

        if (value != NULL && strcmp(value, f->value) == 0)
            continue;
        if (value != NULL)
            snprintf(text, size, "%s '%s', worker %u with %s '%s'", f->name, f->value, task, f->name, value);
        else
            snprintf(text, size, "%s '%s', worker %u without", f->name, f->value, task);
        return;
    }
}

/* ---- Telling shard 0 ---- */

/* Whether the list, separated by commas, has this name. */
static bool
definition_may_differ(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t word = strcspn(at, ",");

        if (word == len && strncmp(at, name, len) == 0)
            return true;
        at += word + (at[word] == ',');
    }
    return false;
}

enum ps_err
training_definition_tell(ps_strategy *s, struct ps_error *e)
{
    struct ps_definition fields[PS_DEFINITION_MAX];
    struct training_definition d;
    enum ps_err err;
    size_t n = 0;

    if ((err = training_definition_of(s, &d, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < d.len; i++)
        if (!definition_may_differ(s->options.may_differ, d.field[i].name))
            fields[n++] = (struct ps_definition){d.field[i].name, d.field[i].value};
    return n > 0 ? ps_client_define(s->client, n, fields, -1, e) : PS_OK;
}
