/* Restores in the daemon: opens the files that the shard asks for, and the one that psd was started with.
 *
 *     SHARD_RESTORE_WANTED ─ restore_requests_action() ─► waits ─ restore_requests_turn_ended() ─► opened ─►
 * SHARD_RESTORE │     ▲ bytes that were not yet compared with their checksums: a thread does it └─────┘ one at a time
 *
 * The loop serves on meanwhile. What was verified is known again by its stamps (checkpoint_dir.h), so that of the two
 * questions of a client, whether it can be done and to do it, at most the first takes its time. */
#ifndef SERVER_RESTORE_REQUESTS_H
#define SERVER_RESTORE_REQUESTS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "common/system/checkpoint_dir.h"

struct daemon;
struct restore_request;
struct shard_action;

#define RESTORE_REQUESTS_MAX 16 /* questions that wait; one more is refused with LIMIT */

struct restore_requests {
    struct restore_request *wanted;    /* in order, */
    int waiting;                       /* so many */
    struct restore_request *verifying; /* the thread is at it; it is not among them any more */
    struct restore_request *refused;   /* LIMIT is still to be said */
    struct checkpoint_stamps verified; /* of the newest that was */
};

/* Before anybody is let in: finish what an earlier process began, or begin what --restore says. The files are held
 * against their checksums. On failure one sentence. */
enum ps_err restore_requests_start(struct daemon *d, struct ps_error *e) PS_MUST_USE;

/* In the daemon's turn: an action of this kind, whose texts it takes; and after the last action. */
void restore_requests_action(struct daemon *d, struct shard_action *a);
void restore_requests_turn_ended(struct daemon *d);

/* A connection is no more: nobody wants to know what it asked. Files are not read on for it. */
void restore_requests_gone(struct daemon *d, uint64_t conn);

/* The daemon closes: so with all. */
void restore_requests_stop(struct daemon *d);

#endif
