/* Copies that go on while the device computes. On a device with memory of its own they need host memory that the device
 * can access directly ("pinned"): what ps_device_alloc_host() returns. The same calls take any host memory, and then,
 * or where device memory is host memory, work as ps_device_upload() and ps_device_download().
 *
 *     device_send(d, weights, staged, size);        // may start before what was called earlier is done
 *     ps_dense_forward(d, ..., weights, ...);       // reads them
 *     ...
 *     ps_dense_backward(d, ..., gradient, ...);
 *     device_fetch(d, staged, gradient, size, &e);  // as soon as it is computed, beside what is called next
 *     ps_relu_backward(d, ...);
 *     device_fetched(d, &e);                        // now it is in staged
 *
 * device_send(): nothing that was called before and still runs may use `to`; `from` stays as it is until the next
 * ps_device_finish() or ps_device_download(). device_fetch(): nothing that is called later may change `from` before
 * device_fetched(). */
#ifndef CLIENT_DEVICE_DEVICE_STAGING_H
#define CLIENT_DEVICE_DEVICE_STAGING_H

#include <stdbool.h>

#include "client/include/psclient/ps_device.h"

/* Whether host memory is what these copies need, or needs nothing, as device memory is host memory. */
bool device_staging_serves(ps_device *d, const void *host, size_t size);

/* Bytes. */
void device_send(ps_device *d, void *to, const void *from_host, size_t size);
enum ps_err device_fetch(ps_device *d, void *to_host, const void *from, size_t size, struct ps_error *e) PS_MUST_USE;
enum ps_err device_fetched(ps_device *d, struct ps_error *e) PS_MUST_USE; /* everything that was fetched */

#endif
