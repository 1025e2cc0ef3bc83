/* TF_CONFIG: the text that says which processes a training cluster has and which of them this one is.
 *
 *     {"cluster": {"chief": ["host:port"], "worker": [...], "ps": [...], "evaluator": [...]},
 *      "task": {"type": "worker", "index": 0}}
 *
 * What TensorFlow takes is taken: a job may be an object of indices, {"1": "host:port"}, which may leave out workers
 * that this process does not know; an index may be a text; "master" is an older name of the chief; addresses may have
 * gRPC's schemes before them ("grpc://", "dns:///", "ipv4:"); a byte order mark is passed over. "sparseCluster", as
 * Kubeflow's operator writes it, is read where there is no "cluster".
 *
 * Text in, plain struct out; pure. Each error names the place: "TF_CONFIG: cluster.worker[1]: ...". Members beside
 * "cluster" and "task", and others than "type" and "index" in the task, are passed over: platforms add their own
 * ("environment", "rpc_layer"). Unknown jobs are errors. The evaluator may be left out of the cluster, as TensorFlow
 * does. */
#ifndef COMMON_CORE_CLUSTER_TFCONFIG_H
#define COMMON_CORE_CLUSTER_TFCONFIG_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

enum tf_job { TF_CHIEF, TF_WORKER, TF_PS, TF_EVALUATOR, TF_JOBS };

#define TF_ADDRESSES_MAX 65536 /* of one job */

struct tf_addresses {
    char **text;  /* without a scheme; each valid by address_parse(), or NULL: not known */
    uint32_t len; /* the highest index and one more */
    bool indexed; /* given as an object of indices: there may be others than these */
};

struct tf_config {
    struct tf_addresses jobs[TF_JOBS];
    enum tf_job type; /* this process */
    uint32_t index;   /* < jobs[type].len, its address known; 0 for an evaluator that the cluster leaves out */
};

/* Parse into *out, which tf_config_finish() ends, also after a failure. PS_ERR_CONFIG, PS_ERR_NOMEM. */
enum ps_err tf_config_parse(const char *text, struct tf_config *out, struct ps_error *e) PS_MUST_USE;

/* The cluster alone, for launchers, which need every address; *task says whether the text also has a task, which is not
 * checked. type and index stay 0. */
enum ps_err tf_config_parse_cluster(const char *text, struct tf_config *out, bool *task,
                                    struct ps_error *e) PS_MUST_USE;

/* The parameter servers alone, from "host:port,unix:/path,...": fills jobs[TF_PS]. source names the text in errors:
 * "PSD_SHARDS[1]: ...". */
enum ps_err tf_config_parse_list(const char *source, const char *list, struct tf_config *out,
                                 struct ps_error *e) PS_MUST_USE;

void tf_config_finish(struct tf_config *c); /* accepts a zeroed one */

/* "chief", "worker", "ps", "evaluator". */
const char *tf_job_name(enum tf_job job);

#endif
