#include "server/core/shard/permissions.h"

#include <stdio.h>

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"

static const enum role least[MSG_TYPE_MAX] = {
#define X(id, number, name, type, text, payload, request, check, sender, invalid, role, ...) [MSG_##id] = ROLE_##role,
    MESSAGE_LIST(X)
#undef X
};

#define X(id, number, name, type, text, payload, request, check, sender, invalid, role, ...)                           \
    static_assert((MESSAGE_##sender < MESSAGE_SHARD) == (ROLE_##role != ROLE_NONE),                                    \
                  "a " text " has a least role when clients may send it, and none else");
MESSAGE_LIST(X)
#undef X

enum role
permissions_of(unsigned type)
{
    return type < MSG_TYPE_MAX ? least[type] : ROLE_NONE;
}

void
permissions_refusal(unsigned type, enum role has, enum role takes, char *out, size_t size)
{
    snprintf(out, size, "%s %s%s takes role %s, and this connection has role %s: use a token that has it",
             wire_type_article((enum msg_type)type), wire_type_name((enum msg_type)type),
             type == MSG_HELLO ? " of a worker" : "", role_name(takes), role_name(has));
}
