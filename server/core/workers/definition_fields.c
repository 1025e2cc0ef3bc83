#include "server/core/workers/definition_fields.h"

#include <stdlib.h>
#include <string.h>

const Psd__DefinitionField *
definition_fields_find(const struct definition_fields *d, const char *name)
{
    for (size_t i = 0; i < d->len; i++)
        if (strcmp(d->field[i]->name, name) == 0)
            return d->field[i];
    return NULL;
}

size_t
definition_fields_differs(const struct definition_fields *d, size_t n, Psd__DefinitionField *const *fields)
{
    for (size_t i = 0; i < n; i++) {
        const Psd__DefinitionField *here = definition_fields_find(d, fields[i]->name);

        if (here != NULL && strcmp(here->value, fields[i]->value) != 0)
            return i;
    }
    return SIZE_MAX;
}

size_t
definition_fields_excess(const struct definition_fields *d, size_t n, Psd__DefinitionField *const *fields)
{
    size_t more = 0;

    for (size_t i = 0; i < n; i++)
        more += definition_fields_find(d, fields[i]->name) == NULL;
    return d->len + more > WIRE_FIELDS_MAX ? d->len + more - WIRE_FIELDS_MAX : 0;
}

static bool
definition_fields_add(struct definition_fields *d, uint32_t task, const Psd__DefinitionField *field)
{
    Psd__DefinitionField *copy = wire_copy(&field->base);

    if (copy == NULL)
        return false;
    ps_assert(d->len < WIRE_FIELDS_MAX);
    copy->task = task;
    d->field[d->len++] = copy;
    return true;
}

bool
definition_fields_extend(struct definition_fields *d, uint32_t task, size_t n, Psd__DefinitionField *const *fields,
                         bool *changed)
{
    *changed = false;
    for (size_t i = 0; i < n; i++) {
        if (definition_fields_find(d, fields[i]->name) != NULL)
            continue;
        *changed = true;
        if (!definition_fields_add(d, task, fields[i]))
            return false;
    }
    return true;
}

void
definition_fields_clear(struct definition_fields *d)
{
    for (size_t i = 0; i < d->len; i++)
        psd__definition_field__free_unpacked(d->field[i], NULL);
    *d = (struct definition_fields){0};
}

bool
definition_fields_take(struct definition_fields *d, size_t n, Psd__DefinitionField *const *fields, uint64_t round)
{
    d->round = round;
    for (size_t i = 0; i < n; i++)
        if (!definition_fields_add(d, fields[i]->task, fields[i]))
            return false;
    return true;
}
