/* What psctl shows: the shards' answers as tables for people or as one JSON document. Pure, but for the stream it
 * writes to. */
#ifndef CLIENT_TOOLS_PSCTL_VIEWS_RENDER_H
#define CLIENT_TOOLS_PSCTL_VIEWS_RENDER_H

#include "client/tools/psctl/query/query_all.h"
#include "client/tools/shared/printer.h"

enum view_kind { VIEW_STATUS, VIEW_JOBS, VIEW_VARIABLES, VIEW_STATS, VIEW_WORKERS, VIEW_BLOCKED, VIEW_PING, VIEWS };

const char *render_name(enum view_kind kind); /* "status", ... */

/* Tables; then a line for each shard that was not reached. */
void render_tables(enum view_kind kind, const struct shard_answer *answers, uint32_t n, const struct printer *page);

/* These lines alone. */
void render_unreached(const struct shard_answer *answers, uint32_t n, const struct printer *page);

/* {"command": "status", "shards": [{"shard": 0, "address": "...", "reached": true, "report": {...}},
 *  {"shard": 1, "address": "...", "reached": false, "error": {"code": "UNREACHABLE", "text": "...", "peer": "..."}}],
 *  "not_reached": 1}. For ping, "ping": {"count", "min_us", "median_us", "max_us"} instead of "report", for save
 * "saved": {"save", "blocks", "bytes", "ms"}, for evict "evicted": {"found", "live", "clock", "agent"}, for drop
 * "dropped": {"found", "variables", "blocks", "bytes", "workers", "connected", "kept"}; for others nothing. */
void render_json(const char *command, const struct shard_answer *answers, uint32_t n, const struct printer *page);

/* The same document, the caller's; without reports, when another member has their content. */
json_t *render_document(const char *command, const struct shard_answer *answers, uint32_t n, bool reports);

/* {"command": "restore", "error": {"code", "text", "peer"}}, of a command that failed as a whole. The caller's. */
json_t *render_error_document(const char *command, const struct ps_error *e);

/* A path or a sentence as JSON, which is UTF-8: paths need not be, and a sentence may have been cut in the middle of a
 * character. Bytes that are no UTF-8, and control characters, become '?'. The caller's; NULL: out of memory. */
json_t *render_text(const char *text);

/* Print it, and free it. The second: one that has reports of these answers, whose variables are no part of it. */
void render_print_document(json_t *document, const struct printer *page);
void render_print_answers(json_t *document, const struct shard_answer *answers, uint32_t n, const struct printer *page);

#endif
