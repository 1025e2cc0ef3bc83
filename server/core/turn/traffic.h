/* Traffic: what one worker, or one variable, has sent and got, and how long it was waited there, since the process
 * began: plain counters, raised where the shard's own are (stats.h). */
#ifndef SERVER_TRAFFIC_H
#define SERVER_TRAFFIC_H

#include "common/core/base/base.h"
#include "server/core/turn/durations.h"

struct shard;
struct session;
struct variable;

struct traffic {
    uint64_t pushes, pushed_bytes, pulls, pulled_bytes, refused, dropped; /* per block */
    uint64_t ages, age_max;    /* of these pushes, added up; the greatest, also of what was dropped */
    uint64_t waited_ms[WAITS]; /* in waits that are over */
};

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

/* For all, and for who waited; x NULL: that was no worker. */
struct traffic_wait traffic_waited(struct shard *s, struct session *x, enum wait reason, uint64_t since_ms);

/* For a variable that it was about: once, however often it is named. */
void traffic_waited_for(struct shard *s, const struct traffic_wait *w, uint32_t var);

/* Over a reload, which makes variables and sessions anew. Without memory they begin at 0, as after a restart. */
struct traffic_kept {
    struct traffic *variables; /* [variables_len + 1], by id */
    uint32_t variables_len;
    struct traffic_of *sessions; /* [sessions_len] */
    uint64_t sessions_len;
};
void traffic_keep(const struct shard *s, struct traffic_kept *kept);
void traffic_give_back(struct shard *s, struct traffic_kept *kept);

#endif
