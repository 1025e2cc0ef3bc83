/* How a worker meets the others of its group, without blocking. Glue; form.c is what the group calls.
 *
 *     r = rendezvous_new(&config, &e);
 *     rendezvous_start(r, &ask);
 *     while (!rendezvous_over(r)) uv_run(loop, UV_RUN_ONCE);
 *     err = rendezvous_take(r, &table, &e);
 *     ... and again, after each failure of the group ...
 *     rendezvous_close(r);                         // then the loop runs until rendezvous_closed()
 *     rendezvous_free(r);
 *
 * In a cluster with shards shard 0 is asked, again and again until its answer is final:
 *
 *     ASKING ──► connected, MEET ──► MET: over
 *        ▲           │ unreachable, lost, stopping, busy: RENDEZVOUS_RETRY_MS, doubling
 *        └───────────┘
 *
 * In one without, the workers below this one are asked in turn, from 0 on; a worker that finds none coordinates
 * (coordinator.h) and goes on asking:
 *
 *             one says MEETING                       MET, or an error that is final
 *     SEEKING ────────────────► WAITING ──────────────────────────────────────────────────► over
 *      ▲   │                      │ it is lost, or has found a lower one itself               ▲
 *      │   │ ◄────────────────────┘                                                           │
 *      │   │ none of them is there                      its own rendezvous begins             │
 *      │   └──────────────────────► SEEKING, coordinating ────────────────────────────────────┘
 *      └─── RENDEZVOUS_AGAIN_MS ◄─────┘
 *
 * So all workers that can reach each other come to the lowest of them, in whatever order they started: a coordinator
 * that finds a lower one redirects its peers, and they start over. No rendezvous begins without its coordinator, and
 * none without some of the workers (ranks_min) before those below were asked once more since it settled. A network cut
 * in two has two lowest workers; ranks_min greater than half of the workers lets one part at most go on.
 *
 * A name of where this worker listens is looked up first, once, on a thread (client/api/resolve.h).
 *
 * A worker is there when it answers within RENDEZVOUS_ANSWER_MS: one that computes and does not drive its network
 * counts as absent until it does, and is found then. */
#ifndef CLIENT_GROUP_RENDEZVOUS_RENDEZVOUS_H
#define CLIENT_GROUP_RENDEZVOUS_RENDEZVOUS_H

#include "client/group/rendezvous/acceptor.h"
#include "client/group/rendezvous/membership.h"
#include "client/include/psclient/psclient.h"

#define RENDEZVOUS_RETRY_MS     50
#define RENDEZVOUS_RETRY_MS_MAX 1000
#define RENDEZVOUS_CONNECT_MS   10000 /* until a shard is connected and says WELCOME */
#define RENDEZVOUS_AGAIN_MS     200
#define RENDEZVOUS_ANSWER_MS    2000
#define RENDEZVOUS_TAKEN_MS     1000 /* how long TASK_TAKEN may be what is left of a process that has just died */

struct rendezvous;

struct rendezvous_config {
    struct conn_pool *pool;
    struct acceptor *acceptor;             /* opened when it is first known where, if it is not open */
    const ps_cluster *cluster;             /* these three borrowed until the end */
    const struct credentials *credentials; /* and these; NULL: nothing is encrypted */
    const char *name;                      /* of the group; copied */
    const char *listen;                    /* ps_group_options.listen; copied, may be NULL */
    const char *congestion;                /* as conn_start() has it; NULL: chosen; copied */
    uint64_t incarnation;
    uint64_t seed; /* random */
    char host[GROUP_HOST_MAX];
    uint32_t again_ms, answer_ms, taken_ms; /* 0: as above; for tests */
};

struct rendezvous_ask {
    uint32_t ranks_min, settle_ms;
    uint64_t epoch;
    uint64_t deadline_ms; /* of the loop */
    bool once;            /* a shard that cannot be asked is not asked again: that is the end */
};

/* Errors: CONFIG (no shards, and no addresses of workers; an address that is none; this process is no worker of the
 * cluster), LIMIT (more than PS_GROUP_RANKS_MAX workers), INVALID, NOMEM. */
enum ps_err rendezvous_new(const struct rendezvous_config *config, struct rendezvous **out,
                           struct ps_error *e) PS_MUST_USE;

void rendezvous_start(struct rendezvous *r, const struct rendezvous_ask *ask); /* not while one is under way */
bool rendezvous_over(const struct rendezvous *r);                              /* before the deadline, by itself */

/* What came of it; the table is the caller's. Errors as ps_group_open(). */
enum ps_err rendezvous_take(struct rendezvous *r, struct group_membership *table, struct ps_error *e) PS_MUST_USE;

/* It is over, with CANCELLED, if it was not. */
void rendezvous_give_up(struct rendezvous *r);

/* Give up what is under way. The acceptor stays as it is, but takes no MEET any more. */
void rendezvous_close(struct rendezvous *r);
bool rendezvous_closed(const struct rendezvous *r);
void rendezvous_free(struct rendezvous *r); /* closed */

#endif
