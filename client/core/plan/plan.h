/* The schedule of a collective: what one rank sends, receives, reduces and copies, and in which order. Pure: numbers
 * in, a list of steps out, the same on every machine.
 *
 *     struct plan_request ask = {.op = PLAN_ALL_REDUCE, .ranks = 4, .rank = 1, .host = hosts, .count = n, .size = 4};
 *     plan_make(&ask, &plan, &e);
 *     for each step i whose needs are done: carry it out
 *     plan_finish(&plan);
 *
 * Messages between two ranks, in one direction, are matched by their order: the k-th SEND to p in a's plan is the k-th
 * RECEIVE from a in p's, with the same length. tests/unit/client/core/plan/test_plan_*.c prove that for every algorithm
 * and up to 64 ranks, that nothing deadlocks whatever the order of arrival (and if a SEND is done only when its RECEIVE
 * has been started: no room for messages in between is needed), that no two steps touch the same elements, one of them
 * writing, unless one needs the other, and that all results are right and bitwise the same on every rank.
 *
 * A step may start when the steps that it needs are done; they come before it in the list. RECEIVEs from one rank are
 * started in their order, and so are SENDs to one; steps of different peers wait only for what they need. A SEND is
 * done when its elements may be overwritten. A COPY of length 0 does nothing: it joins more needs than a step has room
 * for. Other steps of length 0 are messages that only say that their sender has come so far, and are sent.
 *
 * Reductions commute bit for bit (reduce.h), so the order of two operands does not matter. The order of a sum of n,
 * from left to right, with x_r for what rank r gave; all of it is computed in one place and then copied, or in the same
 * order in every place, so that all ranks hold the same bits:
 *
 *     DIRECT         x_0, x_1, ..., x_(n-1), everywhere
 *     RING           all-reduce and reduce-scatter: part p in the order p+1, p+2, ..., p (mod n);
 *                    reduce: root-1, root-2, ..., root (mod n)
 *     HALVING        all-reduce and reduce-scatter: a balanced tree. With m the largest power of two up to n, ranks 2i
 *                    and 2i+1 are added first for i < n-m; then, of the m sums, those m/2 apart, then m/4, ...
 *                    (few bytes go whole, many in halves: the same sums)
 *                    reduce: the binomial tree of root, root+1, ...: a rank adds what the ranks 1, 2, 4, ... after it
 *                    bring to its own
 *     HIERARCHICAL   first within each host, then the hosts' sums as in RING or HALVING over the hosts in the order of
 *                    their lowest ranks, by size
 *
 * For a MEAN each reduction knows of how many ranks' elements its two operands are (reduce.h).
 *
 * No rank's plan ends before all ranks have begun theirs, whatever the operation, the root and the count: where the
 * data does not see to that by itself, empty messages behind it do, in the rounds of a barrier. Of two ranks that
 * exchange anything the caller sees to it: each hears from the other that it has begun. */
#ifndef CLIENT_CORE_PLAN_PLAN_H
#define CLIENT_CORE_PLAN_PLAN_H

#include "client/core/reduce/reduce.h"
#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"

enum plan_op { PLAN_ALL_REDUCE, PLAN_REDUCE_SCATTER, PLAN_ALL_GATHER, PLAN_BROADCAST, PLAN_REDUCE, PLAN_BARRIER };

enum plan_kind {
    PLAN_SEND,           /* len elements at offset of `buffer` to peer */
    PLAN_RECEIVE,        /* into `buffer` at offset */
    PLAN_RECEIVE_REDUCE, /* receive, and buffer[offset ..] = reduce(source[source_offset ..], received) */
    PLAN_COPY,           /* buffer[offset ..] = source[source_offset ..] */
    PLAN_REDUCE_LOCAL,   /* buffer[offset ..] = reduce(buffer[offset ..], source[source_offset ..]) */
    PLAN_SCALE,          /* buffer[offset ..], what is kept of all ranks' elements, becomes their mean (reduce.h) */
    PLAN_MERGE           /* the caller makes the piece of buffer that begins at offset */
};

/* A broadcast's one buffer is PLAN_OUT. PLAN_OUT of a reduce is used at the root alone. */
enum plan_buffer { PLAN_IN, PLAN_OUT, PLAN_SCRATCH };

#define PLAN_NEEDS_MAX 3
#define PLAN_NONE      UINT32_MAX

struct plan_step {
    enum plan_kind kind;
    uint32_t peer; /* rank; PLAN_NONE for local steps */
    enum plan_buffer buffer, source;
    size_t offset, source_offset, len; /* elements */
    uint32_t needs[PLAN_NEEDS_MAX];    /* indices of earlier steps, or PLAN_NONE */
    struct reduce_counts counts; /* where two are reduced, in the order above: of how many ranks' elements they are */
};

struct plan_request {
    enum plan_op op;
    uint32_t ranks, rank, root;
    const uint32_t *host; /* [ranks]: equal numbers are one machine; NULL: each its own */
    size_t count;         /* elements, of the whole */
    size_t size;          /* bytes of one */
    bool in_place;        /* PLAN_IN and PLAN_OUT are the same memory (reduce-scatter, all-gather: at the offset that
                             ps_group.h says). Of this rank alone: no message depends on it */
    bool mean;            /* of floats that are not the mean already in the end (reduce.h): PLAN_SCALE */
    enum ps_algorithm algorithm; /* AUTO: plan_choose() */
    size_t segment_bytes;        /* 0: plan_choose() */
    bool shared_memory;          /* between ranks of one host: other thresholds */
};

struct plan_plan {
    enum ps_algorithm algorithm; /* chosen; never AUTO */
    size_t segment_bytes;
    size_t scratch; /* elements of PLAN_SCRATCH that this rank needs */
    uint32_t steps;
    struct plan_step *step; /* heap */
};

/* What AUTO becomes. Every rank chooses the same from the same numbers. */
enum ps_algorithm plan_choose(const struct plan_request *ask);
size_t plan_choose_segment(const struct plan_request *ask, enum ps_algorithm algorithm);

/* PS_ERR_NOMEM, PS_ERR_LIMIT (more than PLAN_STEPS_MAX steps: larger segments would do). */
#define PLAN_STEPS_MAX (1u << 20)
enum ps_err plan_make(const struct plan_request *ask, struct plan_plan *out, struct ps_error *e) PS_MUST_USE;
void plan_finish(struct plan_plan *p); /* accepts zeroed and finished ones */

/* Parts to their ranks, and what those make of them to all: a reduction whose arithmetic is the caller's. PLAN_IN and
 * PLAN_OUT, which do not overlap, are a slot for each rank, of `slot` elements in pieces of at most `piece`.
 *
 *     slots of IN to their ranks ──► piece i is there of all: MERGE i ──► that piece of IN's own slot to all
 *
 * MERGE reads piece i of all slots of OUT but this rank's, and writes it in this rank's slot of IN. Afterwards the
 * other slots of OUT are what their ranks have merged; this rank's own lies in IN. Each merge is done in one place, so
 * all ranks end with the same bits. size: bytes of an element. */
enum ps_err plan_merge(uint32_t ranks, uint32_t rank, size_t slot, size_t piece, size_t size, struct plan_plan *out,
                       struct ps_error *e) PS_MUST_USE;

/* One line for each step, for ps_group_explain(): heap, NULL when out of memory. */
char *plan_text(const struct plan_request *ask, const struct plan_plan *p);

#endif
