#include "settings.h"

#include <string.h>

#define FIELD(name) offsetof(struct plan_settings, name)

static const struct option plan_options[] = {
    {.name = "shards",
     .kind = OPTION_INT,
     .argument = "S",
     .fallback = "1",
     .min = 1,
     .max = PLAN_SHARDS_MAX,
     .offset = FIELD(shards),
     .help = "psd processes to start"},
    {.name = "workers",
     .kind = OPTION_INT,
     .argument = "W",
     .fallback = "1",
     .min = 1,
     .max = PLAN_WORKERS_MAX,
     .offset = FIELD(workers),
     .help = "copies of the program to start"},
    {.name = "cpus-per-worker",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 4096,
     .offset = FIELD(cpus_per_worker),
     .help = "compute threads of each worker: OPENBLAS_NUM_THREADS and OMP_NUM_THREADS (default: what the environment "
             "says, else this machine's cores divided by the workers, at least 1)"},
    {.name = "psd",
     .kind = OPTION_TEXT,
     .argument = "PATH",
     .offset = FIELD(psd),
     .help = "the server to run (default: $PSD_BIN, else psd beside psrun, in the build tree, or in $PATH)"},
    {.name = "psd-option",
     .kind = OPTION_LIST,
     .argument = "TEXT",
     .offset = FIELD(psd_options),
     .help = "one more argument for each psd, such as --grace=2; may be given many times"},
    {.name = "unix",
     .kind = OPTION_FLAG,
     .offset = FIELD(unix_sockets),
     .help = "connect through Unix sockets instead of TCP on 127.0.0.1"},
    {.name = "cluster",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .fallback = "local",
     .offset = FIELD(cluster),
     .help = "the cluster's name; a shard refuses workers of another one"},
    {.name = "live-dir",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .offset = FIELD(live_dir),
     .help = "keep the shards' data in DIR/shard-0 and so on, and leave it there (default: a new directory under "
             "/dev/shm, or under $TMPDIR or /tmp when that has no room, removed at the end)"},
    {.name = "keep-servers",
     .kind = OPTION_FLAG,
     .offset = FIELD(keep_servers),
     .help = "leave the shards running when the workers have ended, and say how to reach and stop them; what they log "
             "goes to files. Ctrl-C still stops all"},
    {.name = "restart-workers",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "0",
     .min = 0,
     .max = 1000000,
     .offset = FIELD(restart_workers),
     .help = "start a worker that failed again, up to N times in all; it joins as a new incarnation"},
    {.name = "env",
     .kind = OPTION_LIST,
     .argument = "K=V",
     .offset = FIELD(env),
     .help = "set a variable for every process; may be given many times"},
    {.name = "no-prefix",
     .kind = OPTION_FLAG,
     .offset = FIELD(no_prefix),
     .help = "print lines without the name of the process"},
    {.name = "timeout",
     .kind = OPTION_SECONDS,
     .argument = "SEC",
     .fallback = "0",
     .min = 0,
     .max = INT64_C(1000) * 3600 * 24 * 365,
     .offset = FIELD(timeout_ms),
     .help = "tear all down after this many seconds and exit with 124; 0: never"},
    {.name = "grace",
     .kind = OPTION_SECONDS,
     .argument = "SEC",
     .fallback = "10",
     .min = 0,
     .max = 3600 * 1000,
     .offset = FIELD(grace_ms),
     .help = "seconds between asking a process to stop (TERM) and killing it"},
};

const struct option_command plan_command = {
    .name = "psrun",
    .usage = "[options] -- program [args]",
    .about =
        "Start a cluster on this machine: shards of the parameter server and workers that run the program. Each worker "
        "finds the others through TF_CONFIG; all output comes here, each line behind the name of its process. When the "
        "workers have ended, or one failed, or Ctrl-C is pressed, everything is stopped; no process is left behind, "
        "not even when psrun itself is killed.\n"
        "\n"
        "  psrun --shards 2 --workers 3 -- ./train --epochs 5",
    .after = "Each worker's environment has TF_CONFIG, PSD_CLUSTER, PSD_SHARDS, PSD_WORKERS and PSD_TASK, and, when "
             "psrun prints to a terminal, PSRUN_COLUMNS: the columns that a live progress line, redrawn with \\r, may "
             "take.\n"
             "\n"
             "Exit status: 0 when every worker ended with 0; else the status of the first that failed, 128 + N when "
             "signal N killed it, and the same for a shard that ended early; 124 after --timeout; 130 after Ctrl-C; 2 "
             "when the options are wrong; 1 when the cluster could not be started.",
    .options = plan_options,
    .options_len = ARRAY_LEN(plan_options),
    .program = true,
};

enum ps_err
plan_check(const struct plan_settings *settings, const struct option_rest *rest, struct ps_error *e)
{
    for (size_t i = 0; i < settings->env.len; i++) {
        const char *text = settings->env.text[i], *equals = strchr(text, '=');

        if (equals == NULL || equals == text)
            return ps_fail(e, PS_ERR_INVALID, "--env: expected K=V, got '%.64s'", text);
    }
    if (settings->cluster[0] == '\0')
        return ps_fail(e, PS_ERR_INVALID, "--cluster: a name may not be empty");
    if (rest->len == 0)
        return ps_fail(e, PS_ERR_INVALID, "expected a program to run: psrun [options] -- program [args]");
    return PS_OK;
}
