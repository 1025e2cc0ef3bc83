/* Definitions of variables: their shape, first values and optimizer, and how such a variable is cut. A job has far more
 * variables than definitions, and takes memory and time for each of the latter once.
 *
 *     v->def = variable_definition_get(&s->definitions, declare, &optimizer);   // found, or made; one use of it is v's
 *     variable_definition_release(v->def);                                      // after the last use it is freed
 *
 * Two variables have the same one when their declarations are the same but for the names, and their optimizers in force
 * are, to the last bit. */
#ifndef SERVER_CORE_MODEL_VARIABLE_DEFINITION_H
#define SERVER_CORE_MODEL_VARIABLE_DEFINITION_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/core/model/initializer.h"
#include "common/core/model/layout.h"
#include "common/core/optimizer/optimizer.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

struct variable_kind;

#define VARIABLE_DEFINITION_BYTES_MAX                                                                                  \
    (2 * KIB) /* of a declaration without its name, and of an optimizer, as messages */

struct variable_definition {
    struct variable_definition **table; /* that it is in */
    uint64_t uses;
    Psd__Declare *declare;         /* without a name: variable_declare() */
    struct ps_optimizer optimizer; /* in force: as declared, or as a SET left it */
    struct initializer initializer;
    bool refuse_nonfinite;
    const struct variable_kind *kind;
    struct layout layout; /* dense.c's */
    uint64_t numbers;     /* blocks have numbers below this, on all shards together */
    UT_hash_handle hh;    /* by the packed messages */
    size_t key_len;
    uint8_t key[]; /* [key_len] */
};

/* The definition of this declaration, whose name does not matter, with this optimizer in force. Both were checked.
 * NULL: no memory. */
struct variable_definition *variable_definition_get(struct variable_definition **table, const Psd__Declare *declare,
                                                    const struct ps_optimizer *optimizer);

/* The same, if some variable has it already, by these messages as they are packed, the declaration without its name.
 * NULL: none has. */
struct variable_definition *variable_definition_find(struct variable_definition **table, struct span declare,
                                                     struct span optimizer);

void variable_definition_release(struct variable_definition *d); /* accepts NULL */

#endif
