/* What psctl shows: the shards' answers as tables for people or as one JSON document. Pure, but for the stream it
 * writes to. */
#ifndef CLIENT_TOOLS_VIEW_H
#define CLIENT_TOOLS_VIEW_H

#include "ask.h"
#include "page.h"

enum view_kind { VIEW_STATUS, VIEW_JOBS, VIEW_VARIABLES, VIEW_STATS, VIEW_WORKERS, VIEW_BLOCKED, VIEW_PING, VIEWS };

const char *view_name(enum view_kind kind); /* "status", ... */

/* Tables; then a line for each shard that was not reached. */
void view_print(enum view_kind kind, const struct answer *answers, uint32_t n, const struct page *page);

/* {"command": "status", "shards": [{"shard": 0, "address": "...", "reached": true, "report": {...}},
 *  {"shard": 1, "address": "...", "reached": false, "error": {"code": "UNREACHABLE", "text": "...", "peer": "..."}}],
 *  "not_reached": 1}. For ping, "ping": {"count", "min_us", "median_us", "max_us"} instead of "report". */
void view_print_json(enum view_kind kind, const struct answer *answers, uint32_t n, const struct page *page);

#endif
