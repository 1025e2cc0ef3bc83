/* The simulated network: connections that are pairs of byte streams. Bytes of one direction arrive in order, cut
 * anywhere, each piece with a latency of its own; a direction holds at most a window of bytes on the way, so a sender's
 * buffers stay borrowed for a while, as with a real socket.
 *
 * What goes wrong, always by the seed: a dial is refused (the listener is down) or not answered at all (it is hidden);
 * a connection is cut (both ends learn of it, each in its own time, and bytes on the way may be lost); it falls silent
 * in one or both directions and nobody learns of it for minutes.
 *
 * An end:
 *
 *     net_dial() ──► END_DIALING ──opened()──► END_OPEN ──net_finish()──► END_FINISHING
 *                        │                        │ net_close(), or closed()   │ all sent, or closed
 *                        └── closed() ──► END_DEAD ◄───────────────────────────┘ ──► gone()
 *
 * gone() comes last, from the queue, never from within another call: all that belongs to the end may be freed then. */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "tests/sim/sim.h"

struct net_end;
struct sim_net_conn;
struct net_chunk;

/* The calls that the owner of an end receives. */
struct net_user {
    void (*opened)(struct net_end *e); /* only at the end that dialled */
    void (*bytes)(struct net_end *e, const uint8_t *data, size_t n);
    void (*closed)(struct net_end *e, enum ps_err why, const char *text); /* not by its owner; it is dead already */
    void (*gone)(struct net_end *e);
};

/* One outgoing frame, as in common/net/conn.h: head and parts stay valid until release() or done(). */
struct sim_net_out {
    enum ps_err (*prepare)(struct sim_net_out *o);           /* first in line; NULL: all is set */
    void (*release)(struct sim_net_out *o);                  /* parts are no longer needed; NULL: nothing to release */
    void (*done)(struct sim_net_out *o, enum ps_err result); /* once, last; may free */
    const uint8_t *head;
    size_t head_len;
    const struct span *parts;
    size_t parts_len;

    /* private */
    struct sim_net_out *next;
    size_t sent, total, payload;
    bool ready, released;
    uint64_t ready_us;
    uint8_t *copy; /* the rest, after release */
    size_t copy_from;
};

enum net_end_state { END_UNBORN, END_DIALING, END_OPEN, END_FINISHING, END_DEAD };

struct net_end {
    void *arg; /* the owner's */
    const struct net_user *user;

    /* private */
    struct sim_net_conn *conn;
    enum net_end_state state;
    struct sim_net_out *first, *last;
    struct net_chunk *chunk_first, *chunk_last; /* on the way to the other end */
    size_t in_flight;
    uint64_t last_us;      /* when the last piece arrives there */
    struct sim_timer pump; /* go on sending */
    struct sim_timer late; /* what this end learns later: opened, refused, cut */
    bool pumping;
    uint64_t held_us; /* nothing reaches it before */
    bool lost;        /* what it sends from now on never arrives */
    enum ps_err why;
    const char *text;
};

/* Where dials go. */
struct net_listener {
    bool up;                                                   /* false: refused */
    uint64_t hidden_us;                                        /* until then dials are not answered */
    void (*accept)(struct net_listener *l, struct net_end *e); /* set e->user and e->arg */
};

/* The network's properties; each connection draws its own from these. */
struct net_profile {
    uint64_t latency_min_us, latency_max_us;
    size_t chunk_max;  /* bytes */
    size_t window_max; /* bytes */
};

struct sim_net {
    struct sim *sim;
    struct net_profile profile;
    struct sim_net_conn *conns;
    size_t conns_len;
    uint64_t conns_made;
};

void net_init(struct sim_net *n, struct sim *s, const struct net_profile *p);
void net_finish(struct sim_net *n); /* every end dies and is gone, without closed() */

struct net_end *net_dial(struct sim_net *n, struct net_listener *to, const struct net_user *user, void *arg);

void net_send(struct net_end *e, struct sim_net_out *o);

/* Nothing of its frames is needed any more: those that have not begun to move are dropped, and the rest of one that has
 * is copied, so that the stream stays in step and another frame can follow. done() has come for all of them, with
 * PS_ERR_CANCELLED. zeros: the rest is made of zeros in its place, which the other end takes for the real data (a lie
 * that must be found). */
void net_drop(struct net_end *e, bool zeros);

/* Close now: what is queued ends with PS_ERR_CLOSED. Dead ends are left alone. */
void net_close(struct net_end *e);
/* Close when what is queued is sent. The owner receives no more calls but gone(). */
void net_finish_end(struct net_end *e);

/* The nth connection that is open at both ends, or NULL when there are not so many. */
struct sim_net_conn *net_open_conn(struct sim_net *n, size_t nth);
size_t net_open_conns(const struct sim_net *n);

/* Nothing reaches this end before until_us: its process is stopped. */
void net_hold(struct net_end *e, uint64_t until_us);

void net_cut(struct sim_net_conn *c);
/* Bytes from either (1: dialler, 2: listener, 3: both) vanish. */
void net_silence(struct sim_net_conn *c, unsigned directions);
uint64_t net_conn_number(const struct sim_net_conn *c);

#endif
