/* psd --replay DIR: what a durable directory's redo log holds, and the state after any of its records, to find the push
 * that broke a model. The directory is not changed; no psd may have it open.
 *
 *     psd --replay DIR                                 a line for each record with updates
 *     psd --replay DIR --until N --live-dir SCRATCH    a shard that serves what record N left; it saves nothing */
#ifndef SERVER_RECOVERY_REPLAY_TOOL_H
#define SERVER_RECOVERY_REPLAY_TOOL_H

#include <stdio.h>

#include "server/recovery/open_stores.h"

/* Instead of open_stores_begin(): --until's state in a live directory that is new. */
enum ps_err replay_tool_open(struct open_stores *s, struct ps_error *e) PS_MUST_USE;

/* The list: for each record its number, the workers and sequences of its pushes, the clock, the L2 norm of its
 * gradients (times their scale: of a step in sync, the mean's), how many of them are NaN or Inf, the L2 norm of the
 * blocks that it changed, as it left them, and their variables. */
enum ps_err replay_tool_list(const char *path, FILE *out, struct ps_error *e) PS_MUST_USE;

#endif
