/* The outcome of a rendezvous: a table that has this worker in it, or why there is none. */
#include <stdio.h>

#include "client/group/rendezvous/rendezvous_internal.h"
#include "common/core/wire/rendezvous_message.h"

void
rendezvous_end(struct rendezvous *r, enum ps_err result)
{
    rendezvous_drop_query(r);
    listen_address_give_up(&r->listen_at);
    r->result = result;
    r->ended = true;
    rendezvous_state_end(&r->state);
    if (!r->by_shard && r->workers > 1) {
        coordinator_leave_own(&r->host);
        coordinator_resume(&r->host);
    }
    rendezvous_watch(r);
}

/* ---- Why not ---- */

void
rendezvous_fail(struct rendezvous *r, const struct ps_error *why, const char *peer)
{
    r->error = *why;
    if (peer != NULL && r->error.peer[0] == '\0')
        snprintf(r->error.peer, sizeof r->error.peer, "%s", peer);
    rendezvous_end(r, why->code);
}

void
rendezvous_failed(void *arg, const struct ps_error *why)
{
    rendezvous_fail(arg, why, NULL);
}

void
rendezvous_asked_name(const struct rendezvous *r, char *out, size_t size)
{
    snprintf(out, size, "%s %u at %.96s", r->by_shard ? "shard" : "worker", r->by_shard ? 0 : r->state.at,
             r->address_text);
}

void
rendezvous_fail_by_deadline(struct rendezvous *r)
{
    enum rendezvous_phase state = r->state.state;
    bool asks = state == RENDEZVOUS_WAITING || (r->by_shard && state != RENDEZVOUS_RESOLVING);
    char peer[PS_ERROR_PEER_MAX];
    struct ps_error e = {0};

    rendezvous_asked_name(r, peer, sizeof peer);
    if (r->trouble.code == PS_OK)
        ps_error_set(&e, PS_ERR_TIMEOUT,
                     "the deadline passed while this worker waited to meet the others of group '%.64s'",
                     r->config.name);
    else
        ps_error_set(&e, r->trouble.code == PS_ERR_UNREACHABLE ? PS_ERR_UNREACHABLE : PS_ERR_TIMEOUT,
                     "group '%.64s' could not meet in time: %.300s", r->config.name, r->trouble.text);
    rendezvous_fail(r, &e, asks ? peer : NULL);
}

/* ---- The table ---- */

static void
set_member(struct group_member *to, const Psd__GroupMember *m)
{
    to->task = m->task;
    to->incarnation = m->incarnation;
    snprintf(to->address, sizeof to->address, "%s", m->address);
    snprintf(to->host, sizeof to->host, "%s", m->host);
}

/* This worker must be in it as it is now: else the answer is for another process. */
static enum ps_err
find_own_rank(const struct rendezvous *r, struct group_membership *t, struct ps_error *e)
{
    while (t->rank < t->ranks && t->members[t->rank].task != r->task)
        t->rank++;
    if (t->rank < t->ranks && t->members[t->rank].incarnation == r->config.incarnation)
        return group_membership_check(t, e);
    return ps_fail(e, PS_ERR_PROTOCOL, "the table of group '%.64s' does not have this worker", r->config.name);
}

void
rendezvous_met(struct rendezvous *r, const Psd__Met *m)
{
    struct group_membership t;
    enum ps_err err = group_membership_init(&t, (uint32_t)m->n_member, &r->error);

    t.id = m->group;
    t.epoch = m->epoch;
    for (uint32_t i = 0; err == PS_OK && i < t.ranks; i++)
        set_member(&t.members[i], m->member[i]);
    if (err != PS_OK || (err = find_own_rank(r, &t, &r->error)) != PS_OK) {
        group_membership_finish(&t);
    } else {
        group_membership_finish(&r->table);
        r->table = t;
    }
    rendezvous_end(r, err);
}

void
rendezvous_coordinator_met(void *arg, const struct rendezvous_table *t)
{
    struct rendezvous_message m;

    rendezvous_message(&m, t);
    rendezvous_met(arg, &m.met);
}
