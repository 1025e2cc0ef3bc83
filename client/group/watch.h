/* For code that waits for the other ranks outside of the group's operations. */
#ifndef CLIENT_GROUP_WATCH_H
#define CLIENT_GROUP_WATCH_H

#include "client/include/psclient/ps_group.h"

/* Let the network move without waiting: PS_OK, or why the group has failed, or CLOSED: which rank has left it. */
enum ps_err group_watch(ps_group *g, struct ps_error *e) PS_MUST_USE;

/* The time-out that an operation gets. */
int group_timeout_ms(const ps_group *g);

#endif
