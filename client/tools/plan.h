/* What psrun will start: arguments and environment of each process, worked out from the options before anything runs.
 * Pure: nothing is started, looked up or bound here.
 *
 * Running out of memory ends the process: these are a tool's few strings, before anything was started. */
#ifndef CLIENT_TOOLS_PLAN_H
#define CLIENT_TOOLS_PLAN_H

#include "settings.h"
#include "words.h"

struct plan {
    const struct plan_settings *settings;
    char *const *program; /* argv of the workers, ended by NULL */
    const char *psd;      /* path of the server */
    const char *dir;      /* of this run: sockets, logs, live directories; "" until made */
    uint32_t cpus;        /* of this machine that psrun may use */
    uint16_t *ports;      /* [workers] reserved for the workers' addresses */
    char **addresses;     /* [shards] where the shards listen, once they said so */
};

/* Where the server may be, best first: --psd, $PSD_BIN, beside psrun, in the build tree beside it, in $PATH. exe: path
 * of the running psrun; env_path: $PATH. --psd with a slash, or PSD_BIN, is the only candidate then. */
void plan_psd_candidates(const char *psd, const char *psd_bin, const char *exe, const char *env_path,
                         struct words *out);

/* "DIR/shard-1": this shard's own directory in the run's; and where its data lives. Into out. */
void plan_shard_dir(const struct plan *p, uint32_t shard, char *out, size_t size);
void plan_live_dir(const struct plan *p, uint32_t shard, char *out, size_t size);

/* psd's arguments. ready_fd: the descriptor on which it says where it listens. */
void plan_shard_argv(const struct plan *p, uint32_t shard, int ready_fd, struct words *out);

/* The environment that psrun has, without what would tell a shard about another cluster, with --env. */
void plan_shard_env(const struct plan *p, char *const *environment, struct words *out);

/* The same with TF_CONFIG, PSD_SHARDS, PSD_WORKERS, PSD_TASK, PSD_CLUSTER, the threads, and, when columns > 0,
 * PSRUN_COLUMNS: the width of the terminal on which a worker may draw a live line. */
void plan_worker_env(const struct plan *p, uint32_t worker, int columns, char *const *environment, struct words *out);

/* TF_CONFIG's text; freed with free(). */
char *plan_tf_config(const struct plan *p, uint32_t worker);

/* "a,b": the shards' addresses; freed with free(). */
char *plan_shard_list(const struct plan *p);

/* Threads of each worker: --cpus-per-worker, or the machine's share, at least 1. */
uint32_t plan_threads(const struct plan *p);

#endif
