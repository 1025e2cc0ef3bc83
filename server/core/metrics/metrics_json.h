/* The figures as JSON, for the page that psd serves and for pages of others; deploy/README.md describes each member.
 * Pure. Texts that are heap memory are the caller's to free; NULL: no memory. */
#ifndef SERVER_CORE_METRICS_METRICS_JSON_H
#define SERVER_CORE_METRICS_METRICS_JSON_H

#include "server/core/metrics/history.h"

/* /api/live. at: unix time. */
char *metrics_json_text(const struct metrics *m, const char *version, double at);

/* /api/history */
char *metrics_json_history(const struct history *h);

#endif
