/* A probe (probe.h) that proves a token first. */
#ifndef TESTS_SYSTEM_PROVEN_PROBE_H
#define TESTS_SYSTEM_PROVEN_PROBE_H

#include "tests/system/probe.h"

/* Connect, and prove this token ("name:secret") of this cluster. *why: what refused it, or PS_OK. False: refused. */
bool proven_probe_connect(struct probe *p, const char *address, const char *cluster, const char *token,
                          enum ps_err *why);

/* The same, then HELLO: as an observer where task < 0, else as that worker of a job for `workers`. Fails the running
 * test when psd does not welcome it. token NULL: it proves none. */
void proven_probe_enter(struct probe *p, const char *address, const char *cluster, const char *token, int task,
                        uint32_t workers);

#endif
