/* Whether bytes that psd awaits from a connection come: the rest of a frame, or room for an answer that is to be
 * fetched. Pure. What is slow is judged by its progress, so that a large frame over a slow network has the time that it
 * takes, and one that trickles has not.
 *
 *     switch (peer_pace_look(&pace, &now, timeout_ms))     // every second or so
 *
 * A frame (or answer) is late when timeout_ms have passed since it was first seen, and a second more for each
 * PEER_PACE_RATE bytes that have moved since. A connection stalls when less than PEER_PACE_STALL_BYTES have moved in
 * PEER_PACE_STALL_MS. */
#ifndef SERVER_DAEMON_PEER_PACE_H
#define SERVER_DAEMON_PEER_PACE_H

#include "common/core/base/base.h"

#define PEER_PACE_RATE        (64 * KIB) /* bytes per second */
#define PEER_PACE_STALL_MS    10000
#define PEER_PACE_STALL_BYTES (64 * KIB)

/* Zeroed at first. */
struct peer_pace {
    bool awaited;
    uint64_t item, bytes; /* at the last look */
    uint64_t due_ms;
    uint64_t mark_bytes, mark_ms; /* PEER_PACE_STALL_BYTES were last reached */
};

/* What is so at this look. */
struct peer_pace_now {
    bool awaited;   /* it is the other end's turn to move bytes */
    uint64_t item;  /* which frame or answer: another number for each */
    uint64_t bytes; /* moved since the connection began */
    uint64_t ms;    /* time in which psd was there to see them move */
};

enum peer_pace_verdict { PEER_PACE_FAIR, PEER_PACE_LATE, PEER_PACE_STALLED };

enum peer_pace_verdict peer_pace_look(struct peer_pace *p, const struct peer_pace_now *now, uint64_t timeout_ms);

#endif
