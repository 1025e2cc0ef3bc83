/* Teams: processes that all-reduce together on orders. "bench collective" compares them.
 *
 * A rank waits for its next order on a descriptor of its own without taking the processor, so that teams of several
 * kinds can be alive at once and take turns. An order is a struct team_order, the same to every rank of the team; rank
 * 0 answers with a double, the seconds that one operation took. An order of 0 iterations is the last.
 *
 * A failure ends the process with a sentence; a team whose answer does not come ends the bench. */
#ifndef TESTS_BENCH_TEAM_H
#define TESTS_BENCH_TEAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TEAM_RANKS_MAX 16
#define TEAM_PIN       "BENCH_PIN" /* in the environment: each rank stays on one core, the first ones on the first */

struct team_order {
    uint64_t count; /* floats to reduce, on every rank */
    uint64_t iterations;
};

/* How the ranks of a team do it. state is what start() made in the rank's process. */
struct team_kind {
    void *(*start)(uint32_t rank, uint32_t ranks, const void *arg);
    /* Where the values lie, count floats; NULL: on the heap. */
    float *(*values)(void *state, uint64_t count);
    /* In place: every rank has the sums afterwards. */
    void (*all_reduce)(void *state, float *values, uint64_t count);
    int moves_only; /* nonzero: it moves the bytes and adds nothing, so the sums are not looked at */
};

/* ---- In a rank's process ---- */

/* Carry out orders until the last. */
void team_serve(const struct team_kind *kind, void *state, uint32_t rank, uint32_t ranks, int orders, int answers);

/* ---- In the bench ---- */

struct bench_team {
    const char *name;
    uint32_t ranks;
    pid_t pids[TEAM_RANKS_MAX]; /* or one that has started them all */
    uint32_t processes;
    int orders[TEAM_RANKS_MAX], answers;
};

/* Ranks by fork(). arg is borrowed by them. */
void team_start(struct bench_team *t, const char *name, uint32_t ranks, const struct team_kind *kind, const void *arg);

/* Ranks by a program, which starts them all and knows where each finds its orders and its answers: dir/order.RANK and
 * dir/answer, FIFOs that are made here. argv: ended by NULL; dir is among its words. */
void team_start_program(struct bench_team *t, const char *name, uint32_t ranks, const char *const *argv,
                        const char *dir);

/* Seconds of one operation. */
double team_run(struct bench_team *t, uint64_t count, uint64_t iterations);

void team_stop(struct bench_team *t);

#endif
