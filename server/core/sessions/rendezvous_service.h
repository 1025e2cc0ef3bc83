/* Rendezvous of groups (common/core/cluster/rendezvous_core.h): shard 0 holds those of its cluster, for workers that
 * reduce among themselves. They live in memory alone: a worker that waits asks again after a restart. */
#ifndef SERVER_CORE_SESSIONS_RENDEZVOUS_SERVICE_H
#define SERVER_CORE_SESSIONS_RENDEZVOUS_SERVICE_H

#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

struct shard;
struct connection;

/* The connection is answered MET or an ERROR in time. */
void rendezvous_service_join(struct shard *s, struct connection *c, uint64_t request, const Psd__Meet *m);

/* The connection cancels its request. False: it waits at no rendezvous by this request. */
bool rendezvous_service_cancel(struct shard *s, struct connection *c, uint64_t request);

/* The connection ends; no answer is sent. */
void rendezvous_service_forget(struct shard *s, struct connection *c);

/* The shard stops: all that wait get an ERROR. */
void rendezvous_service_end(struct shard *s);

/* Answer those that are due. */
void rendezvous_service_time(struct shard *s);

#endif
