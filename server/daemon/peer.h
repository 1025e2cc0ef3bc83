/* One connection of the daemon: frames in become the shard's events, its actions become frames out. */
#ifndef SERVER_DAEMON_PEER_H
#define SERVER_DAEMON_PEER_H

#include "common/core/base/hash.h"
#include "common/core/wire/shm_offer.h"
#include "server/access/access_attempts.h"
#include "server/daemon/daemon.h"
#include "server/daemon/peer_pace.h"

struct peer {
    struct conn conn;
    struct daemon *daemon;
    uint64_t id;
    bool opened;    /* the shard knows it */
    bool unproven;  /* in the access policy's list */
    enum role role; /* what it may do */
    char token[KEYRING_NAME_MAX + 1];
    struct peer *unproven_prev, *unproven_next;
    bool proves; /* a proof has come, and is not looked at */
    struct access_attempts_at attempt;
    bool spoke;           /* it has sent a message */
    bool reported_closed; /* the shard knows that it is closed */
    bool flushing;        /* in the list of connections to flush */
    bool paused_for_room; /* its next payload waits for memory */
    bool paused_stuffed;  /* it does not fetch its answers */
    bool paused_for_turn; /* it had its share of this turn */
    bool had_share;       /* in `turn` */
    bool expelled;        /* it is being closed, because others waited for it */
    uint64_t turn;        /* in which it last sent a small message */
    uint32_t small;       /* messages in that turn */
    struct peer *turn_next;
    uint64_t admitted;    /* memory of the frame that is being read */
    uint64_t admitted_at; /* where on the stream it begins */
    uint64_t sent;        /* answers */
    struct peer_pace reads, fetches;
    uint64_t leaving; /* of daemon.leaving_bytes */
    struct in_flight_part part;
    bool reserved; /* its place is one of those that are kept for who administers the shard */
    bool lingers;  /* it is closed, and may read what was sent last */
    struct peer *linger_prev, *linger_next;
    struct client_identity *identity; /* NULL: not known yet, or there was no memory for it */
    struct peer *flush_next;
    bool values;     /* are among what is to be flushed */
    uint64_t waited; /* bytes that were updated since those values wait */
    bool shaking;    /* in the TLS handshake: */
    struct peer *shake_prev, *shake_next;
    bool answered; /* an offer of shared memory: */
    struct shm_ring memory;
    uint64_t ring_bytes; /* of it, while it is shared */
    struct conn_out answer;
    uint8_t answer_frame[SHM_OFFER_FRAME_MAX];
    UT_hash_handle hh;
};

/* Accept a connection that waits on this listening stream: peer_accept.c. False: there was no memory for it; until it
 * is accepted libuv takes no other. */
bool peer_accept(struct daemon *d, uv_stream_t *listening, bool is_unix);

/* The TLS handshake has ended: the connection stays, if limits allow; when it failed, it is closed. */
void peer_secured(struct conn *c);
void peer_not_secured(struct peer *p, const struct ps_error *why);

struct peer *peer_find(struct daemon *d, uint64_t id);

/* The shard's actions. */
void peer_close(struct peer *p); /* after what is queued */

/* Of those that are closed and may still read what was sent, close all but so many at once, the oldest first. */
void peers_end_lingering(struct daemon *d, uint32_t most);

/* ---- Answers: peer_answer.c ---- */

/* The shard's actions. bytes and data are taken. */
void peer_send(struct peer *p, uint8_t *bytes, size_t len);
void peer_send_data(struct peer *p, struct shard_data *data);

/* Connections that used the token of this name, which was removed: each is sent an error and closed. */
void peers_without_token(struct daemon *d, const char *name);

/* Write what the turn queued. Rule: answers with values to the speaker, over TCP, are gathered up to PEER_BATCH_BYTES;
 * all else is written at once. They are written sooner when a turn of another connection ends, or the loop's iteration.
 *
 * speaker: the connection whose message ended the turn, which may send more at once; 0: none. updated: bytes of weights
 * and slots that the turn wrote.
 *
 * Measured: over TCP one system call with 1 MiB costs less than four with 256 KiB. A Unix socket takes a fifth of that
 * in a call, and lost up to a third by beginning later. */
#define PEER_BATCH_BYTES (1 * MIB)
void peers_flush(struct daemon *d, uint64_t speaker, uint64_t updated);

/* ---- Many connections ---- */

/* One connection's share of a loop's turn. Rule: of its messages of up to PEER_SMALL_BYTES a turn handles
 * PEER_SMALL_SHARED, or PEER_SMALL_ALONE when no other connection has sent one for PEER_SHARED_TURNS turns. The rest is
 * kept back until the next turn (conn.h), and the connection is read in pieces of PEER_SMALL_ALONE of the smallest
 * frames until it sends less than its share.
 *
 * Why few: a worker that waits for each answer has one message in a turn, and that costs what tens of the smallest do.
 * With a small share a connection that floods gets no more of the processor than that worker.
 *
 * Why many, alone: a turn costs 7 us with the calls for one connection, and within one turn a block's second push works
 * in place, which halves its cost. Not more: a worker with 1,024 messages under way should make the next ones while
 * these are applied. */
#define PEER_SMALL_BYTES  1024
#define PEER_SMALL_ALONE  256
#define PEER_SMALL_SHARED 8
#define PEER_SHARED_TURNS 64

/* The turn is over: those that had their share are read again. */
void peers_next_turn(struct daemon *d);

/* A frame of which no more is in memory than this is not counted: what a connection holds in any case. */
#define PEER_FRAME_FREE (4 * KIB)

/* What else is in memory of messages: rings, requests that wait, bytes that were read and kept back. */
void peers_count_other(struct daemon *d);

/* Close those that hold most of answers and of requests that wait, of the identity that holds most of them, while more
 * is in memory than may be: these alone grow past the cap. Else see to it that less is read at once as memory fills up,
 * since what is kept back is memory. */
void peers_shed(struct daemon *d);

/* Stop reading from a connection that does not fetch its answers, or read it again; not within a frame, whose memory is
 * taken in any case. */
void peer_check_stuffed(struct peer *p);

/* Shared memory is taken up to this size of a ring, until half of --in-flight lies in rings, and while there is room.
 */
#define PEER_RING_MAX (1 * MIB)

/* Of --in-flight, that all connections together may hold whose role is read. */
#define PEER_READ_EIGHTHS 2

/* Admit frames that wait, as far as memory allows. */
void peers_admit(struct daemon *d);

/* Housekeeping: close connections that hold memory for which others wait, and are late or stall (peer_pace.h): a peer
 * that is very slow delays the others as much as one that has stopped. Only time counts in which psd itself read: of
 * what lies between two calls no more than PEER_WATCH_MS, since a process that was stopped reads nothing, and only
 * while it is the peer's turn. */
#define PEER_WATCH_MS 2000
void peers_check_stalls(struct daemon *d);

void peers_close_all(struct daemon *d);

/* ---- For the files of this module ---- */

extern const struct conn_events peer_events;

struct shard_event peer_event(const struct peer *p, enum shard_event_kind kind);

/* Continue reading, unless something else holds it back. */
void peer_resume(struct peer *p);

/* For conn_close(), conn_finish(): the connection is closed. */
void peer_closed(struct conn *c);

/* Authentication admitted it; denied it; the connection left the list of unproven ones: peer_accept.c. */
void peer_admitted(struct conn *c, enum role role, const char *token);
void peer_denied(struct peer *p, const struct ps_error *why);
void peer_proven(struct peer *p);

/* Its proof was looked at; or it is closed, and its proof was not wrong. */
void peer_looked_at(struct peer *p, bool wrong);

/* Its shares of the memory for messages, by its role and by whose it is: "token alice". */
void peer_identify(struct peer *p, const char *name);

#endif
