/* Restores in the daemon: opens the files that the shard asks for, and the one that psd was started with.
 *
 *     SHARD_RESTORE_WANTED ── restores_action() ──► waits ── restores_turn_ended() ──► files opened ──► SHARD_RESTORE
 *                                                                                       │     ▲
 *                      bytes that nobody has held against their checksums: a thread does └─────┘ one question at a time
 *
 * The loop serves on meanwhile. What was verified is known again by its stamps (checkpoint_dir.h), so that of the two
 * questions of a client, whether it can be done and to do it, at most the first takes its time. */
#ifndef SERVER_RESTORES_H
#define SERVER_RESTORES_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "common/system/checkpoint_dir.h"

struct daemon;
struct restore_wanted;
struct shard_action;

#define RESTORES_MAX 16 /* questions that wait; one more is told LIMIT */

struct restores {
    struct restore_wanted *wanted;     /* in order, */
    int waiting;                       /* so many */
    struct restore_wanted *verifying;  /* the thread is at it; it is not among them any more */
    struct restore_wanted *refused;    /* LIMIT is still to be said */
    struct checkpoint_stamps verified; /* of the newest that was */
};

/* Before anybody is let in: finish what an earlier process began, or begin what --restore says. The files are held
 * against their checksums. On failure one sentence. */
enum ps_err restores_start(struct daemon *d, struct ps_error *e) PS_MUST_USE;

/* In the daemon's turn: an action of this kind, whose texts it takes; and after the last action. */
void restores_action(struct daemon *d, struct shard_action *a);
void restores_turn_ended(struct daemon *d);

/* A connection is no more: nobody wants to know what it asked. Files are not read on for it. */
void restores_gone(struct daemon *d, uint64_t conn);

/* The daemon closes: so with all. */
void restores_stop(struct daemon *d);

#endif
