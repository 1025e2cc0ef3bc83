/* ps_op.h: what a training step is made of: pulls, pushes, ticks and barriers, each as a call that waits, and as an
 * operation that is started and waited for later. Part of psclient.h, which has the rules.
 *
 *     ps_op *push, *pull;
 *     ps_client_push_start(client, n, vars, grads, NULL, &push, &error);
 *     ps_client_tick(client, &error);
 *     ps_client_pull_start(client, n, vars, weights, NULL, &pull, &error);
 *     ... compute something else ...
 *     ps_op_wait_all(2, (ps_op *const[]){push, pull}, -1, &error);
 *     ps_op_free(push);
 *     ps_op_free(pull);
 *
 * Many operations may be in flight; pushes and ticks take effect on each shard in the order of their starts.
 *
 * Small pushes and pulls. A push is written by its start, unless earlier ones are not answered yet and less than 16 KiB
 * have gathered behind them: then it is held, so that many share a system call (64 bytes: 1.4 million a second instead
 * of 0.1). So is a pull behind pulls, of which the values count as well: large ones are never held. Whatever waits or
 * tests sends what is held, or starts something that is not held itself; so does ps_client_flush(), for a program that
 * starts pushes or pulls and then computes for long. A progress thread holds nothing.
 *
 * Compressed pushes (struct ps_compress). What the encoding of a gradient leaves out is kept in the client, with the
 * variable, and added to the next compressed gradient for it: float32 for each of its elements, allocated by the first
 * such push, as long as the client lives; it dies with the process. A push that did not count (refused, STALE, LATE, or
 * cancelled before it was sent) leaves that as if it had never been: its own gradient is gone as an uncompressed one
 * would be, and nothing else. One whose outcome is unknown is taken to have counted. Sent again after a reconnect it is
 * the same bytes, so exactly once holds as ever. What shards apply, wait with in sync and write to disk is float32.
 *
 * Encoded are blocks, one by one: a variable that is smaller than a run or a fraction of a few elements saves less. A
 * gradient with NaN or Inf is NONFINITE, also where the variable allows it, and nothing of its call is pushed. A norm
 * to clip by is that of the gradients as they are given. A shard that does not know the encoding: UNSUPPORTED. Workers
 * of a job may differ in this, and a worker from push to push; a push that is not compressed leaves alone what is kept.
 *
 * Parameters:
 *   client      from ps_client_open()
 *   n           number of variables, at least 1
 *   vars        [n], declared or attached with this client
 *   timeout_ms  milliseconds that the call waits at most; -1: the client's default; 0: do not wait
 *   op          the operation, which the caller frees with ps_op_free()
 *   error       filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for a client and everything that came from it; with options.progress_thread any, one at a time
 *   for each ps_op. */
#ifndef PS_OP_H
#define PS_OP_H

#include <stddef.h>
#include <stdint.h>

#include "ps_client.h"
#include "ps_compress.h"
#include "ps_err.h"
#include "ps_variable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An operation that was started.
 * Since: 0.1 */
typedef struct ps_op ps_op;

/* ---- Calls that wait, with the default time-out or that of their options ----------------------------------------- */

/* How to pull. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_pull_options {
    uint64_t newer_than; /* transfer only blocks whose version is greater; destination keeps the others as they are */
    int only_changed;    /* nonzero: the same with the version of each block's last pull through this client */
    int now;             /* nonzero: do not wait for the mode's condition */
    int timeout_ms;      /* of the blocking form; 0: default */
};

/* Pull n variables at this worker's clock.
 *
 * In sync all blocks are those of the clock (with a quorum of fewer than all workers they may be of later ones: the
 * others go on without this worker); elsewhere each block carries its version (ps_var_versions()).
 *
 * Parameters:
 *   out      [n] buffers, out[i]: [ps_var_elements(vars[i])] float32, filled; not defined after an error
 *   options  NULL: all defaults
 * Errors:
 *   PS_ERR_TIMEOUT      not there by the deadline: the error names the shard and the workers that it waits for. Nothing
 *                       has changed
 *   PS_ERR_STEP_FAILED  a worker that the clock needs was lost, and the job has PS_LAPSE_FAIL: names it
 *   PS_ERR_MISMATCH     an observer's variable was declared again as another one
 *   PS_ERR_INVALID      no variables, one of another client or not declared yet, a buffer that is NULL or not 4-byte
 *                       aligned
 *   PS_ERR_NOMEM        no memory
 *   (session)           what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_pull(ps_client *client, size_t n, ps_var *const vars[], float *const out[],
                                  const struct ps_pull_options *options, struct ps_error *error) PS_MUST_USE;

/* ps_push_options.flags.
 * Since: 0.1 */
enum ps_push_flag {
    PS_PUSH_COPY = 1,   /* copy the gradients at start: the buffers are free when the start returns */
    PS_PUSH_DURABLE = 2 /* done when the update is on the shards' disks: it survives power loss, not only kill -9. Costs
                           the pushed bytes on disk and a sync that many pushes share; the buffers stay borrowed until
                           then. Each shard answers for its blocks: PS_ERR_UNSUPPORTED, and nothing is applied there,
                           where it has no durable directory; PS_ERR_LIMIT, and nothing is applied, when more waits for
                           its disk than it may; PS_ERR_NOT_DURABLE when it was applied and the disk then failed */
};

/* How to push. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_push_options {
    unsigned flags; /* of enum ps_push_flag */
    int timeout_ms; /* of the blocking form; 0: default */
    double norm;    /* L2 norm of this worker's whole gradient, for variables that clip by PS_CLIP_GIVEN_NORM. 0: when
                       one of the call's variables was declared so, the norm over the gradients of this call, computed
                       in double when it starts. Give it when a step's gradients go in several calls */
    const struct ps_cursor *cursor; /* where this step's data ends: see ps_client_cursor(). Copied. NULL: none. INVALID,
                                       and nothing is pushed: it is not past ps_client_cursor(), or not that of the
                                       step's earlier pushes */
    const struct ps_compress *compress; /* how these gradients travel; NULL: as ps_client_options.compress says */
};

/* Push gradients, and wait until they are applied and committed.
 *
 * Each block is applied or not; the call's error is of the first answer that was not well, and names a block. STALE and
 * LATE come after any other error. In sync the step of a refused block waits for this worker, until it pushes the block
 * again or ticks.
 *
 * Parameters:
 *   grads    [n] buffers, grads[i]: [ps_var_elements(vars[i])] float32
 *   options  NULL: all defaults
 * Errors:
 *   PS_ERR_NONFINITE        refused with the blocks that shared its frame (small ones of one shard, up to 256 KiB).
 *                           When the gradient is compressed, or a norm that is computed is not finite: nothing was
 *                           pushed anywhere
 *   PS_ERR_STALE            dropped by the job's age policy. Nothing is wrong: a loop takes it as success, ticks and
 *                           goes on. Which blocks were dropped is not known; ps_client_stats() counts them
 *   PS_ERR_LATE             dropped by the job's quorum; as PS_ERR_STALE
 *   PS_ERR_TIMEOUT          not acknowledged by the deadline: may have been applied, block by block, or not; a second
 *                           call would apply it twice
 *   PS_ERR_UNKNOWN_OUTCOME  a shard does not know any more what became of the push
 *   PS_ERR_STEP_FAILED      sync, PS_LAPSE_FAIL: a worker that the step needs was lost
 *   PS_ERR_FULL             the shard has no memory for it
 *   PS_ERR_LIMIT            PS_PUSH_COPY: copy_max would be exceeded, nothing was pushed. Durable: more waits for the
 *                           shard's disk than may, nothing was applied there
 *   PS_ERR_UNSUPPORTED      durable: the shard has no durable directory, nothing was applied there; or it does not know
 *                           the encoding
 *   PS_ERR_NOT_DURABLE      durable: applied, and then the shard's disk failed
 *   PS_ERR_IO               the shard cannot write: nothing was applied there
 *   PS_ERR_DRAINING         a shard is shutting down
 *   PS_ERR_INVALID          no variables, one of another client or not declared yet, a buffer that is NULL or not
 *                           4-byte aligned, an option or a cursor that is not valid, an observer
 *   PS_ERR_NOMEM            no memory, here or at a shard
 *   (session)               what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_push(ps_client *client, size_t n, ps_var *const vars[], const float *const grads[],
                                  const struct ps_push_options *options, struct ps_error *error) PS_MUST_USE;

/* Push, and get the values after the update in the same round trip.
 *
 * After a reconnect the value may be newer than this push's own.
 *
 * Parameters:
 *   grads    [n] buffers, grads[i]: [ps_var_elements(vars[i])] float32
 *   out      [n] buffers of the same sizes, filled; out[i] may be the gradient's own buffer only with PS_PUSH_COPY
 *   options  NULL: all defaults
 * Errors:
 *   ps_client_push()  what a push may get
 *   PS_ERR_INVALID    out is NULL, or a gradient's own buffer without PS_PUSH_COPY
 * Since: 0.1 */
PS_API enum ps_err ps_client_push_pull(ps_client *client, size_t n, ps_var *const vars[], const float *const grads[],
                                       float *const out[], const struct ps_push_options *options,
                                       struct ps_error *error) PS_MUST_USE;

/* This worker finished a step: its clock rises by one, here at once, and on every shard.
 *
 * Errors:
 *   PS_ERR_TIMEOUT  not acknowledged by the client's time-out: the clock has risen, and the tick goes on; do not call
 *                   again
 *   PS_ERR_INVALID  an observer, or client is NULL
 *   PS_ERR_NOMEM    no memory; the clock has not risen
 *   (session)       what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_tick(ps_client *client, struct ps_error *error) PS_MUST_USE;

/* Wait until every worker of the job that is not lost or finished has come to the barrier of this name.
 *
 * Parameters:
 *   name  of the barrier: 1 to PS_NAME_MAX bytes of UTF-8
 * Errors:
 *   PS_ERR_TIMEOUT      not everybody has come: names who did not. The barrier was left: a second call enters it again
 *   PS_ERR_STEP_FAILED  a worker was lost, and the job has PS_LAPSE_FAIL: names it
 *   PS_ERR_INVALID      a name that is not valid, an observer, or client is NULL
 *   PS_ERR_NOMEM        no memory
 *   (session)           what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_barrier(ps_client *client, const char *name, int timeout_ms,
                                     struct ps_error *error) PS_MUST_USE;

/* ---- Started operations ------------------------------------------------------------------------------------------ */

/* Start a pull, a push, or both, and return at once.
 *
 * Buffers are borrowed until the operation is done or cancelled; with PS_PUSH_COPY gradients are borrowed until this
 * returns. What a shard refuses is the operation's result (ps_op_wait()).
 *
 * Parameters:
 *   out      [n] buffers, as of ps_client_pull()
 *   grads    [n] buffers, as of ps_client_push()
 *   options  NULL: all defaults; copied, with what it points to. timeout_ms is for the calls that wait
 * Errors:
 *   PS_ERR_INVALID    no variables, one of another client or not declared yet, a buffer that is NULL or not 4-byte
 *                     aligned, an option or a cursor that is not valid, an observer that pushes
 *   PS_ERR_NONFINITE  a push that is compressed, or whose norm is computed, has NaN or Inf
 *   PS_ERR_LIMIT      PS_PUSH_COPY: copy_max would be exceeded
 *   PS_ERR_NOMEM      no memory
 *   (session)         what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_pull_start(ps_client *client, size_t n, ps_var *const vars[], float *const out[],
                                        const struct ps_pull_options *options, ps_op **op,
                                        struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_client_push_start(ps_client *client, size_t n, ps_var *const vars[], const float *const grads[],
                                        const struct ps_push_options *options, ps_op **op,
                                        struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_client_push_pull_start(ps_client *client, size_t n, ps_var *const vars[],
                                             const float *const grads[], float *const out[],
                                             const struct ps_push_options *options, ps_op **op,
                                             struct ps_error *error) PS_MUST_USE;

/* Start a tick, a barrier or a declaration, and return at once.
 *
 * The clock rises with the start of a tick. A variable may be used once its declaration is done.
 *
 * Parameters:
 *   name  of the barrier: 1 to PS_NAME_MAX bytes of UTF-8
 *   spec  what the variable is; copied
 *   out   the variable
 * Errors:
 *   PS_ERR_INVALID   a name or a declaration that is not valid, an observer, or NULL
 *   PS_ERR_MISMATCH  this client has declared the variable before with another definition
 *   PS_ERR_NOMEM     no memory
 *   (session)        what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_tick_start(ps_client *client, ps_op **op, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_client_barrier_start(ps_client *client, const char *name, ps_op **op,
                                           struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_client_declare_start(ps_client *client, const struct ps_var_spec *spec, ps_var **out, ps_op **op,
                                           struct ps_error *error) PS_MUST_USE;

/* Send what is held (see the file's first comment).
 *
 * Parameters:
 *   client  or NULL
 * Since: 0.1 */
PS_API void ps_client_flush(ps_client *client);

/* Whether an operation is done, after letting the network move without waiting.
 *
 * Parameters:
 *   op  or NULL, which is done
 * Returns: 1 when it is done, well or not, else 0.
 * Since: 0.1 */
PS_API int ps_op_test(ps_op *op);

/* Wait until an operation is done.
 *
 * Parameters:
 *   op  from a function whose name ends in _start
 * Returns: its result: PS_OK, or the code that *error has, too.
 * Errors:
 *   PS_ERR_TIMEOUT       the deadline passed first: names the shard that was waited for. The operation goes on, and its
 *                        buffers stay borrowed
 *   PS_ERR_INVALID       op is NULL
 *   PS_ERR_CANCELLED     it was cancelled
 *   ps_client_pull()     of a pull
 *   ps_client_push()     of a push
 *   ps_client_tick()     of a tick
 *   ps_client_barrier()  of a barrier
 *   ps_client_declare()  of a declaration
 * Since: 0.1 */
PS_API enum ps_err ps_op_wait(ps_op *op, int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* Wait until one of n operations is done.
 *
 * Parameters:
 *   n      how many
 *   ops    [n], all of one client; NULL entries are passed over
 *   index  the lowest of those that are done; its result is ps_op_result()
 * Errors:
 *   PS_ERR_TIMEOUT  the deadline passed first: names the shard that was waited for. They go on, and their buffers stay
 *                   borrowed
 *   PS_ERR_INVALID  all entries are NULL, they are of several clients, or index is NULL
 * Since: 0.1 */
PS_API enum ps_err ps_op_wait_any(size_t n, ps_op *const ops[], int timeout_ms, size_t *index,
                                  struct ps_error *error) PS_MUST_USE;

/* Wait until all of n operations are done.
 *
 * Parameters:
 *   n    how many
 *   ops  [n], all of one client; NULL entries are passed over
 * Returns: PS_OK, or the first error among their results in order.
 * Errors:
 *   PS_ERR_TIMEOUT  the deadline passed first: names the shard that was waited for. They go on, and their buffers stay
 *                   borrowed
 *   PS_ERR_INVALID  all entries are NULL, or they are of several clients
 *   ps_op_wait()    results
 * Since: 0.1 */
PS_API enum ps_err ps_op_wait_all(size_t n, ps_op *const ops[], int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* Give up an operation. Its buffers are free when this returns.
 *
 * It is done with PS_ERR_CANCELLED, or with PS_ERR_UNKNOWN_OUTCOME when it is a push that was sent and not answered
 * (what was not sent never will be) or a tick (whose clock has risen: it goes on without its caller). Nothing happens
 * to one that is done.
 *
 * Parameters:
 *   op  or NULL
 * Since: 0.1 */
PS_API void ps_op_cancel(ps_op *op);

/* The result of an operation that is done.
 *
 * Parameters:
 *   op  from a function whose name ends in _start
 * Returns: PS_OK, or the code that *error has, too.
 * Errors:
 *   PS_ERR_INVALID  it is not done, or NULL
 *   ps_op_wait()    its result
 * Since: 0.1 */
PS_API enum ps_err ps_op_result(const ps_op *op, struct ps_error *error);

/* Blocks that a pull transferred; those not newer are left out.
 *
 * Parameters:
 *   op  or NULL
 * Returns: the number; 0 for other operations.
 * Since: 0.1 */
PS_API uint64_t ps_op_blocks_transferred(const ps_op *op);

/* Free an operation. One that is not done is cancelled.
 *
 * Parameters:
 *   op  or NULL
 * Since: 0.1 */
PS_API void ps_op_free(ps_op *op);

#ifdef __cplusplus
}
#endif

#endif
