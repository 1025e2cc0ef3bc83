#include "client/tools/shared/output.h"

#include "common/core/wire/stats_list.h"

const char output_about[] =
    "Tables are for people; --json has every figure exactly. Bytes are binary: 1 KiB is 1024 B. Rates are per second. "
    "Below a row for all shards stands a row for each of them, where there are several. A figure that is not known is "
    "- "
    "or ?. What somebody should look at is yellow, what does not work red, jobs that are over are dim.\n"
    "\n"
    "A variable is cut into blocks, which are distributed over the shards, and shards count blocks: one push of a "
    "variable "
    "of "
    "five blocks is five pushes here, while a worker's own statistics count it once. A block takes one page of 4 KiB, "
    "17 "
    "or 65 of them, of which 4096, 69,632 or 266,240 bytes less 16 are its value: 48 bytes of head, the weights, "
    "and "
    "as many bytes again for each slot of the optimizer. The last block of a variable is seldom full, so that one of 8 "
    "floats shows 3.98 KiB.";

#define JOB                                                                                                            \
    {                                                                                                                  \
        "JOB", "the job's name"                                                                                        \
    }
#define SHARD                                                                                                          \
    {                                                                                                                  \
        "SHARD", "the shard, by its place in the list, from 0; all: over all shards"                                   \
    }
#define WORKER                                                                                                         \
    {                                                                                                                  \
        "WORKER", "the worker's number in its job, from 0"                                                             \
    }

const struct command_entry output_status[] = {
    SHARD,
    {"ADDRESS", "where it was asked"},
    {"STATE", "serving, draining (it stops when what is under way is answered), or not reached"},
    {"UP FOR", "since the process was started; the data may be older"},
    {"PID", "its process there"},
    {"WORKERS", "workers of all jobs whose lease holds; each shard counts all of them, so they are not added up"},
    {"VARIABLES", "variables that have blocks on it; not added up, since one may lie on several shards"},
    {"BLOCKS", "blocks on it"},
    {"DATA", "bytes of their values, see above"},
    {"MEMORY", "of its live directory: pages in use, of the most that it may take"},
    {"IN FLIGHT", "bytes of messages that are arriving or on their way out, of the most that it takes (--in-flight)"},
    {"CONNECTIONS", "open connections, also this one"},
    {"SAVED", "number and age of its newest save on disk, how far the one is that runs, why the last one failed; -: it "
              "keeps nothing on disk"},
    {NULL, NULL}};

const struct command_entry output_jobs[] = {
    JOB,
    SHARD,
    {"WORKERS", "how many its newest round has"},
    {"LIVE", "workers whose lease holds, connected or not; over all shards each worker counts once, as the worst that "
             "any shard says of it"},
    {"LAPSED", "workers that were not heard of for as long as their lease: nobody waits for them"},
    {"FINISHED", "workers that said goodbye. A job that has such workers, and no others, is over: it comes last"},
    {"SLOWEST CLOCK", "the clock of the slowest live worker; the least that any shard has seen"},
    {"FASTEST CLOCK", "the clock of the fastest worker; the most that any shard has seen"},
    {"VARIABLES", "variables that have blocks on it; over all shards each counts once"},
    {"PULLS PARKED", "requests for blocks that wait for slower workers now"},
    {"OPTIONS",
     "how the job's workers keep step, as it is now; declared: as it was opened, where that has been changed since"},
    {NULL, NULL}};

const struct command_entry output_variables[] = {
    JOB,
    {"VARIABLE", "the variable's name; total: all that are shown"},
    {"SHAPE", "its dimensions"},
    SHARD,
    {"BLOCKS", "blocks of it there"},
    {"BYTES", "bytes of their values, see above"},
    {"VERSION", "updates that a block has taken: the least and the most among them"},
    {"PUSHES", "pushed blocks that were applied; where the gradients of several workers are averaged, each worker's"},
    {"PUSHED", "bytes of those gradients, 4 a value"},
    {"PULLS", "blocks that were sent to workers"},
    {"PULLED", "bytes of those weights, 4 a value"},
    {"REFUSED", "blocks of pushes that were refused: not finite, of another shape, or otherwise wrong"},
    {"DROPPED", "pushed blocks that were too old for the job's age policy, or too late for their clock's update"},
    {"RATE", "the learning rate of the next update of each shard's newest block: the least and the most"},
    {"OPTIMIZER",
     "how gradients become updates, as it is now; declared: as it was declared, where that has been changed since"},
    {NULL, NULL}};

const struct command_entry output_ranking[] = {
    JOB,
    {"VARIABLE", "the variable's name"},
    {"BYTES", "bytes of its blocks on all shards, see above"},
    {"VERSION", "updates that its newest block has taken"},
    {"PUSHES", "pushed blocks of it that were applied"},
    {"PUSHES/S", "the same in each second between two looks (--watch)"},
    {"PUSHED", "bytes of those gradients, 4 a value"},
    {"PUSHED/S", "bytes of them in each second (--watch)"},
    {"PULLS", "blocks of it that were sent to workers"},
    {"PULLS/S", "the same in each second (--watch)"},
    {"PULLED", "bytes of those weights, 4 a value"},
    {"PULLED/S", "bytes of them in each second (--watch)"},
    {"AGE", "the mean age of its pushes: how many updates of a block came between a worker's pull of it and its push"},
    {"REFUSED", "blocks of pushes that were refused"},
    {"DROPPED", "pushed blocks that were too old or too late"},
    {"OPTIMIZER", "how gradients become updates, as it is now"},
    {NULL, NULL}};

const struct command_entry output_stats[] = {
#define OUTPUT_STAT(member, page, kind, name, about, ...) {name, about},
    STATS_REPORTED(OUTPUT_STAT)
#undef OUTPUT_STAT
        {NULL, NULL}};

const struct command_entry output_ages[] = {
    {"AGE", "how many updates of a block came between a worker's pull of it and its push"},
    {"BLOCKS", "pushed blocks of that age, since the shards were started"},
    {"SHARE", "of all that were pushed"},
    {NULL, NULL}};

const struct command_entry output_trace_workers[] = {
    {"WORKER", "which worker, and which of its threads has steps, where several have; all: all of them"},
    {"STEPS", "steps that ended"},
    {"STEP", "how long one took in the mean, from a tick to the next"},
    {"COMPUTE", "of that what was waited for nothing, in the mean of a step, and its share"},
    {"PULL", "waiting until values were there"},
    {"PUSH", "waiting until pushes and ticks were acknowledged"},
    {"ALL-REDUCE", "waiting for collectives"},
    {"BOUND", "the part of pulls and pushes in which the shards waited for other workers"},
    {"BARRIER", "waiting at barriers"},
    {"OTHER", "declaring, asking, saving"},
    {NULL, NULL}};

const struct command_entry output_trace_shards[] = {{"SHARD", "which shard"},
                                                    {"TURNS", "turns of its loop that were kept"},
                                                    {"OVER", "from the first of them to the last"},
                                                    {"APPLY", "of that: frames read, checked and applied"},
                                                    {"COMMIT", "committing"},
                                                    {"ANSWER", "answers handed to the kernel"},
                                                    {"IDLE", "between turns: nothing was there to do"},
                                                    {NULL, NULL}};

const struct command_entry output_limits[] = {
    {"LIMIT", "what is limited; psd(8) says what happens past it"},
    {"NOW", "how much there is; of a connection or worker: of the one that has most"},
    {"OF", "the most that is taken"},
    {"SHARD", "the shard that is nearest to it"},
    {"REFUSED", "how often more was refused, on all shards; for messages in memory how often one had to wait"},
    {"OPTION", "of psd, that sets it"},
    {NULL, NULL}};

const struct command_entry output_workers[] = {
    JOB,
    WORKER,
    {"SHARD", "the shard that says so; each knows all workers"},
    {"STATE", "live; away: not connected, its lease holds; lapsed: not heard of for as long as its lease; evicted: "
              "psctl evict has ended it; finished: it said goodbye"},
    {"CLOCK", "its clock: how many steps it has ended"},
    {"LAST SEQ", "pushes, clocks and barriers are numbered, for each shard from 1: all up to this one are settled"},
    {"UNANSWERED", "numbered messages that have come and are not answered yet, since they wait for other workers"},
    {"SILENT", "since it was last heard"},
    {"LEASE", "how long it may be silent before it lapses"},
    {"PROCESS", "what it calls itself: host and process"},
    {NULL, NULL}};

const struct command_entry output_blocked[] = {
    JOB,
    {"WORKER", "the worker's number in its job, from 0; or who else waits"},
    {"WAITS IN", "pull, push, barrier and its name, declare, attach, durable push, save, checkpoint"},
    {"AT CLOCK", "its own clock"},
    {"FOR", "the workers that it waits for; or what, when that is the shard's own work"},
    {"UNTIL CLOCK", "the clock that they must reach; a barrier has none"},
    {"SINCE", "how long it has waited"},
    {"SHARD", "the shard where it waits"},
    {"VARIABLE", "the variable whose block it waits for"},
    {NULL, NULL}};

const struct command_entry output_ping[] = {{"SHARD", "the shard, by its place in the list, from 0"},
                                            {"ADDRESS", "where it was asked"},
                                            {"ROUND TRIPS", "how many were made, one after the other"},
                                            {"MIN", "the shortest"},
                                            {"MEDIAN", "half of them took less"},
                                            {"MAX", "the longest"},
                                            {NULL, NULL}};

const struct command_entry output_snapshot[] = {
    {"TENSOR", "a variable's name; with --slots also NAME#0, ... of its optimizer, NAME#version and NAME#clock"},
    {"SHAPE", "its dimensions; where they or its type are others, both"},
    {"IS", "added (only B has it), removed (only A has it), reshaped or changed"},
    {"CHANGED", "elements that are not equal"},
    {"OF", "its elements"},
    {"MAX", "the greatest distance of two elements"},
    {"L2", "the L2 norm of B - A"},
    {"OF A", "the same in percent of the norm of A"},
    {"NOT FINITE", "changed elements of which one is NaN or infinite; the norms leave them out"},
    {NULL, NULL}};

static const struct command_entry output_top_head[] = {
    {"jobs",
     "those that have workers; over: their workers have all finished. Such jobs are left out below, but with --all"},
    {"pushes/s, pushed, pulled", "pushed blocks that were applied, their bytes, and bytes of weights that were sent"},
    {"refused/s, dropped/s", "blocks of pushes that were refused, and that were too old or too late"},
    {"age median, 99th", "updates of a block that came between a worker's pull of it and its push: half of the pushes "
                         "between two looks had missed no more, and 99 of 100"},
    {">", "at a line's end: the terminal is too narrow, and what is missing was cut"},
    {NULL, NULL}};

const struct command_entry output_top_shards[] = {
    {"SHARD", "the shard, by its place in the list, from 0"},
    {"STATE", "serving, draining or not reached"},
    {"MEMORY", "how much of the most that its live directory may take is in use"},
    {"PUSHES/S", "pushed blocks that were applied"},
    {"PUSHED", "bytes of those gradients"},
    {"PULLED", "bytes of weights that were sent to workers"},
    {"IN FLIGHT", "bytes of messages that are arriving or on their way out, now"},
    {"TURNS/S", "batches of events that it handled together"},
    {"CONNECTIONS", "open connections, also this one"},
    {"ADDRESS", "where it was asked"},
    {NULL, NULL}};

const struct command_entry output_top_workers[] = {
    JOB,
    WORKER,
    {"STATE", "live, away, lapsed, evicted or finished, as workers explains them; the worst that any shard says"},
    {"CLOCK", "its clock; the least that any shard has seen"},
    {"BEHIND", "clocks that it is behind the fastest of its job"},
    {"UNANSWERED", "numbered messages, on all shards, that wait for other workers"},
    {"WAITS IN, FOR", "its longest wait: in what, for which workers, until which clock, since when"},
    {NULL, NULL}};

const struct command_entry output_top_variables[] = {
    JOB,
    {"VARIABLE", "the variable's name"},
    {"PUSHES/S", "pushed blocks of it that were applied"},
    {"PUSHED", "bytes of those gradients"},
    {"PULLED", "bytes of its weights that were sent"},
    {"BYTES", "bytes of its blocks on all shards, see above"},
    {"VERSION", "updates that its newest block has taken"},
    {"REFUSED", "blocks of pushes that were refused since the shards were started"},
    {"OPTIMIZER", "how gradients become updates, as it is now"},
    {NULL, NULL}};

const struct command_section output_of_status[] = {{"Columns of status", output_status}, {NULL, NULL}};
const struct command_section output_of_jobs[] = {{"Columns of jobs", output_jobs}, {NULL, NULL}};
const struct command_section output_of_variables[] = {
    {"Columns of variables", output_variables}, {"Columns of variables --top", output_ranking}, {NULL, NULL}};
const struct command_section output_of_stats[] = {{"Counters of stats", output_stats},
                                                  {"Ages in stats", output_ages},
                                                  {"Limits in stats", output_limits},
                                                  {NULL, NULL}};
const struct command_section output_of_workers[] = {{"Columns of workers", output_workers}, {NULL, NULL}};
const struct command_section output_of_blocked[] = {{"Columns of blocked", output_blocked}, {NULL, NULL}};
const struct command_section output_of_snapshot[] = {{"Columns of snapshot diff", output_snapshot}, {NULL, NULL}};
const struct command_section output_of_ping[] = {{"Columns of ping", output_ping}, {NULL, NULL}};
const struct command_section output_of_trace[] = {
    {"Workers in trace", output_trace_workers}, {"Shards in trace", output_trace_shards}, {NULL, NULL}};
const struct command_section output_of_top[] = {{"Head of top", output_top_head},
                                                {"Shards in top", output_top_shards},
                                                {"Workers in top", output_top_workers},
                                                {"Variables in top", output_top_variables},
                                                {NULL, NULL}};
