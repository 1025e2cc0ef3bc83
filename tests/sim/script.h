/* Shared by the modules of the training script. node_worker.h has the functions that the worker's process calls.
 *
 *     script.c           phases, and what ends them
 *     script_ops.c       operations: buffers, and starting them
 *     script_assign.c    assigns
 *     script_results.c   operations that are done */
#ifndef TESTS_SIM_SCRIPT_H
#define TESTS_SIM_SCRIPT_H

#include "tests/sim/node_worker.h"

/* ---- script_ops.c ---- */

const char *script_op_name(enum worker_op_kind kind);

/* Freed buffers are scribbled over first, so that reading one late shows even without a sanitizer. */
void script_buffer_free(float *buffer, uint64_t n); /* accepts NULL */
float *script_buffer_new(uint64_t n);
void script_values_renew(struct node_worker *w, uint32_t v); /* a variable's: they hold nothing that is known */

struct worker_op *script_op_new(struct node_worker *w, enum worker_op_kind kind);
/* Its start has come to this. */
void script_op_started(struct node_worker *w, struct worker_op *o, enum ps_err err, const struct ps_error *e);
void script_op_free(struct node_worker *w, struct worker_op *o);
uint32_t script_ops_count(const struct node_worker *w, bool awaited);

void script_start_declare(struct node_worker *w, uint32_t v);
void script_start_define(struct node_worker *w, bool otherwise);
void script_start_pull(struct node_worker *w, uint32_t first, uint32_t n);
void script_start_push(struct node_worker *w, uint32_t first, uint32_t n, bool awaited);
void script_start_tick(struct node_worker *w);
void script_start_barrier(struct node_worker *w, uint32_t number);
void script_start_question(struct node_worker *w);
void script_start_ping(struct node_worker *w, uint32_t shard, bool awaited);
bool script_may_set(const struct node_worker *w);
void script_start_set(struct node_worker *w);

/* ---- script_assign.c ---- */

/* Before a step: it may start an assign. Which results this run's faults explain. */
void script_may_assign(struct node_worker *w);
bool script_assign_expected(const struct node_worker *w, const struct worker_op *o, enum ps_err code);

/* ---- script_results.c ---- */

/* Those that are done are gone afterwards. */
void script_collect(struct node_worker *w);

#endif
