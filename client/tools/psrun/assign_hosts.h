/* Which process of a cluster runs where: from --hosts, --ps-hosts and --worker-hosts, or TF_CONFIG's "cluster". Pure.
 */
#ifndef CLIENT_TOOLS_PSRUN_ASSIGN_HOSTS_H
#define CLIENT_TOOLS_PSRUN_ASSIGN_HOSTS_H

#include "client/tools/psrun/host_spec.h"
#include "client/tools/psrun/psrun_options.h"
#include "common/core/cluster/tfconfig.h"

struct assigned_task {
    enum tf_job job;
    uint32_t index;            /* of the job */
    struct host_spec host;     /* name "": none was given, this machine; a shard's port is 0 until it reports it */
    bool remote;               /* through ssh */
    char address[ADDRESS_MAX]; /* as TF_CONFIG has it; "" until it is known: a shard's that has not reported it, a
                                * worker's without a host */
    uint32_t together;         /* shards, for a shard, or workers on its machine */
};

struct host_assignment {
    struct assigned_task *tasks; /* shards, then workers: chief, workers, evaluators */
    uint32_t shards, workers;
    bool remote; /* any is */
    bool given;  /* the shards run already: psrun does not start them, and their addresses are known */
};

/* Settings that are given twice or cannot work are PS_ERR_INVALID or PS_ERR_CONFIG. config: TF_CONFIG's text, NULL:
 * take the settings. own: this machine's name. Ended by assign_hosts_finish(), also after a failure. */
enum ps_err assign_hosts_all(const struct psrun_options *settings, const char *config, const char *own,
                             struct host_assignment *out, struct ps_error *e) PS_MUST_USE;
void assign_hosts_finish(struct host_assignment *deal); /* accepts a zeroed one */

/* Whether the environment's TF_CONFIG (may be NULL) says what to start: nothing else does, and it has no task, so it is
 * not that of a process which started us. *use: false for one that is to be ignored. */
enum ps_err assign_hosts_from_env(const struct psrun_options *settings, const char *config, bool *use,
                                  struct ps_error *e) PS_MUST_USE;

/* "worker 3@hostb", "shard 0", "chief 0". */
void assign_hosts_name(const struct assigned_task *task, char *out, size_t size);

#endif
