/* Who listens to the events of turns and connections (turn/shard_events.h). */
#ifndef SERVER_LISTENERS_H
#define SERVER_LISTENERS_H

#include "server/core/turn/shard_events.h"

extern const struct shard_events listeners;

#endif
