/* Hellos: which connection may stay, and which worker may hold a worker index.
 *
 *     a new incarnation, when
 *         it is free, or its holder has no connection, lapsed or finished ────► installed: from nothing, at the slowest
 *         a live process holds it ────────────────────────────────────────────► TASK_TAKEN
 *
 *     a worker that comes after a goodbye(finished) may begin a round: clock.h
 *
 *     resume, or the same incarnation once more, when
 *         it is there and live ────────────────────────► attached: its sequences go on
 *         no session is there ─────────────────────────► NOT_FOUND; DROPPED, when one was in this life of the data
 *         another incarnation is, or it said goodbye ──► FENCED
 *         it was evicted ──────────────────────────────► FENCED
 *         it lapsed ───────────────────────────────────► LEASE_LAPSED
 *
 *     a session belongs to the token that it was installed with, if there was one, as long as it is live: who proves
 *     another, or none
 *         resumes it ──────────────────────────────────► DENIED
 *         is a new incarnation ────────────────────────► TASK_TAKEN, until it lapses
 */
#ifndef SERVER_CORE_SHARD_HELLO_H
#define SERVER_CORE_SHARD_HELLO_H

#include "common/core/auth/keyring.h"
#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

struct shard;
struct connection;

/* A hello on a new connection, which is welcomed or refused. role: what its token has. token: the token's name; NULL or
 * "": none. SHARD_TURN_FULL: what makes room for it does not fit in this turn. */
enum shard_result hello_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Hello *m,
                             enum role role, const char *token);

#endif
