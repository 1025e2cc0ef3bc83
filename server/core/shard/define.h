/* DEFINE: a worker says what it trains, and must agree with the other workers of its job.
 *
 * Fields that no worker has given are taken over. One that another worker gave another value is MISMATCH, while a
 * worker that has agreed to it is live, or finished the round that this one is in: what both add up would be neither's
 * model. Where there is none, this worker's definition replaces the job's: a program that was changed may begin. If
 * workers of this round had the old one, and have gone before its end, a new round begins with that, because their
 * places in the data were cut by it.
 *
 * A worker that defines nothing, such as one of an older version, is not compared. */
#ifndef SERVER_CORE_SHARD_DEFINE_H
#define SERVER_CORE_SHARD_DEFINE_H

#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

struct shard;
struct connection;

/* From a worker, which is answered. */
void define_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Define *m);

#endif
