/* The schedule of a collective: what one rank sends, receives, reduces and copies, and in which order. Pure: numbers
 * in, a list of steps out, the same on every machine.
 *
 *     struct plan_ask ask = {.op = PLAN_ALL_REDUCE, .ranks = 4, .rank = 1, .host = hosts, .count = n, .size = 4};
 *     plan_make(&ask, &plan, &e);
 *     for each step i whose needs are done: carry it out
 *     plan_finish(&plan);
 *
 * Messages between two ranks, in one direction, are matched by their order: the k-th SEND to p in a's plan is the k-th
 * RECEIVE from a in p's, with the same length. tests/unit/test_plan_*.c proves that for every algorithm and up to 64
 * ranks, that nothing deadlocks whatever the order of arrival, and that all results are right and bitwise the same on
 * every rank.
 *
 * A step may start when the steps that it needs are done. RECEIVEs from one rank are started in their order, and so are
 * SENDs to one; steps of different peers wait only for what they need. */
#ifndef CLIENT_COLLECTIVE_PLAN_H
#define CLIENT_COLLECTIVE_PLAN_H

#include "base.h"
#include "client/ps_group.h"

enum plan_op { PLAN_ALL_REDUCE, PLAN_REDUCE_SCATTER, PLAN_ALL_GATHER, PLAN_BROADCAST, PLAN_REDUCE, PLAN_BARRIER };

enum plan_kind {
    PLAN_SEND,           /* len elements at offset of `buffer` to peer */
    PLAN_RECEIVE,        /* into `buffer` at offset */
    PLAN_RECEIVE_REDUCE, /* receive, and buffer[offset ..] = reduce(source[source_offset ..], received) with the
                            operands in the order that `theirs_first` says: floats do not commute in NaNs' bits alone,
                            but a plan that names the order keeps every rank's bits the same */
    PLAN_COPY,           /* buffer[offset ..] = source[source_offset ..] */
    PLAN_REDUCE_LOCAL,   /* buffer[offset ..] = reduce(buffer[offset ..], source[source_offset ..]) */
    PLAN_SCALE /* buffer[offset ..] divided by the number of ranks: MEAN, once for each element that goes on */
};

enum plan_buffer { PLAN_IN, PLAN_OUT, PLAN_SCRATCH };

#define PLAN_NEEDS_MAX 3
#define PLAN_NONE      UINT32_MAX

struct plan_step {
    enum plan_kind kind;
    uint32_t peer; /* rank; PLAN_NONE for local steps */
    enum plan_buffer buffer, source;
    size_t offset, source_offset, len; /* elements */
    bool theirs_first;
    uint32_t needs[PLAN_NEEDS_MAX]; /* indices of earlier steps, or PLAN_NONE */
};

struct plan_ask {
    enum plan_op op;
    uint32_t ranks, rank, root;
    const uint32_t *host; /* [ranks]: equal numbers are one machine; NULL: each its own */
    size_t count;         /* elements, of the whole */
    size_t size;          /* bytes of one */
    bool in_place;        /* PLAN_IN and PLAN_OUT are the same memory (reduce-scatter, all-gather: at the offset that
                             ps_group.h says) */
    bool mean;            /* PLAN_SCALE where it belongs */
    enum ps_algorithm algorithm; /* AUTO: plan_choose() */
    size_t segment_bytes;        /* 0: plan_choose() */
    bool shared_memory;          /* between ranks of one host: other thresholds */
};

struct plan {
    enum ps_algorithm algorithm; /* chosen; never AUTO */
    size_t segment_bytes;
    size_t scratch; /* elements of PLAN_SCRATCH that this rank needs */
    uint32_t steps;
    struct plan_step *step; /* heap */
};

/* What AUTO becomes. Every rank chooses the same from the same numbers. */
enum ps_algorithm plan_choose(const struct plan_ask *ask);
size_t plan_choose_segment(const struct plan_ask *ask, enum ps_algorithm algorithm);

/* PS_ERR_NOMEM, PS_ERR_LIMIT (more than PLAN_STEPS_MAX steps: larger segments would do). */
#define PLAN_STEPS_MAX (1u << 20)
enum ps_err plan_make(const struct plan_ask *ask, struct plan *out, struct ps_error *e) PS_MUST_USE;
void plan_finish(struct plan *p); /* accepts zeroed and finished ones */

/* One line for each step, for ps_group_explain() and PS_TRACE: heap, NULL when out of memory. */
char *plan_text(const struct plan_ask *ask, const struct plan *p);

#endif
