#include "common/core/wire/rendezvous_message.h"

void
rendezvous_message(struct rendezvous_message *m, const struct rendezvous_table *t)
{
    psd__met__init(&m->met);
    for (uint32_t rank = 0; rank < t->ranks; rank++) {
        Psd__GroupMember *member = &m->members[rank];

        psd__group_member__init(member);
        member->task = t->members[rank].task;
        member->incarnation = t->members[rank].incarnation;
        member->address = (char *)(uintptr_t)t->members[rank].address;
        member->host = (char *)(uintptr_t)t->members[rank].host;
        m->list[rank] = member;
    }
    m->met.epoch = t->epoch;
    m->met.group = t->group;
    m->met.n_member = t->ranks;
    m->met.member = m->list;
}

struct rendezvous_request
rendezvous_message_request(const Psd__Meet *m, uint64_t conn_id)
{
    return (struct rendezvous_request){.conn_id = conn_id,
                                       .name = m->group,
                                       .workers = m->workers,
                                       .task = m->task,
                                       .ranks_min = m->ranks_min,
                                       .settle_ms = m->settle_ms,
                                       .timeout_ms = m->timeout_ms,
                                       .incarnation = m->incarnation,
                                       .attempt = m->attempt,
                                       .epoch = m->epoch,
                                       .address = m->address,
                                       .host = m->host};
}
