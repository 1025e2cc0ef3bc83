/* psrun's options, as a command line gives them. Pure. */
#ifndef CLIENT_TOOLS_PSRUN_PSRUN_OPTIONS_H
#define CLIENT_TOOLS_PSRUN_PSRUN_OPTIONS_H

#include "common/cli/command.h"

#define PSRUN_SHARDS_MAX  256
#define PSRUN_WORKERS_MAX 1024

/* psrun's options; the table that fills it is psrun_command. */
struct psrun_options {
    int64_t shards, workers; /* 0: not said; shards: see no_shards */
    int64_t cpus_per_worker, timeout_ms, grace_ms;
    int64_t restart_workers, restart_shards, restart_delay_ms, restart_delay_ms_max, restart_reset_ms;
    int64_t worker_port, connect_ms, silence_ms;
    const char *hosts, *ps_hosts, *worker_hosts, *cluster_config; /* what runs where: at most one of these ways */
    const char *ps;                                               /* shards that run already; NULL: psrun starts them */
    const char *chdir, *ssh, *remote_psrun, *remote_psd;
    const char *psd, *live_dir, *durable_dir, *cluster, *trace;
    struct option_list env, psd_options;
    bool unix_sockets, keep_servers, no_prefix, listen_any, ssh_all;
    bool no_shards; /* --shards 0: workers alone. psrun_options_check() sets it */
};
extern const struct command psrun_command;

/* What command_parse() cannot see: that --env is K=V, that there is a program, that workers have names in range. */
enum ps_err psrun_options_check(struct psrun_options *settings, const struct command_line *line,
                                struct ps_error *e) PS_MUST_USE;

#endif
