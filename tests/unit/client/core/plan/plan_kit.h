/* For the tests of plans: a machine in memory that carries out the plans of all ranks, message by message, in an order
 * that a seed chooses; and the properties that a plan must have whatever the order. */
#ifndef TESTS_UNIT_CLIENT_CORE_PLAN_PLAN_KIT_H
#define TESTS_UNIT_CLIENT_CORE_PLAN_PLAN_KIT_H

#include "client/core/plan/plan.h"
#include "tests/unit/kits/check_main.h"

#define MACHINE_SIZE 4 /* bytes of an element */

struct machine_rank {
    struct plan_request ask;
    struct plan_plan plan;
    /* Elements as bits, with fences around each. in_place: out is in (a part: in it). */
    uint32_t *memory[3], *in, *out, *scratch;
    size_t in_len, out_len;
    uint32_t *given; /* [in_len] what it gives */
};

struct machine {
    struct plan_request ask; /* rank and in_place are each rank's own */
    enum ps_reduce reduce;
    enum ps_dtype dtype; /* PS_I32 or PS_F32 */
    uint32_t n;
    struct machine_rank *rank; /* [n] */
    uint32_t held;             /* a rank that does not begin; PLAN_NONE */
    char what[200];            /* for messages */
};

/* Plans for all ranks, with random contents and in place or not by chance. ask.host is borrowed. */
void machine_init(struct machine *m, const struct plan_request *ask, enum ps_dtype dtype, enum ps_reduce reduce,
                  struct test_rng *r);
void machine_finish(struct machine *m);

/* Steps are within the buffers and need earlier ones; messages match; what conflicts is ordered. */
void machine_check_plans(const struct machine *m);

/* Carries all out, in random order. eager: a SEND is done when it can start, and its message waits; else when its
 * RECEIVE starts. Fails the test when no rank can go on. */
void machine_run(struct machine *m, bool eager, struct test_rng *r);

/* How many steps each rank has left when all have gone as far as they can without m->held. */
void machine_run_held(struct machine *m, struct test_rng *r, uint32_t *left);

/* Every rank has the result that it should, to the last bit, in the order of summing that plan.h says; and nothing else
 * was touched. */
void machine_check_results(const struct machine *m);

#endif
