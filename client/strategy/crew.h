/* A crew: threads that do one piece of work together, again and again. The caller's thread is its first member, so a
 * crew of one has no threads at all.
 *
 *     crew_new(3, &crew, &error);
 *     crew_run(crew, work, arg);      // work(arg, 0) here, work(arg, 1) and work(arg, 2) on two other threads
 *     crew_free(crew);
 *
 * What a member wrote before crew_meet() or the end of its work is seen by all of them after it, and by the caller
 * after crew_run(). One thread at a time per crew. */
#ifndef CLIENT_STRATEGY_CREW_H
#define CLIENT_STRATEGY_CREW_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct crew;

/* members: at least 1. NOMEM: no memory, or no more threads. */
enum ps_err crew_new(uint32_t members, struct crew **out, struct ps_error *e) PS_MUST_USE;
void crew_free(struct crew *crew); /* accepts NULL; not while it works */

/* Returns when every member has returned. */
void crew_run(struct crew *crew, void (*work)(void *arg, uint32_t member), void *arg);

/* Within work: wait until every member has come here. All of them do, as often. */
void crew_meet(struct crew *crew);

#endif
