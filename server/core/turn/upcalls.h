/* Upcalls: events of turns and connections of which modules above them must be notified at once (Clark, SOSP 1985).
 * Calls go down, from shard.c to the store; these three alone come up, each from one place, to one function of
 * upcall_handlers.c:
 *
 *     turn_begin()         ──store_full──────────► save_left: erases values that saves left behind
 *                                                  save: the one that runs is given up, if the room is needed
 *     turn_touch()         ──turn_full───────────► save: is given up
 *     connection_forget()  ──connection_forgotten► pulls, declares, assigns, requests for saves and drops,
 *                                                  answers that wait for the disk, rendezvous, session: in this order
 *
 * The table is constant and the same for all shards. */
#ifndef SERVER_CORE_TURN_UPCALLS_H
#define SERVER_CORE_TURN_UPCALLS_H

#include "common/core/base/base.h"

struct shard;
struct connection;

struct upcalls {
    /* The store has no room for a turn's transaction, and none is open. needed: a save may be given up for it. True:
     * there is more room now, try again. */
    bool (*store_full)(struct shard *s, bool needed);

    /* Within the turn's transaction there is no room for a block's new value beside the old one that a save keeps. The
     * old one may be written over when this returns. */
    void (*turn_full)(struct shard *s);

    /* A connection ends, or all that it waits for is of data that is gone: nothing waits there when this returns. */
    void (*connection_forgotten)(struct shard *s, struct connection *c);
};

#endif
