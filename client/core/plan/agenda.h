/* A plan made ready to be carried out: who waits for which step, and for each peer which steps send to it and receive
 * from it, in order. Pure; immutable once made, so that any number of works can go by one. A group keeps those that it
 * made: a training loop starts the same operations again and again, and finds the schedule of each there.
 *
 *     agenda_get(&cache, &key, &a, &e);      // made, or found; one reference
 *     ...
 *     agenda_put(&cache, a);                 // the reference is given back; the agenda stays for the next time
 */
#ifndef CLIENT_COLLECTIVE_AGENDA_H
#define CLIENT_COLLECTIVE_AGENDA_H

#include "client/core/plan/plan.h"
#include "common/core/base/base.h"
#include "common/core/wire/frame.h"

#define AGENDA_KEPT_MAX     64          /* that nobody uses; the one that was used longest ago goes */
#define AGENDA_STEPS_KEPT   (256 * KIB) /* of all that are kept */
#define AGENDA_PAIR_SEGMENT (512 * KIB) /* bytes of a message between two ranks */
#define AGENDA_NOBODY       UINT16_MAX

/* What makes two operations go by the same agenda in one group. */
struct agenda_key {
    uint64_t count;
    uint64_t segment_bytes; /* 0: chosen; AGENDA_MERGE: of a piece */
    uint32_t root;          /* of a pair: the other rank */
    uint8_t op;             /* enum plan_op, or one of those below */
    uint8_t size;           /* bytes of an element */
    uint8_t algorithm;
    uint8_t flags;
};
#define AGENDA_MERGE    13 /* plan_merge() */
#define AGENDA_SEND     14
#define AGENDA_RECEIVE  15
#define AGENDA_IN_PLACE 1 /* flags */
#define AGENDA_MEAN     2

/* What holds for the whole group. */
struct agenda_group {
    uint32_t ranks, rank;
    const uint32_t *host; /* [ranks], borrowed */
    bool shared_memory;
};

struct agenda_peer {
    uint32_t rank;
    uint32_t sends, receives;
    const uint32_t *send, *receive; /* indices of steps, in order */
    uint32_t ready;                 /* the first of the receives that need nothing */
};

struct agenda {
    struct agenda_key key;
    struct plan plan;
    uint32_t peers_len;
    struct agenda_peer *peers;
    uint16_t *peer_of;   /* [ranks]: index in peers, or AGENDA_NOBODY */
    uint16_t *step_peer; /* [steps]: the same for each step */
    uint8_t *needs;      /* [steps]: how many steps each waits for */
    uint32_t *next_at;   /* [steps + 1]: step i is needed by next[next_at[i]] ... */
    uint32_t *next;      /* ... to next[next_at[i + 1] - 1] */
    uint32_t *local;     /* local steps that need nothing */
    uint32_t local_len;
    void *memory; /* all of the above */

    /* the cache's */
    uint32_t refs;
    struct agenda *newer, *older;
    void *spare; /* a work's memory that fits, for the next one; of group_works.c; free() frees it */
    void *spare_scratch;
};

struct agenda_cache {
    struct agenda_group group;
    struct agenda *newest, *oldest;
    uint32_t len;
    uint64_t steps;
    uint64_t spare_bytes; /* of all spare_scratch */
};

void agenda_cache_init(struct agenda_cache *c, const struct agenda_group *group);
void agenda_cache_finish(struct agenda_cache *c); /* nobody has a reference */

/* Errors: PS_ERR_NOMEM, PS_ERR_LIMIT (too many messages, or one that is too large for a frame). */
enum ps_err agenda_get(struct agenda_cache *c, const struct agenda_key *key, struct agenda **out,
                       struct ps_error *e) PS_MUST_USE;
void agenda_put(struct agenda_cache *c, struct agenda *a);

#endif
