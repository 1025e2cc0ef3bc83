#include "meet_message.h"

void
meet_message(struct meet_message *m, const struct meet_table *t)
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
