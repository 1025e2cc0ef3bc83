/* The functions that handle events of turns and connections (turn/upcalls.h). */
#ifndef SERVER_CORE_SHARD_UPCALL_HANDLERS_H
#define SERVER_CORE_SHARD_UPCALL_HANDLERS_H

#include "server/core/turn/upcalls.h"

extern const struct upcalls listeners;

#endif
