/* Draining: the shard stops. */
#ifndef SERVER_CORE_SHARD_DRAIN_H
#define SERVER_CORE_SHARD_DRAIN_H

struct shard;

/* Take nothing new, answer what waits, stop when all connections are gone. Again: nothing. */
void drain_begin(struct shard *s);

/* A connection has gone, or the last turn was undone: say that the shard has stopped, when it drains and has none. */
void drain_stop_if_idle(struct shard *s);

#endif
