/* A shard's trace: of spans that were read, and as a file, when it ends (PSD_TRACE_FILE). Glue. */
#ifndef SERVER_PROCESS_SHARD_TRACE_FILE_H
#define SERVER_PROCESS_SHARD_TRACE_FILE_H

#include "common/core/format/trace.h"
#include "server/core/shard/shard.h"

/* trace_finish() is owed. Without memory its events are NULL. */
void shard_trace_of_spans(struct trace *out, uint32_t shard, const struct timeline_span *spans, size_t n);

/* Nothing where the environment names no file. shard: its number. */
void shard_trace_file_write(const struct shard *s, uint32_t shard);

#endif
