/* ps_assign.h: values that a worker gives for variables: pretrained weights, statistics of batch normalization, moving
 * averages, an embedding that was computed elsewhere. Part of psclient.h, which has the rules.
 *
 *     // First values, along with the declarations; whoever comes first gives them, the others get those.
 *     spec.init.kind = PS_INIT_GIVEN;
 *     ps_client_declare_values(client, 1, &spec, &pretrained, NULL, &w, &given, &error);
 *
 *     // Later on, whatever they are now.
 *     ps_client_assign(client, 2, (ps_var *const[]){mean, variance}, statistics, NULL, NULL, &error);
 *
 * What a call assigns is there in all blocks of all of its variables on all shards, or in none:
 *
 * - Nobody sees a part. A pull (one call, of however many variables) has all blocks from before the assign, or all from
 *   after it; so has a push_pull, a save and a checkpoint that one shard makes, a report. When a call has returned,
 *   every pull of any worker that starts after that has the values.
 * - It happens once, whatever is killed or lost meanwhile: kill -9 of a shard, a lost connection, a worker that dies in
 *   the middle. A worker that dies before the shards have decided leaves nothing; one that dies after leaves all of it.
 * - Assigns of a job come one after the other, whichever worker makes them. Those of other workers wait meanwhile. Two
 *   workers that assign the same variable: the later one's values stay.
 * - Each assign is one version more for each of its blocks (ps_var_versions()), so pulls by version transfer it, and a
 *   gradient from before it is one update older, for the job's age policy as well.
 * - Gradients are applied on top, or were before; none is lost. What an optimizer remembers (momentum, moments) stays,
 *   unless PS_ASSIGN_RESET_SLOTS is asked for. For FTRL, whose weights follow from its slots, those are made to agree.
 *   What a compressed push has left out is kept as well.
 * - Async, ssp, and sync with a quorum: blocks take the values at once. Sync with all workers: at a clock, the same for
 *   all blocks, which the call returns: this worker's, or the next one's if it has pushed at this one already. Steps of
 *   that clock and later ones start from the values, and their gradients come on top; steps before do not see them. A
 *   worker that has pulled at that clock before the assign computes from what it has. With PS_ASSIGN_NEXT_STEP it is
 *   always the next clock, which nobody has pulled at before this worker has pushed or ticked: all workers see the
 *   values from the same step on.
 * - Where shards have a durable directory an assign is done when it is on their disks, and survives power loss; a shard
 *   without one loses it then, with all that it has.
 *
 * Values are sent and kept beside the blocks until all are there, block by block: a shard needs as much room again for
 * as long as that takes (PS_ERR_FULL when it has not), and this process none.
 *
 * Parameters:
 *   client   from ps_client_open()
 *   n        number of variables, at least 1, each there once
 *   vars     [n], declared or attached with this client
 *   values   [n] buffers, values[i]: [ps_var_elements(vars[i])] float32
 *   options  NULL: all defaults
 *   error    filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for a client and everything that came from it; with options.progress_thread any, one at a time
 *   for each ps_op. */
#ifndef PS_ASSIGN_H
#define PS_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

#include "ps_client.h"
#include "ps_err.h"
#include "ps_op.h"
#include "ps_variable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ps_assign_options.flags.
 * Since: 0.1 */
enum ps_assign_flag {
    PS_ASSIGN_RESET_SLOTS = 1,    /* the optimizer's slots get their first values again, in the same moment */
    PS_ASSIGN_NEXT_STEP = 2,      /* sync with all workers: the values are those of the clock after this worker's */
    PS_ASSIGN_DURABLE = 4,        /* PS_ERR_UNSUPPORTED where a shard has no durable directory, PS_ERR_NOT_DURABLE when
                                     the assign is done and some shard's disk has failed. Else a disk that fails, or is
                                     not there, is no error */
    PS_ASSIGN_ALLOW_NONFINITE = 8 /* values may be NaN or infinite, also where the variable refuses that in gradients */
};

/* What a buffer holds, as its file or framework says.
 * Since: 0.1 */
struct ps_shape {
    const char *dtype; /* "F32", or NULL for the same */
    uint32_t rank;     /* 0 (a scalar) to PS_RANK_MAX */
    uint64_t dims[PS_RANK_MAX];
};

/* How to assign. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_assign_options {
    unsigned flags; /* of enum ps_assign_flag */
    int timeout_ms; /* of the blocking form; 0: default */
    const struct ps_shape
        *shapes; /* [n], of the buffers: compared with the variables. NULL: they are as they should be */
};

/* Give variables values, and wait until they have them.
 *
 * Parameters:
 *   clock  filled: sync with all workers: the values are of this clock; else 0. NULL: not wanted
 * Errors:
 *   PS_ERR_MISMATCH         options.shapes: another type or shape than the variable's: names it. Nothing has changed
 *   PS_ERR_NONFINITE        a value is NaN or infinite, in a variable that was not declared with allow_nonfinite: names
 *                           it. Nothing has changed
 *   PS_ERR_TIMEOUT          not done by the deadline: names the shard and the worker whose assign it waits for. It may
 *                           have been done, in all of its blocks, or not; a second call does it, once more at most
 *   PS_ERR_UNKNOWN_OUTCOME  the same, of one that was interrupted when shards were asked to decide
 *   PS_ERR_ROLLED_BACK      a shard lost its part along with its store when the assign was done already: assign again
 *   PS_ERR_FULL             a shard has no memory for values that wait, beside what updates need. Nothing has changed
 *   PS_ERR_LIMIT            sync: assigns of so many different calls wait for later clocks. Durable: more waits for the
 *                           shard's disk than may. Nothing has changed
 *   PS_ERR_UNSUPPORTED      a shard of a release before this one; or PS_ASSIGN_DURABLE without a durable directory.
 *                           Nothing has changed
 *   PS_ERR_NOT_DURABLE      PS_ASSIGN_DURABLE: done, and then a shard's disk failed
 *   PS_ERR_IO               a shard cannot write. Nothing has changed
 *   PS_ERR_DRAINING         a shard is shutting down
 *   PS_ERR_INVALID          no variables, one that is there twice, of another client or not declared yet, a buffer that
 *                           is NULL or not 4-byte aligned, a flag that is not known, an observer
 *   PS_ERR_NOMEM            no memory, here or at a shard
 *   (session)               what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_assign(ps_client *client, size_t n, ps_var *const vars[], const float *const values[],
                                    const struct ps_assign_options *options, uint64_t *clock,
                                    struct ps_error *error) PS_MUST_USE;

/* Start an assign, and return at once.
 *
 * It begins when this client's assigns before it are done, and goes on while the client is driven. The buffers stay
 * borrowed until it is done or cancelled. Pushes and pulls that are started meanwhile do not wait for it, and may come
 * before or after it.
 *
 * Parameters:
 *   op  the operation, which the caller frees with ps_op_free()
 * Errors:
 *   ps_client_assign()  those that a look at the arguments finds; others come with the operation's result
 * Since: 0.1 */
PS_API enum ps_err ps_client_assign_start(ps_client *client, size_t n, ps_var *const vars[],
                                          const float *const values[], const struct ps_assign_options *options,
                                          ps_op **op, struct ps_error *error) PS_MUST_USE;

/* The clock of an assign that is done well, as ps_client_assign() fills it.
 *
 * Parameters:
 *   op  from ps_client_assign_start()
 * Returns: the clock; 0 for another operation.
 * Since: 0.1 */
PS_API uint64_t ps_op_assign_clock(const ps_op *op);

/* Declare variables and give them their first values, in one go.
 *
 * For variables with init.kind PS_INIT_GIVEN. Nobody gets such a variable before it has its values: declarations
 * without values (ps_client_declare(), or values[i] NULL here) and attaches wait for them. The first worker that gives
 * values for a variable gives them; a later one's are not looked at, and the call returns with given[i] 0: so all
 * workers can make the same call, each with what it has. All values that a call gives come at once, as those of an
 * assign, and are on the shards' disks wherever there are some. A worker that dies in the middle leaves the variables
 * to the next.
 *
 * Variables with other initializers may be in the list as well, without values.
 *
 * Parameters:
 *   specs   [n], what the variables are; copied
 *   values  [n] buffers, values[i]: [product of specs[i].dims] float32, or NULL where this worker has none
 *   vars    [n], filled: the variables
 *   given   [n], filled: nonzero where the values are this call's. NULL: not wanted
 * Errors:
 *   ps_client_declare()  what a declaration may get
 *   ps_client_assign()   what an assign may get, about one variable
 *   PS_ERR_INVALID       values for a variable whose init.kind is another
 *   PS_ERR_TIMEOUT       not done by the deadline: call again, the same twice is the same as once
 * Since: 0.1 */
PS_API enum ps_err ps_client_declare_values(ps_client *client, size_t n, const struct ps_var_spec specs[],
                                            const float *const values[], const struct ps_assign_options *options,
                                            ps_var *vars[], int given[], struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
