/* Observers that say nothing and wait for no answer, and which connection makes way for a new one.
 *
 *     CONN_NEW        stays until its hello, config.hello_ms at most
 *     CONN_OBSERVER   for config.observer_ms after its last frame or the last answer to it; one that waits for an
 *                     answer has as long as that takes
 *     CONN_WORKER     session.h has its lease
 *
 * When a shard has all the connections that it takes, one that has been silent for CONNECTION_SPARE_MS makes way: of
 * those without a hello the oldest, else the observer that has been silent for longest. For who administers the shard,
 * where places are kept for that, CONNECTION_SPARE_KEPT_MS are enough. */
#ifndef SERVER_CORE_TURN_CONNECTION_IDLE_H
#define SERVER_CORE_TURN_CONNECTION_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#define CONNECTION_SPARE_MS      1000
#define CONNECTION_SPARE_KEPT_MS 100

struct shard;
struct connection;

/* A frame has come from an observer; asks: it is answered. It became an observer with its hello, which asks nothing. */
void connection_idle_spoke(struct shard *s, struct connection *c, bool asks);

/* An answer goes to it. */
void connection_idle_answered(struct shard *s, struct connection *c);

/* It is closed, or gone. */
void connection_idle_leave(struct shard *s, struct connection *c);

/* The one that makes way, when silent_ms are enough. NULL: there is none. */
struct connection *connection_idle_spare(const struct shard *s, uint32_t silent_ms);

/* When the next one has been silent for too long. */
uint64_t connection_idle_next_time(const struct shard *s);

#endif
