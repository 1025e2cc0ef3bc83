/* Restores in the daemon: opens the files that the shard asks for, and the one that psd was started with.
 *
 *     SHARD_RESTORE_WANTED ─ restore_requests_action() ─► waits
 *         waits ─ restore_requests_turn_ended() ─► opened ─► SHARD_RESTORE
 *                                                   │  ▲   bytes that were not yet compared with their checksums:
 *                                                   └──┘   a thread does it, one checkpoint at a time
 *
 * The loop continues to serve meanwhile. Verified files are recognised by their stamps (checkpoint_dir.h), so that of
 * the two requests of a client, to check and to restore, at most the first takes that time. */
#ifndef SERVER_DAEMON_RESTORE_REQUESTS_H
#define SERVER_DAEMON_RESTORE_REQUESTS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "common/system/checkpoint_dir.h"

struct daemon;
struct restore_request;
struct shard_action;

#define RESTORE_REQUESTS_MAX 16 /* requests that wait; one more is refused with LIMIT */

struct restore_requests {
    struct restore_request *wanted;    /* in order, */
    int waiting;                       /* so many */
    struct restore_request *verifying; /* on the thread; no longer in `wanted` */
    struct restore_request *refused;   /* LIMIT is still to be sent */
    struct checkpoint_stamps verified; /* of the files that were verified last */
};

/* Before any connection is accepted: finish the restore that an earlier process began, or begin that of --restore. The
 * files are compared with their checksums. On failure one sentence. */
enum ps_err restore_requests_start(struct daemon *d, struct ps_error *e) PS_MUST_USE;

/* In the daemon's turn: an action of this kind, whose texts it takes; and after the last action. */
void restore_requests_action(struct daemon *d, struct shard_action *a);
void restore_requests_turn_ended(struct daemon *d);

/* A connection has closed: its requests need no answer, and no more files are read for them. */
void restore_requests_gone(struct daemon *d, uint64_t conn);

/* The daemon closes: the same for all connections. */
void restore_requests_stop(struct daemon *d);

#endif
