/* What the rooms of rendezvous share.
 *
 *     rendezvous.c        asking, and what time brings
 *     rendezvous_end.c    what came of it
 *     rendezvous_life.c   from new to closed
 *     course.h            what to do next: pure */
#ifndef CLIENT_GROUP_RENDEZVOUS_INSIDE_H
#define CLIENT_GROUP_RENDEZVOUS_INSIDE_H

#include "client/core/group/course.h"
#include "client/group/rendezvous/host.h"
#include "client/group/rendezvous/inquiry.h"
#include "client/group/rendezvous/rendezvous.h"
#include "client/group/rendezvous/site.h"
#include "common/core/cluster/address.h"

struct rendezvous {
    struct rendezvous_config config; /* strings are ours */
    uint32_t workers, task;
    bool by_shard;
    struct course course;
    struct inquiry *inquiry;
    struct address address; /* of who is asked */
    char address_text[ADDRESS_MAX];
    struct site site; /* where this worker listens */
    uint64_t attempt;
    struct rendezvous_ask ask;
    struct ps_error trouble; /* what went wrong last, code PS_OK: nothing */

    bool ended; /* there is a result */
    enum ps_err result;
    struct ps_error error;
    struct group_table table;

    struct host host; /* where there are no shards */
    bool hosts;
    uv_timer_t timer;
    uint32_t handles; /* that libuv still has: the timer, inquiries */
};

static inline uint64_t
rendezvous_now_ms(const struct rendezvous *r)
{
    return uv_now(r->config.pool->loop);
}

/* ---- rendezvous.c ---- */

void rendezvous_watch(struct rendezvous *r); /* the timer, for what is due next */
void rendezvous_drop_inquiry(struct rendezvous *r);

/* site_config's; arg is the rendezvous. */
void rendezvous_site_found(void *arg);

/* ---- rendezvous_end.c ---- */

/* peer: who said it, or was waited for; may be NULL. */
void rendezvous_fail(struct rendezvous *r, const struct ps_error *why, const char *peer);
void rendezvous_fail_by_deadline(struct rendezvous *r);
void rendezvous_end(struct rendezvous *r, enum ps_err result); /* the error is set, or there is a table */

/* All have met. */
void rendezvous_met(struct rendezvous *r, const Psd__Met *m);

/* host_config's, and site_config's failed(). */
void rendezvous_host_met(void *arg, const struct rendezvous_table *t);
void rendezvous_failed(void *arg, const struct ps_error *why);

/* Who is asked now: "worker 0 at 127.0.0.1:4000". */
void rendezvous_asked_name(const struct rendezvous *r, char *out, size_t size);

#endif
