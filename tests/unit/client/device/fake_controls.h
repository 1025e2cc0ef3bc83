/* What modules for tests export besides their table, and what they do for it. */
#ifndef TESTS_UNIT_CLIENT_DEVICE_FAKE_CONTROLS_H
#define TESTS_UNIT_CLIENT_DEVICE_FAKE_CONTROLS_H

#include <stdbool.h>
#include <stddef.h>

/* From now on every result is a failure, as that of a device that broke: of all devices (1), or, from 2 on, of device
 * fails - 2. 0: no longer. */
__attribute__((visibility("default"))) void fake_module_fail(int fails);

/* The failures begin after so many other results. */
__attribute__((visibility("default"))) void fake_module_fail_later(int fails, long results);

/* Bytes that went between host and devices, either way, so far. */
__attribute__((visibility("default"))) unsigned long fake_module_copied(void);

/* How often the host has waited for something that was begun, so far. */
__attribute__((visibility("default"))) unsigned long fake_module_waits(void);

/* ---- For the modules ---- */

/* A result of this device is made: whether it fails. */
bool fake_controls_fail(unsigned number);

/* Whether the next one will. */
bool fake_controls_due(unsigned number);

/* So many bytes go between host and a device. */
void fake_controls_count(size_t bytes);

/* The host waits for what a device does. */
void fake_controls_wait(void);

#endif
