/* The functions that hear of events of turns and connections (turn/upcalls.h). */
#ifndef SERVER_LISTENERS_H
#define SERVER_LISTENERS_H

#include "server/core/turn/upcalls.h"

extern const struct upcalls listeners;

#endif
