/* Meetings: workers come to a name, and when all are there each is told the same table of who they are. Pure: no
 * sockets, no clock, no randomness. psd's shard 0 holds the meetings of its cluster with it, and a worker those of a
 * cluster without shards.
 *
 *     struct meet m;
 *     meet_init(&m, cluster, MEET_NO_HOST, seed);
 *     meet_come(&m, &guest, now_ms, &e);              // somebody asks to be in
 *     meet_leave(&m, guest);                          // its connection has ended
 *     while (meet_next(&m, now_ms, &answer))          // after each of these, and when meet_next_time() is there
 *         tell answer.guest;
 *     meet_finish(&m);
 *
 * A meeting of one name:
 *
 *                    first comes           all workers are there; or ranks_min of them, for settle_ms
 *     (not there) ─────────────► MEET_OPEN ──────────────────────────────────────────► MEET_ANSWERING ──► (not there)
 *          ▲                      │     ▲                                               each is told once
 *          └──── last one left ◄──┘     └── others come, leave, pass their deadline
 *
 * A guest:
 *                  accepted                       MEET_ANSWERING: the table
 *     meet_come() ──────────► waits ─┬────────────────────────────────────────────────────────────────► gone
 *        │                           ├─ its deadline: TIMEOUT, with the names of those who are not there ─► gone
 *        └─ refused                  ├─ the same process asks again: CANCELLED ─────────────────────────► gone
 *                                    └─ meet_leave(), meet_cancel() ────────────────────────────────────► gone
 *
 * The strictest guest counts: ranks_min is the greatest of those that are there (0: all workers), settle_ms the
 * longest. So survivors that would go on without the one they lost still wait for its replacement, which wants all,
 * once that is there.
 *
 * The epoch is greater than that of any earlier meeting held here and than any that a member was in, so it rises over a
 * restart of the host as well. The group's id is mixed from the seed, the epoch and the members' incarnations.
 *
 * Memory is bounded by MEET_GUESTS_MAX guests, each with its own name at worst. */
#ifndef COMMON_MEET_H
#define COMMON_MEET_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/include/psclient/ps_err.h"

#define MEET_WORKERS_MAX 256  /* of one meeting */
#define MEET_GUESTS_MAX  1024 /* that wait at one host, in all meetings */
#define MEET_EPOCH_MAX   (UINT64_C(1) << 62)

#define MEET_NO_HOST UINT32_MAX

/* Who comes, as it says. Strings are borrowed during the call. The ranges are checked where the message is decoded. */
struct meet_guest {
    uint64_t guest;   /* the caller's number of its connection, not in use by another that waits */
    const char *name; /* of the group */
    uint32_t workers; /* 1 to MEET_WORKERS_MAX */
    uint32_t task;    /* below workers */
    uint32_t ranks_min, settle_ms, timeout_ms;
    uint64_t incarnation;
    uint64_t attempt; /* rises with each question of one incarnation: the highest one is answered */
    uint64_t epoch;   /* of the last group that it was in, believed up to MEET_EPOCH_MAX; 0: none */
    const char *address, *host;
};

struct meet_member {
    uint32_t task;
    uint64_t incarnation;
    const char *address, *host; /* borrowed from the meeting */
};

/* What all members are told: the same, byte for byte. */
struct meet_table {
    uint64_t epoch, group;
    uint32_t ranks;                    /* at least 1 */
    const struct meet_member *members; /* [ranks], in rising order of task: the index is the rank */
};

struct meet_answer {
    uint64_t guest;
    const struct meet_table *table; /* valid until the next call; NULL: error says why there is none */
    struct ps_error error;
};

enum meeting_state { MEET_OPEN, MEET_ANSWERING };
struct meeting;
struct meet_seat;

struct meet {
    /* private */
    const char *where; /* borrowed: "shard 0", for sentences */
    uint32_t host_task;
    bool unsure;
    uint64_t seed, epoch;
    uint32_t guests_len;
    uint64_t due_ms; /* nothing is to be answered before */
    struct meeting *meetings, *answering;
    struct meet_seat *seats;                      /* of all meetings, by guest */
    struct meet_seat *ousted;                     /* to be told that they are no longer in */
    struct meet_member members[MEET_WORKERS_MAX]; /* of `answering` */
    struct meet_table table;
};

/* where: borrowed until meet_finish(). host_task: no meeting is held without this worker; MEET_NO_HOST: there is none
 * such. seed: random. */
void meet_init(struct meet *m, const char *where, uint32_t host_task, uint64_t seed);
void meet_finish(struct meet *m); /* accepts a zeroed one */

/* A guest asks to be in. PS_OK: it waits, and meet_next() will answer it, perhaps at once. Else it is not in, nothing
 * has changed, and *e says why: CLUSTER (those who are there are another number of workers), TASK_TAKEN (another
 * process waits there with its index), CANCELLED (a later question of the same process waits), LIMIT, NOMEM, INVALID
 * (this connection waits already). */
enum ps_err meet_come(struct meet *m, const struct meet_guest *g, uint64_t now_ms, struct ps_error *e) PS_MUST_USE;

/* Its connection has ended: it is not in. False: it did not wait. It is not answered. */
bool meet_leave(struct meet *m, uint64_t guest);

/* End everybody's wait but that of `but` (0: nobody's): each is answered with this error. */
void meet_cancel_all(struct meet *m, uint64_t but, enum ps_err code, const char *text);

/* The next answer, whose guest is gone with it; false: there is none for now. */
bool meet_next(struct meet *m, uint64_t now_ms, struct meet_answer *out);

/* When meet_next() is wanted again, if nothing happens before; UINT64_MAX: never. */
uint64_t meet_next_time(const struct meet *m);

/* While the host is unsure, since it may yet give its guests up, no meeting begins without some of its workers. */
void meet_set_unsure(struct meet *m, bool unsure);

/* A meeting has waited long enough to begin without some, but for the host's being unsure. */
bool meet_is_settled(const struct meet *m, uint64_t now_ms);

/* How many wait at the open meeting of this name. */
uint32_t meet_present(const struct meet *m, const char *name);

/* ---- For reports ---- */

struct meet_wait {
    uint64_t guest;
    const char *name;
    uint32_t task, workers;
    uint64_t since_ms;
    uint32_t missing_len; /* of all workers; the first of them in missing */
    uint32_t missing[64];
};

/* Everybody who waits, in no order, until each() says false. */
void meet_each(const struct meet *m, bool (*each)(void *arg, const struct meet_wait *wait), void *arg);

#endif
