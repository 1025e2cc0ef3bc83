/* The parts of the rules of messages (wire_check.c). Each takes the field's name, so that every error names its field.
 *
 *     TRY(rule_within(e, "hello.lease_ms", h->lease_ms, 0, WIRE_LEASE_MS_MAX));
 *
 * Two kinds of text: names are refused when they are not clean (they become keys), sentences are made clean (they are
 * only shown). Errors: PS_ERR_INVALID, PS_ERR_LIMIT where there are too many of something. */
#ifndef COMMON_CORE_WIRE_WIRE_RULES_H
#define COMMON_CORE_WIRE_WIRE_RULES_H

#include "common/core/base/arena.h"
#include "common/core/wire/wire.h"

#define TRY(check)                                                                                                     \
    do {                                                                                                               \
        enum ps_err err_ = (check);                                                                                    \
        if (err_ != PS_OK)                                                                                             \
            return err_;                                                                                               \
    } while (0)

enum ps_err rule_name(struct ps_error *e, const char *field, const char *text, size_t least, size_t most) PS_MUST_USE;
enum ps_err rule_sentence(struct ps_error *e, const char *field, char *text) PS_MUST_USE;

enum ps_err rule_within(struct ps_error *e, const char *field, uint64_t value, uint64_t least,
                        uint64_t most) PS_MUST_USE;
enum ps_err rule_below(struct ps_error *e, const char *field, uint64_t value, const char *other,
                       uint64_t bound) PS_MUST_USE;

/* Enumerations are numbered from 0 without holes; protobuf-c keeps numbers that it does not know. */
enum ps_err rule_known(struct ps_error *e, const char *field, int value, int count) PS_MUST_USE;

enum ps_err rule_number(struct ps_error *e, const char *field, double value) PS_MUST_USE; /* finite */

/* Repeated fields of one length. */
enum ps_err rule_parallel(struct ps_error *e, const char *field, size_t n, const char *other, size_t m) PS_MUST_USE;
enum ps_err rule_empty_or_parallel(struct ps_error *e, const char *field, size_t n, const char *other,
                                   size_t m) PS_MUST_USE;

/* A sequence number, and the acknowledged one, which must be before it: a message that is sent is not answered yet. */
enum ps_err rule_sequence(struct ps_error *e, const char *field, uint64_t seq, uint64_t acked_through) PS_MUST_USE;

/* Parts of an optimizer, of a definition or a set. Ranges are the optimizers' own: optimizer_check(). */
enum ps_err rule_schedule(const Psd__Schedule *s, struct ps_error *e) PS_MUST_USE;
enum ps_err rule_clip(const Psd__Clip *c, struct ps_error *e) PS_MUST_USE;

/* A newer peer may know more codes: they are PS_ERR_INTERNAL here. */
void rule_codes_known(uint32_t *code, size_t n);

enum ps_err rule_no_room(struct ps_error *e) PS_MUST_USE;

/* A message inside a message that was not sent gets its defaults. */
#define FILL(arena, field, init)                                                                                       \
    do {                                                                                                               \
        if ((field) == NULL) {                                                                                         \
            (field) = arena_alloc((arena), sizeof *(field));                                                           \
            if ((field) == NULL)                                                                                       \
                return rule_no_room(e);                                                                                \
            init(field);                                                                                               \
        }                                                                                                              \
    } while (0)

#endif
