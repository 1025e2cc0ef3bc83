/* Every column and counter that psctl shows: its name and its meaning. The views make their tables of these, and
 * psctl(1) and --help explain them from the same words. Pure. */
#ifndef CLIENT_TOOLS_SHARED_OUTPUT_H
#define CLIENT_TOOLS_SHARED_OUTPUT_H

#include "common/cli/command.h"

/* About what all of them have in common: units, blocks. */
extern const char output_about[];

/* The columns of each table, in order, ended by a NULL. */
extern const struct command_entry output_status[], output_jobs[], output_variables[], output_workers[],
    output_blocked[], output_ping[], output_ranking[], output_snapshot[], output_ages[], output_limits[],
    output_trace_workers[], output_trace_shards[], output_top_shards[], output_top_workers[], output_top_variables[];

/* Counters of stats_list.h, as psctl shows them. */
enum output_stat_kind {
    STAT_COUNT,
    STAT_BYTES,
    STAT_TROUBLE /* more than none is worth a look */
};
extern const struct command_entry output_stats[];

/* The same as psctl's subcommands have them: titles with the tables above. */
extern const struct command_section output_of_status[], output_of_jobs[], output_of_variables[], output_of_stats[],
    output_of_workers[], output_of_blocked[], output_of_ping[], output_of_snapshot[], output_of_top[],
    output_of_trace[];

#endif
