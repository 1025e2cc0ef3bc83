/* A shard's trace as a file, when it ends: PSD_TRACE_FILE. Glue. */
#ifndef SERVER_SPANS_FILE_H
#define SERVER_SPANS_FILE_H

#include "shard.h"

/* Nothing where the environment names no file. shard: its number. */
void spans_file_write(const struct shard *s, uint32_t shard);

#endif
