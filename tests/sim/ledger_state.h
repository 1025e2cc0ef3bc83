/* The ledger's own structs, shared by its files. */
#ifndef TESTS_SIM_LEDGER_STATE_H
#define TESTS_SIM_LEDGER_STATE_H

#include <stdio.h>

#include "common/core/model/layout.h"
#include "proto/store.pb-c.h"
#include "server/core/workers/assign_slots.h"
#include "tests/sim/ledger.h"

#define LEDGER_TAKEN_MAX 16 /* assigns that a block takes in one commit: more than a shard holds */

enum push_outcome { PUSH_OPEN, PUSH_COUNTED, PUSH_NOT_COUNTED, PUSH_UNKNOWN };

struct ledger_push {
    uint32_t task, life, var;
    uint64_t clock;
    uint64_t number; /* among the pushes to its variable */
    double norm;     /* what it is clipped by, where its variable is clipped so */
    uint64_t started_us;
    bool broken, durable, refused; /* refused: some of it, by a shard */
    bool turned_away;              /* durable, where durable pushes are refused: perhaps before its process was gone */
    bool has_cursor;
    struct ps_cursor cursor; /* its data goes up to here */
    uint64_t round;          /* of the job, as reported to its worker */
    enum push_outcome outcome;
    enum ps_err result;
};

struct ledger_pull_state {
    uint32_t task, life, var, push;
    uint64_t clock, started_us;
    enum ledger_pull kind;
    bool done;
    uint64_t *versions;                /* by block: committed when it began; once done, what it got */
    uint64_t *assigns;                 /* by block, once done: number of the newest in it */
    uint32_t epochs[MODEL_SHARDS_MAX]; /* of the shards, when it began */
};

/* An assign of these variables. */
struct ledger_assign_state {
    uint32_t task, first, vars;
    bool reset_slots;
    enum push_outcome outcome;
    uint64_t clock, done_us;
    uint32_t losses; /* that had come when it was done */
};

/* A number that the shards call it by. */
struct ledger_number {
    uint64_t number;
    uint32_t id;
    bool done[MODEL_SHARDS_MAX];
    bool ever; /* on some shard, if it has not forgotten it since */
};

/* An assign that a block has taken; and, at which version, of the blocks' history. */
struct ledger_taken {
    uint64_t number;
    uint32_t id;
    uint64_t version;
    double rate; /* the learning rate by which its slots agree with its weights */
};

/* An assign's value that waits for a block, or has waited. */
struct ledger_staged {
    uint64_t number;
    double rate; /* in force when it came */
};

/* A set that was asked for. */
struct set_state {
    enum ledger_setting what;
    uint32_t var; /* of a rate, or of a schedule that begins now: */
    double value;
    double least[MODEL_SHARDS_MAX]; /* where its first block there was then, in versions or steps */
    uint32_t epochs[MODEL_SHARDS_MAX];
};

/* On a shard: before and after the current commit. */
struct in_force {
    double was, now;
};

struct ledger_life {
    uint32_t task, round;
    uint64_t incarnation;
};

/* An incarnation that a shard has reported as evicted. pending, saved: it already was at the instant of the current
 * save, and of the newest complete one. */
struct over {
    uint64_t incarnation;
    bool pending, saved;
};

/* How many runs of the job a task has begun, joined and finished; and the clock at which it joined the newest. */
struct runs {
    uint32_t started, joined, finished;
    uint64_t from;
};

struct barrier_state {
    bool came[MODEL_WORKERS_MAX];
};

/* One committed state of a block. Epochs count how often its shard came back older: a state is gone from that epoch on
 * that went back past it. */
struct ledger_block_state {
    uint64_t version, hash, assign;
    uint32_t born, gone; /* epochs; gone UINT32_MAX: it is not */
};

/* The knowledge about a push in a block. */
struct traces {
    uint64_t version; /* that counts it, or 0 */
    uint64_t was;     /* that counted it before the shard came back older */
    uint32_t epoch;   /* that it was counted in */
    bool lost;        /* it was counted, and is no longer */
    bool hidden;      /* it is taken for one that was assigned over unseen */
    bool came;        /* sync: to its shard, when its worker had not been evicted there */
    uint64_t from;    /* version that it claims to be computed from; UINT64_MAX: none */
};

/* sync: the update that made a state out of the one before it. */
struct ledger_step {
    uint64_t version, clock;
    uint32_t assign; /* no step, but an assign was taken: its id, */
    uint64_t number; /* and number */
    bool hidden;     /* assigns came over it, and nothing shows which pushes it took */
    double rate;
    double begin; /* of its schedule */
    uint32_t chosen_len;
    uint64_t chosen[MODEL_WORKERS_MAX]; /* numbers of pushes in worker order */
};

/* A commit in which a block counted some pushes, and took an assign over them: which they were nothing shows. */
struct ledger_veil {
    uint64_t version; /* that the first of them made, */
    uint32_t epoch;   /* in this epoch */
    uint64_t clock;   /* sync: theirs */
    uint64_t us;
    uint64_t left; /* so many at most, that none of those that were acknowledged is taken for yet */
};

/* A block at a save's instant. */
struct ledger_instant {
    bool seen;
    uint64_t version, clock, hash, assign, base;
    float *arrays; /* sync */
};

struct block_state {
    uint32_t var, number, shard;
    uint64_t first; /* element of the variable */
    uint32_t len, stride, slots;
    bool seen, was_seen;     /* was_seen: before its shard came back older */
    uint64_t version, clock; /* of the newest state */
    uint64_t assign, base;   /* number of the newest assign in it; async, ssp: the version that took it */
    struct ledger_veil *veils;
    size_t veils_len, veils_room;
    struct ledger_staged *staged; /* assigns that had values for it */
    size_t staged_len, staged_room;
    struct ledger_taken *taken; /* that it has taken, in order, and at which version */
    size_t taken_len, taken_room;
    struct ledger_block_state *states; /* in rising order of version */
    size_t states_len, states_room;
    struct traces *traces; /* by push number */
    size_t traces_len, traces_room;
    float *arrays;             /* sync: weights and slots of the newest state, [1 + slots][stride] */
    float *given, *next;       /* the same, for trying out: with assigns, and a step after them */
    float *begin;              /* the same, as it began */
    struct ledger_step *steps; /* sync: in rising order of version */
    size_t steps_len, steps_room;
    struct ledger_instant pending, saved;    /* of the current save, and of the newest complete one */
    struct ledger_instant kept;              /* of the administrator's checkpoint */
    uint64_t look, look_version, look_clock; /* of the newest value that the current look, or the last one, has found */
    uint8_t look_generation;
};

struct var_state {
    uint32_t blocks_len;
    struct block_state *blocks;
    uint32_t *pushes; /* ids by number */
    size_t pushes_len, pushes_room;
};

/* A shard's variable ids: var + 1, or 0. */
struct id_table {
    uint32_t *var;
    size_t len, room;
};

struct ledger {
    struct sim *sim;
    const struct sim_model *model;
    struct ledger_config config;
    struct var_state vars[MODEL_VARS_MAX];
    struct id_table ids[MODEL_SHARDS_MAX];
    struct ledger_push *pushes;
    size_t pushes_len, pushes_room;
    struct ledger_pull_state *pulls;
    size_t pulls_len, pulls_room;
    struct ledger_life *lives;
    size_t lives_len, lives_room;
    struct ledger_assign_state *assigns;
    size_t assigns_len, assigns_room;
    struct ledger_number *numbers;
    size_t numbers_len, numbers_room;
    uint64_t waiting[MODEL_SHARDS_MAX][ASSIGN_SLOTS]; /* numbers that a shard has prepared or done, and not got over */
    size_t waiting_len[MODEL_SHARDS_MAX];
    bool disk_failed; /* some shard's, at some time */
    struct set_state *sets;
    size_t sets_len, sets_room;
    struct in_force rates[MODEL_SHARDS_MAX][MODEL_VARS_MAX], begins[MODEL_SHARDS_MAX][MODEL_VARS_MAX];
    struct in_force bounds[MODEL_SHARDS_MAX], cutoffs[MODEL_SHARDS_MAX];
    uint32_t bound_max;
    struct barrier_state *barriers;
    size_t barriers_len, barriers_room;
    struct runs runs[MODEL_WORKERS_MAX];
    bool lapsed[MODEL_WORKERS_MAX];      /* at some time: barriers need not wait for it */
    bool reported_all;                   /* no shard crashed that may have known of another lapse */
    uint32_t epoch[MODEL_SHARDS_MAX];    /* how often each came back older */
    bool disk_empty[MODEL_SHARDS_MAX];   /* its disk failed, and nothing was saved since */
    uint64_t boot[MODEL_SHARDS_MAX];     /* of its data */
    uint64_t expected[MODEL_SHARDS_MAX]; /* boot that a restore is to give it */
    uint64_t *restored;                  /* all boots that restores gave */
    size_t restored_len, restored_room;
    uint64_t taken_us;     /* when the administrator's checkpoint was taken */
    uint32_t taken_losses; /* that had come then */
    uint64_t floor[MODEL_SHARDS_MAX]
                  [MODEL_WORKERS_MAX]; /* highest clock that a session of this task began or went on at */
    struct runs saved_runs[MODEL_SHARDS_MAX][MODEL_WORKERS_MAX], pending_runs[MODEL_SHARDS_MAX][MODEL_WORKERS_MAX];
    struct ps_cursor counted[MODEL_WORKERS_MAX];        /* by shard 0, of each worker's metrics */
    bool defined[MODEL_WORKERS_MAX];                    /* ledger_defined() */
    bool any_defined;                                   /* any session is, in the newest look */
    bool any_counted;                                   /* of any worker's, in the newest look */
    uint64_t live[MODEL_SHARDS_MAX][MODEL_WORKERS_MAX]; /* incarnations; 0: the session is not, or there is none */
    struct over *over[MODEL_SHARDS_MAX];
    size_t over_len[MODEL_SHARDS_MAX], over_room[MODEL_SHARDS_MAX];
    uint32_t losses, disks_lost;
    bool leaves;                       /* some worker is leaving or has left */
    uint64_t looks;                    /* counts looks at a shard's store */
    uint32_t job_id[MODEL_SHARDS_MAX]; /* of the job there, as last looked at; 0: there is none */
    bool replaying;                    /* the pushes counted now were counted before */
    struct ledger_counts counts;
};

/* ---- ledger_block.c ---- */

void ledger_block_init(struct ledger *l, uint32_t var, uint32_t number);
void ledger_block_finish(struct block_state *b);

void ledger_settings_init(struct ledger *l);
void ledger_settings_before(struct ledger *l, uint32_t shard, struct store *store);
void ledger_settings_after(struct ledger *l, uint32_t shard);

/* ---- ledger_job.c: looks for the job before anything else of the store is looked at ---- */
void ledger_job_look(struct ledger *l, uint32_t shard, struct store *store);

/* ---- ledger_assign.c ---- */

/* What a shard's store has of assigns, before its blocks are looked at. */
void ledger_assigns_look(struct ledger *l, uint32_t shard, struct store *store);

/* It came back older: what it knows to be done is seen when it is looked at next. */
void ledger_assigns_lost(struct ledger *l, uint32_t shard);

/* Those that the block has taken in a commit that has left it with this number, in order; how many. */
size_t ledger_assigns_taken(struct ledger *l, struct block_state *b, uint64_t newest,
                            struct ledger_taken taken[LEDGER_TAKEN_MAX]);

/* The block's arrays take the values of an assign: the first n elements. */
void ledger_assign_apply(const struct ledger *l, const struct block_state *b, const struct ledger_taken *taken,
                         uint32_t n, float *arrays);

/* async, ssp: the value that gradients are subtracted from, after the assign of this number; 0: none. */
float ledger_assign_base(const struct ledger *l, const struct block_state *b, uint64_t assign);

/* It is done on some shard. */
static inline bool
number_was_done(const struct ledger_number *x)
{
    for (uint32_t i = 0; i < MODEL_SHARDS_MAX; i++)
        if (x->done[i])
            return true;
    return false;
}

/* At the end. */
void ledger_assigns_final(struct ledger *l);

/* ---- ledger_cursor.c ---- */

bool ledger_same_example(const struct ledger_push *x, const struct ledger_push *y);
/* It may have passed its example without being counted: the shard refused it, or was told that it never comes. */
bool ledger_excused(const struct ledger *l, const struct ledger_push *p);
/* No other push of the same example is counted there. */
void ledger_check_example(struct ledger *l, const struct block_state *b, uint64_t number);

/* ---- ledger_tally.c ---- */

void ledger_tally_look(struct ledger *l, uint32_t shard, struct store *store);
/* A row of STORE_SESSIONS, to be freed, and its worker. */
Psd__SessionRow *ledger_session_row(struct span key, struct span value, uint32_t *task);

/* ---- ledger_evict.c ---- */

void ledger_evict_look(struct ledger *l, uint32_t shard, struct store *store);
/* The block counts this push. */
void ledger_check_evicted(struct ledger *l, const struct block_state *b, uint64_t number);
/* A save's instant, and its end; the shard came back with that one; with none. */
void ledger_evict_instant(struct ledger *l, uint32_t shard);
void ledger_evict_saved(struct ledger *l, uint32_t shard);
void ledger_evict_lost(struct ledger *l, uint32_t shard);
void ledger_evict_forgotten(struct ledger *l, uint32_t shard);

/* The shard calls a variable by this id. */
/* Of the data that a shard's store holds; 0: it holds none. */
uint64_t ledger_boot_of(struct store *store);

void ledger_know_id(struct ledger *l, uint32_t shard, uint32_t id, const char *name);

/* ---- ledger_durable.c: a replay counts this push; it was counted before, and was to be durable ---- */
void ledger_check_replayed(struct ledger *l, const struct block_state *b, uint64_t number);
void ledger_check_boot(struct ledger *l, uint32_t shard, struct store *store, bool older);

/* Back to what the block was at an instant; the rest is lost. */
void ledger_rewind(struct ledger *l, struct block_state *b, const struct ledger_instant *to);
/* sync: take surviving steps and assigns again, up to this version and this number; arrays: what they come to. */
void ledger_replay_steps(struct ledger *l, struct block_state *b, uint64_t version, uint64_t assign,
                         const float *arrays);

/* The same of one of them, to b->arrays alone. */
void ledger_block_redo(struct ledger *l, struct block_state *b, const struct ledger_step *step, uint64_t version);
bool ledger_same_arrays(const struct block_state *b, const float *x, const float *y, uint32_t n);
void ledger_take_instant(const struct ledger *l, const struct block_state *b, struct ledger_instant *to);

/* ---- ledger_restore.c: true while a restore has begun to write, and is not whole ---- */
bool ledger_restoring(struct ledger *l, uint32_t shard, struct store *store);

/* ---- ledger_setting.c: around the look at a commit: what the shard's rows have in force ---- */

/* The block counts this push, computed from that version. */
void ledger_check_age(struct ledger *l, const struct block_state *b, uint32_t push, uint64_t from);

/* Whether the block can tell if it counted the push; its version that did, or 0. */
bool ledger_block_tells(const struct ledger *l, const struct block_state *b, uint64_t number);
uint64_t ledger_block_version_of(const struct block_state *b, uint64_t number);
uint32_t ledger_block_epoch_of(const struct block_state *b, uint64_t number);
bool ledger_block_came(const struct block_state *b, uint64_t number);
void ledger_block_note_came(struct block_state *b, uint64_t number);
bool ledger_block_lost(const struct block_state *b, uint64_t number); /* counted, and then the shard came back older */

/* One with this hash and version. */
bool ledger_block_has(const struct block_state *b, uint32_t epoch, uint64_t hash, uint64_t version);

/* A committed state with this hash that was not gone before this epoch: one whose version is from lowest to highest if
 * there is one, for a step that is smaller than a weight's last bit leaves a short block as it was. */
const struct ledger_block_state *ledger_block_find(const struct block_state *b, uint32_t epoch, uint64_t hash,
                                                   uint64_t lowest, uint64_t highest);
uint64_t ledger_hash(const float *values, uint32_t len);
const char *ledger_block_name(const struct ledger *l, const struct block_state *b);

/* The block that a shard keeps under this key; NULL: no worker knows it. */
struct block_state *ledger_block_of(struct ledger *l, uint32_t shard, const struct store_key *key);

/* A push is counted from this version on. */
void ledger_block_count(struct ledger *l, struct block_state *b, uint64_t number, uint64_t version);

/* async, ssp: read off the weights which pushes are counted since the assign of this number. */
bool ledger_block_check_counts(struct ledger *l, struct block_state *b, const float *weights, uint64_t version,
                               uint64_t assign);

/* A push that is not seen in the block may be one that was counted and assigned over unseen; it then counts as that. */
bool ledger_block_hides(struct ledger *l, struct block_state *b, uint64_t number);

/* The block has taken an assign, as this version. */
void ledger_block_take(struct block_state *b, const struct ledger_taken *taken, uint64_t version);

/* sync: take this step again, from b->arrays to b->arrays, as this version. */
void ledger_block_step(struct ledger *l, struct block_state *b, const struct ledger_step *step, uint64_t version);

/* The block begins with its first values; later it is in the given state. */
void ledger_block_first(struct ledger *l, struct block_state *b, const float *arrays, const struct block_head *head);
void ledger_block_remember(struct ledger *l, struct block_state *b, const float *arrays, const struct block_head *head);

/* Whether every task had joined by this clock the run that it is of, or must have (n of n). */
bool ledger_all_joined(const struct ledger *l, uint64_t clock);

/* "push 7 (w1 life 2, clock 3, v0 number 5)" */
const char *ledger_push_name(const struct ledger *l, uint32_t push, char *out, size_t size);

#endif
