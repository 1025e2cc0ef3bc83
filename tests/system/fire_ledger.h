/* The records of the workers in test_fire, where kill -9 cannot destroy them: one file per job, mapped by the test and
 * by each worker. A push is in it before it is sent (begun), and again when its acknowledgement came.
 *
 * A value proves which pushes it holds, as follows. A worker numbers its pushes of a variable from 0, over all lives of
 * its process. Push n goes into two elements of every block, those of slot n % FIRE_SLOTS of its worker: 1 is added to
 * the first, and the push's ordinal n / FIRE_SLOTS + 1 to the second. So the first counts the slot's pushes, and the
 * second says which they are. 1 is also added to every element past the slots: they must all be alike, or a block is
 * torn. All numbers are whole and below 2^24, where float32 arithmetic is exact. */
#ifndef TESTS_SYSTEM_FIRE_LEDGER_H
#define TESTS_SYSTEM_FIRE_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/psclient/psclient.h"

enum {
    FIRE_WORKERS = 2, /* of a job: the mean over them, or over one of them, is exact */
    FIRE_SLOTS = 16,
    FIRE_MARKS = FIRE_WORKERS * FIRE_SLOTS * 2, /* elements at the head of every block */
    FIRE_PUSHES_MAX = 1 << 16                   /* of one worker and variable: sums of ordinals stay below 2^24 */
};

/* Of all three sizes of blocks; the last block of each holds more than the marks. */
#define FIRE_VARS_LIST(X)                                                                                              \
    X(SMALL, "small", 900)                                                                                             \
    X(OTHER, "other", 700)                                                                                             \
    X(MIDDLE, "middle", 17700)                                                                                         \
    X(LARGE, "large", 281000)

enum fire_var {
#define X(id, name, elements) FIRE_##id,
    FIRE_VARS_LIST(X)
#undef X
        FIRE_VARS
};
extern const char *const fire_var_names[FIRE_VARS];
extern const uint64_t fire_var_elements[FIRE_VARS];

enum fire_state { FIRE_NOT, FIRE_BEGUN, FIRE_ACKED };

struct fire_pushes {
    _Atomic uint32_t begun;
    _Atomic uint8_t state[FIRE_PUSHES_MAX]; /* enum fire_state */
};

struct fire_worker {
    _Atomic int32_t pid;
    _Atomic uint32_t lives;
    _Atomic uint64_t clock;
    _Atomic uint64_t rolled_back; /* pushes, as the client counts them over all shards */
    _Atomic uint32_t failed;      /* a promise was broken: text says which */
    char text[PS_ERROR_LINE_MAX];
    struct fire_pushes pushes[FIRE_VARS];
};

struct fire_ledger {
    enum ps_mode mode;
    uint32_t bound;
    bool durable;                /* pushes are, but those of FIRE_OTHER, which one block holds */
    _Atomic uint64_t last_clock; /* workers end here */
    struct fire_worker worker[FIRE_WORKERS];
};

/* Map it; made when it is not there. NULL, and errno, when that is not possible. */
struct fire_ledger *fire_ledger_open(const char *path, int *fd);

/* A worker's place in it is held by one process at a time: fire_hold() waits for the one before to be gone. */
bool fire_hold(int fd, uint32_t task);
bool fire_is_held(int fd, uint32_t task);

/* The sums of a worker's slot of one variable by the present records: pushes [0, to) of it. */
struct fire_sum {
    uint32_t count, ordinals;
};
struct fire_sum fire_acked(const struct fire_pushes *p, uint32_t slot, uint32_t to);

/* Pushes that were begun in all. */
uint32_t fire_begun(const struct fire_pushes *p);

/* Before and after a pull: the least that must be in its blocks, and the most that may be. */
struct fire_bounds {
    struct fire_sum least[FIRE_WORKERS][FIRE_SLOTS];
    uint32_t most[FIRE_WORKERS][FIRE_SLOTS]; /* count of a slot */
};
void fire_bounds_before(const struct fire_ledger *l, enum fire_var var, struct fire_bounds *b);
void fire_bounds_after(const struct fire_ledger *l, enum fire_var var, struct fire_bounds *b);

/* Hold every block of a variable's values against the bounds. False: text says where. */
bool fire_check_bounds(const struct fire_bounds *b, enum fire_var var, const float *values, char *text, size_t size);

/* When nothing is under way: each block holds every acknowledged push once, and each of unknown outcome at most once.
 */
bool fire_check_exact(const struct fire_ledger *l, enum fire_var var, const float *values, char *text, size_t size);

/* The same for values that may have lost acknowledged pushes, with reports of how many: the pushes that are there and
 * those rolled back are all that were begun, when every one was acknowledged. */
bool fire_check_rolled_back(const struct fire_ledger *l, const float *values, char *text, size_t size);

/* A push's gradient for SGD at rate 1: make it, and take it back. scale: 1, or in sync the number of workers. */
void fire_gradient_fill(enum fire_var var, float scale, float *gradient);
void fire_gradient_mark(enum fire_var var, uint32_t task, uint32_t push, float scale, bool set, float *gradient);

#endif
