/* What psctl shows: the shards' answers as tables for people or as one JSON document. Pure, but for the stream it
 * writes to. */
#ifndef CLIENT_TOOLS_VIEW_H
#define CLIENT_TOOLS_VIEW_H

#include <stdio.h>

#include "ask.h"

enum view_kind { VIEW_STATUS, VIEW_VARIABLES, VIEW_STATS, VIEW_WORKERS, VIEW_BLOCKED, VIEW_PING, VIEWS };

/* Tables; then a line for each shard that was not reached. */
void view_print(enum view_kind kind, const struct answer *answers, uint32_t n, FILE *out);

/* {"command": "status", "shards": [{"shard": 0, "address": "...", "reached": true, "report": {...}},
 *  {"shard": 1, "address": "...", "reached": false, "error": {"code": "UNREACHABLE", "text": "...", "peer": "..."}}],
 *  "not_reached": 1}. For ping, "ping": {"count", "min_us", "median_us", "max_us"} instead of "report". */
void view_print_json(enum view_kind kind, const struct answer *answers, uint32_t n, FILE *out);

#endif
