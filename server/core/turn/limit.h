/* Limits: how much of each thing a shard takes, how much there is, and how often more was refused. One list makes the
 * reports, the sentences of the errors and the table in psd(8). Pure.
 *
 *     if (limit_reached(s, LIMIT_JOBS))
 *         return limit_refuse(s, LIMIT_JOBS, e, "no room for job '%.64s'", name);   // PS_ERR_LIMIT
 *
 * says "no room for job 'train': shard 0 has 1024 jobs, and --jobs-max allows 1024", and counts. What is enforced by
 * the glue (descriptors, messages in memory) is counted there and comes with the query (struct shard_figures). */
#ifndef SERVER_CORE_TURN_LIMIT_H
#define SERVER_CORE_TURN_LIMIT_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;
struct shard_event;

/* clang-format off */
/* id, what it counts, psd's option, whether in bytes, what happens past it; NO_OPTION: one that has none */
#define LIMIT_LIST(X, NO_OPTION) \
    X(CONNECTIONS, "connections", "connections-max", false, \
      "one that says nothing makes way for a newcomer, who is refused with LIMIT and closed where there is none; the last 32, a sixteenth at most, are kept for Unix sockets, this machine and tokens with role admin") \
    NO_OPTION(DESCRIPTORS, "open files", false, \
      "the system's (ulimit -n): a newcomer is refused with LIMIT and closed; when none is left it waits to be accepted") \
    X(JOBS, "jobs", "jobs-max", false, \
      "a job that was opened and never used makes room for a new one, whose hello is refused with LIMIT where there is none") \
    X(VARIABLES, "variables", "variables-max", false, \
      "the declare of a new one is refused with LIMIT") \
    X(SESSIONS, "sessions", "sessions-max", false, \
      "workers remembered, live or not: those of a job that was opened and never used make room for a new one, whose hello is refused with LIMIT where there is none") \
    X(BARRIERS, "open barriers", "barriers-max", false, \
      "who comes to a new one is refused with LIMIT") \
    X(PARKED, "parked pulls of a connection", "parked-max", false, \
      "pulls and declares that wait: the next one is refused with LIMIT") \
    X(PARKED_BYTES, "bytes of parked pulls of a connection", "parked-bytes-max", true, \
      "memory of the requests that wait: the next one is refused with LIMIT") \
    NO_OPTION(PARKED_ALL, "bytes of parked pulls of all connections", true, \
      "a quarter of --in-flight, and an eighth for one identity: the next one is refused with LIMIT") \
    NO_OPTION(UNRESOLVED, "unanswered messages of a worker", false, \
      "65,536, the window that clients keep to: one that sends more is refused with LIMIT and closed") \
    X(REDO_BACKLOG, "bytes of durable pushes that wait for the disk", "redo-backlog", true, \
      "a durable push is refused with LIMIT") \
    NO_OPTION(MEETINGS, "workers at meetings", false, \
      "of groups that form: the next one is refused with LIMIT") \
    NO_OPTION(SAVES, "saves and checkpoints that wait", false, \
      "for the one that runs, or for their clock: the next one is refused with LIMIT") \
    X(GATHER_BYTES, "bytes for gradients that wait", "gather-memory", true, \
      "set aside when a variable of a sync job is declared, which is refused with LIMIT") \
    X(IN_FLIGHT, "bytes of messages in memory", "in-flight", true, \
      "psd stops reading until some were dealt with: none is refused, each wait counts") \
    X(IN_FLIGHT_CONNECTION, "the same of a connection", "in-flight-connection", true, \
      "as above, for that connection alone")
/* clang-format on */

enum limit {
#define X(id, ...) LIMIT_##id,
    LIMIT_LIST(X, X)
#undef X
        LIMITS
};

/* Now, or of the connection or worker that has most; and the most that is taken. figures: the glue's, or NULL. */
uint64_t limit_now(const struct shard *s, enum limit limit, const struct shard_event *event);
uint64_t limit_max(const struct shard *s, enum limit limit, const struct shard_event *event);

/* How often more was refused: by the core, and by the glue before it reached the core. */
uint64_t limit_refused(const struct shard *s, enum limit limit, const struct shard_event *event);

/* There is no room for one more. Not for those of a connection or worker. */
bool limit_reached(const struct shard *s, enum limit limit);

/* PS_ERR_LIMIT with a sentence that begins as given and names the limit and its option; counted. */
enum ps_err limit_refuse(struct shard *s, enum limit limit, struct ps_error *e, const char *format, ...)
    PS_PRINTF(4, 5);

/* For the table in psd's manual and for reports: one for each limit. */
struct limit_text {
    const char *name, *option, *about; /* option: NULL when there is none */
    bool bytes;
};
extern const struct limit_text limit_texts[LIMITS];

#endif
