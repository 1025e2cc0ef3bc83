/* Rendezvous: workers join under a name, and when all are there each receives the same table of the members. Pure: no
 * sockets, no clock, no randomness. psd's shard 0 uses it for the rendezvous of its cluster, and a worker for those of
 * a cluster without shards.
 *
 *     struct rendezvous_core m;
 *     rendezvous_core_init(&m, cluster, RENDEZVOUS_NO_COORDINATOR, seed);
 *     rendezvous_core_join(&m, &request, now_ms, &e);   // a worker asks to join
 *     rendezvous_core_leave(&m, request);               // its connection has ended
 *     while (rendezvous_core_next(&m, now_ms, &answer)) // after each of these, and at rendezvous_core_next_time()
 *         send answer to answer.conn_id;
 *     rendezvous_core_finish(&m);
 *
 * A rendezvous of one name:
 *
 *                    first comes           all workers are there; or ranks_min of them, for settle_ms
 *     (not there) ─────────────► RENDEZVOUS_OPEN ──────────────────────────────► RENDEZVOUS_ANSWERING ─► (not there)
 *          ▲                      │     ▲                                         each is answered once
 *          └──── last one left ◄──┘     └── others come, leave, pass their deadline
 *
 * A request:
 *                          accepted               RENDEZVOUS_ANSWERING: the table
 *     rendezvous_core_join() ─► waits ─┬────────────────────────────────────────────────────────────────────► gone
 *        │                             ├─ its deadline: TIMEOUT, with the names of those that are missing ──► gone
 *        └─ refused                    ├─ the same process asks again: CANCELLED ───────────────────────────► gone
 *                                      └─ rendezvous_core_leave(), rendezvous_core_cancel_all() ───────────► gone
 *
 * The strictest request counts: ranks_min is the greatest of those that are there (0: all workers), settle_ms the
 * longest. So survivors that would go on without the one they lost still wait for its replacement, which wants all,
 * once that is there.
 *
 * The epoch is greater than that of any earlier rendezvous held here and than any that a member was in, so it rises
 * over a restart of the host as well. The group's id is mixed from the seed, the epoch and the members' incarnations.
 *
 * Memory is bounded by RENDEZVOUS_REQUESTS_MAX requests, each with its own name at worst. */
#ifndef COMMON_CORE_CLUSTER_RENDEZVOUS_CORE_H
#define COMMON_CORE_CLUSTER_RENDEZVOUS_CORE_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/include/psclient/ps_err.h"

#define RENDEZVOUS_WORKERS_MAX  256  /* of one rendezvous */
#define RENDEZVOUS_REQUESTS_MAX 1024 /* that wait at one coordinator, in all rendezvous */
#define RENDEZVOUS_EPOCH_MAX    (UINT64_C(1) << 62)

#define RENDEZVOUS_NO_COORDINATOR UINT32_MAX

/* A worker's request to join. Strings are borrowed during the call. The ranges are checked where the message is
 * decoded. */
struct rendezvous_request {
    uint64_t conn_id; /* the caller's number of its connection, not in use by another that waits */
    const char *name; /* of the group */
    uint32_t workers; /* 1 to RENDEZVOUS_WORKERS_MAX */
    uint32_t task;    /* below workers */
    uint32_t ranks_min, settle_ms, timeout_ms;
    uint64_t incarnation;
    uint64_t attempt; /* rises with each request of one incarnation: the highest one is answered */
    uint64_t epoch;   /* of the last group that it was in, accepted up to RENDEZVOUS_EPOCH_MAX; 0: none */
    const char *address, *host;
};

struct rendezvous_member {
    uint32_t task;
    uint64_t incarnation;
    const char *address, *host; /* borrowed from the rendezvous */
};

/* The answer to all members: the same, byte for byte. */
struct rendezvous_table {
    uint64_t epoch, group;
    uint32_t ranks;                          /* at least 1 */
    const struct rendezvous_member *members; /* [ranks], in rising order of task: the index is the rank */
};

struct rendezvous_answer {
    uint64_t conn_id;
    const struct rendezvous_table *table; /* valid until the next call; NULL: error says why there is none */
    struct ps_error error;
};

enum rendezvous_group_state { RENDEZVOUS_OPEN, RENDEZVOUS_ANSWERING };
struct rendezvous_group;
struct rendezvous_seat;

struct rendezvous_core {
    /* private */
    const char *where; /* borrowed: "shard 0", for sentences */
    uint32_t host_task;
    bool unsure;
    uint64_t seed, epoch;
    uint32_t requests_len;
    uint64_t due_ms; /* no answer is due before this */
    struct rendezvous_group *groups, *answering;
    struct rendezvous_seat *seats;                            /* of all rendezvous, by request */
    struct rendezvous_seat *ousted;                           /* still to be answered that they are no longer in */
    struct rendezvous_member members[RENDEZVOUS_WORKERS_MAX]; /* of `answering` */
    struct rendezvous_table table;
};

/* where: borrowed until rendezvous_core_finish(). host_task: no rendezvous is held without this worker;
 * RENDEZVOUS_NO_COORDINATOR: there is none such. seed: random. */
void rendezvous_core_init(struct rendezvous_core *m, const char *where, uint32_t host_task, uint64_t seed);
void rendezvous_core_finish(struct rendezvous_core *m); /* accepts a zeroed one */

/* A request to join. PS_OK: it waits, and rendezvous_core_next() will answer it, perhaps at once. Else it has not
 * joined, nothing has changed, and *e says why: CLUSTER (the workers that wait gave another number of workers),
 * TASK_TAKEN (another process waits there with its index), CANCELLED (a later request of the same process waits),
 * LIMIT, NOMEM, INVALID (this connection waits already). */
enum ps_err rendezvous_core_join(struct rendezvous_core *m, const struct rendezvous_request *g, uint64_t now_ms,
                                 struct ps_error *e) PS_MUST_USE;

/* A request's connection has ended: it leaves and is not answered. False: it did not wait. */
bool rendezvous_core_leave(struct rendezvous_core *m, uint64_t conn_id);

/* End all waits but that of `but` (0: all): each is answered with this error. */
void rendezvous_core_cancel_all(struct rendezvous_core *m, uint64_t but, enum ps_err code, const char *text);

/* The next answer, whose request is gone with it; false: there is none for now. */
bool rendezvous_core_next(struct rendezvous_core *m, uint64_t now_ms, struct rendezvous_answer *out);

/* When rendezvous_core_next() must be called again, if nothing happens before; UINT64_MAX: never. */
uint64_t rendezvous_core_next_time(const struct rendezvous_core *m);

/* While the host is unsure, since it may yet give its requests up, no rendezvous begins without some of its workers. */
void rendezvous_core_set_unsure(struct rendezvous_core *m, bool unsure);

/* A rendezvous has waited long enough to begin without some, but for the host's being unsure. */
bool rendezvous_core_is_settled(const struct rendezvous_core *m, uint64_t now_ms);

/* How many wait at the open rendezvous of this name. */
uint32_t rendezvous_core_present(const struct rendezvous_core *m, const char *name);

/* ---- For reports ---- */

struct rendezvous_wait {
    uint64_t conn_id;
    const char *name;
    uint32_t task, workers;
    uint64_t since_ms;
    uint32_t missing_len; /* of all workers; the first of them in missing */
    uint32_t missing[64];
};

/* Calls each() for all requests that wait, in no order, until it returns false. */
void rendezvous_core_each(const struct rendezvous_core *m, bool (*each)(void *arg, const struct rendezvous_wait *wait),
                          void *arg);

#endif
