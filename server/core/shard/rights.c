#include "server/core/shard/rights.h"

#include <stdio.h>

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"

static const enum role least[MSG_TYPE_MAX] = {
    [MSG_HELLO] = ROLE_READ,    [MSG_PULL] = ROLE_READ,        [MSG_ATTACH] = ROLE_READ,
    [MSG_QUERY] = ROLE_READ,    [MSG_PING] = ROLE_READ,        [MSG_CANCEL] = ROLE_READ,
    [MSG_GOODBYE] = ROLE_READ,

    [MSG_DECLARE] = ROLE_TRAIN, [MSG_PUSH] = ROLE_TRAIN,       [MSG_TICK] = ROLE_TRAIN,
    [MSG_BARRIER] = ROLE_TRAIN, [MSG_SKIP] = ROLE_TRAIN,       [MSG_MEET] = ROLE_TRAIN,
    [MSG_SAVE] = ROLE_TRAIN,    [MSG_CHECKPOINT] = ROLE_TRAIN, /* training loops ask for theirs; --checkpoint-root says
                                                                  where */

    [MSG_SET] = ROLE_ADMIN,     [MSG_DRAIN] = ROLE_ADMIN,      [MSG_RESTORE] = ROLE_ADMIN,
    [MSG_EVICT] = ROLE_ADMIN,
};

enum role
rights_of(unsigned type)
{
    return type < MSG_TYPE_MAX ? least[type] : ROLE_NONE;
}

void
rights_refusal(unsigned type, enum role has, enum role takes, char *out, size_t size)
{
    snprintf(out, size, "a %s%s takes role %s, and this connection has role %s: use a token that has it",
             wire_type_name((enum msg_type)type), type == MSG_HELLO ? " of a worker" : "", role_name(takes),
             role_name(has));
}
