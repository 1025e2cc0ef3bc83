/* Device modules: libraries that are loaded when a device of their kind is asked for (client/device/ps_device_module.h
 * defines what they provide). libpsclient-cuda.so is looked for
 *
 *   - where PSD_CUDA_MODULE in the environment says, and nowhere else when it says something;
 *   - beside libpsclient, then where the system keeps its libraries.
 *
 * A module stays loaded until the process ends. Any thread. */
#ifndef CLIENT_DEVICE_DEVICE_MODULE_H
#define CLIENT_DEVICE_DEVICE_MODULE_H

#include "client/device/ps_device_module.h"
#include "common/include/psclient/ps_err.h"

/* UNSUPPORTED says what is missing: the library, something that it needs itself, or the right version of it. */
enum ps_err device_module_load(const struct ps_device_module **out, struct ps_error *e) PS_MUST_USE;

#endif
