/* The administrator of a simulated cluster that ends workers' sessions, as `psctl evict` does: a process of its own,
 * which asks all shards, and sometimes one alone.
 *
 *     EVICTOR_WAITS ─── time ──► EVICTOR_HANGS ─── time ──► EVICTOR_ASKS ─── all answered ──► EVICTOR_KEEPS ─── end ──┐
 *          ▲    its worker does not run from here ...                                            ... to here         │
 *          └─────────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * The worker that it evicts may work as usual, or hang: then it is stopped for a while before and after, or until all
 * others are over, which must not wait for it; messages that it had sent arrive late, and it learns of the eviction
 * when it runs again. In some runs one worker's lease is longer than any wait, and only the evictor can help the others
 * when it hangs, or its next process when the last one's connection still seems open. */
#ifndef TESTS_SIM_EVICTOR_H
#define TESTS_SIM_EVICTOR_H

#include "tests/sim/faults.h"
#include "tests/sim/node_worker.h"
#include "tests/sim/sim.h"

enum evictor_state { EVICTOR_WAITS, EVICTOR_HANGS, EVICTOR_ASKS, EVICTOR_KEEPS };

struct evictor {
    struct node_worker node;
    struct node_worker *workers;
    uint64_t random; /* its own */
    enum evictor_state state;
    uint64_t next_us;     /* of its next look */
    uint64_t until_us;    /* it is in this state so long */
    uint32_t left;        /* evictions to come */
    uint32_t patient;     /* the worker with the long lease; UINT32_MAX: none */
    uint32_t task;        /* the worker that it is about to evict */
    uint64_t incarnation; /* that it had then */
    uint32_t losses;      /* that shards had had then */
    bool hangs, long_hang;
};

/* Whether a run of this seed has one. */
bool evictor_drawn(uint64_t seed, enum sim_faults level);

/* Set workers first, which are there; node: node_worker_init()'s, with this profile. */
void evictor_init(struct evictor *v, uint64_t seed);
extern const struct worker_program evictor_program;

#endif
