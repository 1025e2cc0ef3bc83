/* The library's own queries about a cluster, beside psclient.h. */
#ifndef CLIENT_API_CLUSTER_H
#define CLIENT_API_CLUSTER_H

#include "client/include/psclient/psclient.h"

/* Where TF_CONFIG says that worker `task` (counted with the chief) is, "host:port"; NULL when that is not known, or
 * there is no such worker. The cluster's. */
const char *cluster_worker_address(const ps_cluster *cluster, uint32_t task);

/* A copy, for ps_cluster_free(). PS_ERR_NOMEM. */
enum ps_err cluster_copy(const ps_cluster *cluster, ps_cluster **out, struct ps_error *e) PS_MUST_USE;

#endif
