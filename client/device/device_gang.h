/* Reduction over the replicas of one process: a gang is their devices, all of one kind, and tensors in these devices'
 * memory are reduced in place.
 *
 *     struct device_gang *gang;
 *     device_gang_open(devices, 2, &gang, &error);
 *     device_gang_all_reduce(gang, gradients, elements, DEVICE_GANG_SUM, &error);   // gradients[r] is of devices[r]
 *     device_gang_close(gang);
 *
 * One thread calls for the whole gang, and no other uses the devices meanwhile: replicas that run in threads of their
 * own meet first. The operation takes its turn among those of each device (ps_device.h): it reads the results of
 * earlier operations, later ones read its result, and it may still run when the call returns; ps_device_finish() waits
 * for it and reports its failure. An error names the device that failed.
 *
 * All replicas end with the same bits, and the same tensors give the same bits every time. On the CPU, and where all
 * replicas share one GPU, the sum is x[0] + x[1] + ... in this order, and the mean that sum divided by the number of
 * replicas, infinite where the sum is; between GPUs NCCL chooses the order.
 *
 * How a kind of device reduces is a row, struct device_gang_kind, to which its struct device_ops points. */
#ifndef CLIENT_DEVICE_DEVICE_GANG_H
#define CLIENT_DEVICE_DEVICE_GANG_H

#include <stddef.h>

#include "client/include/psclient/ps_device.h"

#define DEVICE_GANG_MAX 64 /* replicas */

enum device_gang_op { DEVICE_GANG_SUM, DEVICE_GANG_MEAN };

struct device_gang;

/* devices: [n], 1 to DEVICE_GANG_MAX, which must outlive the gang; the list is copied. One device may be there several
 * times. Errors: INVALID (no devices, too many, or of several kinds), UNSUPPORTED (this kind of device, or these
 * devices of it, cannot: says what is missing), NOMEM. */
enum ps_err device_gang_open(ps_device *const devices[], size_t n, struct device_gang **out,
                             struct ps_error *e) PS_MUST_USE;
void device_gang_close(struct device_gang *gang); /* accepts NULL */

size_t device_gang_size(const struct device_gang *gang);

/* tensors: [size], each [elements] float32 of its device's memory, that do not overlap. Errors: those of the device. */
enum ps_err device_gang_all_reduce(struct device_gang *gang, float *const tensors[], size_t elements,
                                   enum device_gang_op op, struct ps_error *e) PS_MUST_USE;

/* All become tensors[root], below size. */
enum ps_err device_gang_broadcast(struct device_gang *gang, float *const tensors[], size_t elements, size_t root,
                                  struct ps_error *e) PS_MUST_USE;

/* ---- What a kind of device provides ---- */

struct device_gang_kind {
    /* Sets *state, which close() frees; NULL: there is nothing to prepare. */
    enum ps_err (*open)(ps_device *const devices[], size_t n, void **state, struct ps_error *e);
    void (*close)(void *state);
    /* n >= 2, elements >= 1 */
    enum ps_err (*all_reduce)(void *state, size_t n, float *const tensors[], size_t elements, enum device_gang_op op,
                              struct ps_error *e);
    enum ps_err (*broadcast)(void *state, size_t n, float *const tensors[], size_t elements, size_t root,
                             struct ps_error *e);
};

extern const struct device_gang_kind device_gang_cpu;

#endif
