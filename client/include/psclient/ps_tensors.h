/* ps_tensors.h: push straight out of the memory of a device, and pull straight into it.
 *
 *     ps_tensors *tensors;
 *     ps_tensors_new(client, device, n, vars, NULL, &tensors, &error);
 *     while (ps_client_clock(client) < 500) {
 *         ps_tensors_pull(tensors, weights, NULL, &error);      // float *weights[n], of the device's memory
 *         ... the operations of ps_device.h: gradients at weights ...
 *         ps_tensors_push(tensors, gradients, NULL, &error);    // the same
 *         ps_client_tick(client, &error);
 *     }
 *     ps_tensors_free(tensors);
 *
 * They are pushes and pulls as psclient.h has them, with the same options, errors, promises and rules about buffers;
 * only that the buffers are the device's. On the CPU they go to and from the shards as they are. On a device with
 * memory of its own they pass through host memory that it reads and writes by itself ("pinned"), which is set aside
 * once. They pass piece by piece, a few variables at a time: while one piece travels, the next is copied; and copies
 * have streams of their own beside what is computed.
 *
 * - Tensors are float32, row-major, contiguous, 64-byte aligned, [ps_var_elements()] each.
 * - A push takes its turn among the device's operations: it sees what was called before it. The start waits until that
 *   is computed and copied, or failed, for which there is no deadline, as for ps_device_finish(). A gradient stays
 *   borrowed until its push is done; with PS_PUSH_COPY until the start returns. It is not copied again for that on a
 *   device with memory of its own, and does not count for copy_max there.
 * - A pull waits for what was called before it, too: nothing still reads what it overwrites. Operations that are called
 *   after it is done see the values. While it is not done, what its tensors hold is not defined. With newer_than or
 *   only_changed blocks that are not transferred stay as the device has them.
 * - Each piece is an operation of its own in ps_client_stats(). A push is one piece where a look at all of its
 *   gradients comes first: compressed, or with a variable that clips by PS_CLIP_GIVEN_NORM and no norm in its options.
 *   So a push whose start fails has pushed nothing, unless the device, the session or the memory fails between two
 *   pieces: then some blocks may be applied.
 * - Compressed gradients of float16, bfloat16 and int8 are encoded on a device that can, a GPU, and the encodings are
 *   copied: the same bytes. What they leave out stays on the device with the ps_tensors, in memory of about two and a
 *   half times the tensors', which the first such push sets aside (NOMEM). Gradients whose norm is to be found, and
 *   top_k, are encoded on the host.
 * - At most one push and one pull of a ps_tensors are under way at a time: both have their host memory.
 *
 * Parameters:
 *   tensors     from ps_tensors_new()
 *   grads       [n] tensors of the device's memory, grads[i]: [ps_var_elements(vars[i])] float32
 *   out         [n] tensors of the device's memory, out[i]: [ps_var_elements(vars[i])] float32, filled
 *   options     NULL: all defaults
 *   timeout_ms  milliseconds that the call waits at most; -1: the client's default; 0: do not wait
 *   error       filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for each ps_tensors; each call uses the client and the device. */
#ifndef PS_TENSORS_H
#define PS_TENSORS_H

#include "ps_device.h"
#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Variables of a client as tensors of a device.
 * Since: 0.1 */
typedef struct ps_tensors ps_tensors;

/* How tensors pass. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_tensors_options {
    uint64_t piece; /* bytes of neighbours that pass together; a larger variable passes alone. 0: 4 MiB; 1: each
                       variable is a piece; UINT64_MAX: all are one */
    /* [n] host memory that pulled values pass through and stay in, [elements] each, borrowed until the ps_tensors is
     * freed. NULL: its own. Not used where device memory is host memory */
    float *const *values;
};

/* Tie variables to a device.
 *
 * Parameters:
 *   client  must outlive it
 *   device  must outlive it
 *   n       number of variables, at least 1
 *   vars    [n], declared or attached with this client; the list is copied
 *   out     the tensors, which the caller frees with ps_tensors_free()
 * Errors:
 *   PS_ERR_INVALID  no variables, another client's, or one whose declaration is not done
 *   PS_ERR_NOMEM    no memory: says how much
 * Since: 0.1 */
PS_API enum ps_err ps_tensors_new(ps_client *client, ps_device *device, size_t n, ps_var *const vars[],
                                  const struct ps_tensors_options *options, ps_tensors **out,
                                  struct ps_error *error) PS_MUST_USE;

/* Free them. What is under way is given up first.
 *
 * Parameters:
 *   tensors  or NULL
 * Since: 0.1 */
PS_API void ps_tensors_free(ps_tensors *tensors);

/* How many pieces a push or a pull passes in.
 *
 * Returns: the number; 1 on the CPU.
 * Since: 0.1 */
PS_API size_t ps_tensors_pieces(const ps_tensors *tensors);

/* ---- Calls that wait, with the default time-out or that of their options ----------------------------------------- */

/* Push gradients out of the device's memory, and wait until they are applied.
 *
 * Errors:
 *   PS_ERR_IO         the device failed
 *   PS_ERR_INVALID    a push is under way already, or a tensor is NULL
 *   ps_client_push()  what a push may get
 * Since: 0.1 */
PS_API enum ps_err ps_tensors_push(ps_tensors *tensors, const float *const grads[],
                                   const struct ps_push_options *options, struct ps_error *error) PS_MUST_USE;

/* Pull values into the device's memory, and wait until they are there.
 *
 * Errors:
 *   PS_ERR_IO         the device failed
 *   PS_ERR_INVALID    a pull is under way already, or a tensor is NULL
 *   ps_client_pull()  what a pull may get
 * Since: 0.1 */
PS_API enum ps_err ps_tensors_pull(ps_tensors *tensors, float *const out[], const struct ps_pull_options *options,
                                   struct ps_error *error) PS_MUST_USE;

/* ---- Started ----------------------------------------------------------------------------------------------------- */

/* Start a push or a pull: for a push, a tick and a pull in one round trip, or to compute meanwhile.
 *
 * Errors:
 *   PS_ERR_IO               the device failed
 *   PS_ERR_INVALID          one is under way already, or a tensor is NULL
 *   PS_ERR_NOMEM            no memory
 *   ps_client_pull_start()  what a start may get
 * Since: 0.1 */
PS_API enum ps_err ps_tensors_push_start(ps_tensors *tensors, const float *const grads[],
                                         const struct ps_push_options *options, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_tensors_pull_start(ps_tensors *tensors, float *const out[], const struct ps_pull_options *options,
                                         struct ps_error *error) PS_MUST_USE;

/* Wait until the push, or the pull, is done. Values reach the device in this wait.
 *
 * Returns: its result: PS_OK, or the code that *error has, too.
 * Errors:
 *   PS_ERR_TIMEOUT    the deadline passed first: names the shard that was waited for. It goes on, its buffers stay
 *                     borrowed, and it may be waited for again; ps_tensors_pushing() and ps_tensors_pulling() say so
 *   PS_ERR_INVALID    none is under way
 *   PS_ERR_IO         the device failed
 *   ps_client_push()  of a push
 *   ps_client_pull()  of a pull
 * Since: 0.1 */
PS_API enum ps_err ps_tensors_push_wait(ps_tensors *tensors, int timeout_ms, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_tensors_pull_wait(ps_tensors *tensors, int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* Whether a push, or a pull, is under way.
 *
 * Returns: nonzero when it is.
 * Since: 0.1 */
PS_API int ps_tensors_pushing(const ps_tensors *tensors);
PS_API int ps_tensors_pulling(const ps_tensors *tensors);

/* Give up what is under way: ps_op_cancel() of each piece. Nothing happens where none is.
 * Since: 0.1 */
PS_API void ps_tensors_push_cancel(ps_tensors *tensors);
PS_API void ps_tensors_pull_cancel(ps_tensors *tensors);

/* ---- Gradients that leave the device while others are computed --------------------------------------------------- */

/* Gradient i is computed, or will be by what was called: its copy to the host may begin.
 *
 * Beside what is called next, which may not change it. The next push takes it, and is to be given the same tensor.
 * Optional; not while a push is under way. On the CPU there is nothing to do.
 *
 * Parameters:
 *   i     number of the variable
 *   grad  its tensor, of the device's memory
 * Errors:
 *   PS_ERR_INVALID  no such variable, a tensor that is NULL, or a push is under way
 *   PS_ERR_IO       the device failed
 *   PS_ERR_NOMEM    no memory
 * Since: 0.1 */
PS_API enum ps_err ps_tensors_ready(ps_tensors *tensors, size_t i, const float *grad,
                                    struct ps_error *error) PS_MUST_USE;

/* Forget what was ready and was not pushed, as after a step that was given up.
 * Since: 0.1 */
PS_API void ps_tensors_forget(ps_tensors *tensors);

#ifdef __cplusplus
}
#endif

#endif
