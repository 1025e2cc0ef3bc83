/* What a meeting takes from messages and gives to them: a worker that comes (MSG_MEET), a table of who met (MSG_MET).
 */
#ifndef COMMON_MEET_MESSAGE_H
#define COMMON_MEET_MESSAGE_H

#include "common/core/cluster/meet.h"
#include "proto/psd.pb-c.h"

struct meet_message {
    Psd__Met met;
    Psd__GroupMember members[MEET_WORKERS_MAX], *list[MEET_WORKERS_MAX];
};

/* m->met is valid as long as t and m are, where they are. */
void meet_message(struct meet_message *m, const struct meet_table *t);

/* Who comes with m over the connection of this number. Borrows m's texts. */
struct meet_guest meet_message_guest(const Psd__Meet *m, uint64_t guest);

#endif
