/* Records where this process's time goes (ps_timeline.h): a timeline for each thread, and queries over all of them.
 * Glue.
 *
 *     trace_recorder_open()   a client, a group or a strategy is opened
 *     trace_recorder_wait()   this thread has waited; at most two spans
 *     trace_recorder_step()   its step is over: what was waited in it counts
 *     trace_recorder_close()  it is closed; the last one writes the file that PSD_TRACE_FILE names
 *
 * A thread gets its timeline with its first wait, or when it opens something; nothing is allocated after that. */
#ifndef CLIENT_API_TRACE_RECORDER_H
#define CLIENT_API_TRACE_RECORDER_H

#include "client/include/psclient/ps_timeline.h"
#include "common/core/format/timeline.h"
#include "common/core/format/trace.h"

/* PS_ERR_CONFIG: PSD_TIMELINE in the environment is neither on nor off. */
enum ps_err trace_recorder_check(struct ps_error *e) PS_MUST_USE;

/* task: which worker this process, or where it has several this thread, is. */
void trace_recorder_open(uint32_t task);

/* The same when something else is about to say where steps end: a strategy's run holds, and its clients' ticks end
 * none. */
void trace_recorder_hold(bool hold);

void trace_recorder_close(void);

/* Whether the file of PSD_TRACE_FILE will be written when the last one has closed. */
bool trace_recorder_writes(void);

/* The offset of a shard's machine's clock from this one's, for the file. */
void trace_recorder_knows(const struct trace_clock *clock);

bool trace_recorder_records(void);

/* From start to end, of which a shard waited held_ns for other workers. */
void trace_recorder_wait(enum timeline_kind kind, uint64_t start_ns, uint64_t end_ns, uint64_t held_ns, uint64_t bytes);

/* A tick: nothing while a strategy holds. */
void trace_recorder_tick(uint64_t step);

/* A strategy's run begins: what went before is not of its first step. */
void trace_recorder_begin(void);
void trace_recorder_step(uint64_t step);

#endif
