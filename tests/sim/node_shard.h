/* A simulated psd: the shard core over a store in memory, driven as psd's glue drives it, and the ways in which its
 * process dies. node_shard.c is the process: connections and turns; node_life.c its starts and ends; node_saver.c the
 * durable side.
 *
 * A turn begins with the first event and ends a little later, so that it holds what arrives in between; it also ends
 * when it is full, and sometimes for no reason. kill -9 frees the core, at once, in the middle of a turn, between its
 * commit and its answers, or among them; the store keeps what was committed; a new core starts over it later. Power
 * loss takes the store as well: the next core starts over one that is rebuilt from the durable store, or over an empty
 * one. */
#ifndef TESTS_SIM_NODE_SHARD_H
#define TESTS_SIM_NODE_SHARD_H

#include "common/core/base/arena.h"
#include "common/core/wire/frame.h"
#include "server/core/shard/shard.h"
#include "server/core/store/store_mem.h"
#include "tests/sim/ledger.h"
#include "tests/sim/model.h"
#include "tests/sim/net.h"
#include "tests/sim/node_rot.h"
#include "tests/sim/node_saver.h"
#include "tests/sim/sim.h"

struct shard_conn;

enum node_shard_state { SHARD_DOWN, SHARD_UP, SHARD_DRAINING };

/* When a kill takes effect. */
enum node_shard_kill {
    KILL_NOW,
    KILL_BEFORE_COMMIT,
    KILL_AFTER_COMMIT,
    KILL_AMONG_ANSWERS,
    KILL_KINDS,
    KILL_WHEN_LOGGED = KILL_KINDS, /* when the live store has a record that the disk does not have */
};

/* The stores that are lost with the process. */
enum node_shard_loss { LOSS_NONE, LOSS_LIVE, LOSS_ALL };

struct node_shard_profile {
    bool durable; /* there is a durable side */
    struct node_saver_profile saver;
    uint32_t turn_events_max;
    uint64_t turn_us_max;
    uint32_t grace_ms;
    uint64_t store_bytes_max;
};

/* A DECLARE or an EVICT that is not answered yet. */
struct node_request {
    enum msg_type type;
    uint64_t conn, request;
    bool apart;    /* of a worker of another job */
    char name[32]; /* DECLARE: of the variable */
    uint32_t task; /* EVICT: whose incarnation was live then */
    uint64_t incarnation;
};

#define NODE_SHARD_TOKEN "sim" /* of all workers */

struct node_shard {
    struct sim *sim;
    struct sim_net *net;
    struct ledger *ledger;
    const struct sim_model *model;
    struct node_shard_profile profile;
    uint32_t index;
    enum node_shard_state state;
    struct net_listener listener;
    struct store *store;
    struct node_saver saver; /* when profile.durable */
    struct node_rot rot;     /* of its durable store */
    struct shard *core;
    struct shard_share share; /* of all connections */
    uint64_t clock_offset_ms; /* its monotonic clock is not the others' */
    struct shard_conn *conns;
    uint64_t next_conn;
    struct sim_timer turn, time, work, restart, hang_up;
    uint32_t turn_events, turn_limit;
    bool turn_open;
    bool kill_planned;
    enum node_shard_kill kill_when;
    uint64_t down_us;               /* how long the next down time is */
    enum node_shard_loss kill_loss; /* what is lost with the planned kill */
    enum node_shard_loss loss;      /* what the next start must rebuild */
    uint32_t rebuild_deaths;        /* so many rebuilds are killed on the way */
    struct sim_timer *follow;       /* comes follow_us after the next start; NULL: none does */
    uint64_t follow_us;
    bool stays_down; /* the run ends: do not start again */
    bool restoring;  /* an administrator restores: the power does not fail */
    bool stopped;    /* drained */
    struct node_request *asked;
    size_t asked_len, asked_room;
    struct arena arena;
    uint64_t turns, commits, failed_commits, kills, power_losses;
};

void node_shard_init(struct node_shard *n, struct sim *s, struct sim_net *net, struct ledger *l,
                     const struct sim_model *m, uint32_t index, const struct node_shard_profile *p);
void node_shard_finish(struct node_shard *n); /* and the stores, once the network holds nothing of it */

/* Give the core one event, if there is one. The turn may end on the way, and the process with it. */
void node_shard_event(struct node_shard *n, struct shard_event *event);
void node_shard_end_turn(struct node_shard *n);
uint64_t node_shard_ms(const struct node_shard *n);
void node_shard_hang_up(struct node_shard *n); /* every connection is gone, and no new one comes */

/* ---- node_life.c ---- */

/* Start a core over the store. */
void node_shard_start(struct node_shard *n);
void node_shard_stop(struct node_shard *n); /* the core, for good */

/* kill -9, and a new life after down_us. loss: the machine's power fails, or that and its disk. False: it is down, or
 * is to be killed already. */
bool node_shard_kill(struct node_shard *n, enum node_shard_kill when, enum node_shard_loss loss, uint64_t down_us);
bool node_shard_strikes(const struct node_shard *n, enum node_shard_kill when);

/* A kill that waits for a record has waited long enough: it strikes at another moment. Does nothing when none waits. */
void node_shard_kill_anyway(struct node_shard *n, enum node_shard_kill when);

void node_shard_killed(struct node_shard *n, const char *when);
void node_shard_die(struct node_shard *n);

/* t comes so long after the next start, and no sync is done before. */
void node_shard_follow(struct node_shard *n, struct sim_timer *t, uint64_t in_us);

/* TERM: finish what is in flight, then stop, and start again after down_us. */
void node_shard_drain(struct node_shard *n, uint64_t down_us);

/* The next nth operation of this kind fails. */
void node_shard_fail_store(struct node_shard *n, enum store_mem_fail what, uint64_t nth);

#endif
