/* Answers to QUERY: what psctl shows. */
#ifndef SERVER_CORE_SHARD_REPORT_H
#define SERVER_CORE_SHARD_REPORT_H

#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

struct shard;
struct connection;
struct shard_event;

/* Bytes of metadata after which a report stops and says that there is more. */
#define REPORT_BYTES_MAX (128 * KIB)

/* STATUS and STATS answer all at once. VARIABLES, DEFINITIONS, JOBS and WORKERS come in pages, which go on from a
 * number that the page before gave, or after the name that it ended with; BLOCKED shows those that have waited, up to
 * the size of one frame. */
void report_answer(struct shard *s, struct connection *c, uint64_t request, const Psd__Query *query,
                   const struct shard_event *event);

#endif
