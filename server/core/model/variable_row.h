/* A variable's row (store.proto's VariableRow) as bytes: where in it the name, the declaration without the name, and
 * the optimizer lie. A start reads a million rows of a few definitions, and to unpack each took most of its time. Pure.
 *
 * It knows no more than how psd packs a row: fields in the order of their numbers, the name first in the declaration.
 * What is packed otherwise, or is dropped, or has fields that it does not know, is left to psd__variable_row__unpack().
 */
#ifndef SERVER_CORE_MODEL_VARIABLE_ROW_H
#define SERVER_CORE_MODEL_VARIABLE_ROW_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct variable_row {
    uint64_t job;
    uint64_t ordinal;                     /* 0: there is none */
    struct span name, declare, optimizer; /* within the row */
};

/* False: it is not one that can be read so. */
bool variable_row_read(struct span bytes, struct variable_row *out) PS_MUST_USE;

#endif
