/* Traffic: what one worker, or one variable, has sent and received, and how long requests waited for it, since the
 * process began: plain counters, raised where the shard's own are (stats.h). */
#ifndef SERVER_CORE_TURN_TRAFFIC_H
#define SERVER_CORE_TURN_TRAFFIC_H

#include "common/core/base/base.h"
#include "server/core/turn/durations.h"

struct shard;
struct session;
struct variable;

/* One row for each counter: fields of struct traffic, Prometheus' families of variables and of workers (metrics.h),
 * members of the page's variables, and fields of psd.proto's VariableReport are made from it.
 *
 *     X(member, shown, kind, variable's family, its help, worker's family, its help)
 *
 *     shown  PAGE: on the page and in the report; REPORT: in the report; METRIC: in neither
 *     kind   enum exposition_kind
 *
 * All are counted by block. ages: of the pushes that count, added up; age_max: the greatest, also of what was dropped.
 */
/* clang-format off */
#define TRAFFIC_LIST(X)                                                                                               \
    X(pushes, PAGE, COUNTER,                                                                                          \
      "psd_variable_pushes_total", "Gradients of its blocks that were applied.",                                      \
      "psd_worker_pushes_applied_total", "Gradients of blocks that came from this worker and were applied.")          \
    X(pushed_bytes, PAGE, COUNTER,                                                                                    \
      "psd_variable_pushed_bytes_total", "Bytes of these.",                                                           \
      "psd_worker_pushed_bytes_total", "Bytes of these.")                                                             \
    X(pulls, PAGE, COUNTER,                                                                                           \
      "psd_variable_pulls_total", "Blocks of it that were sent.",                                                     \
      "psd_worker_pulls_total", "Blocks that were sent to it.")                                                       \
    X(pulled_bytes, PAGE, COUNTER,                                                                                    \
      "psd_variable_pulled_bytes_total", "Bytes of these.",                                                           \
      "psd_worker_pulled_bytes_total", "Bytes of these.")                                                             \
    X(refused, PAGE, COUNTER,                                                                                         \
      "psd_variable_refused_total", "Gradients of its blocks that were refused.",                                     \
      "psd_worker_pushes_refused_total", "Gradients of blocks of this worker that were refused.")                     \
    X(dropped, PAGE, COUNTER,                                                                                         \
      "psd_variable_dropped_total", "Gradients of its blocks that were too old or too late.",                         \
      "psd_worker_pushes_dropped_total", "Gradients of blocks of this worker that were too old or too late.")         \
    X(ages, REPORT, COUNTER,                                                                                          \
      "psd_variable_push_age_updates_total", "Ages of those that were applied, added up.",                            \
      "psd_worker_push_age_updates_total", "Ages of those that were applied, added up.")                              \
    X(age_max, METRIC, GAUGE,                                                                                         \
      "psd_variable_push_age_max_updates", "The greatest age of a gradient of its blocks since psd began.",           \
      "psd_worker_push_age_max_updates", "The greatest age of a gradient of this worker since psd began.")
/* clang-format on */

enum traffic_shown { TRAFFIC_METRIC, TRAFFIC_REPORT, TRAFFIC_PAGE };

struct traffic {
#define X(member, ...) uint64_t member;
    TRAFFIC_LIST(X)
#undef X
};

/* The reasons of waits that are for a variable; of such a wait the variable counts how long it was. */
#define TRAFFIC_WAITS 4
extern const enum wait traffic_waits[TRAFFIC_WAITS];

/* Gradients of so many blocks were applied. */
void traffic_pushed(struct traffic *t, uint64_t blocks, uint64_t bytes);
void traffic_pulled(struct traffic *t, uint64_t blocks, uint64_t bytes);

/* A gradient of this worker came, of this age; it counts, or is too old to. */
void traffic_aged(struct shard *s, struct session *x, struct variable *v, uint64_t age, bool counts);

/* A wait is over, whatever ended it. */
struct traffic_wait {
    enum wait reason;
    uint64_t ms;
    uint64_t number; /* of this one among all */
};

/* Count it for the shard, and for the session that waited; x NULL: that was no worker. */
struct traffic_wait traffic_waited(struct shard *s, struct session *x, enum wait reason, uint64_t since_ms);

/* Count it for a variable that it was about: once, however often that is named. */
void traffic_waited_for(struct shard *s, const struct traffic_wait *w, uint32_t var);

#endif
