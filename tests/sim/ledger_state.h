/* The ledger's own structs, shared by its files. */
#ifndef TESTS_SIM_LEDGER_STATE_H
#define TESTS_SIM_LEDGER_STATE_H

#include <stdio.h>

#include "ledger.h"

enum push_outcome { PUSH_OPEN, PUSH_COUNTED, PUSH_NOT_COUNTED, PUSH_UNKNOWN };

struct push {
    uint32_t task, life, var;
    uint64_t clock;
    uint64_t number; /* among the pushes to its variable */
    double norm;     /* what it is clipped by, where its variable is clipped so */
    uint64_t started_us;
    bool broken;
    enum push_outcome outcome;
    enum ps_err result;
};

struct pull {
    uint32_t task, life, var, push;
    uint64_t clock, started_us;
    enum ledger_pull kind;
    bool done;
    uint64_t *versions; /* by block: committed when it began; once done, what it got */
};

/* One that was asked for. */
struct set_state {
    enum ledger_setting what;
    uint32_t var; /* of a rate */
    double value;
};

/* On a shard: before and after the commit that is looked at. */
struct in_force {
    double was, now;
};

struct life {
    uint32_t task, round;
};

/* How many runs of the job a task has begun, joined and finished. */
struct runs {
    uint32_t started, joined, finished;
};

struct barrier_state {
    bool came[MODEL_WORKERS_MAX];
};

/* One committed state of a block. */
struct state {
    uint64_t version, hash;
};

/* What is known of a push in a block. */
struct traces {
    uint64_t version; /* that counts it, or 0 */
    uint64_t from;    /* version that it says it was computed from; UINT64_MAX: it says none */
};

struct block_state {
    uint32_t var, number, shard;
    uint64_t first; /* element of the variable */
    uint32_t len, stride, slots;
    bool seen;
    uint64_t version, clock; /* of the newest state */
    struct state *states;    /* in rising order of version */
    size_t states_len, states_room;
    struct traces *traces; /* by push number */
    size_t traces_len, traces_room;
    float *arrays; /* sync: weights and slots of the newest state, [1 + slots][stride] */
    float *next;   /* the same, for trying out */
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
    const struct model *model;
    struct ledger_config config;
    struct var_state vars[MODEL_VARS_MAX];
    struct id_table ids[MODEL_SHARDS_MAX];
    struct push *pushes;
    size_t pushes_len, pushes_room;
    struct pull *pulls;
    size_t pulls_len, pulls_room;
    struct life *lives;
    size_t lives_len, lives_room;
    struct set_state *sets;
    size_t sets_len, sets_room;
    struct in_force rates[MODEL_SHARDS_MAX][MODEL_VARS_MAX], bounds[MODEL_SHARDS_MAX], cutoffs[MODEL_SHARDS_MAX];
    uint32_t bound_max;
    struct barrier_state *barriers;
    size_t barriers_len, barriers_room;
    struct runs runs[MODEL_WORKERS_MAX];
    bool lapsed[MODEL_WORKERS_MAX]; /* at some time: barriers need not wait for it */
    bool told_all;                  /* no shard crashed that may have known of another lapse */
    struct ledger_counts counts;
};

void ledger_block_init(struct ledger *l, uint32_t var, uint32_t number);
void ledger_block_finish(struct block_state *b);

/* Around the look at a commit: what the shard's rows have in force. */
void ledger_settings_init(struct ledger *l);
void ledger_settings_before(struct ledger *l, uint32_t shard, struct store *store);
void ledger_settings_after(struct ledger *l, uint32_t shard);

/* The block counts this push, computed from that version. */
void ledger_check_age(struct ledger *l, const struct block_state *b, uint32_t push, uint64_t from);

/* Whether the block can tell if it counted the push; its version that did, or 0. */
bool ledger_block_tells(const struct ledger *l, const struct block_state *b, uint64_t number);
uint64_t ledger_block_version_of(const struct block_state *b, uint64_t number);

/* The version of a committed state with this hash: one from lowest to highest if there is one, for a step that is
 * smaller than a weight's last bit leaves a short block as it was. */
bool ledger_block_find(const struct block_state *b, uint64_t hash, uint64_t lowest, uint64_t highest,
                       uint64_t *version);
uint64_t ledger_hash(const float *values, uint32_t len);

/* Whether every task has joined the run that this clock is of, or must have (n of n). */
bool ledger_all_joined(const struct ledger *l, uint64_t clock);

/* "push 7 (w1 life 2, clock 3, v0 number 5)" */
const char *ledger_push_name(const struct ledger *l, uint32_t push, char *out, size_t size);

#endif
