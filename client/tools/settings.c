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
     .usual = "what the environment says, else this machine's cores divided by the workers",
     .min = 1,
     .max = 4096,
     .offset = FIELD(cpus_per_worker),
     .help = "compute threads of each worker: OPENBLAS_NUM_THREADS and OMP_NUM_THREADS"},
    {.name = "psd",
     .kind = OPTION_FILE,
     .argument = "PATH",
     .usual = "$PSD_BIN, else psd beside psrun, in the build tree or in $PATH",
     .offset = FIELD(psd),
     .help = "the server to run"},
    {.name = "psd-option",
     .kind = OPTION_LIST,
     .argument = "TEXT",
     .offset = FIELD(psd_options),
     .help = "one more argument for each psd, such as --grace=2s"},
    {.name = "unix",
     .kind = OPTION_FLAG,
     .offset = FIELD(unix_sockets),
     .help = "connect through Unix sockets instead of TCP on 127.0.0.1"},
    {.name = "cluster",
     .kind = OPTION_NAME,
     .argument = "NAME",
     .fallback = "local",
     .offset = FIELD(cluster),
     .help = "the cluster's name; a shard refuses workers of another one"},
    {.name = "live-dir",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .usual = "a new directory under /dev/shm, or under $TMPDIR or /tmp when that has no room, removed at the end",
     .offset = FIELD(live_dir),
     .help = "keep the shards' data in DIR/shard-0 and so on, and leave it there"},
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
     .help = "set a variable for every process"},
    {.name = "no-prefix",
     .kind = OPTION_FLAG,
     .offset = FIELD(no_prefix),
     .help = "print lines without the name of the process"},
    {.name = "timeout",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "0",
     .min = 0,
     .max = INT64_C(1000) * 3600 * 24 * 365,
     .offset = FIELD(timeout_ms),
     .help = "tear all down after this time and exit with 124; in seconds or with ms, s, m, h; 0: never"},
    {.name = "grace",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "10s",
     .min = 0,
     .max = 3600 * 1000,
     .offset = FIELD(grace_ms),
     .help = "between asking a process to stop (TERM) and killing it"},
};

#define ENTRIES (const struct command_entry[])

static const struct command_section plan_sections[] = {
    {"Environment",
     ENTRIES{{"PSD_BIN", "the server to run, when --psd does not say it"},
             {"TF_CONFIG", "each worker's: the cluster, and which task of it this is"},
             {"PSD_CLUSTER", "each worker's: the cluster's name"},
             {"PSD_SHARDS", "each worker's: the shards' addresses, in order"},
             {"PSD_WORKERS, PSD_TASK", "each worker's: how many there are, and which one this is"},
             {"PSRUN_COLUMNS", "each worker's, when psrun prints to a terminal: the columns that a live progress line, "
                               "redrawn with \\r, may take"},
             {NULL, NULL}}},
    {"Exit status",
     ENTRIES{{"0", "every worker ended with 0"},
             {"1", "the cluster could not be started"},
             {"2", "the options are wrong"},
             {"124", "--timeout passed"},
             {"130", "Ctrl-C was pressed"},
             {"other", "the status of the first worker that failed, 128 + N when signal N killed it; the same for a "
                       "shard that ended early"},
             {NULL, NULL}}},
    {NULL, NULL},
};

const struct command plan_command = {
    .name = "psrun",
    .manual = 1,
    .title = "start a cluster on this machine and run workers on it",
    .about =
        "Start a cluster on this machine: shards of the parameter server and workers that run the program. Each worker "
        "finds the others through TF_CONFIG; all output comes here, each line behind the name of its process. When the "
        "workers have ended, or one failed, or Ctrl-C is pressed, everything is stopped; no process is left behind, "
        "not even when psrun itself is killed.\n"
        "\n"
        "  psrun --shards 2 --workers 3 -- ./train --epochs 5",
    .operands = "program [args]",
    .program = true,
    .options = plan_options,
    .options_len = ARRAY_LEN(plan_options),
    .sections = plan_sections,
};

enum ps_err
plan_check(const struct plan_settings *settings, const struct command_line *line, struct ps_error *e)
{
    for (size_t i = 0; i < settings->env.len; i++) {
        const char *text = settings->env.text[i], *equals = strchr(text, '=');

        if (equals == NULL || equals == text)
            return ps_fail(e, PS_ERR_INVALID, "--env: expected K=V, got '%.64s'", text);
    }
    if (line->len == 0)
        return ps_fail(e, PS_ERR_INVALID, "expected a program to run: psrun [options] -- program [args]");
    return PS_OK;
}
