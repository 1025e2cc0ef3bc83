/* The ledger: the values that the cluster must hold, recomputed from the workers' pushes and the answers to them. It
 * looks at the store after every commit, so it knows every state that a worker may have seen, and the pushes counted in
 * it.
 *
 * It checks
 *   - each commit: async and ssp: every digit is 0 or 1, none goes away, their number is the version (each push counted
 *     once); sync: the bits are the mean, in worker order, of one gradient per worker, after one step of the optimizer;
 *   - each answer: OK means counted in every block, CANCELLED and NONFINITE mean not counted;
 *   - each pull: every block's bits are one committed version (untorn), not older than what was committed when the pull
 *     began, and the version that the client believes;
 *   - ssp: nobody is further ahead than the bound while another has not begun this run of the job;
 *   - at the end: SSP's bound and sync's exactness, over all pairs of a pull and a push; outcomes once more;
 *   - power losses: what a shard comes back with is its last save and all durable pushes after it (ledger_durable.c);
 *   - restores: what a shard comes back with is the checkpoint, all of it and nothing else (ledger_restore.c);
 *   - examples: each is counted at most once in a block, by whatever process of its worker (ledger_cursor.c);
 *   - metrics: each step is in its worker's sums once (ledger_tally.c);
 *   - each age: a push that was older than the cutoff is not counted;
 *   - each set: what is in force was asked for, and holds from then on (ledger_setting.c);
 *   - barriers: a worker that passes has waited for all;
 *   - assigns: all of one or nothing, once (ledger_assign.c);
 *   - evictions: a shard accepts nothing more from an evicted worker (ledger_evict.c).
 *
 * Failures go to sim_fail(). */
#ifndef TESTS_SIM_LEDGER_H
#define TESTS_SIM_LEDGER_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"
#include "tests/sim/model.h"
#include "tests/sim/sim.h"

struct ledger;

struct ledger_config {
    bool may_lapse; /* the run has faults that may end a worker's lease */
    bool evictions; /* an evictor evicts workers */
};

struct ledger *ledger_new(struct sim *s, const struct sim_model *m, const struct ledger_config *config);
void ledger_free(struct ledger *l); /* accepts NULL */

/* ---- What shards do ---- */

/* A shard called this variable by this id. */
void ledger_declared(struct ledger *l, uint32_t shard, uint32_t id, const char *name, struct store *store);

/* A push for a block arrived, with the version that it claims to be computed from. Of jobs with digits. The block's
 * length. */
uint32_t ledger_push_arrived(struct ledger *l, uint32_t shard, uint32_t id, uint32_t block, const float *gradient,
                             uint64_t from);

/* After every commit, before any answer leaves. */
void ledger_commit(struct ledger *l, uint32_t shard, struct store *store);

/* A durable push of this example came where durable pushes are refused. */
void ledger_turned_away(struct ledger *l, uint32_t task, const struct ps_cursor *example);

/* A shard reported that this worker's lease lapsed, or may have reported it before a crash. */
void ledger_lapsed(struct ledger *l, uint32_t task);
void ledger_crashed(struct ledger *l, uint32_t shard);

/* The incarnation of this worker that is live there by what was committed last; 0: none is. */
uint64_t ledger_live(const struct ledger *l, uint32_t shard, uint32_t task);
/* The shard reported that it has evicted a worker, which was live; incarnation: ledger_live()'s when it was asked. */
void ledger_evicted(struct ledger *l, uint32_t shard, uint32_t task, uint64_t incarnation);
/* A hello's answer: PS_OK: a welcome. */
void ledger_greeted(struct ledger *l, uint32_t shard, uint32_t task, uint64_t incarnation, enum ps_err code);
/* A push for a block came from this incarnation. */
void ledger_push_came(struct ledger *l, uint32_t shard, uint64_t incarnation, uint32_t id, uint32_t block,
                      uint64_t clock);

/* ---- What survives ---- */

/* How often a shard came back older. */
uint32_t ledger_losses(const struct ledger *l);
/* How often one lost its disk, too. */
uint32_t ledger_disks_lost(const struct ledger *l);

/* A save begins: its instant is what was committed last. */
void ledger_instant(struct ledger *l, uint32_t shard);
/* It is on disk: what lies there under this generation must be that instant. From now on it is what survives. */
void ledger_saved(struct ledger *l, uint32_t shard, struct store *durable, uint8_t generation);
/* It syncs nothing any more, so what is done from now on may be lost. */
void ledger_disk_failed(struct ledger *l);
/* The disk holds nothing any more. */
void ledger_disk_lost(struct ledger *l, uint32_t shard);
/* The shard came back from its disk: each block must be what a recomputation gives, from the save's instant and the
 * durable pushes after it; those that were acknowledged as durable must be among them. */
void ledger_lost(struct ledger *l, uint32_t shard, struct store *live);

/* The admin takes a checkpoint of all shards, at this moment; false: it would be incomplete, as some block has not been
 * seen. It cannot be used after a shard came back older. */
bool ledger_checkpoint(struct ledger *l);
/* Whether it may be restored: no worker still waits for the outcome of a push that it may hold, since that would be
 * sent again. */
bool ledger_checkpoint_usable(const struct ledger *l);
/* The next commit of this shard that shows this boot must show that checkpoint, block by block. */
void ledger_restore_begins(struct ledger *l, uint32_t shard, uint64_t boot);
/* The data of this boot began with a restore: it does not know the pushes from before. */
bool ledger_boot_restored(const struct ledger *l, uint64_t boot);

/* Whether this worker's process of this round can be lost without a trace, so that the others wait for it for ever: it
 * has left, and the disk does not know it. */
bool ledger_may_forget(const struct ledger *l, uint32_t shard, uint32_t task);

/* By what was committed last: the row's key begins with the id of the ledger's job there; this is that id. */
bool ledger_of_job(const struct ledger *l, uint32_t shard, struct span key);
bool ledger_is_job(const struct ledger *l, uint32_t shard, uint32_t job);

/* A block that a shard calls by this id. False: the shard knows no such id. */
struct ledger_place {
    uint32_t var, block;
};
bool ledger_place(const struct ledger *l, uint32_t shard, uint32_t id, uint32_t block, struct ledger_place *out);

/* The fate of one frame of a worker's pushes at this clock: it is in the blocks; it was, until their shard came back
 * older; or they cannot tell. */
enum ledger_fate { LEDGER_KEPT, LEDGER_GONE, LEDGER_UNREPORTED };
/* The worker was told that its push to these blocks was refused. */
void ledger_refused(struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, const struct ledger_place *places,
                    size_t n);

/* The data of this shard is of this boot now. */
bool ledger_is_boot(const struct ledger *l, uint32_t shard, uint64_t boot);

enum ledger_fate ledger_fate(const struct ledger *l, uint32_t task, uint32_t life, uint64_t clock,
                             const struct ledger_place *places, size_t n);

/* ---- What workers do ---- */

/* A process of this task begins, in the job's round-th run, counted from 0. */
void ledger_starts(struct ledger *l, uint32_t task, uint32_t round);
/* A new incarnation of a task is welcome everywhere: its number. */
uint32_t ledger_join(struct ledger *l, uint32_t task, uint32_t round, uint64_t incarnation, uint64_t clock);
/* A shard's session of this task is at this clock, which then counts as the clock of a worker that is behind it. */
void ledger_welcomed(struct ledger *l, uint32_t shard, uint32_t task, uint64_t clock);
/* The worker is about to leave; if a shard forgot it from now on, the others would wait for ever. */
void ledger_leaves(struct ledger *l);
bool ledger_anybody_leaves(const struct ledger *l);
void ledger_sits_out(struct ledger *l, uint32_t task, uint32_t round); /* nobody waits for it in this round */
void ledger_finished(struct ledger *l, uint32_t task, uint32_t round);
/* All its ticks are answered, and it leaves: steps up to there are in its metrics. */
/* What every worker says that it trains. */
#define SIM_MODEL_VALUE "the model"

/* The worker has agreed with the job's definition. Whether another one has, which holds to it for good: where no
 * session ends before its goodbye. */
void ledger_defined(struct ledger *l, uint32_t task);
bool ledger_another_defined(const struct ledger *l, uint32_t task);

void ledger_settled(struct ledger *l, uint32_t task, const struct ps_cursor *cursor);
/* It continues in its data at the shards' position. */
void ledger_resumes(struct ledger *l, uint32_t task, const struct ps_cursor *cursor);

/* A push begins: its id. broken: every block of its gradient is to hold a NaN. */
uint32_t ledger_push(struct ledger *l, uint32_t task, uint32_t life, uint64_t clock, uint32_t var, bool broken);
void ledger_push_gradient(struct ledger *l, uint32_t push, float *out);
void ledger_push_norm(struct ledger *l, uint32_t push, double norm); /* of all gradients of its call */
void ledger_push_durable(struct ledger *l, uint32_t push);           /* OK means on disk */
void ledger_push_cursor(struct ledger *l, uint32_t push, const struct ps_cursor *cursor, uint64_t round);
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
enum ledger_setting { LEDGER_RATE, LEDGER_BEGIN, LEDGER_BOUND, LEDGER_CUTOFF };
uint32_t ledger_set(struct ledger *l, enum ledger_setting what, uint32_t var, double value);
void ledger_set_done(struct ledger *l, uint32_t set);

/* A worker gives values for n variables from this one on: the assign's id, from 1. Its values for one of them, all
 * elements. It is done; clock: of a good one. */
uint32_t ledger_assign(struct ledger *l, uint32_t task, uint32_t first, uint32_t n, bool reset_slots);
void ledger_assign_values(const struct ledger *l, uint32_t id, uint32_t var, float *out);
void ledger_assign_done(struct ledger *l, uint32_t id, enum ps_err result, uint64_t clock);
/* Pulls that were one operation have all ended well. */
void ledger_pulled_together(struct ledger *l, size_t n, const uint32_t *pulls);

/* number: of the barrier, which is of this round. */
void ledger_barrier(struct ledger *l, uint32_t task, uint32_t number);
void ledger_barrier_passed(struct ledger *l, uint32_t task, uint32_t round, uint32_t number);

/* ---- At the end ---- */

/* A final check of a shard's store, also of blocks whose version has not changed. */
void ledger_last(struct ledger *l, uint32_t shard, struct store *store);
void ledger_final(struct ledger *l);

struct ledger_counts {
    uint64_t pushes, applied, unknown; /* pushes; blocks' updates; pushes whose outcome stayed unknown */
    uint64_t pulls, lapses, lives;
    uint64_t sets;        /* done on all shards */
    uint64_t assigns;     /* done */
    uint64_t saves, lost; /* complete; updates of blocks that a power loss or a restore took back */
    uint64_t restores;    /* of a shard each */
    uint64_t evictions;   /* the same */
    uint64_t fenced;      /* hellos of evicted workers */
};
void ledger_counts(const struct ledger *l, struct ledger_counts *out);

#endif
