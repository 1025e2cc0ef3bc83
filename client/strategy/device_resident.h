/* Variables that stay on the replicas' devices from step to step: values, slots and gradients. Host memory has one
 * copy, as of the last fetch.
 *
 *     start, restore   host copy ──send──► values and slots of every device that has them
 *     step             gradients ──gang──► their sum, on every device ──► update, where slots are ──► values
 *     refresh, save    host copy ◄──fetch── the first replica's device
 *
 * With other workers, where the devices reduce by themselves: their sum, before the update, is that of all workers
 * (ps_device_group.h).
 *
 * With shards (ps_tensors.h), by way of the same host copy:
 *
 *     pull             shards ──► host copy ──► values of the first replica's device ──gang──► those of the others
 *     push             of the first replica's device, gradients, or how far values are from the base of a round,
 *                          ──► shards
 *
 * Variables stay there where networks are bound to the strategy, on devices of one kind whose memory is not host memory
 * and that can reduce among each other. Elsewhere variables lie in host memory, and networks send and fetch them.
 *
 * Each replica has values and gradients of its own, fused: all variables one behind the other, so that a gang reduces
 * them in one operation. Slots are where updates are made: with every replica where each has a copy of the variables
 * (STRATEGY_COPIES), else with the first one, from which the others take the values.
 *
 * A device that fails in the middle of an update leaves variables in an unknown state: the error is kept, and every
 * later step, fetch and save is refused with it, until a checkpoint is restored. Before that nothing was changed, and
 * the step may be done again. The host's copy stays what it was.
 *
 * One thread at a time, while no replica computes. */
#ifndef CLIENT_STRATEGY_DEVICE_RESIDENT_H
#define CLIENT_STRATEGY_DEVICE_RESIDENT_H

#include "client/include/psclient/ps_device_group.h"
#include "client/strategy/strategy.h"

struct device_resident;

/* Sets s->resident where variables can stay on devices, else leaves it NULL. Before the first variable is added. */
enum ps_err device_resident_new(ps_strategy *s, struct ps_error *e) PS_MUST_USE;
void device_resident_free(struct device_resident *m); /* accepts NULL */

/* All variables are added: give them places, and pass these to replicas and networks. NOMEM names the device. */
enum ps_err device_resident_alloc(ps_strategy *s, ps_network *const networks[], struct ps_error *e) PS_MUST_USE;

/* Host copy to devices: values and slots; clears the error of an update that failed in the middle. */
enum ps_err device_resident_send(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

/* The newest values into the host's copy, with slots or without; nothing to do where they are there. */
enum ps_err device_resident_fetch(ps_strategy *s, bool slots, struct ps_error *e) PS_MUST_USE;

/* The sum of the replicas' gradients, in the gang's order, into those of all. */
enum ps_err device_resident_reduce(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

/* As strategy_update(). */
enum ps_err device_resident_update(ps_strategy *s, float scale, struct ps_error *e) PS_MUST_USE;

/* The first replica's gradients, and then those of all, become the sum over the workers. */
enum ps_err device_resident_reduce_all(ps_strategy *s, ps_device_group *group, struct ps_error *e) PS_MUST_USE;

/* ---- With shards ---- */

/* Of the first replica: [vars], of its device's memory. */
float *const *device_resident_values(const ps_strategy *s);
const float *const *device_resident_gradients(const ps_strategy *s);

/* Those values were pulled, through the host's copy: give them to the other replicas. */
enum ps_err device_resident_pulled(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

/* A second copy of the values, the base: allocate it; set it to the values of now; let the first replica's gradients be
 * the base minus the values. */
enum ps_err device_resident_add_base(ps_strategy *s, struct ps_error *e) PS_MUST_USE;
void device_resident_set_base(ps_strategy *s);
enum ps_err device_resident_difference(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

#endif
