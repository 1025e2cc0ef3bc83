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
 * gradients comes first: compressed, or with a variable that clips by PS_CLIP_GIVEN_NORM and no norm in its options. So
 * a push whose start fails has pushed nothing, unless the device, the session or the memory fails between two pieces:
 * then some blocks may be applied.
 * - At most one push and one pull of a ps_tensors are under way at a time: both have their host memory.
 * - Threads: whoever calls uses the client and the device. One thread at a time for each ps_tensors. */
#ifndef PS_TENSORS_H
#define PS_TENSORS_H

#include "ps_device.h"
#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_tensors ps_tensors;

struct ps_tensors_options {
    uint64_t piece; /* bytes of neighbours that pass together; a larger variable passes alone. 0: 4 MiB; 1: each
                       variable is a piece; UINT64_MAX: all are one */
    float *const
        *values; /* [n] host memory that pulled values pass through and stay in, [elements] each, borrowed until
                    the ps_tensors is freed. NULL: its own. Not used where device memory is host memory */
};

/* vars: [n], declared or attached with this client, copied. The client and the device must outlive it. options may be
 * NULL. Errors: INVALID (no variables, or another client's), NOMEM (says how much). */
PS_API enum ps_err ps_tensors_new(ps_client *client, ps_device *device, size_t n, ps_var *const vars[],
                                  const struct ps_tensors_options *options, ps_tensors **out,
                                  struct ps_error *error) PS_MUST_USE;

/* What is under way is given up first. Accepts NULL. */
PS_API void ps_tensors_free(ps_tensors *tensors);

PS_API size_t ps_tensors_pieces(const ps_tensors *tensors); /* that a push or a pull passes in; 1 on the CPU */

/* ---- Blocking calls: the default time-out, or the options' ------------------------------------------------------- */

PS_API enum ps_err ps_tensors_push(ps_tensors *tensors, const float *const grads[],
                                   const struct ps_push_options *options, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_tensors_pull(ps_tensors *tensors, float *const out[], const struct ps_pull_options *options,
                                   struct ps_error *error) PS_MUST_USE;

/* ---- Started ------------------------------------------------------------------------------------------------------
 */

/* Start, then wait: for a push, a tick and a pull in one round trip, or to compute meanwhile. INVALID: one is under way
 * already. */
PS_API enum ps_err ps_tensors_push_start(ps_tensors *tensors, const float *const grads[],
                                         const struct ps_push_options *options, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_tensors_pull_start(ps_tensors *tensors, float *const out[], const struct ps_pull_options *options,
                                         struct ps_error *error) PS_MUST_USE;

/* Wait until it is done: its result. TIMEOUT when the deadline passes first, with who was waited for: it goes on, its
 * buffers stay borrowed, and one waits again; ps_tensors_pushing() and ps_tensors_pulling() say so. Values reach the
 * device in this wait. INVALID: none is under way. */
PS_API enum ps_err ps_tensors_push_wait(ps_tensors *tensors, int timeout_ms, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_tensors_pull_wait(ps_tensors *tensors, int timeout_ms, struct ps_error *error) PS_MUST_USE;

/* Nonzero: one is under way. */
PS_API int ps_tensors_pushing(const ps_tensors *tensors);
PS_API int ps_tensors_pulling(const ps_tensors *tensors);

/* Give up what is under way: ps_op_cancel() of each piece. Nothing happens where none is. */
PS_API void ps_tensors_push_cancel(ps_tensors *tensors);
PS_API void ps_tensors_pull_cancel(ps_tensors *tensors);

/* ---- Gradients that leave the device while others are computed ----------------------------------------------------
 */

/* Gradient i is computed, or will be by what was called: its copy to the host may begin, beside what is called next,
 * which may not change it. The next push takes it, and is to be given the same tensor. Optional; not while a push is
 * under way (INVALID). On the CPU there is nothing to do. */
PS_API enum ps_err ps_tensors_ready(ps_tensors *tensors, size_t i, const float *grad,
                                    struct ps_error *error) PS_MUST_USE;

/* What was ready and was not pushed is forgotten, as after a step that was given up. */
PS_API void ps_tensors_forget(ps_tensors *tensors);

#ifdef __cplusplus
}
#endif

#endif
