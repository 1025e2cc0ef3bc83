/* Devices of several processes, one of each, that reduce among each other without going through the host: between GPUs
 * by NCCL. A team is what a gang (device_gang.h) is in one process; but here others may be late, or gone, so no call
 * waits:
 *
 *     device_team_id(device, id, &error);                            // one of them, which sends it to the others
 *     device_team_open(device, id, ranks, rank, &team, &error);      // all
 *     while (!done && device_team_poll(team, &done, &error) == PS_OK)
 *         ...                                                        // or give up: device_team_close()
 *     device_team_all_reduce(team, tensor, elements, DEVICE_GANG_SUM, &error);
 *     while (!done && ...)
 *
 * Between the begin of something and its end nothing else is called of the device. Each begins the same, in the same
 * order, with the same elements; this is not checked here. After an error a team can only be closed.
 * client/strategy/device_group.c does all this for the ranks of a group. */
#ifndef CLIENT_DEVICE_DEVICE_TEAM_H
#define CLIENT_DEVICE_DEVICE_TEAM_H

#include <stdbool.h>

#include "client/device/device_gang.h"

#define DEVICE_TEAM_ID       128 /* bytes */
#define DEVICE_TEAM_IDENTITY 16

struct device_team;

/* Whether this kind of device has teams at all. */
bool device_team_is_known(const ps_device *d);

/* Which device of all machines it is: a team has each once. Zeros: that is not known, or does not matter. */
void device_team_identity(ps_device *d, unsigned char identity[DEVICE_TEAM_IDENTITY]);

/* UNSUPPORTED: it has none, or a library for them is missing. */
enum ps_err device_team_id(ps_device *d, unsigned char id[DEVICE_TEAM_ID], struct ps_error *e) PS_MUST_USE;

/* Begins to join; done when all have. d must outlive the team. ranks >= 1, rank below. */
enum ps_err device_team_open(ps_device *d, const unsigned char id[DEVICE_TEAM_ID], uint32_t ranks, uint32_t rank,
                             struct device_team **out, struct ps_error *e) PS_MUST_USE;

/* An unfinished operation is aborted, and the device is free of it when this returns; the others may be notified, or
 * wait. Accepts NULL. */
void device_team_close(struct device_team *team);

/* Begin: in place, [elements] float32 of the device's memory, elements >= 1; reads the results of earlier
 * operations. */
enum ps_err device_team_all_reduce(struct device_team *team, float *tensor, size_t elements, enum device_gang_op op,
                                   struct ps_error *e) PS_MUST_USE;
enum ps_err device_team_broadcast(struct device_team *team, float *tensor, size_t elements, uint32_t root,
                                  struct ps_error *e) PS_MUST_USE;

/* Sets *done: what was begun is. Never waits. */
enum ps_err device_team_poll(struct device_team *team, bool *done, struct ps_error *e) PS_MUST_USE;

/* ---- What a kind of device provides ---- */

struct device_team_kind {
    void (*identity)(ps_device *d, unsigned char identity[DEVICE_TEAM_IDENTITY]);
    enum ps_err (*id)(ps_device *d, unsigned char id[DEVICE_TEAM_ID], struct ps_error *e);
    /* Sets *state, which close() frees. */
    enum ps_err (*open)(ps_device *d, const unsigned char id[DEVICE_TEAM_ID], uint32_t ranks, uint32_t rank,
                        void **state, struct ps_error *e);
    void (*close)(void *state);
    enum ps_err (*all_reduce)(void *state, float *tensor, size_t elements, float divisor, struct ps_error *e);
    enum ps_err (*broadcast)(void *state, float *tensor, size_t elements, uint32_t root, struct ps_error *e);
    enum ps_err (*poll)(void *state, bool *done, struct ps_error *e);
};

#endif
