/* Every column and counter that psctl shows: what it is called and what it says. The views make their tables of these,
 * and psctl(1) and --help explain them from the same words. Pure. */
#ifndef CLIENT_TOOLS_OUTPUT_H
#define CLIENT_TOOLS_OUTPUT_H

#include "common/cli/command.h"

/* Of what all of them have in common: units, blocks. */
extern const char output_about[];

/* The columns of each table, in order, ended by a NULL. */
extern const struct command_entry output_status[], output_jobs[], output_variables[], output_workers[],
    output_blocked[], output_ping[], output_ranking[], output_snapshot[], output_ages[], output_limits[],
    output_trace_workers[], output_trace_shards[], output_top_shards[], output_top_workers[], output_top_variables[];

/* Counters: a member of the StatsReport, its name, and what it counts. */
enum output_stat_kind {
    STAT_COUNT,
    STAT_BYTES,
    STAT_TROUBLE /* more than none is worth a look */
};
/* clang-format off */
#define OUTPUT_STATS_LIST(X) \
    X(turns, COUNT, "loop turns", \
      "batches of events that the shard handled together") \
    X(commits, COUNT, "transactions committed", \
      "turns that changed something, and wrote it to the live directory") \
    X(pushes_applied, COUNT, "pushes applied", \
      "pushed blocks that went into the weights; a push of many blocks counts each of them, and where the gradients " \
      "of several workers are averaged, each worker's") \
    X(pushes_repeated, COUNT, "pushes answered as repeats", \
      "pushes that had been applied before, and were sent again since their answer was lost: they change nothing") \
    X(refused_nonfinite, TROUBLE, "pushes refused: NaN or Inf", \
      "blocks of pushes with a value that is no finite number") \
    X(refused_shape, TROUBLE, "pushes refused: shape", \
      "blocks of pushes whose length is not the block's") \
    X(refused_other, TROUBLE, "pushes refused: other", \
      "blocks of pushes that were refused for another reason") \
    X(dropped_stale, COUNT, "blocks dropped: too old", \
      "pushed blocks that had missed more updates than the job's age policy allows") \
    X(dropped_late, COUNT, "blocks dropped: too late", \
      "pushed blocks of a clock whose update was made without them") \
    X(pulls, COUNT, "pulls answered", \
      "blocks that were sent to workers") \
    X(pulls_parked, COUNT, "pulls that had to wait", \
      "requests for blocks that waited for slower workers; one pull of a worker is a request to each shard that has " \
      "blocks of it") \
    X(pushed_bytes, BYTES, "bytes pushed", \
      "gradients of the pushes that were applied, 4 bytes a value") \
    X(pulled_bytes, BYTES, "bytes pulled", \
      "weights that were sent, 4 bytes a value") \
    X(lease_lapses, TROUBLE, "leases lapsed", \
      "workers that were not heard of for as long as their lease") \
    X(evictions, COUNT, "workers evicted", \
      "workers whose sessions psctl evict has ended") \
    X(bad_peers, TROUBLE, "connections closed for bad input", \
      "connections that broke the protocol") \
    X(hello_timeouts, TROUBLE, "connections closed without hello", \
      "connections that did not say who they are within --hello-timeout") \
    X(denied, TROUBLE, "denied", \
      "connections that did not prove to have a token, and requests that take a higher role than their token's")
/* clang-format on */
extern const struct command_entry output_stats[];

/* The same as psctl's subcommands have them: titles with the tables above. */
extern const struct command_section output_of_status[], output_of_jobs[], output_of_variables[], output_of_stats[],
    output_of_workers[], output_of_blocked[], output_of_ping[], output_of_snapshot[], output_of_top[],
    output_of_trace[];

#endif
