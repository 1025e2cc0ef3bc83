/* Meetings of groups (common/core/cluster/meet.h): shard 0 holds those of its cluster, for workers that reduce among
 * themselves. They live in memory alone: who waits asks again after a restart. */
#ifndef SERVER_MEETINGS_H
#define SERVER_MEETINGS_H

#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

struct shard;
struct connection;

/* Who asks is told MET or an ERROR in time. */
void meetings_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Meet *m);

/* It takes its question back. False: it waits at no meeting by this request. */
bool meetings_cancel(struct shard *s, struct connection *c, uint64_t request);

/* The connection ends; nothing is said. */
void meetings_forget(struct shard *s, struct connection *c);

/* The shard stops: all are told so. */
void meetings_end(struct shard *s);

/* Tell what is due. */
void meetings_time(struct shard *s);

#endif
