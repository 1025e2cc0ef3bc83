/* Resynchronization: what a shard's welcome means for what this side remembers of it. Pure.
 *
 * After a lost connection the window of sequence numbers is what both sides agree on. WELCOME's last_seq says up to
 * where the shard has resolved:
 *
 *     acked_through        last_seq                    next
 *     ────┼───────────────────┼─────────────────────────┼──
 *         │ resolved there,   │ unknown there: sent     │
 *         │ not known here:   │ again; numbers that were│
 *         │ sent again to     │ acknowledged here out of│
 *         │ learn the outcome │ order go as SKIP        │
 *
 * A shard that came back with older data is not so far. */
#ifndef CLIENT_CORE_SHARDS_RESYNC_H
#define CLIENT_CORE_SHARDS_RESYNC_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

struct core;
struct shard_link;

/* Make the link agree with the session (an observer's: with the variables) that the shard has. PS_ERR_NOMEM: half done,
 * and to be begun again with the next welcome. */
enum ps_err resync_settle(struct core *c, struct shard_link *l, const Psd__Welcome *w) PS_MUST_USE;

/* When every shard has welcomed this incarnation, the worker is joined: its clock and round are the highest that any of
 * them gave it. all: every shard gets a tick, not only those that know less. */
enum ps_err resync_finish_join(struct core *c, bool all) PS_MUST_USE;

#endif
