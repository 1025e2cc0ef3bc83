/* A long command of one client, such as an export, ends when a shard that it has lost does not come back: a client
 * itself goes on trying for as long as its call may take, which for a worker is right.
 *
 *     lost_shard_init(&lost, &options, patience_ms);
 *     err = ps_client_open(cluster, &options, &client, &e);
 *     if (err == PS_OK) {
 *         lost_shard_watch(&lost, client);
 *         err = ... a call that takes long ...
 *         err = lost_shard_end(&lost, err, &e);
 *         ps_client_close(client);
 *     }
 *
 * Threads: the client's events come from the thread that waits; one more waits while a shard is lost. */
#ifndef CLIENT_TOOLS_PSCTL_QUERY_LOST_SHARD_H
#define CLIENT_TOOLS_PSCTL_QUERY_LOST_SHARD_H

#include <pthread.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"

#define LOST_SHARDS_MAX 64 /* of more, the others are not waited for */

struct lost_shard {
    ps_client *client;
    uint64_t patience_ms;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool waits; /* the thread runs */
    bool ended, gave_up;
    uint64_t until_ms; /* of the first that was lost */
    struct ps_error lost[LOST_SHARDS_MAX];
    size_t lost_len;
};

/* Before the client is opened: its events come here. */
void lost_shard_init(struct lost_shard *l, struct ps_client_options *options, uint64_t patience_ms);
void lost_shard_watch(struct lost_shard *l, ps_client *client);

/* After the call, before the client is closed: its result, or UNREACHABLE with a sentence when a lost shard ended it.
 */
enum ps_err lost_shard_end(struct lost_shard *l, enum ps_err err, struct ps_error *e);

#endif
