/* A trace in Chrome's format ("Trace Event Format", JSON object form), which Perfetto opens, too: processes and threads
 * with names, spans in them. Pure: the result is text, which the caller writes.
 *
 * Times in it are microseconds since its origin. otherData gives that moment, by which machine's clock, so that traces
 * of several processes can be aligned. */
#ifndef COMMON_CORE_FORMAT_TRACE_H
#define COMMON_CORE_FORMAT_TRACE_H

#include <jansson.h>

#include "common/core/format/timeline.h"

#define TRACE_MACHINE_MAX 64

/* Process ids in a trace. */
#define TRACE_SHARD_PID  1    /* of shard 0 */
#define TRACE_WORKER_PID 1001 /* of task 0 */

/* The offset of another machine's monotonic clock: its time is this one's plus ahead_ns. */
struct trace_clock {
    char machine[TRACE_MACHINE_MAX]; /* the other */
    int64_t ahead_ns;
    uint64_t round_trip_ns; /* of the request that measured it: the error is at most half of it */
};

/* The otherData of a process. */
struct trace_origin {
    uint64_t origin_ns;              /* ts 0, by the monotonic clock */
    int64_t wall_ns;                 /* the wall clock at that moment, since 1970 */
    char machine[TRACE_MACHINE_MAX]; /* its boot: processes of one boot share a clock. Empty: not known */
    struct trace_clock clock;        /* machine empty: no other is known */
};

/* The same origin at another moment. */
void trace_origin_move(struct trace_origin *o, uint64_t to_ns);

/* When the first of them began; none_ns when there are none. */
uint64_t trace_first_ns(const struct timeline_span *spans, size_t n, uint64_t none_ns);

struct trace {
    json_t *events; /* NULL: out of memory, somewhere on the way */
    struct trace_origin origin;
};

enum ps_err trace_init(struct trace *t, const struct trace_origin *origin) PS_MUST_USE;
void trace_finish(struct trace *t); /* accepts a zeroed one */

void trace_name_process(struct trace *t, uint32_t pid, const char *name);
void trace_name_thread(struct trace *t, uint32_t pid, uint32_t tid, const char *name);

/* A worker's thread: its spans as timeline_read() gives them. Steps get slices, and in them lie their waits and,
 * between those, what was computed. Of spans that were written over (cut), those of the step that is not whole are left
 * out. */
void trace_worker(struct trace *t, uint32_t pid, uint32_t tid, const struct timeline_span *spans, size_t n, bool cut);

/* A shard's: turns with their parts, and waits of its workers as asynchronous slices, one track for each worker. */
void trace_shard(struct trace *t, uint32_t pid, const struct timeline_span *spans, size_t n);

/* The whole of it; NULL: out of memory. Heap. */
char *trace_text(const struct trace *t);

/* otherData of a trace that was read. False: it is not one of psd's. */
bool trace_read_origin(const json_t *trace, struct trace_origin *out);

#endif
