/* Hellos of workers: who may hold a worker index.
 *
 *     a new incarnation, when
 *         nobody holds it, or who did has no connection, lapsed or finished ──► installed: from nothing, at the slowest
 *         a live process holds it ────────────────────────────────────────────► TASK_TAKEN
 *
 *     who comes after a goodbye(finished) may begin a round: clock.h
 *
 *     resume, or the same incarnation once more, when
 *         it is there and live ────────────────────────► attached: its sequences go on
 *         no session is there ─────────────────────────► NOT_FOUND
 *         another incarnation is, or it said goodbye ──► FENCED
 *         it was evicted ──────────────────────────────► FENCED
 *         it lapsed ───────────────────────────────────► LEASE_LAPSED
 */
#ifndef SERVER_HELLO_H
#define SERVER_HELLO_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

struct shard;
struct job;
struct connection;
struct session;

/* A hello of a worker, once cluster and job are known to be right. Attaches the connection or says why not. */
enum ps_err hello_worker(struct shard *s, struct job *job, struct connection *c, const Psd__Hello *hello,
                         struct session **out, struct ps_error *e) PS_MUST_USE;

#endif
