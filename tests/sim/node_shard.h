/* A simulated psd: the shard core over a store in memory, driven as psd's glue drives it, and the ways in which its
 * process dies.
 *
 * A turn begins with the first event and ends a little later, so that it holds what arrives in between; it also ends
 * when it is full, and sometimes for no reason. kill -9 frees the core, at once, in the middle of a turn, between its
 * commit and its answers, or among them; the store keeps what was committed; a new core starts over it later. */
#ifndef TESTS_SIM_NODE_SHARD_H
#define TESTS_SIM_NODE_SHARD_H

#include "common/arena.h"
#include "ledger.h"
#include "model.h"
#include "net.h"
#include "server/shard.h"
#include "server/store_mem.h"
#include "sim.h"

struct shard_conn;

enum node_shard_state { SHARD_DOWN, SHARD_UP, SHARD_DRAINING };

/* When a kill takes effect. */
enum node_shard_kill { KILL_NOW, KILL_BEFORE_COMMIT, KILL_AFTER_COMMIT, KILL_AMONG_ANSWERS, KILL_KINDS };

struct node_shard_profile {
    uint32_t turn_events_max;
    uint64_t turn_us_max;
    uint32_t grace_ms;
    uint64_t store_bytes_max;
};

/* What a DECLARE asked, until its answer says the id. */
struct asked {
    uint64_t conn, request;
    char name[32];
};

struct node_shard {
    struct sim *sim;
    struct net *net;
    struct ledger *ledger;
    const struct model *model;
    struct node_shard_profile profile;
    uint32_t index;
    enum node_shard_state state;
    struct net_listener listener;
    struct store *store;
    struct shard *core;
    uint64_t clock_offset_ms; /* its monotonic clock is not the others' */
    struct shard_conn *conns;
    uint64_t next_conn;
    struct sim_timer turn, time, work, restart;
    uint32_t turn_events, turn_limit;
    bool turn_open;
    bool kill_planned;
    enum node_shard_kill kill_when;
    uint64_t down_us; /* how long the next down time is */
    bool stays_down;  /* the run ends: do not start again */
    bool stopped;     /* drained */
    struct asked *asked;
    size_t asked_len, asked_room;
    struct arena arena;
    uint64_t turns, commits, failed_commits, kills;
};

void node_shard_init(struct node_shard *n, struct sim *s, struct net *net, struct ledger *l, const struct model *m,
                     uint32_t index, const struct node_shard_profile *p);
void node_shard_stop(struct node_shard *n);   /* the core, for good */
void node_shard_finish(struct node_shard *n); /* and the store, once the network holds nothing of it */

/* Start a core over the store. */
void node_shard_start(struct node_shard *n);

/* kill -9, and a new life after down_us. */
void node_shard_kill(struct node_shard *n, enum node_shard_kill when, uint64_t down_us);

/* TERM: finish what is in flight, then stop, and start again after down_us. */
void node_shard_drain(struct node_shard *n, uint64_t down_us);

/* The next nth operation of this kind fails. */
void node_shard_fail_store(struct node_shard *n, enum store_mem_fail what, uint64_t nth);

#endif
