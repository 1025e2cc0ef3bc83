/* ps_device_group.h: the ranks of a group (ps_group.h) reduce tensors in the memory of their devices.
 *
 *     struct ps_device_group_options options = {.direct = 1};
 *     ps_device_group *tensors;
 *     ps_device_group_open(group, device, &options, &tensors, &error);        // every rank; waits for all
 *     for (;;) {
 *         ... a gradient on the device ...
 *         if (ps_device_group_all_reduce(tensors, gradient, n, PS_MEAN, &error))
 *             ...                                                             // as for the group
 *     }
 *     ps_device_group_close(tensors);
 *
 * The same calls have two ways:
 *
 * - By the host, where nothing else is asked for: a tensor is copied into pinned memory, reduced by the group, and
 *   copied back; on the CPU it is reduced where it lies. Any devices, each rank's own.
 * - Direct, when options.direct says so: the devices exchange it themselves, between GPUs by NCCL (libnccl.so.2, 2.14
 *   or later, on every rank), within machines and between them. The group says who they are, checks that all ranks
 *   start the same, and notices who is lost. NCCL chooses the order of adding up: all ranks end with the same bits, but
 *   not with those of the other way.
 *
 * Rules of both:
 *
 * - Every rank makes the same calls in the same order, and no other operation of the group in between; a rank that
 *   starts another, or another count, causes MISMATCH on every rank, and nothing was changed.
 * - A call has done its work when it returns: it takes its turn among the device's operations, and waits for the
 *   device. What a tensor holds after an error is not defined.
 * - Failure: as for the group, whose time-out is that of each call. A rank that is lost ends the call on all others
 *   with the error that names it; a device that fails ends it with IO on its own rank, and elsewhere with what that
 *   rank does next (closing or forming again is CLOSED there) or TIMEOUT. Whatever was under way on the device is
 *   aborted, so that no call hangs; everything later is refused with the same error, until the group has been formed
 *   again, after which this one is closed and another is opened.
 *
 * Parameters:
 *   tensors  from ps_device_group_open()
 *   tensor   [count] float32 of the device's memory
 *   count    elements; the same on every rank
 *   error    filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Errors device_group:
 *   PS_ERR_IO        a device failed
 *   PS_ERR_MISMATCH  another rank makes another call, or another count: says which
 *   PS_ERR_TIMEOUT   the other ranks' devices were not done in time
 *   PS_ERR_NOMEM     no memory
 *   (group)          why the group failed
 * Threads: one at a time; each call uses the group and the device. */
#ifndef PS_DEVICE_GROUP_H
#define PS_DEVICE_GROUP_H

#include "ps_device.h"
#include "ps_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank's device in a group.
 * Since: 0.1 */
typedef struct ps_device_group ps_device_group;

/* How a device joins a group. Zeroed: by the host.
 * Since: 0.1 */
struct ps_device_group_options {
    int direct; /* nonzero: the devices' own way, or UNSUPPORTED; the same on every rank (MISMATCH) */
};

/* Join a device to the group. Every rank calls it, and each waits for all.
 *
 * Parameters:
 *   group    must outlive it
 *   device   must outlive it
 *   options  NULL: all defaults
 *   out      the device in the group, which the caller ends with ps_device_group_close()
 * Errors:
 *   PS_ERR_UNSUPPORTED  on every rank: which rank cannot, and there what is missing
 *   PS_ERR_INVALID      group or device is NULL
 *   (device_group)      on every rank
 * Since: 0.1 */
PS_API enum ps_err ps_device_group_open(ps_group *group, ps_device *device,
                                        const struct ps_device_group_options *options, ps_device_group **out,
                                        struct ps_error *error) PS_MUST_USE;

/* Leave the group. What is under way on the device is aborted; waits for nobody past a few seconds.
 *
 * Parameters:
 *   tensors  or NULL
 * Since: 0.1 */
PS_API void ps_device_group_close(ps_device_group *tensors);

/* Reduce a tensor over the ranks, in place. A mean of finite elements is finite, as of ps_group_all_reduce().
 *
 * Parameters:
 *   reduce  PS_SUM or PS_MEAN
 * Errors:
 *   PS_ERR_INVALID  another reduction, a tensor that is NULL, or a group that was formed again since
 *   (device_group)  what failed
 * Since: 0.1 */
PS_API enum ps_err ps_device_group_all_reduce(ps_device_group *tensors, float *tensor, size_t count,
                                              enum ps_reduce reduce, struct ps_error *error) PS_MUST_USE;

/* Bring one rank's tensor to all ranks.
 *
 * Parameters:
 *   root  the rank, below ps_group_ranks(): its tensor is read, the others' are written
 * Errors:
 *   PS_ERR_INVALID  no such rank, a tensor that is NULL, or a group that was formed again since
 *   (device_group)  what failed
 * Since: 0.1 */
PS_API enum ps_err ps_device_group_broadcast(ps_device_group *tensors, float *tensor, size_t count, uint32_t root,
                                             struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
