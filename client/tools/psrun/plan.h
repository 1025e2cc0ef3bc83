/* What psrun will start: arguments and environment of each process, worked out from the options before anything runs.
 * Pure: nothing is started, looked up or bound here.
 *
 * Running out of memory ends the process: these are a tool's few strings, before anything was started. */
#ifndef CLIENT_TOOLS_PLAN_H
#define CLIENT_TOOLS_PLAN_H

#include "client/tools/psrun/deal.h"
#include "client/tools/psrun/remote.h"
#include "client/tools/psrun/settings.h"
#include "client/tools/shared/words.h"

struct plan {
    const struct plan_settings *settings;
    struct deal deal;       /* what runs where; addresses are filled in as they become known */
    char *const *program;   /* argv of the workers, ended by NULL */
    const char *psd;        /* path of the server; NULL when no shard runs here */
    const char *work_dir;   /* of the workers */
    const char *dir;        /* of this run: sockets, logs, live directories; "" until made */
    const char *trace_dir;  /* --trace, whole; NULL: nobody asks */
    const char *remote_dir; /* the same on other machines, where it is made when it is wanted */
    const char *token;      /* name:role:secret, of shards and workers; NULL: they have none */
    char *const *carried;   /* plan_carried(), ended by NULL; NULL: nothing */
    uint32_t cpus;          /* of this machine that psrun may use */
};

const struct task *plan_shard(const struct plan *p, uint32_t shard);
const struct task *plan_worker(const struct plan *p, uint32_t worker);

/* Where the server may be, best first: --psd, $PSD_BIN, beside psrun, in the build tree beside it, in $PATH. exe: path
 * of the running psrun; env_path: $PATH. --psd with a slash, or PSD_BIN, is the only candidate then. */
void plan_psd_candidates(const char *psd, const char *psd_bin, const char *exe, const char *env_path,
                         struct words *out);

/* ---- shards ---- */

#define PLAN_PATH_MAX 4096

/* "DIR/shard-1": this shard's own directory in the run's; where its data lives; and where it is saved, "" for nowhere.
 * Into out. */
void plan_shard_dir(const struct plan *p, uint32_t shard, char *out, size_t size);
void plan_live_dir(const struct plan *p, uint32_t shard, char *out, size_t size);
void plan_durable_dir(const struct plan *p, uint32_t shard, char *out, size_t size);

/* What has to be made before it starts, parents first; the last is where its data lives. What has to be removed after
 * it, "" for nothing, into remove_dir. */
void plan_shard_dirs(const struct plan *p, uint32_t shard, struct words *dirs, char *remove_dir, size_t size);

/* psd's arguments. ready_fd: the descriptor on which it says where it listens. A shard whose address is known listens
 * there again. */
void plan_shard_argv(const struct plan *p, uint32_t shard, int ready_fd, struct words *out);

/* How many shards divide the memory of this one's machine; 0 when psd's own options say what it takes. */
uint32_t plan_memory_shards(const struct plan *p, uint32_t shard);

/* An environment without what would tell a process about another cluster. */
void plan_env_base(char *const *environment, struct words *out);

/* The environment that psrun has, as a shard gets it: the base with the token, --trace and --env, and without a
 * service's directory, which would be that of all shards. */
void plan_shard_env(const struct plan *p, uint32_t shard, char *const *environment, struct words *out);

/* It said where it listens: now its address is known. PS_ERR_UNREACHABLE when other machines cannot reach that. */
enum ps_err plan_shard_listens(struct plan *p, uint32_t shard, const char *ready, struct ps_error *e) PS_MUST_USE;

/* ---- workers ---- */

/* The base with PSD_TOKEN, --trace, --env, TF_CONFIG, PSD_SHARDS, PSD_WORKERS, PSD_TASK, PSD_CLUSTER, PWD, the threads
 * of one that runs here, and, when columns > 0, PSRUN_COLUMNS: the width of the terminal on which a worker may draw a
 * live line. */
void plan_worker_env(const struct plan *p, uint32_t worker, int columns, char *const *environment, struct words *out);

/* TF_CONFIG's text; freed with free(). */
char *plan_tf_config(const struct plan *p, uint32_t worker);

/* "a,b": the shards' addresses; freed with free(). */
char *plan_shard_list(const struct plan *p);

/* Threads of each worker here: --cpus-per-worker, or the machine's share, at least 1. */
uint32_t plan_threads(const struct plan *p);

/* Tell OpenBLAS and OpenMP; always: also when the environment says otherwise. */
void plan_set_threads(struct words *env, uint32_t threads, bool always);

/* ---- on other machines ---- */

/* What of psrun's environment its workers there have as well: where their certificates lie (PSD_TLS_CA, PSD_TLS_CERT,
 * PSD_TLS_KEY) and what the shards' say (PSD_TLS_NAME). Names of files, never what is in them. */
void plan_carried(char *const *environment, struct words *out);

/* Orders for the agent (remote.h), ended by remote_order_finish(); ssh's argv for any. */
void plan_shard_order(const struct plan *p, uint32_t shard, int ready_fd, struct remote_order *out);
void plan_worker_order(const struct plan *p, uint32_t worker, int columns, struct remote_order *out);
void plan_ssh_argv(const struct plan *p, const struct task *task, struct words *out);

#endif
