/* Traces of several processes, merged: one list of events with one origin. Pure.
 *
 * Processes of one machine have one clock. Between machines the distance of two clocks is known where it was measured
 * (trace_merge_knows()), perhaps by way of other machines. Elsewhere the wall clocks are used.
 *
 * Running out of memory ends the process with a sentence: these are tools, and there is nothing to keep. */
#ifndef CLIENT_TOOLS_PSCTL_TRACE_MERGE_H
#define CLIENT_TOOLS_PSCTL_TRACE_MERGE_H

#include "common/core/format/trace.h"
#include "common/include/psclient/ps_err.h"

struct trace_merge;

struct trace_merge *trace_merge_new(void);
void trace_merge_free(struct trace_merge *o); /* accepts NULL */

/* The clock of a machine is ahead of another's: this one's time plus ahead_ns is that one's. */
void trace_merge_knows(struct trace_merge *o, const char *machine, const char *other, int64_t ahead_ns);

/* One process's events, taken over; source: for people. Process ids that another trace has are changed. */
void trace_merge_add(struct trace_merge *o, json_t *events, const struct trace_origin *origin, const char *source);

/* A trace as it was read from a file, borrowed. DATA: it is not one of psd's. */
enum ps_err trace_merge_add_file(struct trace_merge *o, const json_t *trace, const char *source,
                                 struct ps_error *e) PS_MUST_USE;

/* All of them by the clock of the first that was added, from the earliest on; last_ns: only what ended in the last so
 * many ns, 0: all. Call it once. *unsure: a process that could only be placed by the wall clock, or NULL. */
struct trace trace_merge_finish(struct trace_merge *o, uint64_t last_ns, const char **unsure);

#endif
