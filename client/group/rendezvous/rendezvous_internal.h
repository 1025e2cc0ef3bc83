/* What the modules of rendezvous share.
 *
 *     rendezvous.c        asking, and the timer
 *     rendezvous_end.c    the outcome
 *     rendezvous_life.c   from new to closed
 *     rendezvous_state.h  what to do next: pure */
#ifndef CLIENT_GROUP_RENDEZVOUS_RENDEZVOUS_INTERNAL_H
#define CLIENT_GROUP_RENDEZVOUS_RENDEZVOUS_INTERNAL_H

#include "client/core/group/rendezvous_state.h"
#include "client/group/rendezvous/coordinator.h"
#include "client/group/rendezvous/coordinator_client.h"
#include "client/group/rendezvous/listen_address.h"
#include "client/group/rendezvous/rendezvous.h"
#include "common/core/cluster/address.h"

struct rendezvous {
    struct rendezvous_config config; /* strings are ours */
    uint32_t workers, task;
    bool by_shard;
    struct rendezvous_state state;
    struct coordinator_client *query;
    struct address address; /* of the process that is asked */
    char address_text[ADDRESS_MAX];
    struct listen_address listen_at; /* where this worker listens */
    uint64_t attempt;
    struct rendezvous_ask ask;
    struct ps_error trouble; /* what went wrong last, code PS_OK: nothing */

    bool ended; /* there is a result */
    enum ps_err result;
    struct ps_error error;
    struct group_membership table;

    struct coordinator host; /* where there are no shards */
    bool coordinates;
    uv_timer_t timer;
    uint32_t handles; /* that libuv still has: the timer, queries */
};

static inline uint64_t
rendezvous_now_ms(const struct rendezvous *r)
{
    return uv_now(r->config.pool->loop);
}

/* ---- rendezvous.c ---- */

void rendezvous_watch(struct rendezvous *r); /* the timer, for what is due next */
void rendezvous_drop_query(struct rendezvous *r);

/* listen_address_config's; arg is the rendezvous. */
void rendezvous_address_found(void *arg);

/* ---- rendezvous_end.c ---- */

/* peer: the process that reported it, or was waited for; may be NULL. */
void rendezvous_fail(struct rendezvous *r, const struct ps_error *why, const char *peer);
void rendezvous_fail_by_deadline(struct rendezvous *r);
void rendezvous_end(struct rendezvous *r, enum ps_err result); /* the error is set, or there is a table */

/* All have met. */
void rendezvous_met(struct rendezvous *r, const Psd__Met *m);

/* coordinator_config's, and listen_address_config's failed(). */
void rendezvous_coordinator_met(void *arg, const struct rendezvous_table *t);
void rendezvous_failed(void *arg, const struct ps_error *why);

/* The process that is asked now: "worker 0 at 127.0.0.1:4000". */
void rendezvous_asked_name(const struct rendezvous *r, char *out, size_t size);

#endif
