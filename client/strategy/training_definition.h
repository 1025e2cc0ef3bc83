/* What this worker trains, as fields that all workers must have alike: what the strategy knows itself (batch, rows,
 * variables, optimizers, layers ...), behind what the program says (options.definition). With shards, shard 0 compares
 * them (ps_client_define()); workers that reduce among themselves compare them when they form a group (agreement.c). */
#ifndef CLIENT_STRATEGY_TRAINING_DEFINITION_H
#define CLIENT_STRATEGY_TRAINING_DEFINITION_H

#include "client/strategy/strategy.h"
#include "common/core/wire/wire.h"

struct definition_text {
    char name[PS_DEFINITION_NAME_MAX + 1];
    char value[WIRE_FIELD_VALUE_MAX + 1];
};

/* As a worker sends it to others: a whole number of 64-bit words. */
struct training_definition {
    struct definition_text field[PS_DEFINITION_MAX];
    uint64_t len;
};

/* All variables are there. INVALID: a field of the program's is not valid, or has a name of the strategy's own, or
 * there are too many. */
enum ps_err training_definition_of(const ps_strategy *s, struct training_definition *out,
                                   struct ps_error *e) PS_MUST_USE;

/* Another field. The strategy's own always have space. */
void training_definition_add(struct training_definition *d, const char *name, const char *value);
void training_definition_number(struct training_definition *d, const char *name, uint64_t value);

uint64_t training_definition_hash(const struct training_definition *d);

/* "batch '48', worker 0 with batch '96'": the first field in which they differ, to text of size bytes. Either may be of
 * another process: it is not trusted to have ends of strings. */
void training_definition_compare(struct training_definition *mine, struct training_definition *other, uint32_t task,
                                 char *text, size_t size);

/* Shard 0 compares it with the other workers'. */
enum ps_err training_definition_tell(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

#endif
