/* Validity of each message, as far as it can be checked without the receiver's state. For wire.c; the client checks a
 * set before it sends it. */
#ifndef COMMON_CORE_WIRE_WIRE_CHECK_H
#define COMMON_CORE_WIRE_WIRE_CHECK_H

#include "common/core/wire/wire.h"

/* msg was unpacked; optional parts that it leaves out are filled in from the arena. */
typedef enum ps_err wire_check(struct wire_msg *msg, struct arena *arena, struct ps_error *e);

#define WIRE_DECLARE_CHECK(name) extern wire_check wire_check_##name;
#define WIRE_DECLARE_FREE(name)
#define X(id, number, name, type, text, payload, request, check, ...) WIRE_DECLARE_##check(name)
MESSAGE_LIST(X)
#undef X

#endif
