/* What a rendezvous takes from messages and gives to them: a worker that comes (MSG_MEET), a table of who met
 * (MSG_MET).
 */
#ifndef COMMON_RENDEZVOUS_MESSAGE_H
#define COMMON_RENDEZVOUS_MESSAGE_H

#include "common/core/cluster/rendezvous_core.h"
#include "proto/psd.pb-c.h"

struct rendezvous_message {
    Psd__Met met;
    Psd__GroupMember members[RENDEZVOUS_WORKERS_MAX], *list[RENDEZVOUS_WORKERS_MAX];
};

/* m->met is valid as long as t and m are, where they are. */
void rendezvous_message(struct rendezvous_message *m, const struct rendezvous_table *t);

/* Who comes with m over the connection of this number. Borrows m's texts. */
struct rendezvous_request rendezvous_message_request(const Psd__Meet *m, uint64_t conn_id);

#endif
