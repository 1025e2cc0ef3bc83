/* Writes a trace to disk, and finds its origin and machine. Glue. */
#ifndef COMMON_SYSTEM_TRACE_FILE_H
#define COMMON_SYSTEM_TRACE_FILE_H

#include "common/core/format/trace.h"

/* Sets the origin to now, on this machine. */
void trace_origin_here(struct trace_origin *out);

/* This machine's boot; empty: not known. */
void trace_machine(char out[TRACE_MACHINE_MAX]);

/* Written beside it first, then renamed into its place: it appears whole or not at all. Its directory is made if
 * missing. */
enum ps_err trace_write(const struct trace *t, const char *path, struct ps_error *e) PS_MUST_USE;

#endif
