/* A worker that coordinates the rendezvous where there are no shards: common/core/cluster/rendezvous_core.h over
 * connections that its acceptor hands on. Glue.
 *
 *     coordinator_init(&h, &config);
 *     acceptor_route(acceptor, MSG_MEET, coordinator_accept, &h);
 *     coordinator_join_own(&h, &own);          // this worker joins, too; config.met() or .failed() has the answer
 *     coordinator_redirect(&h);                // there is a lower coordinator: all ask there from now on
 *     coordinator_resume(&h);                  // peers may join again
 *     coordinator_close(&h);                   // then the loop runs until coordinator_closed(&h)
 *
 * Peers may join at any time, also while this worker is not in: they wait for it. */
#ifndef CLIENT_GROUP_RENDEZVOUS_COORDINATOR_H
#define CLIENT_GROUP_RENDEZVOUS_COORDINATOR_H

#include "common/core/cluster/rendezvous_core.h"
#include "common/core/wire/wire.h"
#include "common/net/conn.h"

struct coordinator_peer;

struct coordinator_config {
    struct conn_pool *pool;
    const char *cluster, *name; /* of the group; borrowed until coordinator_closed() */
    uint32_t task, workers;     /* of this one */
    uint64_t seed;
    void (*met)(void *arg, const struct rendezvous_table *t); /* this worker's answer; t: valid during the call */
    void (*failed)(void *arg, const struct ps_error *why);    /* the same */
    void *arg;
};

struct coordinator {
    struct coordinator_config config;
    char where[64]; /* "worker 0" */
    struct rendezvous_core meet;
    struct arena arena;
    struct coordinator_peer *peers; /* by number */
    uint64_t next_peer;
    uv_timer_t timer;
    uint32_t handles; /* that libuv still has */
    bool redirecting; /* peers are redirected */
    bool in;          /* this worker is in its rendezvous */
    bool answering;   /* answers are being handed out, further up on the stack */
};

void coordinator_init(struct coordinator *h, const struct coordinator_config *config);

/* acceptor_take for MEET; arg is the coordinator. */
void coordinator_accept(void *arg, struct conn *c, const struct frame_head *head, const void *meta);

/* own->conn_id is not looked at. Errors as rendezvous_core_join(). met() may come from within. */
enum ps_err coordinator_join_own(struct coordinator *h, const struct rendezvous_request *own,
                                 struct ps_error *e) PS_MUST_USE;
void coordinator_leave_own(struct coordinator *h); /* this worker; nothing when it is not in */

void coordinator_redirect(struct coordinator *h);
void coordinator_resume(struct coordinator *h);

/* Those below were asked again, and are not there: rendezvous that have settled begin. */
void coordinator_begin_settled(struct coordinator *h);

void coordinator_close(struct coordinator *h);
bool coordinator_closed(const struct coordinator *h);

#endif
