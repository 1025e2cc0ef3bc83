/* Which process of a cluster runs where: from --hosts, --ps-hosts and --worker-hosts, or TF_CONFIG's "cluster". Pure.
 */
#ifndef CLIENT_TOOLS_DEAL_H
#define CLIENT_TOOLS_DEAL_H

#include "client/tools/psrun/host.h"
#include "client/tools/psrun/settings.h"
#include "common/core/cluster/tfconfig.h"

struct task {
    enum tf_job job;
    uint32_t index;            /* of the job */
    struct host host;          /* name "": none was given, this machine; a shard's port is 0 until it said so */
    bool remote;               /* through ssh */
    char address[ADDRESS_MAX]; /* as TF_CONFIG has it; "" until it is known: a shard's that has not said it, a worker's
                                * without a host */
    uint32_t together;         /* shards, for a shard, or workers on its machine */
};

struct deal {
    struct task *tasks; /* shards, then workers: chief, workers, evaluators */
    uint32_t shards, workers;
    bool remote; /* any is */
    bool given;  /* the shards run already: nobody starts them, and their addresses are known */
};

/* What is said twice or cannot work is PS_ERR_INVALID or PS_ERR_CONFIG. config: TF_CONFIG's text, NULL: the settings
 * say. own: this machine's name. Ended by deal_finish(), also after a failure. */
enum ps_err deal_tasks(const struct plan_settings *settings, const char *config, const char *own, struct deal *out,
                       struct ps_error *e) PS_MUST_USE;
void deal_finish(struct deal *deal); /* accepts a zeroed one */

/* Whether the environment's TF_CONFIG (may be NULL) says what to start: nothing else does, and it has no task: it is
 * not that of a process which started us. *use false for one that is to be passed over. */
enum ps_err deal_from_environment(const struct plan_settings *settings, const char *config, bool *use,
                                  struct ps_error *e) PS_MUST_USE;

/* "worker 3@hostb", "shard 0", "chief 0". */
void deal_name(const struct task *task, char *out, size_t size);

#endif
