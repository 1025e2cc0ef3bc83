/* The course of one meeting, as rendezvous.h draws it: whom this worker asks next, how long it waits there, and what
 * ends the search. Pure: the time comes in as an argument, and rendezvous.c does what is said here.
 *
 *     course_begin(&c, deadline_ms, now)
 *     while (course_look(&c, now) == COURSE_STEP)   // at course_due(), and whenever something has happened
 *         course_looks(): an address is looked up; course_asks(): somebody is asked; course_waits(): a guest there
 *         course_final(&c, code, now)               // what was asked has failed: no second try will change that
 *         course_again(&c, code, now)               // it is to be tried again: here, or with the next worker
 *     course_end(&c)
 */
#ifndef CLIENT_GROUP_COURSE_H
#define CLIENT_GROUP_COURSE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

enum course_state {
    COURSE_IDLE,    /* nothing is under way, or it is over */
    COURSE_LOOKING, /* for the address where this worker is to listen, which is a name */
    COURSE_ASKING,  /* shard 0, or a worker below */
    COURSE_WAITING, /* a guest there, until the deadline */
    COURSE_PAUSING  /* then on with `at` */
};

struct course {
    bool by_shard;                                      /* it is shard 0 that is asked */
    uint32_t task;                                      /* this worker; those below it are asked */
    uint32_t connect_ms, again_ms, answer_ms, taken_ms; /* RENDEZVOUS_* */
    uint32_t retry_ms, retry_ms_max;

    /* private but for reading */
    enum course_state state;
    uint32_t at;       /* the worker that is asked, or is asked next; `task`: all below were */
    uint32_t failures; /* of shard 0, in a row */
    bool settled;      /* when this round of asking began */
    uint64_t step_ms, deadline_ms;
    uint64_t taken_until_ms; /* TASK_TAKEN may pass until then; 0: it was not met */
};

/* The first six members are set. */
void course_begin(struct course *c, uint64_t deadline_ms, uint64_t now_ms);
void course_end(struct course *c);

void course_pause(struct course *c, uint64_t ms, uint64_t now_ms);
void course_looks(struct course *c, bool must_wait, uint64_t now_ms); /* must_wait: nothing else will do */
void course_asks(struct course *c, uint64_t now_ms);
void course_waits(struct course *c);
uint32_t course_patience_ms(const struct course *c); /* with who is asked */

/* What is due. */
enum course_due { COURSE_NOTHING, COURSE_STEP, COURSE_DEADLINE };
enum course_due course_look(const struct course *c, uint64_t now_ms);
uint64_t course_due(const struct course *c); /* when that changes */

/* For this worker's question: the host is to say who has not come before its own deadline ends the wait. */
uint32_t course_left_ms(const struct course *c, uint64_t now_ms);

/* An index, or a port, is taken. Whether that is so for good: a process that died a moment ago may hold it still. */
bool course_taken(struct course *c, uint64_t now_ms);

bool course_final(struct course *c, enum ps_err code, uint64_t now_ms);

/* True: on with the next worker, at once. Else it pauses. */
bool course_again(struct course *c, enum ps_err code, uint64_t now_ms);

/* Whether there is a worker below to be asked, which is `at`; else all were. settled: the own meeting waits for nothing
 * but them. */
bool course_seeks(struct course *c, bool settled);
void course_next_round(struct course *c, uint64_t now_ms); /* all were asked */

#endif
