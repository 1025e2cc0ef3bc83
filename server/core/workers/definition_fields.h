/* What the workers of a job train, as they said: fields with a name and a value, such as rows, batch and optimizer
 * (DEFINE). Kept with the job, in its row, at shard 0. All workers that give a field must give it the same value:
 * define.h decides what becomes of one that does not. */
#ifndef SERVER_CORE_WORKERS_DEFINITION_FIELDS_H
#define SERVER_CORE_WORKERS_DEFINITION_FIELDS_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"

struct definition_fields {
    Psd__DefinitionField *field[WIRE_FIELDS_MAX]; /* [len], each with the task of the worker that gave it first */
    size_t len;
    uint64_t round; /* the newest in which a worker gave it */
};

/* The field of this name; NULL: there is none. */
const Psd__DefinitionField *definition_fields_find(const struct definition_fields *d, const char *name);

/* The first of these fields [n] whose value here is another one; SIZE_MAX: none is. */
size_t definition_fields_differs(const struct definition_fields *d, size_t n, Psd__DefinitionField *const *fields);

/* How many of these fields have no place beside those that are here. */
size_t definition_fields_excess(const struct definition_fields *d, size_t n, Psd__DefinitionField *const *fields);

/* Take over those that are not here, with this task; none of the others differs, and there is room. *changed: some
 * were. False: no memory. */
bool definition_fields_extend(struct definition_fields *d, uint32_t task, size_t n, Psd__DefinitionField *const *fields,
                              bool *changed);

void definition_fields_clear(struct definition_fields *d);

/* As its row has it, checked. False: no memory. */
bool definition_fields_take(struct definition_fields *d, size_t n, Psd__DefinitionField *const *fields, uint64_t round);

#endif
