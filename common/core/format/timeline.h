/* A timeline: what a thread did or waited for, with start and end: a ring of spans of which the newest are kept. Pure;
 * times come in as arguments.
 *
 * One thread adds, and any may read meanwhile. Adding takes no lock, allocates nothing and never waits: some words are
 * written and a number is raised. A reader copies what it finds, and then leaves out what was written over in between:
 *
 *     writer   begun = n + 1   │ the words of slot n │   written = n + 1
 *     reader   written = to    │ the words of slots  │   begun: slots that it has come round to are not whole
 *
 * The words are released one by one and acquired one by one, so a reader that has read a newer one sees the begun that
 * came before it. */
#ifndef COMMON_CORE_FORMAT_TIMELINE_H
#define COMMON_CORE_FORMAT_TIMELINE_H

#include <stdatomic.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* Kinds of spans. A worker's: its steps, and its waits in them; the rest of a step is computing. */
/* clang-format off */
#define TIMELINE_LIST(X)                                                                     \
    X(STEP,           "step")        /* of a worker: from one tick to the next */            \
    X(PULL,           "pull")        /* waited for values */                                 \
    X(PUSH,           "push")        /* waited until a push or a tick was acknowledged */    \
    X(BOUND,          "bound")       /* the part of these that the shard waited for others */\
    X(ALL_REDUCE,     "all-reduce")  /* waited for a collective of a group */                \
    X(BARRIER,        "barrier")                                                             \
    X(OTHER,          "other")       /* declaring, asking, saving */                         \
    X(TURN,           "turn")        /* of a shard: frames in, commit, answers out */        \
    X(HELD_BOUND,     "held: bound")     /* waits at a shard, by reason: durations.h */   \
    X(HELD_STEP,      "held: step")                                                          \
    X(HELD_GRADIENTS, "held: gradients")                                                     \
    X(HELD_BARRIER,   "held: barrier")                                                       \
    X(HELD_DISK,      "held: disk")      /* from a commit until it is on disk */             \
    X(SAVE,           "save")            /* from its instant until it is on disk */
/* clang-format on */

enum timeline_kind {
#define X(id, text) TIMELINE_##id,
    TIMELINE_LIST(X)
#undef X
        TIMELINE_KINDS
};

extern const char *const timeline_names[TIMELINE_KINDS];

#define TIMELINE_NOBODY UINT32_MAX

struct timeline_span {
    uint64_t start_ns, end_ns; /* monotonic, of this machine */
    uint64_t step;             /* the clock of the worker that it is about */
    uint64_t bytes;            /* that came and went in it, where that is known */
    uint32_t kind;             /* enum timeline_kind */
    uint32_t task;             /* the task that it is about, if not the writer's; TIMELINE_NOBODY */
    uint32_t commit_ns;        /* TURN: from its start until its commit began, */
    uint32_t answer_ns;        /* and until the answers began to go out; 0: not known */
};

#define TIMELINE_WORDS (sizeof(struct timeline_span) / sizeof(uint64_t))

struct timeline {
    _Atomic uint64_t begun, written; /* spans since it began, the one that is being written counted or not */
    size_t len;                      /* a power of two; 0: nothing is kept */
    _Atomic uint64_t (*slots)[TIMELINE_WORDS];
};

/* A ring of at least so many spans: the next power of two, or 0. */
uint32_t timeline_len(uint64_t spans);

/* slots: zeroed memory of len spans, 8-byte aligned, the caller's; len a power of two, or 0. */
void timeline_init(struct timeline *t, void *slots, size_t len);

/* Writer. */
void timeline_add(struct timeline *t, const struct timeline_span *span);

/* Copy whole spans with numbers from *from on, oldest first, at most room. *from: the number to go on with, which is
 * past those that were written over before they could be copied. Returns how many; 0: there are none now. Any thread.
 */
size_t timeline_read(const struct timeline *t, uint64_t *from, struct timeline_span *out, size_t room);

/* How many were added since the beginning. Any thread. */
uint64_t timeline_added(const struct timeline *t);

#endif
