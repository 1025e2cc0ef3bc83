/* The state of one rendezvous, as rendezvous.h draws it: which process this worker asks next, how long it waits there,
 * and what ends the search. Pure: the time comes in as an argument, and rendezvous.c does what is decided here.
 *
 *     rendezvous_state_begin(&c, deadline_ms, now)
 *     // at rendezvous_state_due_ms(), and whenever something has happened:
 *     while (rendezvous_state_due(&c, now) == RENDEZVOUS_DUE_STEP)
 *         rendezvous_state_resolving()                // an address is looked up
 *         rendezvous_state_asking()                   // a shard or worker is asked
 *         rendezvous_state_waiting()                  // waiting there for the answer
 *         rendezvous_state_is_final(&c, code, now)    // it has failed: no second try will change that
 *         rendezvous_state_retry(&c, code, now)       // it is to be tried again: here, or with the next worker
 *     rendezvous_state_end(&c)
 */
#ifndef CLIENT_CORE_GROUP_RENDEZVOUS_STATE_H
#define CLIENT_CORE_GROUP_RENDEZVOUS_STATE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

enum rendezvous_phase {
    RENDEZVOUS_IDLE,      /* nothing is under way, or it is over */
    RENDEZVOUS_RESOLVING, /* for the address where this worker is to listen, which is a name */
    RENDEZVOUS_ASKING,    /* shard 0, or a worker below */
    RENDEZVOUS_WAITING,   /* for the answer there, until the deadline */
    RENDEZVOUS_PAUSING    /* then on with `at` */
};

struct rendezvous_state {
    bool by_shard;                                      /* it is shard 0 that is asked */
    uint32_t task;                                      /* this worker; those below it are asked */
    uint32_t connect_ms, again_ms, answer_ms, taken_ms; /* RENDEZVOUS_* */
    uint32_t retry_ms, retry_ms_max;

    /* private but for reading */
    enum rendezvous_phase state;
    uint32_t at;       /* the worker that is asked, or is asked next; `task`: all below were */
    uint32_t failures; /* of shard 0, in a row */
    bool settled;      /* when this round of asking began */
    uint64_t step_ms, deadline_ms;
    uint64_t taken_until_ms; /* TASK_TAKEN may pass until then; 0: it was not met */
};

/* The first six members are set. */
void rendezvous_state_begin(struct rendezvous_state *c, uint64_t deadline_ms, uint64_t now_ms);
void rendezvous_state_end(struct rendezvous_state *c);

void rendezvous_state_pause(struct rendezvous_state *c, uint64_t ms, uint64_t now_ms);
void rendezvous_state_resolving(struct rendezvous_state *c, bool must_wait,
                                uint64_t now_ms); /* must_wait: nothing else will do */
void rendezvous_state_asking(struct rendezvous_state *c, uint64_t now_ms);
void rendezvous_state_waiting(struct rendezvous_state *c);
uint32_t rendezvous_state_answer_ms(const struct rendezvous_state *c); /* of the process that is asked */

/* What is due. */
enum rendezvous_due { RENDEZVOUS_DUE_NOTHING, RENDEZVOUS_DUE_STEP, RENDEZVOUS_DUE_DEADLINE };
enum rendezvous_due rendezvous_state_due(const struct rendezvous_state *c, uint64_t now_ms);
uint64_t rendezvous_state_due_ms(const struct rendezvous_state *c); /* when that changes */

/* For this worker's question: the coordinator is to report which workers have not come before its own deadline ends the
 * wait. */
uint32_t rendezvous_state_left_ms(const struct rendezvous_state *c, uint64_t now_ms);

/* An index, or a port, is taken. Whether that is so for good: a process that died a moment ago may hold it still. */
bool rendezvous_state_taken(struct rendezvous_state *c, uint64_t now_ms);

bool rendezvous_state_is_final(struct rendezvous_state *c, enum ps_err code, uint64_t now_ms);

/* True: on with the next worker, at once. Else it pauses. */
bool rendezvous_state_retry(struct rendezvous_state *c, enum ps_err code, uint64_t now_ms);

/* Whether there is a worker below to be asked, which is `at`; else all were. settled: this worker's own rendezvous
 * waits for nothing but them. */
bool rendezvous_state_has_next(struct rendezvous_state *c, bool settled);
void rendezvous_state_next_round(struct rendezvous_state *c, uint64_t now_ms); /* all were asked */

#endif
