/* Durations, counted by length, and the reasons for which requests wait here. Pure. */
#ifndef SERVER_CORE_TURN_DURATIONS_H
#define SERVER_CORE_TURN_DURATIONS_H

#include "common/core/base/base.h"

/* Upper ends of the buckets in ms, each within its bucket: from what a turn of the loop takes to what an operator calls
 * stuck. One more bucket counts what took longer. */
#define DURATION_BUCKETS 13
extern const uint32_t duration_bounds_ms[DURATION_BUCKETS - 1];

struct durations {
    uint64_t count[DURATION_BUCKETS];
    uint64_t sum_ms;
};

void durations_add(struct durations *d, uint64_t ms);

/* The reasons for which a shard makes requests wait. Counted when the wait ends, whatever ended it. */
/* clang-format off */
#define WAIT_LIST(X)                                                             \
    X(BOUND,      "bound")      /* pulls in ssp: for slower workers */           \
    X(STEP,       "step")       /* pulls in sync: until the step is done */      \
    X(GRADIENTS,  "gradients")  /* pushes in sync: until enough came */          \
    X(BARRIER,    "barrier")    /* for the other workers there */                \
    X(DISK,       "disk")       /* answers of durable pushes */                  \
    X(BLOCKS,     "blocks")     /* declares and attaches: until all are made */  \
    X(SAVE,       "save")       /* requests for one, until it is complete */     \
    X(CHECKPOINT, "checkpoint") /* the same */
/* clang-format on */

enum wait {
#define X(id, text) WAIT_##id,
    WAIT_LIST(X)
#undef X
        WAITS
};

extern const char *const wait_names[WAITS];

#endif
