/* ps_cluster.h: who is where: the shards of a cluster, its workers, and which of them this process is. Read from
 * TF_CONFIG, from a list, or from the environment. Part of psclient.h.
 *
 * Parameters:
 *   cluster  from ps_cluster_from_env() or another of the functions that make one
 *   out      the cluster, which the caller frees with ps_cluster_free(); NULL after an error
 *   error    filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for each ps_cluster; different ones are independent. Nothing changes a cluster but
 *   ps_cluster_set_name(), so until it is called any number of threads may read one. */
#ifndef PS_CLUSTER_H
#define PS_CLUSTER_H

#include <stdint.h>

#include "ps_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "0.1.0".
 *
 * Returns: a static string.
 * Threads: any.
 * Since: 0.1 */
PS_API const char *ps_version(void);

/* A cluster: addresses of shards, number of workers, and this process's place among them.
 * Since: 0.1 */
typedef struct ps_cluster ps_cluster;

/* What this process is, as TF_CONFIG's task.type says.
 * Since: 0.1 */
enum ps_role { PS_ROLE_CHIEF, PS_ROLE_WORKER, PS_ROLE_PS, PS_ROLE_EVALUATOR };

/* ---- Making one -------------------------------------------------------------------------------------------------- */

/* Parse the text of a TF_CONFIG.
 *
 *     {"cluster": {"chief": ["host:port"], "worker": [...], "ps": [...], "evaluator": [...]},
 *      "task": {"type": "worker", "index": 0}}
 *
 * What TensorFlow takes is taken: an index may be a text, a job an object, {"1": "host:port"}, which may leave out
 * workers (the number of workers is the highest index and one more), "master" is the chief. Members that are not known
 * are passed over, except jobs.
 *
 * ps addresses are "host:port", "[v6]:port" or "unix:/path". Workers are numbered as one list: the chief first, then
 * workers; when there is no chief, worker 0 is chief. Without ps there are workers alone, which may train together
 * (ps_group.h), but have no shards to open a client of.
 *
 * Parameters:
 *   json  the text, terminated
 * Errors:
 *   PS_ERR_CONFIG  the text is NULL or not valid, with the place: "TF_CONFIG: cluster.worker[1]: ..."; too many shards
 *                  or workers
 *   PS_ERR_NOMEM   no memory
 * Since: 0.1 */
PS_API enum ps_err ps_cluster_from_json(const char *json, ps_cluster **out, struct ps_error *error) PS_MUST_USE;

/* Make a cluster from the environment.
 *
 * TF_CONFIG when set, else PSD_SHARDS ("host:port,host:port") with PSD_WORKERS (count, default 1) and PSD_TASK (this
 * worker's index, default 0). Where TF_CONFIG leaves out workers, PSD_WORKERS, when set, says how many there are.
 * PSD_CLUSTER, when set, is the cluster's name in both cases. A variable that is set to nothing counts as not set; what
 * a file has around a value (a Secret's line end, blanks, a byte order mark) is not part of it.
 *
 * Errors:
 *   PS_ERR_CONFIG  neither TF_CONFIG nor PSD_SHARDS is set, or one of the variables is not valid: says which
 *   PS_ERR_NOMEM   no memory
 * Threads: not while another thread changes the environment.
 * Since: 0.1 */
PS_API enum ps_err ps_cluster_from_env(ps_cluster **out, struct ps_error *error) PS_MUST_USE;

/* Make a cluster from a list of shard addresses.
 *
 * Parameters:
 *   shards   "host:port,unix:/path,..."
 *   workers  how many workers the job has, at least 1
 *   task     this worker's index, below workers
 * Errors:
 *   PS_ERR_CONFIG  no address, one that is not valid, or a number out of its range
 *   PS_ERR_NOMEM   no memory
 * Since: 0.1 */
PS_API enum ps_err ps_cluster_from_list(const char *shards, uint32_t workers, uint32_t task, ps_cluster **out,
                                        struct ps_error *error) PS_MUST_USE;

/* Free a cluster.
 *
 * Parameters:
 *   cluster  or NULL
 * Since: 0.1 */
PS_API void ps_cluster_free(ps_cluster *cluster);

/* ---- What it says ------------------------------------------------------------------------------------------------ */

/* What this process is, and how many others there are.
 *
 * Returns:
 *   ps_cluster_role()      this process's role
 *   ps_cluster_task()      its index among chief and workers; 0 for other roles
 *   ps_cluster_index()     its index within its own job, as TF_CONFIG's task.index
 *   ps_cluster_workers()   number of workers, the chief counted
 *   ps_cluster_shards()    number of shards
 *   ps_cluster_is_chief()  nonzero for the chief, and for worker 0 where there is none
 * Since: 0.1 */
PS_API enum ps_role ps_cluster_role(const ps_cluster *cluster);
PS_API uint32_t ps_cluster_task(const ps_cluster *cluster);
PS_API uint32_t ps_cluster_index(const ps_cluster *cluster);
PS_API uint32_t ps_cluster_workers(const ps_cluster *cluster);
PS_API uint32_t ps_cluster_shards(const ps_cluster *cluster);
PS_API int ps_cluster_is_chief(const ps_cluster *cluster);

/* The address of a shard.
 *
 * Parameters:
 *   shard  from 0 on
 * Returns: the address, owned by the cluster; NULL for a shard that is not there.
 * Since: 0.1 */
PS_API const char *ps_cluster_shard_address(const ps_cluster *cluster, uint32_t shard);

/* The cluster's name, by which shards know their own clients: shards of another name refuse this client.
 *
 * Returns: the name, "psd" unless it was set; owned by the cluster, until it is set.
 * Since: 0.1 */
PS_API const char *ps_cluster_name(const ps_cluster *cluster);

/* Set the cluster's name.
 *
 * Parameters:
 *   name  UTF-8 without control characters, not empty; copied
 * Errors:
 *   PS_ERR_INVALID  empty, too long, or not such UTF-8
 *   PS_ERR_NOMEM    no memory; the name is as it was
 * Since: 0.1 */
PS_API enum ps_err ps_cluster_set_name(ps_cluster *cluster, const char *name, struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
