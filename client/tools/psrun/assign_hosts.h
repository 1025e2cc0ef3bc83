/* Which process of a cluster runs where: from --hosts, --ps-hosts and --worker-hosts, or TF_CONFIG's "cluster". Pure.
 */
#ifndef CLIENT_TOOLS_ASSIGN_HOSTS_H
#define CLIENT_TOOLS_ASSIGN_HOSTS_H

#include "client/tools/psrun/host_spec.h"
#include "client/tools/psrun/psrun_options.h"
#include "common/core/cluster/tfconfig.h"

struct assigned_task {
    enum tf_job job;
    uint32_t index;            /* of the job */
    struct host_spec host;     /* name "": none was given, this machine; a shard's port is 0 until it said so */
    bool remote;               /* through ssh */
    char address[ADDRESS_MAX]; /* as TF_CONFIG has it; "" until it is known: a shard's that has not said it, a worker's
                                * without a host */
    uint32_t together;         /* shards, for a shard, or workers on its machine */
};

struct host_assignment {
    struct assigned_task *tasks; /* shards, then workers: chief, workers, evaluators */
    uint32_t shards, workers;
    bool remote; /* any is */
    bool given;  /* the shards run already: nobody starts them, and their addresses are known */
};

/* What is said twice or cannot work is PS_ERR_INVALID or PS_ERR_CONFIG. config: TF_CONFIG's text, NULL: the settings
 * say. own: this machine's name. Ended by assign_hosts_finish(), also after a failure. */
enum ps_err assign_hosts_all(const struct psrun_options *settings, const char *config, const char *own,
                             struct host_assignment *out, struct ps_error *e) PS_MUST_USE;
void assign_hosts_finish(struct host_assignment *deal); /* accepts a zeroed one */

/* Whether the environment's TF_CONFIG (may be NULL) says what to start: nothing else does, and it has no task: it is
 * not that of a process which started us. *use false for one that is to be passed over. */
enum ps_err assign_hosts_from_env(const struct psrun_options *settings, const char *config, bool *use,
                                  struct ps_error *e) PS_MUST_USE;

/* "worker 3@hostb", "shard 0", "chief 0". */
void assign_hosts_name(const struct assigned_task *task, char *out, size_t size);

#endif
