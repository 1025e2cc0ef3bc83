/* The ledger: what the cluster must hold, recomputed from what workers pushed and what they were told. It looks at the
 * store after every commit, so it knows every state that anybody may have seen, and who was counted in it.
 *
 * It checks
 *   - each commit: async and ssp: every digit is 0 or 1, none goes away, their number is the version (each push counted
 *     once); sync: the bits are the mean, in worker order, of one gradient per worker, after one step of the optimizer;
 *   - each answer: OK means counted in every block, CANCELLED and NONFINITE mean not counted;
 *   - each pull: every block's bits are one committed version (untorn), not older than what was committed when the pull
 *     began, and the version that the client believes;
 *   - ssp: nobody is further ahead than the bound while another has not begun this run of the job;
 *   - at the end: SSP's bound and sync's exactness, over all pairs of a pull and a push; outcomes once more;
 *   - each age: a push that was older than the cutoff is not counted;
 *   - each set: what is in force was asked for, and holds from then on (ledger_setting.c);
 *   - barriers: who passes has waited for all.
 *
 * Failures go to sim_fail(). */
#ifndef TESTS_SIM_LEDGER_H
#define TESTS_SIM_LEDGER_H

#include "common/base.h"
#include "common/ps_err.h"
#include "model.h"
#include "server/store.h"
#include "sim.h"

struct ledger;

struct ledger_config {
    bool may_lapse; /* the run has faults that may end a worker's lease */
};

struct ledger *ledger_new(struct sim *s, const struct model *m, const struct ledger_config *config);
void ledger_free(struct ledger *l); /* accepts NULL */

/* ---- What shards do ---- */

/* A shard called this variable by this id. */
void ledger_declared(struct ledger *l, uint32_t shard, uint32_t id, const char *name, struct store *store);

/* A push for a block arrived, with the version that it says it was computed from. Of jobs with
 * digits. The block's length. */
uint32_t ledger_push_arrived(struct ledger *l, uint32_t shard, uint32_t id, uint32_t block, const float *gradient,
                             uint64_t from);

/* After every commit, before anybody hears of it. */
void ledger_commit(struct ledger *l, uint32_t shard, struct store *store);

/* A shard said that this worker's lease lapsed, or may have said so and crashed. */
void ledger_lapsed(struct ledger *l, uint32_t task);
void ledger_crashed(struct ledger *l, uint32_t shard);

/* ---- What workers do ---- */

/* A process of this task begins, in the job's round-th run, counted from 0. */
void ledger_starts(struct ledger *l, uint32_t task, uint32_t round);
/* A new incarnation of a task is welcome everywhere: its number. */
uint32_t ledger_join(struct ledger *l, uint32_t task, uint32_t round);
void ledger_finished(struct ledger *l, uint32_t task, uint32_t round);

/* A push begins: its id. broken: every block of its gradient is to hold a NaN. */
uint32_t ledger_push(struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, uint32_t var, bool broken);
void ledger_push_gradient(struct ledger *l, uint32_t push, float *out);
void ledger_push_norm(struct ledger *l, uint32_t push, double norm); /* of all gradients of its call */
void ledger_push_done(struct ledger *l, uint32_t push, enum ps_err result);

enum ledger_pull {
    LEDGER_PULL,   /* waits for the mode's condition */
    LEDGER_NOW,    /* does not */
    LEDGER_PUSHED, /* the value that came with a push */
};
/* push: of LEDGER_PUSHED. */
uint32_t ledger_pull(struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, uint32_t var,
                     enum ledger_pull kind, uint32_t push);
/* It ended well with these values and, as the client says, versions from lowest to highest. */
void ledger_pulled(struct ledger *l, uint32_t pull, const float *values, uint64_t lowest, uint64_t highest);

/* A worker asks for another learning rate of a variable (sync), bound (ssp) or cutoff (async): the set's id; it is
 * done. */
enum ledger_setting { LEDGER_RATE, LEDGER_BOUND, LEDGER_CUTOFF };
uint32_t ledger_set(struct ledger *l, enum ledger_setting what, uint32_t var, double value);
void ledger_set_done(struct ledger *l, uint32_t set);

/* number: of the barrier, which is of this round. */
void ledger_barrier(struct ledger *l, uint32_t task, uint32_t number);
void ledger_barrier_passed(struct ledger *l, uint32_t task, uint32_t round, uint32_t number);

/* ---- At the end ---- */

/* What a shard's store holds in the end, also where no version says that it changed. */
void ledger_last(struct ledger *l, uint32_t shard, struct store *store);
void ledger_final(struct ledger *l);

struct ledger_counts {
    uint64_t pushes, applied, unknown; /* pushes; blocks' updates; pushes whose outcome stayed unknown */
    uint64_t pulls, lapses, lives;
    uint64_t sets; /* done on all shards */
};
void ledger_counts(const struct ledger *l, struct ledger_counts *out);

#endif
