/* psctl's command line: every option, every command and their text in the manual page. */
#include "client/tools/psctl/psctl_commands.h"

#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/top/top.h"
#include "client/tools/psctl/views/ranking.h"
#include "client/tools/shared/output.h"
#include "common/core/optimizer/optimizer.h"
#include "common/core/wire/wire.h"

#define JSON_COMMANDS                                                                                                  \
    "status jobs variables stats workers blocked ping top set drain evict drop save verify checkpoint restore "        \
    "snapshot trace export import bench"
#define FIELD(name) offsetof(struct psctl_settings, name)

static const struct option_choice colours[] = {
    {"auto", COLOUR_AUTO}, {"always", COLOUR_ALWAYS}, {"never", COLOUR_NEVER}, {NULL, 0}};
static const struct option_choice sorts[] = {
    {"load", TOP_BY_LOAD}, {"memory", TOP_BY_MEMORY}, {"name", TOP_BY_NAME}, {NULL, 0}};

static const struct option_choice modes[] = {{"async", PS_ASYNC}, {"ssp", PS_SSP}, {"sync", PS_SYNC}, {NULL, 0}};
static const struct option_choice ranks[] = {{"bytes", RANKING_BYTES},     {"pushes", RANKING_PUSHES},
                                             {"pushed", RANKING_PUSHED},   {"pulls", RANKING_PULLS},
                                             {"pulled", RANKING_PULLED},   {"age", RANKING_AGE},
                                             {"version", RANKING_VERSION}, {"refused", RANKING_REFUSED},
                                             {"dropped", RANKING_DROPPED}, {NULL, 0}};

static const struct option psctl_options[] = {
    {.name = "shards",
     .kind = OPTION_TEXT,
     .argument = "ADDR,...",
     .usual = "TF_CONFIG's ps, else PSD_SHARDS, else " PSCTL_USUAL_SHARD ", where psd listens by itself",
     .offset = FIELD(shards),
     .help = "the shards, in order: host:port, [v6]:port or unix:/path"},
    {.name = "tls-ca",
     .kind = OPTION_FILE,
     .argument = "FILE",
     .usual = "PSD_TLS_CA, else no encryption",
     .offset = FIELD(tls_ca),
     .help = "speak TLS with the shards, and believe those whose certificates this CA file leads to"},
    {.name = "tls-cert",
     .kind = OPTION_FILE,
     .argument = "FILE",
     .usual = "PSD_TLS_CERT",
     .offset = FIELD(tls_cert),
     .help = "show shards that demand one (psd --tls-client-ca) this certificate"},
    {.name = "tls-key",
     .kind = OPTION_FILE,
     .argument = "FILE",
     .usual = "PSD_TLS_KEY",
     .offset = FIELD(tls_key),
     .help = "the certificate's private key"},
    {.name = "tls-name",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .usual = "PSD_TLS_NAME, else the host of each address",
     .offset = FIELD(tls_name),
     .help = "the name that the shards' certificates must have"},
    {.name = "token-file",
     .kind = OPTION_FILE,
     .argument = "FILE",
     .usual = "PSD_TOKEN, else PSD_TOKEN_FILE",
     .offset = FIELD(token_file),
     .help = "prove to have this token, name:secret, where shards demand one; psd's own file of tokens will do, of "
             "which the "
             "first counts"},
    {.name = "job",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .usual = "all jobs; set, evict, checkpoint, export, import: the only one; restore: the checkpoint's",
     .offset = FIELD(job),
     .commands = "jobs variables workers blocked top set evict drop checkpoint restore export import",
     .help =
         "this job alone; set, evict, checkpoint, export and import need it when the cluster has more than one, drop "
         "in any case but for variables of the only one; restore: the name that the job gets"},
    {.name = "variables",
     .kind = OPTION_NAME,
     .argument = "PATTERN",
     .usual = "*, all of the job",
     .offset = FIELD(variables),
     .commands = "variables set drop export import",
     .help = "the variables that are listed, written, read, dropped, or whose optimizers are changed: names, * for any "
             "characters and "
             "? for one"},
    {.name = "except",
     .kind = OPTION_LIST,
     .argument = "PATTERN",
     .offset = FIELD(except),
     .commands = "import",
     .help = "tensors of the file that are left out, as --variables chooses them; may be given again"},
    {.name = "from-checkpoint",
     .kind = OPTION_DIRECTORY,
     .argument = "PATH",
     .offset = FIELD(from_checkpoint),
     .commands = "export",
     .help = "the weights of this checkpoint (DIR/NAME or DIR/latest), held against their checksum; asks no shard"},
    {.name = "through",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .usual = "FILE's",
     .offset = FIELD(through),
     .commands = "import",
     .help = "a directory that the shards see under the same path and may read"},
    {.name = "declare",
     .kind = OPTION_NAME,
     .argument = "OPTIMIZER",
     .offset = FIELD(declare),
     .commands = "import",
     .help =
         "declare variables that are not there, with this optimizer (sgd, adam:learning_rate=3e-4 ...) and zeros as "
         "initializer, and with --job the job, too"},
    {.name = "mode",
     .kind = OPTION_CHOICE,
     .argument = "MODE",
     .choices = modes,
     .fallback = "async",
     .offset = FIELD(mode),
     .commands = "import",
     .help = "with --declare: how workers of a job that is made keep step"},
    {.name = "bound",
     .kind = OPTION_INT,
     .argument = "N",
     .max = UINT32_MAX,
     .offset = FIELD(bound),
     .commands = "import",
     .help = "with --mode ssp: how many clocks a worker may run ahead"},
    {.name = "workers",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "1",
     .min = 1,
     .max = WIRE_WORKERS_MAX,
     .offset = FIELD(workers),
     .commands = "import",
     .help = "with --declare: how many workers a job that is made has"},
    {.name = "top",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .usual = "all",
     .offset = FIELD(top),
     .commands = "variables",
     .help = "a line for each of the N largest or busiest variables, over all shards; with --watch also how fast their "
             "figures rise, by which they are then ranked"},
    {.name = "by",
     .kind = OPTION_CHOICE,
     .argument = "KEY",
     .choices = ranks,
     .fallback = "bytes",
     .offset = FIELD(by),
     .commands = "variables",
     .help = "what --top ranks by: bytes (of memory), pushes, pushed, pulls, pulled (bytes), age (the mean of its "
             "pushes), version, refused or dropped"},
    {.name = "shard",
     .kind = OPTION_INT,
     .argument = "N",
     .max = UINT32_MAX,
     .offset = FIELD(shard),
     .commands = "drain save verify",
     .help = "the shard to drain, save or verify, by its place in the list, from 0; save, verify: all shards unless it "
             "is given"},
    {.name = "live",
     .kind = OPTION_FLAG,
     .offset = FIELD(live),
     .commands = "verify",
     .help =
         "also say how much of the live store was compared: the blocks that have not changed since they were saved"},
    {.name = "all",
     .kind = OPTION_FLAG,
     .offset = FIELD(all),
     .commands = "drain top",
     .help =
         "drain: all shards; top: also jobs that are over, whose workers have all finished: they come last, dimmed"},
    {.name = "timeout",
     .kind = OPTION_MS,
     .argument = "TIME",
     .fallback = "5s",
     .usual = "5s; for the work of save, verify, checkpoint, restore and import, and for wait 10m, of export 10m for "
              "each variable",
     .min = 100,
     .max = 24 * 3600 * 1000,
     .offset = FIELD(timeout_ms),
     .help = "how long to wait for a shard; one that refuses the connection is not "
             "waited for, but with wait, and one that is lost in the middle of such work only for 5s, in a restore or "
             "import for a minute, or for this"},
    {.name = "name",
     .kind = OPTION_NAME,
     .argument = "NAME",
     .usual = "clock-N, in async unix-MILLISECONDS",
     .offset = FIELD(name),
     .commands = "checkpoint",
     .help = "the checkpoint's name, a directory in DIR"},
    {.name = "at-clock",
     .kind = OPTION_INT,
     .argument = "N",
     .offset = FIELD(at_clock),
     .commands = "checkpoint",
     .usual = "in sync the next clock that all workers reach, else at once",
     .help = "in ssp and sync, wait until all updates up to clock N are done"},
    {.name = "keep",
     .kind = OPTION_INT,
     .argument = "N",
     .max = UINT32_MAX,
     .offset = FIELD(keep),
     .commands = "checkpoint",
     .usual = "all",
     .help = "keep the newest N checkpoints in DIR and remove the others"},
    {.name = "until",
     .kind = OPTION_INT,
     .argument = "RECORD",
     .min = 1,
     .offset = FIELD(until),
     .commands = "replay",
     .help = "instead of the list, serve the shard as this record of it left it"},
    {.name = "live-dir",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .offset = FIELD(live_dir),
     .commands = "replay",
     .help = "with --until: a new directory for that shard's data"},
    {.name = "listen",
     .kind = OPTION_ADDRESS,
     .argument = "ADDR",
     .usual = "psd's",
     .offset = FIELD(listen),
     .commands = "replay",
     .help = "with --until: where that shard listens"},
    {.name = "watch",
     .kind = OPTION_SECONDS,
     .argument = "SECONDS",
     .bare = "2s",
     .min = 100,
     .max = 24 * 3600 * 1000,
     .offset = FIELD(watch_ms),
     .commands = "status jobs variables stats workers blocked ping",
     .help = "ask again and again, this often: in place on a terminal, where q and Ctrl-C end it; elsewhere one block "
             "after the other, each below the time, or with --json one document after the other"},
    {.name = "color",
     .kind = OPTION_CHOICE,
     .argument = "WHEN",
     .choices = colours,
     .fallback = "auto",
     .offset = FIELD(colour),
     .help = "colour headings and what somebody should look at: auto (on a terminal, unless NO_COLOR is set), always "
             "or never"},
    {.name = "slots",
     .kind = OPTION_FLAG,
     .offset = FIELD(slots),
     .commands = "snapshot",
     .help = "compare what the optimizers keep, too, and versions and clocks of blocks; of checkpoints"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = FIELD(json),
     .commands = JSON_COMMANDS,
     .help = "print one JSON document; see JSON below"},
    {.name = "check",
     .kind = OPTION_FLAG,
     .offset = FIELD(check),
     .commands = "status",
     .help = "for health checks: say only which shards were not reached, drain or have a store that is 95 % full or "
             "more, and exit with 1 when there is one"},
    {.name = "count",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "20",
     .min = 1,
     .max = QUERY_PINGS_MAX,
     .offset = FIELD(count),
     .commands = "ping",
     .help = "round trips with each shard"},
    {.name = "output",
     .kind = OPTION_FILE,
     .argument = "FILE",
     .usual = "the table alone",
     .offset = FIELD(output),
     .commands = "trace",
     .help = "where the trace goes: JSON, for Chrome's about:tracing and for ui.perfetto.dev"},
    {.name = "block",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .fallback = "256KiB",
     .min = 4,
     .max = 64 * MIB,
     .offset = FIELD(block_bytes),
     .commands = "bench",
     .help = "bytes of each push and pull: of a variable"},
    {.name = "in-flight",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "4",
     .min = 1,
     .max = 256,
     .offset = FIELD(in_flight),
     .commands = "bench",
     .help = "how many of them are under way at a time; 1 for the time that one takes alone"},
    {.name = "yes",
     .kind = OPTION_FLAG,
     .offset = FIELD(yes),
     .commands = "bench drop",
     .help = "bench: also while workers train on the cluster, whom the load slows; drop: all that it would say goes"},
    {.name = "force",
     .kind = OPTION_FLAG,
     .offset = FIELD(force),
     .commands = "set drop",
     .help =
         "set: also when a schedule that is over by now makes learning rates 0, or a learning rate times weight_decay "
         "is 1 or more; drop: also while workers of the job are live, whose sessions end with DROPPED, and while a "
         "shard is not reached, where the same command completes it later"},
    {.name = "seconds",
     .kind = OPTION_SECONDS,
     .argument = "N",
     .min = 1,
     .max = 24 * 3600 * 1000,
     .usual = "all that was kept; bench: 10s",
     .offset = FIELD(seconds_ms),
     .commands = "trace bench",
     .help = "trace: only what ended in the last N seconds; bench: how long it measures"},
    {.name = "interval",
     .kind = OPTION_SECONDS,
     .argument = "SECONDS",
     .fallback = "2s",
     .min = 100,
     .max = 24 * 3600 * 1000,
     .offset = FIELD(interval_ms),
     .commands = "top",
     .help = "from one look at the shards to the next; rates are of the time between"},
    {.name = "sort",
     .kind = OPTION_CHOICE,
     .argument = "KEY",
     .choices = sorts,
     .fallback = "load",
     .offset = FIELD(sort),
     .commands = "top",
     .help = "what comes first: load (bytes moved; workers that are furthest behind), memory or name; the keys l, m "
             "and n change it"},
};

/* What psctl set can change, for completion. */
#define SET_NAME(name) #name "= "
#define SET_NAMES      OPTIMIZER_PARAMETER_LIST(SET_NAME) "schedule= clip= age= bound= workers="

/* The questions in the order of enum view_kind, then the others. */
const struct subcommand psctl_commands[WORDS] = {
    [VIEW_STATUS] = {.name = "status",
                     .output = output_of_status,
                     .about = "each shard: since when, how much it holds, what is in flight"},
    [VIEW_JOBS] = {.name = "jobs",
                   .output = output_of_jobs,
                   .about = "each job: its options, its workers, the slowest and the fastest clock, pulls that wait"},
    [VIEW_VARIABLES] = {.name = "variables",
                        .output = output_of_variables,
                        .about = "each variable: bytes, versions and traffic, in all and on each shard"},
    [VIEW_STATS] = {.name = "stats", .output = output_of_stats, .about = "counters, and how old pushes were"},
    [VIEW_WORKERS] = {.name = "workers",
                      .output = output_of_workers,
                      .about = "each worker: its clock, its lease, what is unanswered"},
    [VIEW_BLOCKED] = {.name = "blocked",
                      .output = output_of_blocked,
                      .about = "who waits for whom, until which clock, since when"},
    [VIEW_PING] = {.name = "ping", .output = output_of_ping, .about = "round trips: least, median, most"},
    [WORD_TOP] = {.name = "top",
                  .output = output_of_top,
                  .about = "a live page: rates, shards, workers and who waits for whom, variables by traffic; "
                           "without a terminal two looks, and one page of what lay between"},
    [WORD_SET] = {.name = "set",
                  .operands = "NAME=VALUE...",
                  .suggest = SET_NAMES,
                  .about = "change a running job on all shards. Of its variables' optimizers: any parameter "
                           "(learning_rate=0.01), schedule (cosine:steps=1000,warmup=50; constant, step, exponential, "
                           "cosine, linear; its steps count from now, or from begin=VERSION), clip (block_norm:1; "
                           "none, value, block_norm, given_norm). Of the job: "
                           "age (none, inverse, exponential:0.9, cutoff:8), bound (8) when it is ssp, and, while none "
                           "of its workers is live, how many workers (3) its next round has. Says what changed on how "
                           "many variables"},
    [WORD_DRAIN] = {.name = "drain",
                    .about = "stop shards as TERM does: a shard answers what is under way and exits; started again on "
                             "its live directory it goes on where it was. Needs --shard or --all; returns when they "
                             "have closed"},
    [WORD_EVICT] = {.name = "evict",
                    .operands = "WORKER",
                    .about = "end a worker's session on all shards now, as if its lease had lapsed: nobody waits for "
                             "it any more, and what it has pushed counts. Its process, also one that is stopped or "
                             "cut off and comes back, gets FENCED; another process may take its number. Again is "
                             "the same as once: do so when a shard was not reached"},
    [WORD_DROP] = {.name = "drop",
                   .about =
                       "remove a job from all shards, with its variables, their optimizers' slots and its workers' "
                       "sessions, or with --variables those of its variables alone. Says first what would go, and "
                       "asks on a terminal, or takes --yes. The memory is free for other jobs when it returns; a "
                       "checkpoint that was made before brings the job back. Refused while workers of it are live "
                       "(--force). Again is the same as once: do so when a shard was not reached"},
    [WORD_SAVE] = {.name = "save",
                   .about =
                       "write the state of all shards, or of one, to their durable directories now, and return when "
                       "it is on disk; training goes on meanwhile"},
    [WORD_VERIFY] =
        {.name = "verify",
         .about = "read what the durable directories of all shards, or of one, hold, and compare it with its checksums "
                  "and with the live store; training goes on meanwhile, and psd's --save-rate bounds the reading. What "
                  "is damaged on a disk is written again from memory; what is damaged in memory is named, and the disk "
                  "keeps the right one. It makes two saves, since a durable directory holds two: what is unchanged in "
                  "them is read, all else is written anew. The exit status is 1 when anything was damaged"},
    [WORD_CHECKPOINT] = {.name = "checkpoint",
                         .operands = "DIR",
                         .paths = true,
                         .about = "write a job's weights and optimizer slots to a new directory in DIR, which the "
                                  "shards must see under the same path and be allowed to write to: safetensors files "
                                  "and a manifest with checksums. It appears whole or not at all; then DIR/latest "
                                  "leads to it. Training goes on meanwhile. Ctrl-C, TERM and HUP take back what was "
                                  "begun"},
    [WORD_RESTORE] = {.name = "restore",
                      .operands = "PATH",
                      .paths = true,
                      .about = "put a checkpoint (DIR/NAME or DIR/latest) into the cluster, which may have another "
                               "number of shards: the job and its variables are made, or get the checkpoint's values. "
                               "All connections end; workers that come back are told that they were rolled back"},
    [WORD_EXPORT] = {.name = "export",
                     .operands = "FILE",
                     .paths = true,
                     .about =
                         "write a job's weights to a safetensors file, which other programs read, and which may be "
                         "larger than memory. It appears whole or not at all. The weights are pulled, each block "
                         "as it is then; whether any was updated meanwhile is said. Where training goes on, a "
                         "model of one moment is one of a checkpoint: --from-checkpoint"},
    [WORD_IMPORT] =
        {.name = "import",
         .operands = "FILE",
         .paths = true,
         .about = "put a safetensors file's values (F32, F16 or BF16) into a job's variables of the same names "
                  "and shapes, or declare them (--declare). --variables and --except choose tensors; of others "
                  "types and shapes do not matter. All of the file is checked before anything changes. "
                  "What their optimizers keep, and versions, begin anew; other variables stay as they are. It is "
                  "done as a restore: through a directory that the shards see (--through), where it needs room "
                  "for the values and slots; all connections end, and workers that come back are told. End the "
                  "workers first, or what they push on the way counts on top"},
    [WORD_SNAPSHOT] = {.name = "snapshot",
                       .operands = "diff A B",
                       .suggest = "diff",
                       .paths = true,
                       .output = output_of_snapshot,
                       .about =
                           "compare two checkpoints (DIR/NAME, DIR/latest) or safetensors files: which tensors were "
                           "added, removed or changed, and by how much. Asks no shard; reads both a piece at a "
                           "time, without looking at checksums. Ends with 1 when they differ, with 0 when they do "
                           "not"},
    [WORD_BENCH] = {.name = "bench",
                    .about =
                        "how fast the cluster takes pushes and answers pulls from here: each for half of --seconds, "
                        "with rates and latencies. Done as the one worker of the job psctl-bench, whose variables "
                        "are and stay zeros, and are kept for the next time, or until psctl drop. Refused while "
                        "workers train, unless "
                        "--yes is given or who sits at the terminal agrees"},
    [WORD_TRACE] = {.name = "trace",
                    .operands = "[FILE...]",
                    .paths = true,
                    .output = output_of_trace,
                    .about =
                        "where the time goes: what the shards did lately, as they say now, and what workers and "
                        "shards have written to FILEs (psrun --trace DIR, or PSD_TRACE_FILE in their environment), "
                        "laid over each other: a table, and with --output a file for Chrome and Perfetto. With "
                        "FILEs the shards are asked only when --shards names them"},
    [WORD_REPLAY] = {.name = "replay",
                     .operands = "DIR",
                     .paths = true,
                     .about =
                         "list the pushes that a shard's durable directory holds since its last save, with the norms "
                         "of their gradients, to find the one that broke a model; with --until, serve the shard as "
                         "it was after one of them. Runs psd on this machine, on a directory that no psd has open; "
                         "asks no shard. A stop saves, and then nothing is left to list: end the shard with KILL"},
    [WORD_WAIT] =
        {.name = "wait",
         .about =
             "return when all shards answer, for scripts that have started them. Says on standard error which "
             "shard it waits for, and why that one does not answer; ends after --timeout with a sentence for "
             "each that is missing, and at once when a shard refuses or is another one (DENIED, TLS, CLUSTER ...)"},
};

static const struct command_section psctl_sections[] = {
    {"Environment",
     (const struct command_entry[]){{"TF_CONFIG, PSD_SHARDS", "the shards, when --shards is not given"},
                                    {"PSD_TOKEN", "the token, name:secret, when --token-file is not given"},
                                    {"PSD_TOKEN_FILE", "a file with it, when neither is"},
                                    {"NO_COLOR", "when set and not empty: no colours of itself"},
                                    {NULL, NULL}}},
    {"Exit status", (const struct command_entry[]){{"0", "all is well; --watch and top were ended by who watched"},
                                                   {"1", "a shard did not answer (the others are shown), a file could "
                                                         "not be read or written, --check found a shard that is "
                                                         "not well, verify something damaged, or snapshot diff a "
                                                         "difference"},
                                                   {"2", "the options or the configuration are wrong"},
                                                   {"3", "a shard refused what was asked for, or snapshot diff could "
                                                         "not read a file"},
                                                   {NULL, NULL}}},
    {"JSON",
     (const struct command_entry[]){
         {"status, jobs, variables, stats, workers, blocked, ping, drain, save, verify",
          "{\"command\", \"shards\": [{\"shard\", \"address\", \"reached\"}], \"not_reached\"}: for each shard also "
          "\"report\" (of a question: psd.proto's Report), \"ping\" ({\"count\", \"min_us\", \"median_us\", "
          "\"max_us\"}), \"saved\" ({\"save\", \"blocks\", \"bytes\", \"ms\"}), \"verified\" ({\"save\", "
          "\"blocks\", \"verified\", \"mended\", \"differ\", \"first_mended\", \"first_differs\", \"ms\"}), or "
          "\"error\" ({\"code\", \"text\", "
          "\"peer\"}) when it was not reached"},
         {"top",
          "the same for each round from the second on, with \"report\" of all that it asks, and \"per_second\": how "
          "fast the counters rise, null where that is not known; until a signal ends it"},
         {"variables --top",
          "the same without reports, and \"top\": [{\"job\", \"name\", \"dims\", \"bytes\", \"version\", \"pushes\", "
          "\"pushed_bytes\", \"pulls\", \"pulled_bytes\", \"age\", \"refused\", \"dropped\", "
          "\"pushes_per_second\", \"pushed_bytes_per_second\", \"pulls_per_second\", "
          "\"pulled_bytes_per_second\", \"optimizer\"}], null where a figure is not known"},
         {"evict", "the same, \"job\" and \"worker\" beside \"command\", and for each shard \"evicted\" ({\"found\", "
                   "\"live\", \"clock\", \"agent\"})"},
         {"drop", "the same, \"job\", \"pattern\" (or null) and \"variables\" (how many went) beside \"command\", and "
                  "for each shard \"dropped\" ({\"found\", \"variables\", \"blocks\", \"bytes\", \"workers\", "
                  "\"connected\", \"kept\"})"},
         {"set", "{\"command\", \"job\", \"changes\": [\"NAME=VALUE\"], \"pattern\", \"variables\", \"shards\"}"},
         {"checkpoint, restore", "{\"command\", \"path\", \"shards\"}"},
         {"trace",
          "{\"command\", \"output\", \"workers\": [{\"worker\", \"steps\", \"step_us\", \"compute_us\", "
          "\"pull_us\", \"push_us\", \"all-reduce_us\", \"bound_us\", \"barrier_us\", \"other_us\"}], \"shards\": "
          "[{\"shard\", \"turns\", \"apply_us\", \"commit_us\", \"answer_us\", \"idle_us\"}]}, microseconds in all"},
         {"any that fails as a whole", "{\"command\", \"error\": {\"code\", \"text\", \"peer\"}}, beside the sentence "
                                       "on standard error"},
         {"export", "{\"command\", \"path\", \"job\", \"variables\", \"bytes\", \"changed_blocks\", \"one_moment\", "
                    "\"clock\" (of a checkpoint, else null)}"},
         {"import", "{\"command\", \"path\", \"job\", \"variables\", \"declared\", \"elements\", \"shards\"}"},
         {"bench", "{\"command\", \"job\", \"shards\", \"block_bytes\", \"in_flight\", \"kept_bytes\", \"push\", "
                   "\"pull\"}, both {\"operations\", \"seconds\", \"per_second\", \"bytes_per_second\", \"p50_us\", "
                   "\"p90_us\", \"p99_us\", \"max_us\"}"},
         {"snapshot diff",
          "{\"command\", \"before\", \"after\", \"all\", \"different\", \"tensors\": [{\"name\", \"kind\" (added, "
          "removed, reshaped, changed), \"before\", \"after\" ({\"dtype\", \"dims\"} or null), and of those that are "
          "changed \"changed\", \"elements\", \"max\", \"l2\", \"l2_before\", \"nonfinite\"}]}"},
         {NULL, NULL}}},
    {"Examples",
     (const struct command_entry[]){
         {"psctl --shards 10.0.0.1:7420,10.0.0.2:7420 status", "how two shards are"},
         {"psctl blocked --job digits", "who waits for whom in that job"},
         {"psctl set learning_rate=0.01 clip=block_norm:1", "of all variables of the only job, from now on"},
         {"psctl drain --shard 1", "stop the second shard in good order"},
         {"psctl evict 3", "the others wait for worker 3, which hangs: they go on without it"},
         {"psctl drop --job digits", "remove that job, when it is over"},
         {"psctl checkpoint --keep 3 /srv/models/digits", "write a checkpoint there, keep the newest three"},
         {"psctl restore /srv/models/digits/latest", "go on from the newest"},
         {"psctl export digits.safetensors --variables 'dense*'", "weights for other programs"},
         {"psctl import --job serve --declare sgd digits.safetensors", "a model that was trained elsewhere"},
         {"psctl wait --timeout 2m", "in a script: return when all shards answer"},
         {"psctl import --except '*.num_batches_tracked' resnet.safetensors", "without buffers of whole numbers"},
         {"psctl bench --in-flight 1", "how long a push and a pull take, one at a time"},
         {"psctl snapshot diff models/monday models/latest", "what training has changed since then"},
         {"psctl trace --output all.json traces/*.json", "lay the traces of a run over each other"},
         {NULL, NULL}}},
    {NULL, NULL},
};

const struct command psctl_command = {
    .name = "psctl",
    .manual = 1,
    .title = "look into a cluster of psd shards, and change it",
    .about = "Ask the shards of a cluster how they are, and tell them what to change. \"psctl help COMMAND\" says what "
             "one command does, and what it prints.",
    .commands = psctl_commands,
    .commands_len = ARRAY_LEN(psctl_commands),
    .options = psctl_options,
    .options_len = ARRAY_LEN(psctl_options),
    .output = output_about,
    .sections = psctl_sections,
    .see_also = "psd(8), psrun(1)",
};
