/* Replica threads do one piece of work together, again and again. The caller's thread is the first of them, so one
 * replica has no threads at all.
 *
 *     replica_threads_new(3, &threads, &error);
 *     replica_threads_run(threads, work, arg); // work(arg, 0) here, work(arg, 1) and work(arg, 2) on two other threads
 *     replica_threads_free(threads);
 *
 * What a member wrote before replica_threads_barrier() or the end of its work is seen by all of them after it, and by
 * the caller after replica_threads_run(). One caller at a time. */
#ifndef CLIENT_STRATEGY_REPLICA_THREADS_H
#define CLIENT_STRATEGY_REPLICA_THREADS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct replica_threads;

/* members: at least 1. NOMEM: no memory, or no more threads. */
enum ps_err replica_threads_new(uint32_t members, struct replica_threads **out, struct ps_error *e) PS_MUST_USE;
void replica_threads_free(struct replica_threads *crew); /* accepts NULL; not while it works */

/* Returns when every member has returned. */
void replica_threads_run(struct replica_threads *crew, void (*work)(void *arg, uint32_t member), void *arg);

/* Within work: wait until every member has called this. All of them must, equally often. */
void replica_threads_barrier(struct replica_threads *crew);

#endif
