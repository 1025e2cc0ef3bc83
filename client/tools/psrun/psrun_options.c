#include "client/tools/psrun/psrun_options.h"

#include <string.h>

#include "common/system/environment.h"

#define FIELD(name) offsetof(struct psrun_options, name)

static const struct option psrun_option_entries[] = {
    {.name = "shards",
     .kind = OPTION_INT,
     .argument = "S",
     .usual = "1, or as many as --ps-hosts has",
     .min = 0,
     .max = PSRUN_SHARDS_MAX,
     .offset = FIELD(shards),
     .help = "psd processes to start; 0: workers alone, for programs that reduce among themselves"},
    {.name = "ps",
     .kind = OPTION_ADDRESSES,
     .argument = "ADDR,...",
     .usual = "psrun starts the shards",
     .offset = FIELD(ps),
     .help = "start workers alone: for these shards, in order, which run already and go on running: host:port, "
             "[v6]:port or unix:/path"},
    {.name = "workers",
     .kind = OPTION_INT,
     .argument = "W",
     .usual = "1, or as many as --worker-hosts has",
     .min = 1,
     .max = PSRUN_WORKERS_MAX,
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
     .usual = "local; with --ps PSD_CLUSTER, else psd, as shards are called that psd starts with",
     .offset = FIELD(cluster),
     .help = "the cluster's name; a shard refuses workers of another one"},
    {.name = "live-dir",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .usual = "a new directory under /dev/shm, or under $TMPDIR or /tmp when that has no room, removed at the end",
     .offset = FIELD(live_dir),
     .help = "keep the shards' data in DIR/shard-0 and so on, and leave it there"},
    {.name = "durable-dir",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .usual = "none: nothing outlives power loss",
     .offset = FIELD(durable_dir),
     .help =
         "save the shards to DIR/shard-0 and so on, on a disk: a run that is given the same again goes on from there. "
         "They are saved when they are stopped, too, for which --grace must leave the time"},
    {.name = "trace",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .offset = FIELD(trace),
     .help =
         "have every worker and shard write where its time went to DIR/worker-0.json, DIR/shard-0.json and so on, "
         "when it ends; made where it is missing, on other machines under the same path. psctl trace lays them over "
         "each other"},
    {.name = "keep-servers",
     .kind = OPTION_FLAG,
     .offset = FIELD(keep_servers),
     .help = "leave the shards running when the workers have ended, and say how to reach and stop them; what they log "
             "goes to files. Ctrl-C still stops all"},
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
    {.name = "restart-workers",
     .section = "Restarts",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "0",
     .min = 0,
     .max = 1000000,
     .offset = FIELD(restart_workers),
     .help =
         "start a worker that failed again, up to N times in a row for each; it joins as a new incarnation. One that "
         "ended with 2, as programs do that were called wrongly, is not started again"},
    {.name = "restart-shards",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "0",
     .min = 0,
     .max = 1000000,
     .offset = FIELD(restart_shards),
     .help = "start a shard that ended too early again, up to N times in a row for each: on the same data and the same "
             "address, so that the workers go on"},
    {.name = "restart-delay",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "1s",
     .min = 0,
     .max = 3600 * 1000,
     .offset = FIELD(restart_delay_ms),
     .help = "before a process is started again; twice as long before the next time, and so on"},
    {.name = "restart-delay-max",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "30s",
     .min = 0,
     .max = 3600 * 1000,
     .offset = FIELD(restart_delay_ms_max),
     .help = "the longest that is waited before a process is started again"},
    {.name = "restart-reset",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "60s",
     .min = 0,
     .max = INT64_C(1000) * 3600 * 24 * 365,
     .offset = FIELD(restart_reset_ms),
     .help = "a process that ran for so long begins its row anew"},
    {.name = "hosts",
     .section = "Machines",
     .kind = OPTION_NAME,
     .argument = "HOST,...",
     .offset = FIELD(hosts),
     .help =
         "assign the shards, and the workers, to these machines in turn. A host is a name or address under which all "
         "the others reach it, or USER@HOST. This machine's own name, localhost, 127.0.0.1 and ::1 are started "
         "directly, all others through ssh"},
    {.name = "ps-hosts",
     .kind = OPTION_NAME,
     .argument = "HOST:PORT,...",
     .offset = FIELD(ps_hosts),
     .help = "one shard for each entry, which listens there; port 0 is any free one"},
    {.name = "worker-hosts",
     .kind = OPTION_NAME,
     .argument = "HOST:PORT,...",
     .offset = FIELD(worker_hosts),
     .help = "one worker for each entry; TF_CONFIG gives it that address"},
    {.name = "cluster-config",
     .kind = OPTION_FILE,
     .argument = "FILE",
     .usual = "the environment's TF_CONFIG, when it has no \"task\" and no option says what to start",
     .offset = FIELD(cluster_config),
     .help =
         "start what TF_CONFIG's text in this file (- for standard input) lists in its \"cluster\": a shard for each "
         "entry of ps, and the program for each of chief, worker and evaluator"},
    {.name = "worker-port",
     .kind = OPTION_INT,
     .argument = "PORT",
     .fallback = "2222",
     .min = 1,
     .max = UINT16_MAX - PSRUN_WORKERS_MAX,
     .offset = FIELD(worker_port),
     .help = "with --hosts: the port that TF_CONFIG gives to a host's first worker; the next one there has the next"},
    {.name = "listen-any",
     .kind = OPTION_FLAG,
     .offset = FIELD(listen_any),
     .help = "shards that have a host listen on all addresses of it, not on the one that its name has there"},
    {.name = "chdir",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .usual = "this one",
     .offset = FIELD(chdir),
     .help = "the workers' directory, on every machine; it must exist there"},
    {.name = "ssh",
     .kind = OPTION_NAME,
     .argument = "COMMAND",
     .fallback = "ssh",
     .offset = FIELD(ssh),
     .help = "how to reach other machines, such as 'ssh -p 2200 -i key'. It is never asked for a password: keys, and "
             "known hosts, must be in place"},
    {.name = "ssh-all",
     .kind = OPTION_FLAG,
     .offset = FIELD(ssh_all),
     .help = "use ssh also for hosts that are this machine"},
    {.name = "connect-timeout",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "10s",
     .min = 1000,
     .max = 3600 * 1000,
     .offset = FIELD(connect_ms),
     .help = "how long ssh may take to connect to a host"},
    {.name = "silence",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "60s",
     .min = 1000,
     .max = 3600 * 1000,
     .offset = FIELD(silence_ms),
     .help = "when a network is cut without a word, both sides give up after this time, and what ran on the "
             "other machine is killed there; a psrun that is suspended (Ctrl-Z) for longer counts as cut off"},
    {.name = "remote-psrun",
     .kind = OPTION_NAME,
     .argument = "PATH",
     .fallback = "psrun",
     .offset = FIELD(remote_psrun),
     .help = "psrun on the other machines, which starts and keeps the processes there"},
    {.name = "remote-psd",
     .kind = OPTION_TEXT,
     .argument = "PATH",
     .usual = "$PSD_BIN there, else psd beside psrun there, or in $PATH",
     .offset = FIELD(remote_psd),
     .help = "the server to run on other machines"},
};

#define ENTRIES (const struct command_entry[])

static const struct command_section psrun_sections[] = {
    {"Environment",
     ENTRIES{
         {"PSD_BIN", "the server to run, when --psd does not say it"},
         {"TF_CONFIG",
          "psrun's own: what to start, see --cluster-config; each worker's: the cluster, and which task of "
          "it this is"},
         {"PSD_TOKEN, PSD_TOKEN_FILE",
          "psrun's own: the token that shards and workers prove to each other to have; without them, and where it "
          "starts the shards, psrun makes a random one. Each process's: PSD_TOKEN has it"},
         {"PSD_TLS_CA, PSD_TLS_CERT, PSD_TLS_KEY, PSD_TLS_NAME",
          "psrun's own: each worker has them too, on other machines as well: the files are named there as here, and "
          "have to be there; nothing of them is carried. For the shards it is --psd-option=--tls-cert=FILE and so on"},
         {"PSD_CLUSTER", "each worker's: the cluster's name; with --ps psrun's own, too, unless --cluster is given"},
         {"PSD_SHARDS", "each worker's: the shards' addresses, in order"},
         {"PSD_WORKERS, PSD_TASK", "each worker's: how many there are (the chief is one), and which one this is; an "
                                   "evaluator has no number"},
         {"PSD_TRACE_FILE", "each process's, with --trace: the file that it writes"},
         {"PSRUN_COLUMNS", "each worker's, when psrun prints to a terminal: the columns that a live progress line, "
                           "redrawn with \\r, may take"},
         {NULL, NULL}}},
    {"Exit status",
     ENTRIES{{"0", "every worker ended with 0"},
             {"1", "the cluster could not be started, or a machine not be reached"},
             {"2", "the options are wrong"},
             {"124", "--timeout passed"},
             {"126, 127", "a worker's program cannot be run, or is not there"},
             {"128 + N", "psrun was stopped by signal N: 130 by Ctrl-C, 143 by TERM, 141 when nobody read its output "
                         "any more"},
             {"other", "the status of the first worker that failed, 128 + N when signal N killed it; the same for a "
                       "shard that ended early"},
             {NULL, NULL}}},
    {"Examples",
     ENTRIES{
         {"psrun --shards 2 --workers 3 -- ./train --epochs 5", "two shards, and three workers that train"},
         {"psrun --keep-servers --live-dir /dev/shm/lab -- ./train", "leave the shard, and the model in it, running"},
         {"psrun --durable-dir lab --shards 2 -- ./train",
          "go on tomorrow, after a reboot, with what the shards hold then"},
         {"psrun --ps 127.0.0.1:7420 --workers 2 -- ./train", "two workers for a shard that runs already"},
         {"psrun --trace traces --shards 2 --workers 3 -- ./train; psctl trace traces/*.json", "where the time went"},
         {NULL, NULL}}},
    {NULL, NULL},
};

const struct command psrun_command = {
    .name = "psrun",
    .manual = 1,
    .title = "start a cluster, on one machine or several, and run workers on it",
    .about =
        "Start a cluster, on this machine or on several: shards of the parameter server and workers that run the "
        "program. "
        "Each worker finds the others through TF_CONFIG; all output comes here, each line behind the name of its "
        "process. When the "
        "workers have ended, or one failed, or Ctrl-C is pressed, everything is stopped; no process is left behind, "
        "not even when psrun itself is killed.\n"
        "\n"
        "  psrun --shards 2 --workers 3 -- ./train --epochs 5\n"
        "  psrun --hosts node1,node2 --shards 2 --workers 8 -- ./train\n"
        "  psrun --ps-hosts node1:7420 --worker-hosts node1:2222,node2:2222 -- ./train\n"
        "\n"
        "On other machines psrun runs itself through ssh, and that starts the processes, in the same directory as "
        "here. "
        "They have the environment that ssh gives them, and what is named here. Nothing is left running there when "
        "psrun, ssh or the network dies.\n"
        "\n"
        "Shards on one machine share its memory: each is given its part of 80 % of what is free where its data lives, "
        "unless --psd-option says --memory or --config.",
    .operands = "program [args]",
    .program = true,
    .options = psrun_option_entries,
    .options_len = ARRAY_LEN(psrun_option_entries),
    .sections = psrun_sections,
    .see_also = "psd(8), psctl(1)",
};

/* Shards that run already are not started by psrun. */
static enum ps_err
psrun_options_check_ps(const struct psrun_options *s, struct ps_error *e)
{
    const struct {
        bool given;
        const char *name;
    } others[] = {{s->shards != 0 || s->no_shards, "shards"},
                  {s->ps_hosts != NULL, "ps-hosts"},
                  {s->cluster_config != NULL, "cluster-config"},
                  {s->psd != NULL, "psd"},
                  {s->psd_options.len > 0, "psd-option"},
                  {s->unix_sockets, "unix"},
                  {s->live_dir != NULL, "live-dir"},
                  {s->durable_dir != NULL, "durable-dir"},
                  {s->keep_servers, "keep-servers"},
                  {s->restart_shards > 0, "restart-shards"},
                  {s->listen_any, "listen-any"},
                  {s->remote_psd != NULL, "remote-psd"}};

    for (size_t i = 0; s->ps != NULL && i < ARRAY_LEN(others); i++)
        if (others[i].given)
            return ps_fail(e, PS_ERR_INVALID, "--%s is about shards that psrun starts; those of --ps run already",
                           others[i].name);
    for (size_t i = 1; s->no_shards && i < ARRAY_LEN(others); i++)
        if (others[i].given)
            return ps_fail(e, PS_ERR_INVALID, "--%s is about shards, and with --shards 0 there are none",
                           others[i].name);
    return PS_OK;
}

/* Of the ways to say what runs where, at most one; and options that do not work with it. */
static enum ps_err
psrun_options_check_hosts(const struct psrun_options *s, struct ps_error *e)
{
    bool lists = s->ps_hosts != NULL || s->worker_hosts != NULL;

    if ((s->hosts != NULL) + lists + (s->cluster_config != NULL) > 1)
        return ps_fail(e, PS_ERR_INVALID,
                       "--hosts, --ps-hosts with --worker-hosts, and --cluster-config exclude each other");
    if (s->worker_hosts != NULL && s->ps_hosts == NULL && s->ps == NULL && !s->no_shards)
        return ps_fail(e, PS_ERR_INVALID,
                       "--worker-hosts needs --ps-hosts or --ps, which say where the shards are, or --shards 0");
    if (s->shards != 0 && (s->ps_hosts != NULL || s->cluster_config != NULL))
        return ps_fail(e, PS_ERR_INVALID, "--shards: the list of hosts says how many there are");
    if (s->workers != 0 && (s->worker_hosts != NULL || s->cluster_config != NULL))
        return ps_fail(e, PS_ERR_INVALID, "--workers: the list of hosts says how many there are");
    return PS_OK;
}

/* Shards that run already were named by psd, or as the environment says. The name is kept to the end of the process. */
static enum ps_err
psrun_options_cluster(struct psrun_options *s, struct ps_error *e)
{
    char *named = NULL;
    enum ps_err err = PS_OK;

    if (s->cluster != NULL)
        return PS_OK;
    if (s->ps != NULL)
        err = environment_read("PSD_CLUSTER", &named, e);
    s->cluster = named != NULL ? named : s->ps != NULL ? "psd" : "local";
    return err;
}

enum ps_err
psrun_options_check(struct psrun_options *settings, const struct command_line *line, struct ps_error *e)
{
    for (size_t i = 0; i < settings->env.len; i++) {
        const char *text = settings->env.text[i], *equals = strchr(text, '=');

        if (equals == NULL || equals == text)
            return ps_fail(e, PS_ERR_INVALID, "--env: expected K=V, got '%.64s'", text);
    }
    if (line->len == 0)
        return ps_fail(e, PS_ERR_INVALID, "expected a program to run: psrun [options] -- program [args]");
    if (psrun_options_cluster(settings, e) != PS_OK)
        return PS_ERR_INVALID;
    settings->no_shards = settings->shards == 0 && command_given(&psrun_command, line, "shards");
    if (psrun_options_check_ps(settings, e) != PS_OK)
        return PS_ERR_INVALID;
    return psrun_options_check_hosts(settings, e);
}
