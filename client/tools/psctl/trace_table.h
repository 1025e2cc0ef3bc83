/* Where the time goes, from a trace's events: of each worker the parts of its steps, of each shard its turns'. */
#ifndef CLIENT_TOOLS_PSCTL_TRACE_TABLE_H
#define CLIENT_TOOLS_PSCTL_TRACE_TABLE_H

#include <jansson.h>

#include "client/tools/shared/printer.h"

/* A table of workers and one of shards, each where there are any. */
void trace_table_print(const json_t *events, const struct printer *page);

/* {"workers": [{"worker", "steps", "step_us", "compute_us", "pull_us", ...}], "shards": [{"shard", "turns", "us",
 * "apply_us", "commit_us", "answer_us", "idle_us"}]}: microseconds of all steps, not of one. */
json_t *trace_table_json(const json_t *events);

#endif
