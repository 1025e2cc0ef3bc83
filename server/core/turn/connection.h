/* Connections as the shard sees them: an id, the peer, and the requests that wait for an answer. The machine is drawn
 * in shard.h; CONN_CLOSING is one that is to be closed and whose frames are no longer handled. */
#ifndef SERVER_CORE_TURN_CONNECTION_H
#define SERVER_CORE_TURN_CONNECTION_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/include/psclient/ps_err.h"

struct shard;
struct session;
struct pull;
struct declare_waiter;
struct shard_share;

enum connection_state { CONN_NEW, CONN_WORKER, CONN_OBSERVER, CONN_CLOSING, CONN_STATES };

struct connection {
    uint64_t id;
    enum connection_state state;
    struct session *session; /* CONN_WORKER */
    uint32_t job_id, task;   /* its worker's, to find the session again after a reload */
    uint64_t incarnation;
    uint64_t turn; /* the last one that it took part in */
    struct pull *parked;
    uint32_t parked_len;
    struct declare_waiter *declares; /* declares and attaches that wait for blocks, in order of arrival: */
    uint32_t declares_len;           /* so many */
    uint32_t assigns_len;            /* that have not begun */
    uint64_t parked_bytes;
    struct shard_share *share;      /* from its hello on; may be NULL */
    uint32_t durable_acks_len;      /* answers of durable pushes */
    uint32_t acks_first, acks_last; /* this turn's, as index + 1 into the shard's, or 0 */
    struct connection *acking_next;
    uint64_t acks_held_us;       /* the longest that one of them waited for other workers */
    uint64_t rendezvous_request; /* that is answered when its rendezvous is; 0: it waits in none */
    uint64_t opened_ms;
    uint64_t silent_ms; /* idle: since when */
    uint32_t awaited;   /* CONN_OBSERVER: answers that it waits for */
    bool idle;          /* CONN_OBSERVER: it waits for none, and is in the shard's list: connection_idle.h */
    struct connection *idle_prev, *idle_next;
    uint32_t codes;                                   /* the greatest code that its client knows */
    struct connection *greeting_prev, *greeting_next; /* CONN_NEW: by order of arrival */
    char *agent;                                      /* CONN_OBSERVER: the name that it gives; may be NULL */
    UT_hash_handle hh;
    char peer[];
};

/* reserved: it may take one of the places that shard_types.h keeps. */
void connection_open(struct shard *s, uint64_t id, const char *peer, bool reserved);
struct connection *connection_find(const struct shard *s, uint64_t id);

/* The peer's name, for people: "host pid", or "". */
const char *connection_agent(const struct connection *c);

/* It is gone: forget it. */
void connection_gone(struct shard *s, struct connection *c);

/* Send ERROR with request 0, then close. Answers a broken rule of the protocol: counts as a bad peer. */
void connection_break(struct shard *s, struct connection *c, enum ps_err code, const char *format, ...) PS_PRINTF(4, 5);

/* The same when the peer did nothing wrong: it comes too late, another has its place, the shard is not able to. */
void connection_refuse(struct shard *s, struct connection *c, enum ps_err code, const char *format, ...)
    PS_PRINTF(4, 5);

/* It said hello. */
void connection_greeted(struct shard *s, struct connection *c, enum connection_state state);

/* It is CONN_CLOSING from now on; calling it again is allowed. */
void connection_end(struct shard *s, struct connection *c);

/* Close those that did not say hello in time, or said nothing for too long; and when the next one is due. */
void connection_time(struct shard *s);
uint64_t connection_next_time(const struct shard *s);

/* Forget the requests that wait there and the session. */
void connection_forget(struct shard *s, struct connection *c);

/* Close after what was sent; requests that wait there are forgotten. */
void connection_close(struct shard *s, struct connection *c);

void connection_free_all(struct shard *s);

#endif
