/* Traffic over a reload, which makes variables and sessions again. Without memory they begin at 0, as after a
 * restart. */
#ifndef SERVER_CORE_SESSIONS_TRAFFIC_KEPT_H
#define SERVER_CORE_SESSIONS_TRAFFIC_KEPT_H

#include "common/core/base/base.h"
#include "server/core/turn/traffic.h"

struct shard;
struct traffic_kept_variable;
struct traffic_kept_session;

struct traffic_kept {
    struct traffic_kept_variable *variables; /* [variables_len] */
    uint32_t variables_len;
    struct traffic_kept_session *sessions; /* [sessions_len] */
    uint64_t sessions_len;
};
void traffic_kept_take(const struct shard *s, struct traffic_kept *kept);
void traffic_kept_give_back(struct shard *s, struct traffic_kept *kept); /* and free it */

#endif
