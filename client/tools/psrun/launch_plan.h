/* What psrun will start: arguments and environment of each process, computed from the options before anything runs.
 * Pure: nothing is started, looked up or bound here.
 *
 * Running out of memory ends the process: these are a tool's few strings, before anything was started. */
#ifndef CLIENT_TOOLS_PSRUN_LAUNCH_PLAN_H
#define CLIENT_TOOLS_PSRUN_LAUNCH_PLAN_H

#include "client/tools/psrun/assign_hosts.h"
#include "client/tools/psrun/psrun_options.h"
#include "client/tools/psrun/remote.h"
#include "client/tools/shared/strlist.h"

struct launch_plan {
    const struct psrun_options *settings;
    struct host_assignment assigned; /* what runs where; addresses are filled in as they become known */
    char *const *program;            /* argv of the workers, ended by NULL */
    const char *psd;                 /* path of the server; NULL when no shard runs here */
    const char *work_dir;            /* of the workers */
    const char *dir;                 /* of this run: sockets, logs, live directories; "" until made */
    const char *trace_dir;           /* --trace, as a full path; NULL: not asked for */
    const char *remote_dir;          /* the same on other machines, where it is made when needed */
    const char *token;               /* name:role:secret, of shards and workers; NULL: they have none */
    char *const *carried;            /* launch_plan_carried(), ended by NULL; NULL: nothing */
    uint32_t cpus;                   /* of this machine that psrun may use */
};

const struct assigned_task *launch_plan_shard(const struct launch_plan *p, uint32_t shard);
const struct assigned_task *launch_plan_worker(const struct launch_plan *p, uint32_t worker);

/* Where the server may be, best first: --psd, $PSD_BIN, beside psrun, in the build tree beside it, in $PATH. exe: path
 * of the running psrun; env_path: $PATH. --psd with a slash, or PSD_BIN, is the only candidate then. */
void launch_plan_psd_candidates(const char *psd, const char *psd_bin, const char *exe, const char *env_path,
                                struct strlist *out);

/* ---- shards ---- */

#define LAUNCH_PLAN_PATH_MAX 4096

/* "DIR/shard-1": this shard's own directory in the run's; where its data lives; and where it is saved, "" for nowhere.
 * Into out. */
void launch_plan_shard_dir(const struct launch_plan *p, uint32_t shard, char *out, size_t size);
void launch_plan_live_dir(const struct launch_plan *p, uint32_t shard, char *out, size_t size);
void launch_plan_durable_dir(const struct launch_plan *p, uint32_t shard, char *out, size_t size);

/* The directories to make before it starts, parents first; the last is where its data lives. The directory to remove
 * after it, "" for none, into remove_dir. */
void launch_plan_shard_dirs(const struct launch_plan *p, uint32_t shard, struct strlist *dirs, char *remove_dir,
                            size_t size);

/* psd's arguments. ready_fd: the descriptor on which it reports where it listens. A shard whose address is known
 * listens there again. */
void launch_plan_shard_argv(const struct launch_plan *p, uint32_t shard, int ready_fd, struct strlist *out);

/* How many shards divide the memory of this one's machine; 0 when psd's own options say what it takes. */
uint32_t launch_plan_memory_shards(const struct launch_plan *p, uint32_t shard);

/* An environment without variables that describe another cluster. */
void launch_plan_env_base(char *const *environment, struct strlist *out);

/* The environment that psrun has, as a shard gets it: the base with the token, --trace and --env, and without a
 * service's directory, which would be that of all shards. */
void launch_plan_shard_env(const struct launch_plan *p, uint32_t shard, char *const *environment, struct strlist *out);

/* The shard has reported where it listens: now its address is known. PS_ERR_UNREACHABLE when other machines cannot
 * reach that. */
enum ps_err launch_plan_shard_listens(struct launch_plan *p, uint32_t shard, const char *ready,
                                      struct ps_error *e) PS_MUST_USE;

/* ---- workers ---- */

/* The base with PSD_TOKEN, --trace, --env, TF_CONFIG, PSD_SHARDS, PSD_WORKERS, PSD_TASK, PSD_CLUSTER, PWD, the threads
 * of one that runs here, and, when columns > 0, PSRUN_COLUMNS: the width of the terminal on which a worker may draw a
 * live line. */
void launch_plan_worker_env(const struct launch_plan *p, uint32_t worker, int columns, char *const *environment,
                            struct strlist *out);

/* TF_CONFIG's text; freed with free(). */
char *launch_plan_tf_config(const struct launch_plan *p, uint32_t worker);

/* "a,b": the shards' addresses; freed with free(). */
char *launch_plan_shard_list(const struct launch_plan *p);

/* Threads of each worker here: --cpus-per-worker, or the machine's share, at least 1. */
uint32_t launch_plan_threads(const struct launch_plan *p);

/* Tell OpenBLAS and OpenMP; always: also when the environment sets them. */
void launch_plan_set_threads(struct strlist *env, uint32_t threads, bool always);

/* ---- on other machines ---- */

/* The variables of psrun's environment that its workers there have as well: where their certificates lie (PSD_TLS_CA,
 * PSD_TLS_CERT, PSD_TLS_KEY) and the name in the shards' (PSD_TLS_NAME). Names of files, never what is in them. */
void launch_plan_carried(char *const *environment, struct strlist *out);

/* Orders for the agent (remote.h), ended by remote_order_finish(); ssh's argv for any. */
void launch_plan_shard_order(const struct launch_plan *p, uint32_t shard, int ready_fd, struct remote_order *out);
void launch_plan_worker_order(const struct launch_plan *p, uint32_t worker, int columns, struct remote_order *out);
void launch_plan_ssh_argv(const struct launch_plan *p, const struct assigned_task *task, struct strlist *out);

#endif
