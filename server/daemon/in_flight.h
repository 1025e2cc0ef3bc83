/* The cap on messages in memory: how many bytes each connection, each role and identity, and all together hold, and
 * which connections wait for memory. Pure.
 *
 * Counted are frames that are being read (from the moment their header says how long they are) and answers that wait to
 * be sent. A frame that does not fit is not read until others have gone: its connection is paused and waits its turn,
 * so memory does not grow and no connection is refused. One frame is admitted even past the cap when no other is being
 * read, so that answers that no peer fetches cannot stop everything.
 *
 * An identity that holds next to nothing gets on even when the cap is reached, up to IN_FLIGHT_BEYOND past it: so
 * others cannot take all for themselves, however many they are.
 *
 * A share is a part of the cap that several connections have together: those of a role, or of an identity. A connection
 * whose share is used up waits for that share, and no other connection waits for it.
 *
 * Answers with values are made only when there is room for them (in_flight_answer()). They wait in one queue with the
 * frames, so that neither keeps the other waiting for ever. One is made even past the cap when no other is being sent.
 * So the whole exceeds the cap by no more than twice IN_FLIGHT_BEYOND, and by small answers, for which in_flight_over()
 * says when a connection has to be closed.
 *
 *     if (!in_flight_admit(&all, &mine, len)) pause reading;     // at the frame's header
 *     in_flight_leave(&all, &mine, len)                          // the frame was dealt with
 *     while ((next = in_flight_next(&all, &kind)) != NULL) resume(next) // memory may be free again */
#ifndef SERVER_DAEMON_IN_FLIGHT_H
#define SERVER_DAEMON_IN_FLIGHT_H

#include "common/core/base/base.h"

/* What connections of one role, or of one identity, hold together. */
struct in_flight_share {
    uint64_t bytes, outgoing; /* all; of these, answers */
    unsigned eighths;         /* of the cap, that it may be; 0: all of it */
};

enum in_flight_share_kind { IN_FLIGHT_ROLE, IN_FLIGHT_IDENTITY, IN_FLIGHT_SHARES };

/* What may wait for memory: a frame that arrives, an answer with values. Of a connection one of each. */
enum in_flight_kind { IN_FLIGHT_FRAME, IN_FLIGHT_ANSWER, IN_FLIGHT_KINDS };

struct in_flight_part;

/* A place in the queue; zeroed while nothing waits. */
struct in_flight_wait {
    struct in_flight_part *part;
    enum in_flight_kind kind;
    uint64_t wanted; /* bytes */
    struct in_flight_wait *next;
};

/* One connection's part; zeroed at first. */
struct in_flight_part {
    uint64_t incoming, outgoing; /* bytes */
    struct in_flight_wait waits[IN_FLIGHT_KINDS];
    bool answer_is_next;                              /* its answer has left the queue, and is to be asked for again */
    struct in_flight_share *shares[IN_FLIGHT_SHARES]; /* borrowed; NULL: none. in_flight_assign() sets them */
};

struct in_flight {
    uint64_t max, part_max;
    uint64_t incoming, outgoing;
    uint64_t values;            /* of outgoing: answers with values that were made */
    uint64_t other;             /* set by the owner: what else is in memory of messages, and counts against the cap */
    uint64_t waits, part_waits; /* how often something waited: for the total cap, or its connection's or share's */
    struct in_flight_wait *first, **end;
};

/* Beyond the cap: two of the largest frames. Those that are read or made although there is no room, and those of
 * identities that hold nothing, take as much each. */
#define IN_FLIGHT_BEYOND (8 * MIB)

/* A connection holds no more answers than this, while the whole or one of its shares is past its cap, and is read. */
#define IN_FLIGHT_STUFFED (64 * KIB)

void in_flight_init(struct in_flight *f, uint64_t max, uint64_t part_max);

/* This share counts what the part holds from now on, in place of the former one of its kind. NULL: none does. */
void in_flight_assign(struct in_flight_part *p, enum in_flight_share_kind kind, struct in_flight_share *share);

/* A frame of len bytes arrives. False: it must wait, and is queued; in_flight_next() will return it. */
bool in_flight_admit(struct in_flight *f, struct in_flight_part *p, uint64_t len);

/* A frame that was admitted has been handled. */
void in_flight_leave(struct in_flight *f, struct in_flight_part *p, uint64_t len);

/* An answer with values is first in line: whether it may be made now; it takes most bytes at the most. False: it waits,
 * and is queued; in_flight_next() will return it. */
bool in_flight_answer(struct in_flight *f, struct in_flight_part *p, uint64_t most);

/* The next one that waited and need not any more, or NULL: a frame, which is admitted, or an answer, for which
 * in_flight_answer() is then asked again. */
struct in_flight_part *in_flight_next(struct in_flight *f, enum in_flight_kind *kind);

/* Answers queued and sent. */
void in_flight_queue(struct in_flight *f, struct in_flight_part *p, uint64_t len);
void in_flight_sent(struct in_flight *f, struct in_flight_part *p, uint64_t len);

/* An answer with values was made, and takes so many bytes more; and was sent. */
void in_flight_values(struct in_flight *f, struct in_flight_part *p, uint64_t len);
void in_flight_values_sent(struct in_flight *f, struct in_flight_part *p, uint64_t len);

/* A frame, or an answer, of this connection waits. */
static inline bool
in_flight_waits(const struct in_flight_part *p, enum in_flight_kind kind)
{
    return p->waits[kind].part != NULL;
}

/* Another connection waits for memory of which this one holds some: not for what that one holds itself, nor for a share
 * that is not this one's. */
bool in_flight_is_awaited_from(const struct in_flight *f, const struct in_flight_part *p);

/* More is in memory than the cap and what may be beyond it, without so many bytes that are about to be freed. */
bool in_flight_over(const struct in_flight *f, uint64_t leaving);

/* True while this connection should not be read because of answers that it does not fetch: it holds more than its own
 * cap, or the whole or one of its shares is past its cap and this one holds more than IN_FLIGHT_STUFFED. */
bool in_flight_stuffed(const struct in_flight *f, const struct in_flight_part *p);

/* The connection is gone: what it was reading no longer counts (its answers end one by one with in_flight_sent()). */
void in_flight_forget(struct in_flight *f, struct in_flight_part *p);

uint64_t in_flight_bytes(const struct in_flight *f);

#endif
