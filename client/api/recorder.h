/* Who keeps where this process's time goes (ps_timeline.h): a timeline for each thread, and what may be asked of all of
 * them. Glue.
 *
 *     recorder_open()    a client, a group or a strategy is there
 *     recorder_wait()    this thread has waited; at most two spans
 *     recorder_step()    its step is over: what was waited in it counts
 *     recorder_close()   it is not there any more; the last one writes the file that PSD_TRACE_FILE names
 *
 * A thread gets its timeline with its first wait, or when it opens something; nothing is allocated after that. */
#ifndef CLIENT_RECORDER_H
#define CLIENT_RECORDER_H

#include "client/include/psclient/ps_timeline.h"
#include "common/core/format/timeline.h"
#include "common/core/format/trace.h"

/* task: which worker this process, or where it has several this thread, is. */
void recorder_open(uint32_t task);

/* The same when something else is about to say where steps end: a strategy's run holds, and its clients' ticks end
 * none. */
void recorder_hold(bool hold);

void recorder_close(void);

/* Whether the file of PSD_TRACE_FILE will be written when the last one has closed. */
bool recorder_writes(void);

/* How the clock of a shard's machine stands to this one's, for the file. */
void recorder_knows(const struct trace_clock *clock);

bool recorder_keeps(void);

/* From start to end, of which a shard waited held_ns for other workers. */
void recorder_wait(enum timeline_kind kind, uint64_t start_ns, uint64_t end_ns, uint64_t held_ns, uint64_t bytes);

/* A tick: nothing while a strategy holds. */
void recorder_tick(uint64_t step);

/* A strategy's run begins: what went before is not of its first step. */
void recorder_begin(void);
void recorder_step(uint64_t step);

#endif
