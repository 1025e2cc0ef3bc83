/* Parts of the program alone (alone.c). */
#ifndef CLIENT_DEVICE_CUDA_ALONE_H
#define CLIENT_DEVICE_CUDA_ALONE_H

#include "client/include/psclient/ps_device.h"

/* Stops the program with the error's text. */
void alone_must(enum ps_err err, const struct ps_error *e);

/* Seconds that one call of work takes, from start to end, on the device: the median of a few measurements of many calls
 * each, which are waited for together. */
double alone_time(ps_device *d, void (*work)(void *arg), void *arg);

/* Prints what the device's operations take, a line each. copy: bytes a second that a copy inside the device reads and
 * writes. */
void alone_operations(ps_device *d, double copy);

/* The same for training steps, beside the CPU where that was built, for at most a few seconds. */
void alone_steps(ps_device *d);

#endif
