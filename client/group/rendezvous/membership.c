#include "client/group/rendezvous/membership.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/address.h"

enum ps_err
group_membership_init(struct group_membership *t, uint32_t ranks, struct ps_error *e)
{
    *t = (struct group_membership){.ranks = ranks};
    if (ranks == 0 || ranks > PS_GROUP_RANKS_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "a group of %u ranks; it has 1 to %d", ranks, PS_GROUP_RANKS_MAX);
    t->members = calloc(ranks, sizeof *t->members);
    return t->members != NULL ? PS_OK : ps_fail(e, PS_ERR_NOMEM, "no memory for a group of %u ranks", ranks);
}

void
group_membership_finish(struct group_membership *t)
{
    free(t->members);
    *t = (struct group_membership){0};
}

static bool
membership_terminated(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static enum ps_err
check_member(const struct group_membership *t, uint32_t rank, struct ps_error *e)
{
    const struct group_member *m = &t->members[rank];
    struct address address;

    if (!membership_terminated(m->host, sizeof m->host) || !membership_terminated(m->address, sizeof m->address))
        return ps_fail(e, PS_ERR_PROTOCOL, "the group's table: the texts of rank %u have no end", rank);
    if (m->incarnation == 0)
        return ps_fail(e, PS_ERR_PROTOCOL, "the group's table: rank %u has no incarnation", rank);
    if (rank > 0 && t->members[rank - 1].task >= m->task)
        return ps_fail(e, PS_ERR_PROTOCOL, "the group's table: rank %u is worker %u, rank %u is worker %u", rank - 1,
                       t->members[rank - 1].task, rank, m->task);
    if (t->ranks > 1 && (address_parse(m->address, &address, NULL) != PS_OK || address.is_unix || address.port == 0))
        return ps_fail(e, PS_ERR_PROTOCOL, "the group's table: '%s' of rank %u is no address", m->address, rank);
    return PS_OK;
}

enum ps_err
group_membership_check(const struct group_membership *t, struct ps_error *e)
{
    enum ps_err err;

    if (t->ranks == 0 || t->ranks > PS_GROUP_RANKS_MAX || t->members == NULL || t->rank >= t->ranks)
        return ps_fail(e, PS_ERR_PROTOCOL, "the group's table: rank %u of %u", t->rank, t->ranks);
    for (uint32_t r = 0; r < t->ranks; r++)
        if ((err = check_member(t, r, e)) != PS_OK)
            return err;
    return PS_OK;
}

void
group_membership_name(const struct group_membership *t, uint32_t rank, char *out, size_t size)
{
    snprintf(out, size, "rank %u%s%s%s", rank, t->members[rank].address[0] != '\0' ? " at " : "",
             t->members[rank].address, rank == t->rank ? ", this process" : "");
}
