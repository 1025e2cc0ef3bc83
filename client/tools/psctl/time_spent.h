/* Where the time goes, from a trace's events: of each worker the parts of its steps, of each shard those of its turns.
 */
#ifndef CLIENT_TOOLS_TIME_SPENT_H
#define CLIENT_TOOLS_TIME_SPENT_H

#include <jansson.h>

#include "client/tools/shared/page.h"

/* A table of workers and one of shards, each where there are any. */
void time_spent_print(const json_t *events, const struct page *page);

/* {"workers": [{"worker", "steps", "step_us", "compute_us", "pull_us", ...}], "shards": [{"shard", "turns", "us",
 * "apply_us", "commit_us", "answer_us", "idle_us"}]}: microseconds of all steps, not of one. */
json_t *time_spent_json(const json_t *events);

#endif
