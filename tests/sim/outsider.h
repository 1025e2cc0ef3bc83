/* Shared by the processes beside the workers, the observer and the evictor: they use connections of their own
 * (node_worker.h), none of their requests may be refused, and any error fails the run under their program's name.
 *
 *     o = outsider_op(w, WORKER_PULL);
 *     outsider_asked(w, core_pull(w->core, ..., &o->op, &e), &e);
 *     ...
 *     if (outsider_failed(w))
 *         return;
 *     while ((o = outsider_take_done(w)) != NULL) { ... core_op_result(o->op, &e) ...  outsider_op_free(w, o); }
 *
 * An operation is the process's (w->ops) until it is taken out, then the taker's. */
#ifndef TESTS_SIM_OUTSIDER_H
#define TESTS_SIM_OUTSIDER_H

#include "tests/sim/node_worker.h"

/* The process begins to ask. */
void outsider_start(struct node_worker *w);

struct worker_op *outsider_op(struct node_worker *w, enum worker_op_kind kind); /* that begins now */
void outsider_asked(struct node_worker *w, enum ps_err err, const struct ps_error *e);
void outsider_refused(struct node_worker *w, enum ps_err code, const struct ps_error *e); /* what was asked for */

/* True when the core has failed for good, and with it the run. */
bool outsider_failed(struct node_worker *w);

/* One that is done and is out of the list now. NULL: none is done. */
struct worker_op *outsider_take_done(struct node_worker *w);
void outsider_op_free(struct node_worker *w, struct worker_op *o);

/* Parts of a program: what is under way ends with the process; nothing waits longer than limit_us. */
void outsider_stop(struct node_worker *w);
void outsider_watch(const struct node_worker *w, uint64_t limit_us);

#endif
