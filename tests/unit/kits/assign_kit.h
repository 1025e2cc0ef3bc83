/* A worker's assigns, step by step, over a shard_kit.
 *
 *     struct kit_assign a = {.attempt = 1};
 *     assign_begin_ok(&k, 1, &a);                        // shard 0: the number and what it knows are in a
 *     assign_stage_four(&k, 1, &a, var, 5);              // variables of four equal elements
 *     assign_commit_ok(&k, 1, &a, 1);                    // one block
 *     kit_work(&k);                                      // the block takes its value */
#ifndef TESTS_UNIT_KITS_ASSIGN_KIT_H
#define TESTS_UNIT_KITS_ASSIGN_KIT_H

#include "tests/unit/kits/shard_kit.h"

struct kit_assign {
    uint64_t attempt, number, committed, clock;
    bool reset_slots, durable, first, nonfinite;
};

/* Send a step; returns the request. blocks: of PREPARE and COMMIT. */
uint64_t assign_send(struct kit *k, uint64_t conn, Psd__AssignStep step, const struct kit_assign *a, uint64_t blocks);

/* A STAGE of one block; n floats. */
uint64_t assign_send_stage(struct kit *k, uint64_t conn, const struct kit_assign *a, uint32_t var, uint32_t block,
                           const float *values, size_t n);

/* Take the next answer, which is ASSIGNED to this request, not `again`. */
Psd__Assigned assign_expect(struct kit *k, uint64_t conn, uint64_t request);

/* The same with `again`; returns newest. */
uint64_t assign_expect_again(struct kit *k, uint64_t conn, uint64_t request);

/* ---- Steps that are answered well at once ---- */

void assign_begin_ok(struct kit *k, uint64_t conn, struct kit_assign *a); /* fills number, committed, clock */
void assign_open_ok(struct kit *k, uint64_t conn, const struct kit_assign *a);
void assign_stage_four(struct kit *k, uint64_t conn, const struct kit_assign *a, uint32_t var, float value);
void assign_prepare_ok(struct kit *k, uint64_t conn, const struct kit_assign *a, uint64_t blocks);
void assign_commit_ok(struct kit *k, uint64_t conn, const struct kit_assign *a, uint64_t blocks);

/* At shard 0, with one block: all of them, and the block takes it. Returns the number. */
uint64_t assign_four(struct kit *k, uint64_t conn, uint64_t attempt, uint32_t var, float value);

/* A tick that carries what a worker knows of assigns. */
void assign_tick(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock, uint64_t assigned, uint64_t given_up);

/* A pull of one block with the fields that concern assigns. Returns the request. */
uint64_t assign_pull(struct kit *k, uint64_t conn, uint32_t var, uint64_t clock, uint64_t assigned,
                     uint64_t with_assign);

/* Take the next answer, DATA of one block of four equal elements. */
struct assign_data {
    float value;
    uint64_t version, assigned, newest;
};
struct assign_data assign_expect_data(struct kit *k, uint64_t conn, uint64_t request);

/* Which of the job's assigns has this number, from 1: its other bits tell its attempt from others. */
static inline uint64_t
assign_nth(uint64_t number)
{
    return number >> 20;
}

/* Values of assigns that lie in the store. */
uint64_t assign_kit_staged(struct kit *k);

/* Declare a variable of four elements whose first values workers give, for plain SGD. gives: the sender has them. */
void assign_declare(struct kit *k, uint64_t conn, uint64_t request, const char *name, bool gives);

/* Take the next answer, DECLARED to this request; *awaits may be NULL. Returns the variable. */
uint32_t assign_declared(struct kit *k, uint64_t conn, uint64_t request, bool *awaits);

/* ---- Shard 1 of 2 ---- */

/* Its configuration, and the name of a variable of job "train" whose only block lies there. */
extern const struct shard_config assign_kit_other;
const char *assign_kit_name_there(void);

#endif
