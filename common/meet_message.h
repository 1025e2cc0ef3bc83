/* The answer of a meeting as a message: a table of who met (MSG_MET). */
#ifndef COMMON_MEET_MESSAGE_H
#define COMMON_MEET_MESSAGE_H

#include "meet.h"
#include "proto/psd.pb-c.h"

struct meet_message {
    Psd__Met met;
    Psd__GroupMember members[MEET_WORKERS_MAX], *list[MEET_WORKERS_MAX];
};

/* m->met is valid as long as t and m are, where they are. */
void meet_message(struct meet_message *m, const struct meet_table *t);

#endif
