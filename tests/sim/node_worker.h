/* A simulated worker process: the client core, driven as libpsclient's glue drives it, under a training script.
 *
 * node_worker.c is the process: connections, timers, lives and deaths. script.c is what a worker runs (observer.c what
 * an evaluator does, evictor.c an administrator):
 *
 *     JOINING ─► DECLARING ─► PULLING ─► COMPUTING ─► PUSHING ─► TICKING ─► MEETING ─┐   clock == steps
 *        ▲                       ▲                                                   ├──────────────────► LEAVING ─►
 * GONE │ lapsed: a new         └───────────────────────────────────────────────────┘ └─ incarnation; crashed: DOWN for
 * a while, then a new process
 *
 * Some operations are given up soon after their start, some are not waited for; buffers are freed the moment they may
 * be, so that a core that still touches them is found out. */
#ifndef TESTS_SIM_NODE_WORKER_H
#define TESTS_SIM_NODE_WORKER_H

#include "client/core/shards/core.h"
#include "tests/sim/ledger.h"
#include "tests/sim/model.h"
#include "tests/sim/net.h"
#include "tests/sim/receipts.h"
#include "tests/sim/sim.h"

enum worker_phase {
    WORKER_DOWN,
    WORKER_JOINING,
    WORKER_DECLARING,
    WORKER_PULLING,
    WORKER_COMPUTING,
    WORKER_PUSHING,
    WORKER_TICKING,
    WORKER_MEETING,
    WORKER_LEAVING,
    WORKER_GONE,
    WORKER_PHASES
};

/* Lies that a test tells, so that the ledger is known to find them. */
enum sim_lie {
    LIE_NONE,
    LIE_FORGED_ACK,  /* a refused push is reported as acknowledged */
    LIE_TORN_PULL,   /* one element of a pulled block is another version's */
    LIE_STALE_PULL,  /* values of an earlier pull are reported as this one's */
    LIE_APPLY_TWICE, /* a shard's store counts a push again */
    LIE_LOST_UPDATE, /* a shard's store goes back to an older block */
    LIE_AHEAD,       /* a pull is reported at a later clock than it was asked at */
    LIE_OTHER_RATE,  /* a learning rate is asked for, and reported as another */
    LIE_OTHER_NORM,  /* a push gives another norm than its gradients have */
    LIES
};

struct worker_profile {
    uint64_t compute_us_max;
    uint32_t lease_ms;
    uint32_t cancel_per_mille;  /* operations that are given up */
    uint32_t hasty_per_mille;   /* the same, when a connection is lost */
    uint32_t broken_per_mille;  /* pushes with NaN */
    bool may_durable;           /* the shards have disks */
    uint32_t durable_per_mille; /* pushes that are to be on disk */
    bool cursors;               /* pushes say how far they are in the data */
    uint32_t barrier_every;     /* clocks; 0: none */
    uint32_t assign_per_mille;  /* steps before which it assigns */
    uint32_t pass_per_mille;    /* barriers that are not waited for: later messages are taken while they are shut */
    bool barriers_end;          /* give barriers up after a while: others may never come */
    bool may_lapse;
    bool may_restore; /* shards may be restored from a checkpoint */
    bool store_fails; /* pushes may end with IO */
    enum sim_lie lie;
    const struct worker_program *program; /* the program that it runs; these belong to its profile, too: */
    bool observer;                        /* no worker of the job */
    bool apart;                           /* a worker of another job, which the ledger does not look at */
    bool patient;                         /* its lease is too long to show that it hangs */
};

enum worker_op_kind {
    WORKER_DECLARE,
    WORKER_PULL,
    WORKER_PUSH,
    WORKER_TICK,
    WORKER_BARRIER,
    WORKER_QUERY,
    WORKER_PING,
    WORKER_SET,
    WORKER_ASSIGN,
    WORKER_ATTACH, /* the observer's */
    WORKER_EVICT,  /* the evictor's */
    WORKER_DROP,   /* scrap's */
    WORKER_DEFINE
};

/* An operation under way. */
struct worker_op {
    struct worker_op *next;
    enum worker_op_kind kind;
    bool otherwise;      /* a definition that no other worker has: it must be refused */
    struct core_op *op;  /* NULL: */
    enum ps_err refused; /* the start was refused */
    bool awaited;        /* the phase does not end before it */
    bool cancelled;
    uint64_t started_us, cancel_us; /* 0: never */
    uint32_t vars_len, vars[MODEL_VARS_MAX];
    uint32_t pushes[MODEL_VARS_MAX], pulls[MODEL_VARS_MAX];
    float *grads[MODEL_VARS_MAX];
    bool want, broken, durable;
    uint64_t clock;
    uint64_t refused_then; /* blocks that this worker had been refused when it began */
    uint32_t barrier;
    uint32_t set, assign; /* the ledger's */
};

struct worker_link;

struct node_worker {
    struct sim *sim;
    struct sim_net *net;
    struct ledger *ledger;
    const struct sim_model *model;
    struct worker_profile profile;
    uint32_t task;
    uint32_t round;                  /* of the job's runs, from 0 */
    struct net_listener **listeners; /* [shards] */
    struct core *core;
    uint64_t incarnation;
    struct worker_link *links[MODEL_SHARDS_MAX];
    struct worker_link *finishing[MODEL_SHARDS_MAX]; /* goodbye was sent there */
    uint64_t clock_offset_ms;
    struct sim_timer time, poll, wake, restart;
    uint64_t held_us; /* stopped until then (SIGSTOP) */
    bool performing;
    uint32_t taking;  /* the shard whose frame came last */
    size_t sends_out; /* CORE_SENDs that were not reported as sent */

    /* script.c's */
    enum worker_phase phase;
    bool entered; /* the phase's operations are started */
    uint32_t life;
    struct ps_cursor cursor; /* where its data goes on */
    struct receipts receipts;
    uint64_t phase_us, compute_until_us;
    struct worker_op *ops;
    struct core_var *vars[MODEL_VARS_MAX];
    bool declared[MODEL_VARS_MAX], pulled[MODEL_VARS_MAX];
    bool whole[MODEL_VARS_MAX]; /* values holds all of the variable: a pull may bring only what changed */
    float *values[MODEL_VARS_MAX];
    float *older[MODEL_VARS_MAX];                /* for LIE_STALE_PULL */
    bool joined_before;                          /* in this round */
    bool defined;                                /* this process has said what it trains */
    bool resumed;                                /* it has its place in the data */
    uint64_t start_clock, start_round, start_at; /* of the first process that did (check_start()) */
    bool pinged;                                 /* all shards, before it leaves */
    bool stays;                                  /* it does not leave yet */
    bool tick_unsure; /* the newest tick was given up, and shard 0 may be gone before it receives it */
    uint64_t assign_random;
    uint64_t crashes, rejoins, steps;
};

void node_worker_init(struct node_worker *w, struct sim *s, struct sim_net *net, struct ledger *l,
                      const struct sim_model *m, uint32_t task, struct net_listener **listeners,
                      const struct worker_profile *p);
void node_worker_finish(struct node_worker *w);

/* A new process. */
void node_worker_start(struct node_worker *w);

/* kill -9, or (silent) the machine's power; a new process after down_us, UINT64_MAX: never. */
void node_worker_crash(struct node_worker *w, bool silent, uint64_t down_us);

/* It has finished, and runs again in so long. */
void node_worker_again(struct node_worker *w, uint64_t in_us);

/* It takes no part in this round, and is over. */
void node_worker_sits_out(struct node_worker *w, uint32_t round);

/* SIGSTOP for a while. */
void node_worker_hold(struct node_worker *w, uint64_t for_us);

/* Its connections are lost, which it learns when it runs. */
void node_worker_cut(struct node_worker *w);

/* True when it has nothing more to do, unless it runs again. */
bool node_worker_over(const struct node_worker *w);

/* Fails the run when something has waited longer than limit_us. */
void node_worker_watch(struct node_worker *w, uint64_t limit_us);

uint64_t node_worker_ms(const struct node_worker *w);

/* Carry out the core's actions, and look at the script soon. After every call into the core that makes actions. */
void node_worker_perform(struct node_worker *w);

/* ---- Programs ---- */

struct worker_program {
    const char *name;
    void (*start)(struct node_worker *w);             /* of a new process */
    void (*poll)(struct node_worker *w);              /* something may be done */
    void (*stop)(struct node_worker *w);              /* the process is dying: what was under way has no outcome */
    uint64_t (*next_us)(const struct node_worker *w); /* UINT64_MAX: only the core's events count */
    void (*watch)(const struct node_worker *w, uint64_t limit_us);
};

extern const struct worker_program script_program, observer_program;

void script_lost(struct node_worker *w);           /* a connection; it is made again by itself */
void script_describe(const struct node_worker *w); /* to the trace: what it waits for */

void observer_leave(struct node_worker *w); /* the workers are over: a last look, then it is over, too */

#endif
