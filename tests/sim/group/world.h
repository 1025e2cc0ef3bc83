/* The parts of the simulator of groups. A run: some workers come to a rendezvous, form a group, and train: in each step
 * they start a few operations whose results the ledger knows. Workers die, stall and come back, connections are cut or
 * fall silent, a member sends nonsense or starts another operation; then all that are left meet again and go on from
 * the step that all agree upon. Cores (client/core/group/group_core.h, common/core/cluster/rendezvous_core.h) are the
 * real ones; time, network and glue are simulated.
 *
 *     world ── rendezvous (forms a group)
 *           ── member[]  one worker: its process, its script       group_member.c, script.c
 *                 └─ epochs: a group core and its links            epoch.c
 *           ── ledger    inputs given, results that must come out        ledger.c
 *           ── faults    faults, and the members that caused them           faults.c */
#ifndef TESTS_SIM_GROUP_WORLD_H
#define TESTS_SIM_GROUP_WORLD_H

#include "client/core/group/group_core.h"
#include "client/core/plan/plan_schedule.h"
#include "common/core/cluster/rendezvous_core.h"
#include "tests/sim/net.h"
#include "tests/sim/sim.h"

#define WORLD_MEMBERS_MAX 8
#define WORLD_OPS_MAX     6 /* of one step, beside the agreement before them */
#define WORLD_NOBODY      UINT32_MAX

enum group_faults {
    GROUP_FAULTS_NONE,    /* an even, quick network */
    GROUP_FAULTS_DELAYS,  /* latencies, stragglers, frames in pieces */
    GROUP_FAULTS_CUTS,    /* and connections that are cut or fall silent, processes that are stopped */
    GROUP_FAULTS_CRASHES, /* delays, and processes that die */
    GROUP_FAULTS_LIES,    /* delays, and members that send nonsense or start something else */
    GROUP_FAULTS_ALL,
    GROUP_FAULTS_LEVELS
};

/* Errors that the simulator itself makes, for the ledger to find. */
enum group_lie {
    GROUP_LIE_NONE,
    GROUP_LIE_ZEROS,     /* a link that is cut in the middle of a message makes up the rest of it */
    GROUP_LIE_LATE_WORD, /* an operation's end is reported after its time */
    GROUP_LIE_BLAME,     /* an error names another rank */
    GROUP_LIE_STALE,     /* an operation's result is that of the one before */
    GROUP_LIES
};

struct group_options {
    uint64_t seed;
    enum group_faults faults;
    uint32_t members, steps; /* 0: drawn */
    uint32_t faults_max;     /* 0: as many as are drawn */
    bool heavy;              /* large messages over slow links, so that faults strike in the middle of some */
    enum group_lie lie;
    bool trace;
};

struct group_report {
    struct group_options options;
    bool failed;
    char failure[2048];
    uint64_t hash, lines, virtual_ms;
    uint64_t good, bad;                                       /* works that ended well, and with an error */
    uint64_t groups;                                          /* that were formed */
    uint64_t steps;                                           /* that a member finished */
    uint64_t kills, cuts, silences, stalls, nonsense, others; /* faults that came */
};

void group_run(const struct group_options *o, struct group_report *out);

/* ---- One operation ---- */

enum job_kind { JOB_ALL_REDUCE, JOB_REDUCE_SCATTER, JOB_ALL_GATHER, JOB_BROADCAST, JOB_REDUCE, JOB_BARRIER, JOB_SHIFT };

struct group_job {
    enum job_kind kind; /* SHIFT: each sends to the next rank, and receives from the one before */
    size_t count;
    enum ps_dtype dtype;
    enum ps_reduce reduce;
    uint32_t root;
};

/* Bytes that a rank gives and gets. */
size_t job_in_bytes(const struct group_job *j, uint32_t ranks, uint32_t rank);
size_t job_out_bytes(const struct group_job *j, uint32_t ranks, uint32_t rank);
const char *job_text(const struct group_job *j, char *out, size_t size);

/* ---- Members ---- */

struct group_world;
struct epoch;

enum world_member_state {
    MEMBER_DEAD,
    MEMBER_AWAY,  /* not at the rendezvous yet */
    MEMBER_WAITS, /* there */
    MEMBER_JOINS, /* it knows the table, and connects to the others */
    MEMBER_TRAINS,
    MEMBER_OVER /* all steps are done, or no other member is left */
};

#define MEMBER_GRAVES 24

struct world_member {
    struct group_world *world;
    uint32_t task;
    enum world_member_state state;
    uint64_t incarnation, attempt, conn_id;
    uint64_t epoch_seen; /* the last group's */
    struct net_listener listener;
    struct epoch *now;                  /* the epoch that it joins or trains in */
    struct epoch *epochs;               /* all that are not gone */
    struct link_end *incoming;          /* accepted, and not known to be of a group yet */
    uint64_t held_us;                   /* it is stopped until then */
    uint64_t came_us;                   /* when it set out for the rendezvous */
    struct sim_timer turn, start, back; /* back: it comes back after a kill */
    int64_t step;                       /* the next one; INT64_MAX: not known yet */
    int64_t trained;                    /* the number of the last group that it trained in; 0: none */
    bool other;                         /* its next operation is another than the others' */
    bool restarts;

    /* The step under way. */
    struct {
        uint8_t *memory;
        size_t bytes;
    } grave[MEMBER_GRAVES]; /* memory of operations that are over */
    uint32_t graves;
    struct task_work *works; /* [1 + WORLD_OPS_MAX] */
    uint32_t job_next, jobs; /* started, of */
    uint32_t ops;            /* started in this group */
    enum { SCRIPT_WHO, SCRIPT_WHERE, SCRIPT_STEP, SCRIPT_CLOSE } phase;
    bool waited;  /* a worker waits at the rendezvous: */
    bool leaving; /* all go there after the step */
    bool closed;  /* all is done */
};

void member_init(struct world_member *m, struct group_world *w, uint32_t task);
void member_begin(struct world_member *m); /* its process starts */
void member_kill(struct world_member *m, bool power);
void member_hold(struct world_member *m, uint64_t until_us);
void group_member_answered(struct world_member *m, const struct rendezvous_answer *a); /* by the rendezvous */
void member_look(struct world_member *m); /* something may have ended: soon */
void member_finish(struct world_member *m);

/* ---- script.c ---- */

void script_begin(struct world_member *m); /* a group has been formed */
bool script_turn(struct world_member *m,
                 struct ps_error *e); /* false: the group has failed, and all works have ended */
void script_start_next(struct world_member *m);
void script_finish(struct world_member *m);
void script_drop(struct world_member *m); /* the process has died */

/* ---- epoch.c: a member in one group ---- */

struct epoch {
    struct world_member *member;
    struct epoch *next;
    struct group_core *core; /* NULL: freed */
    uint64_t group, number;
    uint32_t ranks, rank, tasks[WORLD_MEMBERS_MAX];
    uint64_t incarnations[WORLD_MEMBERS_MAX];
    uint64_t came_us; /* the first of its members set out for it */
    uint64_t formed_us;
    struct link_end *links[WORLD_MEMBERS_MAX]; /* by rank; NULL: none, or gone */
    uint32_t ends;                             /* of its links, that are not gone */
    uint32_t outs;
    uint64_t changes;
    bool performing, again, left, whole; /* whole: all links are there */
    struct sim_timer time, deadline;
    struct ledger_group *ledger;
};

struct epoch *epoch_new(struct world_member *m, const struct rendezvous_table *t);
void epoch_perform(struct epoch *e);
void epoch_leave(struct epoch *e); /* sends goodbye, finishes */
void epoch_end(struct epoch *e);   /* its core receives no more events */
void epoch_kill(struct epoch *e, bool power);
uint32_t epoch_rank_of(const struct epoch *e, uint32_t task);
void epoch_accept(struct net_listener *l, struct net_end *end);
void incoming_drop_all(struct world_member *m, bool power);
void incoming_look_all(struct world_member *m);               /* a table is known: assign the incoming links */
struct net_end *epoch_end_of(struct epoch *e, uint32_t rank); /* NULL: it has no link to it now */
bool epoch_garbage(struct epoch *e, uint32_t rank);           /* sends nonsense to that rank; false: not now */
void epochs_hold(struct world_member *m);                     /* nothing reaches its links before held_us */
void epochs_sweep(struct world_member *m);                    /* free those that are no longer needed */

/* ---- group_rendezvous.c: where they meet ---- */

struct group_rendezvous {
    struct group_world *world;
    struct rendezvous_core meet;
    struct sim_timer time;
    struct rendezvous_post *words; /* on their way */
    uint64_t incoming;
};

void group_rendezvous_init(struct group_rendezvous *p, struct group_world *w, uint64_t seed);
void group_rendezvous_finish(struct group_rendezvous *p);
void group_rendezvous_come(struct world_member *m);
void group_rendezvous_gone(struct world_member *m); /* its process has died */
bool group_rendezvous_waits(struct group_rendezvous *p);

/* ---- faults.c ---- */

enum fault_kind { FAULT_KILL, FAULT_CUT, FAULT_SILENCE, FAULT_STALL, FAULT_NONSENSE, FAULT_OTHER, FAULT_KINDS };

struct group_fault {
    enum fault_kind kind;
    uint32_t a, b; /* tasks; b: WORLD_NOBODY if it is not of a link */
    uint64_t at_us, until_us;
    bool pair; /* OTHER: of a send or receive */
};

#define FAULTS_MOST 64

struct group_chaos {
    struct group_world *world;
    struct sim_timer timer;
    uint64_t every_us;
    uint32_t left;
    struct group_fault came[FAULTS_MOST];
    uint32_t came_len;
    uint64_t counts[FAULT_KINDS];
};

void chaos_begin(struct group_chaos *c, struct group_world *w);
void chaos_stop(struct group_chaos *c);
void chaos_other(struct group_world *w, uint32_t task, bool pair); /* it starts another operation now */

/* Is there a reason for this error, in this group, at this member? NULL: yes. Else what is wrong. */
const char *chaos_excuse(const struct group_world *w, const struct epoch *e, const struct ps_error *error);

/* How long it was stopped in this interval. */
uint64_t chaos_stalled_us(const struct group_world *w, uint32_t task, uint64_t from_us, uint64_t to_us);

/* ---- ledger.c ---- */

struct ledger_group;

/* The group's record, made when the first of its members asks for it. */
struct ledger_group *ledger_group(struct group_world *w, uint64_t group, uint32_t ranks);

/* One more of its members has all its links; and how many have. */
void ledger_joins(struct ledger_group *g);
uint32_t ledger_joined(const struct ledger_group *g);

/* Rank gives `in` to its operation number op. */
void ledger_gives(struct group_world *w, struct ledger_group *g, uint32_t op, uint32_t rank, const struct group_job *j,
                  const void *in);
/* The operation succeeded with this result. */
void ledger_got(struct group_world *w, struct ledger_group *g, uint32_t op, uint32_t rank, const void *out);
void ledger_finish(struct group_world *w);

/* ---- The world ---- */

struct group_world {
    const struct group_options *options;
    struct sim sim;
    struct sim_net net;
    struct group_rendezvous rendezvous;
    struct world_member member[WORLD_MEMBERS_MAX];
    uint32_t members;
    int64_t steps;
    uint64_t jobs_seed;
    uint32_t ranks_min, settle_ms, timeout_ms;
    enum ps_algorithm algorithm;
    size_t segment_bytes;
    uint32_t hosts;
    size_t count_max;
    uint64_t think_us; /* between operations, at most */
    struct group_chaos chaos;
    struct ledger_group *ledger;
    bool over; /* a member has finished all steps, with all others */
    struct sim_timer watch;
    uint64_t good, bad, groups, steps_done, seen;
};

#endif
