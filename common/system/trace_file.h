/* A trace's way to disk, and what only the machine can tell of it. Glue. */
#ifndef COMMON_TRACE_FILE_H
#define COMMON_TRACE_FILE_H

#include "common/core/format/trace.h"

/* Now is the origin, of this machine. */
void trace_origin_here(struct trace_origin *out);

/* This machine's boot; empty: not known. */
void trace_machine(char out[TRACE_MACHINE_MAX]);

/* Beside it first, then in its place: it appears whole or not at all. Its directory is made where it is missing. */
enum ps_err trace_write(const struct trace *t, const char *path, struct ps_error *e) PS_MUST_USE;

#endif
