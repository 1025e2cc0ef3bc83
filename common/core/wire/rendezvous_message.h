/* Conversions between a rendezvous and its messages: a worker that joins (MSG_MEET), the table of members (MSG_MET). */
#ifndef COMMON_CORE_WIRE_RENDEZVOUS_MESSAGE_H
#define COMMON_CORE_WIRE_RENDEZVOUS_MESSAGE_H

#include "common/core/cluster/rendezvous_core.h"
#include "proto/psd.pb-c.h"

struct rendezvous_message {
    Psd__Met met;
    Psd__GroupMember members[RENDEZVOUS_WORKERS_MAX], *list[RENDEZVOUS_WORKERS_MAX];
};

/* m->met is valid as long as t and m are, where they are. */
void rendezvous_message(struct rendezvous_message *m, const struct rendezvous_table *t);

/* The request in m, which came over the connection of this number. Borrows m's texts. */
struct rendezvous_request rendezvous_message_request(const Psd__Meet *m, uint64_t conn_id);

#endif
