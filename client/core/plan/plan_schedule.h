/* A plan made ready to be carried out: which steps wait for which, and for each peer which steps send to it and receive
 * from it, in order. Pure; immutable once made, so that any number of works can go by one. A group keeps those that it
 * made: a training loop starts the same operations again and again, and finds the schedule of each there.
 *
 *     plan_schedule_get(&cache, &key, &a, &e); // made, or found; one reference
 *     ...
 *     plan_schedule_put(&cache, a);          // the reference is given back; the schedule stays for the next time
 */
#ifndef CLIENT_CORE_PLAN_PLAN_SCHEDULE_H
#define CLIENT_CORE_PLAN_PLAN_SCHEDULE_H

#include "client/core/plan/plan.h"
#include "common/core/base/base.h"
#include "common/core/wire/frame.h"

#define PLAN_CACHE_MAX       64          /* that nobody uses; the one that was used longest ago goes */
#define PLAN_CACHE_STEPS_MAX (256 * KIB) /* of all that are kept */
#define PLAN_PAIR_SEGMENT    (512 * KIB) /* bytes of a message between two ranks */
#define PLAN_NO_PEER         UINT16_MAX

/* What makes two operations go by the same schedule in one group. */
struct plan_key {
    uint64_t count;
    uint64_t segment_bytes; /* 0: chosen; PLAN_KEY_MERGE: of a piece */
    uint32_t root;          /* of a pair: the other rank */
    uint8_t op;             /* enum plan_op, or one of those below */
    uint8_t size;           /* bytes of an element */
    uint8_t algorithm;
    uint8_t flags;
};
#define PLAN_KEY_MERGE    13 /* plan_merge() */
#define PLAN_KEY_SEND     14
#define PLAN_KEY_RECEIVE  15
#define PLAN_KEY_IN_PLACE 1 /* flags */
#define PLAN_KEY_MEAN     2

/* What holds for the whole group. */
struct plan_group {
    uint32_t ranks, rank;
    const uint32_t *host; /* [ranks], borrowed */
    bool shared_memory;
};

struct plan_peer {
    uint32_t rank;
    uint32_t sends, receives;
    const uint32_t *send, *receive; /* indices of steps, in order */
    uint32_t ready;                 /* the first of the receives that need nothing */
};

struct plan_schedule {
    struct plan_key key;
    struct plan_plan plan;
    uint32_t peers_len;
    struct plan_peer *peers;
    uint16_t *peer_of;   /* [ranks]: index in peers, or PLAN_NO_PEER */
    uint16_t *step_peer; /* [steps]: the same for each step */
    uint8_t *needs;      /* [steps]: how many steps each waits for */
    uint32_t *next_at;   /* [steps + 1]: step i is needed by next[next_at[i]] ... */
    uint32_t *next;      /* ... to next[next_at[i + 1] - 1] */
    uint32_t *local;     /* local steps that need nothing */
    uint32_t local_len;
    void *memory; /* all of the above */

    /* the cache's */
    uint32_t refs;
    struct plan_schedule *newer, *older;
    void *spare; /* a work's memory that fits, for the next one; of group_work_table.c; free() frees it */
    void *spare_scratch;
};

struct plan_cache {
    struct plan_group group;
    struct plan_schedule *newest, *oldest;
    uint32_t len;
    uint64_t steps;
    uint64_t spare_bytes; /* of all spare_scratch */
};

void plan_cache_init(struct plan_cache *c, const struct plan_group *group);
void plan_cache_finish(struct plan_cache *c); /* nobody has a reference */

/* Errors: PS_ERR_NOMEM, PS_ERR_LIMIT (too many messages, or one that is too large for a frame). */
enum ps_err plan_schedule_get(struct plan_cache *c, const struct plan_key *key, struct plan_schedule **out,
                              struct ps_error *e) PS_MUST_USE;
void plan_schedule_put(struct plan_cache *c, struct plan_schedule *a);

#endif
